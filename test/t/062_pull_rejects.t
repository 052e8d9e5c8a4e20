# Bad rows: left out, counted, told; and only those.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PgObjStore::Cluster;
use PgObjStore::Objects;
use PgObjStore::Servers;
use PgObjStore::Tables;
use Test::More;
use Time::HiRes qw(time);

my ($node, $dir) = PgObjStore::Cluster->start_with_files('main');

sub put { put_file($dir, @_) }

# Pulls with on_error => 'skip' unless said otherwise.
sub pull
{
	my ($relation, $path, %arg) = @_;
	$arg{on_error} //= 'skip';
	return $node->run_job(pull_sql($relation, $path, %arg));
}

# What was left out: "line column sqlstate", in order.
sub rejects
{
	my ($job) = @_;
	return map { join ' ', $_->{line}, $_->{column_name} // '-', $_->{sqlstate} }
	  $node->rows("SELECT * FROM objstore_rejects WHERE job_id = $job->{job_id}");
}

# ---------------------------------------------------------------- every kind of bad row

$node->sql(<<'SQL');
CREATE TABLE ref (v int PRIMARY KEY); INSERT INTO ref SELECT generate_series(0, 9);
CREATE TABLE r (id int PRIMARY KEY, name text NOT NULL, v int REFERENCES ref, u text UNIQUE, CHECK (id <> -777));
SQL
my $lines = 30000;
my @good = ("id,name,v,u\n", map { "$_,name $_," . $_ % 10 . ",u$_\n" } 1 .. $lines);
my %bad = (
	# line (the header is line 1) => [ text, column, SQLSTATE, message ]
	2 => [ "x,first,1,\n", 'id', '22P02', qr/invalid input syntax for type integer: "x"/ ],
	101 => [ ",null,1,\n", 'id', '23502', qr/null value in column "id"/ ],
	201 => [ "-777,check,1,\n", '-', '23514', qr/violates check constraint/ ],
	301 => [ "5,unique,1,\n", '-', '23505', qr/duplicate key value.*"r_pkey"/ ],
	302 => [ "301,unique,1,u7\n", '-', '23505', qr/duplicate key value.*"r_u_key"/ ],
	401 => [ "400,foreign,10,u400\n", '-', '23503', qr/foreign key/ ],
	501 => [ "500,few,1\n", '-', '22P04', qr/missing data for column "u"/ ],
	502 => [ "501,many,1,u501,more\n", '-', '22P04', qr/extra data/ ],
	601 => [ "600,\xff\xfe,1,u600\n", '-', '22021', qr/invalid byte sequence/ ],
	701 => [ "700,nul \0,1,u700\n", '-', '22021', qr/0x00/ ],
	801 => [ "99999999999,range,1,u800\n", 'id', '22003', qr/out of range/ ],
	901 => [ "\n", '-', '22P04', qr/missing data for column "name"/ ],
	15001 => [ "15000,foreign,-1,u15000\n", '-', '23503', qr/foreign key/ ],
	30001 => [ "y,last,1,\n", 'id', '22P02', qr/"y"/ ]);
my @bytes = @good;
$bytes[ $_ - 1 ] = $bad{$_}[0] for keys %bad;
put('all.csv', join '', @bytes);
my @want = map { "$_ $bad{$_}[1] $bad{$_}[2]" } sort { $a <=> $b } keys %bad;
my $kept = $node->sql('SELECT count(*) FROM generate_series(1, 30000)') - @want;

for my $variant (
	[ 'COPY' ],
	[ 'INSERT', options => '{"header": "map"}', on_conflict => 'nothing' ],
	[ 'a compressed file' ])
{
	my ($name, %arg) = @$variant;
	my @expected = @want;
	# ON CONFLICT takes the conflicts for itself, and COPY says no column for a null
	@expected = grep { !/23505/ } @expected if $arg{on_conflict};
	system("zstd -q -f $dir/all.csv") == 0 or die if $name =~ /compressed/;
	my $job = pull('r', $name =~ /compressed/ ? 'all.csv.zst' : 'all.csv', %arg);
	is($job->{state}, 'done', "$name: done") or diag $job->{message};
	is_deeply([ rejects($job) ], \@expected, "$name: each bad row, its line, column and SQLSTATE");
	is($job->{rejects}, scalar @expected, "$name: their number");
	is($job->{rows}, $kept, "$name: the number of rows");
	is($node->sql('SELECT count(*), count(DISTINCT id) FROM r'), "$kept|$kept", "$name: all the others are there");
	my @rows = $node->rows("SELECT * FROM objstore_rejects WHERE job_id = $job->{job_id}");
	is(scalar(grep { my $b = $bad{ $_->{line} }; $_->{message} !~ $b->[3] } @rows), 0, "$name: messages");
	is(scalar(grep { my $raw = $bad{ $_->{line} }[0] =~ s/\n//r; $raw =~ s/([\0\xff\xfe])/sprintf '\\x%02x', ord $1/ge; $_->{raw_line} ne $raw } @rows), 0, "$name: the lines as they are");
	is(scalar(grep { $_->{object} !~ m{/files/all\.csv} } @rows), 0, "$name: the object");
	$node->sql('TRUNCATE r');
}
is(pull('r', 'all.csv', on_error => 'stop')->{state}, 'failed', 'stop stops');
is($node->sql('SELECT count(*) FROM r'), 0, 'with nothing');
is(pull('r', 'all.csv', on_error => 'stop')->{rejects}, undef, 'and no count of rejects');

# ---------------------------------------------------------------- limits

for my $case ([ 13, 'failed' ], [ 14, 'done' ], [ '"0.04%"', 'failed' ], [ '"1%"', 'done' ], [ 0, 'failed' ])
{
	my ($limit, $state) = @$case;
	my $job = pull('r', 'all.csv', options => qq({"reject_limit": $limit}));
	is($job->{state}, $state, "reject_limit $limit: $state") or diag $job->{message};
	if ($state eq 'failed')
	{
		is($job->{sqlstate}, '22000', 'SQLSTATE');
		like($job->{message}, qr/too many bad rows/, 'the message');
		like($job->{detail}, qr/line 2, column id: invalid input syntax/, 'the first ones are told');
		is($node->sql('SELECT count(*) FROM r'), 0, 'no row is there');
		is($node->sql("SELECT count(*) FROM objstore_rejects WHERE job_id = $job->{job_id}"), 0, 'and no reject');
	}
	$node->sql('TRUNCATE r');
}

# ---------------------------------------------------------------- quotes, lines, numbers

$node->sql('CREATE TABLE q (id int, t text, n int)');
my $q = q(SELECT string_agg(id || '=' || replace(t, E'\n', '/'), ' ' ORDER BY id) FROM q; TRUNCATE q);
put('open.csv', qq(id,t\n1,a\n2,"open\n3,"c"\n4,d\nx,e\n5,f\n));
my $job = pull('q', 'open.csv', columns => '{id,t}');
is_deeply([ rejects($job) ], [ '3 - 22P04', '6 id 22P02' ], 'a quote left open spoils its own line only');
is($node->sql($q), '1=a 3=c 4=d 5=f', 'all others come in');
put('multi.csv', qq(id,t\n1,"a\n\nb"\nx,"c\nd"\n2,"e\nf"\ny,g\n3,h));
$job = pull('q', 'multi.csv', columns => '{id,t}', options => '{"row_column": "n"}');
is_deeply([ rejects($job) ], [ '6 id 22P02', '9 id 22P02' ], 'lines are counted as an editor counts them');
is($node->sql(q(SELECT string_agg(id || ':' || n, ' ' ORDER BY id) FROM q)), '1:1 2:3 3:5', 'rows as rows');
$node->sql('TRUNCATE q');
put('crlf.csv', "id,t\r\n1,a\r\nx,b\r\n2,c\r\n3,d\n4,e\r\n");
$job = pull('q', 'crlf.csv', columns => '{id,t}');
is_deeply([ rejects($job) ], [ '3 id 22P02', '5 - 22P04' ], 'CRLF; a line that ends otherwise is bad');
is($node->sql($q), '1=a 2=c 4=e', 'the others are good');
put('t.txt', "1\ta\\\nb\nx\tc\\\nd\n2\te\n3\n");
$job = pull('q', 't.txt', columns => '{id,t}');
is_deeply([ map { s/^\d+ //r } rejects($job) ], [ 'id 22P02', '- 22P04' ], 'the text format, newlines behind a backslash');
is($node->sql($q), '1=a/b 2=e', 'its good rows');
put('esc.csv', qq(1,"a\\"b"\nx,"c\\"\n"\n2,"d\\\\"\n));
$job = pull('q', 'esc.csv', columns => '{id,t}', options => '{"header": false, "escape": "\\\\"}');
is_deeply([ rejects($job) ], [ '3 id 22P02' ], 'an escape that is no quote');
is($node->sql($q), '1=a"b 2=d\\', 'its good rows');
put('latin.csv', "1,\xe9\nx,\xe8\n2,\xdf\n");
$job = pull('q', 'latin.csv', columns => '{id,t}', options => '{"header": false, "encoding": "LATIN1"}');
is($node->sql("SELECT raw_line FROM objstore_rejects WHERE job_id = $job->{job_id}"), 'x,è', 'lines are shown in the encoding of the database');
put('sjis.csv', "1,\x83\x5c\nx,\x83\x5c\n");
$node->sql('TRUNCATE q');
$job = pull('q', 'sjis.csv', columns => '{id,t}', options => '{"header": false, "encoding": "SJIS", "escape": "\\\\"}');
is_deeply([ rejects($job) ], [ '2 id 22P02' ], 'characters that hold a backslash');
is($node->sql($q), '1=ソ', 'its good row');
put('marker.txt', "1\ta\nx\tb\n2\tc\n\\.\n");
$job = pull('q', 'marker.txt', columns => '{id,t}');
is("$job->{rows} $job->{rejects}", '2 1', 'the end-of-data marker at the end');
put('marker2.txt', "1\ta\nx\tb\n\\.\n2\tc\n");
is(pull('q', 'marker2.txt', columns => '{id,t}')->{sqlstate}, '22P04', 'and in the middle');
$node->sql('TRUNCATE q');

# Lines that are too long, with and without line ends in them.
my $long = 'y' x 300_000;
put('long.csv', qq(id,t\n1,a\n2,$long\n3,b\n4,"$long\n5,c\n6,d"\n7,"$long\n8,e\n9,f\n));
$job = pull('q', 'long.csv', columns => '{id,t}', options => '{"max_line": "64kB"}');
is_deeply([ rejects($job) ], [ '3 - 54000', '5 - 54000', '7 - 22P04', '8 - 54000' ], 'lines longer than max_line');
is($node->sql($q), '1=a 3=b 5=c 8=e 9=f', 'the lines behind them');
is($node->sql("SELECT max(length(raw_line)) < 9000 FROM objstore_rejects WHERE job_id = $job->{job_id}"), 't', 'shown cut short');
$job = pull('q', 'long.csv', columns => '{id,t}');
is_deeply([ rejects($job) ], [ '8 - 22P04' ], 'which are no longer than the default');
$node->sql('TRUNCATE q');

# ---------------------------------------------------------------- triggers, partitions, several objects, deferred

$node->sql(<<'SQL');
CREATE TABLE tr (id int, t text);
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF NEW.t = 'bad' THEN RAISE EXCEPTION 'no %', NEW.id USING DETAIL = 'because', ERRCODE = 'ZZ001'; END IF; RETURN NEW; END $$;
CREATE TRIGGER refuse AFTER INSERT ON tr FOR EACH ROW EXECUTE FUNCTION refuse();
CREATE TABLE part (id int, t text) PARTITION BY LIST (t);
CREATE TABLE part_a PARTITION OF part FOR VALUES IN ('a');
CREATE TABLE late (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE worse (id int);
CREATE FUNCTION worse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'SELECT * FROM gone'; RETURN NEW; END $$;
CREATE TRIGGER worse BEFORE INSERT ON worse FOR EACH ROW EXECUTE FUNCTION worse();
SQL
put('tr.csv', join '', "id,t\n", map { "$_," . ($_ % 100 == 50 ? 'bad' : 'good') . "\n" } 1 .. 1000);
$job = pull('tr', 'tr.csv');
is("$job->{rows} $job->{rejects}", '990 10', 'a trigger that refuses rows when the statement ends');
is_deeply([ rejects($job) ], [ map { 100 * $_ + 51 . ' - ZZ001' } 0 .. 9 ], 'the right ones');
is($node->sql(q(SELECT count(*) FROM tr WHERE t = 'bad')), 0, 'and none of them came in');
put('part.csv', "id,t\n1,a\n2,b\n3,a\n");
$job = pull('part', 'part.csv');
is_deeply([ rejects($job) ], [ '3 - 23514' ], 'no partition');
is($node->sql(q(SELECT string_agg(id::text, ' ') FROM part)), '1 3', 'the others');
mkdir "$dir/several";
put("several/$_.csv", "id,t\n$_,a\nx$_,b\n") for 1 .. 5;
$job = pull('q', 'several/', columns => '{id,t}');
is("$job->{rows} $job->{rejects} $job->{objects}", '5 5 5', 'several objects');
is($node->sql("SELECT string_agg(regexp_replace(object, '.*/', '') || ':' || line, ' ') FROM objstore_rejects WHERE job_id = $job->{job_id}"),
	join(' ', map { "$_.csv:3" } 1 .. 5), 'each with its own lines');
put('late.csv', "id\n1\n1\n");
$job = pull('late', 'late.csv');
is("$job->{state} $job->{sqlstate}", 'failed 23505', 'a deferred constraint is checked at the commit: all or nothing');
is($node->sql('SELECT count(*) FROM late'), 0, 'nothing');
is($node->sql("SELECT count(*) FROM objstore_rejects WHERE job_id = $job->{job_id}"), 0, 'and no reject');
put('worse.csv', "id\n1\n2\n");
is(pull('worse', 'worse.csv')->{sqlstate}, '42P01', 'what is no fault of a row stops the job');
my $error = $node->sql_error(q(SELECT objstore_pull('q', path => 'x.bin', format => 'binary', on_error => 'skip')));
is($error->{sqlstate}, '0A000', 'binary has no lines: refused at the call');
$node->sql("COPY (SELECT 1, 'a'::text) TO '$dir/x.bin' (FORMAT binary)");
is(pull('q', 'x.bin', columns => '{id,t}')->{sqlstate}, '0A000', 'or when it shows');
put('cut.csv.gz', do { open my $p, '-|', "gzip -c $dir/tr.csv | head -c 500" or die; local $/; <$p> });
is(pull('tr', 'cut.csv.gz')->{sqlstate}, 'XX001', 'an object that is cut off is no bad row');
is($node->sql('SELECT count(*) FROM tr'), 990, 'nothing of it came in');

# All rows are bad, and only one is good.
put('none.csv', join '', "id,t\n", map { "x$_,a\n" } 1 .. 3000);
my $start = time;
$job = pull('q', 'none.csv', columns => '{id,t}');
is("$job->{state} $job->{rows} $job->{rejects}", 'done 0 3000', 'nothing but bad rows');
diag sprintf '3000 bad rows: %.1f s', time - $start;
is($node->sql("SELECT count(*), count(DISTINCT line) FROM objstore_rejects WHERE job_id = $job->{job_id}"), '3000|3000', 'each is told');

# on_conflict => 'update' with bad rows, and keys that come twice.
$node->sql('CREATE TABLE up (id int PRIMARY KEY, t text NOT NULL)');
put('up.csv', "id,t\n1,a\n2,b\n1,c\nx,d\n3,\n2,e\n1,f\n");
$job = pull('up', 'up.csv', on_conflict => 'update');
is_deeply([ rejects($job) ], [ '5 id 22P02', '6 t 23502' ], 'update: bad rows');
is($node->sql('SELECT * FROM up ORDER BY id'), "1|f\n2|e", 'update: the last wins');

# ---------------------------------------------------------------- who sees them

my $s3 = PgObjStore::Servers->s3;
my $bucket = $s3->new_bucket;
$node->sql('CREATE ROLE alice LOGIN; CREATE ROLE eve LOGIN; GRANT pg_read_all_stats TO eve; CREATE TABLE secret (id int); GRANT INSERT ON secret TO alice');
$node->create_store('lake', url => "s3://$bucket", store => $s3, user => 'alice');
$s3->client('put', $bucket, 's.csv', "id\n1\nprivate\n");
$job = $node->run_job(q(SELECT objstore_pull('secret', path => 's.csv', server => 'lake', on_error => 'skip')), user => 'alice');
is("$job->{state} $job->{rejects}", 'done 1', 'a role of its own');
is($node->sql("SELECT raw_line FROM objstore_rejects WHERE job_id = $job->{job_id}", user => 'alice'), 'private', 'sees its rejects');
is($node->sql("SELECT count(*) FROM objstore_rejects", user => 'eve'), 0, 'another does not, with pg_read_all_stats neither');
like($node->sql_error('SELECT * FROM objstore_reject', user => 'alice')->{message}, qr/permission denied/, 'nor the table below');

$s3->no_open_uploads($bucket);
done_testing();
