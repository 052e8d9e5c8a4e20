# Which objects a pull is about: prefixes, patterns, many of them; and how it fetches them.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PgObjStore::Cluster;
use PgObjStore::Objects;
use PgObjStore::Servers;
use PgObjStore::Tables;
use File::Path ();
use Test::More;
use Time::HiRes qw(time);

my $s3 = PgObjStore::Servers->s3;
my $bucket = $s3->new_bucket;
my ($node, $dir) = PgObjStore::Cluster->start_with_files('main');
my $proxy = $s3->proxy;
$node->create_store('lake', url => "s3://$bucket/lake", store => $proxy);

sub put { put_file($dir, @_) }

# ---------------------------------------------------------------- prefixes and patterns

$node->sql('CREATE TABLE many (t text, src text)');
my %tree = map { $_ => "$_\n" } qw(tree/a.csv tree/b.csv tree/b/c.csv tree/b/d.txt tree/b/c/e.csv tree/a1.csv tree/a2.csv tree/B.csv tree/é.csv
  tree/x[1].csv tree/x1.csv);
put($_, $tree{$_}) for keys %tree;
put($_, "hidden\n") for qw(tree/_SUCCESS tree/.hidden.csv tree/_temporary/0/a.csv tree/b/_committed_1 tree/b/.a.csv.crc);
my @globs = (
	[ 'tree/', qw(B.csv a.csv a1.csv a2.csv b.csv b/c.csv b/c/e.csv b/d.txt x1.csv x[1].csv é.csv) ],
	[ 'tree/b/', qw(b/c.csv b/c/e.csv b/d.txt) ],
	[ 'tree/*.csv', qw(B.csv a.csv a1.csv a2.csv b.csv x1.csv x[1].csv é.csv) ],
	[ 'tree/?.csv', qw(B.csv a.csv b.csv é.csv) ],
	[ 'tree/[a-b].csv', qw(a.csv b.csv) ],
	[ 'tree/[!a-z].csv', qw(B.csv é.csv) ],
	[ 'tree/a{,1,2}.csv', qw(a.csv a1.csv a2.csv) ],
	[ 'tree/**.csv', qw(B.csv a.csv a1.csv a2.csv b.csv b/c.csv b/c/e.csv x1.csv x[1].csv é.csv) ],
	[ 'tree/**/{c,e}.csv', qw(b/c.csv b/c/e.csv) ],
	[ 'tree/b/**', qw(b/c.csv b/c/e.csv b/d.txt) ],
	[ 'tree/b*/', qw(b/c.csv b/c/e.csv b/d.txt) ],
	[ 'tree/x[1].csv', 'x[1].csv' ],
	[ 'tree/x\[1].csv', 'x[1].csv' ],
	[ 'tree/_temporary/**/*.csv', '_temporary/0/a.csv' ],
	[ 'tree/.*.csv', '.hidden.csv' ]);
my @jobs = run_jobs($node, 'postgres', map { pull_sql('many', $_->[0], options => '{"header": false, "path_column": "src"}', format => 'text') } @globs);
for my $i (0 .. $#globs)
{
	my ($path, @want) = @{ $globs[$i] };
	is($jobs[$i]{state}, 'done', "$path: pulled") or diag $jobs[$i]{message};
	my @got = map { s{.*/files/tree/}{}r } split /\n/, $node->sql("SELECT url FROM objstore_object WHERE job_id = $jobs[$i]{job_id} ORDER BY number");
	utf8::is_utf8($_) and utf8::encode($_) for @got;
	is("@got", "@want", "$path: these, in this order");
}
for (
	[ 'tree/none/', qr/no object matches path/, qr{file://\S*/files/tree/none/" were listed} ],
	[ 'tree/b/*.json', qr/no object matches path/, qr{file://\S*/files/tree/b/" were listed} ],
	[ 'tree/[b', qr/invalid value for argument "path"/, qr/without its "\]"/ ])
{
	my ($path, $message, $detail) = @$_;
	my ($job) = run_jobs($node, 'postgres', pull_sql('many', $path));
	like($job->{message}, $message, "$path: fails");
	like($job->{detail}, $detail, "$path: says what was listed");
}

# Ten thousand objects.
mkdir "$dir/lots" or die;
for my $i (1 .. 10000)
{
	open my $f, '>', sprintf "$dir/lots/%05d.csv", $i or die;
	print $f "$i\n";
	close $f;
}
$node->sql('CREATE TABLE lots (i int, n bigint GENERATED ALWAYS AS IDENTITY)');
my $start = time;
my ($job) = run_jobs($node, 'postgres', pull_sql('lots', 'lots/*.csv', columns => '{i}', options => '{"header": false}'));
is("$job->{state} $job->{rows} $job->{objects}", 'done 10000 10000', 'ten thousand objects') or diag $job->{message};
diag sprintf 'ten thousand objects: %.1f s', time - $start;
is($node->sql('SELECT count(*) FROM lots WHERE i = n'), '10000', 'in the order of their keys');
File::Path::remove_tree("$dir/lots");

# ---------------------------------------------------------------- on the object store

# More keys than one page of a listing holds.
my $count = 1050;
$s3->client('put', $bucket, sprintf('lake/page/%04d.csv', $_), "i\n$_\n") for 1 .. $count;
$node->sql('CREATE TABLE paged (i int)');
$proxy->forget;
($job) = run_jobs($node, 'postgres', pull_sql('paged', 'page/*.csv', server => 'lake'));
is("$job->{state} $job->{rows}", "done $count", 'pages of a listing') or diag $job->{message};
is($node->sql('SELECT count(DISTINCT i) FROM paged'), $count, 'every object once');
is($proxy->count(method => 'HEAD'), 0, 'no HEAD when the listing has said it all');
is($proxy->count(method => 'GET', target => '/page/\d+'), $count, 'one GET an object');

# Small objects are fetched ahead: while one answer is slow, others are on their way.
$proxy->rules([ { method => 'GET', match => '/page/\d+', times => -1, action => 'delay', ms => 60 } ]);
$start = time;
($job) = run_jobs($node, 'postgres', pull_sql('paged', 'page/00[0-9]?.csv', server => 'lake'));
my $elapsed = time - $start;
is("$job->{state} $job->{rows}", 'done 99', 'slow answers') or diag $job->{message};
cmp_ok($elapsed, '<', 99 * 0.060, sprintf 'at the same time (%.1f s)', $elapsed);
$proxy->rules([]);

# An object that is replaced between the listing and its turn.
$s3->client('put', $bucket, 'lake/replaced/1.csv', "i\n1\n");
my $session = $node->background_psql('postgres');
$session->query_safe('BEGIN; LOCK TABLE paged IN SHARE MODE');
my $id = $node->sql(pull_sql('paged', 'replaced/*', server => 'lake'));
$node->wait_for("SELECT count(*) FROM pg_locks WHERE relation = 'paged'::regclass AND NOT granted", 1);
$s3->client('put', $bucket, 'lake/replaced/1.csv', "i\n2\n");
$session->query_safe('COMMIT');
$session->quit;
$job = $node->wait_job($id);
is("$job->{state} $job->{sqlstate}", 'failed 55000', 'an object replaced during the pull') or diag $job->{message};
like($job->{message}, qr/replaced|changed/, 'and that is what it says');

# A body that ends early is taken up again where it ended.
my $large = join '', map { "$_," . 'x' x 1000 . "\n" } 1 .. 3000;
write_file("$dir/../large.csv", "i,t\n$large");
$s3->client('put_file', $bucket, 'lake/large.csv', "$dir/../large.csv");
$node->sql('CREATE TABLE large (i int, t text)');
$proxy->forget;
$proxy->rules([ { method => 'GET', match => '/large.csv', times => 2, action => 'cut', bytes => 1_000_000 } ]);
($job) = run_jobs($node, 'postgres', pull_sql('large', 'large.csv', server => 'lake'));
is("$job->{state} $job->{rows}", 'done 3000', 'a body that ends early') or diag $job->{message};
cmp_ok(scalar(grep { ($_->{headers}{range} // '') =~ /^bytes=[1-9]/ } $proxy->requests(method => 'GET', target => '/large')), '>=', 1, 'is asked for the rest');
$proxy->rules([ { method => 'GET', match => '/large.csv', times => -1, action => 'cut', bytes => 1000 } ]);
$node->sql("ALTER SYSTEM SET pgobjstore.max_retries = 3; SELECT pg_reload_conf()");
($job) = run_jobs($node, 'postgres', pull_sql('large', 'large.csv', server => 'lake'));
is($job->{state}, 'failed', 'one that always does is an error') or diag $job->{rows};
is($node->sql('SELECT count(*) FROM large'), 3000, 'and never a short table');

$s3->no_open_uploads($bucket);
done_testing();
