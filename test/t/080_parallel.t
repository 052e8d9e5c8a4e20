# A push by several workers: exact under concurrent writes, whole or not at all, and what cannot be split says so.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PgObjStore::Cluster;
use PgObjStore::Servers;
use IPC::Run ();
use Test::More;

alarm 300;

my $s3 = PgObjStore::Servers->s3;
my $bucket = $s3->new_bucket;
my $node = PgObjStore::Cluster->start_new('parallel', conf => <<'CONF');
pgobjstore.max_workers = 4
pgobjstore.idle_timeout = '1h'
autovacuum_naptime = 1
CONF
$node->create_store('lake', url => "s3://$bucket", store => $s3);

# ---------------------------------------------------------------- exact under writes

# 160 MB: wide rows, so that the test need not make many.  Money moves between accounts; their sum does not change.
$node->sql(<<'SQL');
CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL, filler text NOT NULL);
ALTER TABLE account ALTER filler SET STORAGE PLAIN;
INSERT INTO account SELECT g, 1000, repeat(md5(g::text), 60) FROM generate_series(1, 80000) g;
CREATE TABLE arrived (id int, balance int, filler text);
SQL
cmp_ok($node->sql("SELECT pg_relation_size('account') / 8192"), '>', 2 * 8192, 'the table is worth two workers');

# Moved between rows of one half, deleted and inserted in the other: an UPDATE that meets a row which is being
# replaced changes none, and would change the sum.
my ($script, $pgbench_out) = ($node->basedir . '/move.sql', '');
open my $f, '>', $script or die;
print $f <<'SQL';
\set a random(1, 40000)
\set b random(1, 40000)
\set n random(1, 100)
BEGIN;
UPDATE account SET balance = balance - :n WHERE id = :a;
UPDATE account SET balance = balance + :n WHERE id = :b;
COMMIT;
\set c random(40001, 80000)
BEGIN;
DELETE FROM account WHERE id = :c RETURNING balance AS gone \gset
INSERT INTO account VALUES (:c, :gone, repeat(md5(:c::text), 60));
COMMIT;
SQL
close $f;
my $pgbench = IPC::Run::start(
	[ 'pgbench', '-n', '-c', 4, '-T', 600, '-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ],
	'>&', \$pgbench_out);
$node->wait_for("SELECT sum(n_tup_upd) > 0 FROM pg_stat_user_tables WHERE relname = 'account'");

for my $run (1 .. 2)
{
	my $job = $node->ok_job("SELECT objstore_push('account', server => 'lake', parallel => 4)", "push $run under writes");
	is($job->{rows}, 80000, 'every row once: the count');
	cmp_ok($job->{objects}, '>', 1, 'in several objects');
	$node->sql('VACUUM account') if $run == 1;
	$node->sql('TRUNCATE arrived');
	$node->ok_job("SELECT objstore_pull('arrived', server => 'lake', path => '$job->{path}')", 'pull');
	is($node->sql('SELECT count(*), count(DISTINCT id), min(id), max(id), sum(balance) FROM arrived'),
		'80000|80000|1|80000|80000000', 'no row twice, none missing, the sum as it was');
}
$pgbench->signal('TERM');
eval { $pgbench->finish };
is($node->sql('SELECT sum(balance) FROM account'), 80000000, 'the sum was the same all the time');
$s3->no_open_uploads($bucket);

# ---------------------------------------------------------------- who takes part

is($node->sql("SELECT count(*) > 1 FROM pg_stat_activity WHERE backend_type = 'pgobjstore worker'"), 't',
	'more than one worker was started');
is($node->ok_job("SELECT objstore_push('account', server => 'lake', parallel => 1)")->{objects}, 1,
	'parallel => 1 is one object');

# ---------------------------------------------------------------- partitions, materialized views, what cannot be split

$node->sql(<<'SQL');
CREATE TABLE part (id int, filler text) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (40001);
CREATE TABLE part_2 (dropped int, filler text, id int);
ALTER TABLE part_2 DROP dropped;
ALTER TABLE part ATTACH PARTITION part_2 FOR VALUES FROM (40001) TO (80001);
INSERT INTO part SELECT id, filler FROM account;
CREATE MATERIALIZED VIEW mat AS SELECT * FROM account;
CREATE VIEW v AS SELECT * FROM account;
SQL
for my $relation ('part', 'mat')
{
	my $job = $node->ok_job("SELECT objstore_push('$relation', server => 'lake', parallel => 2)", $relation);
	cmp_ok($job->{objects}, '>', 1, "$relation is split");
	is($job->{note}, undef, 'without a note');
	$node->sql("DROP TABLE IF EXISTS back; CREATE TABLE back (id int, filler text)");
	$node->sql("ALTER TABLE back ADD balance int") if $relation eq 'mat';
	$node->ok_job("SELECT objstore_pull('back', server => 'lake', path => '$job->{path}')", 'pull');
	is($node->sql("SELECT count(*), count(DISTINCT id), sum(hashtext(filler)) FROM back"),
		$node->sql("SELECT count(*), count(DISTINCT id), sum(hashtext(filler)) FROM $relation"), 'the same rows');
}
my $job = $node->ok_job("SELECT objstore_push('v', server => 'lake', parallel => 2)", 'a view');
is($job->{objects}, 1, 'is one object');
like($job->{note}, qr/^one stream: a view/, 'and the job says why');
like($node->ok_job("SELECT objstore_push('account', server => 'lake', path => 'one.csv.zst', parallel => 2)")->{note},
	qr/^one stream: the path is the key/, 'so does one for a single key');

# Row-level security and column privileges hold.
$node->sql(<<'SQL');
CREATE ROLE limited LOGIN;
GRANT USAGE ON FOREIGN SERVER lake, objstore_local TO limited;
GRANT SELECT (id, balance) ON account TO limited;
SQL
$job = $node->run_job("SELECT objstore_push('account', server => 'objstore_local', columns => '{id,balance}', parallel => 2)",
	user => 'limited');
is($job->{state}, 'done', 'column privileges are enough for those columns');
like($job->{note}, qr/^one stream: splitting needs SELECT/, 'but not for splitting');
$node->sql(<<'SQL');
GRANT SELECT ON account TO limited;
ALTER TABLE account ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON account USING (id <= 10);
SQL
$job = $node->run_job("SELECT objstore_push('account', server => 'objstore_local', parallel => 2)", user => 'limited');
is($job->{rows}, 10, 'row-level security holds');
like($job->{note}, qr/row-level security/, 'and is why it is one stream');
$node->sql('ALTER TABLE account DISABLE ROW LEVEL SECURITY');

# ---------------------------------------------------------------- one fails, all fail

{
	my $proxy = $s3->proxy([ { method => '^(PUT|POST)$', match => 'part-00002', times => -1, action => 'answer',
		status => 403, body => '<Error><Code>AccessDenied</Code><Message>no</Message></Error>' } ]);
	$node->create_store('broken', url => "s3://$bucket/broken", store => $proxy);
	my $job = $node->run_job("SELECT objstore_push('account', server => 'broken', parallel => 2)");
	is($job->{state}, 'failed', 'one range cannot be written: the push fails');
	is($job->{sqlstate}, '42501', 'with the reason');
	is_deeply([ $s3->object_keys($bucket, 'broken/') ], [], 'and leaves no object');
	$s3->no_open_uploads($bucket);
	is($node->sql("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'pgobjstore worker' AND state = 'active'"),
		0, 'nobody goes on');
}

# Cancel: leader and helpers stop.
{
	my $id = $node->sql("SELECT objstore_push('account', server => 'lake', path => 'cancelled/', parallel => 2)");
	$node->wait_for("SELECT coalesce(max(rows), 0) > 0 FROM objstore_jobs WHERE job_id = $id");
	$node->sql("SELECT objstore_cancel($id)");
	my $job = $node->wait_job($id);
	like($job->{state}, qr/^(cancelled|done)$/, 'cancelled (or too late)');
  SKIP:
	{
		skip 'it had ended before', 1 if $job->{state} eq 'done';
		is_deeply([ $s3->object_keys($bucket, 'cancelled/') ], [], 'no object is left');
	}
	$s3->no_open_uploads($bucket);
}

# A helper that is terminated in the middle of an upload: the push fails, and the leader takes back what the helper cannot.
{
	my $proxy = $s3->proxy([ { method => '^PUT$', match => 'partNumber=2', times => -1, action => 'delay', ms => 3000 } ]);
	$node->create_store('slow', url => "s3://$bucket/lost", store => $proxy);
	my $id = $node->sql("SELECT objstore_push('account', server => 'slow', path => 'set/', compression => 'none', parallel => 2)");
	my $begun = 0;
	for (1 .. 100)
	{
		$begun = @{ $s3->client('uploads', $bucket, 'lost/') };
		last if $begun >= 2;
		select undef, undef, undef, 0.1;
	}
	cmp_ok($begun, '>=', 2, 'leader and helper have uploads under way');
	$node->sql(<<"SQL");
SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
WHERE a.backend_type = 'pgobjstore worker' AND a.state = 'active' AND a.pid <> (SELECT pid FROM objstore_jobs WHERE job_id = $id)
SQL
	my $job = $node->wait_job($id, timeout => 120);
	is($job->{state}, 'failed', 'a terminated helper: the push fails');
	is($job->{sqlstate}, '57P01', 'and says that it was terminated');
	is_deeply([ $s3->object_keys($bucket, 'lost/') ], [], 'no object is left');
	$s3->no_open_uploads($bucket);
}

# A worker that is terminated in the middle: the job is done again, whole.
{
	my $id = $node->sql("SELECT objstore_push('account', server => 'lake', parallel => 2)");
	$node->wait_for("SELECT coalesce(max(rows), 0) > 0 FROM objstore_jobs WHERE job_id = $id");
	$node->sql("SELECT pg_terminate_backend(pid) FROM objstore_jobs WHERE job_id = $id AND pid IS NOT NULL");
	my $job = $node->wait_job($id, timeout => 120);
	is($job->{state}, 'done', 'a terminated leader: the job ends well');
	is($job->{rows}, 80000, 'with every row');
	my %listed = map { ($_->{url} =~ m{^s3://$bucket/(.*)})[0] => 1 }
	  $node->rows("SELECT url FROM objstore_objects WHERE job_id = $id");
	is_deeply([ sort grep { !/manifest\.json$/ } $s3->object_keys($bucket, $job->{path}) ], [ sort keys %listed ],
		'no object in its folder that the manifest does not have');
	$s3->no_open_uploads($bucket);
}

done_testing;
