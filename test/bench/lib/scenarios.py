"""
scenarios - what is measured.  A scenario is a list of ways to do the same work; the first is pgobjstore's.

Adding one: a Scenario(...) in SCENARIOS with ways made by the functions here.  Sizes are those of scale 1.
"""
import os

from harness import BUCKET, LIB, SCALE, Scenario, Way

CSV = "(FORMAT csv, HEADER)"


# ---------------------------------------------------------------- data

TABLES = {
    # name: (procedure, rows at scale 1, rows at least)
    "lineitem": ("make_lineitem", 7500000, 100),
    "lineitem_quarter": ("make_lineitem", 7500000 / 4, 100),
    "lineitem_4": ("make_lineitem", 7500000 * 4, 100),
    "accounts": ("make_accounts", 2000000, 100),
    "far": ("make_accounts", 2000000, 1000000),     # parts enough to have 16 in flight
    "docs": ("make_docs", 500000, 100),
}
TINY = max(10, int(570 * min(SCALE * 10, 1)))


def make_functions(bench):
    with open(os.path.join(LIB, "data.sql"), encoding="utf-8") as f:
        bench.sql(f.read())


def table(bench, name):
    """Makes the table, pushes it once (which warms everything up); returns its facts."""
    def make():
        bench.fixture("data functions", lambda: make_functions(bench))
        procedure, full, least = TABLES[name]
        bench.sql("CALL bench.%s('%s', %d);\nVACUUM (FREEZE, ANALYZE) %s;" % (procedure, name, max(least, int(full * SCALE)), name))
        rows, raw, stored, path = bench.job("objstore_push('%s', server => 'bench', path => 'fixture/%s/')" % (name, name))
        print("   %s: %d rows, %.0f MB of csv, %.2f times smaller with zstd -1" % (name, rows, raw / 1e6, raw / stored))
        return {"rows": rows, "raw": raw, "stored": stored, "path": path}
    return bench.fixture("table " + name, make)


def raw_bytes(name):
    return lambda bench: table(bench, name)["raw"]


def tiny(bench):
    def make():
        bench.fixture("data functions", lambda: make_functions(bench))
        bench.sql("CALL bench.make_tiny('tiny', %d);\nVACUUM (FREEZE, ANALYZE);" % TINY)
        push_all(bench, "fixture/tiny/")
        push_tables(bench, "fixture/files/")
        push_tables(bench, "fixture/packed/", "packed")
        bench.shell("rival push_schema tiny fixture/rival/")
        bench.sql("CREATE DATABASE clone")
        bench.sql("CREATE EXTENSION pgobjstore", "clone")
        bench.make_server("bench", bench.env["S3_ENDPOINT"], "clone")
    return bench.fixture("%d small tables" % TINY, make)


def plpython(bench):
    """The aws_s3 way inside the server, if plpython3u is there; else the same as a script outside."""
    def make():
        if not os.environ.get("BENCH_PLPYTHON"):
            return False
        with open(os.path.join(LIB, "rivals.sql"), encoding="utf-8") as f:
            bench.sql(f.read())
        return True
    return bench.fixture("plpython rival", make)


# ---------------------------------------------------------------- pgobjstore

def ours(name, title, call, prefix=None, **more):
    """One job.  prefix: what it writes is deleted afterwards."""
    def run(bench):
        bench.job(call)
    if prefix:
        more["after"] = lambda bench: bench.empty(prefix)
    return Way(name, title, run, ours=True, **more)


def push(name, title, table_name, arguments="", **more):
    more.setdefault("server", "bench")
    server = more.pop("server")
    return ours(name, title, "objstore_push('%s', server => '%s', path => 'run/%s/'%s)"
                % (table_name, server, name, ", " + arguments if arguments else ""), prefix="run/", **more)


def pull(name, title, table_name, arguments="", server="bench", path=None, **more):
    more.setdefault("before", lambda bench: make_target(bench, table_name))
    more.setdefault("after", lambda bench: check_target(bench, table_name))
    return ours(name, title, "objstore_pull('%s_in', server => '%s', path => '%s'%s)"
                % (table_name, server, path or "fixture/%s/" % table_name, ", " + arguments if arguments else ""), **more)


def make_target(bench, name):
    bench.sql("DROP TABLE IF EXISTS %s_in;\nCREATE TABLE %s_in (LIKE %s INCLUDING ALL);" % (name, name, name))


def drop_target(bench, name):
    bench.sql("DROP TABLE IF EXISTS %s_in;" % name)


def check_target(bench, name):
    rows = int(bench.sql("SELECT count(*) FROM %s_in" % name))
    if rows != table(bench, name)["rows"]:
        raise RuntimeError("%s_in has %d rows" % (name, rows))


def push_one_two(t):
    return [push("one", "pgobjstore, one worker", t, "parallel => 1"),
            push("two", "pgobjstore, two workers", t, "parallel => 2")]


# ---------------------------------------------------------------- rivals

def key_of(suffix, table_name):
    return "rival/%s%s" % (table_name, suffix)


def url_of(suffix, table_name):
    return "s3://%s/%s" % (BUCKET, key_of(suffix, table_name))


def script(name, title, text, **more):
    return Way(name, title, lambda bench: bench.shell(text), **more)


def stores(minimum):
    """Afterwards: at least that share of the table's bytes must be under rival/; then it goes."""
    def after(bench):
        stored, _ = bench.stored("rival/")
        if stored < minimum(bench):
            raise RuntimeError("the rival has stored %d bytes" % stored)
        bench.empty("rival/")
    return after


def push_rivals(t, goals=True):
    goal = (lambda **ratios: ratios) if goals else (lambda **ratios: {})
    some = stores(lambda bench: table(bench, t)["stored"] // 2)

    def python_run(bench):
        if plpython(bench):
            bench.sql("SELECT bench.s3_export('SELECT * FROM %s', '%s', '%s', '%s', '%s', '%s')"
                      % (t, BUCKET, key_of(".csv", t), bench.env["S3_ENDPOINT"], bench.env["S3_ACCESS_KEY"],
                         bench.env["S3_SECRET_KEY"]))
        else:
            bench.shell("rival export %s %s" % (t, key_of(".csv", t)))

    return [
        script("pipe", "psql COPY | zstd -1 | aws s3 cp -",
               'psql -XqAtc "COPY %s TO STDOUT %s" | zstd -1 -qc | s3cp - %s' % (t, CSV, url_of(".csv.zst", t)),
               after=some, goals=goal(one=1.25, two=1.6)),
        Way("program", "COPY TO PROGRAM 'zstd -1 | aws s3 cp -'",
            lambda bench: bench.sql("COPY %s TO PROGRAM 'zstd -1 -qc | %s - %s' %s"
                                    % (t, bench.s3cp, url_of(".csv.zst", t), CSV)), after=some),
        script("gzip", "psql COPY | gzip -6 | aws s3 cp -",
               'psql -XqAtc "COPY %s TO STDOUT %s" | gzip -6 | s3cp - %s' % (t, CSV, url_of(".csv.gz", t)),
               after=some, goals=goal(one=5)),
        Way("python", "Python function: temporary file, boto3", python_run, before=plpython, after=some, goals=goal(one=4)),
        Way("nostore", "COPY TO PROGRAM 'zstd -1 > /dev/null' (stores nothing)",
            lambda bench: bench.sql("COPY %s TO PROGRAM 'zstd -1 -qc > /dev/null' %s" % (t, CSV)), goals=goal(one=1 / 1.1, two=1 / 0.85)),
        Way("limit", "COPY TO '/dev/null' (compresses and stores nothing)",
            lambda bench: bench.sql("COPY %s TO '/dev/null' %s" % (t, CSV))),
    ]


def pull_rivals(t, goals=True):
    goal = (lambda **ratios: ratios) if goals else (lambda **ratios: {})

    def upload(suffix, how):
        """Once: the object that the rival reads."""
        return lambda bench: bench.fixture("%s%s in the store" % (t, suffix), lambda: bench.shell(
            'psql -XqAtc "COPY %s TO STDOUT %s" | %s | s3cp - s3://%s/fixture/%s%s' % (t, CSV, how, BUCKET, t, suffix)))

    def before(*fixtures):
        def make(bench):
            for fixture in fixtures:
                fixture(bench)
            make_target(bench, t)
        return make

    def local_file(bench):
        bench.fixture("%s.csv on the disk" % t,
                      lambda: bench.sql("COPY %s TO '%s/%s.csv' %s" % (t, bench.data, t, CSV)))

    def python_run(bench):
        if plpython(bench):
            bench.sql("SELECT bench.s3_import('%s_in', '%s', 'fixture/%s.csv', '%s', '%s', '%s')"
                      % (t, BUCKET, t, bench.env["S3_ENDPOINT"], bench.env["S3_ACCESS_KEY"], bench.env["S3_SECRET_KEY"]))
        else:
            bench.shell("rival import %s_in fixture/%s.csv" % (t, t))

    def check(bench):
        check_target(bench, t)

    zst = upload(".csv.zst", "zstd -1 -qc")
    return [
        pull("create", "pgobjstore, table made by the job", t, before=lambda bench: drop_target(bench, t)),
        script("pipe", "aws s3 cp | zstd -d | psql COPY FROM",
               's3cp s3://%s/fixture/%s.csv.zst - | zstd -dqc | psql -XqAtc "COPY %s_in FROM STDIN %s"' % (BUCKET, t, t, CSV),
               before=before(zst), after=check),
        Way("program", "COPY FROM PROGRAM 'aws s3 cp | zstd -d'",
            lambda bench: bench.sql("COPY %s_in FROM PROGRAM '%s s3://%s/fixture/%s.csv.zst - | zstd -dqc' %s"
                                    % (t, bench.s3cp, BUCKET, t, CSV)), before=before(zst), after=check),
        script("gzip", "aws s3 cp | gzip -d | psql COPY FROM",
               's3cp s3://%s/fixture/%s.csv.gz - | gzip -dc | psql -XqAtc "COPY %s_in FROM STDIN %s"' % (BUCKET, t, t, CSV),
               before=before(upload(".csv.gz", "gzip -6")), after=check),
        Way("python", "Python function: boto3, temporary file", python_run,
            before=before(upload(".csv", "cat"), plpython), after=check),
        Way("limit", "COPY FROM an uncompressed file on the server's disk",
            lambda bench: bench.sql("COPY %s_in FROM '%s/%s.csv' %s" % (t, bench.data, t, CSV)),
            before=before(local_file), after=check, goals=goal(one=1 / 1.1)),
    ]


# ---------------------------------------------------------------- many small tables

JOBS = ("SELECT array_agg(%s) AS jobs FROM generate_series(1, %d) i, lpad(i::text, 4, '0') n \\gset\n"
        "SELECT count(*), sum(w.rows) FROM unnest(:'jobs'::bigint[]) j, objstore_wait(j) w;")


def push_all(bench, prefix):
    bench.sql(JOBS % ("objstore_push(('tiny.tiny' || n)::regclass, server => 'bench', path => '%s' || n || '/')" % prefix,
                      TINY))


def push_tables(bench, path, layout="files"):
    bench.job("objstore_push_tables(schema => 'tiny', server => 'bench', path => '%s', layout => '%s')" % (path, layout))


def pull_all(bench):
    bench.sql(JOBS % ("objstore_pull('tiny.tiny' || n, server => 'bench', path => 'fixture/tiny/' || n || '/')", TINY), "clone")


def pull_tables(bench, path):
    bench.job("objstore_pull_tables(server => 'bench', path => '%s')" % path, "clone")


def small_push(name, title, run):
    return Way(name, title, run, after=lambda bench: bench.empty("run/"), ours=True)


def small_pull(name, title, run, **more):
    return Way(name, title, run, before=empty_schema, after=check_schema, **more)


def empty_schema(bench):
    bench.sql("DROP SCHEMA IF EXISTS tiny CASCADE;\nCREATE SCHEMA tiny;", "clone")


def check_schema(bench):
    keys = int(bench.sql("SELECT count(*) FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid WHERE relkind = 'r' "
                         "AND relnamespace = 'tiny'::regnamespace", "clone"))
    if keys != 2 * TINY:
        raise RuntimeError("the schema has %d indexes" % keys)


# ---------------------------------------------------------------- the list

def lineitem(bench):
    return table(bench, "lineitem")["raw"]


def small(bench):
    tiny(bench)


def in_flight(make, server="bench", arguments=""):
    """make(name, title, ...) with 16, 4 and 1 requests in flight."""
    ways = []
    for n in (16, 4, 1):
        words = ["options => '{\"concurrency\": %d}'" % n] + ([arguments] if arguments else [])
        ways.append(make("c%d" % n, "%d in flight" % n, server=server, arguments=", ".join(words)))
    return ways


def far(bench):
    """50 ms away, one connection carries at most 1 MB per round trip; data that is ready faster than that."""
    bench.fixture("server 50 ms away", lambda: bench.make_far_server("far", 50, 1024))
    table(bench, "far")
    return bench.fixture("accounts, not compressed", lambda: bench.job(
        "objstore_push('far', server => 'bench', path => 'fixture/plain/', compression => 'none')"))[1]


SCENARIOS = [
    Scenario("push-lineitem", "push of lineitem", push_one_two("lineitem") + push_rivals("lineitem"),
             lineitem),
    Scenario("pull-lineitem", "pull of lineitem", [pull("one", "pgobjstore", "lineitem")] + pull_rivals("lineitem"),
             lineitem),
    Scenario("push-accounts", "push of pgbench_accounts",
             push_one_two("accounts") + push_rivals("accounts", goals=False), raw_bytes("accounts")),
    Scenario("pull-accounts", "pull of pgbench_accounts, with its primary key",
             [pull("one", "pgobjstore", "accounts")] + pull_rivals("accounts", goals=False), raw_bytes("accounts")),
    Scenario("push-docs", "push of wide jsonb rows",
             push_one_two("docs") + push_rivals("docs", goals=False), raw_bytes("docs")),
    Scenario("pull-docs", "pull of wide jsonb rows",
             [pull("one", "pgobjstore", "docs")] + pull_rivals("docs", goals=False), raw_bytes("docs")),
    Scenario("push-tiny", "push of %d tables of under 20 rows" % TINY, [
        small_push("single", "pgobjstore, one job each", lambda bench: push_all(bench, "run/")),
        small_push("files", "pgobjstore, one job, an object for each", lambda bench: push_tables(bench, "run/")),
        small_push("packed", "pgobjstore, one job, packed", lambda bench: push_tables(bench, "run/", "packed")),
        script("pool", "Python, 4 threads: COPY, gzip, PUT", "rival push_schema tiny rival/",
               after=stores(lambda bench: TINY * 200), goals={"single": 3, "files": 5, "packed": 15})], small),
    Scenario("pull-tiny", "pull of %d tables of under 20 rows, made with their keys" % TINY, [
        small_pull("single", "pgobjstore, one job each", pull_all, ours=True),
        small_pull("files", "pgobjstore, one job", lambda bench: pull_tables(bench, "fixture/files/"), ours=True),
        small_pull("packed", "pgobjstore, one job, packed", lambda bench: pull_tables(bench, "fixture/packed/"), ours=True),
        small_pull("pool", "Python, 4 threads: GET, gzip, COPY",
                   lambda bench: bench.shell("rival pull_schema tiny fixture/rival/", PGDATABASE="clone"),
                   goals={"files": 4, "packed": 5})], small),
    Scenario("push-concurrency", "push of lineitem, by requests in flight",
             in_flight(lambda name, title, **more: push(name, title, "lineitem", **more), arguments="parallel => 1"),
             lineitem),
    Scenario("pull-concurrency", "pull of lineitem, by requests in flight",
             in_flight(lambda name, title, **more: pull(name, title, "lineitem", **more)), lineitem),
    Scenario("push-far", "push of pgbench_accounts, not compressed, 50 ms away", in_flight(
        lambda name, title, **more: push(name, title, "far", goals={"c16": 8} if name == "c1" else {}, **more), "far",
        "compression => 'none', parallel => 1"), far),
    Scenario("pull-far", "pull of pgbench_accounts, not compressed, 50 ms away",
             in_flight(lambda name, title, **more: pull(name, title, "far", path="fixture/plain/", **more),
                       "far"), far),
    Scenario("sizes", "push of lineitem, by size", [
        push("x1", "1.1 GB", "lineitem"),
        push("quarter", "a quarter of it", "lineitem_quarter", work=raw_bytes("lineitem_quarter")),
        push("x4", "four times", "lineitem_4", work=raw_bytes("lineitem_4"))], lineitem, optional=True),
]
