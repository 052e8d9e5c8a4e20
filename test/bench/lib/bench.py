#!/usr/bin/python3
"""
bench - the driver: chooses scenarios, measures them, reports.  Started by test/bench/run, which says what it needs.

    bench.py --list             the scenarios, their ways, and how long each takes
    bench.py --check WORD ...   are these scenarios or groups?
    bench.py --report [docs]    results.md and results.svg of what was measured at this scale; docs: PERFORMANCE.md too
    bench.py [WORD ...]         measure
"""
import os
import signal
import subprocess
import sys
import traceback

import harness
import report
from scenarios import SCENARIOS

OUT = os.environ.get("BENCH_OUT", "")
NAMES = [s.name for s in SCENARIOS]


def chosen(words):
    """[(scenario, ways)] in the order of the list; the first way is always among them."""
    wanted = {}
    for word in words or NAMES:
        name, _, ways = word.partition(":")
        found = [s for s in SCENARIOS if name in (s.name, s.group)]
        if not found:
            sys.exit("there is no scenario or group %s; test/bench/run list shows them" % name)
        known = {w.name for s in found for w in s.ways}
        unknown = set(ways.split(",")) - known if ways else set()
        if unknown:
            sys.exit("%s has no way %s" % (name, ", ".join(sorted(unknown))))
        for scenario in found:
            own = {w.name for w in scenario.ways}
            if not ways or own & set(ways.split(",")):
                wanted.setdefault(scenario.name, set()).update(ways.split(",") if ways else own)
    return [(s, [w for i, w in enumerate(s.ways) if i == 0 or w.name in wanted[s.name]])
            for s in SCENARIOS if s.name in wanted]


def minutes(plan):
    return sum(harness.estimate(scenario, ways) for scenario, ways in plan) / 60


def show_list():
    for group in dict.fromkeys(s.group for s in SCENARIOS):
        members = [s for s in SCENARIOS if s.group == group]
        print("%s: about %.0f minutes at scale %g with %d rounds"
              % (group, minutes([(s, s.ways) for s in members]), harness.SCALE, harness.PAIRS))
        for s in members:
            print("   %-17s %3.0f min  %s" % (s.name, minutes([(s, s.ways)]), s.title))
            for way in s.ways:
                few = " (%d rounds at most)" % way.rounds if way.rounds < harness.PAIRS else ""
                print("        %-12s %s%s" % (way.name, way.title, few))


def load():
    with open("/proc/loadavg", encoding="utf-8") as f:
        return f.read().split()[0]


def first_line(bench, *command):
    return subprocess.run(command, env=bench.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False).stdout.split("\n")[0]


def facts(bench):
    return [
        report.machine(),
        "PostgreSQL %s: shared_buffers %s, fsync %s, wal_level %s; pgobjstore %s" % tuple(bench.sql(
            "SELECT current_setting('server_version'), current_setting('shared_buffers'), current_setting('fsync'), "
            "current_setting('wal_level'), extversion FROM pg_extension WHERE extname = 'pgobjstore'").split("|")),
        "store: %s, objects in memory" % first_line(bench, "radosgw", "--version").replace(
            "ceph version", "Ceph radosgw").split("(")[0].strip(),
        "%s; %s" % (first_line(bench, "aws", "--version").split(" ")[0], first_line(bench, "zstd", "--version").strip("* ")),
    ]


def commit():
    """Of the tree that is measured, with a plus if it is not quite that; empty if nothing says it."""
    git = ["git", "-c", "safe.directory=" + harness.ROOT, "-C", harness.ROOT]
    head = subprocess.run(git + ["rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          check=False)
    if head.returncode != 0:
        return ""
    changed = subprocess.run(git + ["status", "--porcelain", "src"], stdout=subprocess.PIPE, text=True, check=False).stdout
    return head.stdout.strip() + ("+" if changed else "")


def run_all(plan):
    """Returns the names of the scenarios that failed: the others are worth having."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print("about %.0f minutes on a quiet machine" % minutes(plan), flush=True)
    bench = harness.Bench()
    measured_facts, measured_commit = facts(bench), commit()
    failed = []
    for scenario, ways in plan:
        print("\n== %s: %s (about %.0f minutes)" % (scenario.name, scenario.title, minutes([(scenario, ways)])), flush=True)
        before = load()
        try:
            result = harness.measure(bench, scenario, ways)
        except (RuntimeError, OSError, ValueError, subprocess.SubprocessError):
            traceback.print_exc()
            failed.append(scenario.name)
            bench.empty("run/")
            bench.empty("rival/")
            continue
        result.update(facts=measured_facts, commit=measured_commit, load=[before, load()])
        report.keep(OUT, result)
        report.print_table(result)
        print("   took %.1f minutes" % (result["elapsed"] / 60), flush=True)
        # after each: what a long run has found so far is there when it is stopped
        report.write(OUT, report.kept(OUT, harness.SCALE, NAMES))
    return failed


def main():
    words = sys.argv[1:]
    if words[:1] == ["--list"]:
        show_list()
    elif words[:1] == ["--check"]:
        chosen(words[1:])
    elif words[:1] == ["--report"]:
        done = report.kept(OUT, harness.SCALE, NAMES)
        if not done:
            sys.exit("nothing was measured at scale %g" % harness.SCALE)
        report.write(OUT, done)
        if words[1:] == ["docs"]:
            docs = os.path.join(harness.ROOT, "docs")
            done = report.published(docs, done, NAMES)
            report.write_docs(docs, done)
        print("%d of %d scenarios; not measured: %s"
              % (len(done), len(NAMES), ", ".join(n for n in NAMES if n not in [s["name"] for s in done]) or "none"))
    else:
        failed = run_all(chosen(words))
        print("\nresults: %s/results.md, results.svg" % OUT)
        if failed:
            sys.exit("failed: " + ", ".join(failed))


if __name__ == "__main__":
    main()
