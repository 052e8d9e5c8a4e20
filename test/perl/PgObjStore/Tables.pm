# Whole tables in tests: written down as COPY writes them, compared; many jobs at once.
#
# Texts are bytes, in the encoding of the database that they come from.
package PgObjStore::Tables;
use strict;
use warnings;
use Exporter 'import';
use Test::More;

our @EXPORT = qw(quote_literal dump_queries same_rows fingerprint run_jobs pull_sql both_ways round_trip round_trip_schemas);

our @variants = map { my $f = $_; map { { format => $f, compression => $_ } } qw(zstd none) } qw(csv text binary);

sub quote_literal
{
	my ($text) = @_;
	return 'NULL' unless defined $text;
	$text =~ s/'/''/g;
	return $text =~ s/\\/\\\\/g ? " E'$text'" : "'$text'";
}

# For each query its rows as COPY writes them, one a line, sorted; bytes as they are in the database, and every
# setting at its default.  One session for all; the message of an error is the result of its query.
sub dump_queries
{
	my ($node, $db, @queries) = @_;
	my $end = '== end ==';
	my $script = join '', "SET client_encoding = 'SQL_ASCII';\n",
	  map { "COPY ($_) TO STDOUT;\n\\if :ERROR\n\\echo :LAST_ERROR_MESSAGE\n\\endif\n\\echo $end\n" } @queries;
	utf8::downgrade($script, 1) or utf8::encode($script);
	my ($rc, $text) = $node->psql($db, $script, on_error_stop => 0);
	my @parts = split /^\Q$end\E\n?/m, $text, -1;
	die "not one answer a query\n" if @parts != @queries + 1;
	return map { join '', sort split /(?<=\n)/ } @parts[ 0 .. $#queries ];
}

# A test: the texts of two tables are the same.  Says which field is not.
sub same_rows
{
	my ($got, $expected, $name) = @_;
	return pass($name) if $got eq $expected;
	fail($name);
	my @got = split /\n/, $got, -1;
	my @expected = split /\n/, $expected, -1;
	diag $#got, ' rows instead of ', $#expected if @got != @expected;
	for my $i (0 .. $#expected)
	{
		next if defined $got[$i] && $got[$i] eq $expected[$i];
		my @a = split /\t/, $got[$i] // '(none)', -1;
		my @b = split /\t/, $expected[$i], -1;
		my ($field) = grep { ($a[$_] // '') ne ($b[$_] // '') } 0 .. ($#a > $#b ? $#a : $#b);
		$field //= 0;
		diag 'row ', $i + 1, ', field ', $field + 1, ':';
		diag '  got:      ', substr($a[$field] // '(none)', 0, 200);
		diag '  expected: ', substr($b[$field] // '(none)', 0, 200);
		last;
	}
	return 0;
}

# For tables that are too large to be read: count and a hash over the sorted hashes of the rows' texts.
sub fingerprint
{
	my ($node, $db, $relation) = @_;
	return $node->sql("SELECT count(*), md5(string_agg(h, '' ORDER BY h)) FROM (SELECT md5(t::text) AS h FROM $relation t) x",
		db => $db);
}

# For comparing the direct ways with COPY: roles fast and slow (with pgobjstore.fast_path off) that read all data, and
# databases in three encodings, each with the server "files" in the folder.  Returns the databases by encoding.
sub both_ways
{
	my ($node, $folder) = @_;
	my %database = (UTF8 => 'postgres', LATIN1 => 'latin', SQL_ASCII => 'ascii');
	$node->sql(<<'SQL');
CREATE ROLE fast LOGIN IN ROLE pg_read_all_data;
CREATE ROLE slow LOGIN IN ROLE pg_read_all_data;
ALTER ROLE slow SET pgobjstore.fast_path = off;
CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C';
CREATE DATABASE ascii TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C';
SQL
	for my $db (values %database)
	{
		$node->sql('CREATE EXTENSION pgobjstore', db => $db) if $db ne 'postgres';
		$node->create_store('files', url => "file://$folder", db => $db);
		$node->sql('GRANT USAGE ON FOREIGN SERVER files TO fast, slow', db => $db);
	}
	return %database;
}

# A call of objstore_pull, as a statement.  path undef or empty: left out.  Texts of arguments are quoted, arrays and all others
# are text for it.
sub pull_sql
{
	my ($relation, $path, %arg) = @_;
	$arg{path} = $path if defined $path && $path ne '';
	return 'SELECT objstore_pull(' . join(', ', quote_literal($relation),
		map { "$_ => " . quote_literal($arg{$_}) } sort keys %arg) . ');';
}

# Queries that answer a job id each, in transactions of their own.  Returns the rows of the jobs, in order, when
# all have ended, well or not.
sub run_jobs
{
	my ($node, $db, @queries) = @_;
	my @ids = split /\n/, $node->sql(join("\n", @queries), db => $db);
	die "not one id a query\n" if @ids != @queries;
	$node->wait_for(q(SELECT count(*) FROM objstore_jobs WHERE state IN ('queued', 'running')), '0', db => $db);
	my %job = map { $_->{job_id} => $_ } $node->rows('SELECT * FROM objstore_jobs', db => $db);
	return map { $job{$_} } @ids;
}

# Pushes each table in every format and compression and pulls it into the schema back_FORMAT_COMPRESSION, where it
# is made by the pull.  Tables are given as { relation (quoted, without its schema), columns => { FORMAT => list, if
# not all }, from => what to compare with }.  Options: db; label for the tests' names.  Returns the jobs of the pushes, in
# the order of the tables, each in the order of @variants.
sub round_trip
{
	my ($node, $tables, %opt) = @_;
	my $db = $opt{db} // 'postgres';
	my (@push, @what);
	for my $table (@$tables)
	{
		my $relation = "public.$table->{relation}";
		for my $v (@variants)
		{
			my $columns = $table->{columns}{ $v->{format} };
			my $list = $columns ? join ', ', map { qq("$_") } @$columns : '*';
			push @push, sprintf q(SELECT objstore_push(%s, format => '%s', compression => '%s', columns => %s::name[]);),
			  quote_literal($relation), $v->{format}, $v->{compression},
			  $columns ? quote_literal('{' . join(',', map { qq("$_") } @$columns) . '}') : 'NULL';
			push @what, {
				name => ($opt{label} // '') . "$table->{relation} as $v->{format}, $v->{compression}",
				back => "back_$v->{format}_$v->{compression}.$table->{relation}",
				before_query => "SELECT $list FROM " . ($table->{from} // $relation),
				list => $list };
		}
	}
	my %before;
	my @queries = do { my %seen; grep { !$seen{$_}++ } map { $_->{before_query} } @what };
	@before{@queries} = dump_queries($node, $db, @queries);
	my @pushed = run_jobs($node, $db, @push);
	for my $i (0 .. $#what)
	{
		is($pushed[$i]{state}, 'done', "$what[$i]{name}: pushed")
		  or diag "$pushed[$i]{message}\n", $pushed[$i]{detail} // '';
	}
	my @pulled = run_jobs($node, $db, map { sprintf q(SELECT objstore_pull(%s, path => %s, mode => 'create');),
		  quote_literal($what[$_]{back}), quote_literal($pushed[$_]{path}) } 0 .. $#what);
	my @after = dump_queries($node, $db, map { "SELECT $_->{list} FROM $_->{back}" } @what);
	for my $i (0 .. $#what)
	{
		my $before = $before{ $what[$i]{before_query} };
		if ($pulled[$i]{state} ne 'done')
		{
			fail("$what[$i]{name}: comes back");
			diag "$pulled[$i]{sqlstate}: $pulled[$i]{message}\n", substr($pulled[$i]{detail} // '', 0, 500);
			next;
		}
		same_rows($after[$i], $before, "$what[$i]{name}: comes back");
		my $rows = ($before =~ tr/\n//);
		is("$pushed[$i]{rows} $pulled[$i]{rows}", "$rows $rows", "$what[$i]{name}: the rows are counted");
	}
	return @pushed;
}

sub round_trip_schemas
{
	my ($node, $db) = @_;
	$node->sql(join(';', map { "CREATE SCHEMA back_$_->{format}_$_->{compression}" } @variants), db => $db);
}

1;
