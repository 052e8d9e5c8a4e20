# Files that other programs wrote: every compression and format, COPY's options, files that are damaged.  DuckDB as
# a writer and reader of its own, if PGOBJSTORE_DUCKDB names where it is installed.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PgObjStore::Cluster;
use PgObjStore::Objects;
use PgObjStore::Tables;
use JSON::PP ();
use Digest::MD5 qw(md5_hex);
use Test::More;
use Time::HiRes qw(time);

my ($node, $dir) = PgObjStore::Cluster->start_with_files('main');

sub put { put_file($dir, @_) }

sub filter
{
	my ($bytes, @command) = @_;
	write_file("$dir/../in", $bytes);
	my $out = `@command < $dir/../in`;
	die "@command failed\n" if $?;
	return $out;
}

# ---------------------------------------------------------------- independent writers

$node->sql(<<'SQL');
CREATE TABLE origin (id int, f float8, d date, t text);
INSERT INTO origin SELECT i, i / 7.0, date '2024-01-01' + i % 1000, repeat(chr(34) || 'x",' || i || E'\n', i % 9)
	FROM generate_series(1, 4000) i;
INSERT INTO origin VALUES (NULL, NULL, NULL, NULL), (-2, '-Infinity', '0044-03-15 BC', E'\\.'), (-3, 'NaN', 'infinity', 'é 🐘'), (-4, 0, '2024-02-29', ' blanks ');
SQL
my $origin = fingerprint($node, 'postgres', 'origin');
my %made;
my %copy = (csv => 'FORMAT csv, HEADER', txt => 'FORMAT text', bin => 'FORMAT binary');
for my $name (sort keys %copy)
{
	$node->sql("COPY origin TO '$dir/../made' ($copy{$name})");
	$made{$name} = read_file("$dir/../made");
}
my $csv = $made{csv};
my $half = int(length($csv) / 2);
my $skippable = pack('VV', 0x184D2A53, 5) . 'abcde';
my $gzip = filter($csv, 'gzip', '-n');
my $lz4 = filter($csv, 'lz4', '-q');
my @good = (
	[ 'gzip.csv.gz', $gzip ],
	[ 'gzip -1 with a name.csv.gz', do { write_file("$dir/../named.csv", $csv); scalar `gzip -1 -c $dir/../named.csv` } ],
	[ 'gzip members.csv.gz', join '', map { filter(substr($csv, $_ * 40000, 40000), 'gzip') } 0 .. int(length($csv) / 40000) ],
	[ 'gzip empty members.csv.gz', filter('', 'gzip') . $gzip . filter('', 'gzip') ],
	[ 'gzip padded.csv.gz', $gzip . "\0" x 100000 ],
	[ 'gzip text.txt.gz', filter($made{txt}, 'gzip') ],
	[ 'gzip binary.bin.gz', filter($made{bin}, 'gzip') ],
	[ 'UPPER.CSV.GZ', $gzip ],
	[ 'zstd -T0.csv.zst', filter($csv, 'zstd', '-q', '-T0', '-B32KiB') ],
	[ 'zstd frames.csv.zst', filter(substr($csv, 0, $half), 'zstd', '-q') . $skippable . filter(substr($csv, $half), 'zstd', '-q', '-19') ],
	[ 'lz4.csv.lz4', $lz4 ],
	[ 'lz4 blocks.csv.lz4', filter($csv, 'lz4', '-q', '-9', '-B4', '-BD', '--content-size', '-BX') ],
	[ 'lz4 frames.csv.lz4', $skippable . filter(substr($csv, 0, $half), 'lz4', '-q') . $skippable . filter(substr($csv, $half), 'lz4', '-q', '--no-frame-crc') . $skippable ],
	[ 'lz4 text.txt.lz4', filter($made{txt}, 'lz4', '-q') ],
	# what it is shows in its first bytes
	[ 'sniff1', $csv ],
	[ 'sniff2', $gzip ],
	[ 'sniff3.csv', $lz4 ],
	[ 'sniff4', filter($made{bin}, 'zstd', '-q') ],
	[ 'sniff5.dat', $made{bin} ],
	[ 'sniff6', $skippable . $lz4 ],
	[ 'sniff7.txt', filter($made{txt}, 'gzip') ],
	# what is said wins over the name
	[ 'said.json', $csv, format => 'csv' ],
	[ 'said.txt', $csv, format => 'csv' ],
	[ 'said.csv.gz', $csv, compression => 'none' ],
	[ 'said.zst', $gzip, compression => 'gzip', format => 'csv' ],
	# ends of lines, byte order mark
	[ 'crlf.csv', crlf($csv), check => 'crlf' ],
	[ 'bom.csv', "\xef\xbb\xbf$csv" ],
	[ 'bom.txt.gz', filter("\xef\xbb\xbf$made{txt}", 'gzip') ],
	[ 'bom.csv.zst', filter("\xef\xbb\xbf$csv", 'zstd', '-q'), options => '{"header": "match"}' ],
	[ 'bom map.csv', "\xef\xbb\xbf$csv", options => '{"header": "map"}' ],
	[ 'no newline at the end.csv', $csv =~ s/\n\z//r ],
	[ 'small ranges.csv', $csv, options => '{"part_size": "5MB", "concurrency": 1}' ],
	[ 'x.tsv', $made{txt} ]);

sub crlf
{
	my ($text) = @_;
	# rows end in CRLF, newlines inside of quotes stay as they are
	my $in = 0;
	return join '', map { my $line = $_; $in ^= ($line =~ tr/"//) & 1; $in ? $line : $line =~ s/\n\z/\r\n/r } split /(?<=\n)/, $text;
}

# Python's csv module, in several dialects.
write_file("$dir/../in.csv", $csv);
write_file("$dir/../dialects.py", <<'PY');
import csv, sys
src, out = sys.argv[1:]
rows = list(csv.reader(open(src, newline='', encoding='utf-8')))
for name, arg in {
        'excel': dict(dialect='excel'), 'unix': dict(dialect='unix'), 'tab': dict(dialect='excel-tab'),
        'semicolon': dict(delimiter=';', quotechar="'", lineterminator='\n'),
        'escaped': dict(doublequote=False, escapechar='\\', lineterminator='\n', quoting=csv.QUOTE_NONNUMERIC)}.items():
    with open(out + '/python ' + name + '.csv', 'w', newline='', encoding='utf-8') as f:
        csv.writer(f, **arg).writerows(rows)
PY
system('python3', "$dir/../dialects.py", "$dir/../in.csv", $dir) == 0 or die;
my $nulls = '"force_null": ["id", "f", "d", "t"]';
push @good, [ 'python excel.csv', undef, check => 'empty' ], [ 'python unix.csv', undef, options => "{$nulls}", check => 'empty' ],
  [ 'python tab.csv', undef, options => '{"delimiter": "\t"}', check => 'empty' ],
  [ 'python semicolon.csv', undef, options => q({"delimiter": ";", "quote": "'"}), check => 'empty' ],
  [ 'python escaped.csv', undef, options => qq({"escape": "\\\\", $nulls}), check => 'empty' ];

# DuckDB.
my $duckdb = $ENV{PGOBJSTORE_DUCKDB};
sub duckdb
{
	local $ENV{DUCKDB_MODULES} = $duckdb;
	open my $f, '-|', "$FindBin::RealBin/../servers/duckdb", @_ or die "duckdb: $!\n";
	local $/;
	my $text = <$f>;
	close $f or die "duckdb failed\n";
	return @{ JSON::PP::decode_json($text) };
}
if ($duckdb)
{
	my $from = "read_csv('$dir/../in.csv', header = true, all_varchar = true)";
	duckdb(map { "COPY (SELECT * FROM $from) TO '$dir/duckdb $_->[0]' ($_->[1])" }
		[ '1.csv', 'HEADER' ], [ '2.csv.gz', 'HEADER, COMPRESSION gzip' ], [ '3.csv.zst', 'HEADER, COMPRESSION zstd' ],
		[ '4.csv', "HEADER, DELIMITER '|', QUOTE '''', ESCAPE '''', FORCE_QUOTE *" ]);
	push @good, [ 'duckdb 1.csv', undef, check => 'empty' ], [ 'duckdb 2.csv.gz', undef, check => 'empty' ],
	  [ 'duckdb 3.csv.zst', undef, check => 'empty' ],
	  [ 'duckdb 4.csv', undef, options => qq({"delimiter": "|", "quote": "'", $nulls}), check => 'empty' ];
}

for my $case (@good)
{
	put("good/$case->[0]", $case->[1]) if defined $case->[1];
	rename "$dir/$case->[0]", "$dir/good/$case->[0]" or die "$case->[0]: $!" if !defined $case->[1];
}
# Those writers know no difference between NULL and the empty string: so the empty ones are compared as NULL.
$node->sql("CREATE VIEW origin_empty AS SELECT id, f, d, nullif(t, '') AS t FROM origin");
$node->sql(join ';', map { "CREATE TABLE good_$_ (LIKE origin)" } 0 .. $#good);
my @jobs = run_jobs($node, 'postgres', map { my ($key, undef, %arg) = @{ $good[$_] }; delete $arg{check}; pull_sql("good_$_", "good/$key", %arg) } 0 .. $#good);
my %want = (empty => fingerprint($node, 'postgres', 'origin_empty'), crlf => $origin);
for my $i (0 .. $#good)
{
	my ($key, undef, %arg) = @{ $good[$i] };
	is($jobs[$i]{state}, 'done', "$key: pulled") or diag "$jobs[$i]{sqlstate} $jobs[$i]{message} ", $jobs[$i]{detail} // '';
	my $got = fingerprint($node, 'postgres', ($arg{check} // '') eq 'empty' ? "(SELECT id, f, d, nullif(t, '') AS t FROM good_$i)" : "good_$i");
	is($got, $want{ $arg{check} // '' } // $origin, "$key: all rows");
}
$node->sql(join ';', map { "DROP TABLE good_$_" } 0 .. $#good);

# And the other way: what a push wrote, read by others.
SKIP:
{
	skip 'PGOBJSTORE_DUCKDB is not set', 3 unless $duckdb;
	$node->sql(q(CREATE TABLE plain AS SELECT i AS id, i * 1.5::float8 AS f, 'text "' || i || E'"\n,' AS t FROM generate_series(1, 5000) i));
	for my $compression (qw(zstd none))
	{
		my ($job) = run_jobs($node, 'postgres', "SELECT objstore_push('plain', path => 'pushed_$compression/', compression => '$compression', options => '{\"frame_size\": \"64kB\"}');");
		my ($row) = duckdb("SELECT count(*), sum(id), sum(f), md5(string_agg(t, '' ORDER BY id)) FROM read_csv('$dir/pushed_$compression/part-*', header = true, types = {'id': 'INT', 'f': 'DOUBLE', 't': 'VARCHAR'}, new_line = '\\n', quote = '\"', escape = '\"')");
		my $mine = $node->sql(q(SELECT count(*) || '|' || sum(id) || '|' || sum(f) || '|' || md5(string_agg(t, '' ORDER BY id)) FROM plain));
		is(join('|', map { s/\.0$//r } @$row), $mine =~ s/\.0\|/|/r, "DuckDB reads what was pushed ($compression)");
	}
	my ($job) = run_jobs($node, 'postgres', q(SELECT objstore_push('plain', path => 'single.csv.zst');));
	my ($row) = duckdb("SELECT count(*), sum(id) FROM '$dir/single.csv.zst'");
	is("@$row", '5000 12502500', 'a single object, by its name alone');
}

# ---------------------------------------------------------------- COPY's options

$node->sql(q(CREATE TABLE opt (a int, b text DEFAULT 'two', c text)));
my @options = (
	[ '{"header": false}', "1,x,y\n", '1|x|y' ],
	[ '{"header": true}', "no,matter,what\n1,x,y\n", '1|x|y' ],
	[ '{"header": "match"}', "a,b,c\n1,x,y\n", '1|x|y' ],
	[ '{"header": false, "delimiter": "|"}', "1|x,|y\n", '1|x,|y' ],
	[ '{"header": false, "quote": "~", "escape": "^"}', "1,~x,^~~,y\n", '1|x,~|y' ],
	[ '{"header": false, "null": "nil"}', "nil,,nil\n", '||<null>' ],
	[ '{"header": false, "force_null": ["b"]}', qq(1,"",""\n), '1|<null>|' ],
	[ '{"header": false, "force_not_null": ["b"]}', "1,,\n", '1||<null>' ],
	[ '{"header": false, "encoding": "LATIN1"}', "1,\xe9,\xdf\n", "1|\xc3\xa9|\xc3\x9f" ],
	[ '{"header": false, "encoding": "SJIS"}', "1,\x83\x5c,\x83\x5c\n", "1|\xe3\x82\xbd|\xe3\x82\xbd" ],
	[ '{"header": true, "null": "\\\\N", "delimiter": "\t"}', "a\tb\tc\n1\t\\N\ty\n", '1|<null>|y', 'text' ]);
push @options, [ '{"header": false, "default": "D"}', "1,D,y\n", '1|two|y' ] if $node->pg_version >= 16;
for my $i (0 .. $#options)
{
	my ($options, $bytes, $want, $format) = @{ $options[$i] };
	put("opt/$i", $bytes);
	my ($job) = run_jobs($node, 'postgres', 'TRUNCATE opt;' . pull_sql('opt', "opt/$i", options => $options, format => $format // 'csv'));
	is($job->{state}, 'done', "$options: pulled") or diag $job->{message};
	my $got = $node->sql(q(SELECT coalesce(a::text, ''), coalesce(b, '<null>'), coalesce(c, '<null>') FROM opt));
	utf8::encode($got) if utf8::is_utf8($got);
	is($got, $want, "$options: read so");
}

my $error = $node->sql_error(pull_sql('opt', 'opt/0', options => '{"delimeter": ";"}'));
is($error->{sqlstate}, '22023', 'an unknown option');
like($error->{detail}, qr/delimiter.*force_not_null.*skip_loaded/, 'the known are listed');
like($error->{hint}, qr/"delimiter"/, 'and the nearest');
$error = $node->sql_error(pull_sql('opt', 'opt/0', options => '{"delimiter": "ab"}', format => 'csv'));
is($error->{sqlstate}, '0A000', 'COPY refuses a value at the call');
$error = $node->sql_error(pull_sql('opt', 'opt/0', options => '{"on_error": "skip"}'));
is($error->{sqlstate}, '22023', 'on_error is an argument, no option');
$error = $node->sql_error(pull_sql('opt', 'opt/0', format => 'parquet'));
like($error->{detail}, qr/csv, text, binary/, 'an unknown format');

# ---------------------------------------------------------------- what is not right

$node->sql(q(CREATE TABLE bad (id int NOT NULL, t text); INSERT INTO bad VALUES (0, 'was there')));
my $body = join '', "id,t\n", map { "$_,row $_\n" } 1 .. 20000;
my $zst = filter($body, 'zstd', '-q');
$gzip = filter($body, 'gzip', '-n');
$lz4 = filter($body, 'lz4', '-q');
# So much that a thread decompresses it: that begins after 1 MiB.
my $large = join '', "id,t\n", map { "$_," . md5_hex($_) . md5_hex(-$_) . "\n" } 1 .. 60000;
my %large = (gz => filter($large, 'gzip', '-n'), zst => filter($large, 'zstd', '-q'), lz4 => filter($large, 'lz4', '-q'));
sub flip { my ($bytes, $at) = @_; substr($bytes, $at, 1) ^= "\1"; return $bytes }
sub middle { my ($bytes, $garbage) = @_; substr($bytes, length($bytes) / 2, length $garbage) = $garbage; return $bytes }
my @bad = (
	[ 'gzip cut off.csv.gz', substr($gzip, 0, -20), 'XX001', qr/ends in the middle of a gzip member/ ],
	[ 'gzip without its last byte.csv.gz', substr($gzip, 0, -1), 'XX001', qr/middle of a gzip/ ],
	[ 'gzip garbage behind.csv.gz', $gzip . 'garbage', 'XX001', qr/garbage after the end/ ],
	[ 'gzip zeros, then garbage.csv.gz', $gzip . "\0" x 600 . 'x', 'XX001', qr/garbage after the end/ ],
	[ 'gzip checksum.csv.gz', do { my $b = $gzip; substr($b, -8, 1) ^= "\1"; $b }, 'XX001', qr/incorrect data check/ ],
	[ 'gzip second member cut off.csv.gz', filter(substr($body, 0, 90), 'gzip') . substr(filter(substr($body, 90), 'gzip'), 0, -30), 'XX001', qr/middle of a gzip/ ],
	[ 'gzip empty.csv.gz', '', 'XX001', qr/is empty, not a gzip file/ ],
	[ 'zstd garbage in the middle.csv.zst', middle($zst, "\xff" x 50), 'XX001', qr/could not decompress.*with zstd/ ],
	[ 'zstd cut off.csv.zst', substr($zst, 0, length($zst) / 2), 'XX001', qr/middle of a zstd frame/ ],
	[ 'lz4 cut off.csv.lz4', substr($lz4, 0, -8), 'XX001', qr/middle of a lz4 frame/ ],
	[ 'lz4 garbage behind.csv.lz4', $lz4 . 'garbage!', 'XX001', qr/with lz4/ ],
	[ 'lz4 checksum.csv.lz4', do { my $b = $lz4; substr($b, -2, 1) ^= "\1"; $b }, 'XX001', qr/with lz4.*hecksum/ ],
	[ 'large gzip cut off.csv.gz', substr($large{gz}, 0, -20), 'XX001', qr/ends in the middle of a gzip member/ ],
	[ 'large gzip garbage behind.csv.gz', $large{gz} . 'garbage', 'XX001', qr/garbage after the end/ ],
	[ 'large gzip checksum.csv.gz', flip($large{gz}, -8), 'XX001', qr/incorrect data check/ ],
	[ 'large zstd cut off.csv.zst', substr($large{zst}, 0, -20), 'XX001', qr/middle of a zstd frame/ ],
	[ 'large zstd garbage behind.csv.zst', $large{zst} . 'garbage', 'XX001', qr/could not decompress.*with zstd/ ],
	[ 'large zstd checksum.csv.zst', flip($large{zst}, -1), 'XX001', qr/with zstd.*hecksum/ ],
	[ 'large lz4 cut off.csv.lz4', substr($large{lz4}, 0, -8), 'XX001', qr/middle of a lz4 frame/ ],
	[ 'large lz4 garbage behind.csv.lz4', $large{lz4} . 'garbage!', 'XX001', qr/with lz4/ ],
	[ 'large lz4 checksum.csv.lz4', flip($large{lz4}, -2), 'XX001', qr/with lz4.*hecksum/ ],
	[ 'zstd large window.csv.zst', filter($body, 'zstd', '-q', '--long=28'), '54000', qr/window is too large.*128 MiB/s ],
	[ 'named gz.csv.gz', $body, 'XX001', qr/not what its name says.*compressed with gzip/s ],
	[ 'named zst.csv.zst', $gzip, 'XX001', qr/not what its name says.*zstd.*begins as with gzip/s ],
	[ 'said lz4.csv', $gzip, 'XX001', qr/not what argument "compression" says/, compression => 'lz4' ],
	[ 'said none.csv', $gzip, 'XX001', qr/not what argument "compression" says/, compression => 'none' ],
	[ 'said binary.csv', $body, '22P04', qr/not what argument "format" says/, format => 'binary' ],
	[ 'named csv.csv', $made{bin}, '22P04', qr/not what its name says.*binary/s ],
	[ 'a.parquet', "PAR1\x15\x04" . 'x' x 100, '0A000', qr/it is Parquet/ ],
	[ 'a.json', qq({"id": 1}\n), '0A000', qr/it is JSON/ ],
	[ 'named csv is zip.csv', "PK\x03\x04xxxx", '0A000', qr/it is a zip/ ],
	[ 'xz.csv', "\xFD7zXZ\0xxxx", '0A000', qr/it is xz/ ],
	[ 'utf-16.csv', "\xff\xfei\0d\0\n\0", '22021', qr/UTF-16/ ],
	[ 'mixed ends.csv', "id,t\n1,a\r\n2,b\n", '22P04', qr/unquoted carriage return.*line 2/s ],
	[ 'mixed the other way.csv', "id,t\r\n1,a\n2,b\r\n", '22P04', qr/unquoted newline.*line 2/s ],
	[ 'quote left open.csv', qq(id,t\n1,a\n2,"b\n3,c\n), '22P04', qr/unterminated CSV quoted field/ ],
	[ 'column missing.csv', "id,t\n1,a\n2\n", '22P04', qr/missing data for column "t".*line 3/s ],
	[ 'column too many.csv', "id,t\n1,a\n2,b,c\n", '22P04', qr/extra data after last expected column.*line 3/s ],
	[ 'not utf-8.csv', "id,t\n1,a\n2,\xff\xfe\n", '22021', qr/invalid byte sequence for encoding "UTF8": 0xff.*line 3/s ],
	[ 'nul.csv', "id,t\n1,a\n2,b\0c\n", '22021', qr/invalid byte sequence for encoding "UTF8": 0x00.*line 3/s ],
	[ 'no number.csv', "id,t\n1,a\n" . "x" x 300 . ",b\n", '22P02', qr/invalid input syntax.*line 3, column id: "x{97,100}\.\.\."/s ],
	[ 'null.csv', "id,t\n1,a\n,b\n", '23502', qr/null value in column "id".*line 3/s ],
	[ 'header does not match.csv', "t,id\na,1\n", '22P04', qr/column name mismatch in header line field 1: got "t", expected "id"/, options => '{"header": "match"}' ],
	[ 'header too short.csv', "id\n1\n", '22P04', qr/wrong number of fields in header line: got 1, expected 2/, options => '{"header": "match"}' ],
	[ 'after the marker.txt', "1\ta\n\\.\n2\tb\n", '22P04', qr/goes on after its end-of-data marker/ ],
	[ 'escape at the end.txt', "1\ta\n2\tb\\", undef, undef ],
	[ 'binary cut off.bin', undef, '22P04', qr/unexpected EOF|trailer/ ],
	[ 'binary without trailer.bin', undef, '22P04', qr/without the trailer/ ],
	[ 'binary of another table.bin', $made{bin}, '22P04', qr/row field count is 4, expected 2/ ],
	[ 'nothing here.csv', undef, '42704', qr/no object at "file:.*nothing here/ ]);
$node->sql("COPY bad TO '$dir/../bad.bin' (FORMAT binary)");
my $bin = read_file("$dir/../bad.bin");
for my $i (0 .. $#bad)
{
	my ($key, $bytes) = @{ $bad[$i] };
	$bytes = substr($bin, 0, -6) if $key =~ /^binary cut/;
	$bytes = substr($bin, 0, -2) if $key =~ /^binary without/;
	put("bad/$key", $bytes) if defined $bytes;
}
@jobs = run_jobs($node, 'postgres', map { my ($key, undef, undef, undef, %arg) = @$_; pull_sql('bad', "bad/$key", %arg) } grep { defined $_->[2] } @bad);
for my $case (grep { defined $_->[2] } @bad)
{
	my ($key, undef, $sqlstate, $text) = @$case;
	my $job = shift @jobs;
	is($job->{state}, 'failed', "$key: fails");
	is($job->{sqlstate}, $sqlstate, "$key: SQLSTATE") or diag "$job->{message} ", $job->{detail} // '';
	like(join("\n", $job->{message} // '', $job->{detail} // ''), $text, "$key: and says why");
	like(join("\n", $job->{message} // '', $job->{detail} // ''), qr/\Q$key\E/, "$key: and where");
}
is($node->sql('SELECT * FROM bad'), '0|was there', 'the table is as it was');

# The same large ones, undamaged.
for my $suffix (sort keys %large)
{
	$node->sql("CREATE TABLE large_$suffix (LIKE bad)");
	put("large.csv.$suffix", $large{$suffix});
	my ($job) = run_jobs($node, 'postgres', pull_sql("large_$suffix", "large.csv.$suffix"));
	is($job->{state}, 'done', "$suffix in a thread") or diag $job->{message};
	is($node->sql("SELECT count(*), sum(id), bool_and(t = md5(id::text) || md5((-id)::text)) FROM large_$suffix"), '60000|1800030000|t',
		'every row');
}

# A line of 1.2 GB: more than the server can hold.
{
	open my $f, '|-', "zstd -q -1 -f -o '$dir/long.csv.zst'" or die;
	print $f "id,t\n1,a\n2,";
	print $f 'x' x (1 << 20) for 1 .. 1200;
	print $f "\n3,c\n";
	close $f or die;
	my $start = time;
	my ($job) = run_jobs($node, 'postgres', pull_sql('bad', 'long.csv.zst'));
	is($job->{sqlstate}, '54000', 'a line of 1.2 GB: SQLSTATE') or diag $job->{message};
	like($job->{detail}, qr/line 3/, 'and where');
	cmp_ok(time - $start, '<', 60, 'in bounded time');
	$node->sql('CREATE TABLE long_skip (LIKE bad)');
	($job) = run_jobs($node, 'postgres', pull_sql('long_skip', 'long.csv.zst', on_error => 'skip'));
	is("$job->{state} $job->{rows} $job->{rejects}", 'done 2 1', 'left out, it leaves the others');
	my ($reject) = $node->rows("SELECT * FROM objstore_rejects WHERE job_id = $job->{job_id}");
	is("$reject->{line} $reject->{sqlstate}", '3 54000', 'and is told');
	cmp_ok(length $reject->{raw_line}, '<', 9000, 'cut short');
	unlink "$dir/long.csv.zst";
}
is($node->sql('SELECT * FROM bad'), '0|was there', 'the table is still as it was');

# Formats and compressions may differ from object to object.
$node->sql('CREATE TABLE mixed (LIKE origin)');
put('mix/1.csv', $csv);
put('mix/2.txt.gz', filter($made{txt}, 'gzip'));
put('mix/3.bin.zst', filter($made{bin}, 'zstd', '-q'));
put('mix/4', filter($csv, 'lz4', '-q'));
my ($job) = run_jobs($node, 'postgres', pull_sql('mixed', 'mix/'));
is("$job->{state} $job->{objects}", 'done 4', 'a folder of all kinds') or diag $job->{message};
is(fingerprint($node, 'postgres', 'mixed'), fingerprint($node, 'postgres', '(SELECT origin.* FROM origin, generate_series(1, 4))'), 'all rows, four times');

done_testing();
