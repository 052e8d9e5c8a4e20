# The tuples that a pull makes are those that COPY makes, byte for byte: what contrib/pageinspect reads off the pages of both.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PgObjStore::Cluster;
use PgObjStore::Tables;
use Test::More;

my $node = PgObjStore::Cluster->start_new('main', conf => "fsync = off\n");
my $dir = $node->basedir . '/files';
mkdir $dir or die;
chmod 0777, $dir or die;
$node->create_store('files', url => "file://$dir");
$node->sql('CREATE EXTENSION pageinspect');

# What a tuple holds, its header as it is stored: flags without the hints about transactions, which may be set at any time.
sub tuples
{
	my ($relation) = @_;
	return $node->sql(<<"SQL");
SELECT b, lp, lp_off, lp_len, t_infomask2, t_infomask & x'000f'::int, t_hoff, coalesce(t_bits, '-'), t_oid IS NULL, md5(t_data)
FROM generate_series(0, pg_relation_size('$relation') / current_setting('block_size')::int - 1) b,
	heap_page_items(get_raw_page('$relation', b::int)) ORDER BY b, lp
SQL
}

# name => definition and rows
my %table = (
	fixed => [ 'a int, b smallint, c bigint, d boolean, e float8, f "char", g real, h oid, i uuid, j timestamptz, k name',
		q(SELECT i, i % 100, i * 10000000000, i % 2 = 0, i / 7.0, 'x', i / 3.0, i, gen_random_uuid(), now(), 'n' || i FROM generate_series(1, 3000) i) ],
	nulls => [ 'a int, b text, c bigint, d text, e smallint, f numeric, g boolean, h int, i text',
		q(SELECT CASE WHEN i & 1 = 0 THEN i END, CASE WHEN i & 2 = 0 THEN repeat('x', i % 30) END, CASE WHEN i & 4 = 0 THEN i END,
			CASE WHEN i & 8 = 0 THEN 'd' END, CASE WHEN i & 16 = 0 THEN 1 END, CASE WHEN i & 32 = 0 THEN i / 16.0 END,
			CASE WHEN i & 64 = 0 THEN true END, CASE WHEN i & 128 = 0 THEN i END, CASE WHEN i & 256 = 0 THEN 'i' END
			FROM generate_series(0, 1023) i) ],
	lengths => [ 'a text, b "char", c bytea, d smallint, e varchar(2000), f "char", g char(200), h bigint',
		q(SELECT repeat('a', i), 'x', decode(repeat('00', i), 'hex'), i, repeat('e', 300 - i), 'y', 'g', i FROM generate_series(0, 300) i) ],
	compressed => [ 'a int, b text, c jsonb', q(SELECT i, repeat('text ', i * 10), jsonb_build_object('k', repeat('v', i * 30)) FROM generate_series(1, 300) i) ],
	plain => [ 'a smallint, b text, c smallint, d text', q(SELECT i, repeat('p', i % 20), i, repeat('m', i % 300) FROM generate_series(1, 2000) i),
		'ALTER %s ALTER b SET STORAGE plain, ALTER d SET STORAGE main' ],
	dropped => [ 'a int, x text, b text, y int, c int', q(SELECT i, 'b' || i, i FROM generate_series(1, 500) i), 'ALTER %s DROP x, DROP y' ],
	others => [ 'a interval, b int[], c text[], d inet, e point, f int4range, g tsvector, h numeric(10,3), i date, j varbit, k xid, l macaddr8',
		q(SELECT make_interval(i), ARRAY[i, NULL], ARRAY['x', repeat('y', i % 200)], '10.0.0.1', point(i, i), int4range(i, i + 5), 'a b'::tsvector, i / 8.0,
			date '2000-01-01' + i, B'101', '7', '08:00:2b:01:02:03:04:05' FROM generate_series(1, 500) i) ],
	wide => [ join(', ', map { "c$_ " . ('int', 'text', 'boolean')[ $_ % 3 ] } 1 .. 300),
		'SELECT ' . join(', ', map { ('NULL', 'i', 'i::text', 'true')[ $_ % 7 == 0 ? 0 : $_ % 3 + 1 ] } 1 .. 300) . ' FROM generate_series(1, 50) i' ],
);

for my $name (sort keys %table)
{
	my ($columns, $query, $alter) = @{ $table{$name} };
	my $file = "$dir/$name.csv";
	for my $relation ("${name}_copy", "${name}_pull")
	{
		$node->sql("CREATE TABLE $relation ($columns)");
		$node->sql(sprintf $alter, "TABLE $relation") if $alter;
	}
	$node->sql("COPY ($query) TO '$file' (FORMAT csv, HEADER)");
	$node->sql("COPY ${name}_copy FROM '$file' (FORMAT csv, HEADER)");
	my $job = $node->wait_job($node->sql(pull_sql("${name}_pull", "$name.csv", server => 'files')));
	is("$job->{state} $job->{engine}", 'done direct', "$name: pulled without COPY") or diag $job->{message} // '';
	my $expected = tuples("${name}_copy");
	cmp_ok(length $expected, '>', 1000, "$name: there are tuples");
	is(tuples("${name}_pull"), $expected, "$name: they are the same");
}
done_testing();
