"""
harness - running things and measuring them: the database, the store, time, memory of the workers.

Settings come from test/bench/run in BENCH_* variables.  Everything raises on an unexpected failure: a figure of
something that did not happen is worse than none.
"""
import dataclasses
import glob
import os
import re
import statistics
import subprocess
import threading
import time
from typing import Callable, List, Optional

RUN = os.environ.get("BENCH_RUN", "")
ROOT = os.environ.get("BENCH_ROOT", "")
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
PAIRS = int(os.environ.get("BENCH_PAIRS", "5"))
LIB = os.path.dirname(os.path.abspath(__file__))
BUCKET = "bench"
LONGEST = 3600                  # seconds that one command may take
BY_COPY = "by_copy"             # a role for which pgobjstore.fast_path is off


def environment():
    """What every command sees: psql finds the cluster, s3cp and rival are in the path."""
    env = dict(os.environ, PGHOST=os.path.join(RUN, "pg"), PGPORT="5432", PGUSER=os.environ["BENCH_USER"],
               PGDATABASE="postgres", BENCH_BUCKET=BUCKET)
    with open(os.path.join(RUN, "s3", "env"), encoding="utf-8") as f:
        for line in f:
            name, _, value = line.rstrip("\n").partition("=")
            env[name] = value
    env["PATH"] = ":".join([os.path.join(RUN, "bin"), LIB, os.environ["BENCH_BIN"], "/usr/bin:/bin"])
    return env


@dataclasses.dataclass
class Job:
    """What a job's row says when it is done."""
    rows: int
    raw: int
    stored: int
    objects: int
    path: str
    engine: str                 # "direct", "copy" or ""


class Bench:
    """The cluster and the store of this run."""

    def __init__(self):
        self.env = environment()
        self.fixtures = {}
        os.makedirs(os.path.join(RUN, "bin"), exist_ok=True)
        data = os.path.join(RUN, "data")
        os.makedirs(data, exist_ok=True)
        os.chmod(data, 0o777)
        self.data = data
        self.nullsink = os.path.join(RUN, "nullsink.so")
        with open(os.path.join(RUN, "bin", "s3cp"), "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\n# aws s3 cp with the test store's address and keys, for any user\n"
                    "export AWS_ACCESS_KEY_ID='%s' AWS_SECRET_ACCESS_KEY='%s' AWS_DEFAULT_REGION=us-east-1\n"
                    "export HOME='%s' PATH=/usr/bin:/bin AWS_EC2_METADATA_DISABLED=true\n"
                    "exec aws --endpoint-url '%s' s3 cp --only-show-errors \"$@\"\n"
                    % (self.env["S3_ACCESS_KEY"], self.env["S3_SECRET_KEY"], data, self.env["S3_ENDPOINT"]))
        os.chmod(f.name, 0o755)
        self.s3cp = f.name
        self.sql("CREATE EXTENSION pgobjstore;\n"
                 "CREATE ROLE %s LOGIN SUPERUSER;\nALTER ROLE %s SET pgobjstore.fast_path = off;" % (BY_COPY, BY_COPY))
        self.make_server("bench", self.env["S3_ENDPOINT"])

    # -------------------------------------------------------------- commands

    def shell(self, script, **more):
        """bash with pipefail; returns what it printed."""
        done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", script], env=dict(self.env, **more), check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=LONGEST)
        if done.returncode != 0:
            raise RuntimeError("this failed:\n%s\n%s" % (script, done.stderr[-3000:]))
        return done.stdout

    def sql(self, text, db="postgres", *options):
        """One psql, one session; returns what it printed."""
        done = subprocess.run(["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", db, *options], env=self.env, check=False,
                              input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LONGEST)
        if done.returncode != 0:
            raise RuntimeError("this failed:\n%s\n%s" % (text[:500], done.stderr[-3000:]))
        return done.stdout.rstrip("\n")

    def sql_seconds(self, text, table):
        """
        Seconds that the statement takes within a session that has read every row of the table once, all of it: mapping
        the pages of shared buffers into a new process takes a second for a gigabyte, whoever reads them.
        """
        out = self.sql("LOAD '%s';\nSET max_parallel_workers_per_gather = 0;\nSELECT count(t.*) AS rows FROM %s t \\gset\n"
                       "SELECT clock_timestamp() AS start \\gset\n%s\n"
                       "SELECT extract(epoch FROM clock_timestamp() - :'start'::timestamptz);" % (self.nullsink, table, text))
        return float(out.split("\n")[-1])

    def sql_file(self, name, *options):
        with open(os.path.join(LIB, name), encoding="utf-8") as f:
            self.sql(f.read(), "postgres", *options)

    # -------------------------------------------------------------- the store

    def make_server(self, name, endpoint, db="postgres", prefix=""):
        self.sql("CREATE SERVER %s FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://%s/%s', endpoint '%s');\n"
                 "CREATE USER MAPPING FOR PUBLIC SERVER %s OPTIONS (access_key_id '%s', secret_access_key '%s');"
                 % (name, BUCKET, prefix, endpoint, name, self.env["S3_ACCESS_KEY"], self.env["S3_SECRET_KEY"]), db)

    def make_far_server(self, name, delay_ms, window_kb):
        """A server whose every byte takes delay_ms in each direction (delayproxy.c)."""
        port = self.env["S3_ENDPOINT"].rpartition(":")[2]
        proxy = subprocess.Popen([os.path.join(RUN, "delayproxy"), port, str(delay_ms), str(window_kb)],
                                 stdout=subprocess.PIPE, text=True, cwd=self.data)
        self.make_server(name, "http://127.0.0.1:%d" % int(proxy.stdout.readline()))

    def empty(self, prefix):
        """Deletes what lies under the prefix, and the store's own remains of it: it lives in memory."""
        self.shell('"%s/test/servers/s3client" empty %s "%s"' % (ROOT, BUCKET, prefix))
        time.sleep(2)           # rgw_gc_obj_min_wait
        self.shell('radosgw-admin -c "%s/s3/ceph.conf" gc process --include-all' % RUN)

    def stored(self, prefix):
        """Bytes and count of the objects under the prefix."""
        out = self.shell('"%s/test/servers/s3client" list %s "%s"' % (ROOT, BUCKET, prefix))
        sizes = [int(n) for n in re.findall(r'"size": (\d+)', out)]
        return sum(sizes), len(sizes)

    # -------------------------------------------------------------- things made once

    def fixture(self, name, make):
        """make() at the first call with this name; its result at every call."""
        if name not in self.fixtures:
            print("   preparing %s" % name, flush=True)
            self.fixtures[name] = make()
        return self.fixtures[name]

    def forget(self, *names):
        """They will be made again when they are wanted again."""
        for name in names:
            self.fixtures.pop(name, None)

    def job(self, call, db="postgres", role=None):
        """Runs one job to its end."""
        out = self.sql("%sSELECT %s AS job \\gset\n"
                       "SELECT rows, raw_bytes, stored_bytes, objects, path, engine FROM objstore_wait(:job);"
                       % ("SET ROLE %s;\n" % role if role else "", call), db)
        rows, raw, stored, objects, path, engine = out.split("|")
        return Job(int(rows), int(raw), int(stored), int(objects), path, engine)


# ---------------------------------------------------------------- memory

class WorkerMemory(threading.Thread):
    """
    The highest private memory of one of pgobjstore's workers while this runs: RssAnon of /proc/PID/status, so without
    the server's shared memory and without the pages of programs, looked at 20 times a second.
    """

    def __init__(self):
        super().__init__(daemon=True)
        self.peak_kb = 0
        self.ended = threading.Event()
        with open(os.path.join(RUN, "pg", "data", "postmaster.pid"), encoding="utf-8") as f:
            self.postmaster = int(f.readline())

    def look(self):
        for path in glob.glob("/proc/%d/task/*/children" % self.postmaster):
            try:
                with open(path, encoding="utf-8") as f:
                    children = f.read().split()
            except OSError:
                continue
            for pid in children:
                try:
                    with open("/proc/%s/cmdline" % pid, encoding="utf-8", errors="replace") as f:
                        if "pgobjstore worker" not in f.read():
                            continue
                    with open("/proc/%s/status" % pid, encoding="utf-8") as f:
                        found = re.search(r"^RssAnon:\s+(\d+)", f.read(), re.M)
                except OSError:
                    continue    # it has just ended
                if found:
                    self.peak_kb = max(self.peak_kb, int(found.group(1)))

    def run(self):
        while not self.ended.wait(0.05):
            self.look()
        self.look()

    def stop(self):
        self.ended.set()
        self.join()
        return self.peak_kb * 1024


# ---------------------------------------------------------------- ways and scenarios

@dataclasses.dataclass
class Way:
    """
    One way of doing a scenario's work.  before, run and after take the Bench; only run is timed.  It may return the engine
    of its job, or the seconds, if it has taken the time itself.  ours: it is pgobjstore.  worker: its worker's memory is looked at.  work: raw bytes,
    if they are not the scenario's.  cost: seconds at scale 1, roughly, for the estimate.  rounds: at most so many.
    """
    name: str
    title: str
    run: Callable
    before: Optional[Callable] = None
    after: Optional[Callable] = None
    ours: bool = False
    worker: bool = False
    work: Optional[Callable] = None
    cost: float = 10
    rounds: int = 1000


@dataclasses.dataclass
class Bar:
    """
    What the project wants: that the median of way is at most `most` times that of other.  of: what is compared,
    "seconds", "seconds per byte" or "memory".
    """
    way: str
    other: str
    most: float
    of: str = "seconds"


def faster(way, other, times):
    """way is at least so many times as fast as other."""
    return Bar(way, other, 1 / times)


@dataclasses.dataclass
class Scenario:
    """
    ways: the first one is what the others are compared with.  prepare(bench) makes what they need and returns
    the raw bytes that are moved, or None where a rate says nothing.  finish(bench): what takes room goes.  chart: it
    is in the short chart.  fixed: the scale does not matter to its time.  making: seconds that prepare takes at scale 1.
    """
    name: str
    group: str
    title: str
    ways: List[Way]
    prepare: Callable
    bars: List[Bar] = dataclasses.field(default_factory=list)
    finish: Optional[Callable] = None
    chart: bool = False
    fixed: bool = False
    making: float = 60


@dataclasses.dataclass
class Result:
    """Of one way.  seconds: {round: seconds}, as not all take part in every round."""
    way: Way
    work: Optional[int]
    seconds: dict = dataclasses.field(default_factory=dict)
    memory: Optional[int] = None
    engines: set = dataclasses.field(default_factory=set)


def estimate(scenario, ways, scale=None, pairs=None):
    """Seconds that it will take, roughly: the runs, and what is made, removed and checked around them."""
    scale = SCALE if scale is None else scale
    pairs = PAIRS if pairs is None else pairs
    size = 1 if scenario.fixed else scale
    around = 5 + 4 * size
    return 20 + scenario.making * size + sum((way.cost * size + 0.5 + around) * min(pairs, way.rounds) for way in ways)


def run_once(bench, result, round_no):
    way = result.way
    if way.before:
        way.before(bench)
    bench.sql("CHECKPOINT")     # nobody pays for what the one before has left
    memory = WorkerMemory() if way.worker else None
    if memory:
        memory.start()
    start = time.monotonic()
    try:
        answer = way.run(bench)
        seconds = answer if isinstance(answer, float) else time.monotonic() - start
    finally:
        if memory:
            result.memory = max(result.memory or 0, memory.stop())
    if isinstance(answer, str) and answer:
        result.engines.add(answer)
    result.seconds[round_no] = seconds
    print("   %d/%d %-10s %8.2f s" % (round_no, PAIRS, way.name, seconds), flush=True)
    if way.after:
        way.after(bench)


def measure(bench, scenario, ways):
    """
    Runs all ways in turn, PAIRS times, in every other round from the last to the first, so that none has always the
    same one before it.  Ways with fewer rounds take part in the first ones.  Returns the results as plain data.
    """
    start = time.monotonic()
    work = scenario.prepare(bench)
    results = [Result(way, way.work(bench) if way.work else work) for way in ways]
    for round_no in range(1, PAIRS + 1):
        for result in results if round_no % 2 else reversed(results):
            if round_no <= result.way.rounds:
                run_once(bench, result, round_no)
    if scenario.finish:
        scenario.finish(bench)
    return {"name": scenario.name, "group": scenario.group, "title": scenario.title, "scale": SCALE, "rounds": PAIRS,
            "chart": scenario.chart, "elapsed": time.monotonic() - start,
            "when": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
            "bars": [dataclasses.asdict(bar) for bar in scenario.bars],
            "results": [{"name": r.way.name, "title": r.way.title, "ours": r.way.ours, "work": r.work, "memory": r.memory,
                         "engine": " ".join(sorted(r.engines)), "seconds": {str(n): s for n, s in r.seconds.items()},
                         "median": statistics.median(r.seconds.values())} for r in results]}
