# Memory of a worker does not grow with the table: bounded by the settings, the same for 100 MB and for 200 MB.  Nor
# do requests: so many are in flight as concurrency says.
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
# The same store with little in flight: 5 parts of 5 MiB.
$node->create_store('narrow', url => "s3://$bucket", store => $s3, options => { part_size => '5MB', concurrency => 4 });
# Rows that zstd shortens to less than a half only, so that parts are many.  200 MB of csv, and half of it.
$node->sql(<<'SQL');
CREATE UNLOGGED TABLE large AS
	SELECT g AS id, md5(g::text) || md5((-g)::text) || md5((g + 0.5)::text) || md5((g * 3)::text) AS a FROM generate_series(1, 1450000) g;
CREATE VIEW half AS SELECT * FROM large WHERE id <= 725000;
CREATE UNLOGGED TABLE large_back (LIKE large);
CREATE UNLOGGED TABLE half_back (LIKE large);
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
	# What the job has needed is given back: a worker that waits for the next one is small.
	my $idle = status($pid, 'RssAnon');
	for (1 .. 50)
	{
		last if $idle < 20 * 1024;
		select undef, undef, undef, 0.1;
		$idle = status($pid, 'RssAnon');
	}
	cmp_ok($idle / 1024, '<', 20, "$name: the idle worker keeps less than three parts");
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

# With the defaults a stream holds at most concurrency + 1 parts (9 of 8 MiB), and zstd and COPY a little.
my ($push, $peak) = measure('push 200 MB', "SELECT objstore_push('large', server => 'lake', parallel => 1)");
cmp_ok($push->{raw_bytes}, '>', 195e6, 'the large table has 200 MB');
cmp_ok($push->{stored_bytes}, '>', 9 * 8 * 1024 * 1024, 'and more parts than are in flight');
cmp_ok($peak, '<', 200, 'push: below 200 MiB');
(my $pull, $peak) = measure('pull 200 MB', "SELECT objstore_pull('large_back', server => 'lake', path => '$push->{path}')");
is($pull->{rows}, $push->{rows}, 'all rows');
cmp_ok($peak, '<', 200, 'pull: below 200 MiB');

# Half the table is enough to have all parts in flight; the other half must cost nothing more.
my %peak;
for my $size (qw(half large))
{
	($push, $peak{push}{$size}) = measure("push $size", "SELECT objstore_push('$size', server => 'narrow', parallel => 1)");
	cmp_ok($push->{stored_bytes}, '>', 30e6, "$size: more than what is in flight");
	$node->sql("TRUNCATE ${size}_back");
	($pull, $peak{pull}{$size}) = measure("pull $size", "SELECT objstore_pull('${size}_back', server => 'narrow', path => '$push->{path}')");
	is($pull->{rows}, $push->{rows}, 'all rows');
}
for my $kind (qw(push pull))
{
	cmp_ok($peak{$kind}{large}, '<', $peak{$kind}{half} + 16, "$kind: 200 MB need no more than 100 MB");
	cmp_ok($peak{$kind}{large}, '<', 64, "$kind: and what the settings allow");
	cmp_ok($peak{$kind}{half}, '>', 2, "$kind: something was measured");
}

# Several objects, each of more than what is fetched ahead: the next one is fetched while the end of this one is read, in
# the same memory.
($push) = measure('push in ranges', "SELECT objstore_push('large', server => 'narrow', parallel => 2)");
cmp_ok($push->{objects}, '>', 2, 'several objects');
cmp_ok($push->{stored_bytes} / $push->{objects}, '>', 4 * 5 * 1024 * 1024, 'each as large as what is fetched ahead');
$node->sql('TRUNCATE large_back');
($pull, $peak) = measure('pull of several objects', "SELECT objstore_pull('large_back', server => 'narrow', path => '$push->{path}')");
is($pull->{rows}, $push->{rows}, 'all rows');
cmp_ok($peak, '<', $peak{pull}{large} + 12, 'needs no more than one object');

# Requests are slowed down, so that it can be seen how many are under way: the time from one's begin to its end, in the
# log of the proxy, less what may lie between the last byte sent and the last one received.
my $proxy = $s3->proxy([ { method => '^GET$', match => 'part-', times => -1, action => 'delay', ms => 60 } ]);
$node->create_store('slow', url => "s3://$bucket", store => $proxy, options => { part_size => '5MB' });
for my $concurrency (1, 3)
{
	$node->sql('TRUNCATE large_back');
	$proxy->forget;
	my $job = $node->ok_job("SELECT objstore_pull('large_back', server => 'slow', path => '$push->{path}', options => '{\"concurrency\": $concurrency}')",
		"concurrency $concurrency");
	my @gets = $proxy->requests(method => 'GET', target => 'part-');
	cmp_ok(scalar @gets, '>=', $push->{stored_bytes} / (5 * 1024 * 1024), 'ranges of a part');
	my @events = sort { $a->[0] <=> $b->[0] } map { ([ $_->{time}, 1 ], [ $_->{time} + $_->{ms} / 1000 - 0.03, -1 ]) } @gets;
	my ($now, $most) = (0, 0);
	for (@events)
	{
		$now += $_->[1];
		$most = $now if $now > $most;
	}
	is($most, $concurrency, 'so many requests are in flight, and no more');
}

$s3->no_open_uploads($bucket);
$node->stop;
done_testing();
