# What goes to a store comes back byte for byte: every type, format, compression, encoding and kind of relation,
# on the real S3 server.
#
# A table is compared by what COPY (SELECT * ...) TO STDOUT writes of it, sorted; the objects by other people's
# programs: zstd, boto3, and this project's own reading of the formats in PgObjStore::Objects.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PgObjStore::Cluster;
use PgObjStore::Objects;
use PgObjStore::Servers;
use Digest::MD5 qw(md5_hex);
use Encode ();
use JSON::PP ();
use Test::More;

my $s3 = PgObjStore::Servers->s3;
my $bucket = $s3->new_bucket;
my $node = PgObjStore::Cluster->start_new('main', conf => <<'CONF');
fsync = off
pgobjstore.max_workers = 6
pgobjstore.part_size = '5MB'
CONF
$node->create_store('s3', url => "s3://$bucket/top dir", store => $s3);
$node->sql(q(ALTER SYSTEM SET pgobjstore.default_server = 's3'));
$node->sql('SELECT pg_reload_conf()');
$node->wait_for('SHOW pgobjstore.default_server', 's3');
my $me = $node->sql('SELECT current_user');

my @variants = map { my $f = $_; map { { format => $f, compression => $_ } } qw(zstd none) } qw(csv text binary);

# ---------------------------------------------------------------- helpers

# All rows of each query as COPY writes them, one a line, sorted; bytes as they are in the database.  One session
# for all, and a failure of a query is its result.
sub dump_rows
{
	my ($db, @queries) = @_;
	my $end = '== end ==';
	my $script = join '', "SET client_encoding = 'SQL_ASCII';\n",
	  map { "COPY ($_) TO STDOUT;\n\\if :ERROR\n\\echo :LAST_ERROR_MESSAGE\n\\endif\n\\echo $end\n" } @queries;
	my ($rc, $text) = $node->psql($db, $script, on_error_stop => 0);
	my @parts = split /^\Q$end\E\n?/m, $text, -1;
	die "not one answer a query\n" if @parts != @queries + 1;
	return map { join '', sort split /(?<=\n)/ } @parts[ 0 .. $#queries ];
}

# Queries that answer job ids, each in a transaction of its own; the rows of the jobs, in order, when all have ended.
sub run_jobs
{
	my ($db, @queries) = @_;
	my @ids = split /\n/, $node->sql(join("\n", @queries), db => $db);
	die "not one id a query\n" if @ids != @queries;
	$node->wait_for(q(SELECT count(*) FROM objstore_jobs WHERE state IN ('queued', 'running')), '0', db => $db);
	my %job = map { $_->{job_id} => $_ } $node->rows('SELECT * FROM objstore_jobs', db => $db);
	return map { $job{$_} } @ids;
}

sub lit
{
	my ($text) = @_;
	return 'NULL' unless defined $text;
	$text =~ s/'/''/g;
	return $text =~ s/\\/\\\\/g ? " E'$text'" : "'$text'";
}

sub same
{
	my ($got, $expected, $name) = @_;
	return pass($name) if $got eq $expected;
	fail($name);
	my @got = split /\n/, $got, -1;
	my @expected = split /\n/, $expected, -1;
	diag scalar(@got), ' rows instead of ', scalar @expected if @got != @expected;
	for my $i (0 .. $#expected)
	{
		next if defined $got[$i] && $got[$i] eq $expected[$i];
		my @a = split /\t/, $got[$i] // '(none)', -1;
		my @b = split /\t/, $expected[$i], -1;
		my ($field) = grep { ($a[$_] // '') ne ($b[$_] // '') } 0 .. ($#a > $#b ? $#a : $#b);
		diag 'row ', $i + 1, ', field ', ($field // 0) + 1, ':';
		diag '  back:   ', substr($a[ $field // 0 ] // '(none)', 0, 200);
		diag '  before: ', substr($b[ $field // 0 ] // '(none)', 0, 200);
		last;
	}
	return 0;
}

# Pushes each table in every format and compression and pulls it into the schema back_FORMAT_COMPRESSION, where it
# is made by the pull.  Tables are given as { relation (quoted, without its schema), columns => { FORMAT => list, if
# not all }, from => what to compare with }.  Options: db; label for the tests' names.
sub round_trip
{
	my ($tables, %opt) = @_;
	my $db = $opt{db} // 'postgres';
	my (@push, @what);
	for my $table (@$tables)
	{
		my $relation = "public.$table->{relation}";
		for my $v (@variants)
		{
			my $columns = $table->{columns}{ $v->{format} };
			my $list = $columns ? join ', ', map { qq("$_") } @$columns : '*';
			push @push, sprintf q(SELECT objstore_push(%s, format => '%s', compression => '%s', columns => %s::name[]);),
			  lit($relation), $v->{format}, $v->{compression},
			  $columns ? lit('{' . join(',', map { qq("$_") } @$columns) . '}') : 'NULL';
			push @what, {
				name => ($opt{label} // '') . "$table->{relation} as $v->{format}, $v->{compression}",
				back => "back_$v->{format}_$v->{compression}.$table->{relation}",
				before_query => "SELECT $list FROM " . ($table->{from} // $relation),
				list => $list };
		}
	}
	my %before;
	my @queries = do { my %seen; grep { !$seen{$_}++ } map { $_->{before_query} } @what };
	@before{@queries} = dump_rows($db, @queries);
	my @pushed = run_jobs($db, @push);
	for my $i (0 .. $#what)
	{
		is($pushed[$i]{state}, 'done', "$what[$i]{name}: pushed")
		  or diag "$pushed[$i]{message}\n", $pushed[$i]{detail} // '';
	}
	my @pulled = run_jobs($db, map { sprintf q(SELECT objstore_pull(%s, path => %s, mode => 'create');),
		  lit($what[$_]{back}), lit($pushed[$_]{path}) } 0 .. $#what);
	my @after = dump_rows($db, map { "SELECT $_->{list} FROM $_->{back}" } @what);
	for my $i (0 .. $#what)
	{
		my $before = $before{ $what[$i]{before_query} };
		if ($pulled[$i]{state} ne 'done')
		{
			fail("$what[$i]{name}: comes back");
			diag "$pulled[$i]{sqlstate}: $pulled[$i]{message}\n", substr($pulled[$i]{detail} // '', 0, 500);
			next;
		}
		same($after[$i], $before, "$what[$i]{name}: comes back");
		my $rows = ($before =~ tr/\n//);
		is("$pushed[$i]{rows} $pulled[$i]{rows}", "$rows $rows", "$what[$i]{name}: the rows are counted");
	}
	return @pushed;
}

sub make_schemas
{
	my ($db) = @_;
	$node->sql(join(';', map { "CREATE SCHEMA back_$_->{format}_$_->{compression}" } @variants), db => $db);
}

make_schemas('postgres');

# ---------------------------------------------------------------- every built-in type

# Values of every type that takes any.  A type of a newer server that is not here fails the test.
my $user = qq("$me");
my %values = (
	aclitem => [ "$user=arwdDxt/$user", "=r*/$user" ],
	bit => [ '0', '1' ],
	bool => [ 't', 'f' ],
	box => [ '(3,4),(1,2)', '(0.1,-0),(-Infinity,-1e-323)', '(NaN,NaN),(1,1)' ],
	bpchar => [ 'a', '', ' ', "blanks at the end  ", "\ttab" ],
	bytea => [ '\x', '\x00', '\x00ff0a0d5c2e5c', '\x' . join('', map { sprintf '%02x', $_ } 0 .. 255) ],
	char => [ 'a', ' ', '', '"', ',', "\n", '\\' ],
	cid => [ '0', '4294967295' ],
	cidr => [ '10.0.0.0/8', '::/0', '2001:db8::/32', '192.168.100.128/25' ],
	circle => [ '<(1,2),3>', '<(0.1,-0),1e-323>', '<(NaN,Infinity),0>' ],
	date => [ 'infinity', '-infinity', '4714-11-24 BC', '5874897-12-31', '0001-12-31 BC', '0001-01-01', '10000-01-01', '2000-02-29', '1969-12-31' ],
	datemultirange => [ '{}', '{[2020-01-01,2020-02-01),[infinity,infinity]}', '{(,)}' ],
	daterange => [ 'empty', '(,)', '[-infinity,infinity]', '[0044-03-15 BC,2020-01-01)' ],
	float4 => [ '0', '-0', 'NaN', 'Infinity', '-Infinity', '1e-45', '-1e-45', '3.4028235e38', '1.1754944e-38', '0.1', '16777216', '1.0000001', '1e-5', '1e15' ],
	float8 => [ '0', '-0', 'NaN', 'Infinity', '-Infinity', '5e-324', '-5e-324', '2.2250738585072011e-308', '2.2250738585072014e-308',
		'1.7976931348623157e308', '0.1', '0.30000000000000004', '1.0000000000000002', '9007199254740993', '1e15', '1e16', '1e-5', '123456789012345680' ],
	inet => [ '192.168.0.1/24', '10.1.2.3', '::1', '::ffff:1.2.3.4/128', 'fe80::1/10', '0.0.0.0/0' ],
	int2 => [ '0', '-32768', '32767' ],
	int2vector => [ '', '1 -2 3' ],
	int4 => [ '0', '-2147483648', '2147483647' ],
	int4multirange => [ '{}', '{[1,2),(5,7]}', '{(,)}', '{(,-5],[2147483646,)}' ],
	int4range => [ 'empty', '(,)', '[1,10)', '(,5]', '[2147483646,)' ],
	int8 => [ '0', '-9223372036854775808', '9223372036854775807' ],
	int8multirange => [ '{}', '{[1,9223372036854775807)}' ],
	int8range => [ 'empty', '[-9223372036854775808,9223372036854775807)' ],
	interval => [ '0', '1 year 2 mons -3 days 04:05:06.789', '-1 year -2 mons +3 days -04:05:06', '-0.000001 s', '178000000 years', '-178000000 years',
		'1 mon -1 day', '-1 day +00:00:01', '2562047788:00:54.775807', '-1 mon +1 day -1 s', '1 year', '1 day', '00:00:59.999999' ],
	json => [ '{"b": 1,  "a":[1,2] }', 'null', '1.10', '"\u0000 \\\\ \""', '{"a":1,"a":2}', "[\n]", '""' ],
	jsonb => [ '{"b": 1.10, "a": [1e2, null, true, {}, []]}', 'null', '"a\u0001\\\\ \"\n/"', '"é日本😀"', '1e-100', '-0', '[[[[]]]]', '123456789012345678901234567890.00', '"\\\\."', '{"": ""}' ],
	jsonpath => [ '$', 'strict $.a[*] ? (@.b > 1 && @.c like_regex "^x")', '$."key with \"quotes\""' ],
	line => [ '{1,2,3}', '{-1,0,0.1}' ],
	lseg => [ '[(1,2),(3,4)]', '[(-0,1e-323),(Infinity,NaN)]' ],
	macaddr => [ '08:00:2b:01:02:03', 'ff:ff:ff:ff:ff:ff' ],
	macaddr8 => [ '08:00:2b:01:02:03:04:05' ],
	money => [ '0', '-0.01', '92233720368547758.07', '-92233720368547758.08', '1234567.89' ],
	name => [ '', 'a b', 'x' x 63, '"', 'ü' x 31 ],
	numeric => [ 'NaN', 'Infinity', '-Infinity', '0', '0.0', '0.000', '-0.5', '1', '1.0', '1.50', '100', '1e100', '1e-100', '10000', '9999', '0.0001', '0.00010',
		'99999999', '12345678901234567890.09876543210', '-1e131071', '1e-16383', '0.00000000000000000000' ],
	nummultirange => [ '{}', '{[1.0,2.50),(3,4)}', '{[-Infinity,1e-20)}' ],
	numrange => [ 'empty', '(,)', '[1.0,2.50)', '(-Infinity,NaN]' ],
	oid => [ '0', '4294967295' ],
	oid8 => [ '0', '18446744073709551615' ],
	oidvector => [ '', '1 4294967295' ],
	path => [ '[(1,2),(3,4)]', '((1,2),(3,4),(5,-0))', '((NaN,Infinity))' ],
	pg_lsn => [ '0/0', 'FFFFFFFF/FFFFFFFF', '16/B374D848' ],
	pg_snapshot => [ '10:20:10,14,15', '1:1:' ],
	point => [ '(1,2)', '(NaN,Infinity)', '(-0,1e-323)', '(0.1,0.30000000000000004)' ],
	polygon => [ '((1,2),(3,4),(5,6))', '((0,-0),(0.1,0.2))' ],
	refcursor => [ '', 'a "cursor"' ],
	regclass => [ 'pg_class', '-' ],
	regcollation => [ '"C"', '-' ],
	regconfig => [ 'simple', 'english' ],
	regdatabase => [ 'postgres' ],
	regdictionary => [ 'simple' ],
	regnamespace => [ 'pg_catalog' ],
	regoper => [ '||/', '0' ],
	regoperator => [ '+(integer,integer)', '!!(NONE,tsquery)', '0' ],
	regproc => [ 'now', '-' ],
	regprocedure => [ 'abs(integer)', 'format(text,"any")' ],
	regrole => [ 'pg_monitor', '-' ],
	regtype => [ 'integer', 'character varying', 'timestamp with time zone[]', '-' ],
	text => [ '', ' ', '\.', '\\', '\N', 'NULL', 'null', '"', '""', '","', "''", ',', ';', '|', "\t", "\n", "\r", "\r\n", "\n\n", "\b\f\x0b", 'a,b', "a\nb", "a\rb",
		"a\n\\.\nb", "\\.\n", "\n\\.", 'é', '日本語', '😀', "\xef\xbb\xbfbom", '"\\"', '\x41', '\\\\', 'ends with \\', ' both ', "\x7f",
		join('', map { chr } 1 .. 8, 11, 12, 14 .. 31), 'x' x 5000, 'a,"b"' . "\n" x 500 ],
	tid => [ '(0,1)', '(4294967295,65535)' ],
	time => [ '00:00', '24:00:00', '23:59:59.999999', '12:00:00.1' ],
	timestamp => [ 'infinity', '-infinity', '4714-11-24 00:00:00 BC', '294276-12-31 23:59:59.999999', '2000-01-01 00:00:00.000001', '0044-03-15 12:00:00 BC', '1999-12-31 23:59:59.9', '2024-02-29' ],
	timestamptz => [ 'infinity', '-infinity', '4714-11-24 00:00:00+00 BC', '294276-12-31 23:59:59.999999+00', '2023-10-29 00:30:00+00', '2023-10-29 01:30:00+00',
		'1880-06-01 00:00:00+00', '0044-03-15 12:00:00+00 BC', '2024-07-01 12:00:00.5+05:45' ],
	timetz => [ '00:00+00', '12:00:00.000001+15:59:59', '24:00:00-15:59:59', '23:59:59.999999-03:30' ],
	tsmultirange => [ '{}', '{[2020-01-01,2020-02-01),[infinity,infinity]}' ],
	tsquery => [ '', q('a'), q('a' & !'b c' | 'c':*AB <-> 'd' <3> 'e'), q('it''s "x" \\\\') ],
	tsrange => [ 'empty', '[2020-01-01 00:00:00,infinity)', '(,0044-03-15 BC]' ],
	tstzmultirange => [ '{}', '{[2020-01-01 00:00+00,2020-02-01 00:00+00)}' ],
	tstzrange => [ 'empty', '[-infinity,2023-10-29 01:30:00+00)' ],
	tsvector => [ '', q('a':1A,2B 'b' 'it''s':16383C '\\\\\\\\' '"'), q(' ') ],
	txid_snapshot => [ '10:20:10,14,15' ],
	uuid => [ '00000000-0000-0000-0000-000000000000', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'ffffffff-ffff-ffff-ffff-ffffffffffff' ],
	varbit => [ '', '0', '1', '1010101010101', '0' x 64 ],
	varchar => [ '', ' ', 'x', '\.', "line\nline", '"' ],
	xid => [ '0', '4294967295' ],
	xid8 => [ '0', '18446744073709551615' ],
	xml => [ '<a/>', '<a b="1">x &amp; y</a><b/>', 'text only', '', "<r>\n\té日本\n</r>", '<?xml version="1.0"?><r/>', '<!DOCTYPE r><r/>', '<!-- c --><![CDATA[]]>' ]);

# Types without an input function that takes anything.
my %no_input = map { $_ => 1 } qw(gtsvector pg_node_tree pg_ndistinct pg_dependencies pg_mcv_list
  pg_brin_bloom_summary pg_brin_minmax_multi_summary);
my @types = $node->rows(<<'SQL');
SELECT t.typname AS name, t.typdelim AS delim, t.typsend <> 0 AND t.typreceive <> 0 AS binary
FROM pg_type t
WHERE t.typtype IN ('b', 'r', 'm') AND t.typcategory <> 'A' AND t.typnamespace = 'pg_catalog'::regnamespace
  OR t.typname IN ('int2vector', 'oidvector') ORDER BY t.typname
SQL
is_deeply([ grep { !$values{$_} && !$no_input{$_} } map { $_->{name} } @types ], [], 'there are values for every type of this server');
@types = grep { $values{ $_->{name} } } @types;
# The server's own receive functions of the vectors refuse an empty one that its send functions wrote.
my @binary_columns = ('id', map { ("c_$_->{name}", "a_$_->{name}") }
	  grep { $_->{binary} && $_->{name} !~ /^(int2|oid)vector$/ } @types);
my $rows = 0;
for my $type (@types)
{
	$rows = @{ $values{ $type->{name} } } if $rows < @{ $values{ $type->{name} } };
}
$node->sql('CREATE TABLE types (id int, '
	  # by their names in the catalog: the names of SQL imply a length for some
	  . join(', ', map { my $type = qq(pg_catalog."$_->{name}"); "c_$_->{name} $type, a_$_->{name} $type\[]" } @types) . ')');
my @inserts;
for my $row (0 .. $rows)
{
	# the last row is all NULL
	push @inserts, "INSERT INTO types VALUES ($row, " . join(', ', map {
		my $type = $_;
		my @all = @{ $values{ $type->{name} } };
		my $value = $all[$row];
		my @quoted = map { my $v = $_; $v =~ s/([\\"])/\\$1/g; qq("$v") } @all;
		my $array = !defined $value ? undef
		  : $row == 0 ? '{' . join($type->{delim}, @quoted, 'NULL') . '}'
		  : $row == 1 ? '{}'
		  : $row == 2 ? "[-1:0][5:6]={{$quoted[0]$type->{delim}NULL}$type->{delim}\{$quoted[1]$type->{delim}$quoted[0]}}"
		  : "{$quoted[$row]}";
		(lit($value), lit($array)) } @types) . ');';
}

$node->sql("SET xmloption = content; SET client_min_messages = warning;\n" . join("\n", @inserts));
is($node->sql('SELECT count(*) FROM types'), $rows + 1, 'and a table with all of them');

# ---------------------------------------------------------------- types of users, constraints, odd columns

$node->sql(<<'SQL');
CREATE TYPE mood AS ENUM ('sad', 'it''s "ok", \ {x}', 'glücklich');
CREATE TYPE pair AS (x int, "y;z" text);
CREATE TYPE nest AS (p pair, ps pair[], m mood);
CREATE DOMAIN posint AS int CHECK (VALUE > 0);
CREATE DOMAIN posints AS posint[] CHECK (array_length(VALUE, 1) < 5);
CREATE DOMAIN nonempty AS text NOT NULL CHECK (VALUE <> '');
CREATE TYPE textrange AS RANGE (subtype = text, multirange_type_name = textranges);
CREATE TABLE own_types (id int, e mood, es mood[], c pair, cs pair[], n nest, d posint, ds posints, dt nonempty,
	r textrange, rs textrange[], m textranges);
INSERT INTO own_types VALUES
	(1, 'sad', '{sad,NULL}', '(1,"a ""q"" \\ , )")', array['(,)', '(2,"")', NULL]::pair[], row(row(1, NULL), '{}', 'sad'), 5, '{1,2}', E'\\.',
		'["a,b","c""\\d")', array['empty', '(,)', '["",x]']::textrange[], '{[a,b),["c ,","d"]}'),
	(2, 'glücklich', '{"it''s \"ok\", \\ {x}"}', row(NULL, NULL), '{}', row(NULL, array[row(1, E'a\nb')::pair], NULL), NULL, NULL, ' ', 'empty', NULL, '{}'),
	(3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'x', NULL, NULL, NULL);

CREATE TABLE nulls (a text, b text, c int);
INSERT INTO nulls VALUES (NULL, '', NULL), ('', NULL, 1), (NULL, NULL, NULL), ('', '', NULL), ('NULL', E'\\N', 0), (E'\\n', '\', 2), ('""', '"', 3);
CREATE TABLE one_text (t text);
INSERT INTO one_text VALUES (NULL), (''), (E'\\.'), (E'\n'), (E'\\.\n'), (E'\n\\.'), (E'\r'), (E'\\N'), (' '), ('"'), ('t');
CREATE TABLE lengths (a char(7), b varchar(7), c bit(9), d bit varying(9), e numeric(8,3), f numeric(5,-2), g time(2), h interval(2), i interval year to month, j numeric(3,5));
INSERT INTO lengths VALUES ('ab', 'ab ', '101010101', '1', 12345.600, 123450, '12:00:00.128', '1.999 s', '13 months', 0.00123),
	('', '', '000000000', '', 0, 0, '24:00', '-1 s', '-1 month', 0);
-- Numbers of every scale up to 300, and of some up to the largest, with and without zeros at the end.
CREATE TABLE scales (s int, a numeric, b numeric);
INSERT INTO scales SELECT s, ('-123.' || repeat('0', s) || '45')::numeric, ('0.' || repeat('0', s))::numeric
	FROM (SELECT * FROM generate_series(0, 300) UNION ALL SELECT unnest(array[999, 1000, 4095, 16380, 16381])) v(s);
INSERT INTO scales SELECT s, ('1' || repeat('0', s))::numeric, repeat('9', s)::numeric
	FROM (SELECT * FROM generate_series(1, 100) UNION ALL SELECT unnest(array[1000, 131071])) v(s);
CREATE TABLE bytes (id serial, b bytea, t text);
INSERT INTO bytes (b, t) SELECT decode(repeat(to_hex(i + 256), 2), 'hex') || decode(lpad(to_hex(i), 2, '0'), 'hex'), chr(i + 1) || i FROM generate_series(0, 255) i;

CREATE TABLE dropped (a int, gone text DEFAULT 'x', b text, gone2 int);
INSERT INTO dropped (a, b) VALUES (1, 'one'), (2, NULL);
ALTER TABLE dropped DROP gone, DROP gone2, ADD c int DEFAULT 7, ADD gone3 xml, ADD d text DEFAULT 'missing value';
ALTER TABLE dropped DROP gone3;
INSERT INTO dropped VALUES (3, 'three', NULL, NULL);
CREATE TABLE computed (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED,
	s serial, d int GENERATED BY DEFAULT AS IDENTITY (START -5 INCREMENT -5), u text GENERATED ALWAYS AS ('"' || a || E'\n') STORED);
INSERT INTO computed (a) SELECT generate_series(1, 20);
INSERT INTO computed (a) VALUES (NULL);
CREATE TABLE zero ();
INSERT INTO zero DEFAULT VALUES;
INSERT INTO zero DEFAULT VALUES;
INSERT INTO zero DEFAULT VALUES;
CREATE TABLE empty (a int, b text);
CREATE TABLE empty_zero ();
CREATE TABLE "Größe ""+"" 100%/é=a.b 日本" ("a b" int, "Ü%;" text, "select" text, "c""q" int, "x,y" text);
INSERT INTO "Größe ""+"" 100%/é=a.b 日本" VALUES (1, 'ü', 'x', 2, ','), (NULL, NULL, NULL, NULL, NULL);
CREATE UNLOGGED TABLE unlogged (a int);
INSERT INTO unlogged SELECT generate_series(1, 100);

CREATE TABLE parts (id int, region text, at date, v text, PRIMARY KEY (id, region, at)) PARTITION BY LIST (region);
CREATE TABLE parts_eu PARTITION OF parts FOR VALUES IN ('de', 'fr') PARTITION BY RANGE (at);
CREATE TABLE parts_eu_1 PARTITION OF parts_eu FOR VALUES FROM (MINVALUE) TO ('2024-01-01');
CREATE TABLE parts_eu_2 PARTITION OF parts_eu DEFAULT PARTITION BY HASH (id);
CREATE TABLE parts_eu_2a PARTITION OF parts_eu_2 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parts_eu_2b (v text, junk int, at date NOT NULL, region text NOT NULL, id int NOT NULL);
ALTER TABLE parts_eu_2b DROP junk;
ALTER TABLE parts_eu_2 ATTACH PARTITION parts_eu_2b FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE parts_rest PARTITION OF parts DEFAULT;
INSERT INTO parts SELECT i, (array['de', 'fr', 'us'])[i % 3 + 1], date '2023-06-01' + i, repeat('v', i % 7) FROM generate_series(1, 500) i;
CREATE TABLE parts_none (a int) PARTITION BY LIST (a);
CREATE TABLE parent (a int, b text);
CREATE TABLE child (c int) INHERITS (parent);
INSERT INTO parent VALUES (1, 'parent');
INSERT INTO child VALUES (2, 'child', 3);
CREATE VIEW a_view AS SELECT p.id, p.v || '!' AS v, n.b FROM parts p LEFT JOIN nulls n ON n.c = p.id WHERE p.id < 50;
CREATE MATERIALIZED VIEW a_matview AS SELECT id, region, at FROM parts WHERE id % 2 = 0;
CREATE VIEW zero_view AS SELECT FROM zero;
SQL
my @objects = qw(own_types nulls one_text lengths scales bytes dropped computed zero empty empty_zero unlogged
  parts parts_none child a_view a_matview zero_view);
SKIP:
{
	skip 'file_fdw is not installed', 1
	  unless $node->sql(q(SELECT 1 FROM pg_available_extensions WHERE name = 'file_fdw'));
	write_file($node->basedir . '/foreign.csv', qq(1,"a ""q"",\nx"\n2,\n3,""\n));
	$node->sql('CREATE EXTENSION file_fdw; CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;'
		  . 'CREATE FOREIGN TABLE a_foreign (a int, b text) SERVER files OPTIONS (filename '
		  . lit($node->basedir . '/foreign.csv') . q{, format 'csv')});
	push @objects, 'a_foreign';
	pass('file_fdw');
}

my @pushed = round_trip([ { relation => 'types', columns => { binary => \@binary_columns } },
	{ relation => 'parent', from => 'ONLY public.parent' },
	map +{ relation => $_ }, @objects, '"Größe ""+"" 100%/é=a.b 日本"' ]);

# ---------------------------------------------------------------- the objects, as others see them

is(crc32c('123456789'), 'e3069283', 'the check value of CRC-32C');

# What the server's own COPY writes of the relation of each job; and the object through boto3 and zstd.
my %objects = map { $_->{job_id} => $_ } $node->rows('SELECT * FROM objstore_objects WHERE url IS NOT NULL');
my (@copies, %format, %compression);
for my $i (0 .. $#pushed)
{
	my ($relation, $v) = ($pushed[$i]{relation}, $variants[ $i % @variants ]);
	my $list = $v->{format} eq 'binary' && $relation eq 'public.types' ? join ', ', map { qq("$_") } @binary_columns : undef;
	my $is_table = $relation !~ /^public\.(a_|zero_view|parts)/;
	my $what = $is_table ? $list ? "$relation ($list)" : $relation : "(SELECT $list FROM $relation)";
	$what = "(SELECT " . ($relation eq 'public.zero_view' ? '' : '*') . " FROM $relation)" unless $is_table;
	push @copies, "COPY $what TO '" . $node->basedir . "/copy.$i' (FORMAT $v->{format}"
	  . ($v->{format} eq 'csv' ? ', HEADER' : '') . ');';
}
$node->sql("SET client_encoding = 'UTF8';\n" . join "\n", @copies);
for my $i (0 .. $#pushed)
{
	my ($job, $v) = ($pushed[$i], $variants[ $i % @variants ]);
	my $name = "$job->{relation} as $v->{format}, $v->{compression}";
	my ($copy, $bad) = (read_file($node->basedir . "/copy.$i"), 0);
	unlink $node->basedir . "/copy.$i";
	my $row = $objects{ $job->{job_id} };
	my $key = stored_key($job->{path}) . 'part-00000'
	  . { csv => '.csv', text => '.txt', binary => '.bin' }->{ $v->{format} } . ($v->{compression} eq 'zstd' ? '.zst' : '');
	my $bytes = $s3->client('get', $bucket, Encode::decode_utf8($key));
	my $raw = $v->{compression} eq 'zstd' ? join('', zstd_expand($bytes)) : $bytes;
	# many comparisons, one test
	my @wrong;
	push @wrong, 'zstd -t: ' . zstd_problem($bytes) if $v->{compression} eq 'zstd' && zstd_problem($bytes) ne '';
	push @wrong, 'content is not what COPY writes' if $raw ne $copy;
	push @wrong, "url $row->{url}" if $row->{url} ne "s3://$bucket/$key";
	push @wrong, "bytes $row->{bytes}" if $row->{bytes} != length $bytes || $job->{stored_bytes} != length $bytes;
	push @wrong, "raw_bytes $row->{raw_bytes}" if $row->{raw_bytes} != length $raw || $job->{raw_bytes} != length $raw;
	push @wrong, "rows $row->{rows}" if $row->{rows} != $job->{rows};
	push @wrong, "crc32c $row->{crc32c}" if $row->{crc32c} ne crc32c($bytes);
	push @wrong, "etag $row->{etag}" if $row->{etag} !~ /^"?\Q${\ md5_hex($bytes)}\E"?$/;
	push @wrong, "parts $row->{parts}" if $row->{parts} != 1;
	is(join('; ', @wrong), '', "$name: the object, through boto3 and zstd");
}

# Keys as they are in the store: UTF-8 behind the url's prefix.
sub stored_key
{
	return "top dir/$_[0]";
}

{
	my ($job) = grep { $_->{relation} eq 'public.own_types' } @pushed;
	like($job->{path}, qr{^postgres/public\.own_types/\d{8}T\d{6}Z-$job->{job_id}/$}, 'the folder of a dataset');
	is_deeply([ $s3->object_keys($bucket, "top dir/$job->{path}") ],
		[ map { "top dir/$job->{path}$_" } 'manifest.json', 'part-00000.csv.zst' ], 'has an object and a manifest');
	my $text = $s3->client('get', $bucket, "top dir/$job->{path}manifest.json");
	my $manifest = JSON::PP->new->utf8->decode($text);
	my ($row) = $node->rows("SELECT * FROM objstore_objects WHERE job_id = $job->{job_id}");
	is($manifest->{rows}, 3, 'the manifest has the rows');
	is_deeply($manifest->{columns}, [qw(id e es c cs n d ds dt r rs m)], '... the columns');
	is_deeply([ @{ $manifest->{objects}[0] }{qw(key bytes rows raw_bytes crc32c parts)} ],
		[ 'part-00000.csv.zst', @$row{qw(bytes rows raw_bytes crc32c parts)} ], '... and the object');
	is_deeply([ map { $_->{type} } @{ $manifest->{relation}{columns} } ],
		[ 'integer', 'public.mood', 'public.mood[]', 'public.pair', 'public.pair[]', 'public.nest', 'public.posint',
			'public.posints', 'public.nonempty', 'public.textrange', 'public.textrange[]', 'public.textranges' ], '... and the types');
	is($manifest->{relation}{columns}[0]{not_null} ? 1 : 0, 0, '... with their constraints');
}

# ---------------------------------------------------------------- frames, parts

# Rows that hold newlines, so that only some of the lines begin a row; random, so that parts fill up.
$node->sql(<<'SQL');
CREATE TABLE large (id text, lines text, noise text);
INSERT INTO large SELECT 'row-' || lpad(i::text, 6, '0'), repeat(E'line, "x"\n', i % 5),
	(SELECT string_agg(encode(sha512((i || '.' || j)::bytea), 'base64'), '') FROM generate_series(1, 8) j)
	FROM generate_series(1, 16000) i;
SQL
my ($large) = dump_rows('postgres', 'SELECT * FROM large');
my @large = (
	{ format => 'csv', options => '{"frame_size": "64kB", "part_size": "5MB"}', begin => qr/\A(id,lines,noise\n)?row-\d{6},/, min_parts => 2 },
	{ format => 'text', options => '{"frame_size": "256kB", "level": 3}', begin => qr/\Arow-\d{6}\t/, min_parts => 2 },
	{ format => 'csv', options => '{"frame_size": "1MB", "level": -3, "header": false, "concurrency": 1}', begin => qr/\Arow-\d{6},/, min_parts => 2 },
	{ format => 'binary', options => '{"frame_size": "64kB"}', min_parts => 2 },
	{ format => 'csv', compression => 'none', options => '{"part_size": "6MB"}', min_parts => 3 });
my @jobs = run_jobs('postgres', map { sprintf(q(SELECT objstore_push('large', format => '%s', compression => '%s', path => 'large/%d/', options => '%s');),
		$large[$_]{format}, $large[$_]{compression} // 'zstd', $_, $large[$_]{options}) } 0 .. $#large);
my @back = run_jobs('postgres', map { "SELECT objstore_pull('large_$_', path => 'large/$_/', options => '{\"part_size\": \"5MB\", \"concurrency\": 3}');" } 0 .. $#large);
my @again = dump_rows('postgres', map { "SELECT * FROM large_$_" } 0 .. $#large);
for my $i (0 .. $#large)
{
	my $case = $large[$i];
	my $name = "$case->{format} $case->{options}";
	is($jobs[$i]{state}, 'done', "$name: pushed") or next;
	same($again[$i], $large, "$name: comes back");
	my ($row, $bytes) = object_of($jobs[$i]);
	cmp_ok($row->{parts}, '>=', $case->{min_parts}, "$name: in parts");
	is($row->{parts}, parts_of($s3->client('head', $bucket, $row->{key})->{etag}), "$name: as many as boto3 says");
	is($row->{crc32c}, crc32c($bytes), "$name: CRC32C") if $i < 2;
	next if $case->{compression};

	my @frames = zstd_frames($bytes);
	my @expanded = zstd_expand(@frames);
	my ($frame_size) = $case->{options} =~ /"frame_size": "(\d+)/;
	$frame_size *= $frame_size == 1 ? 1 << 20 : 1024;
	my $sum = 0;
	$sum += length for @expanded;
	is($sum, $row->{raw_bytes}, "$name: all that was written");
	cmp_ok(scalar @frames, '>=', int($sum / ($frame_size + 4000)), "$name: " . scalar(@frames) . ' frames');
	cmp_ok(scalar(grep { length > $frame_size + 4000 } @expanded), '==', 0, "$name: a frame ends with the row that fills it");
	if ($case->{begin})
	{
		is(scalar(grep { !/$case->{begin}/ || !/\n\z/ } @expanded), 0, "$name: frames begin and end with a row");
	}
	else
	{
		my %row_begins = map { $_ => 1 } 0, copy_binary_offsets(join '', @expanded);
		my ($at, $bad) = (0, 0);
		for (@expanded)
		{
			$bad++ unless $row_begins{$at};
			$at += length;
		}
		is($bad, 0, "$name: frames begin with a row");
	}
}
is(scalar @{ $s3->client('uploads', $bucket) }, 0, 'no multipart upload is left open');

# The row of objstore_objects, with its key, and the bytes that boto3 gets for it.
sub object_of
{
	my ($job, %opt) = @_;
	my ($row) = $node->rows("SELECT * FROM objstore_objects WHERE job_id = $job->{job_id}", %opt);
	$row->{key} = $row->{url} =~ s{^s3://\Q$bucket\E/}{}r;
	my $file = $node->basedir . '/object';
	$s3->client('get_file', $bucket, Encode::decode_utf8($row->{key}), $file);
	my $bytes = read_file($file);
	unlink $file;
	return ($row, $bytes);
}

sub parts_of
{
	return $_[0] =~ /-(\d+)"?$/ ? $1 : 1;
}

done_testing();
