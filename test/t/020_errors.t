# Errors that a user meets first: each has its SQLSTATE, message, detail and hint in the job's row, objstore_wait
# raises the same, and no secret is in any of it.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use PgObjStore::Cluster;
use PgObjStore::Servers;
use PgObjStore::Tables;
use IO::Socket::INET;
use JSON::PP ();
use Test::More;

my $s3 = PgObjStore::Servers->s3;
my $bucket = $s3->new_bucket;
my $secret = $s3->secret_key;
my $wrong_secret = 'wrongWRONGwrong+/0123456789012345678';
my $token = 'bogus+session/token==0123456789';
my $node = PgObjStore::Cluster->start_new('main', conf => <<'CONF');
fsync = off
pgobjstore.max_workers = 8
pgobjstore.connect_timeout = '5s'
log_connections = on
log_min_duration_statement = -1
CONF
$node->sql(q(CREATE TABLE data (id int, t text); INSERT INTO data SELECT i, repeat('x', 100) FROM generate_series(1, 100) i));
$node->create_store('good', url => "s3://$bucket/good", store => $s3);
is($node->ok_job(q(SELECT objstore_push('data', server => 'good', path => 'there/')), 'all is well')->{rows}, 100, 'with all rows');

my @later;

# The query's job fails with these; expressions are matched, detail => undef means that there is none.
sub fails
{
	my ($query, $name, %expect) = @_;
	return check("($query)", $name, %expect);
}

# The same for a job that is there, or that a query in parentheses enqueues.
sub check
{
	my ($id, $name, %expect) = @_;
	my $connect = $expect{user} ? [ '-U', $expect{user} ] : [];
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT $id AS job \\gset\n\\echo :job\n\\set VERBOSITY verbose\nSELECT objstore_wait(:job);",
		extra_params => $connect);
	($id) = $out =~ /^(\d+)/ or die "$name: no job: $err\n";
	my $error = PgObjStore::Cluster::parse_error($err);
	my ($job) = $node->rows("SELECT *, extract(epoch FROM finished_at - started_at) AS seconds FROM objstore_jobs WHERE job_id = $id");
	is($job->{state}, 'failed', "$name: fails") or return $job;
	is($job->{sqlstate}, $expect{sqlstate}, "$name: SQLSTATE") or diag $job->{message};
	for my $field (grep { exists $expect{$_} } qw(message detail hint))
	{
		if (defined $expect{$field})
		{
			like($job->{$field} // '', $expect{$field}, "$name: $field");
		}
		else
		{
			is($job->{$field}, undef, "$name: no $field");
		}
	}
	like($job->{message}, qr/^[^A-Z]/, "$name: the message begins in lower case");
	for my $field (grep { defined $job->{$_} } qw(detail hint))
	{
		like($job->{$field}, qr/^[A-Z0-9]/, "$name: the $field is a sentence");
	}
	ok($job->{request_id}, "$name: request id") if $expect{request_id};
	cmp_ok($job->{seconds}, '<', $expect{seconds}, "$name: soon enough") if $expect{seconds};
	is_deeply([ @$error{qw(sqlstate message detail hint)} ], [ @$job{qw(sqlstate message detail hint)} ], "$name: objstore_wait raises the same");
	my $all = JSON::PP->new->canonical->encode($job) . $err;
	is(scalar(grep { index($all, $_) >= 0 } $secret, $wrong_secret, $token), 0, "$name: no secret in it");
	return $job;
}

# Both ways of a server that cannot work.
sub server_fails
{
	my ($server, $name, %expect) = @_;
	my $push = $node->sql("SELECT objstore_push('data', server => '$server')");
	my $pull = $node->sql("SELECT objstore_pull('data', server => '$server', path => 'there/')");
	my @checks = ([ $push, "$name, push", %expect ], [ $pull, "$name, pull", %expect ]);
	return push @later, @checks if $expect{later};
	check(@$_) for @checks;
}

# Jobs that take their time before they give up: they wait together.
sub check_later
{
	check(@$_) for splice @later;
}

# ---------------------------------------------------------------- credentials

$node->create_store('wrong_secret', url => "s3://$bucket/good", store => $s3, mapping => { secret_access_key => $wrong_secret });
server_fails('wrong_secret', 'wrong secret', sqlstate => '28000', message => qr/server "wrong_secret": 403 SignatureDoesNotMatch/,
	detail => qr/Request id: /, hint => qr/^Check secret_access_key in the user mapping for server wrong_secret\.$/, request_id => 1);
$node->create_store('"Unknown key"', url => "s3://$bucket/good", store => $s3, mapping => { access_key_id => 'NOBODYKNOWSTHIS' });
server_fails('Unknown key', 'unknown key', sqlstate => '28000', message => qr/server "Unknown key": 403 InvalidAccessKeyId/,
	hint => qr/^Check access_key_id in the user mapping for server "Unknown key"\.$/, request_id => 1);
$node->sql(q(CREATE ROLE ann LOGIN));
$node->sql(q(GRANT USAGE ON FOREIGN SERVER good TO ann; GRANT SELECT ON data TO ann; CREATE SCHEMA ann AUTHORIZATION ann));
my $error = $node->sql_error(q(SELECT objstore_push('data', server => 'good')), user => 'ann');
is($error->{sqlstate}, '42704', 'no user mapping: at once');
like($error->{hint}, qr/CREATE USER MAPPING FOR ann SERVER good/, 'no user mapping: hint');

# ---------------------------------------------------------------- places

$node->create_store('no_bucket', url => "s3://no-such-bucket-$$/x", store => $s3);
server_fails('no_bucket', 'no such bucket', sqlstate => '42704', message => qr/404 NoSuchBucket/,
	hint => qr/^Create the bucket, or correct the option url of server no_bucket\.$/, request_id => 1);
fails(q(SELECT objstore_push('data', server => 'no_bucket', path => 'one.csv')), 'no such bucket, one object', sqlstate => '42704',
	message => qr/NoSuchBucket/);
fails(q(SELECT objstore_pull('data', server => 'good', path => 'not there/')), 'no dataset', sqlstate => '42704',
	message => qr{no object matches path "not there/" on server "good"}, detail => qr{s3://\Q$bucket\E/good/not there/});
fails(q(SELECT objstore_pull('data', server => 'good', path => 'not there.csv')), 'no object', sqlstate => '42704', message => qr/no object at/);
fails(q(SELECT objstore_push('data', server => 'good', path => 'there/')), 'dataset exists', sqlstate => '42710',
	message => qr/exists already on server "good"/, hint => qr/if_exists => 'replace'/);

# A bucket of somebody else.
my $conf = $s3->ca_file =~ s{/tls/[^/]*$}{/ceph.conf}r;
SKIP:
{
	my $other = "other-$$";
	my $created = -r $conf ? `radosgw-admin -c $conf user create --uid=$other --display-name=other --access-key=OTHER$$ --secret-key=othersecret$$ 2>&1` : '';
	skip 'no second user of the store: ' . $conf, 1 unless $created =~ /"user_id": "$other"/;
	$node->create_store('denied', url => "s3://$bucket/good", store => $s3, mapping => { access_key_id => "OTHER$$", secret_access_key => "othersecret$$" });
	server_fails('denied', 'a bucket of somebody else', sqlstate => '42501', message => qr/403 AccessDenied/, hint => qr/policies of the bucket/, request_id => 1);
}

# ---------------------------------------------------------------- connections

sub unused_port
{
	my $socket = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die "listen: $!";
	return $socket->sockport;
}
my $port = unused_port();
$node->create_store('refused', url => "s3://$bucket", store => $s3, options => { endpoint => "http://127.0.0.1:$port" });
server_fails('refused', 'connection refused', later => 1, sqlstate => '08001', message => qr{could not connect to (?:http://)?127\.0\.0\.1:$port: Connection refused}i,
	hint => qr/option endpoint of server refused/, seconds => 15);
$node->create_store('unknown_host', url => "s3://$bucket", store => $s3, options => { endpoint => 'https://no-such-host.invalid', connect_timeout => '2s' });
server_fails('unknown_host', 'unknown host', later => 1, sqlstate => '08001', message => qr{could not resolve the host of (?:https://)?no-such-host\.invalid},
	hint => qr/options endpoint and region of server unknown_host/, seconds => 30);

# ---------------------------------------------------------------- TLS

my $tls = $s3->through($s3->tls_endpoint);
$node->create_store('tls', url => "s3://$bucket/good", store => $tls, options => { ca_file => $s3->ca_file });
$node->ok_job(q(SELECT objstore_push('data', server => 'tls', path => 'tls/')), 'TLS with the CA in ca_file');
$node->create_store('untrusted', url => "s3://$bucket/good", store => $tls);
server_fails('untrusted', 'TLS not trusted', later => 1, sqlstate => '08001', message => qr{the TLS certificate of (?:https://)?localhost:\d+ is not trusted},
	hint => qr/^Set the option ca_file of server untrusted/, seconds => 15);
$node->create_store('other_ca', url => "s3://$bucket/good", store => $tls, options => { ca_file => '/etc/ssl/certs/ca-certificates.crt' })
  if -r '/etc/ssl/certs/ca-certificates.crt';
server_fails('other_ca', 'TLS with another CA', later => 1, sqlstate => '08001', message => qr{is not trusted}) if -r '/etc/ssl/certs/ca-certificates.crt';
$node->create_store('no_ca_file', url => "s3://$bucket/good", store => $tls, options => { ca_file => '/no/such/file.pem' });
server_fails('no_ca_file', 'ca_file is not there', later => 1, sqlstate => '08001', message => qr/could not load certificates from ca_file/,
	hint => qr/option ca_file of server no_ca_file must name a file/);
$node->create_store('plain_to_tls', url => "s3://$bucket/good", store => $s3, options => { endpoint => $s3->tls_endpoint =~ s/https/http/r });
$node->create_store('tls_to_plain', url => "s3://$bucket/good", store => $s3, options => { endpoint => $s3->endpoint =~ s/http/https/r });
push @later, [ $node->sql(q(SELECT objstore_push('data', server => 'tls_to_plain'))), 'https to an http port', sqlstate => '08001', message => qr/TLS handshake with .* failed/,
	hint => qr/endpoint of server tls_to_plain speaks https/ ];
$node->sql(q(ALTER ROLE CURRENT_USER SET pgobjstore.max_retries = 3));
my $plain_to_tls = $node->sql(q(SELECT objstore_push('data', server => 'plain_to_tls')));

check_later();
my $job = $node->wait_job($plain_to_tls);
is($job->{state}, 'failed', 'http to an https port: fails');
like("$job->{message} $job->{hint}", qr/https|400/, 'http to an https port: and says so');
$node->sql(q(ALTER ROLE CURRENT_USER RESET pgobjstore.max_retries));

# ---------------------------------------------------------------- answers that this store does not give by itself

my $proxy = $s3->proxy;
$node->create_store('faulty', url => "s3://$bucket/good", store => $s3, options => { endpoint => $proxy->endpoint });
sub answers
{
	my ($status, $code, $more, $headers) = @_;
	$proxy->rules([ { action => 'answer', times => -1, status => $status, headers => $headers || {}, $code
				? (body => qq(<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>$code</Code><Message>What the store says.</Message>$more<RequestId>REQ123</RequestId></Error>)) : () } ]);
}

# As Amazon answers: with and without a body, the region in a header or in the body.
answers(301, 'PermanentRedirect', '<Endpoint>bucket.s3-eu-west-1.amazonaws.com</Endpoint>', { 'x-amz-bucket-region' => 'eu-west-1' });
server_fails('faulty', 'wrong region, 301', sqlstate => 'HV024', message => qr/301 PermanentRedirect/,
	hint => qr/bucket is in region eu-west-1: ALTER SERVER faulty OPTIONS \((SET|ADD) region 'eu-west-1'\)/, request_id => 1, seconds => 15);
answers(301, undef, undef, { 'x-amz-bucket-region' => 'ap-southeast-2' });
fails(q(SELECT objstore_pull('data', server => 'faulty', path => 'x.csv')), 'wrong region, 301 to HEAD', sqlstate => 'HV024', hint => qr/'ap-southeast-2'/);
answers(400, 'AuthorizationHeaderMalformed', '<Region>eu-central-1</Region>');
server_fails('faulty', 'wrong region, 400', sqlstate => 'HV024', message => qr/400 AuthorizationHeaderMalformed/, hint => qr/SET region 'eu-central-1'/);
answers(400, 'IllegalLocationConstraintException', '');
fails(q(SELECT objstore_push('data', server => 'faulty')), 'wrong region without a name', sqlstate => 'HV024', hint => qr/options region and endpoint of server faulty/);
answers(307, 'TemporaryRedirect', '<Endpoint>elsewhere</Endpoint>', { location => 'http://127.0.0.1:1/', 'x-amz-bucket-region' => 'eu-north-1' });
fails(q(SELECT objstore_push('data', server => 'faulty')), 'a redirect', sqlstate => 'HV024', hint => qr/eu-north-1/);
is($proxy->count(target => '^http'), 0, 'nobody is sent elsewhere');
answers(301, 'PermanentRedirect', '', { 'x-amz-bucket-region' => q{eu'); DROP TABLE data; --} });
$job = $node->run_job(q(SELECT objstore_push('data', server => 'faulty')));
unlike($job->{hint}, qr/DROP/, 'a region that is none is not put into a statement');

answers(403, 'AccessDenied', '');
server_fails('faulty', 'access denied', sqlstate => '42501', message => qr/403 AccessDenied/, detail => qr/What the store says\..*Request id: REQ123\./, hint => qr/policies/, request_id => 1);
answers(403, undef, undef);
fails(q(SELECT objstore_pull('data', server => 'faulty', path => 'x.csv')), 'a bare 403', sqlstate => '42501', hint => qr/user mapping for server faulty/);
answers(400, 'ExpiredToken', '');
fails(q(SELECT objstore_push('data', server => 'faulty')), 'expired token', sqlstate => '28000', hint => qr/session_token/);
answers(403, 'RequestTimeTooSkewed', '');
fails(q(SELECT objstore_push('data', server => 'faulty')), 'clock skew', sqlstate => '28000', hint => qr/clock/);
$proxy->rules([ { method => 'PUT', action => 'answer', times => -1, status => 507,
			body => '<Error><Code>InsufficientCapacity</Code><Message>full</Message></Error>' } ]);
fails(q(SELECT objstore_push('data', server => 'faulty')), 'store full', sqlstate => '53100', message => qr/507 InsufficientCapacity/, hint => qr/Free space in the store/);
# A server that tells back what it was sent.
answers(400, 'BadThing', "<StringToSign>AWS4-HMAC-SHA256 $secret</StringToSign>");
fails(q(SELECT objstore_push('data', server => 'faulty')), 'the store repeats the secret', sqlstate => 'HV000');
$proxy->rules([ { action => 'answer', times => -1, status => 400, body => "<Error><Code>Bad</Code><Message>you sent $secret</Message></Error>" } ]);
fails(q(SELECT objstore_push('data', server => 'faulty')), 'the store says the secret', sqlstate => 'HV000');
$proxy->rules([]);
$node->ok_job(q(SELECT objstore_push('data', server => 'faulty', path => 'well/')), 'and then all is well');

# ---------------------------------------------------------------- rights

$node->sql("CREATE USER MAPPING FOR ann SERVER good OPTIONS (access_key_id '${\ $s3->access_key}', secret_access_key '$secret')");
$error = $node->sql_error(q(SELECT objstore_pull('data', server => 'good')), user => 'ann');
is("$error->{sqlstate} $error->{message}", '42501 permission denied for table data', 'no INSERT: at once');
$error = $node->sql_error(q(SELECT objstore_pull('public.new_table', server => 'good')), user => 'ann');
is($error->{sqlstate}, '42501', 'no CREATE on the schema: at once');
$error = $node->sql_error(q(SELECT objstore_push('data', server => 'tls')), user => 'ann');
is("$error->{sqlstate} $error->{message}", '42501 permission denied for foreign server tls', 'no USAGE on the server: at once');
$node->sql('CREATE SCHEMA hidden; CREATE TABLE hidden.data (a int); GRANT SELECT ON hidden.data TO ann');
my $oid = $node->sql(q(SELECT 'hidden.data'::regclass::oid));
$error = $node->sql_error("SELECT objstore_push($oid\::regclass, server => 'good')", user => 'ann');
is("$error->{sqlstate} $error->{message}", '42501 permission denied for schema hidden', 'no USAGE on the schema: at once');
$node->sql('CREATE SCHEMA closed; CREATE TABLE closed.data (a int); GRANT SELECT ON closed.data TO ann; GRANT USAGE ON SCHEMA closed TO ann');
check($node->sql(q(BEGIN; SET LOCAL ROLE ann; SELECT objstore_push('closed.data', server => 'good'); RESET ROLE; REVOKE USAGE ON SCHEMA closed FROM ann; COMMIT)),
	'no USAGE on the schema any more', sqlstate => '42501', message => qr/permission denied for schema closed/, user => 'ann');
$node->sql('REVOKE CONNECT ON DATABASE postgres FROM public');
$error = $node->sql_error(q(SET ROLE ann; SELECT objstore_push('data', server => 'good')));
is($error->{sqlstate}, '42501', 'no CONNECT on the database: at once');
$node->sql('GRANT CONNECT ON DATABASE postgres TO public');
$node->sql('CREATE ROLE team NOLOGIN; GRANT USAGE ON FOREIGN SERVER good TO team; GRANT SELECT ON data TO team');
$node->sql("CREATE USER MAPPING FOR team SERVER good OPTIONS (access_key_id '${\ $s3->access_key}', secret_access_key '$secret')");
if ($node->sql('SHOW server_version_num') < 170000)
{
	$error = $node->sql_error(q(SET ROLE team; SELECT objstore_push('data', server => 'good')));
	is($error->{sqlstate}, '0P000', 'a role without LOGIN: at once');
	like($error->{hint}, qr/ALTER ROLE team LOGIN/, 'a role without LOGIN: hint');
}
else
{
	$job = $node->wait_job($node->sql(q(SET ROLE team; SELECT objstore_push('data', server => 'good'))));
	is($job->{state}, 'done', 'a role without LOGIN');
	pass('works');
}

# ---------------------------------------------------------------- what changed before the job began

sub changed_before
{
	my ($call, $change, $name, %expect) = @_;
	# they come and go in one transaction, so that no worker can be faster
	my $id = $node->sql("BEGIN; SELECT $call; $change; COMMIT");
	check($id, $name, %expect);
}
$node->sql('CREATE TABLE dropped (a int); CREATE TABLE dropped2 (a int); CREATE SCHEMA gone; CREATE TABLE gone.t (a int); CREATE TABLE less (a int, b int)');
changed_before(q(objstore_push('dropped', server => 'good')), 'DROP TABLE dropped', 'table dropped, push', sqlstate => '42P01',
	message => qr/relation public\.dropped does not exist any more/, detail => qr/dropped after the job was enqueued/, hint => qr/Enqueue the push again/);
changed_before(q(objstore_pull('dropped2', server => 'good', path => 'there/')), 'DROP TABLE dropped2', 'table dropped, pull', sqlstate => '42P01',
	message => qr/relation public\.dropped2 does not exist any more/, hint => qr/Enqueue the pull again/);
changed_before(q(objstore_push('gone.t', server => 'good')), 'DROP SCHEMA gone CASCADE', 'schema dropped', sqlstate => '42P01');
changed_before(q(objstore_push('less', server => 'good', columns => '{b}')), 'ALTER TABLE less DROP b', 'column dropped', sqlstate => '42703', message => qr/column "b"/);
$node->create_store('dropped_store', url => "s3://$bucket/good", store => $s3);
changed_before(q(objstore_push('data', server => 'dropped_store')), 'DROP SERVER dropped_store CASCADE', 'server dropped', sqlstate => '42704', message => qr/server/);
$node->create_store('dropped_mapping', url => "s3://$bucket/good", store => $s3);
changed_before(q(objstore_push('data', server => 'dropped_mapping')), 'DROP USER MAPPING FOR CURRENT_USER SERVER dropped_mapping', 'user mapping dropped', sqlstate => '42704', message => qr/user mapping not found/);
changed_before(q(objstore_pull('data', server => 'good', path => 'there/', mode => 'replace')), 'ALTER TABLE data ADD CHECK (id < 50) NOT VALID', 'a constraint more', sqlstate => '23514');
is($node->sql('SELECT count(*) FROM data'), '100', 'the rows are still there');
$node->sql('ALTER TABLE data DROP CONSTRAINT data_id_check');

# ---------------------------------------------------------------- what can be known at once

$node->sql('CREATE SEQUENCE seq; CREATE INDEX idx ON data (id); CREATE VIEW joined AS SELECT a.id FROM data a JOIN data b USING (id); CREATE TABLE gen (a int, b int GENERATED ALWAYS AS (a) STORED)');
for my $case (
	[ '42809', q(objstore_pull('seq', server => 'good')) ],
	[ '42809', q(objstore_pull('idx', server => 'good')) ],
	[ '42809', q(objstore_pull('joined', server => 'good')) ],
	[ '42809', q(objstore_push('seq', server => 'good')) ],
	[ '42701', q(objstore_push('data', server => 'good', columns => '{id,id}')) ],
	[ '22023', q(objstore_push('data', server => 'good', options => '{"level": 1.5}')) ],
	[ '22023', q(objstore_pull('data', server => 'good', on_error => 'skipp')) ],
	[ '22023', q(objstore_pull('data', server => 'good', on_conflict => 'ignore')) ],
	[ '22023', q(objstore_push('data', server => 'good', parallel => 0)) ],
	[ '22023', q(objstore_pull('data', server => 'good', parallel => 65)) ])
{
	my ($sqlstate, $call) = @$case;
	my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT $call", on_error_stop => 1);
	isnt($rc, 0, "$call is refused at once");
	is($rc ? PgObjStore::Cluster::parse_error($err)->{sqlstate} : 'none', $sqlstate, "... with SQLSTATE $sqlstate");
}
{
	# A generated column that is asked for: written or refused, but not found out in the job.
	my ($rc, $out, $err) = $node->psql('postgres', q(SELECT objstore_push('gen', server => 'good', columns => '{a,b}')));
	$rc == 0 ? is($node->wait_job($out)->{state}, 'done', 'a generated column by its name') : like($err, qr/generated column/, 'a generated column by its name');
}
$node->wait_for(q(SELECT count(*) FROM objstore_jobs WHERE state IN ('queued', 'running')), '0');

# ---------------------------------------------------------------- a full disk

SKIP:
{
	my $dir = $node->basedir . '/full';
	mkdir $dir or die "$dir: $!";
	# A small file system is mounted where only a new server sees it: a user may do that in a name space of his own.
	skip 'name spaces of users are not allowed here', 1
	  if system("unshare --user --map-root-user --mount sh -c 'mount -t tmpfs -o size=1m none $dir' 2>/dev/null") != 0;
	$node->stop;
	my ($data, $log, $uid) = ($node->data_dir, $node->logfile, $>);
	system('unshare', '--user', '--map-root-user', '--mount', 'sh', '-c',
		"mount -t tmpfs -o size=4m,mode=700 none $dir && exec unshare --user --map-user=$uid pg_ctl -w -D $data -l $log -o '--cluster-name=main' start >/dev/null") == 0
	  or die "the server does not start\n";
	$node->_update_pid(1);
	$node->sql("CREATE SERVER full_disk FOREIGN DATA WRAPPER objstore OPTIONS (url 'file://$dir')");
	$node->ok_job(q(SELECT objstore_push('data', server => 'full_disk', path => 'small/')), 'a small table fits');
	$node->sql(q(CREATE TABLE large AS SELECT i, repeat(md5(i::text), 10) AS t FROM generate_series(1, 30000) i));
	my $before = $node->sql("SELECT sum((pg_stat_file('$dir/small/' || f)).size) FROM pg_ls_dir('$dir/small') f");
	fails(q(SELECT objstore_push('large', server => 'full_disk', path => 'large/', compression => 'none')), 'disk full', sqlstate => '53100',
		message => qr/No space left on device/, hint => qr/Free space on the file system of the store/);
	fails(q(SELECT objstore_push('large', server => 'full_disk', path => 'large.csv', compression => 'none')), 'disk full, one object', sqlstate => '53100');
	is($node->sql("SELECT string_agg(f, ' ') FROM pg_ls_dir('$dir', true, false) f"), 'small', 'nothing is left of it');
	$node->ok_job(q(SELECT objstore_push('data', server => 'full_disk', path => 'small 2/')), 'there is room again');
	$node->ok_job(q(SELECT objstore_pull('small_back', server => 'full_disk', path => 'small/')), 'and what was there is there');
}

# ---------------------------------------------------------------- secrets

$node->create_store('tokened', url => "s3://$bucket/good", store => $s3, mapping => { session_token => $token });
$node->run_job(q(SELECT objstore_push('data', server => 'tokened')));
{
	# what a worker shows of itself while it talks to a store
	my $slow = $s3->proxy([ { action => 'delay', times => -1, ms => 700 } ]);
	$node->create_store('slow', url => "s3://$bucket/good", store => $s3, options => { endpoint => $slow->endpoint });
	my $id = $node->sql(q(SELECT objstore_push('data', server => 'slow')));
	$node->wait_job($id, state => 'running');
	my $activity = $node->sql('SELECT a FROM pg_stat_activity a');
	my $titles = `ps -u \$(id -u) -o args 2>/dev/null`;
	like($activity, qr/pgobjstore push public\.data/, 'the worker says what it does');
	is(scalar(grep { index($activity . $titles, $_) >= 0 } $secret, $wrong_secret, $token), 0, 'and no secret');
	is($node->wait_job($id)->{state}, 'done', 'at the end');
}
my $tables = join '', dump_queries($node, 'postgres', map { "SELECT * FROM $_" } qw(objstore_job objstore_object objstore_jobs objstore_objects));
cmp_ok(length $tables, '>', 10000, 'the tables of the jobs');
is(scalar(grep { index($tables, $_) >= 0 } $secret, $wrong_secret, $token), 0, 'have no secret');
for my $key (grep { /manifest\.json$/ } $s3->object_keys($bucket))
{
	my $manifest = $s3->client('get', $bucket, $key);
	is(scalar(grep { index($manifest, $_) >= 0 } $secret, $wrong_secret, $token), 0, "nor has $key");
	last;
}
# Statements that fail are logged, and hold secrets rightly: those of this test do not.
$node->log_lacks('nor has the log', $secret, $wrong_secret, $token);
like($node->log_text, qr/LOG:  job \d+ \(push public\.data\) failed: .*SignatureDoesNotMatch/, 'which tells of jobs that failed');
unlike($node->log_text, qr/PANIC|was terminated by signal|TRAP:/, 'and of no crash');
$s3->no_open_uploads($bucket);
$node->stop;

# ---------------------------------------------------------------- without the library

my $bare = PgObjStore::Cluster->start_new('bare', conf => "shared_preload_libraries = ''\n");
for my $call (q(objstore_push('pg_class')), q(objstore_pull('x')), q(objstore_wait(1)), q(objstore_cancel(1)))
{
	$error = $bare->sql_error("SELECT $call");
	is($error->{sqlstate}, '55000', "not preloaded: $call");
	like($error->{message} . ($error->{detail} // '') . ($error->{hint} // ''), qr/shared_preload_libraries.*pgobjstore/s, 'and says what to write');
	like($error->{hint} // '', qr/postgresql\.conf|shared_preload_libraries/, 'where');
}
is($bare->sql('SELECT count(*) FROM objstore_jobs'), '0', 'the views work');
done_testing();
