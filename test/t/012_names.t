# Names, paths, column lists, encodings of databases, settings of roles: none of them changes the data, and everything
# is found again.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PgObjStore::Cluster;
use PgObjStore::Servers;
use PgObjStore::Tables;
use PgObjStore::Types;
use Encode ();
use Test::More;

my $s3 = PgObjStore::Servers->s3;
my $bucket = $s3->new_bucket;
my $node = PgObjStore::Cluster->start_new('main', conf => <<'CONF');
fsync = off
pgobjstore.max_workers = 6
pgobjstore.default_server = 's3'
CONF
$node->create_store('s3', url => "s3://$bucket/top dir", store => $s3);

my @binary_columns = create_type_tables($node, 'postgres');

# ---------------------------------------------------------------- names and paths

{
	# names that must not be taken for one another
	my @tables = ('"a.b".c', '"a"."b.c"', '"a"."b%2Ec"', '"a/b"."c+d"', '"a"."b/c"', '"a"."b c=d&e?f#g;h"', '"a"."+"', '"a"."%"', '"a".".."', '"a"."Ä"',
		'"a"."' . ('ü' x 31) . '"');
	$node->sql(join ";\n", map({ "CREATE SCHEMA $_" } '"a.b"', 'a', '"a/b"'),
		map { "CREATE TABLE $_ (t text); INSERT INTO $_ VALUES (" . quote_literal($_) . ')' } @tables);
	my @jobs = run_jobs($node, 'postgres', map { 'SELECT objstore_push(' . quote_literal($_) . ');' } @tables);
	is(scalar(grep { $_->{state} ne 'done' } @jobs), 0, 'tables with odd names are pushed') or diag map { $_->{message} // '' } @jobs;
	$node->sql(join ";\n", map { "DROP TABLE $_" } @tables);
	@jobs = run_jobs($node, 'postgres', map { 'SELECT objstore_pull(' . quote_literal($_) . ');' } @tables);
	my @got = dump_queries($node, 'postgres', map { "SELECT * FROM $_" } @tables);
	is($got[$_], "$tables[$_]\n", "$tables[$_] comes back by its name") for 0 .. $#tables;

	my @paths = ('a+b c%41d%/e=f.g/', 'ä日😀/', q(a"b'c\d/), 'x:y@z~!$&()*,;[]{}|^`<>#?/', '%/', ' /', '.a/..b/', 'a/b/c/d/e/f/',
		'n' x 255 . '/', join('', map { 'm' x 200 . "$_/" } 1 .. 4),
		'plain', 'odd +%/ü=name.csv.zst');
	@jobs = run_jobs($node, 'postgres', map { 'SELECT objstore_push(\'own_types\', path => ' . quote_literal($_) . ');' } @paths);
	my %keys = map { Encode::encode_utf8($_) => 1 } $s3->object_keys($bucket);
	for my $i (0 .. $#paths)
	{
		my $key = $paths[$i] . ($paths[$i] =~ m{/$} ? 'part-00000.csv.zst' : '');
		is($jobs[$i]{state}, 'done', "path $paths[$i]: pushed") or diag $jobs[$i]{message}, $jobs[$i]{detail} // '';
		ok($keys{"top dir/$key"}, "path $paths[$i]: the key is just that");
		is($keys{"top dir/$paths[$i]manifest.json"} // 0, $paths[$i] =~ m{/$} ? 1 : 0, "path $paths[$i]: a folder has a manifest, an object has none");
	}
	$node->sql(join ";\n", map { "CREATE TABLE path_$_ (LIKE own_types)" } 0 .. $#paths);
	@jobs = run_jobs($node, 'postgres', map { "SELECT objstore_pull('path_$_', path => " . quote_literal($paths[$_])
		  . ($paths[$_] eq 'plain' ? ", format => 'csv', compression => 'zstd'" : '') . ');' } 0 .. $#paths);
	@got = dump_queries($node, 'postgres', 'SELECT * FROM own_types', map { "SELECT * FROM path_$_" } 0 .. $#paths);
	for my $i (0 .. $#paths)
	{
		same_rows($got[ $i + 1 ], $got[0], "path $paths[$i]: comes back") or diag $jobs[$i]{message} // '';
	}
}

# ---------------------------------------------------------------- columns, modes, other databases

{
	$node->sql('CREATE TABLE wide (a int PRIMARY KEY, b text, c int GENERATED ALWAYS AS (a + 1) STORED, "D d" text DEFAULT \'d\')');
	$node->sql(q(INSERT INTO wide (a, b, "D d") SELECT i, 'b' || i, 'd' || i FROM generate_series(1, 5) i));
	$node->ok_job(q(SELECT objstore_push('wide', columns => '{"D d",a}', path => 'wide/some/')), 'a list of columns, in another order');
	$node->ok_job(q(SELECT objstore_pull('a_part', path => 'wide/some/')), 'becomes a table');
	is($node->sql('SELECT * FROM a_part ORDER BY a LIMIT 1'), 'd1|1', 'with just these');
	$node->ok_job(q(SELECT objstore_push('wide', path => 'wide/all/')), 'all columns');
	$node->sql('CREATE TABLE other_order ("D d" text, extra int DEFAULT 9, b text, a bigint)');
	$node->ok_job(q(SELECT objstore_pull('other_order', path => 'wide/all/')), 'into a table with another order, a wider type and a column more');
	is($node->sql('SELECT * FROM other_order ORDER BY a LIMIT 1'), 'd1|9|b1|1', 'columns go by their names');
	$node->ok_job(q(SELECT objstore_pull('other_order', path => 'wide/all/')), 'append');
	is($node->sql('SELECT count(*) FROM other_order'), '10', 'adds');
	$node->ok_job(q(SELECT objstore_pull('other_order', path => 'wide/all/', mode => 'replace')), 'replace');
	is($node->sql('SELECT count(*), sum(a) FROM other_order'), '5|15', 'replaces');
	my $job = $node->run_job(q(SELECT objstore_pull('wide', path => 'wide/all/')));
	is("$job->{state} $job->{sqlstate}", 'failed 23505', 'a conflict fails');
	is($node->sql('SELECT count(*) FROM wide'), '5', 'and leaves nothing');

	# the newest dataset of a name
	$node->sql('CREATE TABLE versions (v int); INSERT INTO versions VALUES (1)');
	$node->ok_job(q(SELECT objstore_push('versions')), 'a dataset');
	$node->sql('UPDATE versions SET v = 2');
	$node->ok_job(q(SELECT objstore_push('versions', format => 'binary')), 'and a newer one');
	$node->ok_job(q(SELECT objstore_pull('versions', mode => 'replace')), 'pull by name');
	is($node->sql('SELECT v FROM versions'), '2', 'takes the newest');

	# databases have to agree on the types alone
	$node->ok_job(q(SELECT objstore_push('types', format => 'text')), 'a dataset');
	$node->sql('CREATE DATABASE other');
	$node->sql('CREATE EXTENSION pgobjstore', db => 'other');
	$node->create_store('s3', url => "s3://$bucket/top dir", store => $s3, db => 'other');
	$node->ok_job(q(SELECT objstore_pull('types', path => 'postgres/public.types/')), 'a folder of datasets: the newest, in another database', db => 'other');
	my ($before) = dump_queries($node, 'postgres', 'SELECT * FROM types');
	my ($after) = dump_queries($node, 'other', 'SELECT * FROM types');
	same_rows($after, $before, 'which holds the same rows');
	$job = $node->run_job(q(SELECT objstore_pull('own_types', path => 'plain/')), db => 'other');
	is("$job->{state} $job->{sqlstate}", 'failed 42704', 'a place without a dataset is an error');
	$node->ok_job(q(SELECT objstore_push('own_types', path => 'own/')), 'a table with types of its own');
	$job = $node->run_job(q(SELECT objstore_pull('own_types', path => 'own/')), db => 'other');
	is("$job->{state} $job->{sqlstate}", 'failed 42704', 'cannot be made where they are not');
	like("$job->{message} $job->{detail}", qr{type public\.mood of column "e" does not exist}, q(... which the error names));
}

# ---------------------------------------------------------------- encodings

{
	$node->sql(q(CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0));
	$node->sql(q(CREATE DATABASE ascii ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0));
	for my $db (qw(latin ascii))
	{
		$node->sql('CREATE EXTENSION pgobjstore', db => $db);
		$node->create_store('s3', url => "s3://$bucket/top dir", store => $s3, db => $db);
		round_trip_schemas($node, $db);
		# in LATIN1 the bytes are characters, in SQL_ASCII they are bytes
		$node->sql(<<'SQL', db => $db);
CREATE TABLE chars (n int, c text, b bytea, v varchar(3), h "char");
INSERT INTO chars SELECT i, convert_from(set_byte('\x41004a'::bytea, 1, i), getdatabaseencoding()), set_byte('\x00', 0, i),
	convert_from(set_byte('\x00', 0, i), getdatabaseencoding()), chr(i % 127 + 1)::"char" FROM generate_series(1, 255) i;
SQL
		round_trip($node, [ { relation => 'chars' } ], db => $db, label => "$db: ");
	}

	# names and data are converted on the way to the store and back
	$node->sql("SET client_encoding = 'UTF8'; CREATE TABLE \"Größe\" (\"ä ö\" text DEFAULT 'ü', n int CHECK (\"ä ö\" <> 'ß')); INSERT INTO \"Größe\" VALUES ('é', 1), ('ÿ', 2)",
		db => 'latin');
	for my $format (qw(csv text binary))
	{
		my ($pushed) = run_jobs($node, 'latin', "SET client_encoding = 'UTF8'; SELECT objstore_push('\"Größe\"', format => '$format', path => 'from latin/$format ñ/');");
		is($pushed->{state}, 'done', "LATIN1, $format: pushed") or diag $pushed->{message};
		ok((grep { $_ eq Encode::decode_utf8("top dir/from latin/$format ñ/manifest.json") } $s3->object_keys($bucket, 'top dir/from latin/')), 'a key is UTF-8');
		my ($pulled) = run_jobs($node, 'postgres', "SELECT objstore_pull('latin_$format', path => 'from latin/$format ñ/');");
		is($pulled->{state}, 'done', "LATIN1, $format: pulled into UTF8") or diag $pulled->{message};
		my ($got) = dump_queries($node, 'postgres', "SELECT \"ä ö\", n FROM latin_$format");
		is($got, "é\t1\nÿ\t2\n", 'the characters are the same');
		$node->sql("CREATE TABLE to_latin_$format (a text); INSERT INTO to_latin_$format VALUES ('ÄÖÜ¿')");
		($pushed) = run_jobs($node, 'postgres', "SELECT objstore_push('to_latin_$format', format => '$format', path => 'to latin/$format/');");
		($pulled) = run_jobs($node, 'latin', "SELECT objstore_pull('back_$format', path => 'to latin/$format/');");
		is($pulled->{state}, 'done', "UTF8, $format: pulled into LATIN1") or diag $pulled->{message};
		($got) = dump_queries($node, 'latin', "SELECT * FROM back_$format");
		is($got, Encode::encode('latin1', Encode::decode_utf8("ÄÖÜ¿\n")), 'the characters are the same');
	}
	my ($pushed) = run_jobs($node, 'latin', "SET client_encoding = 'UTF8'; SELECT objstore_push('\"Größe\"');");
	like(Encode::decode('latin1', $pushed->{path}), qr{^latin/public\.Gr\x{f6}\x{df}e/}, 'the default path has the name');
	my ($pulled) = run_jobs($node, 'latin', "SET client_encoding = 'UTF8'; SELECT objstore_pull('\"Größe\"');");
	is("$pulled->{state} $pulled->{rows}", 'done 2', 'by which it is found');
	($pulled) = run_jobs($node, 'latin', q(CREATE TABLE text (t text); SELECT objstore_pull('text', path => 'no/such/');));
	$node->sql("CREATE TABLE not_latin (t text); INSERT INTO not_latin VALUES ('日')");
	run_jobs($node, 'postgres', q(SELECT objstore_push('not_latin', path => 'not latin/');));
	($pulled) = run_jobs($node, 'latin', q(SELECT objstore_pull('not_latin', path => 'not latin/');));
	is("$pulled->{state} $pulled->{sqlstate}", 'failed 22P05', 'a character that LATIN1 does not have is an error');
	is($node->sql(q(SELECT to_regclass('not_latin')), db => 'latin'), '', 'and nothing is left');
	($pulled) = run_jobs($node, 'postgres', q(SELECT objstore_pull('ascii_chars', path => 'ascii/public.chars/');));
	is("$pulled->{state} $pulled->{sqlstate}", 'failed 22021', 'bytes of SQL_ASCII that are not UTF-8 are an error in UTF8');

	my ($named) = run_jobs($node, 'ascii', qq(CREATE TABLE "caf\xe9" (a text); INSERT INTO "caf\xe9" VALUES ('\xff'); SELECT objstore_push('"caf\xe9"');));
	is("$named->{state} $named->{sqlstate}", 'failed 22021', 'a name that is not UTF-8 cannot be in a manifest');
	like($named->{hint}, qr/push to a path that does not end in/, '... and there is a way out');
	my @pair = run_jobs($node, 'ascii', qq(SELECT objstore_push('"caf\xe9"', path => 'cafe.csv.zst');));
	push @pair, run_jobs($node, 'ascii', qq(CREATE TABLE cafe (a text); SELECT objstore_pull('cafe', path => 'cafe.csv.zst');));
	is(join(' ', map { $_->{state} } @pair), 'done done', '... which works');
	my ($got) = dump_queries($node, 'ascii', 'SELECT * FROM cafe');
	is($got, "\xff\n", '... byte for byte');
}

# ---------------------------------------------------------------- settings of roles

{
	my %odd = (DateStyle => 'German, DMY', IntervalStyle => 'sql_standard', extra_float_digits => -15, bytea_output => 'escape',
		client_encoding => 'LATIN1', TimeZone => 'Africa/Monrovia', search_path => 'elsewhere, pg_temp', xmloption => 'document', array_nulls => 'off',
		standard_conforming_strings => 'off', quote_all_identifiers => 'on', transform_null_equals => 'on', xmlbinary => 'hex', backslash_quote => 'off',
		default_transaction_isolation => 'serializable', default_transaction_deferrable => 'on', row_security => 'off', jit => 'off');
	my %other = (DateStyle => 'SQL, MDY', IntervalStyle => 'iso_8601', extra_float_digits => 3, bytea_output => 'escape', client_encoding => 'EUC_JP',
		TimeZone => 'Asia/Kathmandu', search_path => 'nowhere', xmloption => 'document', array_nulls => 'off',
		default_transaction_isolation => 'repeatable read', default_table_access_method => 'heap', timezone_abbreviations => 'India');
	for my $role ([ odd => \%odd ], [ other => \%other ])
	{
		my ($name, $set) = @$role;
		$node->sql(join ";\n", "CREATE ROLE $name LOGIN SUPERUSER", map { my $v = $set->{$_}; $v = "'$v'" if $_ ne 'search_path'; "ALTER ROLE $name SET $_ = $v" } sort keys %$set);
		$node->sql("CREATE USER MAPPING FOR $name SERVER s3 OPTIONS (access_key_id '${\ $s3->access_key}', secret_access_key '${\ $s3->secret_key}')");
	}
	$node->sql(<<'SQL');
CREATE SCHEMA elsewhere;
CREATE SCHEMA nowhere;
CREATE TABLE public.thing (a int);
CREATE TABLE elsewhere.thing (a int);
CREATE TYPE elsewhere.mood AS ENUM ('x');
CREATE FUNCTION elsewhere.f(int) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE TABLE referring (c regclass, t regtype, p regproc, q regprocedure, f float8, n text, a int[], x xml);
INSERT INTO referring VALUES ('elsewhere.thing', 'elsewhere.mood', 'elsewhere.f', 'elsewhere.f(int)', 0.1::float8 + 0.2::float8, '日', '{1,NULL}', 'text');
SQL
	my @pushed_as;
	for my $format (qw(csv text binary))
	{
		my $columns = $format eq 'binary' ? quote_literal('{' . join(',', @binary_columns) . '}') . '::name[]' : 'NULL';
		for my $job ([ 'public.types', $columns ], [ 'public.own_types', 'NULL' ], [ 'public.referring', 'NULL' ], [ 'public.lengths', 'NULL' ])
		{
			my ($relation, $list) = @$job;
			push @pushed_as, { relation => $relation, format => $format, name => "$relation, $format",
				id => $node->sql("SELECT public.objstore_push('$relation', server => 's3', format => '$format', columns => $list)", user => 'odd') };
		}
	}
	for my $p (@pushed_as)
	{
		my $job = $node->wait_job($p->{id});
		is($job->{state}, 'done', "$p->{name}: pushed by a role with odd settings") or diag $job->{message}, $job->{detail} // '';
		$p->{back} = $p->{relation} =~ s/public\.(.*)/"settings_$1_$p->{format}"/r;
		$p->{id} = $node->sql("SELECT public.objstore_pull('public.$p->{back}', path => '$job->{path}')", user => 'other');
	}
	for my $p (@pushed_as)
	{
		my $job = $node->wait_job($p->{id});
		is($job->{state}, 'done', "$p->{name}: pulled by a role with other odd settings") or diag $job->{message}, $job->{detail} // '';
		my $list = $node->sql("SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = '$p->{back}'::regclass AND attnum > 0");
		my ($before, $after) = dump_queries($node, 'postgres', "SELECT $list FROM $p->{relation}", "SELECT $list FROM $p->{back}");
		same_rows($after, $before, "$p->{name}: the rows are the same");
	}
	$node->sql('ALTER ROLE odd SET default_transaction_read_only = on');
	my $id = $node->sql(q(BEGIN READ WRITE; SELECT public.objstore_push('public.lengths', server => 's3'); COMMIT), user => 'odd');
	is($node->wait_job($id)->{state}, 'done', 'a role whose transactions are read-only can push');
	$id = $node->sql(q(BEGIN READ WRITE; SELECT public.objstore_pull('public.lengths', server => 's3'); COMMIT), user => 'odd');
	my $job = $node->wait_job($id);
	is("$job->{state} $job->{sqlstate}", 'failed 25006', 'but not pull');
}

$s3->no_open_uploads($bucket);
$node->log_lacks('the secret key is not in the log', $s3->secret_key);
done_testing();
