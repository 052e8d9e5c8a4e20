# Where rows go: columns, values that are not in the file, modes, conflicts, every kind of relation, once only.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PgObjStore::Cluster;
use PgObjStore::Objects;
use PgObjStore::Servers;
use PgObjStore::Tables;
use Test::More;

my ($node, $dir) = PgObjStore::Cluster->start_with_files('main');

sub put { put_file($dir, @_) }

sub pull
{
	my ($relation, $path, %arg) = @_;
	my $user = delete $arg{user};
	my $query = pull_sql($relation, $path, %arg);
	$query = "BEGIN READ WRITE; $query COMMIT" if $user;
	return $node->wait_job($node->sql($query, $user ? (user => $user) : ()));
}

# The pull succeeds, and then the query answers this.
sub pulls
{
	my ($name, $arg, $query, $want) = @_;
	my $job = pull(@$arg);
	is($job->{state}, 'done', "$name: done") or diag join "\n", map { $_ // () } @$job{qw(sqlstate message detail)};
	is($node->sql($query), $want, $name) if $query;
	return $job;
}

# The pull fails so; no row of it is there.
sub fails
{
	my ($name, $arg, $sqlstate, $text) = @_;
	my $job = pull(@$arg);
	is("$job->{state} " . ($job->{sqlstate} // ''), "failed $sqlstate", "$name: fails") or diag join "\n", map { $_ // () } @$job{qw(message detail)};
	like(join("\n", map { $_ // () } @$job{qw(message detail hint)}), $text, "$name: says why");
	return $job;
}

# ---------------------------------------------------------------- columns

$node->sql(q(CREATE TABLE c (id int, name text, made date DEFAULT '2000-01-01', gen int GENERATED ALWAYS AS (id * 2) STORED)));
my $c = q(SELECT id, name, made, gen FROM c ORDER BY id; TRUNCATE c);
put('two.csv', "x,y\n1,one\n2,two\n");
pulls('columns', [ 'c', 'two.csv', columns => '{id,name}' ], $c, "1|one|2000-01-01|2\n2|two|2000-01-01|4");
put('turned.csv', "x,y\none,1\n");
pulls('columns in the order of the file', [ 'c', 'turned.csv', columns => '{name,id}' ], $c, '1|one|2000-01-01|2');
fails('a column that does not exist', [ 'c', 'two.csv', columns => '{id,nme}' ], '42703', qr/"nme"/);
fails('a column too many', [ 'c', 'two.csv', columns => '{id,name,made}' ], '22P04', qr/missing data for column "made"/);

put('map.csv', qq("Name", ID ,extra\none,1,x\ntwo,2,y\n));
fails('header map: a column that the table does not have', [ 'c', 'map.csv', options => '{"header": "map"}' ], '42703', qr/"extra".*extra_columns/s);
pulls('header map', [ 'c', 'map.csv', options => '{"header": "map", "extra_columns": "ignore"}' ], $c, "1|one|2000-01-01|2\n2|two|2000-01-01|4");
pulls('header map, and what is wanted of it', [ 'c', 'map.csv', columns => '{id}', options => '{"header": "map"}' ], $c, "1||2000-01-01|2\n2||2000-01-01|4");
fails('header map without a wanted column', [ 'c', 'map.csv', columns => '{id,made}', options => '{"header": "map"}' ], '42703', qr/has no column "made"/);
put('map2.csv', "made;id\n2024-05-06;7\n");
pulls('header map with options', [ 'c', 'map2.csv', options => '{"header": "map", "delimiter": ";"}' ], $c, '7||2024-05-06|14');
put('map.txt', "name\tid\none\t1\n");
pulls('header map of a text file', [ 'c', 'map.txt', options => '{"header": "map"}' ], $c, '1|one|2000-01-01|2');
put('twice.csv', "id,ID\n1,2\n");
fails('header map: a column twice', [ 'c', 'twice.csv', options => '{"header": "map"}' ], '42701', qr/"id" is in the file more than once/);
put('gen.csv', "id,gen\n1,2\n");
fails('header map: a generated column', [ 'c', 'gen.csv', options => '{"header": "map"}' ], '42703', qr/"gen"/);
pulls('header map: a generated column left out', [ 'c', 'gen.csv', options => '{"header": "map", "extra_columns": "ignore"}' ], $c, '1||2000-01-01|2');
put('none.csv', "a,b\n1,2\n");
fails('header map: nothing in common', [ 'c', 'none.csv', options => '{"header": "map", "extra_columns": "ignore"}' ], '42703', qr/no column that relation "c" has/);
put('empty.csv', '');
is(pulls('header map: an empty object', [ 'c', 'empty.csv', options => '{"header": "map"}' ], $c, '')->{rows}, 0, 'has no rows');
put('wide.csv', "1,one,2024-01-01,x,y\n2,two,2024-01-02,,\n");
pulls('more columns in the file', [ 'c', 'wide.csv', options => '{"header": false, "extra_columns": "ignore"}' ], $c, "1|one|2024-01-01|2\n2|two|2024-01-02|4");
fails('which is an error otherwise', [ 'c', 'wide.csv', options => '{"header": false}' ], '22P04', qr/extra data/);
$node->sql(q(CREATE TABLE amb ("a" int, "A" int)));
put('amb.csv', "a,A\n1,2\n");
pulls('names as they are win', [ 'amb', 'amb.csv', options => '{"header": "map"}' ], q(SELECT * FROM amb), '1|2');
put('amb2.csv', " a\n1\n");
pulls('without blanks', [ 'amb', 'amb2.csv', options => '{"header": "map"}' ], q(SELECT count(*) FROM amb WHERE a = 1), '2');
$node->sql(q(CREATE TABLE amb2 ("aB" int, "Ab" int)));
put('amb3.csv', "AB\n1\n");
fails('names that may be two columns', [ 'amb2', 'amb3.csv', options => '{"header": "map"}' ], '42702', qr/may be "aB" or "Ab"/);

# A dataset: its columns have names.
$node->sql(q(CREATE TABLE ds AS SELECT i AS id, 'n' || i AS name, i * 10 AS other FROM generate_series(1, 3) i));
for my $format (qw(csv text binary))
{
	is($node->run_job("SELECT objstore_push('ds', path => 'ds_$format/', format => '$format')")->{state}, 'done', "dataset in $format");
	fails('a column that the table does not have', [ 'c', "ds_$format/" ], '42703', qr/"other"/);
	pulls('a dataset without it', [ 'c', "ds_$format/", options => '{"extra_columns": "ignore"}' ], $c, "1|n1|2000-01-01|2\n2|n2|2000-01-01|4\n3|n3|2000-01-01|6");
	pulls('some columns of a dataset', [ 'c', "ds_$format/", columns => '{id}' ], $c, "1||2000-01-01|2\n2||2000-01-01|4\n3||2000-01-01|6");
}
fails('a dataset says itself how it is written', [ 'c', 'ds_csv/', options => '{"delimiter": ";"}' ], '22023', qr/"delimiter" cannot be given for the dataset/);

# ---------------------------------------------------------------- values that are not in the file

$node->sql(q(CREATE TABLE s (v text, src text, n int, dt date, region text)));
my $s = q(SELECT v, regexp_replace(src, '.*/files/', ''), n, dt, region FROM s ORDER BY src, n; TRUNCATE s);
put('hive/dt=2024-01-02/region=a%2Fb/f.csv', "v\nx\ny\n");
put('hive/dt=__HIVE_DEFAULT_PARTITION__/region=é/f.csv.gz', do { open my $p, '-|', "printf 'v\\nz\\n' | gzip" or die; local $/; <$p> });
pulls('path, row number and folders', [ 's', 'hive/', options => '{"path_column": "src", "row_column": "n", "hive_columns": true}' ], $s,
	"x|hive/dt=2024-01-02/region=a%2Fb/f.csv|1|2024-01-02|a/b\ny|hive/dt=2024-01-02/region=a%2Fb/f.csv|2|2024-01-02|a/b\nz|hive/dt=__HIVE_DEFAULT_PARTITION__/region=é/f.csv.gz|1||é");
pulls('with a header map', [ 's', 'hive/', options => '{"header": "map", "hive_columns": true}' ], q(SELECT count(*), count(dt) FROM s; TRUNCATE s), '3|2');
put('hive2/dt=2024-13-01/f.csv', "v\nx\n");
fails('a folder with a wrong value', [ 's', 'hive2/', columns => '{v}', options => '{"hive_columns": true}' ], '22008', qr/column dt: "2024-13-01", out of the object's name/);
put('hive3/what=1/f.csv', "v\nx\n");
fails('a folder that is no column', [ 's', 'hive3/', columns => '{v}', options => '{"hive_columns": true}' ], '42703', qr/"what"/);
pulls('unless it is ignored', [ 's', 'hive3/', columns => '{v}', options => '{"hive_columns": true, "extra_columns": "ignore"}' ], $s, 'x||||');
put('hive4/region=folder/f.csv', "v,region\nx,file\n");
pulls('what the folder says holds', [ 's', 'hive4/', options => '{"header": "map", "hive_columns": true}' ], $s, 'x||||folder');
put('rows.bin', do { $node->sql("COPY (SELECT 'b1'::text UNION ALL SELECT 'b2') TO '$dir/rows.bin' (FORMAT binary)"); read_file("$dir/rows.bin") });
pulls('row numbers of a binary file', [ 's', 'rows.bin', columns => '{v}', options => '{"row_column": "n"}' ], q(SELECT v, n FROM s ORDER BY n; TRUNCATE s), "b1|1\nb2|2");
fails('a source column that does not exist', [ 's', 'rows.bin', options => '{"row_column": "nn"}' ], '42703', qr/"nn".*option "row_column"/s);
fails('a column named twice', [ 's', 'rows.bin', options => '{"row_column": "n", "path_column": "n"}' ], '42701', qr/two options/);

# ---------------------------------------------------------------- modes

$node->sql(q(CREATE TABLE m (id int PRIMARY KEY, t text); INSERT INTO m SELECT i, 'old' FROM generate_series(1, 5) i));
put('m.csv', "id,t\n1,new\n2,new\n");
fails('append: a key that is there', [ 'm', 'm.csv' ], '23505', qr/Key \(id\)=\(1\).*line 2.*m\.csv/s);
is($node->sql('SELECT count(*) FROM m'), 5, 'nothing came in');
put('m_bad.csv', "id,t\n1,new\nx,new\n");
fails('replace: an error', [ 'm', 'm_bad.csv', mode => 'replace' ], '22P02', qr/line 3/);
is($node->sql(q(SELECT count(*) FROM m WHERE t = 'old')), 5, 'and the old rows are there');

# Readers see the old rows until the commit: the pull is stopped in its middle by a trigger that waits.
$node->sql(q(CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NEW; END'));
$node->sql(q(CREATE TRIGGER hold BEFORE INSERT ON m FOR EACH ROW EXECUTE FUNCTION hold()));
my $holder = $node->background_psql('postgres');
$holder->query_safe('SELECT pg_advisory_lock(4711)');
my $id = $node->sql(q(SELECT objstore_pull('m', path => 'm.csv', mode => 'replace')));
$node->wait_for(q(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted), 1);
is($node->sql(q(SELECT count(*) FROM m WHERE t = 'old')), 5, 'replace: readers see the old rows');
$holder->query_safe('SELECT pg_advisory_unlock(4711)');
$holder->quit;
is($node->wait_job($id)->{state}, 'done', 'replace: done');
is($node->sql('SELECT * FROM m ORDER BY id'), "1|new\n2|new", 'and only the new ones');
$node->sql('DROP TRIGGER hold ON m');

$node->sql('CREATE SCHEMA fresh');
pulls('create', [ 'fresh.ds', 'ds_csv/', mode => 'create' ], 'SELECT count(*) FROM fresh.ds', 3);
my $error = $node->sql_error(q(SELECT objstore_pull('fresh.ds', path => 'ds_csv/', mode => 'create')));
is($error->{sqlstate}, '42P07', 'create: the table is there already');
fails('create from a file without a manifest', [ 'fresh.none', 'm.csv', mode => 'create' ], '42P01', qr/manifest/);

# ---------------------------------------------------------------- conflicts

$node->sql(q(TRUNCATE m; INSERT INTO m VALUES (1, 'old'), (3, 'old')));
my $m = q(SELECT * FROM m ORDER BY id; DELETE FROM m WHERE id NOT IN (1, 3); UPDATE m SET t = 'old');
is(pulls('on_conflict nothing', [ 'm', 'm.csv', on_conflict => 'nothing' ], $m, "1|old\n2|new\n3|old")->{rows}, 1, 'rows that came in');
is(pulls('on_conflict update', [ 'm', 'm.csv', on_conflict => 'update' ], $m, "1|new\n2|new\n3|old")->{rows}, 2, 'rows inserted or updated');
put('again.csv', "id,t\n1,a\n2,b\n1,c\n2,d\n1,e\n");
pulls('a key several times: the last wins', [ 'm', 'again.csv', on_conflict => 'update' ], $m, "1|e\n2|d\n3|old");
pulls('a key several times: the first stays', [ 'm', 'again.csv', on_conflict => 'nothing' ], $m, "1|old\n2|b\n3|old");
$node->sql(qq(COPY (VALUES (1, 'bin'), (2, 'bin')) TO '$dir/m.bin' (FORMAT binary)));
pulls('update from a binary file', [ 'm', 'm.bin', on_conflict => 'update' ], $m, "1|bin\n2|bin\n3|old");
put('ids.csv', "id\n1\n2\n");
pulls('update with nothing but the key', [ 'm', 'ids.csv', columns => '{id}', on_conflict => 'update' ], $m, "1|old\n2|\n3|old");
$node->sql(q(CREATE TABLE k (a int, b int, t text, UNIQUE (a, b)); INSERT INTO k VALUES (1, 1, 'old')));
put('k.csv', "a,b,t\n1,1,new\n1,2,new\n");
fails('update without a primary key', [ 'k', 'k.csv', on_conflict => 'update' ], '22023', qr/has no primary key.*conflict_columns/s);
pulls('update by named columns', [ 'k', 'k.csv', on_conflict => 'update', options => '{"conflict_columns": ["b", "a"]}' ], 'SELECT * FROM k ORDER BY b', "1|1|new\n1|2|new");
fails('by columns that are not unique', [ 'k', 'k.csv', on_conflict => 'update', options => '{"conflict_columns": ["a"]}' ], '42P10', qr/no unique/);
fails('by columns that do not exist', [ 'k', 'k.csv', on_conflict => 'update', options => '{"conflict_columns": ["z"]}' ], '42703', qr/"z".*conflict_columns/s);
put('k_bad.csv', "a,b,t\n1,1,new\n1,x,new\n");
fails('an error in the middle', [ 'k', 'k_bad.csv', on_conflict => 'update', options => '{"conflict_columns": ["b", "a"]}' ], '22P02', qr/line 3, column b/);
for (
	[ q(on_conflict => 'updte'), qr/Valid values are: error, nothing, update/ ],
	[ q(options => '{"conflict_columns": ["id"]}'), qr/./ ],
	[ q(options => '{"reject_limit": 1}'), qr/./ ],
	[ q(mode => 'replace', options => '{"skip_loaded": true}'), qr/missing/ ],
	[ q(on_error => 'skip', format => 'binary'), qr/no lines/ ],
	[ q(options => '{"datestyle": "YDM"}'), qr/./ ],
	[ q(options => '{"hive_columns": "perhaps"}'), qr/./ ],
	[ q(on_error => 'skip', options => '{"reject_limit": "101%"}'), qr/./ ])
{
	my $error = $node->sql_error("SELECT objstore_pull('m', path => 'm.csv', $_->[0])");
	like($error->{sqlstate}, qr/^(22023|0A000)$/, "$_->[0]: refused at the call");
	like($error->{detail} // $error->{message}, $_->[1], "$_->[0]: says why");
}
put('dates.csv', "id,d\n1,31.12.2024\n2,01/02/2024\n");
$node->sql('CREATE TABLE dates (id int, d date)');
pulls('dates that are not in ISO form', [ 'dates', 'dates.csv', options => '{"datestyle": "DMY"}' ], 'SELECT * FROM dates ORDER BY id', "1|2024-12-31\n2|2024-02-01");

# ---------------------------------------------------------------- kinds of relations

$node->sql(<<'SQL');
CREATE TABLE p (id int, t text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE p1 (t text, id int NOT NULL); ALTER TABLE p ATTACH PARTITION p1 FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20);
CREATE TABLE ident (a int GENERATED ALWAYS AS IDENTITY, b int GENERATED BY DEFAULT AS IDENTITY, t text, g text GENERATED ALWAYS AS (t || '!') STORED);
CREATE TABLE trig (id int, t text);
CREATE TABLE trig_log (what text);
CREATE FUNCTION trig_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.id = 2 THEN RETURN NULL; END IF; NEW.t := upper(NEW.t); RETURN NEW; END $$;
CREATE FUNCTION trig_log() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO trig_log VALUES (TG_WHEN || ' ' || TG_LEVEL); RETURN NULL; END $$;
CREATE TRIGGER a BEFORE INSERT ON trig FOR EACH ROW EXECUTE FUNCTION trig_row();
CREATE TRIGGER b AFTER INSERT ON trig FOR EACH ROW EXECUTE FUNCTION trig_log();
CREATE TRIGGER c AFTER INSERT ON trig FOR EACH STATEMENT EXECUTE FUNCTION trig_log();
CREATE VIEW simple AS SELECT id, t FROM trig;
CREATE VIEW checked AS SELECT id, t FROM m WHERE id < 100 WITH CHECK OPTION;
CREATE VIEW joined AS SELECT a.id, a.t FROM m a JOIN m b USING (id);
CREATE FUNCTION instead() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO m VALUES (NEW.id + 50, NEW.t); RETURN NEW; END $$;
CREATE VIEW instead AS SELECT id, t FROM m UNION ALL SELECT id, t FROM m;
CREATE TRIGGER i INSTEAD OF INSERT ON instead FOR EACH ROW EXECUTE FUNCTION instead();
CREATE MATERIALIZED VIEW matview AS SELECT id, t FROM m;
CREATE TABLE ruled (id int, t text);
CREATE RULE r AS ON INSERT TO ruled DO ALSO NOTHING;
CREATE RULE r2 AS ON INSERT TO ruled DO ALSO INSERT INTO trig_log VALUES ('rule');
CREATE TABLE dropped (x int, id int, y int, t text); ALTER TABLE dropped DROP COLUMN x, DROP COLUMN y;
CREATE TABLE parent (id int, t text); CREATE TABLE child (more int) INHERITS (parent);
CREATE UNLOGGED TABLE unlogged (id int, t text);
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TABLE domains (id positive, t text);
SQL
put('p.csv', "id,t\n5,five\n15,fifteen\n");
pulls('partitions', [ 'p', 'p.csv' ], 'SELECT tableoid::regclass, id, t FROM p ORDER BY id', "p1|5|five\np2|15|fifteen");
pulls('partitions, on conflict', [ 'p', 'p.csv', on_conflict => 'update' ], 'SELECT count(*) FROM p', 2);
put('p_bad.csv', "id,t\n6,six\n25,none\n");
fails('no partition for a row', [ 'p', 'p_bad.csv' ], '23514', qr/no partition of relation "p" found.*line 3/s);
put('ident.csv', "a,b,t\n7,8,x\n");
pulls('identity and generated columns', [ 'ident', 'ident.csv' ], 'SELECT * FROM ident', '7|8|x|x!');
pulls('likewise by INSERT', [ 'ident', 'ident.csv', options => '{"header": "map"}', on_conflict => 'nothing' ], 'SELECT count(*) FROM ident WHERE a = 7 AND b = 8', 2);
put('ident_t.csv', "t\ny\n");
pulls('which are made when they are not in the file', [ 'ident', 'ident_t.csv', options => '{"header": "map"}' ], q(SELECT * FROM ident WHERE t = 'y'), '1|1|y|y!');
put('trig.csv', "id,t\n1,a\n2,b\n3,c\n");
is(pulls('triggers', [ 'trig', 'trig.csv' ], q(SELECT string_agg(id || t, ',' ORDER BY id) FROM trig), '1A,3C')->{rows}, 2, 'rows that triggers let in');
is($node->sql('SELECT what, count(*) FROM trig_log GROUP BY 1 ORDER BY 1'), "AFTER ROW|2\nAFTER STATEMENT|1", 'all of them are called');
$node->run_job(q(SELECT objstore_push('ds', path => 'trig/', options => '{}')));
pulls('triggers that drop rows of a dataset', [ 'trig', 'trig/', columns => '{id}', options => '{"extra_columns": "ignore"}' ], 'SELECT count(*) FROM trig', 4);
pulls('a simple view', [ 'simple', 'trig.csv' ], 'SELECT count(*) FROM trig', 6);
pulls('a view with a trigger', [ 'instead', 'm.csv' ], 'SELECT count(*) FROM m WHERE id > 50', 2);
put('m101.csv', "id,t\n98,in\n101,out\n");
fails('a view with a check option', [ 'checked', 'm101.csv' ], '44000', qr/check option.*line 3/s);
for (qw(joined matview))
{
	my $error = $node->sql_error("SELECT objstore_pull('$_', path => 'm.csv')");
	is($error->{sqlstate}, '42809', "$_: refused at the call");
}
pulls('a table with rules, which COPY does not look at', [ 'ruled', 'm.csv' ], 'SELECT count(*) FROM ruled', 2);
put('m_t.csv', "t\nnew\n");
fails('but INSERT does', [ 'ruled', 'm_t.csv', options => '{"row_column": "id"}' ], '0A000', qr/rules for INSERT/);
pulls('dropped columns', [ 'dropped', 'm.csv' ], 'SELECT * FROM dropped', "1|new\n2|new");
pulls('dropped columns by INSERT', [ 'dropped', 'm.csv', options => '{"header": "map", "row_column": "t"}' ], q(SELECT string_agg(id || '=' || t, ' ' ORDER BY id) FROM dropped WHERE t <> 'new'), '1=1 2=2');
pulls('a parent', [ 'parent', 'm.csv' ], 'SELECT count(*) FROM ONLY parent', 2);
pulls('an unlogged table', [ 'unlogged', 'm.csv' ], 'SELECT count(*) FROM unlogged', 2);
put('dom.csv', "id,t\n1,a\n-1,b\n");
fails('a domain', [ 'domains', 'dom.csv' ], '23514', qr/violates check constraint.*line 3/s);
fails('a domain by INSERT', [ 'domains', 'dom.csv', on_conflict => 'nothing' ], '23514', qr/violates check constraint.*line 3, column id/s);

# A foreign table on this very server.
SKIP:
{
	skip 'postgres_fdw is not installed', 4
	  unless $node->sql(q(SELECT count(*) FROM pg_available_extensions WHERE name = 'postgres_fdw'));
	my ($host, $port) = ($node->host, $node->port);
	$node->sql(<<"SQL");
CREATE EXTENSION postgres_fdw;
CREATE SERVER loop FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'postgres', batch_size '100');
CREATE USER MAPPING FOR CURRENT_USER SERVER loop;
CREATE TABLE far (id int CHECK (id < 100), t text);
CREATE FOREIGN TABLE near (id int, t text) SERVER loop OPTIONS (table_name 'far');
SQL
	pulls('a foreign table', [ 'near', 'm.csv' ], 'SELECT count(*) FROM far', 2);
	pulls('a foreign table by INSERT', [ 'near', 'm.csv', on_conflict => 'nothing' ], 'SELECT count(*) FROM far', 4);
	fails('an error of the other server', [ 'near', 'm101.csv' ], '23514', qr/violates check constraint/);
	is($node->sql('SELECT count(*) FROM far'), 4, 'nothing came in');
}

# ---------------------------------------------------------------- rights

# file: is for superusers, so others get their files from the object store.
my $s3 = PgObjStore::Servers->s3;
my $bucket = $s3->new_bucket;
$node->sql(<<SQL);
CREATE ROLE alice LOGIN; CREATE ROLE ro LOGIN SUPERUSER; ALTER ROLE ro SET default_transaction_read_only = on;
CREATE TABLE guarded (id int PRIMARY KEY, who text DEFAULT CURRENT_USER, t text);
INSERT INTO guarded VALUES (1, 'bob', 'old'), (2, 'alice', 'old');
ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON guarded USING (who = CURRENT_USER) WITH CHECK (who = CURRENT_USER);
GRANT SELECT, INSERT, UPDATE, DELETE ON guarded TO alice;
CREATE TABLE partly (a int, b int, c int DEFAULT 7);
GRANT INSERT (a, b) ON partly TO alice;
SQL
$node->create_store('lake', url => "s3://$bucket", store => $s3, user => 'alice');
$s3->client('put', $bucket, 'own.csv', "id,who,t\n10,alice,a\n11,alice,b\n");
$s3->client('put', $bucket, 'others.csv', "id,who,t\n20,alice,a\n21,bob,b\n22,alice,c\n");
$s3->client('put', $bucket, 'clash.csv', "id,who,t\n2,alice,new\n");
$s3->client('put', $bucket, 'hidden.csv', "id,who,t\n1,alice,mine now\n");
$s3->client('put', $bucket, 'ab.csv', "a,b\n1,2\n");
my @alice = (server => 'lake', user => 'alice');
pulls('row-level security', [ 'guarded', 'own.csv', @alice ], 'SELECT count(*) FROM guarded', 4);
fails('WITH CHECK holds', [ 'guarded', 'others.csv', @alice ], '42501', qr/new row violates row-level security policy.*line 3/s);
pulls('WITH CHECK holds row by row', [ 'guarded', 'others.csv', @alice, on_error => 'skip' ], 'SELECT count(*), count(*) FILTER (WHERE id = 21) FROM guarded', '6|0');
pulls('on conflict, a row of his own', [ 'guarded', 'clash.csv', @alice, on_conflict => 'update' ], 'SELECT t FROM guarded WHERE id = 2', 'new');
fails('on conflict, a row that he does not see', [ 'guarded', 'hidden.csv', @alice, on_conflict => 'update' ], '42501', qr/row-level security/);
pulls('replace takes what he sees', [ 'guarded', 'own.csv', @alice, mode => 'replace' ], q(SELECT string_agg(id::text, ',' ORDER BY id) FROM guarded), '1,10,11');
pulls('the owner is not bound', [ 'guarded', 'clash.csv', server => 'lake2' ], 'SELECT count(*) FROM guarded', 4)
  if $node->create_store('lake2', url => "s3://$bucket", store => $s3) // 1;
fails('no right to a column', [ 'partly', 'ab.csv', @alice, columns => '{a,c}' ], '42501', qr/permission denied/);
pulls('rights to columns', [ 'partly', 'ab.csv', @alice, columns => '{a,b}' ], 'SELECT * FROM partly', '1|2|7');
pulls('rights to columns, by INSERT', [ 'partly', 'ab.csv', @alice, options => '{"header": "map"}', columns => '{b}' ], 'SELECT count(*) FROM partly WHERE a IS NULL AND b = 2', '1');
$error = $node->sql_error(q(SELECT objstore_pull('m', path => 'own.csv', server => 'lake')), user => 'alice');
is($error->{sqlstate}, '42501', 'no right to the table: refused at the call');
$error = $node->sql_error(q(SELECT objstore_source_rows(NULL::m)));
is($error->{sqlstate}, '55000', 'the rows of a pull are for the pull alone');
fails('a role that only reads', [ 'm', 'm.csv', user => 'ro' ], '25006', qr/read-only/);
fails('a role that only reads, by INSERT', [ 'm', 'm.csv', user => 'ro', on_conflict => 'nothing' ], '25006', qr/read-only/);

# ---------------------------------------------------------------- once only

$node->sql(q(CREATE TABLE once (id int)));
my $once = [ 'once', 'once/*.csv', options => '{"skip_loaded": true}' ];
put('once/1.csv', "id\n1\n");
put('once/2.csv', "id\n2\n");
pulls('skip_loaded', $once, 'SELECT count(*) FROM once', 2);
my $job = pulls('skip_loaded: nothing new', $once, 'SELECT count(*) FROM once', 2);
is("$job->{rows} $job->{objects} $job->{note}", '0 0 2 of 2 objects were loaded before', 'and says so');
put('once/3.csv', "id\n3\n");
$job = pulls('skip_loaded: a new one', $once, 'SELECT count(*) FROM once', 3);
is($job->{objects}, 1, 'is loaded alone');
sleep 1;
put('once/1.csv', "id\n1001\n");
pulls('skip_loaded: one that has changed', $once, 'SELECT count(*) FROM once WHERE id = 1001', 1);
put('once/4.csv', "id\nx\n");
put('once/5.csv', "id\n5\n");
fails('skip_loaded: a bad one', $once, '22P02', qr{once/4.csv});
sleep 1;
put('once/4.csv', "id\n4\n");
pulls('skip_loaded: what failed was not loaded', $once, 'SELECT count(*), max(id) FROM once WHERE id IN (4, 5)', '2|5');
$node->sql('CREATE TABLE once2 (id int)');
pulls('skip_loaded: another relation', [ 'once2', @$once[ 1 .. 3 ] ], 'SELECT count(*) FROM once2', 5);

# Many schedules at once, over a prefix that grows, with the server crashing in between.
$node->sql('TRUNCATE once');
my $n = 100;
for my $round (1 .. 6)
{
	put("grow/" . ++$n . ".csv", "id\n$n\n") for 1 .. 20;
	$node->sql(join ';', ("SELECT objstore_pull('once', path => 'grow/', options => '{\"skip_loaded\": true}')") x 5);
	if ($round % 3 == 0)
	{
		$node->crash;
		$node->start;
	}
}
$node->wait_for(q(SELECT count(*) FROM objstore_jobs WHERE state IN ('queued', 'running')), '0');
is($node->sql(q(SELECT count(*) FROM objstore_jobs WHERE path = 'grow/' AND state <> 'done')), 0, 'all of them end well');
is($node->sql(q(SELECT count(*), count(DISTINCT id), min(id), max(id) FROM once)), '120|120|101|220', 'every file once');

$s3->no_open_uploads($bucket);
done_testing();
