# The queue: jobs begin with the commit of their transaction and as their role, all of them end, and nobody
# waits for ever.  Everything is on the file: store, whose files are looked at directly.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PgObjStore::Cluster;
use PgObjStore::Session;
use List::Util qw(max min);
use Test::More;
use Time::HiRes qw(sleep time);

alarm 400;

my $node = PgObjStore::Cluster->start_new('queue', conf => <<'CONF');
pgobjstore.max_workers = 4
max_prepared_transactions = 2
CONF
my $store = $node->data_dir . '/pgobjstore';

$node->sql(<<'SQL');
CREATE TABLE t AS SELECT g AS a, 'row ' || g AS b FROM generate_series(1, 10) g;
-- A job on this runs until whoever holds the lock lets go.
CREATE VIEW gate AS SELECT pg_advisory_xact_lock_shared(42)::text AS x;
CREATE VIEW whoami AS SELECT current_user AS c, session_user AS s, current_setting('is_superuser') AS su,
	current_setting('work_mem') AS m;
GRANT SELECT ON t, gate, whoami TO PUBLIC;
GRANT CREATE ON SCHEMA public TO PUBLIC;
CREATE ROLE alice LOGIN;
CREATE ROLE bob LOGIN;
GRANT USAGE ON FOREIGN SERVER objstore_local TO PUBLIC;
SQL

# The text of an object that was pushed with compression => 'none'.
sub object
{
	my ($key) = @_;
	open my $f, '<', "$store/$key" or die "$store/$key: $!";
	local $/;
	return <$f>;
}

sub there { return -e "$store/$_[0]" ? 1 : 0 }

my $holder;
sub close_gate { $holder = PgObjStore::Session->new($node); $holder->sql('SELECT pg_advisory_lock(42)') }
sub open_gate { $holder->close; undef $holder }

sub push_sql
{
	my ($relation, $path, @more) = @_;
	return "SELECT objstore_push(" . join(', ', "'$relation'", "path => '$path'", @more) . ')';
}

# Looks at the job as the superuser: the role may not see it, or has another search_path.
sub run_as
{
	my ($user, $query) = @_;
	return $node->wait_job($node->sql($query, user => $user));
}

sub jobs
{
	my ($where, %opt) = @_;
	return $node->sql("SELECT count(*) FROM objstore_jobs WHERE $where", %opt);
}

sub set
{
	my (%new) = @_;
	$node->sql("ALTER SYSTEM SET $_ = '$new{$_}'") for sort keys %new;
	$node->sql('SELECT pg_reload_conf()');
	for my $name (keys %new)
	{
		$node->wait_for("SELECT setting <> '' FROM pg_settings WHERE name = '$name'");
	}
	sleep 0.2;
}

# ---------------------------------------------------------------- transactions

$node->sql('BEGIN; ' . push_sql('t', 'tx/rolled-back/') . '; ROLLBACK');
is(jobs("path = 'tx/rolled-back/'"), 0, 'ROLLBACK leaves no job');

$node->sql(join '; ', 'BEGIN', push_sql('t', 'tx/a/'), 'SAVEPOINT s', push_sql('t', 'tx/b/'), 'ROLLBACK TO s',
	push_sql('t', 'tx/c/'), 'RELEASE s', 'COMMIT');
$node->wait_for("SELECT count(*) = 2 FROM objstore_jobs WHERE path IN ('tx/a/', 'tx/c/') AND state = 'done'");
is(jobs("path = 'tx/b/'"), 0, 'ROLLBACK TO SAVEPOINT leaves no job');
is(there('tx/b/manifest.json'), 0, 'and no dataset');

$node->sql(join '; ', 'BEGIN', 'SAVEPOINT x', push_sql('t', 'tx/d/'), 'SAVEPOINT y', push_sql('t', 'tx/e/'), 'RELEASE y',
	'ROLLBACK TO x', push_sql('t', 'tx/f/'), 'COMMIT');
$node->sql(join '; ', 'BEGIN', 'SAVEPOINT x', push_sql('t', 'tx/g/'), 'SAVEPOINT y', push_sql('t', 'tx/h/'),
	'ROLLBACK TO y', 'RELEASE x', 'COMMIT');
$node->wait_for("SELECT count(*) = 2 FROM objstore_jobs WHERE path IN ('tx/f/', 'tx/g/') AND state = 'done'");
is($node->sql("SELECT string_agg(path, ' ' ORDER BY path) FROM objstore_jobs WHERE path ~ '^tx/[d-h]/'"),
	'tx/f/ tx/g/', 'nested savepoints: what was released into a rolled back one is gone, the rest is there');

$node->sql(<<'SQL');
DO $$
BEGIN
	BEGIN
		PERFORM objstore_push('t', path => 'tx/raised/');
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN
		PERFORM objstore_push('t', path => 'tx/handler/');
	END;
	PERFORM objstore_push('t', path => 'tx/after/');
END $$;
SQL
$node->wait_for("SELECT count(*) = 2 FROM objstore_jobs WHERE path IN ('tx/handler/', 'tx/after/') AND state = 'done'");
is(jobs("path = 'tx/raised/'"), 0, 'an exception block takes back its jobs only');

$node->sql(<<'SQL');
CREATE PROCEDURE push_and_wait() LANGUAGE plpgsql AS $$
DECLARE
	id bigint;
BEGIN
	id := objstore_push('t', path => 'tx/procedure/');
	COMMIT;
	PERFORM objstore_wait(id, '30 s');
END $$;
SQL
$node->sql('CALL push_and_wait()');
is(there('tx/procedure/manifest.json'), 1, 'COMMIT in a procedure begins its jobs');

{
	my $session = PgObjStore::Session->new($node);
	my $id = $session->sql('BEGIN; ' . push_sql('t', 'tx/uncommitted/'));
	sleep 0.5;
	is(jobs("path = 'tx/uncommitted/'") . there('tx/uncommitted/manifest.json'), '00', 'nothing before COMMIT');
	my $error = $session->sql_error("SELECT * FROM objstore_wait($id)");
	is($error->{sqlstate}, '55000', 'waiting for a job of the own transaction is an error');
	like($error->{hint}, qr/COMMIT/, 'whose hint says COMMIT');
	$session->sql('ROLLBACK; BEGIN; ' . push_sql('t', 'tx/uncommitted/') . '; COMMIT');
	is($node->wait_job($node->sql("SELECT job_id FROM objstore_jobs WHERE path = 'tx/uncommitted/'"))->{state}, 'done',
		'and after COMMIT the job runs');
	$session->sql('BEGIN; ' . push_sql('t', 'tx/prepared/'));
	is($session->sql_error("PREPARE TRANSACTION 'p'")->{sqlstate}, '0A000', 'PREPARE TRANSACTION is refused');
	is(jobs("path = 'tx/prepared/'"), 0, 'and leaves no job');
	$session->close;
}

# ---------------------------------------------------------------- prompt starts

sub delays
{
	my ($count, $before) = @_;
	my @delays;
	for my $i (1 .. $count)
	{
		$before->() if $before;
		my $job = $node->run_job("SELECT objstore_push('t')");
		push @delays, $node->sql(
			"SELECT extract(epoch FROM started_at - enqueued_at) FROM objstore_jobs WHERE job_id = $job->{job_id}");
	}
	return sort { $a <=> $b } @delays;
}

$node->run_job("SELECT objstore_push('t')");
my @warm = delays(7);
cmp_ok($warm[3], '<', 1, 'COMMIT wakes an idle worker promptly');
cmp_ok($warm[6], '<', 8, 'each time');
set('pgobjstore.idle_timeout' => '100ms');
my @cold = delays(5, sub { $node->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pgobjstore worker'") });
cmp_ok($cold[2], '<', 1, 'COMMIT wakes the launcher promptly');
cmp_ok($cold[4], '<', 8, 'each time');

# Workers that leave just when a commit comes: a lost wake-up would be a job that waits for ever.
set('pgobjstore.idle_timeout' => '1ms');
{
	my @sessions = map { PgObjStore::Session->new($node, user => $_) } qw(alice bob);
	$sessions[$_]->start(<<"SQL") for 0, 1;
DO \$\$
DECLARE
	id bigint;
BEGIN
	FOR i IN 1 .. 60 LOOP
		id := objstore_push('t', path => 'wake/$_-' || i || '/');
		COMMIT;
		PERFORM objstore_wait(id, '30 s');
		PERFORM pg_sleep(0.001 * (i % 4));
	END LOOP;
END \$\$;
SQL
	is($sessions[$_]->answer, '', 'no wake-up is lost while workers come and go') for 0, 1;
	is(jobs("path ~ '^wake/' AND state = 'done'"), 120, 'all of them are done');
	$_->close for @sessions;
}
set('pgobjstore.idle_timeout' => '10s');

# ---------------------------------------------------------------- many

$node->sql('CREATE DATABASE other');
$node->sql(<<'SQL', db => 'other');
CREATE EXTENSION pgobjstore;
CREATE TABLE t AS SELECT g AS a, 'row ' || g AS b FROM generate_series(1, 10) g;
CREATE VIEW gate AS SELECT pg_advisory_xact_lock_shared(42)::text AS x;
GRANT SELECT ON t, gate TO PUBLIC;
GRANT USAGE ON FOREIGN SERVER objstore_local TO PUBLIC;
SQL
{
	my @sessions = map { PgObjStore::Session->new($node, user => $_ % 2 ? 'alice' : 'bob', db => $_ < 6 ? 'postgres' : 'other') } 0 .. 7;
	$sessions[$_]->start(<<"SQL") for 0 .. 7;
DO \$\$
BEGIN
	FOR i IN 1 .. 125 LOOP
		PERFORM objstore_push('t', path => 'many/$_/' || i || '/');
		COMMIT;
	END LOOP;
END \$\$;
SQL
	my $most = 0;
	my $end = time + 90;
	my $open = 1;
	while ($open > 0 && time < $end)
	{
		sleep 0.2;
		$most = max($most, scalar $node->workers('pgobjstore worker'));
		$open = 1000;
		$open -= jobs("path ~ '^many/' AND state = 'done'", db => $_) for qw(postgres other);
	}
	is($_->answer, '', 'a session that enqueues 125 jobs') for @sessions;
	$_->close for @sessions;
	is($open, 0, '1000 jobs by 8 sessions of 2 roles in 2 databases: all done');
	my $manifests = () = glob "$store/many/*/*/manifest.json";
	is($manifests, 1000, '1000 datasets');
	cmp_ok($most, '<=', 4, 'never more workers than max_workers');
	cmp_ok($most, '>=', 2, 'but more than one');
	is(jobs("path ~ '^many/' AND attempts <> 1", db => $_), 0, "no job of $_ was begun twice") for qw(postgres other);
}

# ---------------------------------------------------------------- fairness

# A worker that idles for long must not keep its slot from those who wait.
set('pgobjstore.max_workers' => 2, 'pgobjstore.idle_timeout' => '1h');
{
	my @roles = map { "r$_" } 1 .. 6;
	$node->sql("CREATE ROLE $_ LOGIN") for @roles;
	$node->sql("CREATE VIEW slow AS SELECT pg_sleep(0.05)::text AS x; GRANT SELECT ON slow TO PUBLIC");
	# The greedy one first.
	$node->sql("SELECT objstore_push('slow', path => 'fair/greedy/' || g || '/') FROM generate_series(1, 100) g", user => 'alice');
	for my $role (@roles)
	{
		$node->sql("SELECT objstore_push('slow', path => 'fair/$role/' || g || '/') FROM generate_series(1, 3) g", user => $role);
	}
	$node->wait_for("SELECT count(*) = 118 FROM objstore_jobs WHERE path ~ '^fair/' AND state = 'done'");
	my $behind = $node->sql(<<'SQL');
SELECT count(*) FROM objstore_jobs WHERE path ~ '^fair/r' AND
	finished_at > (SELECT max(finished_at) FROM objstore_jobs WHERE path ~ '^fair/greedy/')
SQL
	is($behind, 0, 'six roles with few jobs are not kept waiting behind one with a hundred');
}

# ---------------------------------------------------------------- what can be seen

close_gate();
{
	my $id = $node->sql(push_sql('gate', 'seen/'), user => 'alice');
	my $job = $node->wait_job($id, state => 'running');
	my ($row) = $node->rows("SELECT * FROM pg_stat_activity WHERE pid = $job->{pid}");
	is($row->{backend_type}, 'pgobjstore worker', 'pg_stat_activity: the kind of process');
	is("$row->{usename} $row->{datname} $row->{state}", 'alice postgres active', 'pg_stat_activity: role, database, state');
	is($row->{query}, "pgobjstore push public.gate (job $id)", 'pg_stat_activity: the job');
	is($node->sql("SELECT count(*) FROM objstore_jobs WHERE job_id = $id", user => 'bob'), 0, 'other roles do not see the job');

	my $error = $node->sql_error("SELECT * FROM objstore_wait($id, '200 ms')");
	is($error->{sqlstate}, '57014', 'objstore_wait: time-out');
	like($error->{message}, qr/timed out/, 'which says so');
	like($error->{detail}, qr/running/, 'and what the job does');
	is($node->sql_error("SELECT objstore_wait($id, '-1 s')")->{sqlstate}, '57014', 'objstore_wait: a time-out in the past');
	is($node->job($id)->{state}, 'running', 'the job goes on');
	is($node->sql_error('SELECT objstore_wait(987654321)')->{sqlstate}, '42704', 'objstore_wait: no such job');
	is($node->sql_error("SELECT objstore_wait($id)", user => 'bob')->{sqlstate}, '42704', 'objstore_wait: not for strangers');
	is($node->sql_error("SELECT objstore_cancel($id)", user => 'bob')->{sqlstate}, '42704', 'objstore_cancel: not for strangers');

	# A snapshot of before the end does not hide the end.
	my $session = PgObjStore::Session->new($node);
	is($session->sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT state FROM objstore_jobs WHERE job_id = $id"), 'running',
		'a snapshot that saw the job running');
	$session->start("SELECT state FROM objstore_wait($id, '30 s')");
	my $waiter = PgObjStore::Session->new($node);
	$waiter->sql("SET application_name = 'waiter'");
	$waiter->start("SELECT objstore_wait($id)");
	$node->wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'waiter' AND wait_event_type IS NOT NULL AND state = 'active'");
	$node->sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'waiter'");
	is($waiter->error->{sqlstate}, '57014', 'who waits can be cancelled');
	is($waiter->sql("SELECT state FROM objstore_jobs WHERE job_id = $id"), 'running', 'which does nothing to the job');
	open_gate();
	is($session->answer, 'done', 'objstore_wait in REPEATABLE READ');
	is($waiter->sql("SELECT state FROM objstore_wait($id)"), 'done', 'and who was cancelled can wait again');
	$session->close;
	$waiter->close;
	$node->wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'pgobjstore worker' AND usename = 'alice' AND state = 'idle'");
	is($node->sql("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'pgobjstore launcher'"), 1, 'one launcher');
}

# ---------------------------------------------------------------- who runs it

sub whoami
{
	my ($path, $query, %opt) = @_;
	my $job = $opt{user} ? run_as($opt{user}, $query) : $node->run_job($query);
	is($job->{state}, 'done', "$path is done") or diag $job->{message};
	my ($line) = object($path) =~ /\n(.*)\n\z/;
	return ($job->{owner}, $line);
}

my @none = ("compression => 'none'");
my ($owner, $line) = whoami('who/alice.csv', push_sql('whoami', 'who/alice.csv', @none), user => 'alice');
is("$owner $line", 'alice alice,alice,off,4MB', 'a job runs as the role that asked, in a session of its own');
($owner, $line) = whoami('who/set-role.csv', 'SET ROLE bob; ' . push_sql('whoami', 'who/set-role.csv', @none));
is("$owner $line", 'bob bob,bob,off,4MB', 'after SET ROLE');
$node->sql(<<'SQL');
CREATE FUNCTION push_as_bob(path text) RETURNS bigint LANGUAGE sql SECURITY DEFINER
	RETURN objstore_push('whoami', path => path, compression => 'none');
ALTER FUNCTION push_as_bob OWNER TO bob;
SQL
($owner, $line) = whoami('who/definer.csv', "SELECT push_as_bob('who/definer.csv')", user => 'alice');
is("$owner $line", 'bob bob,bob,off,4MB', 'in a SECURITY DEFINER function');

$node->sql(<<'SQL');
CREATE TABLE secret (id int, owner name);
INSERT INTO secret VALUES (1, 'alice'), (2, 'bob'), (3, 'alice');
ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON secret USING (owner = current_user);
GRANT SELECT ON secret TO alice, bob;
CREATE TABLE seen (id int, by name, session name);
CREATE TABLE target (id int, owner name);
CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS
	$$ BEGIN INSERT INTO public.seen VALUES (NEW.id, current_user, session_user); RETURN NEW; END $$;
CREATE TRIGGER see BEFORE INSERT ON target FOR EACH ROW EXECUTE FUNCTION see();
GRANT INSERT, SELECT ON target, seen TO alice, bob;
SQL
is($node->ok_job(push_sql('secret', 'who/rls/'), 'a push under row level security', user => 'alice')->{rows}, 2,
	'has the rows that the role may see');
my $job = $node->ok_job("SELECT objstore_pull('target', path => 'who/rls/')", 'a pull with a trigger', user => 'bob');
is($node->sql("SELECT string_agg(id || ' ' || by || ' ' || session, ',' ORDER BY id) FROM seen"), '1 bob bob,3 bob bob',
	'which runs as the role that asked');
# Or autovacuum never hears of the rows.
$node->wait_for("SELECT pg_stat_get_tuples_inserted('target'::regclass) >= 2");
pass('and whose rows are in the statistics');

# A role that may not log in has no session to run a job in before PostgreSQL 17.
$node->sql('CREATE ROLE nobody NOLOGIN; GRANT nobody TO alice');
if ($node->sql('SHOW server_version_num') < 170000)
{
	my $error = $node->sql_error('SET ROLE nobody; ' . push_sql('whoami', 'who/nobody.csv'), user => 'alice');
	is($error->{sqlstate}, '0P000', 'a role without LOGIN is refused');
	like($error->{hint}, qr/LOGIN/, 'with a hint');
}
else
{
	($owner, $line) = whoami('who/nobody.csv', 'SET ROLE nobody; ' . push_sql('whoami', 'who/nobody.csv', @none), user => 'alice');
	is($owner, 'nobody', 'a role without LOGIN owns its job');
	is($line, 'nobody,nobody,off,4MB', 'and runs it');
}

# Settings of the role hold, and those that would hurt the bookkeeping do not reach it.
$node->sql("CREATE ROLE picky LOGIN; GRANT INSERT ON target, seen TO picky");
$node->sql(join '; ', map { "ALTER ROLE picky SET $_" } "work_mem = '7MB'", 'default_transaction_read_only = on',
  "default_transaction_isolation = 'serializable'", 'default_transaction_deferrable = on', "search_path = ''",
  "synchronous_commit = off", "client_encoding = 'LATIN1'", "row_security = on", "extra_float_digits = 0");
($owner, $line) = whoami('who/picky.csv', "SET default_transaction_read_only = off; SELECT public.objstore_push('public.whoami', path => 'who/picky.csv', compression => 'none')",
	user => 'picky');
is($line, 'picky,picky,off,7MB', 'settings of the role apply');
$job = run_as('picky', "SET default_transaction_read_only = off; SELECT public.objstore_pull('public.target', path => 'who/rls/')");
is("$job->{state} $job->{sqlstate}", 'failed 25006', 'a read-only role cannot load rows, and its job says so');
$node->sql('ALTER ROLE picky RESET default_transaction_read_only');
$node->sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'picky'");
$node->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE usename = 'picky'");
is(run_as('picky', "SELECT public.objstore_pull('public.target', path => 'who/rls/')")->{state}, 'done', 'a pull in SERIALIZABLE');

# ---------------------------------------------------------------- ends before the end

close_gate();
set('pgobjstore.max_workers' => 1);
{
	my $running = $node->sql(push_sql('gate', 'cancel/running/'), user => 'alice');
	$node->wait_job($running, state => 'running');
	my $queued = $node->sql(push_sql('t', 'cancel/queued/'), user => 'bob');
	is($node->job($queued)->{state}, 'queued', 'a second job waits when max_workers is 1');
	is($node->sql("SELECT objstore_cancel($queued)", user => 'bob'), 't', 'objstore_cancel of a waiting job');
	is($node->job($queued)->{state}, 'cancelled', 'cancels it at once');
	is($node->sql_error("SELECT objstore_wait($queued)")->{sqlstate}, '57014', 'and objstore_wait raises that');
	is($node->sql("SELECT objstore_cancel($queued)"), 'f', 'a second time it answers false');
	is($node->sql("SELECT objstore_cancel($running)", user => 'alice'), 't', 'objstore_cancel of a running job');
	is($node->wait_job($running)->{state}, 'cancelled', 'cancels it');
	is(there('cancel/running/manifest.json') . there('cancel/queued/manifest.json'), '00', 'nothing was written');
	is($node->sql('BEGIN; SELECT objstore_cancel(objstore_push($$t$$)); COMMIT'), 't', 'a job can be cancelled where it was enqueued');

	$running = $node->sql(push_sql('gate', 'cancel/backend/'), user => 'alice');
	my $pid = $node->wait_job($running, state => 'running')->{pid};
	$node->sql("SELECT pg_cancel_backend($pid)");
	is($node->wait_job($running)->{state}, 'cancelled', 'pg_cancel_backend cancels the job');
	my $next = $node->ok_job(push_sql('t', 'cancel/next/'), 'the next job of that role is not', user => 'alice');

	# A worker that is ended did not end its job: it is begun again.
	$running = $node->sql(push_sql('gate', 'cancel/terminated/'), user => 'alice');
	$pid = $node->wait_job($running, state => 'running')->{pid};
	$node->sql("SELECT pg_terminate_backend($pid)");
	$node->wait_for("SELECT state = 'running' AND attempts = 2 AND pid <> $pid FROM objstore_jobs WHERE job_id = $running");
	pass('pg_terminate_backend: the job is begun again');
	set('pgobjstore.max_attempts' => 2);
	$pid = $node->job($running)->{pid};
	$node->sql("SELECT pg_terminate_backend($pid)");
	my $row = $node->wait_job($running);
	is($row->{state}, 'failed', 'but not more often than max_attempts');
	like("$row->{message} $row->{hint}", qr/interrupted.*max_attempts/s, 'which the error names');
	is(there('cancel/terminated/manifest.json'), 0, 'nothing was written');

	# Waits for its turn while the lock is held, then runs.
	$running = $node->sql(push_sql('gate', 'cancel/again/'), user => 'alice');
	$node->wait_job($running, state => 'running');
	my $dropped = $node->sql('CREATE ROLE carol LOGIN; SET ROLE carol; ' . push_sql('t', 'cancel/carol/'));
	my $behind = $node->sql(push_sql('t', 'cancel/behind/'), user => 'bob');
	$node->sql('DROP ROLE carol');
	open_gate();
	is($node->wait_job($running)->{state}, 'done', 'the lock is free and the job goes on');
	is($node->wait_job($behind)->{state}, 'done', 'jobs of a dropped role stop nobody');
	is($node->job($dropped)->{state} =~ /^(queued|failed|cancelled)$/ ? 1 : 0, 1, 'which are not run');
	is(there('cancel/carol/manifest.json'), 0, 'by anybody');
	$node->sql("SELECT objstore_cancel($dropped)");
	is($node->job($dropped)->{state} =~ /^(failed|cancelled)$/ ? 1 : 0, 1, 'and can be cancelled');
}
$node->sql("ALTER SYSTEM RESET $_") for qw(pgobjstore.max_attempts pgobjstore.max_workers);

# ---------------------------------------------------------------- little room

# One lane in shared memory, four pairs of role and database.
$node->sql('ALTER SYSTEM SET pgobjstore.queue_size = 1');
$node->restart;
close_gate();
my %enqueued;
for my $db (qw(postgres other))
{
	for my $user (qw(alice bob))
	{
		push @{ $enqueued{$db} }, $node->sql(push_sql('gate', "spill/$db/$user/gate/"), db => $db, user => $user),
		  split /\n/, $node->sql("SELECT objstore_push('t', path => 'spill/$db/$user/' || g || '/') FROM generate_series(1, 5) g", db => $db, user => $user);
	}
}
$_ = join ',', @$_ for values %enqueued;
open_gate();
for my $db (qw(postgres other))
{
	my $open = 12;
	for (1 .. 300)
	{
		$open = jobs("job_id IN ($enqueued{$db}) AND state <> 'done'", db => $db) or last;
		sleep 0.2;
	}
	is($open, 0, "with queue_size 1, all jobs of two roles in database $db are done");
}

# No worker to be had: two are the launchers, one is left.
$node->sql('ALTER SYSTEM RESET pgobjstore.queue_size');
$node->sql('ALTER SYSTEM SET max_worker_processes = 3');
$node->restart;
close_gate();
{
	my $first = $node->sql(push_sql('gate', 'slots/first/'), user => 'alice');
	$node->wait_job($first, state => 'running');
	my $second = $node->sql(push_sql('t', 'slots/second/'), user => 'bob');
	my $third = $node->sql(push_sql('t', 'slots/third/'), user => 'alice', db => 'other');
	sleep 1.5;
	is($node->job($second)->{state}, 'queued', 'with no worker slot left a job waits');
	open_gate();
	is($node->wait_job($first)->{state}, 'done', 'the one that runs ends');
	is($node->wait_job($second)->{state}, 'done', 'then the one that waited runs');
	is($node->wait_job($third, db => 'other')->{state}, 'done', 'and the one of another database');
}

# ---------------------------------------------------------------- not preloaded

unlike($node->log_text, qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');
$node->sql('ALTER SYSTEM RESET max_worker_processes');
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
for my $call ("objstore_push('t')", "objstore_pull('t')", 'objstore_wait(1)', 'objstore_cancel(1)')
{
	my $error = $node->sql_error("SELECT $call");
	is($error->{sqlstate}, '55000', "$call without the preload is an error");
	like($error->{hint}, qr/shared_preload_libraries = 'pgobjstore'/, 'that says what to put into postgresql.conf');
}
cmp_ok(jobs('true'), '>', 1000, 'the views can be read');
$node->sql('DROP EXTENSION pgobjstore CASCADE; CREATE EXTENSION pgobjstore; DROP EXTENSION pgobjstore');
pass('and the extension be dropped and created');

$node->stop;
done_testing();
