# Values of every built-in type, and tables with all of them.
#
# A type of a newer server that is not here fails the test that asks for the tables: give it values then.
package PgObjStore::Types;
use strict;
use warnings;
use Exporter 'import';
use PgObjStore::Tables;
use Test::More;

our @EXPORT = qw(create_type_tables);

my %values = (
	aclitem => [ 'pg_monitor=arwdDxt/pg_monitor', '=r*/pg_monitor' ],
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

# The server's own receive functions of these refuse an empty one, which its send functions write.
my %no_binary = map { $_ => 1 } qw(int2vector oidvector);

# Newer minor versions (18.6) refuse an empty tsquery, too.
sub reads_empty_tsquery
{
	my ($node, $db) = @_;
	my $file = $node->basedir . '/empty_tsquery';
	return 0 == $node->psql($db, "SET client_min_messages = error; CREATE TEMPORARY TABLE q AS SELECT tsquery '' AS q;
		COPY q TO '$file' (FORMAT binary); COPY q FROM '$file' (FORMAT binary)", stderr => \my $stderr);
}

# Tables in schema public: "types" with a column c_TYPE and an array a_TYPE for each built-in type, "own_types" with
# types of users (made too), "lengths" with types that have a length.  Returns the names of the columns of "types"
# that COPY can carry in its binary format.
sub create_type_tables
{
	my ($node, $db) = @_;
	my @types = $node->rows(<<'SQL', db => $db);
SELECT typname AS name, typdelim AS delim, typsend <> 0 AND typreceive <> 0 AS binary
FROM pg_type
WHERE typtype IN ('b', 'r', 'm') AND typcategory <> 'A' AND typnamespace = 'pg_catalog'::regnamespace
  OR typname IN ('int2vector', 'oidvector') ORDER BY typname
SQL
	is_deeply([ grep { !$values{$_} && !$no_input{$_} } map { $_->{name} } @types ], [], 'there are values for every type of this server');
	@types = grep { $values{ $_->{name} } } @types;
	my $rows = 0;
	for my $type (@types)
	{
		$rows = @{ $values{ $type->{name} } } if $rows < @{ $values{ $type->{name} } };
	}
	# by their names in the catalog: the names of SQL imply a length for some
	$node->sql('CREATE TABLE types (id int, '
		  . join(', ', map { my $type = qq(pg_catalog."$_->{name}"); "c_$_->{name} $type, a_$_->{name} $type\[]" } @types) . ')', db => $db);
	# one row more than there are values, so that the last is all NULL
	$node->sql("SET xmloption = content; SET client_min_messages = warning;\n"
		  . join("\n", map { my $row = $_; "INSERT INTO types VALUES ($row, " . join(', ', map { literals($_, $row) } @types) . ');' } 0 .. $rows), db => $db);
	is($node->sql('SELECT count(*) FROM types', db => $db), $rows + 1, 'and a table with all of them');
	$node->sql(<<'SQL', db => $db);
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

CREATE TABLE lengths (a char(7), b varchar(7), c bit(9), d bit varying(9), e numeric(8,3), f numeric(5,-2), g time(2), h interval(2), i interval year to month, j numeric(3,5));
INSERT INTO lengths VALUES ('ab', 'ab ', '101010101', '1', 12345.600, 123450, '12:00:00.128', '1.999 s', '13 months', 0.00123),
	('', '', '000000000', '', 0, 0, '24:00', '-1 s', '-1 month', 0);
SQL
	my %left_out = (%no_binary, reads_empty_tsquery($node, $db) ? () : (tsquery => 1));
	return ('id', map { ("c_$_->{name}", "a_$_->{name}") } grep { $_->{binary} && !$left_out{ $_->{name} } } @types);
}

# What a row of "types" has of a type: a value and an array.
sub literals
{
	my ($type, $row) = @_;
	my @all = @{ $values{ $type->{name} } };
	my $d = $type->{delim};
	my @quoted = map { my $v = $_; $v =~ s/([\\"])/\\$1/g; qq("$v") } @all;
	my $array = $row > $#all ? undef
	  : $row == 0 ? '{' . join($d, @quoted, 'NULL') . '}'
	  : $row == 1 ? '{}'
	  : $row == 2 ? "[-1:0][5:6]={{$quoted[0]${d}NULL}$d\{$quoted[1]$d$quoted[0]}}"
	  : "{$quoted[$row]}";
	return (quote_literal($all[$row]), quote_literal($array));
}

1;
