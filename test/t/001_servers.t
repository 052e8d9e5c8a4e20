# The servers of the tests themselves: what the other tests conclude from them is worth no more than they are.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PgObjStore::Servers;
use File::Temp ();
use Test::More;
use Time::HiRes qw(time);

alarm 120;		# nothing here takes long

my $s3 = PgObjStore::Servers->s3;
my $bucket = $s3->new_bucket;
my $dir = File::Temp::tempdir(CLEANUP => 1);

# ---------------------------------------------------------------- the store and the client

is($s3->client('put', $bucket, 'a b+c/ü', "text\0\xff"), '"' . md5("text\0\xff") . '"', 'put answers the MD5');
is($s3->client('get', $bucket, 'a b+c/ü'), "text\0\xff", 'get answers what was put');
is_deeply([ $s3->object_keys($bucket) ], ['a b+c/ü'], 'list');
is($s3->client_error('get', $bucket, 'none'), 'NoSuchKey', 'a missing key is an error');
is($s3->client('head', $bucket, 'a b+c/ü')->{size}, 6, 'head');

open my $f, '>', "$dir/big" or die;
print $f pack('N', $_) x 256 for 1 .. 12 * 1024;
close $f;
like($s3->client('put_parts', $bucket, 'big', "$dir/big", 5 << 20), qr/^"[0-9a-f]{32}-3"$/,
	'a multipart upload of 3 parts');
is($s3->client('get_file', $bucket, 'big', "$dir/back"), 12 << 20, 'its size');
is(system('cmp', "$dir/big", "$dir/back"), 0, 'its bytes');

my $upload = $s3->client('create_upload', $bucket, 'left');
is_deeply($s3->client('uploads', $bucket), [ { key => 'left', id => $upload } ], 'an open upload is seen');
is($s3->client('abort_uploads', $bucket), 1, 'and aborted');
$s3->no_open_uploads($bucket);

{
	my $wrong = $s3->through($s3->endpoint);
	$wrong->{env}{S3_SECRET_KEY} .= 'x';
	is($wrong->client_error('get', $bucket, 'big'), 'SignatureDoesNotMatch', 'the server checks signatures');
	$wrong = $s3->through($s3->endpoint);
	$wrong->{env}{S3_ACCESS_KEY} = 'NOBODY';
	is($wrong->client_error('get', $bucket, 'big'), 'InvalidAccessKeyId', 'and keys');
}

# ---------------------------------------------------------------- TLS

my $tls = $s3->through($s3->tls_endpoint);
is($tls->client('get', $bucket, 'a b+c/ü'), "text\0\xff", 'TLS with the CA');
$tls = $s3->through($s3->tls_endpoint);
$tls->{env}{S3_CA_FILE} = '/etc/ssl/certs/ca-certificates.crt';
is($tls->client_error('get', $bucket, 'big'), 'SSLError', 'the certificate is not valid without it');

# ---------------------------------------------------------------- the fault proxy

my $proxy = $s3->proxy;
my $through = $s3->through($proxy->endpoint);
is($through->client('put', $bucket, 'p', 'x' x 100_000), '"' . md5('x' x 100_000) . '"', 'put through the proxy');
is($through->client('get', $bucket, 'p'), 'x' x 100_000, 'get through the proxy');
is($through->client('list', $bucket, 'p')->[0]{key}, 'p', 'list through the proxy');
is($through->client('put_parts', $bucket, 'big2', "$dir/big", 5 << 20),
	$s3->client('head', $bucket, 'big')->{etag}, 'parts through the proxy');
is($proxy->count(method => 'PUT', target => 'partNumber='), 3, 'the log counts');
my ($request) = $proxy->requests(method => 'PUT', target => "^/$bucket/p\$");
is($request->{bytes_in}, 100_000, 'the log knows the bytes');
is($request->{upstream_status}, 200, 'and the status');
unlike($request->{headers}{authorization}, qr/Signature/, 'and no signature');
$proxy->forget;
is($proxy->count, 0, 'forgotten');

$proxy->rules([ { method => 'GET', match => '/p$', nth => 2, times => 2, action => 'answer', status => 403,
			body => '<Error><Code>Planned</Code></Error>' } ]);
is($through->client('get', $bucket, 'p'), 'x' x 100_000, 'answer: not the first');
is($through->client_error('get', $bucket, 'p'), 'Planned', 'answer: the second') for 2, 3;
is($through->client('get', $bucket, 'p'), 'x' x 100_000, 'answer: not the fourth');
is($proxy->counters->[0]{seen}, 4, 'counter: seen');
is($proxy->counters->[0]{fired}, 2, 'counter: fired');

$proxy->rules([ { method => 'PUT', action => 'answer', status => 400, body => '<Error><Code>Early</Code></Error>' } ]);
is($through->client_error('put', $bucket, 'never', 'y'), 'Early', 'answer instead of a put');
is($s3->client_error('head', $bucket, 'never'), '404', 'which the server did not see');

$proxy->rules([ { method => 'PUT', action => 'answer', status => 400, body => '<Error><Code>Late</Code></Error>',
			forward => JSON::PP::true } ]);
is($through->client_error('put', $bucket, 'done', 'y'), 'Late', 'another answer to a put');
is($s3->client('get', $bucket, 'done'), 'y', 'which the server carried out');

# Raw requests from here: boto3 would try again.
$s3->client('put', $bucket, 'raw', 'r' x 1000);
$proxy->rules([ { match => 'big', action => 'cut', bytes => 1_000_000 } ]);
my $got = raw("GET /$bucket/big");
like($got, qr/^HTTP\/1.1 (403|200)/, 'cut: the head arrives');

my $scripted = $s3->proxy([ { match => '^/lost', action => 'lost' }, { match => '^/hello', times => -1, action => 'answer',
			status => 200, headers => { ETag => '"1"' }, body => 'z' x 1000 } ], scripted => 1);
$got = raw('GET /hello', $scripted);
like($got, qr/\AHTTP\/1.1 200 OK\r\nETag: "1"\r\nContent-Length: 1000\r\n.*\r\n\r\nz{1000}\z/s, 'a scripted server');
like(raw('GET /other', $scripted), qr/^HTTP\/1.1 404/, 'which answers 404 without a rule');
my $front = $s3->through($scripted->endpoint)->proxy([ { match => 'cut', action => 'cut', bytes => 10 } ]);
for my $case ([ cut => { action => 'cut', bytes => 10 }, qr/\r\n\r\nz{10}\z/ ],
	[ cut => { action => 'cut', bytes => 0 }, qr/Content-Length: 1000.*\r\n\r\n\z/s ],
	[ corrupt => { action => 'corrupt', bytes => 999 }, qr/\r\n\r\nz{999}\x85\z/ ],
	[ lost => { action => 'lost' }, qr/\A\z/ ],
	[ drop => { action => 'drop' }, qr/\A\z/ ],
	[ reset => { action => 'drop', reset => JSON::PP::true }, qr/\Areset\z/ ],
	[ stall => { action => 'stall', where => 'request', ms => 300 }, qr/\A\z/, 0.3 ],
	[ stall => { action => 'stall', ms => 300 }, qr/\A\z/, 0.3 ],
	[ stall => { action => 'stall', where => 'body', bytes => 7, ms => 300 }, qr/\r\n\r\nz{7}\z/, 0.3 ],
	[ delay => { action => 'delay', ms => 150 }, qr/\r\n\r\nz{1000}\z/, 0.3 ],
	[ rate => { action => 'rate', bytes => 2000 }, qr/\r\n\r\nz{1000}\z/, 0.45 ],
	[ headers => { action => 'pass', response_headers => { ETag => undef, 'X-New' => 'n' } },
		qr/\AHTTP\/1.1 200 OK\r\n(?!ETag).*X-New: n\r\n\r\nz{1000}\z/s ])
{
	my ($name, $rule, $expected, $seconds) = @$case;
	$front->rules([$rule]);
	$scripted->forget;
	my $start = time;
	like(raw('GET /hello', $front), $expected, "$name: what the client gets");
	my $forwarded = ($rule->{action} eq 'drop' || ($rule->{where} // '') eq 'request') ? 0 : 1;
	is($scripted->count, $forwarded, "$name: what the server sees");
	cmp_ok(time - $start, '>=', $seconds, "$name: how long it takes") if $seconds;
}
like(raw('GET /hello', $front), qr/z{1000}\z/, 'and then all is well again');

eval { $proxy->rules([ { action => 'explode' } ]) };
like($@, qr/unknown member or action/, 'an unknown action is refused');

my $tls_proxy = $s3->proxy(undef, tls => 1);
$tls = $s3->through($tls_proxy->endpoint);
is($tls->client('get', $bucket, 'p'), 'x' x 100_000, 'a proxy that speaks TLS');
is($tls_proxy->count(method => 'GET'), 1, 'and counts');

$s3->no_open_uploads($bucket);
done_testing();

sub md5
{
	require Digest::MD5;
	return Digest::MD5::md5_hex($_[0]);
}

# One request without a client library; everything that comes back, or "reset".
sub raw
{
	my ($line, $to) = @_;
	require IO::Socket::INET;
	my $sock = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => ($to // $proxy)->port) or die "connect: $!";
	print $sock "$line HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
	my $all = '';
	while (1)
	{
		my $n = sysread $sock, $all, 65536, length $all;
		return 'reset' if !defined $n && $!{ECONNRESET};
		last if !$n;
	}
	return $all;
}
