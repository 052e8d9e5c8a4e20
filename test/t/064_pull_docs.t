# The examples of docs/PULL.md: its files are written, its statements run, in order, and every job must succeed.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PgObjStore::Cluster;
use PgObjStore::Objects;
use File::Path ();
use Test::More;

my $node = PgObjStore::Cluster->start_new('main', conf => "fsync = off\npgobjstore.default_server = 'lake'\n");
my $dir = $node->basedir . '/files';
mkdir $dir or die;
$node->create_store('lake', url => "file://$dir");
my $text = read_file("$FindBin::RealBin/../../docs/PULL.md");

my ($calls, %option) = (0);
while ($text =~ /^```(\w+)(?: (\S+))?\n(.*?)^```$/msg)
{
	my ($kind, $key, $body) = ($1, $2, $3);
	if ($kind eq 'csv')
	{
		File::Path::make_path("$dir/$1") if $key =~ m{(.*)/};
		write_file("$dir/$key", $body);
		next;
	}
	for my $statement (split /;\n/, $body)
	{
		my $answer = $node->sql($statement);
		next unless $statement =~ /^SELECT objstore_pull/;
		my $job = $node->wait_job($answer);
		is($job->{state}, 'done', $statement =~ s/\s+/ /gr) or diag $job->{message}, "\n", $job->{detail} // '';
		$calls++;
		$option{$_} = 1 for $statement =~ /"(\w+)":/g;
	}
}
cmp_ok($calls, '>=', 10, 'there were examples');

# What is known must be shown.
my $known = $node->sql_error(q(SELECT objstore_pull('events', options => '{"none": 1}')))->{detail};
$known =~ s/^Valid options are: //;
my @missing = grep { !$option{$_} && $_ ne 'default' } split /[., ]+/, $known;
is("@missing", '', 'every option has an example');

is($node->sql(q(SELECT id, name, since, region FROM customers WHERE id IN (2, 10, 11, 12, 20, 40) ORDER BY id)),
	join("\n", '2|Bob "the builder"|2022-05-06|south', '10|Eve||', '11||2023-12-31|', '12|Fay||', '20|Gus|2000-01-01|', '40|Ivy|2024-01-01|'),
	'the rows are as the page says');
is($node->sql(q(SELECT string_agg(line || ' ' || coalesce(column_name, '-'), ', ' ORDER BY line) FROM objstore_rejects)), '3 id, 4 name, 5 since',
	'and the bad ones');
done_testing();
