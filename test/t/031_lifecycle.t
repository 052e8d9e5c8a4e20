# Databases, extensions and servers come and go while jobs run or workers idle: nothing hangs, nothing is lost,
# and nothing is left in the store.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PgObjStore::Cluster;
use PgObjStore::Servers;
use PgObjStore::Session;
use Test::More;
use Time::HiRes qw(sleep time);

alarm 400;

my $s3 = PgObjStore::Servers->s3;
my $bucket = $s3->new_bucket;
# Workers idle for an hour: whatever needs them away must make them go.
my $node = PgObjStore::Cluster->start_new('life', conf => <<'CONF');
pgobjstore.max_workers = 4
pgobjstore.idle_timeout = '1h'
restart_after_crash = on
wal_level = replica
max_wal_senders = 5
CONF
# Slow enough that there is a middle to be interrupted in.
my $proxy = $s3->proxy([ { method => 'POST', match => 'uploadId=', action => 'delay', ms => 500, times => -1 },
	{ method => 'PUT|POST', action => 'delay', ms => 150, times => -1 } ]);
$node->create_store('lake', url => "s3://$bucket/life", store => $proxy);

# Statements that must not hang get this long: far more than they need.
my $patience = 45;

# A database with the extension, a table, and a view that holds a job until the lock 42 of that database is free.
sub new_database
{
	my ($name) = @_;
	$node->sql("CREATE DATABASE $name TEMPLATE template0");
	$node->sql(<<'SQL', db => $name);
CREATE EXTENSION pgobjstore;
CREATE TABLE t AS SELECT g AS a, 'row ' || g AS b FROM generate_series(1, 10) g;
CREATE VIEW gate AS SELECT pg_advisory_xact_lock_shared(42)::text AS x;
CREATE VIEW endless AS SELECT pg_sleep(600)::text AS x;
SQL
}

# A job that runs until the session that is returned closes.
sub held_job
{
	my ($db) = @_;
	my $holder = PgObjStore::Session->new($node, db => $db);
	$holder->sql('SELECT pg_advisory_lock(42)');
	my $id = $node->sql("SELECT objstore_push('gate')", db => $db);
	$node->wait_job($id, state => 'running', db => $db);
	return $holder;
}

# Leaves an idle worker in the database.
sub idle_worker
{
	my ($db) = @_;
	$node->ok_job("SELECT objstore_push('t')", "a push in $db", db => $db);
	$node->wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = '$db' AND backend_type = 'pgobjstore worker' AND state = 'idle'");
}

# The statement must succeed in time.
sub prompt
{
	my ($name, $statement, %opt) = @_;
	my $begun = time;
	my ($rc, $out, $err) = $node->psql($opt{db} // 'postgres', "SET statement_timeout = '${patience}s'; $statement", on_error_stop => 1);
	is($rc, 0, $name) or diag $err;
	cmp_ok(time - $begun, '<', $patience, "$name: in time");
}

sub alive
{
	my ($name) = @_;
	$node->ok_job("SELECT objstore_push('t')", "$name: jobs go on");
}

$node->sql("CREATE TABLE t AS SELECT g AS a, 'row ' || g AS b FROM generate_series(1, 10) g");
my $postmaster = $node->sql("SELECT pg_postmaster_start_time()");

# ---------------------------------------------------------------- idle workers are in nobody's way

new_database('one');
idle_worker('one');
# As one statement in a transaction block is refused, psql sends them one by one.
prompt('CREATE DATABASE ... TEMPLATE of one with an idle worker', "\nCREATE DATABASE copy TEMPLATE one;");
is($node->sql("SELECT count(*) FROM objstore_jobs WHERE state = 'done'", db => 'copy'), 1, 'the copy has the history');
idle_worker('one');
prompt('ALTER DATABASE ... RENAME with an idle worker', "\nALTER DATABASE one RENAME TO uno;");
$node->ok_job("SELECT objstore_push('t')", 'a push in the renamed database', db => 'uno');
idle_worker('uno');
prompt('DROP EXTENSION with an idle worker', 'DROP EXTENSION pgobjstore CASCADE', db => 'uno');
prompt('CREATE EXTENSION again', 'CREATE EXTENSION pgobjstore', db => 'uno');
idle_worker('uno');
prompt('DROP DATABASE with an idle worker', "\nDROP DATABASE uno;");
idle_worker('copy');
prompt('DROP DATABASE ... WITH (FORCE) with an idle worker', "\nDROP DATABASE copy WITH (FORCE);");
alive('after all that');

# ---------------------------------------------------------------- in the middle of jobs

new_database('two');
{
	my $id = $node->sql("SELECT objstore_push('endless')", db => 'two');
	$node->sql("SELECT objstore_push('endless') FROM generate_series(1, 6)", db => 'two');
	$node->wait_job($id, state => 'running', db => 'two');
	my ($rc, $out, $err) = $node->psql('postgres', "\nDROP DATABASE two;");
	isnt($rc, 0, 'DROP DATABASE during a job fails');
	like($err, qr/is being accessed by other users/, 'as with any other session');
	is($node->job($id, db => 'two')->{state}, 'running', 'and the job goes on');
	prompt('DROP DATABASE ... WITH (FORCE) during jobs', "\nDROP DATABASE two WITH (FORCE);");
	$node->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pgobjstore worker' AND state = 'active'");
	alive('after DROP DATABASE ... WITH (FORCE)');
}

new_database('three');
{
	my $idle = "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = 'three' AND backend_type = 'pgobjstore worker' AND state = 'active'";
	my $holder = held_job('three');
	prompt('DROP EXTENSION during a job', 'DROP EXTENSION pgobjstore CASCADE', db => 'three');
	$holder->close;
	$node->wait_for($idle, 't', db => 'three');
	prompt('CREATE EXTENSION after it', 'CREATE EXTENSION pgobjstore', db => 'three');
	$node->ok_job("SELECT objstore_push('t')", 'and the next job runs', db => 'three');

	$holder = held_job('three');
	prompt('DROP and CREATE EXTENSION in another schema during a job',
		'DROP EXTENSION pgobjstore CASCADE; CREATE SCHEMA s; CREATE EXTENSION pgobjstore SCHEMA s', db => 'three');
	my $id = $node->sql("SELECT s.objstore_push('t')", db => 'three');
	$holder->close;
	$node->wait_for("SELECT state = 'done' FROM s.objstore_jobs WHERE job_id = $id", 't', db => 'three');
	pass('and a job of the new one runs');
	is($node->sql("SELECT count(*) FROM s.objstore_jobs", db => 'three'), 1, 'which knows nothing of the old one');
}

# The library is there and the extension is not, neither at start nor later.
$node->sql('CREATE DATABASE bare TEMPLATE template0');
like($node->sql_error('SELECT objstore_wait(1)', db => 'bare')->{message}, qr/does not exist/, 'no extension, no functions');
{
	# A scan looks into every database: those without are passed over.
	my $job = $node->sql("SELECT objstore_push('t')");
	$node->wait_job($job);
	my ($pid) = $node->workers('pgobjstore launcher');
	kill 'TERM', $pid;
	$node->wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'pgobjstore launcher' AND pid <> $pid");
	pass('a launcher that is terminated comes back');
	alive('with the new launcher');
	new_database('four');
	idle_worker('four');
	prompt('DROP DATABASE with the new launcher', "\nDROP DATABASE four;");
}
is($node->sql('SELECT pg_postmaster_start_time()'), $postmaster, 'the server was not restarted so far');

# ---------------------------------------------------------------- crashes in the middle of 20 jobs on S3

# 12 MB of text that zstd halves: two parts of 5 MiB at most.
$node->sql(<<'SQL');
CREATE TABLE big AS SELECT g AS id, md5(g::text) || md5((-g)::text) || md5((g + 0.5)::text) AS noise FROM generate_series(1, 120000) g;
ALTER SERVER lake OPTIONS (part_size '5MB');
SQL
my $sum = 'SELECT count(*) || md5(string_agg(t::text, $$,$$ ORDER BY t)) FROM';
my $expected = $node->sql("$sum big t");
my $small = $node->sql("$sum t");

# 14 small tables and 6 big ones; waits until some are done and a big one is under way.
sub twenty
{
	my ($prefix) = @_;
	$node->sql("SELECT objstore_push(CASE WHEN g % 3 = 0 THEN 'big' ELSE 't' END::regclass, server => 'lake') FROM generate_series(1, 20) g");
	my $ids = $node->sql("SELECT string_agg(job_id::text, ',') FROM (SELECT job_id FROM objstore_jobs ORDER BY job_id DESC LIMIT 20) j");
	$node->wait_for("SELECT bool_or(state = 'done') AND bool_or(state = 'queued') AND bool_or(state = 'running' AND relation = 'public.big' AND parts > 0) FROM objstore_jobs WHERE job_id IN ($ids)");
	return $ids;
}

# All 20 done, every dataset complete, nothing else in the bucket.
sub complete
{
	my ($ids, $name) = @_;
	my $end = time + 60;
	my $open = 20;
	while ($open > 0 && time < $end)
	{
		sleep 0.3;
		$open = $node->sql("SELECT count(*) FROM objstore_jobs WHERE job_id IN ($ids) AND state <> 'done'");
	}
	is($open, 0, "$name: all 20 jobs are done")
	  or diag $node->sql("SELECT job_id, state, attempts, message, detail FROM objstore_jobs WHERE job_id IN ($ids) AND state <> 'done'");
	$s3->no_open_uploads($bucket, "$name: no open multipart upload");
	my %manifest;
	my @objects;
	for my $key ($s3->object_keys($bucket, 'life/postgres/'))
	{
		$key =~ m{^(.*/)([^/]+)$} or die;
		$2 eq 'manifest.json' ? $manifest{$1}++ : push @objects, $1;
	}
	is(scalar(grep { !$manifest{$_} } @objects), 0, "$name: no object without a manifest");
	my ($wrong, %pulled, %back) = (0);
	for my $row ($node->rows("SELECT job_id, relation, path, attempts FROM objstore_jobs WHERE job_id IN ($ids)"))
	{
		$manifest{"life/$row->{path}"} or $wrong++;
		# Those that were begun twice are the interesting ones.
		next if $row->{attempts} == 1 && $pulled{ $row->{relation} }++ > 0;
		$back{ $row->{job_id} } = $row;
	}
	my @back = sort { $a <=> $b } keys %back;
	my @pulls = split /\n/, $node->sql(join '; ', map { "SELECT objstore_pull('back$_', server => 'lake', path => '$back{$_}{path}')" } @back);
	for my $id (@back)
	{
		my $job = $node->wait_job(shift @pulls);
		my $got = $job->{state} eq 'done' ? $node->sql("$sum back$id t; DROP TABLE back$id") : $job->{message};
		next if $got eq ($back{$id}{relation} eq 'public.big' ? $expected : $small);
		diag "$back{$id}{path}: $got";
		$wrong++;
	}
	is($wrong, 0, "$name: datasets are complete and come back as they were");
}

my $interrupted = 0;
{
	my $ids = twenty();
	$node->crash;
	$interrupted += @{ $s3->client('uploads', $bucket) };
	$node->start;
	complete($ids, 'immediate shutdown');
	cmp_ok($node->sql("SELECT max(attempts) FROM objstore_jobs WHERE job_id IN ($ids)"), '>=', 2, 'some were begun twice');
	cmp_ok($node->sql("SELECT max(attempts) FROM objstore_jobs WHERE job_id IN ($ids)"), '<=', 3, 'but not often');
}
{
	my $ids = twenty();
	my $pid = $node->sql("SELECT pid FROM objstore_jobs WHERE state = 'running' AND relation = 'public.big' AND pid IS NOT NULL LIMIT 1");
	kill 'KILL', $pid;
	$interrupted += @{ $s3->client('uploads', $bucket) };
	# The postmaster restarts all backends then.
	my $end = time + 60;
	my $up = 0;
	until ($up || time > $end)
	{
		sleep 0.3;
		my ($rc, $out) = $node->psql('postgres', 'SELECT 1');
		$up = $rc == 0;
	}
	is($up, 1, 'after kill -9 of a worker the server is up again');
	complete($ids, 'kill -9');
}
cmp_ok($interrupted, '>', 0, 'uploads were open at that time');
{
	my $ids = twenty();
	my $begun = time;
	$node->stop('fast');
	cmp_ok(time - $begun, '<', 30, 'fast shutdown with running jobs ends promptly');
	$node->start;
	complete($ids, 'fast shutdown');
}
{
	my $ids = twenty();
	for (1 .. 2)
	{
		my $pid = $node->sql("SELECT pid FROM objstore_jobs WHERE state = 'running' AND relation = 'public.big' AND pid IS NOT NULL LIMIT 1");
		$node->sql("SELECT pg_terminate_backend($pid)") if $pid;
		sleep 0.3;
	}
	complete($ids, 'terminated workers');
}
# A pull that is interrupted is loaded once.
{
	my ($path) = split /\n/, $node->sql("SELECT path FROM objstore_jobs WHERE state = 'done' AND kind = 'push' AND relation = 'public.big' ORDER BY job_id DESC");
	$node->sql('DROP TABLE IF EXISTS back; CREATE TABLE back (LIKE big)');
	my @ids = split /\n/, $node->sql("SELECT objstore_pull('back', server => 'lake', path => '$path') FROM generate_series(1, 3)");
	$node->wait_for("SELECT count(*) > 0 FROM objstore_jobs WHERE job_id >= $ids[0] AND state = 'running' AND rows > 0");
	$node->crash;
	$node->start;
	is($node->wait_job($_)->{state}, 'done', 'a pull that was interrupted is done') for @ids;
	is($node->sql('SELECT count(*), count(DISTINCT id) FROM back'), '360000|120000', 'three pulls, each loaded once');
}

# ---------------------------------------------------------------- a standby

{
	my $backup = $node->backup('b');
	my $standby = PgObjStore::Cluster->new('standby');
	$standby->init_from_backup($node, 'b', has_streaming => 1);
	$standby->start;
	$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
	cmp_ok($standby->sql('SELECT count(*) FROM objstore_jobs'), '>', 20, 'a standby shows the jobs');
	is($standby->sql_error("SELECT objstore_push('t')")->{sqlstate}, '25006', 'and refuses new ones');
	is($standby->sql("SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ 'pgobjstore'"), 0, 'it has no launcher');
	$standby->promote;
	$standby->wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'pgobjstore launcher'");
	$standby->ok_job("SELECT objstore_push('t', server => 'lake', path => 'promoted/')", 'after its promotion it runs jobs');
	$standby->stop;
}

my $log = $node->log_text;
unlike($log, qr/PANIC|TRAP/, 'no panic');
my $killed = () = $log =~ /was terminated by signal/g;
is($killed, 1, 'no process ended by a signal but the one that was killed');
$s3->no_open_uploads($bucket);
$node->stop;
done_testing();
