# The object store of a test run, the faults in front of it, and an independent client.
#
#   use PgObjStore::Servers;
#   my $s3 = PgObjStore::Servers->s3;                    # test/check's radosgw, or one of our own
#   my $bucket = $s3->new_bucket;                        # only this test's
#   my $proxy = $s3->proxy([ { method => 'PUT', match => 'partNumber=2', action => 'answer', status => 503 } ]);
#   ... endpoint => $proxy->endpoint ...
#   is($proxy->count(method => 'PUT'), 3);
#   $s3->no_open_uploads($bucket);
#
# PGOBJSTORE_S3_ENV names the file that test/servers/radosgw wrote; without it the test starts its own server
# and stops it at its end.  See test/servers/faultproxy for the rules.
package PgObjStore::Servers;
use strict;
use warnings;
use Cwd ();
use File::Basename ();
use File::Temp ();
use HTTP::Tiny;
use IPC::Open2 ();
use JSON::PP ();
use POSIX ();
use Test::More;
use Time::HiRes ();

my $servers = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/../../servers');
my $json = JSON::PP->new->utf8->allow_nonref->canonical;
my ($s3, @proxies, @cleanup);

# The one object store of this process.
sub s3
{
	my ($class) = @_;
	return $s3 if $s3;
	my $file = $ENV{PGOBJSTORE_S3_ENV};
	if (!$file)
	{
		my $dir = File::Temp::tempdir('pgobjstore-s3-XXXXXX', TMPDIR => 1, CLEANUP => 0);
		push @cleanup, sub {
			system("$servers/radosgw", 'stop', $dir) == 0 or warn "could not stop the server in $dir\n";
			system 'rm', '-rf', $dir;
		};
		system("$servers/radosgw", 'start', $dir) == 0 or die "could not start radosgw\n";
		$file = "$dir/env";
	}
	my %env;
	open my $f, '<', $file or die "$file: $!\n";
	while (<$f>)
	{
		$env{$1} = $2 if /^(\w+)=(.*)$/;
	}
	close $f;
	$s3 = bless { env => \%env, buckets => 0 }, $class;
	return $s3;
}

sub endpoint { return $_[0]{env}{S3_ENDPOINT} }
sub tls_endpoint { return $_[0]{env}{S3_TLS_ENDPOINT} }
sub ca_file { return $_[0]{env}{S3_CA_FILE} }
sub access_key { return $_[0]{env}{S3_ACCESS_KEY} }
sub secret_key { return $_[0]{env}{S3_SECRET_KEY} }
sub region { return $_[0]{env}{S3_REGION} }

# Path of the server's certificate and key, for a proxy that speaks TLS.
sub tls_files
{
	my ($self) = @_;
	my $dir = File::Basename::dirname($self->ca_file);
	return ("$dir/server.crt", "$dir/server.key");
}

# ---------------------------------------------------------------- the client

# client(COMMAND, ARGUMENTS...): a command of test/servers/s3client; dies on an error.
sub client
{
	my ($self, @words) = @_;
	my $answer = $self->_ask(@words);
	die "s3client @words: $answer->{error}\n" if exists $answer->{error};
	return $answer->{ok};
}

# The command must fail; returns the server's error code (NoSuchKey, AccessDenied, ...; 404 for head).
sub client_error
{
	my ($self, @words) = @_;
	my $answer = $self->_ask(@words);
	die "s3client @words did not fail\n" unless exists $answer->{error};
	return $answer->{code};
}

sub _ask
{
	my ($self, @words) = @_;
	if (!$self->{client})
	{
		local %ENV = (%ENV, %{ $self->{env} });
		# Through TLS only when a test asks for it: the client's own proof is in the tests of the servers.
		my $pid = IPC::Open2::open2(my $out, my $in, "$servers/s3client", '--serve');
		$self->{client} = { pid => $pid, in => $in, out => $out };
		$in->autoflush(1);
	}
	print { $self->{client}{in} } $json->encode(\@words), "\n";
	my $line = readline $self->{client}{out};
	die "the S3 client ended\n" unless defined $line;
	return $json->decode($line);
}

# Same store through another endpoint (TLS, a proxy): an object of its own client.
sub through
{
	my ($self, $endpoint) = @_;
	return bless { env => { %{ $self->{env} }, S3_ENDPOINT => $endpoint }, buckets => 0 }, ref $self;
}

sub new_bucket
{
	my ($self) = @_;
	(my $test = File::Basename::basename($0, '.t')) =~ s/[^a-z0-9]+/-/g;
	my $bucket = substr("t-$test", 0, 40) . "-$$-" . ++$self->{buckets};
	$self->client('make_bucket', $bucket);
	return $bucket;
}

# Keys under a prefix, in order.
sub object_keys
{
	my ($self, $bucket, $prefix) = @_;
	return map { $_->{key} } @{ $self->client('list', $bucket, $prefix // '') };
}

# Every test ends with this: what a failed upload leaves behind costs its owner money.
sub no_open_uploads
{
	my ($self, $bucket, $name) = @_;
	my @open = @{ $self->client('uploads', $bucket) };
	is(scalar @open, 0, $name // "no open multipart upload in $bucket")
	  or diag join "\n", map { "$_->{key} $_->{id}" } @open;
}

# ---------------------------------------------------------------- faults

# proxy(RULES, tls => 1): a fault proxy in front of this server; with scripted => 1 in front of nothing.
sub proxy
{
	my ($self, $rules, %opt) = @_;
	my $dir = File::Temp::tempdir('pgobjstore-proxy-XXXXXX', TMPDIR => 1, CLEANUP => 0);
	my @command = ("$servers/faultproxy", '--until-eof', '--dir', $dir);
	push @command, '--upstream', $self->endpoint =~ m{//(.*)} unless $opt{scripted};
	push @command, '--tls-cert', ($self->tls_files)[0], '--tls-key', ($self->tls_files)[1] if $opt{tls};
	pipe(my $read, my $write) or die "pipe: $!";
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		open STDIN, '<&', $read;
		open STDOUT, '>', "$dir/out";
		open STDERR, '>&', \*STDOUT;
		exec @command or POSIX::_exit(127);
	}
	close $read;
	my $proxy = bless { dir => $dir, pid => $pid, life => $write, env => $self->{env}, tls => $opt{tls} },
	  'PgObjStore::Servers::Proxy';
	push @proxies, $proxy;
	my $end = time + 30;
	until (-f "$dir/port")
	{
		Time::HiRes::sleep(0.02);
		next if time < $end && waitpid($pid, 1) == 0;
		die "faultproxy did not start: " . `cat $dir/out`;
	}
	for my $name (qw(port control))
	{
		open my $f, '<', "$dir/$name" or die "$dir/$name: $!";
		chomp($proxy->{$name} = <$f>);
	}
	$proxy->rules($rules) if $rules;
	return $proxy;
}

END
{
	my $status = $?;
	$_->stop for @proxies;
	if ($s3 && $s3->{client})
	{
		close $s3->{client}{in};
		waitpid $s3->{client}{pid}, 0;
	}
	$_->() for @cleanup;
	$? = $status;
}

# A test ended by a signal still runs END.
$SIG{$_} ||= sub { exit 130 }
  for qw(INT TERM HUP ALRM);

package PgObjStore::Servers::Proxy;
use strict;
use warnings;

our @ISA = ('PgObjStore::Servers');

sub port { return $_[0]{port} }

sub endpoint
{
	my ($self) = @_;
	return $self->{tls} ? "https://localhost:$self->{port}" : "http://127.0.0.1:$self->{port}";
}

# Replaces the rules; their counters start at 0.
sub rules
{
	my ($self, $rules) = @_;
	$self->_control('POST', 'rules', $rules);
}

# The rules with their counters: seen (requests that matched), fired.
sub counters
{
	my ($self) = @_;
	return $self->_control('GET', 'rules');
}

# All requests so far, or those that match(method => REGEX, target => REGEX, action => ...), as hashes:
# see the log entries of test/servers/faultproxy.
sub requests
{
	my ($self, %want) = @_;
	my @found = @{ $self->_control('GET', 'log') };
	@found = grep { ($_->{method} // '') =~ /^(?:$want{method})$/ } @found if $want{method};
	@found = grep { $_->{target} =~ /$want{target}/ } @found if $want{target};
	@found = grep { ($_->{action} // '') eq $want{action} } @found if $want{action};
	return @found;
}

sub count
{
	my ($self, %want) = @_;
	my @found = $self->requests(%want);
	return scalar @found;
}

sub forget
{
	my ($self) = @_;
	$self->_control('DELETE', 'log');
}

sub _control
{
	my ($self, $method, $what, $content) = @_;
	my $answer = HTTP::Tiny->new(timeout => 30)->request($method, "http://127.0.0.1:$self->{control}/$what",
		$content ? { content => $json->encode($content) } : {});
	die "faultproxy: $answer->{status} $answer->{content}\n" unless $answer->{success};
	return $json->decode($answer->{content});
}

sub stop
{
	my ($self) = @_;
	my $pid = delete $self->{pid} or return;
	kill 'TERM', $pid;
	waitpid $pid, 0;
	system 'rm', '-rf', $self->{dir};
}

1;
