# The direct encoder writes the bytes of COPY: random tables, options, settings and encodings, each pushed twice, by a
# role with pgobjstore.fast_path = auto and by one with off, into files that must be equal; or both must fail alike.
#
# PGOBJSTORE_IDENTITY_SECONDS runs random tables for so long (test/identity); PGOBJSTORE_IDENTITY_SEED begins with
# another seed, which is printed and goes up by one with each batch.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PgObjStore::Cluster;
use PgObjStore::Objects;
use PgObjStore::Random;
use PgObjStore::Tables;
use Encode ();
use File::Path ();
use JSON::PP ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

my $seconds = $ENV{PGOBJSTORE_IDENTITY_SECONDS} || 0;
my $seed = $ENV{PGOBJSTORE_IDENTITY_SEED} || 1;
alarm 900 + $seconds;

my $node = PgObjStore::Cluster->start_new('identity', conf => <<'CONF');
fsync = off
autovacuum = off
synchronize_seqscans = off
timezone = 'Europe/Berlin'
pgobjstore.max_workers = 4
max_parallel_workers_per_gather = 0
log_min_messages = fatal
CONF
my $json = JSON::PP->new->canonical;
my $top = PostgreSQL::Test::Utils::tempdir();
my %database = both_ways($node, $top);

for my $db (values %database)
{
	$node->sql(<<'SQL', db => $db);
-- a job, or the error that the call raised
CREATE FUNCTION try_push(relation text, path text, format text, columns name[], options jsonb) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN 'job ' || objstore_push(relation::regclass, server => 'files', path => path, format => format, compression => 'none',
		columns => columns, parallel => 1, options => options, if_exists => 'replace');
EXCEPTION WHEN OTHERS THEN
	RETURN 'error ' || SQLSTATE;
END $$;
SQL
}

# ---------------------------------------------------------------- both ways

my $runs = 0;

# Pushes each { relation, format, columns, options } both ways and compares.  Returns a text for each that differs.
# Counts in %$count.  engine in the hash: what must have written the fast one (default direct).
sub compare
{
	my ($encoding, $count, @pushes) = @_;
	my $db = $database{$encoding};
	my $run = ++$runs;
	my %job;
	for my $role ('fast', 'slow')
	{
		my $sql = '';
		for my $i (0 .. $#pushes)
		{
			my $p = $pushes[$i];
			$sql .= sprintf "SELECT try_push(%s, '%s', '%s', %s, %s);\n", quote_literal($p->{relation}), "$run/$i.$role", $p->{format},
			  $p->{columns} ? 'ARRAY[' . join(',', map { quote_literal($_) } @{ $p->{columns} }) . ']::name[]' : 'NULL',
			  quote_literal($json->encode($p->{options} || {}));
		}
		$job{$role} = [ split /\n/, $node->sql($sql, db => $db, user => $role) ];
		die "not one answer a push\n" if @{ $job{$role} } != @pushes;
	}
	$node->wait_for(q(SELECT count(*) FROM objstore_jobs WHERE state IN ('queued', 'running')), '0', db => $db);
	my %row = map { $_->{job_id} => $_ } $node->rows('SELECT job_id, state, sqlstate, message, engine, note, rows, raw_bytes FROM objstore_jobs', db => $db);
	my @problems;
	for my $i (0 .. $#pushes)
	{
		my $p = $pushes[$i];
		my %end;
		for my $role ('fast', 'slow')
		{
			my ($kind, $id) = split / /, $job{$role}[$i];
			my $row = $kind eq 'job' ? $row{$id} : { state => 'refused', sqlstate => $id };
			$row->{end} = join ' ', $row->{state}, map { $_ // '' } @$row{qw(sqlstate rows raw_bytes)};
			$end{$role} = $row;
		}
		my $what = "$p->{relation} $p->{format} " . $json->encode($p->{options} || {}) . ($p->{columns} ? ' (' . join('; ', @{ $p->{columns} }) . ')' : '');
		$count->{all}++;
		push @{ $count->{failed} }, $what if $end{slow}{state} ne 'done';
		if ($end{fast}{end} ne $end{slow}{end})
		{
			push @problems, "$what: $end{fast}{end}, by COPY $end{slow}{end}: " . ($end{fast}{message} // '') . ' / ' . ($end{slow}{message} // '');
			next;
		}
		next if $end{fast}{state} ne 'done';
		my $engine = $p->{engine} // 'direct';
		push @problems, "$what: engine is $end{fast}{engine}, $end{slow}{engine}: " . ($end{fast}{note} // '')
		  if $end{fast}{engine} ne $engine || $end{slow}{engine} ne 'copy';
		my ($fast, $slow) = map { read_file("$top/$run/$i.$_") } 'fast', 'slow';
		$count->{bytes} += length $slow;
		next if $fast eq $slow;
		my $at = ($fast ^ $slow) =~ /[^\0]/g ? $-[0] : length($fast) < length($slow) ? length $fast : length $slow;
		my $from = $at > 30 ? $at - 30 : 0;
		push @problems, sprintf "%s: differs at byte %d of %d:\n  %s\n  by COPY:\n  %s", $what, $at, length $slow,
		  map { s/([^\x20-\x7e])/sprintf '<%02x>', ord $1/ger } substr($fast, $from, 80), substr($slow, $from, 80);
	}
	File::Path::remove_tree("$top/$run");
	$node->sql('TRUNCATE objstore_job CASCADE', db => $db);
	return @problems;
}

# ---------------------------------------------------------------- random tables

# Tables of one seed, each with a view that pins settings and one that changes them from row to row.
sub random_batch
{
	my ($batch_seed, $encoding, $tables, $pushes) = @_;
	my $db = $database{$encoding};
	my $random = PgObjStore::Random->new($batch_seed, encoding => $encoding);
	my @sql = ("SET client_encoding = '$encoding';\nDROP SCHEMA IF EXISTS random CASCADE;\nCREATE SCHEMA random;\nSET search_path = random;\n"
		. $random->types . ';');
	my @push;
	for my $i (1 .. $tables)
	{
		my $table = $random->table("t$i");
		my %settings = PgObjStore::Random::settings();
		my $set = join ', ', map { "set_config('$_', '$settings{$_}', true)" } sort keys %settings;
		my @zones = map { "'" . PgObjStore::Random::zone() . "'" } 1 .. 3;
		push @sql, "$table->{sql}\nCREATE VIEW v$i AS SELECT t.* FROM (SELECT $set OFFSET 0) s(s1, s2, s3, s4, s5) CROSS JOIN t$i t;\n"
		  . "CREATE VIEW w$i AS SELECT set_config('TimeZone', (ARRAY[" . join(', ', @zones) . '])[1 + row_number() OVER () % 3], true) AS zone, '
		  . "set_config('DateStyle', (ARRAY['ISO', 'German', 'ISO'])[1 + row_number() OVER () % 3], true) AS style, "
		  . "set_config('extra_float_digits', (row_number() OVER () % 3 - 1)::text, true) AS digits, t.* FROM t$i t;\n";
		for (1 .. $pushes)
		{
			my ($format, $options) = $random->options($table->{columns});
			my @columns = @{ $table->{columns} };
			$options->{encoding} = 'LATIN1' if $encoding eq 'LATIN1';
			push @push, {
				relation => 'random.' . PgObjStore::Random::pick("t$i", "t$i", "v$i", "w$i"),
				format => $format,
				options => $options,
				columns => @columns && rand() < 0.3 ? [ (sort { rand() <=> 0.5 } @columns)[ 0 .. int rand @columns ] ] : undef };
		}
	}
	# a row that is too large for its page is refused, and missing from both
	my ($rc, $out, $err) = $node->psql($db, join("\n", @sql), on_error_stop => 0);
	my @errors = grep { !/row is too big/ } $err =~ /ERROR:  .*/g;
	die "the tables of seed $batch_seed are wrong: $errors[0]\n" if @errors;
	return @push;
}

my %count = (all => 0, failed => [], bytes => 0);
sub run_batch
{
	my $batch_seed = $seed++;
	my $encoding = (qw(UTF8 UTF8 SQL_ASCII LATIN1))[ $batch_seed % 4 ];
	my $before = $count{all};
	my @problems = compare($encoding, \%count, random_batch($batch_seed, $encoding, 30, 5));
	is(scalar @problems, 0, 'seed ' . $batch_seed . ', ' . $encoding . ': ' . ($count{all} - $before) . ' pushes equal those by COPY')
	  or diag map { "$_\n" } @problems > 10 ? (@problems[ 0 .. 9 ], '...') : @problems;
}

my $end = Time::HiRes::time() + $seconds;
my $batches = 0;
while ($batches++ < 3 || Time::HiRes::time() < $end)
{
	run_batch();
}
note sprintf '%d pushes both ways, %d of them failed both ways, %.1f MB', $count{all}, scalar @{ $count{failed} }, $count{bytes} / 1e6;
cmp_ok(scalar @{ $count{failed} }, '<', $count{all} / 20, 'few of them failed');

# ---------------------------------------------------------------- relations of every kind

$node->sql(<<'SQL');
CREATE SCHEMA kinds;
SET search_path = kinds;
CREATE TABLE parent (id int, t text, g int GENERATED ALWAYS AS (id * 2) STORED, n numeric);
CREATE TABLE child (extra date) INHERITS (parent);
INSERT INTO parent (id, t, n) SELECT i, CASE WHEN i % 3 = 0 THEN 'a,"b"' || i END, i / 7.0 FROM generate_series(1, 500) i;
INSERT INTO child (id, t, n, extra) SELECT i, 'of the child', i, '2000-01-01' FROM generate_series(1, 10) i;
CREATE TABLE parts (id int, at timestamptz, t text) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF parts FOR VALUES FROM (0) TO (100);
-- attributes in another order
CREATE TABLE part_2 (t text, dropped int, at timestamptz, id int);
ALTER TABLE part_2 DROP COLUMN dropped;
ALTER TABLE parts ATTACH PARTITION part_2 DEFAULT;
INSERT INTO parts SELECT i, timestamptz '2020-03-28' + i * interval '1 hour', 'text ' || i FROM generate_series(1, 300) i;
CREATE MATERIALIZED VIEW stored AS SELECT * FROM parts;
CREATE MATERIALIZED VIEW not_stored AS SELECT * FROM parts WITH NO DATA;
CREATE VIEW seen AS SELECT id, p AS r, t FROM parent p WHERE id < 100;
CREATE VIEW broken AS SELECT id, 1 / (id - 300) AS x FROM parts;
CREATE TABLE policies (LIKE parent INCLUDING GENERATED);
INSERT INTO policies (id, t, n) SELECT id, t, n FROM ONLY parent;
ALTER TABLE policies ENABLE ROW LEVEL SECURITY;
CREATE POLICY even ON policies USING (id % 2 = 0);
CREATE TABLE nothing ();
INSERT INTO nothing DEFAULT VALUES;
INSERT INTO nothing DEFAULT VALUES;
CREATE TABLE empty (LIKE parent);
CREATE UNLOGGED TABLE not_logged AS SELECT * FROM ONLY parent;
CREATE TABLE "Odd ""name""" ("a,b" text, "c""d" text, "e	f" text);
INSERT INTO "Odd ""name""" VALUES ('1', '2', '3');
CREATE TABLE one_column (t text);
INSERT INTO one_column VALUES ('\.'), (''), (NULL), ('\N'), ('x\.'), (E'\\.\n');
-- larger than the buffers, in every way of storing
CREATE TABLE large (id int, t text, b bytea, j jsonb, e text, a text[]);
ALTER TABLE large ALTER e SET STORAGE EXTERNAL;
INSERT INTO large SELECT i, repeat(CASE i WHEN 1 THEN 'plain ' WHEN 2 THEN E'\\\n",' ELSE 'ü"' END, 700000), decode(repeat('00ff5c22', 300000), 'hex'),
	jsonb_build_object('k', repeat(E'\u0001\\"x', 200000), 'a', (SELECT jsonb_agg(x) FROM generate_series(1, 60000) x)), repeat('é', 800000),
	(SELECT array_agg(CASE WHEN x % 3 = 0 THEN NULL ELSE 'x"' || x END) FROM generate_series(1, 100000) x) FROM generate_series(1, 3) i;
CREATE TABLE catalog AS SELECT * FROM pg_class LIMIT 0;
REVOKE pg_read_all_data FROM fast, slow;
GRANT USAGE ON SCHEMA kinds TO fast, slow;
GRANT SELECT ON ALL TABLES IN SCHEMA kinds TO fast, slow;
CREATE TABLE hidden (a int, b text);
INSERT INTO hidden VALUES (1, 'x');
CREATE TABLE half_hidden (a int, b text, c date);
INSERT INTO half_hidden VALUES (1, 'x', '2000-01-01');
GRANT SELECT (a, c) ON half_hidden TO fast, slow;
SQL

my @kinds = map { my $r = $_; map { { relation => "kinds.$r", format => $_ } } 'csv', 'text' }
  qw(parent child parts part_2 stored not_stored seen broken policies nothing empty not_logged one_column large hidden half_hidden catalog), '"Odd ""name"""';
push @kinds,
  { relation => 'pg_catalog.pg_class', format => 'csv' },
  { relation => 'pg_catalog.pg_type', format => 'text' },
  { relation => 'kinds.half_hidden', format => 'csv', columns => [ 'c', 'a' ] },
  { relation => 'kinds.half_hidden', format => 'csv', columns => [ 'a', 'b' ] },
  { relation => 'kinds.parent', format => 'csv', columns => ['g'] },
  { relation => 'kinds.policies', format => 'csv', columns => [ 'g', 'id' ] },
  { relation => 'kinds.stored', format => 'csv', columns => [ 't', 'id' ] },
  { relation => 'kinds.parts', format => 'text', columns => [ 'at', 'id' ] },
  { relation => 'kinds.parent', format => 'binary', engine => 'copy' },
  { relation => 'kinds.one_column', format => 'csv', options => { encoding => 'LATIN1' }, engine => 'copy' },
  { relation => 'kinds.large', format => 'text', options => { encoding => 'SQL_ASCII' } },
  { relation => 'kinds.large', format => 'csv', options => { delimiter => ';', quote => "'", escape => '\\' } };
my %kinds = (all => 0, failed => [], bytes => 0);
my @problems = compare('UTF8', \%kinds, @kinds);
is(scalar @problems, 0, "$kinds{all} pushes of relations of every kind equal those by COPY") or diag map { "$_\n" } @problems;
is_deeply($kinds{failed}, [
		(map { ("$_ csv {}", "$_ text {}") } map { "kinds.$_" } qw(not_stored broken hidden half_hidden)),
		'kinds.half_hidden csv {} (a; b)', 'kinds.parent csv {} (g)', 'kinds.policies csv {} (g; id)' ],
	'and what COPY refuses is refused: not populated, an error in a row, no privilege, generated columns');

done_testing();
