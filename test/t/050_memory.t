# Memory of a worker does not grow with the table: bounded by the settings, the same for 20 MB and for 200 MB.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PgObjStore::Cluster;
use PgObjStore::Servers;
use Test::More;

plan skip_all => 'needs Linux (/proc)' unless -r "/proc/$$/status";
alarm 300;

my $s3 = PgObjStore::Servers->s3;
my $bucket = $s3->new_bucket;
# One worker at a time, a new one for each job: its peak is the job's.
my $node = PgObjStore::Cluster->start_new('memory', conf => <<'CONF');
pgobjstore.max_workers = 1
pgobjstore.idle_timeout = '1h'
shared_buffers = '16MB'
autovacuum = off
CONF
$node->create_store('lake', url => "s3://$bucket", store => $s3);
# Rows that zstd cannot shorten much, so that parts are many: about 20 and 200 MB of csv.
$node->sql(<<'SQL');
CREATE FUNCTION fill(name text, n int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE UNLOGGED TABLE %I (id int, a text, b text)', name);
	EXECUTE format('INSERT INTO %I SELECT g, string_agg(md5(g::text || s), ''''), repeat(''x'', 30)
		FROM generate_series(1, %s) g, generate_series(1, 5) s GROUP BY g', name, n);
END $$;
SELECT fill('small', 100000), fill('large', 1000000);
CREATE UNLOGGED TABLE small_back (LIKE small);
CREATE UNLOGGED TABLE large_back (LIKE large);
SQL

# Runs the job in a worker of its own; its row and the worker's peak of private memory in MB.  Shared buffers do
# not count: they are the server's.  The kernel keeps only the peak of the whole (VmHWM), so what is shared at the
# end is taken away, and the private memory is sampled besides.
sub measure
{
	my ($name, $query) = @_;
	$node->sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'pgobjstore worker'");
	$node->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pgobjstore worker'");
	my $id = $node->sql($query);
	my $pid = 0;
	my $most = 0;
	my $job;
	while (1)
	{
		($pid) = $node->workers('pgobjstore worker') unless $pid;
		# Many looks at the process for each at the job.
		for (1 .. 10)
		{
			my $anon = $pid ? status($pid, 'RssAnon') : 0;
			$most = $anon if $anon > $most;
			select undef, undef, undef, 0.02;
		}
		$job = $node->job($id);
		last if $job->{state} !~ /queued|running/;
	}
	is($job->{state}, 'done', "$name: done") or diag $job->{message};
	my $peak = status($pid, 'VmHWM') - status($pid, 'RssShmem') - status($pid, 'RssFile');
	$peak = $most if $most > $peak;
	note sprintf '%s: %.1f MB raw, %.1f MB stored, peak of private memory %.1f MiB', $name, $job->{raw_bytes} / 1e6,
	  $job->{stored_bytes} / 1e6, $peak / 1024;
	return ($job, $peak / 1024);
}

# A line of /proc/PID/status in kB.
sub status
{
	my ($pid, $name) = @_;
	open my $f, '<', "/proc/$pid/status" or return 0;
	while (<$f>)
	{
		return $1 if /^$name:\s*(\d+) kB/;
	}
	return 0;
}

# A stream holds at most concurrency + 1 parts (8 + 1, of 8 MiB) with the defaults; zstd and COPY a little.
my %peak;
my %job;
for my $size (qw(small large))
{
	($job{$size}, $peak{"push $size"}) = measure("push $size", "SELECT objstore_push('$size', server => 'lake', parallel => 1)");
}
for my $size (qw(small large))
{
	(my $job, $peak{"pull $size"}) =
	  measure("pull $size", "SELECT objstore_pull('${size}_back', server => 'lake', path => '$job{$size}{path}')");
	is($job->{rows}, $job{$size}{rows}, "pull $size: all rows");
}
cmp_ok($job{large}{raw_bytes}, '>', 195e6, 'the large table has 200 MB');
cmp_ok($job{large}{stored_bytes}, '>', 9 * 8 * 1024 * 1024, 'and more parts than can be in flight');
for my $kind (qw(push pull))
{
	cmp_ok($peak{"$kind large"}, '<', 200, "$kind: below 200 MiB");
	cmp_ok($peak{"$kind large"}, '>', 1, "$kind: something was measured");
}

# Half the table is as much as the whole: both fill every part that may be in flight.
$node->sql("CREATE VIEW half AS SELECT * FROM large WHERE id <= 600000; CREATE UNLOGGED TABLE half_back (LIKE large)");
my ($half, $half_push) = measure('push 120 MB', "SELECT objstore_push('half', server => 'lake', parallel => 1)");
my (undef, $half_pull) = measure('pull 120 MB', "SELECT objstore_pull('half_back', server => 'lake', path => '$half->{path}')");
cmp_ok($peak{'push large'}, '<', $half_push + 16, 'push: 200 MB need no more than 120 MB');
cmp_ok($peak{'pull large'}, '<', $half_pull + 16, 'pull: 200 MB need no more than 120 MB');

# And the settings bound it: two parts of 5 MiB.
my (undef, $few) = measure('push with few parts', q{SELECT objstore_push('large', server => 'lake', parallel => 1, options => '{"part_size": "5MB", "concurrency": 1}')});
cmp_ok($few, '<', 48, 'push: concurrency 1 and parts of 5 MiB need less than 48 MiB');

$s3->no_open_uploads($bucket);
$node->stop;
done_testing();
