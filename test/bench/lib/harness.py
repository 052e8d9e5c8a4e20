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


class Bench:
    """The cluster and the store of this run."""

    def __init__(self):
        self.env = environment()
        self.fixtures = {}
        self.deleted = 0
        os.makedirs(os.path.join(RUN, "bin"), exist_ok=True)
        data = os.path.join(RUN, "data")
        os.makedirs(data, exist_ok=True)
        os.chmod(data, 0o777)
        self.data = data
        with open(os.path.join(RUN, "bin", "s3cp"), "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\n# aws s3 cp with the test store's address and keys, for any user\n"
                    "export AWS_ACCESS_KEY_ID='%s' AWS_SECRET_ACCESS_KEY='%s' AWS_DEFAULT_REGION=us-east-1\n"
                    "export HOME='%s' PATH=/usr/bin:/bin AWS_EC2_METADATA_DISABLED=true\n"
                    "exec aws --endpoint-url '%s' s3 cp --only-show-errors \"$@\"\n"
                    % (self.env["S3_ACCESS_KEY"], self.env["S3_SECRET_KEY"], data, self.env["S3_ENDPOINT"]))
        os.chmod(f.name, 0o755)
        self.s3cp = f.name
        self.sql("CREATE EXTENSION pgobjstore")
        self.make_server("bench", self.env["S3_ENDPOINT"])

    # -------------------------------------------------------------- commands

    def shell(self, script, **more):
        """bash with pipefail; returns what it printed."""
        done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", script], env=dict(self.env, **more), check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise RuntimeError("this failed:\n%s\n%s" % (script, done.stderr[-3000:]))
        return done.stdout

    def sql(self, text, db="postgres"):
        """One psql, one session; returns what it printed."""
        done = subprocess.run(["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", db], env=self.env, check=False, input=text,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise RuntimeError("this failed:\n%s\n%s" % (text[:500], done.stderr[-3000:]))
        return done.stdout.rstrip("\n")

    # -------------------------------------------------------------- the store

    def make_server(self, name, endpoint, db="postgres"):
        self.sql("CREATE SERVER %s FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://%s', endpoint '%s');\n"
                 "CREATE USER MAPPING FOR PUBLIC SERVER %s OPTIONS (access_key_id '%s', secret_access_key '%s');"
                 % (name, BUCKET, endpoint, name, self.env["S3_ACCESS_KEY"], self.env["S3_SECRET_KEY"]), db)

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

    def job(self, call, db="postgres"):
        """Runs one job to its end; returns (rows, raw bytes, stored bytes, path)."""
        out = self.sql("SELECT %s AS job \\gset\n"
                       "SELECT rows, raw_bytes, stored_bytes, path FROM objstore_wait(:job);" % call, db)
        rows, raw, stored, path = out.split("|")
        return int(rows), int(raw), int(stored), path


# ---------------------------------------------------------------- memory

class WorkerMemory(threading.Thread):
    """
    The highest memory of one of pgobjstore's workers while this runs, without the server's shared memory:
    RssAnon + RssFile of /proc/PID/status, looked at 20 times a second.
    """

    def __init__(self):
        super().__init__(daemon=True)
        self.peak_kb = 0
        self.ended = threading.Event()
        with open(os.path.join(RUN, "pg", "data", "postmaster.pid"), encoding="utf-8") as f:
            self.postmaster = int(f.readline())

    def look(self):
        for path in glob.glob("/proc/%d/task/*/children" % self.postmaster):
            with open(path, encoding="utf-8") as f:
                children = f.read().split()
            for pid in children:
                try:
                    with open("/proc/%s/cmdline" % pid, encoding="utf-8", errors="replace") as f:
                        if "pgobjstore worker" not in f.read():
                            continue
                    with open("/proc/%s/status" % pid, encoding="utf-8") as f:
                        kb = sum(int(n) for n in re.findall(r"^Rss(?:Anon|File):\s+(\d+)", f.read(), re.M))
                except OSError:
                    continue    # it has just ended
                self.peak_kb = max(self.peak_kb, kb)

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
    One way of doing a scenario's work.  before, run and after take the Bench; only run is timed.  ours: it is a
    job of pgobjstore, so its worker's memory is looked at.  goals: {name of another way: the ratio, this median
    over that one's, that the project wants to reach}.  work: raw bytes, if they are not the scenario's.
    """
    name: str
    title: str
    run: Callable
    before: Optional[Callable] = None
    after: Optional[Callable] = None
    ours: bool = False
    goals: dict = dataclasses.field(default_factory=dict)
    work: Optional[Callable] = None


@dataclasses.dataclass
class Scenario:
    """
    ways: the first one is what the others are compared with.  prepare(bench) makes what they need and returns
    the raw bytes that are moved, or None where a rate says nothing.
    """
    name: str
    title: str
    ways: List[Way]
    prepare: Callable
    optional: bool = False


@dataclasses.dataclass
class Result:
    way: Way
    seconds: List[float]
    work: Optional[int]
    memory: Optional[int]

    @property
    def median(self):
        return statistics.median(self.seconds)


def measure(bench, scenario, ways):
    """Runs all ways in turn, PAIRS times; returns their results."""
    work = scenario.prepare(bench)
    results = [Result(way, [], way.work(bench) if way.work else work, 0 if way.ours else None) for way in ways]
    for round_no in range(1, PAIRS + 1):
        for result in results:
            way = result.way
            if way.before:
                way.before(bench)
            bench.sql("CHECKPOINT")     # nobody pays for what the one before has left
            memory = WorkerMemory() if way.ours else None
            if memory:
                memory.start()
            start = time.monotonic()
            way.run(bench)
            seconds = time.monotonic() - start
            if memory:
                result.memory = max(result.memory, memory.stop())
            result.seconds.append(seconds)
            print("   %d/%d %-10s %8.2f s" % (round_no, PAIRS, way.name, seconds), flush=True)
            if way.after:
                way.after(bench)
    return results
