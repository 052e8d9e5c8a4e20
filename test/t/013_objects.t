# The insides of the objects: frames, parts, checksums, long values; and objects that other programs wrote.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PgObjStore::Cluster;
use PgObjStore::Objects;
use PgObjStore::Servers;
use PgObjStore::Tables;
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

# ---------------------------------------------------------------- frames, parts

# Rows that hold newlines, so that only some of the lines begin a row; random, so that parts fill up.
$node->sql(<<'SQL');
CREATE TABLE large (id text, lines text, noise text);
INSERT INTO large SELECT 'row-' || lpad(i::text, 6, '0'), repeat(E'line, "x"\n', i % 5),
	(SELECT string_agg(encode(sha512((i || '.' || j)::bytea), 'base64'), '') FROM generate_series(1, 8) j)
	FROM generate_series(1, 16000) i;
SQL
my $large = fingerprint($node, 'postgres', 'large');
my @large = (
	{ format => 'csv', options => '{"frame_size": "64kB", "part_size": "5MB"}', begin => qr/\A(id,lines,noise\n)?row-\d{6},/, min_parts => 2 },
	{ format => 'text', options => '{"frame_size": "256kB", "level": 3}', begin => qr/\Arow-\d{6}\t/, min_parts => 2 },
	{ format => 'csv', options => '{"frame_size": "1MB", "level": -3, "header": false, "concurrency": 1}', begin => qr/\Arow-\d{6},/, min_parts => 2 },
	{ format => 'binary', options => '{"frame_size": "64kB"}', min_parts => 2 },
	{ format => 'csv', compression => 'none', options => '{"part_size": "5MB"}', min_parts => 3 });
my @jobs = run_jobs($node, 'postgres', map { sprintf(q(SELECT objstore_push('large', format => '%s', compression => '%s', path => 'large/%d/', options => '%s');),
		$large[$_]{format}, $large[$_]{compression} // 'zstd', $_, $large[$_]{options}) } 0 .. $#large);
my @back = run_jobs($node, 'postgres', map { "SELECT objstore_pull('large_$_', path => 'large/$_/', options => '{\"part_size\": \"5MB\", \"concurrency\": 3}');" } 0 .. $#large);
for my $i (0 .. $#large)
{
	my $case = $large[$i];
	my $name = "$case->{format} $case->{options}";
	is($jobs[$i]{state}, 'done', "$name: pushed") or next;
	is(fingerprint($node, 'postgres', "large_$i"), $large, "$name: comes back");
	my ($row, $bytes) = object_of($jobs[$i]);
	cmp_ok($row->{parts}, '>=', $case->{min_parts}, "$name: in parts");
	is($row->{parts}, parts_of($s3->client('head', $bucket, $row->{key})->{etag}), "$name: as many as boto3 says");
	is($row->{crc32c}, crc32c($bytes), "$name: CRC32C") if $i == 0;
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

# ---------------------------------------------------------------- long values

$node->sql(q(CREATE TABLE long (id int, t text); ALTER TABLE long ALTER t SET STORAGE EXTERNAL));
$node->sql(q(INSERT INTO long VALUES (1, 'short'), (2, repeat(E'0123456789abcdef "quoted",\n\\\t', 7200000)), (3, NULL)));
cmp_ok($node->sql('SELECT max(octet_length(t)) FROM long'), '>', 200e6, 'a field of 200 MB');
@jobs = run_jobs($node, 'postgres', q(SELECT objstore_push('long', path => 'long/');));
@back = run_jobs($node, 'postgres', q(SELECT objstore_pull('long_back', path => 'long/');));
is("$jobs[0]{state} $back[0]{state}", 'done done', 'goes and comes back') or diag $jobs[0]{message}, $back[0]{message};
is($node->sql('SELECT count(*) FROM long a JOIN long_back b USING (id) WHERE a.t IS NOT DISTINCT FROM b.t'), '3', 'as it was');
$node->sql('DROP TABLE long, long_back');

# ---------------------------------------------------------------- objects that others wrote

# A table, and the files that the server's own COPY makes of it.
$node->sql(<<'SQL');
CREATE TABLE origin (id int, t text);
INSERT INTO origin SELECT i, repeat('x",' || i || E'\n', i % 50) FROM generate_series(1, 3000) i;
INSERT INTO origin VALUES (NULL, NULL), (-1, ''), (-2, E'\\.'), (-3, 'é');
SQL
my $origin = fingerprint($node, 'postgres', 'origin');
my %file;
for (qw(csv text binary), [ noheader => 'FORMAT csv' ], [ odd => "FORMAT csv, DELIMITER ';', NULL 'nil', QUOTE '''', ENCODING 'LATIN1', HEADER" ])
{
	my ($name, $options) = ref $_ ? @$_ : ($_, "FORMAT $_" . ($_ eq 'csv' ? ', HEADER' : ''));
	my $path = $node->basedir . "/$name";
	$node->sql("COPY origin TO '$path' ($options)");
	$file{$name} = read_file($path);
	unlink $path;
}
my $csv = $file{csv};
my $half = int(length($csv) / 2);	# in the middle of a row
my $skippable = pack('VV', 0x184D2A53, 5) . 'abcde';
my @good = (
	[ 'plain.csv', $csv ],
	[ 'plain.txt', $file{text} ],
	[ 'plain.bin', $file{binary} ],
	[ 'one frame.csv.zst', zstd_compress($csv) ],
	[ 'level 19, no checksum.csv.zst', zstd_compress($csv, '-19', '--no-check') ],
	[ 'long window.csv.zst', zstd_compress($csv, '--long=27') ],
	[ 'threads.csv.zst', zstd_compress($csv, '-T2', '-B1MB') ],
	[ 'frames.csv.zst', join '', map { zstd_compress(substr $csv, $_ * 100000, 100000) } 0 .. int(length($csv) / 100000) ],
	[ 'a frame of one byte.csv.zst', zstd_compress(substr $csv, 0, 1) . zstd_compress(substr $csv, 1) ],
	[ 'empty frames.csv.zst', zstd_compress('') . zstd_compress($csv) . zstd_compress('') ],
	[ 'skippable frames.csv.zst', $skippable . zstd_compress(substr $csv, 0, $half) . $skippable . $skippable . zstd_compress(substr $csv, $half) . $skippable ],
	[ 'text.txt.zst', zstd_compress($file{text}) ],
	[ 'binary.bin.zst', zstd_compress($file{binary}) ],
	[ 'no header.csv', $file{noheader}, options => '{"header": false}' ],
	[ 'no newline at the end.csv', $csv =~ s/\n\z//r ],
	[ 'no extension', zstd_compress($csv), format => 'csv', compression => 'zstd' ],
	[ 'wrong extension.parquet', $file{binary}, format => 'binary' ],
	[ 'named zst.csv.zst', $csv, compression => 'none' ],
	[ 'odd.csv', $file{odd}, options => q({"delimiter": ";", "null": "nil", "quote": "'", "encoding": "LATIN1"}) ]);

sub put_object
{
	my ($key, $bytes) = @_;
	write_file($node->basedir . '/up', $bytes);
	$s3->client('put_file', $bucket, "top dir/$key", $node->basedir . '/up');
	unlink $node->basedir . '/up';
}

# A call that pulls one object into a new table like origin.
sub pull_call
{
	my ($n, $key, %arg) = @_;
	$node->sql("CREATE TABLE $n (LIKE origin)");
	return "SELECT objstore_pull('$n', path => " . quote_literal($key)
	  . join('', map { ", $_ => " . quote_literal($arg{$_}) } sort keys %arg) . ');';
}

put_object(@$_[ 0, 1 ]) for @good;
@jobs = run_jobs($node, 'postgres', map { my ($key, $bytes, @arg) = @{ $good[$_] }; pull_call("good_$_", $key, @arg) } 0 .. $#good);
for my $i (0 .. $#good)
{
	is($jobs[$i]{state}, 'done', "$good[$i][0]: pulled") or diag "$jobs[$i]{message} ", $jobs[$i]{detail} // '';
	is(fingerprint($node, 'postgres', "good_$i"), $origin, "$good[$i][0]: all rows");
}

# An object that a client of S3 uploaded in parts.
$node->sql('COPY large TO \'' . $node->basedir . '/large.csv\' (FORMAT csv, HEADER)');
$s3->client('put_parts', $bucket, 'top dir/parts.csv', $node->basedir . '/large.csv', 5 << 20);
unlink $node->basedir . '/large.csv';
$node->sql('CREATE TABLE large_parts (LIKE large)');
@jobs = run_jobs($node, 'postgres', q(SELECT objstore_pull('large_parts', path => 'parts.csv');));
is(fingerprint($node, 'postgres', 'large_parts'), $large, 'an object in parts');

# The same damaged: no row may come in.
my $zst = zstd_compress($csv);
my $two = zstd_compress(substr $csv, 0, $half) . zstd_compress(substr $csv, $half);
my @bad = (
	[ 'nothing.csv.zst', '' ],
	[ 'only a magic number.csv.zst', substr($zst, 0, 4) ],
	[ 'last byte missing.csv.zst', substr($zst, 0, -1) ],
	[ 'checksum missing.csv.zst', substr($zst, 0, -4) ],
	[ 'half.csv.zst', substr($zst, 0, length($zst) / 2) ],
	[ 'second frame without its end.csv.zst', substr($two, 0, -20) ],
	[ 'second frame is only a magic number.csv.zst', $zst . substr($zst, 0, 4) ],
	[ 'second frame is one byte.csv.zst', $zst . substr($zst, 0, 1) ],
	[ 'garbage at the end.csv.zst', $zst . 'x' ],
	[ 'zeros at the end.csv.zst', $zst . "\0" x 1000 ],
	[ 'newline at the end.csv.zst', $zst . "\n" ],
	[ 'skippable frame cut off.csv.zst', $zst . substr($skippable, 0, -1) ],
	[ 'skippable frame without its size.csv.zst', $zst . substr($skippable, 0, 6) ],
	[ 'a bit flipped.csv.zst', substr($zst, 0, 500) . (substr($zst, 500, 1) ^ "\x10") . substr($zst, 501), qr/^(XX001|22...)$/ ],
	[ 'checksum wrong.csv.zst', substr($zst, 0, -1) . (substr($zst, -1) ^ "\1") ],
	[ 'not zstd.csv.zst', $csv ],
	[ 'binary cut off.bin', substr($file{binary}, 0, -30), qr/^22P04$/ ],
	[ 'binary without trailer.bin', substr($file{binary}, 0, -2), qr/^(22P04|XX001)$/ ],
	[ 'binary and more.bin', $file{binary} . 'more', qr/^(22P04|XX001)$/ ],
	[ 'binary twice.bin.zst', zstd_compress($file{binary}) . zstd_compress($file{binary}), qr/^(22P04|XX001)$/ ],
	[ 'quote left open.csv', qq(id,t\n1,a\n7,"abc), qr/^22P04$/ ],
	[ 'a field too many.csv', "id,t\n1,a\n2,b,c\n", qr/^22P04$/ ],
	[ 'not UTF-8.csv', "id,t\n1,\xff\n", qr/^22021$/ ],
	[ 'text after its end.txt', "1\ta\n\\.\n2\tb\n", qr/^(22P04|XX001)$/ ]);
put_object("bad/$_->[0]", $_->[1]) for @bad;
@jobs = run_jobs($node, 'postgres', map { pull_call("bad_$_", "bad/$bad[$_][0]") } 0 .. $#bad);
my @left = split /\n/, $node->sql(join ";\n", map { "SELECT count(*) FROM bad_$_" } 0 .. $#bad);
for my $i (0 .. $#bad)
{
	my ($name, undef, $sqlstate) = @{ $bad[$i] };
	is($jobs[$i]{state}, 'failed', "$name: fails");
	like($jobs[$i]{sqlstate}, $sqlstate // qr/^XX001$/, "$name: SQLSTATE") or diag $jobs[$i]{message};
	is($left[$i], '0', "$name: no row is left");
}

# ---------------------------------------------------------------- datasets that were damaged

$node->sql('CREATE TABLE wanted (LIKE origin)');
my $n = 0;
for my $case (
	[ 'a byte changed', qr/XX001/, qr/CRC32C/, sub { substr($_[0], 100, 1) ^= "\1" } ],
	[ 'a byte more', qr/XX001/, qr/bytes/, sub { $_[0] .= "\n" } ],
	[ 'a row less', qr/XX001/, qr/bytes/, sub { $_[0] =~ s/[^\n]*\n\z// } ],
	[ 'another row of the same length', qr/XX001/, qr/CRC32C/, sub { $_[0] =~ s/-3,é/-4,é/ or die } ],
	[ 'gone', qr/42704|58P01/, qr/no object/, undef ])
{
	my ($name, $sqlstate, $text, $damage) = @$case;
	my ($job) = run_jobs($node, 'postgres', "SELECT objstore_push('origin', path => 'damaged/" . $n++ . "/', compression => 'none');");
	my ($row, $bytes) = object_of($job);
	if ($damage)
	{
		$damage->($bytes);
		put_object($row->{key} =~ s{^top dir/}{}r, $bytes);
	}
	else
	{
		$s3->client('delete', $bucket, $row->{key});
	}
	($job) = run_jobs($node, 'postgres', "SELECT objstore_pull('wanted', path => '$job->{path}');");
	is($job->{state}, 'failed', "$name: fails");
	like($job->{sqlstate} // '', $sqlstate, "$name: SQLSTATE");
	like(($job->{message} // '') . ($job->{detail} // ''), $text, "$name: and says so");
	is($node->sql('SELECT count(*) FROM wanted'), '0', "$name: no row is left");
}

$s3->no_open_uploads($bucket);
done_testing();

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
