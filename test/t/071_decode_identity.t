# The direct decoder loads what COPY FROM loads: files of random tables, and the same files damaged at random, are each
# pulled by a role with pgobjstore.fast_path = auto and by one with off.  The tables must be equal in every row and in
# their order, or both jobs must fail with the same message at the same line and column; rows that are left out must be
# the same.
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
use JSON::PP ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

my $seconds = $ENV{PGOBJSTORE_IDENTITY_SECONDS} || 0;
my $seed = $ENV{PGOBJSTORE_IDENTITY_SEED} || 1;
alarm 900 + $seconds;

my $node = PgObjStore::Cluster->start_new('decode', conf => <<'CONF');
fsync = off
autovacuum = off
synchronize_seqscans = off
timezone = 'Europe/Berlin'
pgobjstore.max_workers = 4
log_min_messages = fatal
CONF
my $json = JSON::PP->new->canonical->latin1;
my $top = PostgreSQL::Test::Utils::tempdir();
my %database = both_ways($node, $top);
my @roles = ('fast', 'slow');

for my $db (values %database)
{
	$node->sql(<<'SQL', db => $db);
-- a job, or the error that the call raised
CREATE FUNCTION try_pull(relation text, path text, format text, columns name[], on_error text, options jsonb) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN 'job ' || objstore_pull(relation, server => 'files', path => path, format => format, compression => 'none',
		columns => columns, on_error => on_error, options => options);
EXCEPTION WHEN OTHERS THEN
	RETURN 'error ' || SQLSTATE;
END $$;
CREATE TABLE pair (n int, fast text, slow text);
SQL
}

# ---------------------------------------------------------------- both ways

my %count = (all => 0, failed => 0, direct => 0, rejects => 0);

# Pulls each { table, path, format, columns, skip, options, plain } into schemas fast and slow, and compares.  Returns a text for each
# that differs.  plain: the file is what COPY TO wrote, which must have been decoded directly.
sub compare
{
	my ($encoding, @pulls) = @_;
	my $db = $database{$encoding};
	my %answers;
	for my $role (@roles)
	{
		my $sql = join '', map {
			my $p = $_;
			sprintf "SELECT try_pull(%s, %s, '%s', %s, '%s', %s);\n", quote_literal("$role.$p->{table}"), quote_literal($p->{path}), $p->{format},
			  $p->{columns} ? 'ARRAY[' . join(',', map { quote_literal($_) } @{ $p->{columns} }) . ']::name[]' : 'NULL',
			  $p->{skip} ? 'skip' : 'stop', quote_literal($json->encode($p->{options}))
		} @pulls;
		$answers{$role} = [ split /\n/, $node->sql($sql, db => $db, user => $role) ];
		die "not one answer a pull\n" if @{ $answers{$role} } != @pulls;
	}
	$node->sql('TRUNCATE pair; INSERT INTO pair VALUES ' . join(', ', map { "($_, '$answers{fast}[$_]', '$answers{slow}[$_]')" } 0 .. $#pulls), db => $db);
	$node->wait_for(q(SELECT count(*) FROM objstore_jobs WHERE state IN ('queued', 'running')), '0', db => $db);
	my $end = "coalesce(j.state, 'refused') || ' ' || coalesce(j.sqlstate, '') || ' ' || coalesce(j.rows::text, '') || ' ' || coalesce(j.rejects::text, '') || ' ' "
	  . "|| coalesce(j.message, '') || ' ' || coalesce(j.detail, '')";
	my $rejects = '(SELECT string_agg(r::text, E\'\\n\' ORDER BY number) FROM (SELECT number, line, column_name, sqlstate, message, detail, raw_line FROM objstore_reject x WHERE x.job_id = j.job_id) r)';
	my $of = sub { "(SELECT encode(convert_to($end || E'\\n' || coalesce($rejects, ''), getdatabaseencoding()), 'hex') || ' ' || coalesce(j.engine, '-') || ' ' "
		. "|| j.state || ' ' || coalesce(j.rejects, 0) || ' ' || coalesce(j.note, '') FROM objstore_jobs j WHERE 'job ' || job_id = pair.$_[0])" };
	my @rows = split /\n/, $node->sql("SELECT n || '|' || coalesce(" . $of->('fast') . ", fast) || '|' || coalesce(" . $of->('slow') . ', slow) FROM pair ORDER BY n', db => $db);
	die "not one row a pull\n" if @rows != @pulls;
	my @tables = split /\n/, $node->sql(join('', map {
		my $t = $_->{table};
		my ($fast, $slow) = map { "(SELECT md5(string_agg(md5(record_send(t)), '' ORDER BY ctid)) FROM $_.$t t)" } @roles;
		"SELECT $fast IS NOT DISTINCT FROM $slow;\n" } @pulls), db => $db);
	my @problems;
	for my $i (0 .. $#pulls)
	{
		my $p = $pulls[$i];
		my (undef, @end) = split /\|/, $rows[$i], 3;
		my $what = "$encoding $p->{table} $p->{path} $p->{format} " . ($p->{skip} ? 'skip ' : '') . $json->encode($p->{options}) . ($p->{columns} ? ' (' . join('; ', @{ $p->{columns} }) . ')' : '');
		my @parts = map { [ split / /, $_, 5 ] } @end;
		$count{all}++;
		$count{failed}++ if ($parts[1][2] // '') ne 'done';
		$count{rejects} += $parts[1][3] // 0;
		if ($parts[0][0] ne $parts[1][0])
		{
			push @problems, "$what:\n  " . join "\n  by COPY: ", map { pack('H*', $_->[0]) =~ s/([^\x20-\x7e])/sprintf '<%02x>', ord $1/ger } @parts;
			next;
		}
		push @problems, "$what: the tables differ" if $tables[$i] ne 't';
		$count{direct}++ if ($parts[0][1] // '') eq 'direct';
		# a backslash for NULL takes the delimiter or line end behind it with it: not plain for COPY either
		my $plain = $p->{plain} && !($p->{format} eq 'text' && ($p->{options}{null} // '') eq '\\');
		push @problems, "$what: engine is $parts[0][1]: $parts[0][4]"
		  if $plain && ($parts[0][2] // '') eq 'done' && $parts[0][1] ne 'direct' && $parts[0][4] !~ /the relation has generated columns|there are no columns|a default is volatile/;
	}
	$node->sql('TRUNCATE objstore_job CASCADE', db => $db);
	return @problems;
}

# ---------------------------------------------------------------- damage

sub pick { return $_[ int rand @_ ] }

my @pieces = ('"', '""', ',', "\n", "\r", "\r\n", '\\', '\\\\', '\\.', "\n\\.\n", '\\N', '\\x41', '\\101', '\\xe9', "\0", "\xff", "\xc3", "\xc3\xa9", ' ', '-', '+', '.', '0', '9', '99999999999',
	'9223372036854775808', 'e5', 'NaN', 'infinity', 'BC', '24:00:00', '60', '{', '}', "\t", ';', '|', "'", '/', ':', 'Z', '+01', '\\x', 'NULL', '', 'true', 'on');

# The bytes with something wrong, mostly.
sub damage
{
	my ($bytes) = @_;
	my $kind = rand;
	if ($kind < 0.03) { $bytes =~ s/\n/\r\n/g; return $bytes }
	if ($kind < 0.05) { $bytes =~ s/\n/\r/g; return $bytes }
	if ($kind < 0.08) { $bytes =~ s/\r?\n\z//; return $bytes }
	if ($kind < 0.10) { return "$bytes\\.\n" }
	$bytes =~ s/\n/\r\n/g if $kind < 0.15;
	for (1 .. pick(1, 1, 1, 2, 5))
	{
		my $at = int rand(1 + length $bytes);
		my $how = rand;
		if ($how < 0.4) { substr($bytes, $at, 0) = pick(@pieces) }
		elsif ($how < 0.7) { substr($bytes, $at, 1) = pick(@pieces) if $at < length $bytes }
		elsif ($how < 0.8) { substr($bytes, $at, 1 + int rand 20) = '' if $at < length $bytes }
		elsif ($how < 0.9) { substr($bytes, $at, 0) = substr($bytes, rand(1 + length $bytes), rand 100) }
		elsif ($how < 0.95) { $bytes = substr $bytes, 0, $at }
		else { substr($bytes, $at, 0) = chr rand 256 }
	}
	return $bytes;
}

# ---------------------------------------------------------------- random tables

# SQL for the tables of both roles: the columns of a random table, and whether there are more.  A sequence is only for
# plain files: rows that are begun again take other numbers.
sub targets
{
	my ($source, $name, $columns, $plain) = @_;
	my @change;
	push @change, 'ADD dropped int', 'DROP dropped' if rand() < 0.2;
	push @change, pick('ADD extra int DEFAULT 7', $plain ? 'ADD extra serial' : 'ADD extra date', q(ADD extra text DEFAULT upper('abc')), 'ADD extra float8 DEFAULT random() * 0', 'ADD extra text') if rand() < 0.3;
	my $more = grep { /extra/ } @change;
	my $quoted = @$columns ? '"' . (pick(@$columns) =~ s/"/""/gr) . '"' : undef;
	push @change, pick("ALTER $quoted SET NOT NULL", "ADD CHECK (length($quoted\::text) < 30)", "ADD UNIQUE ($quoted)", "ADD EXCLUDE ((hashtext($quoted\::text) % 3000) WITH =)") if $quoted && rand() < 0.4;
	my $sql = '';
	for my $role (@roles)
	{
		$sql .= "CREATE TABLE $role.$name (LIKE random.$source INCLUDING DEFAULTS INCLUDING GENERATED INCLUDING STORAGE);\n" . join '', map { "ALTER TABLE $role.$name $_;\n" } @change;
	}
	return ($sql, $more);
}

# Tables of one seed, each with its file and damaged ones.
sub random_batch
{
	my ($batch_seed, $encoding, $tables, $damaged) = @_;
	my $db = $database{$encoding};
	my $random = PgObjStore::Random->new($batch_seed, encoding => $encoding);
	my $sql = "SET client_encoding = '$encoding';\nDROP SCHEMA IF EXISTS random, fast, slow CASCADE;\nCREATE SCHEMA random;\nCREATE SCHEMA fast;\nCREATE SCHEMA slow;\n"
	  . 'SET search_path = random, public;' . $random->types . ";\nGRANT USAGE ON SCHEMA random, fast, slow TO fast, slow;\n";
	my @pulls;
	for my $i (1 .. $tables)
	{
		my $table = $random->table("t$i");
		my @columns = @{ $table->{columns} };
		my ($format, $options) = $random->options(\@columns);
		delete $options->{force_quote};
		$options->{header} //= 'false';
		my $list = join ', ', map { '"' . s/"/""/gr . '"' } @columns;
		my $with = join ', ', "FORMAT $format", map { "$_ " . quote_literal($options->{$_}) } sort keys %$options;
		my $times = pick(1, 1, 3, 40, 300);
		my %settings = PgObjStore::Random::settings();
		$sql .= "$table->{sql}\n";
		$sql .= join '', map { "SET $_ = '$settings{$_}';\n" } sort keys %settings if rand() < 0.3;
		# not more than some megabytes
		$sql .= "COPY (SELECT $list FROM t$i CROSS JOIN generate_series(1, (SELECT greatest(1, least($times, 3000000 / (1 + sum(length(t::text))::bigint))) FROM t$i t))) TO '$top/$i.$format' WITH ($with);\n";
		$sql .= join '', map { "RESET $_;\n" } sort keys %settings;
		$options->{encoding} = $encoding if $encoding ne 'UTF8';
		for my $k (0 .. $damaged + 1)
		{
			my ($create, $more) = targets("t$i", "t${i}_$k", \@columns, $k < 2);
			$sql .= $create;
			push @pulls, {
				table => "t${i}_$k",
				file => "$i.$format",
				path => $k < 2 ? "$i.$format" : "$i.$k.$format",
				format => $format,
				columns => $more || $k == 1 ? \@columns : undef,
				skip => $k > 1 && rand() < 0.3,
				options => $options,
				plain => $k < 2 };
		}
	}
	$sql .= "GRANT ALL ON ALL TABLES IN SCHEMA fast, slow TO fast, slow;\nGRANT ALL ON ALL SEQUENCES IN SCHEMA fast, slow TO fast, slow;\n";
	my ($rc, $out, $err) = $node->psql($db, $sql, on_error_stop => 0);
	my @errors = grep { !/row is too big|COPY (delimiter|quote|null|escape)|CSV quote|cannot appear|must be|no default operator class|too long|does not exist/ } $err =~ /ERROR:  .*/g;
	die "the tables of seed $batch_seed are wrong: $errors[0]\n" if @errors;
	@pulls = grep { -e "$top/$_->{file}" } @pulls;
	srand $batch_seed;
	for my $p (@pulls)
	{
		write_file("$top/$p->{path}", damage(read_file("$top/$p->{file}"))) unless $p->{plain};
	}
	return @pulls;
}

sub run_batch
{
	my $batch_seed = $seed++;
	my $encoding = (qw(UTF8 UTF8 SQL_ASCII LATIN1))[ $batch_seed % 4 ];
	my $before = $count{all};
	my @problems = compare($encoding, random_batch($batch_seed, $encoding, 20, 6));
	is(scalar @problems, 0, 'seed ' . $batch_seed . ', ' . $encoding . ': ' . ($count{all} - $before) . ' pulls equal those by COPY')
	  or diag map { "$_\n" } @problems > 10 ? (@problems[ 0 .. 9 ], '...') : @problems;
	unlink glob "$top/*" unless $ENV{PG_TEST_NOCLEAN};
}

# ---------------------------------------------------------------- odd values

my @value_types = ('bool', 'int2', 'int4', 'int8', 'oid', 'float4', 'float8', 'numeric', 'numeric(5,2)', 'numeric(3,3)', 'numeric(20,18)', 'numeric(4,-2)', 'numeric(2,5)', 'date', 'time', 'time(2)',
	'timestamp', 'timestamp(0)', 'timestamp(3)', 'timestamptz', 'timestamptz(1)', 'text', 'varchar(3)', 'bpchar', 'char(3)', 'name', '"char"', 'uuid', 'bytea', 'json', 'jsonb', 'int4[]', 'text[]', 'value_enum', 'value_domain');

sub digits { return join '', map { int rand 10 } 1 .. pick(1, 1, 2, 2, 3, 4, 7, 8, 9, 10, 16, 17, 18, 19, 20, 40) }

# A text that is a value of the type, or nearly so.
sub odd_value
{
	my ($type) = @_;
	my $number = sub { pick('', '', '', '-', '+', ' ', '--') . pick(digits(), digits(), '0', '00', '') . pick('', '', '.' . digits(), '.', '.0', '.00000', '.5') . pick('', '', '', '', 'e' . pick('', '-') . int rand 400, ' ', 'x', '_1') };
	my $date = sub { sprintf pick('%04d-%02d-%02d', '%04d-%02d-%02d', '%04d-%02d-%02d', '%d-%d-%d', '%04d/%02d/%02d', '%04d%02d%02d', '%2$02d/%3$02d/%1$04d', ' %04d-%02d-%02d', '%04d-%02d-%02d BC', '%05d-%02d-%02d'),
		pick(0, 1, 1999, 2000, 2023, 2024, 9999, int rand 10000), pick(0, 1, 2, 2, 12, 13, 1 + int rand 12), pick(0, 28, 29, 30, 31, 32, 1 + int rand 28) };
	my $time = sub { sprintf(pick('%02d:%02d:%02d', '%02d:%02d:%02d', '%02d:%02d:%02d', '%d:%d:%d', '%02d:%02d', '%02d%02d%02d'), pick(0, 23, 24, 25, int rand 24), pick(0, 59, 60, int rand 60), pick(0, 59, 60, 61, int rand 60))
		. pick('', '', '.' . digits(), '.', '.5', '.999999', '.9999999', '.0000005', ' ', ' PM', ' AM') };
	my $zone = sub { pick('', '+00', '-08', '+02', '+14', '+15', '+16', '-15:59', '+05:30', '+05:60', '-00:00:01', '+5', '+0530', 'Z', ' UTC', ' Europe/Berlin', '+02 ', '+') };
	return pick('', ' ', 'NaN', 'nan', 'Infinity', '-Infinity', 'infinity', 'null', 'epoch', 'yesterday', 'today ', '1', 'x', '-0', '0.0', 't', 'f', 'true', 'TRUE', 'tru', 'on', 'off', 'yes', 'no') if rand() < 0.1;
	return $number->() if $type =~ /^(int.|oid|float.|numeric.*|value_domain)$/;
	return $date->() if $type eq 'date';
	return $time->() . (rand() < 0.1 ? $zone->() : '') if $type =~ /^time(\(|$)/;
	return $date->() . pick(' ', ' ', ' ', 'T', '  ', '') . $time->() . ($type =~ /tz/ || rand() < 0.1 ? $zone->() : '') if $type =~ /^timestamp/;
	return pick('red', 'RED', 'red ', 'green', "na\xc3\xafve", '', 'blue', 'x' x 40) if $type eq 'value_enum';
	return pick('{1,2}', '{}', '{1,NULL}', '{a,"b c"}', '{{1},{2}}', '{1,', '{ 1 , 2 }', '[0:1]={1,2}') if $type =~ /\[/;
	return pick('{"a": 1}', '[1, 2]', '{"a":', ' 1 ', '"x"', '{"a":1, "a":2}', '"\\u00e9"', '"\\u0000"', '1e400', 'nul') if $type =~ /json/;
	if ($type eq 'uuid')
	{
		my $hex = join '', map { pick(0 .. 9, 'a' .. 'f', 'A' .. 'F') } 1 .. 32;
		$hex =~ s/^(.{8})(.{4})(.{4})(.{4})/$1-$2-$3-$4-/ unless rand() < 0.2;
		substr($hex, rand length $hex, 1) = pick('g', '-', 'A', '', "\xc3\xa9", '0') if rand() < 0.3;
		return rand() < 0.1 ? "{$hex}" : $hex;
	}
	if ($type eq 'bytea')
	{
		my $hex = '\\x' . join '', map { pick(0 .. 9, 'a' .. 'f', 'A' .. 'F') } 1 .. pick(0, 2, 4, 5, 16, 30, 31, 200);
		substr($hex, rand length $hex, 1) = pick('g', ' ', 'x', '\\', "\xc3\xa9") if rand() < 0.3;
		return rand() < 0.2 ? pick('abc', 'a\\\\b', '\\001', '\\999', '\\X41', '\\x 41 42') : $hex;
	}
	return pick('a', 'ab', 'abc', 'abcd', 'abc ', 'abc  d', '   ', "\xc3\xa9", "\xc3\xa9\xc3\xa9\xc3\xa9", "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", "ab\xe2\x82\xac", 'x' x 63, 'x' x 64, 'x' x 70, "\xc3\xa9" x 32, '\\101', '\\', 'a"b', "a\nb", 'z' x pick(125, 126, 127, 128, 1000));
}

# One column a type, in each row one odd value: each row is taken or left out for itself, by both in the same way.
sub odd_values
{
	my ($format, $rows) = @_;
	my $table = "odd_$format";
	srand $seed;
	my $columns = join ', ', map { "v$_ $value_types[$_]" } 0 .. $#value_types;
	$node->sql(join ";\n", 'DROP SCHEMA IF EXISTS fast, slow CASCADE', 'CREATE SCHEMA fast', 'CREATE SCHEMA slow', 'GRANT USAGE ON SCHEMA fast, slow TO fast, slow',
		q(DROP TYPE IF EXISTS value_enum), "CREATE TYPE value_enum AS ENUM ('red', 'green', E'na\\xc3\\xafve', '')",
		'DROP DOMAIN IF EXISTS value_domain', 'CREATE DOMAIN value_domain AS int CHECK (VALUE <> 0)', map { "CREATE TABLE $_.$table ($columns); GRANT ALL ON $_.$table TO fast, slow" } @roles);
	my $text = '';
	for my $row (1 .. $rows)
	{
		my $n = $row % @value_types;
		my $value = odd_value($value_types[$n]);
		my @fields = ($format eq 'csv' ? '' : '\\N') x @value_types;
		if ($format eq 'csv') { $fields[$n] = rand() < 0.3 || $value =~ /["\n,]/ || $value eq '' ? '"' . ($value =~ s/"/""/gr) . '"' : $value }
		else { $fields[$n] = $value =~ s/\\/\\\\/gr =~ s/\n/\\n/gr }
		$text .= join($format eq 'csv' ? ',' : "\t", @fields) . "\n";
	}
	write_file("$top/$table", $text);
	my @problems = compare('UTF8', { table => $table, path => $table, format => $format, skip => 1, options => { header => 'false' } });
	is(scalar @problems, 0, "$rows odd values in $format are taken or refused as by COPY") or diag map { substr($_, 0, 3000) . "\n" } @problems;
	my $taken = $node->sql("SELECT count(*) FROM fast.$table");
	ok($taken > $rows / 5 && $taken < $rows, "some of them were taken: $taken");
}

odd_values($_, $seconds > 0 ? 20000 : 4000) for 'csv', 'text';

my $end = Time::HiRes::time() + $seconds;
my $batches = 0;
while ($batches++ < 3 || Time::HiRes::time() < $end)
{
	run_batch();
}
note "$count{all} pulls both ways, $count{failed} of them failed both ways, $count{direct} were direct, $count{rejects} rows were left out both ways";
cmp_ok($count{failed}, '<', $count{all} * 0.7, 'many did not fail');
cmp_ok($count{direct}, '>', $count{all} * 0.2, 'many were direct to the end');

done_testing();
