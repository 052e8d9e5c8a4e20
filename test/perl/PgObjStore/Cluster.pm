# A PostgreSQL server with pgobjstore for TAP tests: PostgreSQL::Test::Cluster of the installed server packages
# plus what every test of this project needs.
#
#   use PgObjStore::Cluster;        # before anything of PostgreSQL::Test
#   my $node = PgObjStore::Cluster->start_new('main', conf => "work_mem = '1MB'");
#
# PG_CONFIG says which installation; TESTDIR / TESTDATADIR / TESTLOGDIR where data and logs go (default:
# tmp_check in the current directory).  All helpers die on an unexpected error: a test cannot go on without
# noticing.
package PgObjStore::Cluster;
use strict;
use warnings;

BEGIN
{
	# PostgreSQL's test modules come with the server's development files, not with perl.
	my $config = $ENV{PG_CONFIG} || 'pg_config';
	chomp(my $pgxs = `$config --pgxs`);
	chomp(my $bindir = `$config --bindir`);
	die "$config does not work: set PG_CONFIG\n" unless $pgxs && $bindir;
	(my $src = $pgxs) =~ s{/makefiles/pgxs\.mk$}{};
	unshift @INC, "$src/test/perl";
	$ENV{PATH} = "$bindir:$ENV{PATH}";
	$ENV{PG_REGRESS} ||= "$src/test/regress/pg_regress";
	die "PostgreSQL refuses to run as root: run the TAP tests as another user (test/check does)\n"
	  if $> == 0;
}

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use JSON::PP ();
use Test::More;
use Time::HiRes ();

our @ISA = ('PostgreSQL::Test::Cluster');

my $json = JSON::PP->new->utf8(0)->allow_nonref->canonical;

# start_new(NAME, conf => TEXT, extension => 1, extra => [initdb options]): initialised, preloaded, started;
# CREATE EXTENSION in database postgres unless extension => 0.
sub start_new
{
	my ($class, $name, %opt) = @_;
	my $node = $class->new($name);
	$node->init(extra => $opt{extra} || []);
	# Statements are not logged: tests look for secrets in this log, and statements hold them rightly.
	$node->append_conf('postgresql.conf', <<"CONF" . ($opt{conf} // ''));
shared_preload_libraries = 'pgobjstore'
max_worker_processes = 16
log_statement = none
log_min_messages = info
CONF
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION pgobjstore') if $opt{extension} // 1;
	return $node;
}

# A node for pulls of files, and the folder of its server "files", which is the default one.
sub start_with_files
{
	my ($class, $name) = @_;
	my $node = $class->start_new($name, conf => <<'CONF');
fsync = off
pgobjstore.max_workers = 4
pgobjstore.default_server = 'files'
CONF
	my $dir = $node->basedir . '/files';
	mkdir $dir or die "$dir: $!\n";
	$node->create_store('files', url => "file://$dir");
	return ($node, $dir);
}

# Result of the query as psql -At prints it; dies if it fails.  Options: db, user.  Query and result are bytes in
# the client's encoding, and so is all that the functions below answer.
sub sql
{
	my ($self, $query, %opt) = @_;
	# texts that went through JSON may be kept in another way, which must not reach the pipe to psql
	utf8::downgrade($query, 1) or utf8::encode($query);
	return $self->safe_psql($opt{db} // 'postgres', $query, $self->_connection(%opt));
}

# Rows of the query as a list of hashes.
sub rows
{
	my ($self, $query, %opt) = @_;
	my $text = $self->sql("SELECT coalesce(json_agg(q), '[]') FROM ($query) q", %opt);
	return @{ $json->decode($text) };
}

# The query must fail.  Returns its error: { sqlstate, message, detail, hint, text }.
sub sql_error
{
	my ($self, $query, %opt) = @_;
	my ($rc, $out, $err) = $self->psql($opt{db} // 'postgres', "\\set VERBOSITY verbose\n$query",
		on_error_stop => 1, $self->_connection(%opt));
	die "this did not fail, but should have:\n$query\nit answered:\n$out\n" if $rc == 0;
	return parse_error($err);
}

sub parse_error
{
	my ($text) = @_;
	my %error = (text => $text);
	@error{qw(sqlstate message)} = ($1, $2)
	  if $text =~ /(?:ERROR|FATAL):  (\w{5}): (.*?)(?=\n[A-Z][A-Z_ 0-9]*:  |\n?\z)/s;
	$error{detail} = $1 if $text =~ /^DETAIL:  (.*?)(?=\n[A-Z][A-Z_ 0-9]*:  |\n?\z)/ms;
	$error{hint} = $1 if $text =~ /^HINT:  (.*?)(?=\n[A-Z][A-Z_ 0-9]*:  |\n?\z)/ms;
	return \%error;
}

sub _connection
{
	my ($self, %opt) = @_;
	return $opt{user} ? (extra_params => [ '-U', $opt{user} ]) : ();
}

# ---------------------------------------------------------------- jobs

# The job's row as a hash, or undef.
sub job
{
	my ($self, $id, %opt) = @_;
	my ($row) = $self->rows('SELECT * FROM objstore_jobs WHERE job_id = ' . int($id), %opt);
	return $row;
}

# Enqueues with the query (which answers a job id), waits for its end, returns the job's row whatever its state.
sub run_job
{
	my ($self, $query, %opt) = @_;
	my $id = $self->sql($query, %opt);
	die "no job id from: $query\n" unless $id =~ /^\d+$/;
	return $self->wait_job($id, %opt);
}

# Waits until the job is done, failed or cancelled (option state: until it is just that) and returns its row.
# Looks at the view and does not call objstore_wait(), which raises the job's error.
sub wait_job
{
	my ($self, $id, %opt) = @_;
	my $want = $opt{state} ? qr/^\Q$opt{state}\E$/ : qr/^(done|failed|cancelled)$/;
	my $timeout = $opt{timeout} // $PostgreSQL::Test::Utils::timeout_default;
	my ($end, $nap, $row) = (Time::HiRes::time() + $timeout, 0.02);
	while (1)
	{
		$row = $self->job($id, %opt) or die "there is no job $id\n";
		return $row if $row->{state} =~ $want;
		last if Time::HiRes::time() > $end;
		Time::HiRes::sleep($nap);
		$nap = $nap * 1.5 if $nap < 0.3;
	}
	die "job $id is still in state $row->{state} after $timeout seconds: " . $json->encode($row) . "\n";
}

# The query's job must end as done; returns its row, dies with the job's error otherwise.
sub ok_job
{
	my ($self, $query, $name, %opt) = @_;
	my $row = $self->run_job($query, %opt);
	is($row->{state}, 'done', $name // $query) or diag $json->encode($row);
	return $row;
}

# Polls the query until it answers the text (default t); dies on a time-out.
sub wait_for
{
	my ($self, $query, $expected, %opt) = @_;
	$self->poll_query_until($opt{db} // 'postgres', $query, $expected // 't')
	  or die "timed out waiting for: $query\n";
}

# ---------------------------------------------------------------- stores

# Foreign server NAME for url on the object store of PgObjStore::Servers (or a proxy in front of it), with a user
# mapping for the current user or `user`.  Options: url, store (an object with endpoint, access_key, ...),
# options => {server options}, mapping => {user mapping options}, db, user.
sub create_store
{
	my ($self, $name, %opt) = @_;
	my $store = $opt{store};
	my %server = (url => $opt{url}, %{ $opt{options} || {} });
	my %mapping = %{ $opt{mapping} || {} };
	if ($store)
	{
		$server{endpoint} //= $store->endpoint;
		$server{region} //= $store->region;
		$mapping{access_key_id} //= $store->access_key;
		$mapping{secret_access_key} //= $store->secret_key;
	}
	my $for = $opt{user} ? qq("$opt{user}") : 'CURRENT_USER';
	$self->sql("CREATE SERVER $name FOREIGN DATA WRAPPER objstore OPTIONS (" . _options(\%server) . ')',
		db => $opt{db});
	$self->sql("CREATE USER MAPPING FOR $for SERVER $name OPTIONS (" . _options(\%mapping) . ')', db => $opt{db})
	  if %mapping;
	$self->sql(qq(GRANT USAGE ON FOREIGN SERVER $name TO $for), db => $opt{db}) if $opt{user};
}

sub _options
{
	my ($options) = @_;
	return join ', ', map { my $v = $options->{$_}; $v =~ s/'/''/g; "$_ '$v'" }
	  grep { defined $options->{$_} } sort keys %$options;
}

# ---------------------------------------------------------------- crashes, logs

# What a power cut leaves: no shutdown checkpoint.
sub crash
{
	my ($self) = @_;
	$self->stop('immediate');
}

# Pids of background workers whose backend_type matches.
sub workers
{
	my ($self, $pattern) = @_;
	$pattern //= 'pgobjstore';
	return split /\n/, $self->sql("SELECT pid FROM pg_stat_activity WHERE backend_type ~ '$pattern' ORDER BY pid");
}

sub log_text
{
	my ($self) = @_;
	return PostgreSQL::Test::Utils::slurp_file($self->logfile);
}

# None of the strings may be anywhere in the server's log (used for secrets: they are not printed either).
sub log_lacks
{
	my ($self, $name, @strings) = @_;
	my $text = $self->log_text;
	my $found = grep { index($text, $_) >= 0 } @strings;
	is($found, 0, $name);
}

1;
