"""
ways - the pieces that scenarios are made of: tables, jobs of pgobjstore, and what one would do instead.

Sizes are those of scale 1.  Costs (seconds) serve the estimate only.
"""
import os

from harness import BUCKET, BY_COPY, SCALE, Way

CSV = "(FORMAT csv, HEADER)"
SLOW = 2                        # rounds of the slow rivals
TINY = max(10, int(570 * min(SCALE * 10, 1)))
OBJECTS = max(100, int(10000 * min(SCALE, 1)))


# ---------------------------------------------------------------- tables

TABLES = {
    # name: (procedure, rows at scale 1, rows at least, of lineitem's size)
    "lineitem": ("make_lineitem", 7500000, 100, 1),
    "lineitem_quarter": ("make_lineitem", 7500000 / 4, 100, 0.25),
    "lineitem_4": ("make_lineitem", 7500000 * 4, 100, 4),
    "accounts": ("make_accounts", 2000000, 100, 0.12),
    "far": ("make_accounts", 4000000, 1000000, 0.24),   # parts enough to have 16 in flight
    "docs": ("make_docs", 500000, 100, 0.45),
    "arrays": ("make_arrays", 1000000, 100, 0.3),
}


def make_functions(bench):
    bench.sql_file("data.sql")


def make_null_push(bench):
    bench.sql_file("nullsink.sql", "-v", "library=" + bench.nullsink)


def table(bench, name):
    """Makes the table, pushes it once, as several objects if it is large (which warms everything up); its facts."""
    def make():
        bench.fixture("data functions", lambda: make_functions(bench))
        procedure, full, least, _ = TABLES[name]
        bench.sql("CALL bench.%s('%s', %d);\nVACUUM (FREEZE, ANALYZE) %s;" % (procedure, name, max(least, int(full * SCALE)), name))
        job = bench.job("objstore_push('%s', server => 'bench', path => 'fixture/%s/', parallel => 2)" % (name, name))
        print("   %s: %d rows, %.0f MB of csv, %.2f times smaller with zstd -1, %d objects"
              % (name, job.rows, job.raw / 1e6, job.raw / job.stored, job.objects))
        return job
    return bench.fixture("table " + name, make)


def size_of(name):
    return TABLES[name][3]


def raw_bytes(name):
    return lambda bench: table(bench, name).raw


def plpython(bench):
    """The aws_s3 way inside the server, if plpython3u is there; else the same as a script outside."""
    def make():
        if not os.environ.get("BENCH_PLPYTHON"):
            return False
        bench.sql_file("rivals.sql")
        return True
    return bench.fixture("plpython rival", make)


# ---------------------------------------------------------------- pgobjstore

def ours(name, title, call, prefix=None, rows=None, role=None, **more):
    """One job.  prefix: what it writes is deleted afterwards.  rows(bench): how many it must have moved."""
    def run(bench):
        job = bench.job(call, role=role)
        if rows and job.rows != rows(bench):
            raise RuntimeError("the job has moved %d rows" % job.rows)
        return job.engine
    if prefix:
        more["after"] = lambda bench: bench.empty(prefix)
    return Way(name, title, run, ours=True, worker=True, **more)


def push(name, title, t, arguments="", server="bench", **more):
    more.setdefault("cost", 8 * size_of(t))
    return ours(name, title, "objstore_push('%s', server => '%s', path => 'run/%s/'%s)"
                % (t, server, name, ", " + arguments if arguments else ""), prefix="run/",
                rows=lambda bench: table(bench, t).rows, **more)


def push_by_copy(t):
    return push("copy", "pgobjstore, one worker, by COPY (fast_path off)", t, "parallel => 1", role=BY_COPY,
                cost=15 * size_of(t))


def pull(name, title, t, arguments="", server="bench", path=None, **more):
    more.setdefault("before", lambda bench: make_target(bench, t))
    more.setdefault("cost", 15 * size_of(t))
    return ours(name, title, "objstore_pull('%s_in', server => '%s', path => '%s'%s)"
                % (t, server, path or "fixture/%s/" % t, ", " + arguments if arguments else ""),
                after=lambda bench: check_target(bench, t), **more)


def pull_by_copy(t, **more):
    return pull("copy", "pgobjstore, by COPY (fast_path off)", t, role=BY_COPY, cost=29 * size_of(t), **more)


def make_target(bench, name):
    bench.sql("DROP TABLE IF EXISTS %s_in;\nCREATE TABLE %s_in (LIKE %s INCLUDING ALL);" % (name, name, name))


def make_target_with(bench, name, definition):
    make_target(bench, name)
    bench.sql("ALTER TABLE %s_in %s;" % (name, definition))


def make_light_target(bench, name):
    """As little work as can be: for what is to show the network."""
    drop_target(bench, name)
    bench.sql("CREATE UNLOGGED TABLE %s_in (LIKE %s);" % (name, name))


def drop_target(bench, name):
    bench.sql("DROP TABLE IF EXISTS %s_in;" % name)


def check_target(bench, name):
    rows = int(bench.sql("SELECT count(*) FROM %s_in" % name))
    if rows != table(bench, name).rows:
        raise RuntimeError("%s_in has %d rows" % (name, rows))
    drop_target(bench, name)


def push_workers(t):
    return [push("one", "pgobjstore, one worker", t, "parallel => 1"),
            push("two", "pgobjstore, two workers", t, "parallel => 2", cost=5 * size_of(t))]


def in_flight(make, server="bench", arguments="", costs=(8, 8, 8)):
    """make(name, title, ...) with 16, 4 and 1 requests in flight."""
    ways = []
    for n, cost in zip((16, 4, 1), costs):
        words = ["options => '{\"concurrency\": %d}'" % n] + ([arguments] if arguments else [])
        ways.append(make("c%d" % n, "%d in flight" % n, server=server, arguments=", ".join(words), cost=cost))
    return ways


# ---------------------------------------------------------------- the encoder alone
#
# Timed within the session: it is a matter of tenths of a second.

def encoder(name, title, t, fmt, level="NULL", fast_path="true", cost=4.0):
    return Way(name, title, lambda bench: bench.sql_seconds(
        "SELECT bench.null_push('%s', '%s', %s, %s);" % (t, fmt, fast_path, level), t), ours=True, cost=cost * size_of(t))


def copy_null(name, title, t, options):
    return Way(name, title, lambda bench: bench.sql_seconds("COPY %s TO '/dev/null' (%s);" % (t, options), t),
               cost=14 * size_of(t))


def encoder_ways(t):
    return [encoder("csv", "encoder, csv, nothing kept", t, "csv"),
            copy_null("copy-csv", "COPY TO '/dev/null', csv", t, "FORMAT csv, HEADER"),
            encoder("text", "encoder, text, nothing kept", t, "text"),
            copy_null("copy-text", "COPY TO '/dev/null', text", t, "FORMAT text")]


def prepare_encoder(t):
    """The table is in shared buffers, for both sides: it is not the reading of files that is compared."""
    def prepare(bench):
        raw = table(bench, t).raw
        bench.fixture("encoder without a store", lambda: make_null_push(bench))
        bench.sql("CREATE EXTENSION IF NOT EXISTS pg_prewarm;\nSELECT pg_prewarm('%s');" % t)
        return raw
    return prepare


# ---------------------------------------------------------------- rivals

def key_of(suffix, table_name):
    return "rival/%s%s" % (table_name, suffix)


def url_of(suffix, table_name):
    return "s3://%s/%s" % (BUCKET, key_of(suffix, table_name))


def script(name, title, text, **more):
    return Way(name, title, lambda bench: bench.shell(text) and None, **more)


def statement(name, title, text, **more):
    """text(bench) is the SQL."""
    return Way(name, title, lambda bench: bench.sql(text(bench)) and None, **more)


def stores(minimum):
    """Afterwards: at least that share of the table's bytes must be under rival/; then it goes."""
    def after(bench):
        stored, _ = bench.stored("rival/")
        if stored < minimum(bench):
            raise RuntimeError("the rival has stored %d bytes" % stored)
        bench.empty("rival/")
    return after


def push_limits(t):
    size = size_of(t)
    return [
        statement("nostore", "COPY TO PROGRAM 'zstd -1 > /dev/null' (stores nothing)",
                  lambda bench: "COPY %s TO PROGRAM 'zstd -1 -qc > /dev/null' %s" % (t, CSV), cost=15 * size),
        statement("limit", "COPY TO '/dev/null' (compresses and stores nothing)",
                  lambda bench: "COPY %s TO '/dev/null' %s" % (t, CSV), cost=15 * size),
    ]


def push_rivals(t, slow=SLOW):
    some = stores(lambda bench: table(bench, t).stored // 2)
    size = size_of(t)

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
               after=some, cost=20 * size),
        statement("program", "COPY TO PROGRAM 'zstd -1 | aws s3 cp -'",
                  lambda bench: "COPY %s TO PROGRAM 'zstd -1 -qc | %s - %s' %s" % (t, bench.s3cp, url_of(".csv.zst", t), CSV),
                  after=some, cost=20 * size),
        script("gzip", "psql COPY | gzip -6 | aws s3 cp -",
               'psql -XqAtc "COPY %s TO STDOUT %s" | gzip -6 | s3cp - %s' % (t, CSV, url_of(".csv.gz", t)),
               after=some, cost=80 * size, rounds=slow),
        Way("python", "Python function: temporary file, boto3 (as aws_s3)", python_run, before=plpython, after=some,
            cost=28 * size, rounds=slow),
    ] + push_limits(t)


def upload(t, suffix, how):
    """Once: the object that a rival reads."""
    return lambda bench: bench.fixture("%s%s in the store" % (t, suffix), lambda: bench.shell(
        'psql -XqAtc "COPY %s TO STDOUT %s" | %s | s3cp - s3://%s/fixture/%s%s' % (t, CSV, how, BUCKET, t, suffix)))


def local_file(t):
    return lambda bench: bench.fixture("%s.csv on the disk" % t, lambda: bench.sql(
        "COPY %s TO '%s/%s.csv' %s" % (t, bench.data, t, CSV)))


def forget_files(t):
    """What upload() and local_file() have made goes: the store lives in memory."""
    def finish(bench):
        drop_target(bench, t)
        bench.empty("fixture/%s.csv" % t)
        try:
            os.unlink(os.path.join(bench.data, t + ".csv"))
        except FileNotFoundError:
            pass
        bench.forget("%s.csv on the disk" % t, *["%s%s in the store" % (t, s) for s in (".csv", ".csv.zst", ".csv.gz")])
    return finish


def copy_local(t, target=None, name="limit", title="COPY FROM an uncompressed file on the server's disk"):
    """target(bench): makes the table."""
    def before(bench):
        local_file(t)(bench)
        (target or (lambda bench: make_target(bench, t)))(bench)
    return statement(name, title, lambda bench: "COPY %s_in FROM '%s/%s.csv' %s" % (t, bench.data, t, CSV), before=before,
                     after=lambda bench: check_target(bench, t), cost=29 * size_of(t))


def pull_rivals(t, slow=SLOW):
    size = size_of(t)

    def before(*fixtures):
        def make(bench):
            for fixture in fixtures:
                fixture(bench)
            make_target(bench, t)
        return make

    def python_run(bench):
        if plpython(bench):
            bench.sql("SELECT bench.s3_import('%s_in', '%s', 'fixture/%s.csv', '%s', '%s', '%s')"
                      % (t, BUCKET, t, bench.env["S3_ENDPOINT"], bench.env["S3_ACCESS_KEY"], bench.env["S3_SECRET_KEY"]))
        else:
            bench.shell("rival import %s_in fixture/%s.csv" % (t, t))

    def check(bench):
        check_target(bench, t)

    zst = upload(t, ".csv.zst", "zstd -1 -qc")
    return [
        script("pipe", "aws s3 cp | zstd -d | psql \\copy",
               's3cp s3://%s/fixture/%s.csv.zst - | zstd -dqc | psql -XqAtc "\\copy %s_in FROM STDIN %s"' % (BUCKET, t, t, CSV),
               before=before(zst), after=check, cost=31 * size),
        statement("program", "COPY FROM PROGRAM 'aws s3 cp | zstd -d'",
                  lambda bench: "COPY %s_in FROM PROGRAM '%s s3://%s/fixture/%s.csv.zst - | zstd -dqc' %s"
                  % (t, bench.s3cp, BUCKET, t, CSV), before=before(zst), after=check, cost=31 * size),
        script("gzip", "aws s3 cp | gzip -d | psql \\copy",
               's3cp s3://%s/fixture/%s.csv.gz - | gzip -dc | psql -XqAtc "\\copy %s_in FROM STDIN %s"' % (BUCKET, t, t, CSV),
               before=before(upload(t, ".csv.gz", "gzip -6")), after=check, cost=45 * size, rounds=slow),
        Way("python", "Python function: boto3, temporary file (as aws_s3)", python_run,
            before=before(upload(t, ".csv", "cat"), plpython), after=check, cost=40 * size, rounds=slow),
        copy_local(t),
    ]


# ---------------------------------------------------------------- many small tables

JOBS = ("SELECT array_agg(%s) AS jobs FROM generate_series(1, %d) i, lpad(i::text, 4, '0') n \\gset\n"
        "SELECT count(*), sum(w.rows) FROM unnest(:'jobs'::bigint[]) j, objstore_wait(j) w;")


def tiny(bench):
    def make():
        bench.fixture("data functions", lambda: make_functions(bench))
        bench.sql("CALL bench.make_tiny('tiny', %d);\nVACUUM (FREEZE, ANALYZE);" % TINY)
        push_all(bench, "fixture/tiny/", "/")
        push_tables(bench, "fixture/files/")
        push_tables(bench, "fixture/packed/", "packed")
        bench.shell("rival push_schema tiny fixture/rival/")
        bench.shell("pg_dump -n tiny -f '%s/tiny.sql'" % bench.data)
        bench.sql("CREATE DATABASE pattern")
        bench.sql("CREATE EXTENSION pgobjstore", "pattern")
        bench.make_server("bench", bench.env["S3_ENDPOINT"], "pattern")
        bench.sql("ALTER DATABASE pattern ALLOW_CONNECTIONS false")
    return bench.fixture("%d small tables" % TINY, make)


def push_all(bench, prefix, suffix):
    """suffix "/": a dataset each, which is an object and a manifest; else the name of the object."""
    bench.sql(JOBS % ("objstore_push(('tiny.tiny' || n)::regclass, server => 'bench', path => '%s' || n || '%s')"
                      % (prefix, suffix), TINY))


def push_plain(bench):
    """As one types it: each job makes a folder of its own, under run/."""
    bench.fixture("server for run/", lambda: bench.make_server("run", bench.env["S3_ENDPOINT"], prefix="run"))
    bench.sql(JOBS % ("objstore_push(('tiny.tiny' || n)::regclass, server => 'run')", TINY))


def push_tables(bench, path, layout="files"):
    return bench.job("objstore_push_tables(schema => 'tiny', server => 'bench', path => '%s', layout => '%s')"
                     % (path, layout)).engine


def pull_all(bench):
    bench.sql("CREATE SCHEMA tiny;\n" + JOBS % ("objstore_pull('tiny.tiny' || n, server => 'bench', path => 'fixture/tiny/' || n || '/')", TINY), clone(bench))


def pull_tables(bench, path, workers):
    return bench.job("objstore_pull_tables(server => 'bench', path => '%s', parallel => %d)" % (path, workers), clone(bench)).engine


def restore(bench):
    """What PostgreSQL itself needs for it in one session: pg_dump's file, on the disk, in one transaction."""
    bench.shell("psql -Xq1 -v ON_ERROR_STOP=1 -o /dev/null -f '%s/tiny.sql'" % bench.data, PGDATABASE=clone(bench))


def small_push(name, title, run, **more):
    return Way(name, title, run, after=lambda bench: bench.empty("run/"), ours=True, worker=True, **more)


def small_pull(name, title, run, **more):
    return Way(name, title, run, before=make_clone, after=check_schema, **more)


def make_clone(bench):
    """
    A new database for each pull.  Not the same one emptied: ext4 without a journal looks long for an inode where
    thousands have just been deleted, which is then all that is measured.
    """
    bench.sql("SELECT 'clone' || 1 + count(*) AS name FROM pg_database WHERE datname LIKE 'clone%' \\gset\n"
              "CREATE DATABASE :name TEMPLATE pattern;")


def clone(bench):
    return bench.sql("SELECT 'clone' || count(*) FROM pg_database WHERE datname LIKE 'clone%'")


def drop_clones(bench):
    bench.sql("SELECT format('DROP DATABASE %I WITH (FORCE)', datname) FROM pg_database WHERE datname LIKE 'clone%' \\gexec")


def check_schema(bench):
    """Every table with its two indexes; the pool's rows are those of the jobs."""
    keys = int(bench.sql("SELECT count(*) FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid WHERE relkind = 'r' "
                         "AND relnamespace = 'tiny'::regnamespace", clone(bench)))
    if keys != 2 * TINY:
        raise RuntimeError("the schema has %d indexes" % keys)
    count = ("SELECT sum((xpath('/row/n/text()', query_to_xml(format('SELECT count(*) AS n FROM %s', oid::regclass), "
             "false, true, '')))[1]::text::bigint) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'tiny'::regnamespace")
    rows, wanted = bench.sql(count, clone(bench)), bench.sql(count)
    if rows != wanted:
        raise RuntimeError("the schema has %s rows, not %s" % (rows, wanted))


# ---------------------------------------------------------------- many objects, far servers

def many_objects(bench):
    """Objects of 20 rows each in one folder, as other programs leave them."""
    def make():
        bench.shell("rival make_objects fixture/objects/ %d" % OBJECTS)
    bench.fixture("%d objects" % OBJECTS, make)


def make_readings(bench):
    bench.sql("DROP TABLE IF EXISTS readings_in;\n"
              "CREATE TABLE readings_in (id bigint, at timestamptz, place text, value numeric(10,2));")


def check_readings(bench):
    rows = int(bench.sql("SELECT count(*) FROM readings_in"))
    if rows != 20 * OBJECTS:
        raise RuntimeError("readings_in has %d rows" % rows)


def finish_objects(bench):
    bench.empty("fixture/objects/")
    bench.forget("%d objects" % OBJECTS)


def far(bench):
    """50 ms away, one connection carries at most 1 MB per round trip; data that is ready faster than that."""
    bench.fixture("server 50 ms away", lambda: bench.make_far_server("far", 50, 1024))
    table(bench, "far")
    return bench.fixture("accounts, not compressed", lambda: bench.job(
        "objstore_push('far', server => 'bench', path => 'fixture/plain/', compression => 'none', parallel => 1)")).raw
