# Many tables brought back by several workers: all of them appear at once, with their keys, or none.
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
my $node = PgObjStore::Cluster->start_new('tables', conf => "pgobjstore.max_workers = 4\n");
$node->create_store('lake', url => "s3://$bucket", store => $s3);

# Two schemas with keys between them, serial and identity columns, an index on an expression, partitions, a composite type.
$node->sql(<<'SQL');
CREATE SCHEMA one;
CREATE SCHEMA "Two é";
CREATE TABLE one.parent (id serial PRIMARY KEY, name text UNIQUE NOT NULL);
INSERT INTO one.parent (name) SELECT 'name ' || g FROM generate_series(1, 50) g;
DO $$
BEGIN
	FOR i IN 1 .. 30 LOOP
		EXECUTE format('CREATE TABLE one.a%s (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, parent int REFERENCES one.parent,
			body text CHECK (body <> %L))', i, '');
		EXECUTE format('INSERT INTO one.a%s (parent, body) SELECT 1 + g %% 50, md5(g::text) FROM generate_series(1, %s) g', i, i * 7);
		EXECUTE format('CREATE TABLE "Two é"."B/%s" (id bigserial, at timestamptz DEFAULT now(), parent int REFERENCES one.parent)', i);
		EXECUTE format('INSERT INTO "Two é"."B/%s" (parent) SELECT 1 + g %% 50 FROM generate_series(1, %s) g', i, i * 3);
		EXECUTE format('CREATE INDEX ON "Two é"."B/%s" ((parent %% 10))', i);
	END LOOP;
END $$;
CREATE TABLE one.log (at int, line text, PRIMARY KEY (at)) PARTITION BY RANGE (at);
CREATE TABLE one.log_1 PARTITION OF one.log FOR VALUES FROM (0) TO (100);
CREATE TABLE one.log_2 PARTITION OF one.log DEFAULT;
INSERT INTO one.log SELECT g, 'line ' || g FROM generate_series(1, 300) g;
SQL

sub content
{
	my ($db) = @_;
	my @tables = split /\n/, $node->sql(q(SELECT quote_ident(nspname) || '.' || quote_ident(relname) FROM pg_class c
		JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname IN ('one', 'Two é') AND relkind IN ('r', 'p') ORDER BY 1), db => $db);
	return join "\n", @tables, $node->sql(join(' UNION ALL ',
		map { (my $name = $_) =~ s/'/''/g; "SELECT '$name', count(*), sum(hashtextextended(t::text, 0)) FROM $_ t" } @tables)
		. ' ORDER BY 1', db => $db);
}

sub definitions
{
	my ($db) = @_;
	return $node->sql(q(SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(c.oid) FROM pg_constraint c
		WHERE connamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('one', 'Two é')) ORDER BY 1), db => $db) . "\n"
	  . $node->sql(q(SELECT pg_get_indexdef(indexrelid) FROM pg_index JOIN pg_class c ON c.oid = indexrelid
		WHERE relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('one', 'Two é')) ORDER BY 1), db => $db) . "\n"
	  . $node->sql(q(SELECT schemaname, sequencename, last_value FROM pg_sequences WHERE schemaname <> 'public' ORDER BY 1, 2), db => $db) . "\n"
	  . $node->sql(q(SELECT table_schema, table_name, column_name, column_default FROM information_schema.columns
		WHERE table_schema IN ('one', 'Two é') AND column_default IS NOT NULL ORDER BY 1, 2, 3), db => $db);
}

# Lines that only one of the texts has.
sub differences
{
	my ($a, $b) = map { { map { $_ => 1 } split /\n/, $_ } } @_;
	return join "\n", (map { "- $_" } grep { !$b->{$_} } sort keys %$a), (map { "+ $_" } grep { !$a->{$_} } sort keys %$b);
}

sub leftovers
{
	return $node->sql("SELECT count(*) FROM pg_namespace WHERE nspname ~ '^objstore_pull'", db => $_[0]);
}

sub new_database
{
	my ($db, $store) = @_;
	$node->sql("DROP DATABASE IF EXISTS $db WITH (FORCE)");
	$node->sql("CREATE DATABASE $db");
	$node->sql('CREATE EXTENSION pgobjstore', db => $db);
	$node->create_store('lake', url => "s3://$bucket", store => $store // $s3, db => $db);
}

my $content = content('postgres');
my $definitions = definitions('postgres');
my %path;

# ---------------------------------------------------------------- whole

for my $layout ('files', 'packed')
{
	my $push = $node->ok_job(qq(SELECT objstore_push_tables((SELECT array_agg(c.oid::regclass) FROM pg_class c WHERE relkind IN ('r', 'p')
		AND NOT relispartition AND relnamespace IN ('one'::regnamespace, '"Two é"'::regnamespace)), server => 'lake', layout => '$layout')));
	$path{$layout} = $push->{path};
	new_database('clone');
	# a schema that is not there is renamed, into the others tables are moved
	$node->sql('CREATE SCHEMA one', db => 'clone') if $layout eq 'packed';
	my $pull = $node->ok_job("SELECT objstore_pull_tables('$push->{path}', 'lake', parallel => 3)", $layout, db => 'clone');
	like($pull->{note}, qr/^loaded by up to 3 workers/, "$layout: several workers");
	is($pull->{rows}, $push->{rows}, "$layout: rows");
	is(content('clone'), $content, "$layout: the same rows in the same tables");
	is(differences($definitions, definitions('clone')), '', "$layout: the same constraints, indexes, sequences, defaults");
	is(leftovers('clone'), 0, "$layout: no schema is left");
	my $other = $node->ok_job("SELECT objstore_pull_tables('$push->{path}', 'lake', mode => 'replace', tables => '{one.a1}', parallel => 3)",
		'one table', db => 'clone');
	like($other->{note}, qr/^one worker: the dataset is small/, 'too little for several');
}
my $again = $node->run_job("SELECT objstore_pull_tables('$path{files}', 'lake', parallel => 3)", db => 'clone');
is("$again->{state} $again->{sqlstate}", 'failed 42P07', 'tables that exist are an error');
is(leftovers('clone'), 0, 'nothing is left of it');

# ---------------------------------------------------------------- where one worker has to do it

new_database('clone');
$node->sql('CREATE SCHEMA one; ALTER DEFAULT PRIVILEGES IN SCHEMA one GRANT SELECT ON TABLES TO PUBLIC', db => 'clone');
my $pull = $node->ok_job("SELECT objstore_pull_tables('$path{packed}', 'lake', parallel => 3)", 'default privileges', db => 'clone');
like($pull->{note}, qr/default privileges/, 'the reason');
is($node->sql("SELECT has_table_privilege('pg_monitor', 'one.a1', 'SELECT')", db => 'clone'), 't', 'they hold');

new_database('clone');
$node->sql('CREATE ROLE restorer LOGIN');
$node->sql('CREATE SCHEMA one AUTHORIZATION restorer; CREATE SCHEMA "Two é" AUTHORIZATION restorer; GRANT USAGE ON FOREIGN SERVER lake TO restorer',
	db => 'clone');
$node->sql("CREATE USER MAPPING FOR restorer SERVER lake OPTIONS (access_key_id '" . $s3->access_key . "', secret_access_key '"
	. $s3->secret_key . "')", db => 'clone');
$pull = $node->ok_job("SELECT objstore_pull_tables('$path{packed}', 'lake', parallel => 3)", 'a role that may not make schemas',
	db => 'clone', user => 'restorer');
like($pull->{note}, qr/^one worker: .*permission denied for database/, 'is served by one worker');
is(content('clone'), $content, 'with the same rows');

# A table that has another's rows in a column: its type is found only under its name.
$node->sql('CREATE SCHEMA three; CREATE TABLE three.a AS SELECT g AS x FROM generate_series(1, 5) g; CREATE TABLE three.b AS SELECT a FROM three.a');
$node->sql("SELECT format('CREATE TABLE three.c%s AS SELECT %s AS n', g, g) FROM generate_series(1, 20) g \\gexec");
my $push = $node->ok_job("SELECT objstore_push_tables(schema => 'three', server => 'lake')");
$pull = $node->ok_job("SELECT objstore_pull_tables('$push->{path}', 'lake', parallel => 3)", 'a column of the type of another table', db => 'clone');
like($pull->{note}, qr/^one worker: with several there was an error: .*three\.a/, 'the reason');
is($node->sql('SELECT string_agg(b.a::text, \' \' ORDER BY b.a) FROM three.b', db => 'clone'), '(1) (2) (3) (4) (5)', 'its rows');
is(leftovers('clone'), 0, 'no schema is left');

# The error comes in the middle of a table that a thread decompresses: it ends before what it reads is freed.
my $check = 'CREATE FUNCTION four_check(n int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN IF n > 60000 THEN PERFORM FROM four.a; END IF; RETURN true; END $$';
$node->sql("CREATE SCHEMA four; CREATE TABLE four.a AS SELECT 1 AS x; $check");
$node->sql("CREATE TABLE four.b (n int CHECK (public.four_check(n)), t text); INSERT INTO four.b SELECT g, md5(g::text) || md5((-g)::text) FROM generate_series(1, 80000) g");
$node->sql("SELECT format('CREATE TABLE four.c%s AS SELECT %s AS n', g, g) FROM generate_series(1, 20) g \\gexec");
$push = $node->ok_job("SELECT objstore_push_tables(schema => 'four', server => 'lake')");
$node->sql($check, db => 'clone');
$pull = $node->ok_job("SELECT objstore_pull_tables('$push->{path}', 'lake', parallel => 3)", 'a constraint that reads another table', db => 'clone');
like($pull->{note}, qr/^one worker: with several there was an error: .*four\.a/, 'the reason');
is($node->sql('SELECT count(*), sum(n) FROM four.b', db => 'clone'), '80000|3200040000', 'its rows');
is(leftovers('clone'), 0, 'no schema is left');

# ---------------------------------------------------------------- or not at all

{
	my $proxy = $s3->proxy([ { method => 'GET', match => 'a17', action => 'corrupt', bytes => 40, times => -1 } ]);
	new_database('bad', $proxy);
	my $job = $node->run_job("SELECT objstore_pull_tables('$path{files}', 'lake', parallel => 3)", db => 'bad');
	is("$job->{state} $job->{sqlstate}", 'failed XX001', 'a damaged object') or diag $job->{message};
	is(leftovers('bad'), 0, 'no schema is left');
	is($node->sql("SELECT count(*) FROM pg_namespace WHERE nspname IN ('one', 'Two é')", db => 'bad'), 0, 'and no table');
}
{
	my $proxy = $s3->proxy([ { method => 'GET', match => 'part-', action => 'delay', ms => 100, times => -1 } ]);
	new_database('slow', $proxy);
	my $call = "SELECT objstore_pull_tables('$path{files}', 'lake', parallel => 3)";
	my $id = $node->sql($call, db => 'slow');
	$node->wait_for("SELECT count(*) > 3 FROM pg_class WHERE relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname ~ '^objstore_pull')",
		't', db => 'slow');
	is($node->sql("SELECT count(*) FROM pg_namespace WHERE nspname IN ('one', 'Two é')", db => 'slow'), 0, 'nobody sees a part of it');
	$node->sql("SELECT objstore_cancel($id)", db => 'slow');
	is($node->wait_job($id, db => 'slow')->{state}, 'cancelled', 'cancel');
	is(leftovers('slow'), 0, 'leaves no schema');

	$id = $node->sql($call, db => 'slow');
	$node->wait_for("SELECT count(*) > 3 FROM pg_class WHERE relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname ~ '^objstore_pull')",
		't', db => 'slow');
	$node->crash;
	$node->start;
	my $job = $node->wait_job($id, timeout => 120, db => 'slow');
	is($job->{state}, 'done', 'a crash: the job ends well') or diag $job->{message};
	is(content('slow'), $content, 'with every row once');
	is(leftovers('slow'), 0, 'and nothing else');
}

done_testing;
