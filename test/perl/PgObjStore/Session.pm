# A psql session that stays open, for tests that need several at once: transactions held open, waiters, holders
# of locks.
#
#   my $session = PgObjStore::Session->new($node, db => 'postgres', user => 'alice');
#   $session->sql('BEGIN');                     # answers as psql -At prints it, dies on an error
#   my $error = $session->sql_error('...');     # as PgObjStore::Cluster's
#   $session->start('SELECT pg_sleep(1)');      # does not wait; answer() does
#   my $text = $session->answer;
#   $session->close;
package PgObjStore::Session;
use strict;
use warnings;
use IO::Select ();
use IPC::Open3 ();
use Symbol ();
use Time::HiRes ();

my $number = 0;

sub new
{
	my ($class, $node, %opt) = @_;
	my $out = Symbol::gensym();
	my @command = ('psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr($opt{db} // 'postgres'));
	push @command, '-U', $opt{user} if $opt{user};
	# Errors and answers through one pipe, in order.
	my $pid = IPC::Open3::open3(my $in, $out, undef, @command);
	$in->autoflush(1);
	return bless { pid => $pid, in => $in, out => $out, buf => '', timeout => $opt{timeout} // 60 }, $class;
}

# Sends statements without waiting for their end.
sub start
{
	my ($self, $query) = @_;
	$self->{mark} = 'end-of-answer-' . ++$number;
	print { $self->{in} } "$query\n;\n\\echo $self->{mark}\n";
	return $self;
}

# Everything that came back for the last start(), errors included.
sub raw
{
	my ($self) = @_;
	my $end = Time::HiRes::time() + $self->{timeout};
	my $select = IO::Select->new($self->{out});
	while (1)
	{
		return $1 if $self->{buf} =~ s/\A(.*?)^\Q$self->{mark}\E\n//ms;
		my $left = $end - Time::HiRes::time();
		die "a session did not answer within $self->{timeout} s\n" if $left <= 0 || !$select->can_read($left);
		my $n = sysread $self->{out}, $self->{buf}, 65536, length $self->{buf};
		# The server has ended it, or psql: what came until then is the answer.
		return delete($self->{buf}) . "\n(the session has ended)\n" unless $n;
	}
}

sub answer
{
	my ($self) = @_;
	my $text = $self->raw;
	die "unexpected error in a session:\n$text" if $text =~ /(ERROR|FATAL|PANIC):  / || !exists $self->{buf};
	chomp $text;
	return $text;
}

sub sql
{
	my ($self, $query) = @_;
	return $self->start($query)->answer;
}

# The statements must fail; their first error.
sub error
{
	my ($self) = @_;
	my $text = $self->raw;
	die "this did not fail: $text\n" unless $text =~ /(ERROR|FATAL):  /;
	return PgObjStore::Cluster::parse_error($text);
}

sub sql_error
{
	my ($self, $query) = @_;
	return $self->start($query)->error;
}

sub close
{
	my ($self) = @_;
	return unless $self->{pid};
	close $self->{in};
	waitpid delete $self->{pid}, 0;
}

sub DESTROY
{
	my ($self) = @_;
	local ($?, $@);
	$self->close;
}

1;
