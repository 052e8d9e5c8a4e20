# Definitions of tables come back with the rows: the tables of 011_ddl.sql are pushed, pulled into a database that has
# only the types and functions that they need, and compared by what pg_dump writes.  And manifests that somebody has
# tampered with: they fail, and nothing of what is in them is carried out.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PgObjStore::Cluster;
use PgObjStore::Objects;
use PgObjStore::Servers;
use PgObjStore::Tables;
use JSON::PP ();
use Test::More;

my $s3 = PgObjStore::Servers->s3;
my $bucket = $s3->new_bucket;
my $node = PgObjStore::Cluster->start_new('main', extension => 0, conf => <<'CONF');
fsync = off
pgobjstore.max_workers = 8
pgobjstore.default_server = 's3'
CONF
my $missing = $node->sql(q(SELECT string_agg(n, ', ') FROM unnest(array['hstore', 'citext', 'btree_gist', 'pg_trgm']) n
	WHERE n NOT IN (SELECT name FROM pg_available_extensions)));
plan skip_all => "extensions that the tables need are not installed: $missing" if $missing ne '';

my $sql = read_file("$FindBin::RealBin/011_ddl.sql");
my ($before) = $sql =~ /\A(.*?)^-- tables$/ms or die 'no "-- tables" in 011_ddl.sql';
for my $db (qw(source target))
{
	$node->sql("CREATE DATABASE $db TEMPLATE template0 ENCODING 'UTF8'");
	$node->sql('CREATE EXTENSION pgobjstore', db => $db);
	$node->create_store('s3', url => "s3://$bucket", store => $s3, db => $db);
	$node->sql($db eq 'source' ? $sql : "$before; CREATE TYPE s.rowt AS (x int, y text);", db => $db);
}

# A table is named with its schema, quoted; its dataset is in the folder of its place in the list.
my @tables = map { $_->{name} } $node->rows(<<'SQL', db => 'source');
SELECT oid::regclass::text AS name FROM pg_class
WHERE relnamespace = 's'::regnamespace AND relkind IN ('r', 'p', 'v', 'm') AND NOT relispartition ORDER BY oid
SQL
cmp_ok(scalar @tables, '>=', 25, 'tables to push: ' . @tables);
my @jobs = run_jobs($node, 'source', map { 'SELECT objstore_push(' . quote_literal($tables[$_]) . ", path => 'ddl/$_/');" } 0 .. $#tables);
is_deeply([ map { "$_->{relation}: $_->{message}" } grep { $_->{state} ne 'done' } @jobs ], [], 'all are pushed');
@jobs = run_jobs($node, 'target', map { 'SELECT objstore_pull(' . quote_literal($tables[$_]) . ", path => 'ddl/$_/', mode => 'create');" } 0 .. $#tables);
is_deeply([ map { "$_->{relation}: $_->{message} " . ($_->{detail} // '') } grep { $_->{state} ne 'done' } @jobs ], [], 'and pulled');

# ---------------------------------------------------------------- by pg_dump

# What pg_dump writes about tables and what hangs on them, one statement an element.
sub schema_dump
{
	my ($db, @patterns) = @_;
	my $text = `pg_dump -s -d 'port=${\ $node->port} host=${\ $node->host} dbname=$db' @{[ map { "-t '$_'" } @patterns ]}`;
	die "pg_dump failed\n" if $?;
	# the order of storage parameters means nothing
	$text =~ s/^(WITH \()(.*)(\);)$/$1 . join(', ', sort split m{, }, $2) . $3/mge;
	$text =~ s/^(--|SET |SELECT pg_catalog\.set_config|\\).*\n//mg;
	return grep { $_ ne '' } map { s/\A\s+|\s+\z//gr } split /\n\n\n/, $text;
}

sub same_dump
{
	my ($name, $differ, @patterns) = @_;
	@patterns = ("s.$name") if !@patterns;
	my @expected = map { $differ ? $differ->($_) : $_ } schema_dump('source', @patterns);
	my @got = schema_dump('target', @patterns);
	my %got = map { $_ => 1 } @got;
	my %expected = map { $_ => 1 } @expected;
	my @missing = grep { !$got{$_} } @expected;
	my @extra = grep { !$expected{$_} } @got;
	ok(@expected && !@missing && !@extra, "$name: pg_dump says the same (" . @expected . ' statements)')
	  or diag map { "$_\n" } (map { "missing: $_" } @missing), map { "too much: $_" } @extra;
}

for my $name (qw(empty types defaults serials ident gen checks keys serials2 opts dropped par))
{
	same_dump($name);
}
same_dump('a name that must be quoted', undef, 's."Quoted ""T; DROP TABLE x; --"');
same_dump($_, undef, "s.$_*") for qw(pr px pm pe);
same_dump('pl', undef, 's.pl', 's."PL; x"');
# the manifest does not carry foreign keys, policies, the table's type and its parents
same_dump('fks', sub { $_[0] =~ /FOREIGN KEY/ ? () : $_[0] });
same_dump('rls', sub { $_[0] =~ /ROW LEVEL SECURITY/ ? () : $_[0] });
is($node->sql(q(SELECT relrowsecurity FROM pg_class WHERE oid = 's.rls'::regclass), db => 'target'), 'f', 'row-level security is not enabled');

# ---------------------------------------------------------------- those that cannot be the same

# For each of the relations what psql would list of its columns, in one session.
sub columns_of
{
	my ($db, @relations) = @_;
	return each_relation($db, <<'SQL', @relations);
SELECT string_agg(format('%I %s %s %s', attname, format_type(atttypid, atttypmod),
	CASE WHEN attcollation <> typcollation THEN (SELECT collname FROM pg_collation WHERE oid = attcollation) END,
	CASE WHEN attnotnull THEN 'not null' END), ', ' ORDER BY attnum)
FROM pg_attribute JOIN pg_type t ON t.oid = atttypid WHERE attrelid = r AND attnum > 0 AND NOT attisdropped
SQL
}

# How many indexes, constraints, partitions and defaults they have.
sub counts_of
{
	my ($db, @relations) = @_;
	return each_relation($db, <<'SQL', @relations);
SELECT concat_ws(' ', (SELECT count(*) FROM pg_index WHERE indrelid = r),
	(SELECT string_agg(contype, '' ORDER BY contype) FROM pg_constraint WHERE conrelid = r AND contype NOT IN ('f', 'n')),
	(SELECT count(*) FROM pg_partition_tree(r)), (SELECT count(*) FROM pg_attrdef WHERE adrelid = r))
SQL
}

sub each_relation
{
	my ($db, $query, @relations) = @_;
	return map { $_->{listing} } $node->rows("SELECT (SELECT l.l FROM ($query) l (l)) AS listing FROM unnest(array["
		  . join(', ', map { quote_literal($_) } @relations) . "]::regclass[]) WITH ORDINALITY AS u (r, n) ORDER BY n", db => $db);
}

my @changed = map { "s.$_" } qw(v mv kid typed seqs);
{
	my @source = columns_of('source', @changed);
	my @target = columns_of('target', @changed);
	is($target[$_], $source[$_], "$changed[$_]: the columns") for 0 .. $#changed;
}
is($node->sql(qq(SELECT string_agg(relname || relkind::text, ' ' ORDER BY relname) FROM pg_class WHERE oid IN ('s.v'::regclass, 's.mv'::regclass)), db => 'target'),
	'mvr vr', 'views become tables');
is($node->sql(q(SELECT string_agg(pg_get_constraintdef(oid), ' ' ORDER BY conname) FROM pg_constraint WHERE conrelid = 's.kid'::regclass AND contype <> 'n'), db => 'target'),
	'CHECK ((c < 100)) PRIMARY KEY (c) CHECK ((a > 0))', 'a child has the inherited constraints itself');
is($node->sql(q(SELECT count(*) FROM pg_inherits WHERE inhrelid = 's.kid'::regclass), db => 'target'), '0', 'and no parent');
is($node->sql(q(SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 's.typed'::regclass AND contype = 'p'), db => 'target'), 'PRIMARY KEY (x)', 'a typed table has its key');
{
	# sequences are named after the new table and its columns
	my $query = q(SELECT string_agg(concat_ws(' ', a.attname, s.seqtypid::regtype, s.seqstart, s.seqincrement, s.seqmax, s.seqmin, s.seqcache, s.seqcycle), E'\n' ORDER BY a.attnum)
		FROM pg_depend d JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid JOIN pg_sequence s ON s.seqrelid = d.objid
		WHERE d.refobjid = 's.seqs'::regclass AND d.deptype = 'a');
	my $source = $node->sql($query, db => 'source');
	like($source, qr/^a smallint -3 -2 5 -300 7 t$/m, 'a table with odd sequences');
	is($node->sql($query, db => 'target'), $source, 'has them again');
}

# ---------------------------------------------------------------- sequences go on

is($node->sql(q(INSERT INTO s.serials (t) VALUES ('x') RETURNING id, big, small), db => 'target'), '42|9000000000000000001|1', 'serial columns go on after the last value');
# two values of b were used of the three that are cached: what comes next is behind the cache's last
is($node->sql(q(INSERT INTO s.ident DEFAULT VALUES RETURNING a, b, c), db => 'target'),
	$node->sql(q(INSERT INTO s.ident DEFAULT VALUES RETURNING a, b, c), db => 'source'), 'identity columns go on as they would have');
is($node->sql(q(INSERT INTO s.seqs (d) VALUES ('x') RETURNING a, b), db => 'target'), '-3|INV-1', 'odd sequences begin where they would have');
is($node->sql(q(DROP TABLE s.seqs; SELECT count(*) FROM pg_class WHERE relname LIKE 'seqs\_%'), db => 'target'), '0', 'they are owned by the table');
$node->sql('CREATE TABLE s.counted (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n serial, t text)', db => 'source');
$node->sql('INSERT INTO s.counted (t) SELECT i::text FROM generate_series(1, 1000) i', db => 'source');
$node->ok_job(q(SELECT objstore_push('s.counted')), 'a table with numbers', db => 'source');
$node->ok_job(q(SELECT objstore_pull('s.counted', path => 'source/s.counted/')), 'comes back', db => 'target');
is($node->sql(q(INSERT INTO s.counted (t) VALUES ('new') RETURNING id, n), db => 'target'), '1001|1001', 'and counts on');

# ---------------------------------------------------------------- under another name

{
	$node->sql('CREATE SCHEMA "N s"', db => 'target');
	my @names = map { qq("N s"."new ""t; $_") } 0 .. $#tables;
	@jobs = run_jobs($node, 'target', map { 'SELECT objstore_pull(' . quote_literal($names[$_]) . ", path => 'ddl/$_/', mode => 'create');" } 0 .. $#tables);
	is_deeply([ map { "$_->{relation}: $_->{message} " . ($_->{detail} // '') } grep { $_->{state} ne 'done' } @jobs ], [], 'all tables again, under other names');
	my @source = columns_of('source', @tables);
	my @target = columns_of('target', @names);
	my @source_counts = counts_of('source', @tables);
	my @target_counts = counts_of('target', @names);
	for my $i (0 .. $#tables)
	{
		is($target[$i], $source[$i], "$tables[$i]: the columns under another name");
		is($target_counts[$i], $source_counts[$i], "$tables[$i]: indexes, constraints, partitions, defaults")
		  unless $tables[$i] =~ /^s\.m?v$/;
	}
}

# ---------------------------------------------------------------- manifests that were tampered with

$node->sql(<<'SQL', db => 'target');
CREATE SCHEMA z;
CREATE TABLE z.canary (a int);
INSERT INTO z.canary VALUES (1);
CREATE FUNCTION z.pwn(int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN DELETE FROM z.canary; RETURN true; END $$;
CREATE SCHEMA victims;
SQL
$node->sql('CREATE TABLE s.plain (a int); INSERT INTO s.plain VALUES (1), (2)', db => 'source');
$node->ok_job(q(SELECT objstore_push('s.plain', path => 'plain/', compression => 'none')), 'a plain table', db => 'source');
my $json = JSON::PP->new->utf8->canonical;
my $manifest = $s3->client('get', $bucket, 'plain/manifest.json');
my $rows = $s3->client('get', $bucket, 'plain/part-00000.csv');
my @cases;

# tampered(NAME, SUB, ...): the sub changes the manifest.  Options: text => instead of it; accepted => 1; sqlstate.
sub tampered
{
	my ($name, $change, %opt) = @_;
	my $changed = $json->decode($manifest);
	$change->($changed) if $change;
	$name =~ s/\n/ /g;
	push @cases, { text => $json->encode($changed), %opt, name => $name };
}
# The first column, or the relation itself, gets these members.
sub column
{
	my ($name, $members, %opt) = @_;
	tampered($name, sub { my $c = $_[0]{relation}{columns}[0]; $c->{$_} = $members->{$_} for keys %$members; }, %opt);
}
sub relation
{
	my ($name, $members, %opt) = @_;
	tampered($name, sub { $_[0]{relation}{$_} = $members->{$_} for keys %$members; }, %opt);
}
tampered('nothing changed', undef, accepted => 1);

for ('1); DROP TABLE z.canary; --', '1; DROP TABLE z.canary', '1) , (2', '1, 2', '1 FROM z.canary', '1 AS x', 'DISTINCT 1', '1 INTO z.t2', '1 UNION SELECT 2', '(SELECT 1)',
	'*', '', '1 WHERE true', 'count(*)', '1)', '(1', "'", '$$', '1 /*', '$1', 'x', '1 LIMIT 1', '1 FOR UPDATE', 'row_number() over ()', 'nosuch(1)', 'nosuch.f(1)',
	'generate_series(1,2)', 'NULL::nosuchtype', 'DEFAULT', 'a + 1', 'z.pwn(1)')
{
	column("default $_", { default => $_ });
}
column("type $_", { type => $_ }) for 'integer; DROP TABLE z.canary', 'integer, b text', 'integer) ; --', 'setof integer', 'z.canary.a%TYPE', 'nosuch', 'nosuch.nosuch', 'integer DEFAULT 1', '',
  'int4(3)', 'text NOT NULL', 'anyelement', 'record', 'integer[][', 'cstring', 'numeric(5,99999)', undef, 5, { a => 1 }, 'integer CHECK (z.pwn(1))', 'text COLLATE "C"';
for ('CHECK (a > 0), DROP COLUMN a', 'CHECK (a > 0); DROP TABLE z.canary', 'PRIMARY KEY (a)', 'CHECK (a > 0), ADD COLUMN b int', 'FOREIGN KEY (a) REFERENCES z.canary', '', 'UNIQUE USING INDEX foo',
	'CHECK ((SELECT count(*) FROM z.canary) > 0)', undef, 5)
{
	relation('check ' . ($_ // 'null'), { checks => [ { name => 'c', definition => $_ } ] });
}
relation("primary key $_", { primary_key => { name => 'c', definition => $_ } })
  for 'PRIMARY KEY (a), DROP COLUMN a', 'PRIMARY KEY (a); DROP TABLE z.canary', 'UNIQUE (a)', 'PRIMARY KEY USING INDEX canary', 'PRIMARY KEY (b)', 'CHECK (true)', 'FOREIGN KEY (a) REFERENCES z.canary';
relation("index $_", { indexes => [ { name => 'c', definition => $_ } ] })
  for 'CREATE INDEX x ON z.canary (a); DROP TABLE z.canary', 'DROP TABLE z.canary', 'CREATE TABLE q()', 'SELECT 1', 'CREATE INDEX x ON s.plain ((SELECT 1))', 'CREATE INDEX x ON s.plain ((z.pwn(a)))', '',
  'CREATE INDEX x ON s.plain (nosuch)', 'CREATE INDEX x ON s.plain USING nosuch (a)', 'CREATE INDEX x ON s.plain (a) WHERE z.pwn(a)';
relation("partition key $_", { partitioning => { key => $_, partitions => [] } }) for 'LIST (a); DROP TABLE z.canary', 'LIST (a) TABLESPACE x', 'LIST (a) WITH (fillfactor=3)', '', 'FOO (a)', 'LIST (nosuch)', 'LIST ((z.pwn(a)))';
relation("bound $_", { partitioning => { key => 'LIST (a)', partitions => [ { schema => 's', name => 'p', parent_schema => 's', parent_name => 'plain', bound => $_ } ] } })
  for 'DEFAULT; DROP TABLE z.canary', 'DEFAULT PARTITION BY LIST (a)', 'FOR VALUES IN (1) TABLESPACE x', '(CHECK (a > 1)) DEFAULT', '', 'FOR VALUES IN ((SELECT 1))', 'FOR VALUES FROM (1) TO (2)', 'FOR VALUES IN (nosuch())',
  'FOR VALUES IN (z.pwn(1))';
relation('partition of another table', { partitioning => { key => 'LIST (a)', partitions => [ { schema => 's', name => 'p', parent_schema => 'z', parent_name => 'canary', bound => 'DEFAULT' } ] } });
relation('partition of itself', { partitioning => { key => 'LIST (a)', partitions => [ { schema => 's', name => 'p', parent_schema => 's', parent_name => 'p', bound => 'DEFAULT' } ] } });
relation('storage parameter', { options => { 'fillfactor) ; DROP TABLE z.canary; --' => '1' } });
relation('storage value', { options => { fillfactor => q{50'); DROP TABLE z.canary; --} } });
relation('storage parameter of nothing', { options => { 'toast.nosuch' => '1' } });
relation('columns are no list', { columns => {} });
relation('columns are missing', { columns => undef });
relation('a column is no object', { columns => [1] });
column('no name', { name => undef });
column('a long name', { name => 'a' x 64 });
column('generated', { generated => 'stored; DROP' });
column('generated by nothing', { generated => 'stored' });
column('identity', { identity => 'sometimes' });
column('collation', { type => 'text', collation => { schema => 'pg_catalog', name => 'C"; DROP TABLE z.canary; --' } });
column('compression', { type => 'text', compression => 'pglz); DROP TABLE z.canary; --' });
my %sequence = (schema => 's', name => 'q', type => 'bigint', start => 1, increment => 1, min => 1, max => 10, cache => 1, cycle => JSON::PP::false, last_value => 5, is_called => JSON::PP::true);
column('sequence', { default => q{nextval('s.q'::regclass)}, sequence => {%sequence} }, accepted => 1);
column("sequence with $_->[0] $_->[1]", { sequence => { %sequence, $_->[0] => $_->[1] } })
  for [ type => 'bigint; DROP TABLE z.canary' ], [ start => '1; DROP TABLE z.canary' ], [ increment => 0 ], [ last_value => 11 ];
column('sequence of somebody else', { default => q{nextval('nosuch.q'::regclass)} });
# quoted where it counts
relation('comment', { comment => q{x'; DROP TABLE z.canary; -- \\} }, accepted => 1);
tampered('a name that is SQL', sub {
		my $name = 'a"; DROP TABLE z.canary; --';
		$_[0]{relation}{columns}[0]{name} = $name;
		$_[0]{columns} = [$name]; }, accepted => 1);

# the manifest around it
tampered('text that is no JSON', undef, text => 'x');
tampered('nothing at all', undef, text => '');
tampered('a list', undef, text => '[]');
tampered('cut off', undef, text => substr $manifest, 0, 200);
tampered('not UTF-8', undef, text => $manifest =~ s/"plain"/"pl\xffin"/r);
tampered('a zero byte', undef, text => "$manifest\0");
tampered('a newer version', sub { $_[0]{pgobjstore} = 99; }, sqlstate => '0A000');
tampered('no version', sub { delete $_[0]{pgobjstore}; });
tampered('no relation', sub { delete $_[0]{relation}; });
tampered('another format', sub { $_[0]{format} = 'parquet; DROP'; });
tampered('format binary', sub { $_[0]{format} = 'binary'; });
tampered('another compression', sub { $_[0]{compression} = 'zstd'; });
tampered('columns that are not there', sub { $_[0]{columns} = [ 'a', 'b' ]; });
tampered('columns twice', sub { $_[0]{columns} = [ 'a', 'a' ]; });
tampered('too many rows', sub { $_[0]{objects}[0]{rows} = 3; });
tampered('too few rows', sub { $_[0]{objects}[0]{rows} = 1; });
tampered('another checksum', sub { $_[0]{objects}[0]{crc32c} = '00000000'; });
tampered('no checksum', sub { delete $_[0]{objects}[0]{crc32c}; });
tampered('another size', sub { $_[0]{objects}[0]{bytes}++; });
tampered('negative numbers', sub { $_[0]{objects}[0]{bytes} = -1; });
tampered('huge numbers', sub { $_[0]{objects}[0]{bytes} = 1e30; });
tampered("an object elsewhere: $_->[0]", sub { $_[0]{objects}[0]{key} = $_->[0]; }) for ['../plain/part-00000.csv'], ['/plain/part-00000.csv'], ['nothing.csv'], [''], ["a\nb"], ['..'];
tampered('copy options', sub { $_[0]{copy_options}{nosuch} = 'x'; $_[0]{copy_options}{delimiter} = "ab"; });
tampered('freeze and program', sub { $_[0]{copy_options}{encoding} = q{UTF8') FREEZE; --}; });

for my $i (0 .. $#cases)
{
	write_file($node->basedir . '/up', $cases[$i]{text});
	$s3->client('put_file', $bucket, "bad/$i/manifest.json", $node->basedir . '/up');
	$s3->client('put', $bucket, "bad/$i/part-00000.csv", $rows);
}
my $objects = sub { $node->sql(q(SELECT count(*) FROM pg_class WHERE relnamespace NOT IN ('pg_catalog'::regnamespace, 'pg_toast'::regnamespace, 'victims'::regnamespace)), db => 'target') };
my $before_count = $objects->();
@jobs = run_jobs($node, 'target', map { "SELECT objstore_pull('victims.t$_', path => 'bad/$_/');" } 0 .. $#cases);
my %there = map { $_->{relname} => 1 } $node->rows(q(SELECT relname FROM pg_class WHERE relnamespace = 'victims'::regnamespace), db => 'target');
for my $i (0 .. $#cases)
{
	my $case = $cases[$i];
	my $state = $jobs[$i]{state};
	is($state, $case->{accepted} ? 'done' : 'failed', "manifest, $case->{name}: " . ($case->{accepted} ? 'is taken' : 'fails'))
	  or diag $jobs[$i]{message} // 'no error';
	next if $case->{accepted} || $state ne 'failed';
	is($jobs[$i]{sqlstate}, $case->{sqlstate}, "manifest, $case->{name}: SQLSTATE") if $case->{sqlstate};
	unlike($jobs[$i]{sqlstate}, qr/^XX000/, "manifest, $case->{name}: no internal error") or diag $jobs[$i]{message};
	ok(!$there{"t$i"}, "manifest, $case->{name}: no table is left");
}
is($node->sql('SELECT count(*) FROM z.canary', db => 'target'), '1', 'nothing was carried out');
is($objects->(), $before_count, 'nothing was made elsewhere');
unlike($node->log_text, qr/PANIC|was terminated by signal|TRAP:/, 'and nothing crashed');
$s3->no_open_uploads($bucket);
done_testing();
