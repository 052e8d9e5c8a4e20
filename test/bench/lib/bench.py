#!/usr/bin/python3
"""
bench - the driver: chooses scenarios, measures them, reports.  Started by test/bench/run, which says what it needs.

    bench.py --list             the scenarios and their ways
    bench.py --check WORD ...   are these scenarios?
    bench.py [WORD ...]         measure
"""
import os
import signal
import subprocess
import sys

import harness
import report
from scenarios import SCENARIOS


def chosen(words):
    """[(scenario, ways)]; the first way is always among them."""
    if not words:
        return [(s, s.ways) for s in SCENARIOS if not s.optional]
    result = []
    for word in words:
        name, _, ways = word.partition(":")
        scenario = next((s for s in SCENARIOS if s.name == name), None)
        if scenario is None:
            sys.exit("there is no scenario %s; test/bench/run list shows them" % name)
        wanted = set(ways.split(",")) if ways else {w.name for w in scenario.ways}
        unknown = wanted - {w.name for w in scenario.ways}
        if unknown:
            sys.exit("scenario %s has no way %s" % (name, ", ".join(sorted(unknown))))
        result.append((scenario, [w for i, w in enumerate(scenario.ways) if i == 0 or w.name in wanted]))
    return result


def load():
    with open("/proc/loadavg", encoding="utf-8") as f:
        return f.read().split()[0]


def facts(bench, load_before):
    first_line = lambda *command: subprocess.run(command, env=bench.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                                 text=True, check=False).stdout.split("\n")[0]
    return [
        "PostgreSQL %s: shared_buffers %s, fsync %s; pgobjstore %s" % tuple(bench.sql(
            "SELECT current_setting('server_version'), current_setting('shared_buffers'), current_setting('fsync'), "
            "extversion FROM pg_extension WHERE extname = 'pgobjstore'").split("|")),
        "store: %s, objects in memory" % first_line("radosgw", "--version").replace("ceph version", "Ceph radosgw").split("(")[0].strip(),
        "%s; %s" % (first_line("aws", "--version").split(" ")[0], first_line("zstd", "--version").strip("* ")),
        "load average before the first and after the last run: %s, %s" % (load_before, load()),
    ]


def main():
    words = sys.argv[1:]
    if words[:1] == ["--list"]:
        for scenario in SCENARIOS:
            print("%s%-17s %s" % ("*" if scenario.optional else " ", scenario.name, scenario.title))
            for way in scenario.ways:
                print("      %-12s %s" % (way.name, way.title))
        return
    if words[:1] == ["--check"]:
        chosen(words[1:])
        return
    plan = chosen(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    load_before = load()
    bench = harness.Bench()
    done = []
    for scenario, ways in plan:
        print("\n== %s: %s" % (scenario.name, scenario.title), flush=True)
        results = harness.measure(bench, scenario, ways)
        report.print_table(scenario, results)
        done.append((scenario, results))
        # after each: what a long run has found so far is there when it is stopped
        report.write(os.environ["BENCH_OUT"], done, facts(bench, load_before))
    print("\nwritten: %s/results.md, results.svg" % os.environ["BENCH_OUT"])


if __name__ == "__main__":
    main()
