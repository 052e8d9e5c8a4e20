# Many tables in one job: one snapshot, one manifest, both layouts, back into an empty database of another cluster.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PgObjStore::Cluster;
use PgObjStore::Servers;
use JSON::PP ();
use Test::More;

alarm 300;

my $s3 = PgObjStore::Servers->s3;
my $bucket = $s3->new_bucket;
my $node = PgObjStore::Cluster->start_new('tables');
my $other = PgObjStore::Cluster->start_new('other');
$_->create_store('lake', url => "s3://$bucket/p", store => $s3) for $node, $other;

# A parent after its children in the order of names, a cycle, an own schema, an empty table, partitions, odd names.
$node->sql(<<'SQL');
CREATE SCHEMA shop;
CREATE TABLE shop.z_customer (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text UNIQUE NOT NULL);
CREATE TABLE shop.a_order (id serial PRIMARY KEY, customer int REFERENCES shop.z_customer ON DELETE CASCADE,
	total numeric(10,2) CHECK (total >= 0));
CREATE TABLE shop."Odd name/é" (id int PRIMARY KEY, next int);
ALTER TABLE shop."Odd name/é" ADD FOREIGN KEY (next) REFERENCES shop."Odd name/é" DEFERRABLE;
CREATE TABLE shop.empty (x int);
CREATE TABLE shop.log (at date, line text) PARTITION BY RANGE (at);
CREATE TABLE shop.log_1 PARTITION OF shop.log FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE shop.log_2 PARTITION OF shop.log DEFAULT;
INSERT INTO shop.z_customer (name) SELECT 'customer ' || g FROM generate_series(1, 100) g;
INSERT INTO shop.a_order (customer, total) SELECT 1 + g % 100, g FROM generate_series(1, 1000) g;
INSERT INTO shop."Odd name/é" VALUES (1, 1), (2, 1);
INSERT INTO shop.log SELECT date '2023-12-30' + g, E'line\n' || g FROM generate_series(0, 500) g;
CREATE TABLE shop.big AS SELECT g AS id, repeat(md5(g::text), 40) AS filler FROM generate_series(1, 10000) g;
SQL

my @tables = map { "shop.$_" } 'a_order', 'big', 'empty', 'log', '"Odd name/é"', 'z_customer';
sub content
{
	my ($n) = @_;
	my $query = join ' UNION ALL ',
	  map { "SELECT '$_', count(*), sum(hashtextextended(t::text, 0)) FROM $_ t" } @tables;
	return $n->sql("SELECT * FROM ($query) q(a, b, c) ORDER BY a");
}
my $content = content($node);

for my $layout ('files', 'packed')
{
	for my $options ([ 'csv', 'zstd' ], [ 'text', 'none' ], [ 'binary', 'zstd' ])
	{
		my ($format, $compression) = @$options;
		my $name = "$layout $format $compression";
		my $job = $node->ok_job("SELECT objstore_push_tables(schema => 'shop', server => 'lake', layout => '$layout',
			format => '$format', compression => '$compression')", "push $name");
		is($job->{rows}, 100 + 1000 + 2 + 501 + 10000, 'rows of all');
		is($job->{kind}, 'push_tables', 'kind');
		is($job->{objects}, 6, 'an object for each table') if $layout eq 'files';
		# big has more than 8 MB; the partitions of log have less together
		is($job->{objects}, 2, 'small tables share an object, big has its own') if $layout eq 'packed';
		my $manifest = JSON::PP->new->decode($s3->client('get', $bucket, "p/$job->{path}manifest.json"));
		is(scalar @{ $manifest->{tables} }, 6, 'one manifest for all');

		$other->sql('DROP SCHEMA IF EXISTS shop CASCADE');
		my $pull = $other->ok_job("SELECT objstore_pull_tables(server => 'lake', path => '$job->{path}')", "pull $name");
		is($pull->{rows}, $job->{rows}, 'the same number of rows');
		is(content($other), $content, 'the same rows');
	}
}
is($other->sql("SELECT string_agg(conrelid::regclass || ' ' || pg_get_constraintdef(oid), E'\n' ORDER BY 1) FROM
	(SELECT * FROM pg_constraint WHERE connamespace = 'shop'::regnamespace AND contype IN ('p','f','u','c') AND conparentid = 0
	 ORDER BY conrelid::regclass::text, contype) c"),
	$node->sql("SELECT string_agg(conrelid::regclass || ' ' || pg_get_constraintdef(oid), E'\n' ORDER BY 1) FROM
	(SELECT * FROM pg_constraint WHERE connamespace = 'shop'::regnamespace AND contype IN ('p','f','u','c') AND conparentid = 0
	 ORDER BY conrelid::regclass::text, contype) c"), 'keys and checks are those of the original');
is($other->sql("INSERT INTO shop.a_order (customer, total) VALUES (1, 1) RETURNING id"), 1001, 'serial goes on');
is($other->sql("INSERT INTO shop.z_customer (name) VALUES ('new') RETURNING id"), 101, 'identity goes on');

# The frames of a pack stand alone: what the manifest says of one table is a zstd file of its own.
{
	my $job = $node->ok_job("SELECT objstore_push_tables(schema => 'shop', server => 'lake', layout => 'packed')");
	my $manifest = JSON::PP->new->decode($s3->client('get', $bucket, "p/$job->{path}manifest.json"));
	my ($table) = grep { $_->{relation}{name} eq 'z_customer' } @{ $manifest->{tables} };
	my $object = $manifest->{objects}[ $table->{object} ];
	my $bytes = $s3->client('get', $bucket, "p/$job->{path}$object->{key}");
	my $file = $node->basedir . '/slice';
	open my $f, '>:raw', "$file.zst" or die;
	print $f substr($bytes, $table->{offset}, $table->{bytes});
	close $f;
	my @lines = `zstd -dc $file.zst`;
	is(scalar @lines, 101, 'header and rows of one table, cut out by offset and length');
	is($lines[0], "id,name\n", 'it begins with its own header');
	is($lines[100], "100,customer 100\n", 'and ends with its last row');
}

# ---------------------------------------------------------------- modes, parts of a dataset, errors

my $path = $node->ok_job("SELECT objstore_push_tables('{shop.a_order,shop.z_customer}', server => 'lake', path => 'two/')")->{path};
my $error = $other->run_job("SELECT objstore_pull_tables(server => 'lake', path => 'two/')");
is("$error->{state} $error->{sqlstate}", 'failed 42P07', 'a table that exists is an error');
$other->ok_job("SELECT objstore_pull_tables(server => 'lake', path => 'two/', mode => 'replace', tables => '{shop.a_order}')",
	'replace one of them');
is($other->sql('SELECT count(*) FROM shop.a_order'), 1000, 'it is replaced');
is($other->sql('SELECT count(*) FROM shop.z_customer'), 101, 'the other is as it was');
$error = $other->run_job("SELECT objstore_pull_tables(server => 'lake', path => 'two/', tables => '{shop.none}')");
is("$error->{state} $error->{sqlstate}", 'failed 42704', 'a table that the dataset does not have');
$other->sql('DROP SCHEMA shop CASCADE');
my $part = $other->ok_job("SELECT objstore_pull_tables(server => 'lake', path => 'two/', tables => '{shop.a_order}')", 'only the child');
like($part->{note}, qr/1 foreign keys left out.*a_order/, 'its foreign key is left out, and the job says so');

$error = $node->sql_error("SELECT objstore_push_tables()");
is($error->{sqlstate}, '22023', 'nothing to push');
$error = $node->sql_error("SELECT objstore_push_tables(schema => 'shop', pattern => 'nothing%')");
is($error->{sqlstate}, '42P01', 'a pattern that matches nothing');
$error = $node->sql_error("SELECT objstore_push_tables(schema => 'shop', path => 'key')");
is($error->{sqlstate}, '22023', 'a path that is no folder');
$error = $node->sql_error("SELECT objstore_push_tables(schema => 'shop', layout => 'boxed')");
like($error->{detail}, qr/files, packed/, 'an unknown layout');
$error = $node->run_job("SELECT objstore_pull('shop.a_order', server => 'lake', path => 'two/')");
is($error->{sqlstate}, '42809', 'objstore_pull of a dataset of tables');
like($error->{hint}, qr/objstore_pull_tables/, 'says what to use');
$error = $node->run_job("SELECT objstore_push_tables('{shop.empty}', server => 'lake', path => 'two/')");
is($error->{sqlstate}, '42710', 'if_exists holds');
$node->ok_job("SELECT objstore_push_tables('{shop.empty}', server => 'lake', path => 'two/', if_exists => 'replace')", 'replace');
is(scalar(grep { !/manifest/ } $s3->object_keys($bucket, 'p/two/')), 1, 'the old objects are gone');

# ---------------------------------------------------------------- one snapshot

$node->sql(<<'SQL');
CREATE SCHEMA s;
DO $$ BEGIN FOR i IN 1 .. 60 LOOP
	EXECUTE format('CREATE TABLE s.t%s AS SELECT 0 AS n', lpad(i::text, 2, '0')); END LOOP; END $$;
CREATE PROCEDURE s.tick() LANGUAGE plpgsql AS $$ BEGIN
	FOR k IN 1 .. 100000 LOOP
		UPDATE s.t01 SET n = k; UPDATE s.t60 SET n = k; COMMIT;
	END LOOP; END $$;
SQL
my $ticker = IPC::Run::start([ 'psql', '-XAtq', '-h', $node->host, '-p', $node->port, '-c', 'CALL s.tick()', 'postgres' ],
	'>', \my $out, '2>', \my $err);
$node->wait_for('SELECT n > 10 FROM s.t60');
for my $layout ('files', 'packed')
{
	my $job = $node->ok_job("SELECT objstore_push_tables(schema => 's', server => 'lake', layout => '$layout')");
	$other->sql('DROP SCHEMA IF EXISTS s CASCADE');
	$other->ok_job("SELECT objstore_pull_tables(server => 'lake', path => '$job->{path}')");
	is($other->sql('SELECT (SELECT n FROM s.t01) = (SELECT n FROM s.t60)'), 't', "$layout: first and last table agree");
}
$ticker->signal('TERM');
eval { $ticker->finish };

$s3->no_open_uploads($bucket);
done_testing;
