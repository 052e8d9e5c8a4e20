"""
scenarios - what is measured.  A scenario is a list of ways to do the same work; the first is pgobjstore's.

Adding one: a Scenario(...) in SCENARIOS with ways made by the functions of ways.py.
"""
from harness import BUCKET, Bar, Scenario, faster
from ways import (OBJECTS, TINY, check_readings, clone, copy_local, drop_clones, drop_target, encoder, encoder_ways, far, finish_objects,
                  forget_files, in_flight, make_light_target, make_readings, make_target_with, many_objects, ours, prepare_encoder, pull,
                  pull_all, pull_by_copy, pull_rivals, pull_tables, push, push_all, push_by_copy, push_limits, push_plain,
                  push_rivals, push_tables, push_workers, raw_bytes, restore, script, size_of, small_pull, small_push, stores, tiny)


def push_scenario(name, group, t, title, bars=(), slow=2, chart=False):
    return Scenario(name, group, "push of " + title, push_workers(t) + [push_by_copy(t)] + push_rivals(t, slow), raw_bytes(t),
                    list(bars), chart=chart, making=10 + 90 * size_of(t))


def pull_scenario(name, group, t, title, bars=(), slow=2, chart=False):
    return Scenario(name, group, "pull of " + title,
                    [pull("one", "pgobjstore", t), pull_by_copy(t)] + pull_rivals(t, slow), raw_bytes(t), list(bars),
                    forget_files(t), chart, making=10 + 120 * size_of(t))


def level_ways(t):
    ways = []
    for level in (-5, -3, 1, 3):
        for words, n in (("one worker", 1), ("two workers", 2)):
            ways.append(push("level%d-%d" % (level, n), "level %d, %s" % (level, words), t,
                             "parallel => %d, options => '{\"level\": %d}'" % (n, level)))
    ways.sort(key=lambda way: way.name not in ("level1-1", "level1-2"))     # the default first
    return ways


def keyed(bench):
    make_target_with(bench, "lineitem", "ADD PRIMARY KEY (l_orderkey, l_linenumber)")


def sizes(make):
    return [make("x1", "275 MB", "lineitem_quarter", work=raw_bytes("lineitem_quarter")),
            make("x4", "1.1 GB, four times as much", "lineitem", work=raw_bytes("lineitem")),
            make("x16", "4.4 GB, sixteen times as much", "lineitem_4", work=raw_bytes("lineitem_4"))]


# flat: what is measured may differ by a tenth for other reasons
FLAT = [Bar("x16", "x1", 1.1, "memory"), Bar("x16", "x1", 1.1, "seconds per byte"), Bar("x4", "x1", 1.1, "seconds per byte")]

SCENARIOS = [
    push_scenario("push-lineitem", "lineitem", "lineitem", "lineitem, 1.1 GB", [
        Bar("one", "nostore", 0.55), Bar("two", "nostore", 0.40), faster("one", "pipe", 1.25), faster("two", "pipe", 3.2),
        faster("one", "gzip", 5), faster("one", "python", 4)], chart=True),
    pull_scenario("pull-lineitem", "lineitem", "lineitem", "lineitem into a table without index", [faster("one", "limit", 2.2)],
                  chart=True),
    Scenario("pull-create", "lineitem", "pull of lineitem into a table that the job creates", [
        pull("two", "pgobjstore, two workers", "lineitem", "parallel => 2", before=lambda bench: drop_target(bench, "lineitem"),
             cost=10),
        pull("one", "pgobjstore, one worker", "lineitem", "parallel => 1", before=lambda bench: drop_target(bench, "lineitem")),
        copy_local("lineitem", title="COPY FROM an uncompressed file, table made before")], raw_bytes("lineitem"),
             [Bar("two", "limit", 0.65)], forget_files("lineitem")),
    Scenario("pull-key", "lineitem", "pull of lineitem into a table with a primary key", [
        pull("one", "pgobjstore", "lineitem", before=keyed, cost=20), pull_by_copy("lineitem", before=keyed),
        copy_local("lineitem", keyed)], raw_bytes("lineitem"), [faster("one", "limit", 1.5)], forget_files("lineitem")),
    Scenario("pull-skip", "lineitem", "pull of lineitem, what on_error => 'skip' costs when nothing is bad", [
        pull("skip", "on_error => 'skip'", "lineitem", "on_error => 'skip'"),
        pull("stop", "on_error => 'stop'", "lineitem")], raw_bytes("lineitem"), [Bar("skip", "stop", 1.3)]),

    push_scenario("push-lineitem4", "lineitem4", "lineitem_4", "lineitem, 4.4 GB", slow=1),
    pull_scenario("pull-lineitem4", "lineitem4", "lineitem_4", "lineitem, 4.4 GB", slow=1),

    push_scenario("push-accounts", "accounts", "accounts", "pgbench_accounts, 2 million rows"),
    pull_scenario("pull-accounts", "accounts", "accounts", "pgbench_accounts, with its primary key"),

    push_scenario("push-docs", "docs", "docs", "wide jsonb rows (1.1 kB)", [Bar("one", "copy", 1)], chart=True),
    pull_scenario("pull-docs", "docs", "docs", "wide jsonb rows (1.1 kB)", [Bar("one", "copy", 1), Bar("one", "limit", 1)],
                  chart=True),

    Scenario("push-arrays", "arrays", "push of a table full of arrays",
             push_workers("arrays") + [push_by_copy("arrays")] + push_limits("arrays"), raw_bytes("arrays"),
             [Bar("one", "copy", 1)]),
    Scenario("pull-arrays", "arrays", "pull of a table full of arrays",
             [pull("one", "pgobjstore", "arrays"), pull_by_copy("arrays"), copy_local("arrays")], raw_bytes("arrays"),
             [Bar("one", "copy", 1), Bar("one", "limit", 1)], forget_files("arrays")),
] + [
    Scenario("encode-" + name, "encoder", "the encoder alone on %s, beside COPY TO '/dev/null'" % title, encoder_ways(t),
             prepare_encoder(t), [faster("csv", "copy-csv", times), faster("text", "copy-text", times)])
    for name, t, title, times in (
        ("lineitem", "lineitem", "lineitem", 4), ("accounts", "far", "pgbench_accounts, 4 million rows", 4),
        ("docs", "docs", "wide jsonb rows", 6), ("arrays", "arrays", "a table full of arrays", 1))
] + [
    Scenario("encode-levels", "encoder", "the encoder and zstd (a thread), nothing kept, by level", [
        encoder("level1", "level 1", "lineitem", "csv", "1", cost=6),
        encoder("level-5", "level -5", "lineitem", "csv", "-5"), encoder("level-3", "level -3", "lineitem", "csv", "-3"),
        encoder("level3", "level 3", "lineitem", "csv", "3", cost=8), encoder("none", "not compressed", "lineitem", "csv"),
        encoder("copy1", "COPY in place of the encoder, level 1", "lineitem", "csv", "1", "false", cost=15)],
             prepare_encoder("lineitem")),
    Scenario("push-levels", "encoder", "push of lineitem, by level and workers", level_ways("lineitem"), raw_bytes("lineitem")),

    Scenario("push-tiny", "tiny", "push of %d tables of under 20 rows" % TINY, [
        small_push("single", "pgobjstore, one job each", push_plain, cost=4),
        small_push("placed", "pgobjstore, one job each, path given", lambda bench: push_all(bench, "run/", "/"), cost=5),
        small_push("objects", "pgobjstore, one job each, rows only, no definition",
                   lambda bench: push_all(bench, "run/", ".csv.zst"), cost=3),
        small_push("files", "pgobjstore, one job, an object for each", lambda bench: push_tables(bench, "run/"), cost=2),
        small_push("packed", "pgobjstore, one job, packed", lambda bench: push_tables(bench, "run/", "packed"), cost=1),
        script("pool", "Python, 4 threads: definition and COPY, gzip, PUT", "rival push_schema tiny rival/",
               after=stores(lambda bench: TINY * 200), cost=6)], tiny,
             [faster("single", "pool", 3), faster("files", "pool", 5), faster("packed", "pool", 15)], chart=True, fixed=True),
    Scenario("pull-tiny", "tiny", "pull of %d tables of under 20 rows, made with their keys" % TINY, [
        small_pull("single", "pgobjstore, one job each", pull_all, ours=True, worker=True, cost=6),
        small_pull("files", "pgobjstore, one job, two workers", lambda bench: pull_tables(bench, "fixture/files/", 2), ours=True,
                   worker=True, cost=2),
        small_pull("packed", "pgobjstore, one job, packed, two workers", lambda bench: pull_tables(bench, "fixture/packed/", 2),
                   ours=True, worker=True, cost=2),
        small_pull("four", "pgobjstore, one job, packed, four workers", lambda bench: pull_tables(bench, "fixture/packed/", 4),
                   ours=True, worker=True, cost=2),
        small_pull("one", "pgobjstore, one job, one worker", lambda bench: pull_tables(bench, "fixture/files/", 1), ours=True,
                   worker=True, cost=4),
        small_pull("pool", "Python, 4 threads: GET, gzip, COPY",
                   lambda bench: bench.shell("rival pull_schema tiny fixture/rival/", PGDATABASE=clone(bench)) and None, cost=6),
        small_pull("limit", "psql, one transaction, of pg_dump's file on the disk", restore, cost=3)],
             tiny, [faster("files", "pool", 4), faster("packed", "pool", 5)], drop_clones, chart=True, fixed=True),

    Scenario("push-concurrency", "scaling", "push of lineitem, by requests in flight",
             in_flight(lambda name, title, **more: push(name, title, "lineitem", **more), arguments="parallel => 1"),
             raw_bytes("lineitem")),
    Scenario("pull-concurrency", "scaling", "pull of lineitem, by requests in flight",
             in_flight(lambda name, title, **more: pull(name, title, "lineitem", **more), costs=(15, 15, 15)),
             raw_bytes("lineitem")),
    Scenario("push-sizes", "scaling", "push of lineitem by one worker, by size",
             sizes(lambda name, title, t, **more: push(name, title, t, "parallel => 1", **more)), raw_bytes("lineitem_quarter"),
             FLAT, making=480),
    Scenario("pull-sizes", "scaling", "pull of lineitem, by size",
             sizes(lambda name, title, t, **more: pull(name, title, t, **more)), raw_bytes("lineitem_quarter"), FLAT, making=480),

    Scenario("push-far", "far", "push of pgbench_accounts, not compressed, 50 ms away", in_flight(
        lambda name, title, **more: push(name, title, "far", **more), "far", "compression => 'none', parallel => 1",
        (4, 11, 42)), far, [faster("c16", "c1", 8)], chart=True),
    Scenario("pull-far", "far", "pull of pgbench_accounts, not compressed, 50 ms away, into an unlogged table without index", in_flight(
        lambda name, title, **more: pull(name, title, "far", path="fixture/plain/",
                                         before=lambda bench: make_light_target(bench, "far"), **more),
        "far", "", (7, 12, 42)), far),

    Scenario("pull-objects", "objects", "pull of %d objects of 20 rows" % OBJECTS, [
        ours("folder", "pgobjstore, one job", "objstore_pull('readings_in', server => 'bench', path => 'fixture/objects/')",
             rows=lambda bench: 20 * OBJECTS, before=make_readings, after=check_readings, cost=15),
        script("pool", "Python, 4 threads: GET, COPY", "rival pull_objects fixture/objects/ readings_in", before=make_readings,
               after=check_readings, cost=20),
        script("aws", "aws s3 cp --recursive into a folder, then one psql \\copy",
               'd=$(mktemp -d) && trap \'rm -rf "$d"\' EXIT && s3cp --recursive s3://%s/fixture/objects/ "$d" && '
               'find "$d" -type f | sort | xargs awk \'FNR > 1\' | '
               'psql -XqAtc "\\copy readings_in FROM STDIN (FORMAT csv)"' % BUCKET,
               before=make_readings, after=check_readings, cost=100, rounds=2)],
             many_objects, finish=finish_objects),
]
