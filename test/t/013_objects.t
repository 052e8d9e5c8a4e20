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
