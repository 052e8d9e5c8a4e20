# What others do in the middle of a job, or of the transaction that has to do with it: no row is lost or comes twice,
# no job is forgotten, and the error is that of what went wrong.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PgObjStore::Cluster;
use PgObjStore::Session;
use Test::More;
use Time::HiRes qw(sleep time);

alarm 300;

my $node = PgObjStore::Cluster->start_new('races', conf => <<'CONF');
pgobjstore.max_workers = 4
pgobjstore.idle_timeout = '1h'
CONF
my $store = $node->data_dir . '/pgobjstore';

# A session in which the statements were run, with its transaction open.
sub in_transaction
{
	my ($statements, %opt) = @_;
	my $session = PgObjStore::Session->new($node, %opt);
	$session->sql("BEGIN; $statements");
	return $session;
}

sub waits_for_lock
{
	my ($pattern) = @_;
	$node->wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ '$pattern'");
}

# ---------------------------------------------------------------- rows in a new file

# Whoever holds the lock gives the table other rows: the old or the new ones are right, none are not.
for my $kind ('push', 'push_tables')
{
	$node->sql('CREATE TABLE reloaded AS SELECT g FROM generate_series(1, 1000) g') if $kind eq 'push';
	my $other = in_transaction('TRUNCATE reloaded; INSERT INTO reloaded SELECT g FROM generate_series(1, 700) g');
	my $id = $node->sql($kind eq 'push' ? "SELECT objstore_push('reloaded')"
		: "SELECT objstore_push_tables(ARRAY['reloaded'::regclass])");
	waits_for_lock($kind);
	$other->sql('COMMIT');
	my $job = $node->wait_job($id);
	is("$job->{state} $job->{rows}", 'done 700', "$kind of a table that is reloaded meanwhile");
}

# A helper finds somebody in front of it who waits for the leader's end to empty the partition.
$node->sql(<<'SQL');
CREATE TABLE part (k int, filler text) PARTITION BY LIST (k);
ALTER TABLE part ALTER filler SET STORAGE PLAIN;
SELECT format('CREATE TABLE part%s PARTITION OF part FOR VALUES IN (%1$s)', g) FROM generate_series(1, 8) g \gexec
INSERT INTO part SELECT 1 + g % 8, repeat(md5(g::text), 60) FROM generate_series(1, 72000) g;
SQL
{
	# until all that are in front of part8 are locked
	my $gate = in_transaction('LOCK TABLE part8 IN ACCESS EXCLUSIVE MODE');
	my $id = $node->sql("SELECT objstore_push('part', parallel => 2, compression => 'none')");
	waits_for_lock('push');
	my $other = PgObjStore::Session->new($node);
	$other->start('TRUNCATE part2');
	waits_for_lock('TRUNCATE');
	$gate->sql('COMMIT');
	my $job = $node->wait_job($id);
	is("$job->{state} $job->{rows}", 'done 72000', 'a partition that somebody waits to truncate is pushed whole');
	$other->answer;
	is($node->sql('SELECT count(*) FROM part2'), 0, 'and truncated then');
}

# ---------------------------------------------------------------- rolled back

# The worker has passed by a job that was cancelled, and then was not.
$node->sql('CREATE TABLE t AS SELECT 1 AS a');
for my $how ('transaction', 'savepoint', 'session')
{
	$node->sql("ALTER SYSTEM SET pgobjstore.max_workers = 1");
	$node->sql('SELECT pg_reload_conf()');
	$node->wait_for("SELECT setting = '1' FROM pg_settings WHERE name = 'pgobjstore.max_workers'");
	my $gate = in_transaction('LOCK TABLE t IN ACCESS EXCLUSIVE MODE');
	my $first = $node->sql("SELECT objstore_push('t')");
	waits_for_lock('push');
	my $second = $node->sql("SELECT objstore_push('reloaded')");
	my $other = in_transaction("SAVEPOINT s; SELECT objstore_cancel($second)");
	$gate->sql('COMMIT');
	is($node->wait_job($first)->{state}, 'done', 'the job in front is done');
	$node->wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'pgobjstore worker' AND state = 'idle'");
	sleep 0.3;
	$other->sql('ROLLBACK') if $how eq 'transaction';
	$other->sql('ROLLBACK TO s') if $how eq 'savepoint';
	$other->close if $how eq 'session';
	is($node->wait_job($second, timeout => 30)->{state}, 'done', "objstore_cancel was rolled back ($how): the job runs");
}
$node->sql('ALTER SYSTEM RESET pgobjstore.max_workers');
$node->sql('SELECT pg_reload_conf()');

# ---------------------------------------------------------------- once

# However it comes about that two workers have one job: its rows come in once.
{
	$node->sql(<<'SQL');
CREATE TABLE once (a int);
CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN NULL; END $$;
CREATE TRIGGER gate AFTER INSERT ON once FOR EACH STATEMENT EXECUTE FUNCTION gate();
SQL
	my $push = $node->ok_job("SELECT objstore_push('t')", 'one row');
	my $gate = in_transaction('SELECT pg_advisory_xact_lock(42)');
	my $id = $node->sql("SELECT objstore_pull('once', path => '$push->{path}')");
	waits_for_lock('pull');
	$node->sql("UPDATE objstore_job SET state = 'queued' WHERE job_id = $id");
	# wakes another worker, which takes the first that waits
	my $next = $node->sql("SELECT objstore_push('t')");
	$node->wait_for("SELECT count(*) = 2 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'pull'");
	$gate->sql('COMMIT');
	is($node->wait_job($id)->{state}, 'done', 'a job that two workers had is done');
	$node->wait_job($next);
	$node->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pgobjstore worker' AND state = 'active'");
	is($node->sql('SELECT count(*) FROM once'), 1, 'and its rows are there once');
	is($node->job($id)->{state}, 'done', 'it stays done');
}

# ---------------------------------------------------------------- nothing of one job in the next

{
	$node->sql(<<'SQL');
CREATE ROLE worker LOGIN;
CREATE ROLE lesser;
GRANT lesser TO worker;
GRANT USAGE ON FOREIGN SERVER objstore_local TO worker;
CREATE TABLE untidy (a int);
GRANT INSERT ON untidy TO worker;
GRANT TEMPORARY ON DATABASE postgres TO worker;
CREATE FUNCTION untidy() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_advisory_lock(4711), set_config('work_mem', '1MB', false), set_config('role', 'lesser', false);
	CREATE TEMPORARY TABLE left_over (a int);
	EXECUTE 'PREPARE left_over AS SELECT 1';
	RETURN NULL;
END $$;
CREATE TRIGGER untidy AFTER INSERT ON untidy FOR EACH STATEMENT EXECUTE FUNCTION untidy();
CREATE VIEW session AS SELECT current_user AS u, current_setting('work_mem') AS m,
	(SELECT count(*) FROM pg_class WHERE relname = 'left_over') AS tables,
	(SELECT count(*) FROM pg_prepared_statements WHERE name = 'left_over') AS statements;
GRANT SELECT ON session TO worker;
SQL
	my $push = $node->ok_job("SELECT objstore_push('t')", 'one row');
	my $pull = $node->wait_job($node->sql("SELECT objstore_pull('untidy', path => '$push->{path}')", user => 'worker'));
	is($pull->{state}, 'done', 'a trigger leaves much behind in the session');
	$node->wait_for('SELECT pg_try_advisory_xact_lock(4711)');
	pass('its advisory lock is let go');
	my $next = $node->wait_job($node->sql("SELECT objstore_push('session', path => 'session.csv', compression => 'none')",
		user => 'worker'));
	is($next->{state}, 'done', 'the next job of the same worker') or diag $next->{message};
	open my $f, '<', "$store/session.csv" or die;
	is((<$f>)[1], "worker,4MB,0,0\n", 'finds the session as it should be');
}

# ---------------------------------------------------------------- a scan does not wait

# A job that is about to commit holds the lock of its row; a worker that has died needs the launcher all the same.
{
	$node->sql(<<'SQL');
CREATE TABLE late (a int);
CREATE CONSTRAINT TRIGGER gate AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION gate();
CREATE VIEW closed AS SELECT pg_advisory_xact_lock_shared(43)::text AS x;
CREATE DATABASE other;
SQL
	$node->sql('CREATE EXTENSION pgobjstore; CREATE TABLE t AS SELECT 1 AS a', db => 'other');
	my $push = $node->ok_job("SELECT objstore_push('t')", 'one row');
	my $gate = in_transaction('SELECT pg_advisory_xact_lock(42), pg_advisory_xact_lock(43)');
	my $late = $node->sql("SELECT objstore_pull('late', path => '$push->{path}')");
	waits_for_lock('pull');
	my $dies = $node->sql("SELECT objstore_push('closed')");
	waits_for_lock('closed');
	$node->sql("SELECT pg_terminate_backend(pid) FROM objstore_jobs WHERE job_id = $dies");
	$node->wait_for("SELECT attempts = 2 AND state = 'running' FROM objstore_jobs WHERE job_id = $dies");
	pass('a job whose worker has died is begun again');
	is($node->wait_job($node->sql("SELECT objstore_push('t')", db => 'other'), db => 'other', timeout => 30)->{state}, 'done',
		'and jobs of other databases run');
	$gate->sql('COMMIT');
	is($node->wait_job($_)->{state}, 'done', 'then those that waited end') for $late, $dies;
}

# ---------------------------------------------------------------- a helper is gone

{
	$node->sql('INSERT INTO part SELECT 2, filler FROM part3');
	my $killer = PgObjStore::Session->new($node);
	$killer->start(<<'SQL');
DO $$
BEGIN
	FOR i IN 1 .. 5000 LOOP
		PERFORM pg_terminate_backend(a.pid) FROM pg_stat_activity a, objstore_jobs j
		WHERE a.backend_type = 'pgobjstore worker' AND a.query ~ ('job ' || j.job_id) AND a.state = 'active'
			AND j.path = 'helper/' AND j.state = 'running' AND j.pid <> a.pid;
		EXIT WHEN FOUND;
		PERFORM pg_stat_clear_snapshot(), pg_sleep(0.005);
	END LOOP;
END $$
SQL
	my $id = $node->sql("SELECT objstore_push('part', parallel => 2, path => 'helper/', options => '{\"level\": 19}')");
	my $job = $node->wait_job($id);
	is("$job->{state} $job->{sqlstate}", 'failed 57P01', 'a helper that is terminated: the push has failed, nobody has cancelled it');
	like($job->{message}, qr/terminated/, 'and says why');
	$killer->answer;
	is(-e "$store/helper" ? 1 : 0, 0, 'nothing is left in the store');
}

unlike($node->log_text, qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');
$node->stop;
done_testing();
