# Faults of the store and of the way to it, injected in front of a real server: retried within bounds, or an
# error that says what is wrong; never a wrong success, never anything left behind.  Numbers in brackets are
# those of the list of field failures.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PgObjStore::Cluster;
use PgObjStore::Servers;
use PgObjStore::Session;
use Fcntl qw(F_GETFL F_SETFL O_NONBLOCK);
use File::Temp ();
use IO::Socket::INET ();
use JSON::PP ();
use Socket qw(SOCK_STREAM);
use Test::More;
use Time::HiRes qw(sleep time);

alarm 500;

my $tries = 3;
my $s3 = PgObjStore::Servers->s3;
my $bucket = $s3->new_bucket;
my $proxy = $s3->proxy;
my $node = PgObjStore::Cluster->start_new('faults', conf => <<"CONF");
pgobjstore.max_workers = 4
pgobjstore.max_retries = $tries
pgobjstore.retry_timeout = '20s'
pgobjstore.connect_timeout = '1s'
pgobjstore.request_timeout = '2s'
CONF
# Uncompressed, so that sizes are known: `big` has three parts of 5 MiB, `t` is a single PUT.
$node->create_store('f', url => "s3://$bucket", store => $proxy, options => { part_size => '5MB', concurrency => 4 });
$node->sql(<<'SQL');
CREATE TABLE t AS SELECT g AS id, 'row ' || g AS b FROM generate_series(1, 100) g;
CREATE TABLE big AS SELECT g AS id, repeat(md5(g::text), 4) AS b FROM generate_series(1, 90000) g;
CREATE TABLE back (LIKE big);
CREATE TABLE back_t (LIKE t);
SQL
my $sum = 'SELECT count(*) || md5(string_agg(x::text, $$,$$ ORDER BY id)) FROM';
my $big_sum = $node->sql("$sum big x");
my $t_sum = $node->sql("$sum t x");
my $json = JSON::PP->new->canonical;

sub push_sql
{
	my ($table, $path, @more) = @_;
	return "SELECT objstore_push(" . join(', ', "'$table'", "server => 'f'", "path => '$path'", "parallel => 1", "compression => 'none'", @more) . ')';
}

sub pull_sql
{
	my ($table, $path, @more) = @_;
	return "SELECT objstore_pull(" . join(', ', "'$table'", "server => 'f'", "path => '$path'", @more) . ')';
}

# As PgObjStore::Cluster's, for many jobs in one session.
my $session = PgObjStore::Session->new($node, timeout => 120);
sub run_jobs
{
	my @ids = map { $session->sql($_) } @_;
	return map {
		$session->start("SELECT objstore_wait($_)")->raw;
		JSON::PP::decode_json($session->sql("SELECT row_to_json(j) FROM objstore_jobs j WHERE job_id = $_"));
	} @ids;
}
sub run_job { return (run_jobs(@_))[0] }
sub sql { return $session->sql(@_) }

# Under these rules, runs the job that the query enqueues; returns its row.
sub under
{
	my ($rules, $query) = @_;
	$proxy->rules($rules);
	$proxy->forget;
	my $job = run_job($query);
	$proxy->rules([]);
	return $job;
}

sub xml_error
{
	my ($status, $code, %more) = @_;
	return (action => 'answer', status => $status, body => "<Error><Code>$code</Code><Message>$code it is</Message><RequestId>planned-1</RequestId></Error>", %more);
}

sub done
{
	my ($job, $name) = @_;
	is($job->{state}, 'done', $name) or diag $json->encode($job);
}

# Failed with this SQLSTATE and a message like that.
sub failed
{
	my ($job, $name, $sqlstate, $like) = @_;
	like("$job->{state} " . ($job->{sqlstate} // ''), qr/^failed $sqlstate$/, $name) or diag $json->encode($job);
	my $text = join "\n", map { $job->{$_} // '' } qw(message detail hint);
	like($text, $like, "$name: says why") if $like;
}

# Nothing of the path is in the store, and no upload is open.
sub nothing_left
{
	my ($path, $name) = @_;
	is_deeply([ $s3->object_keys($bucket, $path) ], [], "$name: no object left");
	$s3->no_open_uploads($bucket, "$name: no open upload");
}

# What is there comes back as it was.
sub comes_back
{
	my ($table, $path, $expected, $name) = @_;
	sql("TRUNCATE $table");
	my $job = run_job(pull_sql($table, $path));
	is($job->{state} eq 'done' ? sql("$sum $table x") : $job->{message}, $expected, $name);
}

# ---------------------------------------------------------------- no fault: what it costs

{
	done(under([ { times => -1, action => 'pass' } ], push_sql('big', 'plain/')), 'a push');
	is($proxy->count(method => 'POST', target => 'uploads='), 1, '[32] one upload is begun');
	is($proxy->count(method => 'PUT', target => 'partNumber='), 3, '[32] each part is sent once');
	is($proxy->count(method => 'POST', target => 'uploadId='), 1, '[32] it is completed once');
	is($proxy->count(method => 'PUT', target => 'manifest.json'), 1, '[32] the manifest is written once');
	cmp_ok($proxy->count, '<=', 12, '[32] and there are few requests besides');
	done(under([], pull_sql('back', 'plain/')), 'a pull');
	is(sql("$sum back x"), $big_sum, 'brings the rows back');
	is($proxy->count(method => 'GET', target => '/part-00000'), 3, '[32] each range is read once');
	cmp_ok($proxy->count, '<=', 8, '[32] and there are few requests besides');
}

# ---------------------------------------------------------------- worth another try

{
	my @rules;
	my %plan = (1 => [ [ 503, 'SlowDown' ], [ 429, 'TooManyRequests' ] ], 2 => [ [ 408, 'RequestTimeout' ], [ 500, 'InternalError' ] ],
		3 => [ [ 502, 'BadGateway' ], [ 400, 'RequestTimeout' ] ]);
	for my $part (sort keys %plan)
	{
		push @rules, map { { method => 'PUT', match => "partNumber=$part&", xml_error(@$_) } } @{ $plan{$part} };
	}
	push @rules, { method => 'POST', match => 'uploads=', xml_error(503, 'SlowDown') },
	  { method => 'POST', match => 'uploadId=', xml_error(503, 'SlowDown') },
	  { method => 'PUT', match => 'manifest', xml_error(504, 'GatewayTimeout') };
	done(under(\@rules, push_sql('big', 'busy/')), '[23] a push goes on after 503, 429, 408, 500, 502, 504 and 400 RequestTimeout');
	is($proxy->count(method => 'PUT', target => 'partNumber='), 9, '[23] each part was sent three times');
	comes_back('back', 'busy/', $big_sum, '[23] and is right');
	sql('TRUNCATE back');
	done(under([ { method => 'GET', match => 'part-00000', times => 2, xml_error(503, 'SlowDown') },
		{ method => 'GET', match => 'manifest', xml_error(500, 'InternalError') } ], pull_sql('back', 'busy/')), '[23] so does a pull');
	is(sql("$sum back x"), $big_sum, '[23] and is right');
	my $job = under([ { method => 'PUT', match => 'partNumber=2&', times => -1, xml_error(503, 'SlowDown') } ], push_sql('big', 'slowdown/'));
	failed($job, '[23] 503 for ever', '53000', qr/503 SlowDown.*SlowDown it is.*concurrency/s);
	is($job->{request_id}, 'planned-1', '[23] with the request id');
	is($proxy->count(method => 'PUT', target => 'partNumber=2&'), $tries, '[32] after max_retries attempts');
	nothing_left('slowdown/', '[23] 503 for ever');
}
{
	my $begun = time;
	my $job = under([ { method => 'POST', match => 'uploads=', times => -1, xml_error(502, 'BadGateway') } ], push_sql('big', 'create/'));
	failed($job, '[13] CreateMultipartUpload 502 for ever', '08006', qr/begin upload.*502.*$tries attempts/s);
	is($proxy->count(method => 'POST', target => 'uploads='), $tries, '[13] tried max_retries times');
	cmp_ok(time - $begun, '<', 30, '[13] and given up soon');
	nothing_left('create/', '[13]');
}

# ---------------------------------------------------------------- completion

for my $case ([ 'an <Error> in a 200', { xml_error(200, 'InternalError') } ], [ 'an empty 200', { action => 'answer', status => 200 } ],
	[ 'a 200 of something else', { action => 'answer', status => 200, body => '<html>Welcome</html>' } ])
{
	my ($name, $rule) = @$case;
	my %complete = (method => 'POST', match => 'uploadId=', %$rule);
	done(under([ { %complete, times => 1 } ], push_sql('big', 'c1/', "if_exists => 'replace'")), "[1] $name, once, is tried again");
	is($proxy->count(method => 'POST', target => 'uploadId='), 2, "[1] $name: two attempts");
	my $job = under([ { %complete, times => -1 } ], push_sql('big', 'c2/'));
	is($job->{state}, 'failed', "[1] $name, for ever, is never a success");
	is($proxy->count(method => 'POST', target => 'uploadId='), $tries, "[1] $name: bounded");
	nothing_left('c2/', "[1] $name");
	# The store did it, but the answer does not say so: the object is looked at.
	done(under([ { %complete, forward => JSON::PP::true } ], push_sql('big', 'c3/', "if_exists => 'replace'")), "[2] $name, though it was done");
	comes_back('back', 'c3/', $big_sum, "[2] $name: the object is right");
}
{
	my $lost = { method => 'POST', match => 'uploadId=', action => 'lost' };
	done(under([$lost], push_sql('big', 'lost/')), '[2] an answer to the completion that is lost');
	cmp_ok($proxy->count(method => 'HEAD', target => '/part-00000'), '>=', 1, '[2] is settled by HEAD');
	comes_back('back', 'lost/', $big_sum, '[2] and the object is right');
	# libcurl may repeat a request on a new connection by itself.
	done(under([ { %$lost, times => 2 } ], push_sql('big', 'lost2/')), '[2] lost twice');
	done(under([ { %$lost, reset => JSON::PP::true } ], push_sql('big', 'lost3/')), '[2] lost by a reset');
	done(under([ { method => 'PUT', match => 'manifest', action => 'lost' } ], push_sql('t', 'lost4/')), '[2] the answer to a conditional PUT is lost');
	comes_back('back_t', 'lost4/', $t_sum, '[2] and the object is right');
	done(under([ { method => 'PUT', action => 'lost', times => 1 }, { method => 'PUT', match => 'manifest', action => 'lost' } ],
		push_sql('t', 'lost5/')), '[2] the answers to both');
	comes_back('back_t', 'lost5/', $t_sum, '[2] and the object is right');

	# An older object at the key, of the same bytes, parts and ETag: it is not the one that was just uploaded.
	done(under([], push_sql('big', 'older.csv')), 'an object');
	my $before = $s3->client('head', $bucket, 'older.csv');
	my $gone = { method => 'POST', match => 'uploadId=', times => -1, xml_error(404, 'NoSuchUpload') };
	my $job = under([$gone], push_sql('big', 'older.csv', "if_exists => 'replace'"));
	is($job->{state}, 'failed', '[2] NoSuchUpload with an older object of the same content at the key is a failure') or diag $json->encode($job);
	is_deeply($s3->client('head', $bucket, 'older.csv'), $before, '[2] and the older object is still there');
	$job = under([$gone], push_sql('big', 'nosuch.csv'));
	failed($job, '[2] NoSuchUpload with no object at the key', '55000', qr/NoSuchUpload/);
	nothing_left('nosuch.csv', '[2] NoSuchUpload');
}

# ---------------------------------------------------------------- reading

{
	my $data = { method => 'GET', match => '/plain/part-00000' };
	my $reads = sub {
		my ($name, @rules) = @_;
		sql('TRUNCATE back');
		done(under(\@rules, pull_sql('back', 'plain/')), $name);
		is(sql("$sum back x"), $big_sum, "$name: the rows are right");
	};
	$reads->('[9] a body that ends early', { %$data, action => 'cut', bytes => 1_000_000 });
	my @ranges = map { $_->{headers}{range} } $proxy->requests(method => 'GET', target => '/part-00000');
	my @resumed = grep { /^bytes=\d*1000000-|^bytes=6242880-|^bytes=11485760-/ } @ranges;
	is(scalar @resumed, 1, '[9] is resumed at its offset') or diag "@ranges";
	is(scalar @ranges, 4, '[9] with one request more');
	$reads->('[9] a body that ends early by a reset', { %$data, action => 'cut', bytes => 1_000_000, reset => JSON::PP::true });
	$reads->('[9] bodies that end early twice', { %$data, action => 'cut', bytes => 1_000_000, times => 2 });
	$reads->('[14] a body that stalls', { %$data, action => 'stall', where => 'body', bytes => 300_000 });
	$reads->('[9] an empty body', { %$data, action => 'cut', bytes => 0 });
	$reads->('[9] an answer that never comes', { %$data, action => 'lost' });
	# The whole object instead of a range is no range.
	my $job = under([ { %$data, action => 'answer', status => 200, body => 'x' x 2000, times => -1, match => '/plain/part-00000', header => { range => '^bytes=5' } } ],
		pull_sql('back', 'plain/'));
	is($job->{state}, 'failed', '[9] 200 instead of 206 is not taken for the range');

	my $unchanged = sub {
		my ($name, $sqlstate, $like, @rules) = @_;
		sql("TRUNCATE back; INSERT INTO back VALUES (-1, 'old')");
		my $job = under(\@rules, pull_sql('back', 'plain/'));
		failed($job, $name, $sqlstate, $like);
		is(sql('SELECT count(*), min(b) FROM back'), '1|old', "$name: the table is as it was");
	};
	$unchanged->('[9] bodies that always end early', '08006', qr/closed before the answer was complete/, { %$data, action => 'cut', bytes => 0, times => -1 });
	# COPY meets the byte before the end of the object, where its checksum is known.
	$unchanged->('[9] a byte that changed', '(?:XX001|22021)', qr/CRC32C|invalid byte/, { %$data, action => 'corrupt', bytes => 12345, header => { range => '^bytes=5' } });
	$unchanged->('[14] stalls for ever', '08006', qr/no progress within 2 s/, { %$data, action => 'stall', times => -1 });
	cmp_ok($proxy->count(method => 'GET', target => '/part-00000'), '<=', 3 * $tries, '[14] bounded');

	# Replaced while it is read: the ranges wait until it has happened.
	sql("TRUNCATE back; INSERT INTO back VALUES (-1, 'old')");
	done(under([], push_sql('big', 'replaced/')), 'another dataset');
	# Another object of the same size, and rows all the same.
	my ($f, $file) = File::Temp::tempfile(UNLINK => 1);
	$s3->client('get_file', $bucket, 'replaced/part-00000.csv', $file);
	seek $f, 6_000_001, 0;
	read $f, my $line, 300;
	$line =~ /^.*,(.)/m or die;
	seek $f, 6_000_001 + $-[1], 0;
	print $f $1 eq 'e' ? 'f' : 'e';
	close $f;
	$proxy->rules([ { method => 'GET', match => '/replaced/part-00000', action => 'delay', ms => 2000, times => -1 } ]);
	sql("ALTER SERVER f OPTIONS (ADD request_timeout '60s')");
	my $id = sql(pull_sql('back', 'replaced/'));
	my $end = time + 20;
	sleep 0.05 until $proxy->counters->[0]{seen} || time > $end;
	$s3->client('put_file', $bucket, 'replaced/part-00000.csv', $file);
	failed($node->wait_job($id), '[9] an object that is replaced during the pull', '55000', qr/replaced while it was being read/);
	is(sql('SELECT count(*), min(b) FROM back'), '1|old', '[9] leaves the table as it was');
	$proxy->rules([]);
	sql("ALTER SERVER f OPTIONS (DROP request_timeout)");
	failed(run_job(pull_sql('back', 'replaced/')), '[9] an object of the same size that is not the one of the manifest', 'XX001', qr/CRC32C/);
	is(sql('SELECT count(*), min(b) FROM back'), '1|old', '[9] leaves the table as it was');
}

# ---------------------------------------------------------------- writing that stalls

{
	my $part = { method => 'PUT', match => 'partNumber=2&', action => 'stall' };
	done(under([ { %$part, where => 'answer' } ], push_sql('big', 'stall1/')), '[14] a part whose answer does not come is sent again');
	done(under([ { %$part, where => 'request' } ], push_sql('big', 'stall2/')), '[14] so is one that nobody reads');
	my $begun = time;
	my $job = under([ { %$part, where => 'request', times => -1 } ], push_sql('big', 'stall3/'));
	failed($job, '[14] a part that stalls for ever', '08006', qr/part 2.*no progress within 2 s.*$tries attempts/s);
	cmp_ok(time - $begun, '<', 40, '[14] by our own timeout');
	nothing_left('stall3/', '[14] a part that stalls for ever');
}

# ---------------------------------------------------------------- clocks and regions

{
	# A scripted store that is an hour ahead.
	my $scripted = $s3->proxy(undef, scripted => 1);
	$node->create_store('ahead', url => "s3://$bucket", store => $scripted);
	my @date = gmtime(time + 3600);
	my $date = sprintf '%s, %02d %s %d %02d:%02d:%02d GMT', (qw(Sun Mon Tue Wed Thu Fri Sat))[$date[6]], $date[3],
	  (qw(Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec))[$date[4]], $date[5] + 1900, @date[2, 1, 0];
	my $rule = { method => 'PUT', match => 'skew.csv', xml_error(403, 'RequestTimeTooSkewed', headers => { Date => $date }) };
	my $ok = { method => 'PUT', match => 'skew.csv', action => 'answer', status => 200, headers => { ETag => '"1"' }, times => -1 };
	$scripted->rules([ $rule, $ok ]);
	(my $query = push_sql('t', 'skew.csv')) =~ s/'f'/'ahead'/;
	done(run_job($query), '[14] RequestTimeTooSkewed: signed anew');
	my @signed = map { $_->{headers}{'x-amz-date'} } $scripted->requests(method => 'PUT');
	is(scalar @signed, 2, '[14] by a second request');
	my @hour = map { /T(\d\d)(\d\d)(\d\d)Z/ ? $1 * 3600 + $2 * 60 + $3 : 0 } @signed;
	cmp_ok(abs(($hour[1] - $hour[0]) % 86400 - 3600), '<', 60, '[14] with the time of the store') or diag "@signed";
	$scripted->rules([ { %$rule, times => -1 } ]);
	failed(run_job($query), '[14] RequestTimeTooSkewed for ever', '28000', qr/clock/i);
	cmp_ok($scripted->count(method => 'PUT'), '<=', 2 + 2, '[14] bounded');
}
for my $case ([ '301', xml_error(301, 'PermanentRedirect', headers => { 'x-amz-bucket-region' => 'eu-west-9' }) ],
	[ '307', xml_error(307, 'TemporaryRedirect', headers => { 'x-amz-bucket-region' => 'eu-west-9', Location => 'http://127.0.0.1:1/' }) ],
	[ '400', action => 'answer', status => 400, body => "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-9</Region></Error>" ])
{
	my ($name, %rule) = @$case;
	my $job = under([ { method => 'PUT|POST', times => -1, %rule } ], push_sql('t', 'region/'));
	is($job->{state}, 'failed', "[24] wrong region, $name");
	like($job->{hint} // '', qr/region '?eu-west-9/, "[24] $name: the hint names the right one");
	is($proxy->count(method => 'PUT|POST'), 1, "[24] $name: no retry");
}

# ---------------------------------------------------------------- answers that are none

# A server that says the same bytes to everybody; returns its port.
my @children;
sub raw_server
{
	my ($bytes) = @_;
	my $listen = IO::Socket::INET->new(Listen => 64, LocalAddr => '127.0.0.1') or die "listen: $!";
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		$SIG{PIPE} = 'IGNORE';
		while (my $client = $listen->accept)
		{
			my $head = '';
			1 while $head !~ /\r\n\r\n/ && sysread $client, $head, 65536, length $head;
			syswrite $client, $bytes;
			shutdown $client, 1;
			my $rest;
			1 while sysread $client, $rest, 65536;
			close $client;
		}
		require POSIX;
		POSIX::_exit(0);
	}
	push @children, $pid;
	return $listen->sockport;
}

END
{
	my $status = $?;
	kill 'KILL', @children if @children;
	waitpid $_, 0 for @children;
	$? = $status;
}

$node->create_store('raw', url => "s3://$bucket", store => $proxy);
sql("ALTER SYSTEM SET pgobjstore.max_retries = 1; SELECT pg_reload_conf()");
my %raw = (
	'no HTTP' => "220 ftp.example.com ready\r\n",
	'zeros' => "\0" x 3000,
	'no status' => "HTTP/1.1 \r\n\r\n",
	'a status of six digits' => "HTTP/1.1 200000 OK\r\nContent-Length: 0\r\n\r\n",
	'a negative length' => "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
	'a length beyond 2^63' => "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nabc",
	'a length that is no number' => "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nabc",
	'two lengths' => "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\nETag: \"x\"\r\n\r\nabc",
	'a header without a colon' => "HTTP/1.1 200 OK\r\nETag\r\nContent-Length\r\nrubbish\xff\xfe\r\n\r\n",
	'a header of 400 kB' => "HTTP/1.1 200 OK\r\nETag: " . ('e' x 400_000) . "\r\nContent-Length: 0\r\n\r\n",
	'a thousand headers' => "HTTP/1.1 403 Forbidden\r\n" . join('', map { "x-amz-$_: $_\r\n" } 1 .. 1000) . "Content-Length: 3\r\n\r\nabc",
	'dates and ranges of nonsense' => "HTTP/1.1 206 Partial Content\r\nDate: yesterday\r\nLast-Modified: \x01\x02\r\nContent-Range: bytes 9-2/1\r\nRetry-After: -1\r\nContent-Length: 3\r\n\r\nabc",
	'chunks of nonsense' => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\nabc\r\n",
	'a chunk beyond 2^64' => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc\r\n",
	'an endless interim answer' => "HTTP/1.1 100 Continue\r\n\r\n" x 1000,
	'broken XML' => "HTTP/1.1 403 Forbidden\r\nContent-Length: 40\r\n\r\n<Error><Code>Acc<Message>&#0;</Mess\xff\xfe>..",
	'an entity bomb' => do {
		my $x = '<!DOCTYPE e [<!ENTITY a "aaaaaaaaaa">' . join('', map { my $p = chr(ord('a') + $_ - 1); '<!ENTITY ' . chr(ord('a') + $_) . ' "' . "&$p;" x 10 . '">' } 1 .. 9) . ']><Error><Code>&j;</Code></Error>';
		"HTTP/1.1 400 Bad Request\r\nContent-Length: " . length($x) . "\r\n\r\n$x";
	},
	'an entity of a file' => do {
		my $x = '<!DOCTYPE e [<!ENTITY a SYSTEM "file:///etc/passwd">]><Error><Code>X</Code><Message>&a;</Message></Error>';
		"HTTP/1.1 400 Bad Request\r\nContent-Length: " . length($x) . "\r\n\r\n$x";
	},
	'a region of nonsense' => "HTTP/1.1 301 Moved\r\nx-amz-bucket-region: '; DROP TABLE t; --\r\nLocation: \r\nContent-Length: 0\r\n\r\n",
	'nothing' => '');
for my $name (sort keys %raw)
{
	my $port = raw_server($raw{$name});
	sql("ALTER SERVER raw OPTIONS (SET endpoint 'http://127.0.0.1:$port')");
	my @queries = map { s/'f'/'raw'/r } push_sql('big', 'raw/'), push_sql('t', 'raw.csv', "if_exists => 'replace'"),
	  pull_sql('back', 'raw/'), pull_sql('back', 'raw.csv');
	for my $job (run_jobs(@queries))
	{
		my $what = "$job->{kind} $job->{path}";
		is($job->{state}, 'failed', "[19] $name: $what fails") or diag $json->encode($job);
		like(($job->{sqlstate} // '') . ' ' . ($job->{message} // ''), qr/^(08|22|28|42|53|54|55|57|HV|XX001).*raw/s,
			"[19] $name: $what has an error of its own") or diag $json->encode($job);
		unlike(join(' ', map { $_ // '' } @$job{qw(message detail hint)}), qr{root:|/bin/|DROP TABLE|[^\x20-\x7e\n]},
			"[19] $name: $what: no rubbish in it") or diag $json->encode($job);
	}
	kill 'KILL', pop @children;
}

# ---------------------------------------------------------------- nobody there

{
	# A socket whose queue is full: the handshake is never answered.
	my $full = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die;
	my @fill;
	for (1 .. 8)
	{
		my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $full->sockport, Blocking => 0) or last;
		push @fill, $s;
	}
	sql("ALTER SERVER raw OPTIONS (SET endpoint 'http://127.0.0.1:" . $full->sockport . "')");
	(my $query = push_sql('t', 'dead/')) =~ s/'f'/'raw'/;
	my $begun = time;
	failed(run_job($query), '[14] a host that does not answer', '08001', qr/could not connect to 127\.0\.0\.1:\d+ within 1 s/);
	cmp_ok(time - $begun, '<', 20, '[14] is given up soon');
	# Cancelled while it is waited for.
	sql("ALTER SERVER raw OPTIONS (ADD connect_timeout '600s')");
	my $id = sql($query);
	$node->wait_job($id, state => 'running');
	sleep 0.5;
	$begun = time;
	is(sql("SELECT objstore_cancel($id)"), 't', 'objstore_cancel while connecting');
	is($node->wait_job($id)->{state}, 'cancelled', 'cancels the job');
	cmp_ok(time - $begun, '<', 10, 'promptly');
}
sql("ALTER SYSTEM RESET pgobjstore.max_retries; SELECT pg_reload_conf()");

# ---------------------------------------------------------------- cancel

sql("ALTER SERVER f OPTIONS (ADD request_timeout '600s')");
for my $case ([ 'an upload whose server stalls', { method => 'PUT', match => 'partNumber=2&', action => 'stall', where => 'request', times => -1 }, push_sql('big', 'cancel/') ],
	[ 'an upload whose completion stalls', { method => 'POST', match => 'uploadId=', action => 'stall', where => 'request', times => -1 }, push_sql('big', 'cancel/') ],
	[ 'a small upload that stalls', { method => 'PUT', action => 'stall', where => 'request', times => -1 }, push_sql('t', 'cancel/') ],
	[ 'an upload whose manifest stalls', { method => 'PUT', match => 'manifest', action => 'stall', where => 'request', times => -1 }, push_sql('big', 'cancel/') ],
	[ 'a download whose server stalls', { method => 'GET', match => 'part-', action => 'stall', where => 'body', bytes => 100_000, times => -1 }, pull_sql('back', 'plain/') ],
	[ 'a download that waits for the manifest', { method => 'GET', match => 'manifest', action => 'stall', times => -1 }, pull_sql('back', 'plain/') ])
{
	my ($name, $rule, $query) = @$case;
	sql("TRUNCATE back; INSERT INTO back VALUES (-1, 'old')");
	$proxy->rules([$rule]);
	my $id = sql($query);
	my $end = time + 20;
	sleep 0.05 until $proxy->counters->[0]{seen} || time > $end;
	my $job = $node->wait_job($id, state => 'running');
	sleep 0.3;
	my $begun = time;
	is(sql("SELECT objstore_cancel($id)"), 't', "[6] cancel $name");
	$job = $node->wait_job($id);
	is("$job->{state} $job->{sqlstate}", 'cancelled 57014', "[6] $name is cancelled");
	cmp_ok(time - $begun, '<', 10, "[6] $name: promptly");
	nothing_left('cancel/', "[6] $name");
	is(sql('SELECT count(*), min(b) FROM back'), '1|old', "[6] $name: the table is as it was");
}

# The server has taken the manifest, and does not say so: what is there is a dataset, and the job says that.
{
	$proxy->rules([ { method => 'PUT', match => 'manifest', action => 'stall', where => 'answer', times => -1 } ]);
	my $id = sql(push_sql('t', 'toolate/'));
	my $end = time + 20;
	sleep 0.05 until $proxy->counters->[0]{seen} || time > $end;
	sleep 0.5;
	is(sql("SELECT objstore_cancel($id)"), 't', '[6] cancel of a push whose manifest is there');
	my $job = $node->wait_job($id);
	is($job->{state}, 'done', '[6] is too late');
	like($job->{note}, qr/complete when the job was cancelled/, '[6] and the row says so');
	$proxy->rules([]);
	sql('TRUNCATE back');
	done(run_job(pull_sql('back', 'toolate/')), '[6] it can be pulled');
	is(sql('SELECT count(*) FROM back'), sql('SELECT count(*) FROM t'), '[6] and is whole');
}

# The server does not even take the abort: the job ends all the same.
{
	$proxy->rules([ { method => 'PUT|DELETE|GET', match => 'uploadId=|partNumber', action => 'stall', where => 'request', times => -1 } ]);
	my $id = sql(push_sql('big', 'stuck/'));
	my $end = time + 20;
	sleep 0.05 until $proxy->counters->[0]{seen} || time > $end;
	sql("SELECT objstore_cancel($id)");
	my $job = eval { $node->wait_job($id, timeout => 25) };
	is($job && $job->{state}, 'cancelled', '[6] cancel with a server that does not answer the abort ends promptly');
	$proxy->rules([]);
	$s3->client('abort_uploads', $bucket);
}
# Terminated: the process goes at once, and the next attempt cleans up.
{
	$proxy->rules([ { method => 'PUT', match => 'partNumber=2&', action => 'stall', where => 'request' } ]);
	my $id = sql(push_sql('big', 'terminated/'));
	my $end = time + 20;
	sleep 0.05 until $proxy->counters->[0]{seen} || time > $end;
	my $pid = $node->wait_job($id, state => 'running')->{pid};
	my $begun = time;
	sql("SELECT pg_terminate_backend($pid)");
	$node->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid");
	cmp_ok(time - $begun, '<', 10, '[14] a worker that is terminated while the server stalls ends promptly');
	my $job = $node->wait_job($id);
	is("$job->{state} $job->{attempts}", 'done 2', '[15] its job is done by the next');
	$s3->no_open_uploads($bucket, '[15] which leaves no open upload');
	comes_back('back', 'terminated/', $big_sum, '[15] and is right');
}
# While the last bytes are on their way, the table is free.
{
	$proxy->rules([ { method => 'PUT', match => 'free/part', action => 'stall', where => 'request' } ]);
	my $id = sql(push_sql('t', 'free/'));
	my $end = time + 20;
	sleep 0.05 until $proxy->counters->[0]{seen} || time > $end;
	my $pid = $node->wait_job($id, state => 'running')->{pid};
	is(sql("SELECT count(*) FROM pg_locks WHERE pid = $pid AND relation = 't'::regclass"), 0, 'no lock on the table after COPY');
	is(sql("SELECT coalesce(backend_xmin::text, 'none') FROM pg_stat_activity WHERE pid = $pid"), 'none', 'and no snapshot');
	sql("SET lock_timeout = '5s'; ALTER TABLE t ADD COLUMN c int; ALTER TABLE t DROP COLUMN c");
	is($node->job($id)->{state}, 'running', 'while the upload goes on');
	sql("SELECT objstore_cancel($id)");
	$node->wait_job($id);
	nothing_left('free/', 'cancelled');
}
$proxy->rules([]);
sql("ALTER SERVER f OPTIONS (DROP request_timeout)");

# ---------------------------------------------------------------- damaged datasets

{
	my $dir = File::Temp::tempdir(CLEANUP => 1);
	my $zstd = sub {
		my ($text) = @_;
		open my $f, '>', "$dir/x" or die;
		print $f $text;
		close $f;
		system('zstd', '-q', '-f', '--check', "$dir/x", '-o', "$dir/x.zst") == 0 or die 'zstd';
		open $f, '<:raw', "$dir/x.zst" or die;
		local $/;
		return <$f>;
	};
	my $rows = join '', map { "$_,row $_\n" } 1 .. 50;
	my $good = $zstd->($rows);
	my $more = $zstd->(join '', map { "$_,row $_\n" } 51 .. 100);
	my $skippable = pack('VV', 0x184D2A53, 7) . 'skip me';
	my @options = ("options => '{\"header\": false}'");
	my $pull = sub {
		my ($bytes) = @_;
		$s3->client('put', $bucket, 'zstd/x.csv.zst', $bytes);
		sql("TRUNCATE back_t");
		return run_job(pull_sql('back_t', 'zstd/x.csv.zst', @options));
	};
	for my $case ([ 'one frame', $good, 50 ], [ 'two frames', $good . $more, 100 ],
		[ 'skippable frames before, between and behind', $skippable . $good . $skippable . $more . $skippable, 100 ],
		[ 'an empty frame between', $good . $zstd->('') . $more, 100 ])
	{
		my ($name, $bytes, $expected) = @$case;
		my $job = $pull->($bytes);
		done($job, "[10] $name");
		is(sql('SELECT count(*), max(id) FROM back_t'), "$expected|$expected", "[10] $name: all rows");
	}
	for my $case ([ 'a frame without its last byte', substr($good, 0, -1) ], [ 'half a frame', substr($good, 0, length($good) / 2) ],
		[ 'a whole frame and half of the next', $good . substr($more, 0, length($more) / 2) ], [ 'a frame header', substr($good, 0, 5) ],
		[ 'garbage behind a frame', $good . 'garbage' ], [ 'one byte behind a frame', $good . "\0" ], [ 'half a skippable frame', $good . substr($skippable, 0, 10) ],
		[ 'text that is not zstd', $rows ], [ 'nothing', '' ], [ 'a wrong checksum', do { my $x = $good; substr($x, -1) ^= "\x01"; $x } ])
	{
		my ($name, $bytes) = @$case;
		failed($pull->($bytes), "[10] $name", 'XX001', qr/zstd/);
		is(sql('SELECT count(*) FROM back_t'), 0, "[10] $name: no rows");
	}

	# A dataset with a real manifest, of which one thing is changed.
	done(under([], "SELECT objstore_push('t', server => 'f', path => 'sound/', parallel => 1)"), 'a dataset');
	my $manifest = $s3->client('get', $bucket, 'sound/manifest.json');
	my $object = $s3->client('get', $bucket, 'sound/part-00000.csv.zst');
	my $number = 0;
	my $changed = sub {
		my ($name, $sqlstate, $like, $change, $bytes) = @_;
		my $text = $manifest;
		my $folder = 'damaged' . ++$number . '/';
		if (ref $change)
		{
			my $tree = $json->decode($text);
			$change->($tree);
			$text = $json->encode($tree);
		}
		elsif (defined $change)
		{
			$text = $change;
		}
		$s3->client('put', $bucket, "${folder}manifest.json", $text);
		$bytes = $object unless @_ > 4;
		$s3->client('put', $bucket, "${folder}part-00000.csv.zst", $bytes) if defined $bytes;
		sql("TRUNCATE back_t; INSERT INTO back_t VALUES (-1, 'old')");
		my $job = run_job(pull_sql('back_t', $folder, "mode => 'replace'"));
		if ($sqlstate)
		{
			failed($job, "[9] $name", $sqlstate, $like);
			is(sql('SELECT count(*), min(b) FROM back_t'), '1|old', "[9] $name: the table is as it was");
		}
		else
		{
			done($job, $name);
			is(sql("$sum back_t x"), $t_sum, "$name: right rows");
		}
	};
	my $first = sub { my ($member, $value) = @_; return sub { $_[0]{objects}[0]{$member} = $value } };
	$changed->('an unchanged copy', undef, undef, undef);
	$changed->('a wrong checksum', 'XX001', qr/CRC32C/, $first->(crc32c => '00000000'));
	$changed->('a wrong row count', 'XX001', qr/100 rows.*99/s, $first->(rows => 99));
	$changed->('a wrong size', 'XX001', qr/bytes/, $first->(bytes => 17));
	$changed->('a missing object', '42704', qr/no object at/, undef, undef);
	$changed->('an object that is shorter', 'XX001', qr/bytes/, undef, substr($object, 0, -3));
	$changed->('an object with a byte changed', 'XX001', qr/zstd|CRC32C/, undef, do { my $x = $object; substr($x, 40, 1) ^= "\x01"; $x });
	$changed->('a manifest cut short', 'XX001', qr/manifest/, substr($manifest, 0, length($manifest) / 2));
	$changed->('an empty manifest', 'XX001', qr/manifest/, '');
	$changed->('a manifest that is no JSON', 'XX001', qr/manifest/, "PNG\x0d\x0a\xff\x00");
	$changed->('a manifest that is another JSON', 'XX001', qr/manifest/, '[1, 2]');
	$changed->('a manifest of a later version', '0A000', qr/newer version/, sub { $_[0]{pgobjstore} = 99 });
	$changed->('a manifest without objects', 'XX001', qr/objects/, sub { delete $_[0]{objects} });
	$changed->('a manifest of an unknown format', 'XX001', qr/format/, sub { $_[0]{format} = 'parquet?' });
	$changed->('a key that leads out of the dataset', 'XX001', qr/manifest/, $first->(key => '../sound/part-00000.csv.zst'));
	$changed->('a negative size', 'XX001', qr/bytes/, $first->(bytes => -1));
	$changed->('a size beyond 2^63', 'XX001', qr/bytes/, $first->(bytes => '99999999999999999999'));
	$changed->('a column that the table has not', '42703', qr/nowhere/, sub { $_[0]{columns} = [ 'id', 'nowhere' ] });
}

# ---------------------------------------------------------------- two at once, and one in the place of another

sql('CREATE DATABASE other');
$node->sql('CREATE EXTENSION pgobjstore; CREATE TABLE t AS SELECT g AS id, $$other $$ || g AS b FROM generate_series(1, 80) g', db => 'other');
$node->create_store('f', url => "s3://$bucket", store => $proxy, db => 'other');
my $other_sum = $node->sql("$sum t x", db => 'other');
for my $round (1 .. 2)
{
	# Slow writes, so that they are under way together.
	$proxy->rules([ { method => 'PUT', action => 'delay', ms => 150, times => -1 } ]);
	my @ids = split /\n/, sql('BEGIN; ' . push_sql('t', "race$round/") . '; ' . push_sql('t', "race$round/") . '; COMMIT');
	my @jobs = map { $node->wait_job($_) } @ids;
	is(join(' ', sort map { $_->{state} eq 'done' ? 'done' : $_->{sqlstate} } @jobs), '42710 done', '[8] two pushes to one path: one wins, the other is told');
	comes_back('back_t', "race$round/", $t_sum, '[8] the dataset is right');

	# Of two databases, which know nothing of each other.
	my @other = ($node->sql(push_sql('t', "cross$round/")), $node->sql(push_sql('t', "cross$round/"), db => 'other'));
	@jobs = ($node->wait_job($other[0]), $node->wait_job($other[1], db => 'other'));
	is(join(' ', sort map { $_->{state} eq 'done' ? 'done' : $_->{sqlstate} } @jobs), '42710 done', '[8] two pushes of two databases: one wins');
	comes_back('back_t', "cross$round/", $jobs[0]{state} eq 'done' ? $t_sum : $other_sum, '[8] the dataset is the one of the winner');
	my @keys = $s3->object_keys($bucket, "cross$round/");
	is(scalar @keys, 2, '[8] and nothing else is there') or diag "@keys";

	my $replace = "if_exists => 'replace'";
	@ids = split /\n/, sql('BEGIN; ' . push_sql('t', "race$round/", $replace) . '; ' . push_sql('big', "race$round/", $replace) . '; COMMIT');
	@jobs = map { $node->wait_job($_) } @ids;
	is(join(' ', map { $_->{state} } @jobs), 'done done', '[8] two pushes with replace: both succeed, one after the other');
	@keys = $s3->object_keys($bucket, "race$round/");
	is(scalar @keys, 2, '[7] one dataset is there') or diag "@keys";
	sql('DROP TABLE IF EXISTS raced');
	my $job = run_job(pull_sql('raced', "race$round/"));
	is($job->{state} eq 'done' ? sql("$sum raced x") : $job->{message}, $job->{rows} && $job->{rows} > 100 ? $big_sum : $t_sum, '[8] which is one of the two');

	@other = ($node->sql(push_sql('t', "cross$round/", $replace)), $node->sql(push_sql('t', "cross$round/", $replace), db => 'other'));
	@jobs = ($node->wait_job($other[0]), $node->wait_job($other[1], db => 'other'));
	ok((grep { $_->{state} eq 'done' } @jobs) >= 1, '[8] two databases with replace: one succeeds at least');
	sql('TRUNCATE back_t');
	$job = run_job(pull_sql('back_t', "cross$round/"));
	like($job->{state} eq 'done' ? sql("$sum back_t x") : $job->{message}, qr/^(\Q$t_sum\E|\Q$other_sum\E)$/, '[8] and one dataset can be read');
}
$proxy->rules([]);
{
	my $replace = "if_exists => 'replace'";
	done(under([], push_sql('t', 'keep/')), 'a dataset');
	my $before = [ map { ($_, $s3->client('head', $bucket, $_)->{etag}) } $s3->object_keys($bucket, 'keep/') ];
	for my $case ([ 'a part is refused', 'PUT', 'partNumber=2&' ], [ 'the upload is refused', 'POST', 'uploads=' ], [ 'the completion is refused', 'POST', 'uploadId=' ],
		[ 'the manifest is refused', 'PUT', 'manifest' ])
	{
		my ($name, $method, $match) = @$case;
		my $job = under([ { method => $method, match => $match, times => -1, xml_error(403, 'AccessDenied') } ], push_sql('big', 'keep/', $replace));
		failed($job, "[7] replace, and $name", '42501', qr/AccessDenied/);
		is_deeply([ map { ($_, $s3->client('head', $bucket, $_)->{etag}) } $s3->object_keys($bucket, 'keep/') ], $before, "[7] $name: the old dataset is as it was");
		$s3->no_open_uploads($bucket, "[7] $name: no open upload");
	}
	comes_back('back_t', 'keep/', $t_sum, '[7] the old dataset can be read');
	done(under([], push_sql('big', 'keep/', $replace)), 'replace');
	comes_back('back', 'keep/', $big_sum, '[7] then the new one can');
	is(scalar(() = $s3->object_keys($bucket, 'keep/')), 2, '[7] and only that is there');

	my $job = under([ { method => 'PUT', match => 'manifest', times => -1, xml_error(500, 'InternalError') } ], push_sql('big', 'unpublished/'));
	is($job->{state}, 'failed', '[7] the manifest cannot be written');
	nothing_left('unpublished/', '[7] the manifest cannot be written');
	# What goes wrong in the clean-up does not hide what went wrong.
	$job = under([ { method => 'PUT', match => 'partNumber=2&', times => -1, xml_error(403, 'AccessDenied') },
		{ method => 'DELETE', times => -1, xml_error(403, 'CannotAbort') } ], push_sql('big', 'unaborted/'));
	failed($job, '[30] an upload that can neither go on nor be aborted', '42501', qr/part 2.*AccessDenied/s);
	like($node->log_text, qr/could not remove what job $job->{job_id} left/, '[30] the log tells of what is left');
	$s3->client('abort_uploads', $bucket);
}

# ---------------------------------------------------------------- resources

{
	# One worker, many failures: no descriptor is lost.
	sql('ALTER SYSTEM SET pgobjstore.max_workers = 1; SELECT pg_reload_conf()');
	sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'pgobjstore worker'");
	my $rules = [ { method => 'PUT', match => 'partNumber', times => -1, action => 'drop' }, { method => 'GET', match => 'part-', action => 'cut', bytes => 10, times => -1 } ];
	my $descriptors = sub {
		my ($pid) = $node->workers('pgobjstore worker');
		return scalar(() = glob "/proc/$pid/fd/*");
	};
	under($rules, $_) for push_sql('big', 'fd/'), pull_sql('back', 'plain/');
	my $before = $descriptors->();
	for (1 .. 4)
	{
		is(under($rules, $_)->{state}, 'failed', '[33] a job that fails with many attempts') for push_sql('big', 'fd/'), pull_sql('back', 'plain/');
	}
	cmp_ok($descriptors->(), '<=', $before + 4, '[33] leaves no open descriptor');
	nothing_left('fd/', '[33]');
}

$s3->no_open_uploads($bucket, '[33] no open upload at the end');
unlike($node->log_text, qr/PANIC|TRAP|was terminated by signal/, '[19] no process crashed');
$node->log_lacks('[29] no secret in the log', $s3->secret_key, 'AWS4-HMAC-SHA256 Credential');
is(scalar(grep { $_->{headers}{authorization} && $_->{headers}{authorization} ne '(hidden)' } $proxy->requests), 0, 'and the proxy logs none');
$node->stop;
done_testing();
