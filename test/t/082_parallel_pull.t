# A pull by several workers: the table appears under its name at once and whole, or not at all.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PgObjStore::Cluster;
use PgObjStore::Servers;
use Test::More;

alarm 300;

my $s3 = PgObjStore::Servers->s3;
my $bucket = $s3->new_bucket;
my $node = PgObjStore::Cluster->start_new('pull', conf => "pgobjstore.max_workers = 4\n");
$node->create_store('lake', url => "s3://$bucket", store => $s3);

# Rows that do not compress, so that the dataset has more than 16 MB stored, in several objects.
$node->sql(<<'SQL');
CREATE TABLE wide (id serial PRIMARY KEY, kind text UNIQUE, filler text NOT NULL CHECK (filler <> ''));
ALTER TABLE wide ALTER filler SET STORAGE PLAIN;
INSERT INTO wide (kind, filler) SELECT 'k' || g, (SELECT string_agg(md5(g::text || h), '') FROM generate_series(1, 60) h)
FROM generate_series(1, 80000) g;
SQL
my $push = $node->ok_job("SELECT objstore_push('wide', server => 'lake', parallel => 2)", 'push');
cmp_ok($push->{objects}, '>', 1, 'several objects');
cmp_ok($push->{stored_bytes}, '>', 16 << 20, 'large enough for two workers');
my $content = 'SELECT count(*), sum(id), sum(hashtextextended(kind || filler, 0)) FROM';
my $expected = $node->sql("$content wide");

# ---------------------------------------------------------------- whole

my $id = $node->sql("SELECT objstore_pull('back', server => 'lake', path => '$push->{path}')");
my ($seen, $partly) = (0, 0);
while ($node->job($id)->{state} =~ /queued|running/)
{
	# whoever looks sees no table, or all of it
	my $there = $node->sql("SELECT count(*) FROM pg_class WHERE relname = 'back'");
	next if $there eq '0';
	$seen++;
	$partly++ if $node->sql('SELECT count(*) FROM back') ne '80000';
}
my $pull = $node->wait_job($id);
is($pull->{state}, 'done', 'pull') or diag $pull->{message};
is($partly, 0, 'nobody saw a part of the table');
like($pull->{note}, qr/workers/, 'several workers were asked for');
is($pull->{rows}, 80000, 'rows');
is($node->sql("$content back"), $expected, 'the same rows');
is($node->sql("SELECT string_agg(pg_get_indexdef(indexrelid), E'\n' ORDER BY 1) FROM
	(SELECT indexrelid FROM pg_index WHERE indrelid = 'back'::regclass ORDER BY pg_get_indexdef(indexrelid)) i"),
	"CREATE UNIQUE INDEX back_kind_key ON public.back USING btree (kind)\nCREATE UNIQUE INDEX back_pkey ON public.back USING btree (id)"
	, 'its indexes') or diag $node->sql("SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'back'::regclass");
is($node->sql("SELECT pg_get_serial_sequence('back', 'id')"), 'public.back_id_seq', 'the sequence has the name of the table');
is($node->sql("INSERT INTO back (kind, filler) VALUES ('new', 'x') RETURNING id"), 80001, 'and goes on');
is($node->sql("SELECT count(*) FROM pg_class WHERE relname ~ '^objstore_pull'"), 0, 'nothing is left of the name before');
is($node->ok_job("SELECT objstore_pull('one', server => 'lake', path => '$push->{path}', parallel => 1)")->{note}, undef,
	'parallel => 1 is one worker');

# ---------------------------------------------------------------- or not at all

{
	my $proxy = $s3->proxy([ { method => 'GET', match => 'part-00001', action => 'corrupt', bytes => 1000, times => -1 } ]);
	$node->create_store('bad', url => "s3://$bucket", store => $proxy);
	my $job = $node->run_job("SELECT objstore_pull('broken', server => 'bad', path => '$push->{path}')");
	is($job->{state}, 'failed', 'a damaged object') or diag explain $proxy->rules, [ $proxy->requests ];
	is($job->{sqlstate}, 'XX001', 'its SQLSTATE') or diag "$job->{message}";
	is($node->sql("SELECT count(*) FROM pg_class WHERE relname ~ '^(broken|objstore_pull)'"), 0, 'leaves no table');
}
{
	my $proxy = $s3->proxy([ { method => 'GET', match => 'part-', action => 'delay', ms => 300, times => -1 } ]);
	$node->create_store('slow', url => "s3://$bucket", store => $proxy);
	my $id = $node->sql("SELECT objstore_pull('cancelled', server => 'slow', path => '$push->{path}')");
	$node->wait_for("SELECT count(*) > 0 FROM pg_class WHERE relname = 'objstore_pull_$id'");
	$node->sql("SELECT objstore_cancel($id)");
	is($node->wait_job($id)->{state}, 'cancelled', 'cancel');
	is($node->sql("SELECT count(*) FROM pg_class WHERE relname ~ '^(cancelled|objstore_pull)'"), 0, 'leaves no table');

	$id = $node->sql("SELECT objstore_pull('again', server => 'slow', path => '$push->{path}')");
	$node->wait_for("SELECT count(*) > 0 FROM pg_class WHERE relname = 'objstore_pull_$id'");
	$node->crash;
	$node->start;
	my $job = $node->wait_job($id, timeout => 120);
	is($job->{state}, 'done', 'a crash: the job ends well') or diag $job->{message};
	is($node->sql("$content again"), $expected, 'with every row once');
	is($node->sql("SELECT count(*) FROM pg_class WHERE relname ~ '^objstore_pull'"), 0, 'and nothing else');

	$id = $node->sql("SELECT objstore_pull('taken', server => 'slow', path => '$push->{path}')");
	$node->wait_for("SELECT count(*) > 0 FROM pg_class WHERE relname = 'objstore_pull_$id'");
	$node->sql('CREATE TABLE taken (x int)');
	$job = $node->wait_job($id);
	is("$job->{state} $job->{sqlstate}", 'failed 42P07', 'the name is taken meanwhile');
	is($node->sql('SELECT count(*) FROM taken'), 0, 'that table is as it was');
	is($node->sql("SELECT count(*) FROM pg_class WHERE relname ~ '^objstore_pull'"), 0, 'and nothing else is left');
}

# ---------------------------------------------------------------- refused

for my $arguments ("mode => 'append'", "mode => 'replace'")
{
	my $error = $node->sql_error("SELECT objstore_pull('wide', server => 'lake', $arguments, parallel => 2)");
	is($error->{sqlstate}, '0A000', "$arguments: several workers are refused");
	like($error->{detail}, qr/table exists/, 'with the reason');
}
my $error = $node->sql_error("SELECT objstore_pull('x', server => 'lake', path => 'y/', on_error => 'skip', parallel => 2)");
is($error->{sqlstate}, '0A000', 'so are they with on_error => skip');
is($node->sql_error("SELECT objstore_pull('x', server => 'lake', parallel => 0)")->{sqlstate}, '22023', 'parallel => 0');

$s3->no_open_uploads($bucket);
done_testing;
