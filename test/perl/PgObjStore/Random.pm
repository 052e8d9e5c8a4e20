# Random tables, for tests that compare two ways of doing the same: columns of all types that have code of their
# own and some that have not, values at the edges of what that code knows, and tables as they become in years
# (columns dropped and added, with and without default, values toasted in every way).
#
#   my $random = PgObjStore::Random->new($seed, encoding => 'UTF8');    # or LATIN1, SQL_ASCII: of the database
#   print $random->types;                       # SQL, once in a database: enum, domains, composite
#   my $table = $random->table('t1');           # { sql, columns => [ names that COPY exports ], name }
#
# The same seed gives the same texts.  Texts are bytes in the database's encoding.
package PgObjStore::Random;
use strict;
use warnings;
use Encode ();
use PgObjStore::Tables qw(quote_literal);

sub new
{
	my ($class, $seed, %opt) = @_;
	srand($seed);
	return bless { encoding => $opt{encoding} // 'UTF8' }, $class;
}

sub pick { return $_[ int rand @_ ] }
sub chance { return rand() < $_[0] }
sub between { my ($low, $high) = @_; return $low + int rand($high - $low + 1) }

# ---------------------------------------------------------------- texts

# Lengths around the steps of wide loops, the pieces of long values and the sizes at which toasting begins.
sub length_of
{
	my ($small) = @_;
	return between(0, 40) if $small || chance(0.85);
	return pick(15, 16, 17, 31, 32, 33, 63, 64, 65, 126, 127, 128, 511, 512, 513, between(41, 2000)) if chance(0.85);
	return pick(4095, 4096, 4097, 8191, 8192, 8193, between(2000, 9000), between(9000, 70000));
}

my @words = ('\\.', '\\N', '', 'NULL', 'null', 'NaN', 't', '0', '"', '""', ',', "\n", "\r\n", "\\", '\\x', '{}', ' ', '  x', "a\tb", '-', 'Infinity');

sub text
{
	my ($self, $small) = @_;
	return pick(@words) if chance(0.15);
	my $length = length_of($small);
	my $kind = int rand 6;
	my $text = '';
	my @special = ("\\", '"', "'", ',', "\t", "\n", "\r", "\b", "\f", "\x0b", ';', '|', '$', '{', '}', "\x01", "\x07", "\x0e", "\x1f", "\x7f", '%', '~', '^');
	my @wide = $self->{encoding} eq 'UTF8' ? map { Encode::encode_utf8($_) } "\xe9", "\x{65e5}", "\x{1f600}", "\x{80}", "\x{7ff}", "\x{ffff}"
	  : $self->{encoding} eq 'LATIN1' ? map { chr } 0x80, 0xa0, 0xe9, 0xff : map { chr } 0x80, 0xa0, 0xc3, 0xe9, 0xfe, 0xff;
	if ($kind == 0) { $text = pick('a', ' ', '-', '\\', '"') x $length }
	elsif ($kind == 1) { $text .= pick(@special) while length $text < $length }
	else
	{
		my $p = pick(0, 0.01, 0.1, 0.3);
		while (length $text < $length)
		{
			my $r = rand;
			$text .= $r < $p ? pick(@special) : $r < 2 * $p ? pick(@wide) : pick('a' .. 'z', ' ', 0 .. 9);
			# long and hard to compress without taking long to make
			$text .= substr($text, rand(length($text) / 2)) if $length > 1000 && length $text > 500 && $kind < 4 && $p == 0;
		}
	}
	return $text;
}

# ---------------------------------------------------------------- numbers

sub integer
{
	my ($bits) = @_;
	my $max = $bits == 64 ? '9223372036854775807' : 2**($bits - 1) - 1;
	my $min = $bits == 64 ? '-9223372036854775808' : -2**($bits - 1);
	return pick($max, $min, 0, -1, 1) if chance(0.2);
	my $digits = between(1, length($max) - 1);
	my $n = chance(0.2) ? pick('1' . '0' x ($digits - 1), '9' x $digits) : between(1, 9) . join '', map { int rand 10 } 2 .. $digits;
	return (chance(0.4) ? '-' : '') . $n;
}

sub float
{
	my ($double) = @_;
	return pick(qw(NaN Infinity -Infinity 0 -0 1 0.1 1e15 1e16 123456789012345680 1e-5 0.0001)) if chance(0.2);
	return sprintf '%.3f', rand(20000) - 10000 if chance(0.3);
	while (1)
	{
		my $v = $double ? unpack('d', pack 'L2', map { int rand 2**32 } 1, 2) : unpack('f', pack 'L', int rand 2**32);
		return sprintf $double ? '%.17g' : '%.9g', $v if $v == $v && abs($v) < 9e999;
	}
}

sub digits
{
	my ($n) = @_;
	my $digits = '';
	$digits .= chance(0.3) ? pick('0', '9', '5') x between(1, 12) : join '', map { int rand 10 } 1 .. between(1, 8) while length $digits < $n;
	return substr $digits, 0, $n;
}

sub numeric
{
	return pick(qw(NaN Infinity -Infinity)) if chance(0.06);
	return pick('0', '0.0', '0.' . '0' x between(1, 40), '1e' . between(-300, 300), '-1e' . between(-50, 50)) if chance(0.2);
	return pick('', '-') . '1e' . pick(131071, 100000, 5000, -16383, -10000) if chance(0.005);
	my $whole = digits(chance(0.9) ? between(0, 20) : between(0, 400));
	my $scale = chance(0.9) ? between(0, 20) : between(0, 400);
	my $fraction = digits($scale);
	return pick('', '-') . ($whole eq '' ? '0' : $whole) . ($fraction eq '' ? '' : ".$fraction");
}

# ---------------------------------------------------------------- dates and times

# As "timestamp '2000-01-01' + interval"; the corners are years 1 and 9999, the changes of zones, the ends.
sub timestamp
{
	my ($zone) = @_;
	my $type = $zone ? 'timestamptz' : 'timestamp';
	my $utc = $zone ? '+00' : '';
	return pick(map { "'$_'::$type" } 'infinity', '-infinity', "0001-01-01 00:00:00$utc", "0001-12-31 23:59:59.999999$utc BC", "4714-11-24 00:00:00$utc BC",
		"9999-12-31 23:59:59.999999$utc", "10000-01-01 00:00:00$utc", "294276-12-31 23:59:59.999999$utc", "1970-01-01 00:00:00$utc", "1999-12-31 23:59:59.999999$utc",
		"2000-01-01 00:00:00$utc") if chance(0.1);
	my $us = pick(0, 999999, 500000, 100000, 1, between(0, 999999), 1000 * between(0, 999));
	my $seconds = chance(0.6) ? between(-4000000000, 4000000000)                 # 1873 to 2126
	  : chance(0.5) ? between(-6, 13) * 31556952 + between(-40, 40) * 86400 * 7  # the same days again and again
	  : between(-65000000000, 255000000000);                                     # -60 to 10080
	$seconds -= $seconds % pick(1, 60, 900, 3600) if chance(0.5);
	$us = $seconds % 3600 ? $us : pick(0, $us);
	return "'2000-01-01 00:00:00$utc'::$type + '$seconds s'::interval + '$us us'::interval";
}

sub date
{
	return pick(map { "'$_'::date" } qw(infinity -infinity 0001-01-01 9999-12-31 10000-01-01 5874897-12-31 2000-02-29 1900-02-28 2000-01-01), '0001-12-31 BC', '4714-11-24 BC') if chance(0.15);
	return "'2000-01-01'::date + " . (chance(0.7) ? between(-40000, 40000) : between(-800000, 3000000));
}

# ---------------------------------------------------------------- types

sub json
{
	my ($self, $depth) = @_;
	my $r = rand;
	return pick('null', 'true', 'false') if $r < 0.15;
	return numeric() =~ s/^(NaN|-?Infinity)$/0/r =~ s/^(-?)0+(?=\d)/$1/r if $r < 0.35;
	if ($r < 0.65 || $depth > 4)
	{
		my $text = $self->text($depth > 0);
		$text =~ s/([\x00-\x1f"\\])/sprintf '\\u%04x', ord $1/ge;
		return qq("$text");
	}
	my $space = pick('', ' ', "\n");
	my $count = chance(0.05) ? between(20, 80) : pick(0, 1, 1, 2, 3, 5);
	return '[' . join(",$space", map { $self->json($depth + 1) } 1 .. $count) . ']' if $r < 0.8;
	return '{' . join(",$space", map { my $key = $self->text(1); $key =~ s/([\x00-\x1f"\\])/sprintf '\\u%04x', ord $1/ge; qq("$key":$space) . $self->json($depth + 1) } 1 .. $count) . '}';
}

# An array of a type, written by its constructor.
sub array
{
	my ($self, $type) = @_;
	my $value = $self->{types}{$type};
	my $count = chance(0.05) ? between(50, 300) : pick(0, 1, 1, 2, 3, 7);
	my $element = sub { chance(0.15) ? 'NULL' : $value->() };
	return "'{}'::$type\[]" if $count == 0;
	if (chance(0.1) && $count < 8)
	{
		my $width = between(1, 3);
		return 'ARRAY[' . join(',', map { '[' . join(',', map { $element->() } 1 .. $width) . ']' } 1 .. $count) . "]::$type\[]";
	}
	my $list = 'ARRAY[' . join(',', map { $element->() } 1 .. $count) . "]::$type\[]";
	return chance(0.05) ? "array_prepend(NULL, $list)" : chance(0.05) ? "('[' || -1 || ':' || @{[$count - 2]} || ']=' || ($list)::text)::$type\[]" : $list;
}

my @labels = ('red', 'a b', '', 'qu"ote', 'com,ma', "tab\tnew\nline", 'back\\slash', '\\.', 'NULL', '0', 'x' x 63);

sub setup
{
	my ($self) = @_;
	my $q = sub { quote_literal($_[0]) };
	my %types = (
		bool => sub { pick('true', 'false') },
		int2 => sub { "'" . integer(16) . "'" },
		int4 => sub { "'" . integer(32) . "'" },
		int8 => sub { "'" . integer(64) . "'" },
		oid => sub { "'" . pick(0, 4294967295, between(0, 99999), between(0, 4294967295)) . "'" },
		float4 => sub { "'" . float(0) . "'" },
		float8 => sub { "'" . float(1) . "'" },
		numeric => sub { "'" . numeric() . "'" },
		'numeric(15,2)' => sub { pick("'NaN'", sprintf '%.2f', rand(2e12) - 1e12) },
		date => sub { date() },
		time => sub { "'" . pick('00:00:00', '24:00:00', '23:59:59.999999', sprintf('%02d:%02d:%02d.%06d', between(0, 23), between(0, 59), between(0, 59), pick(0, between(0, 999999)))) . "'" },
		timestamp => sub { timestamp(0) },
		timestamptz => sub { timestamp(1) },
		'timestamp(0)' => sub { timestamp(0) },
		text => sub { $q->($self->text) },
		varchar => sub { $q->($self->text) },
		'bpchar(20)' => sub { $q->(substr Encode::decode('ascii', $self->text(1) =~ s/[\x80-\xff]/x/gr), 0, 20) },
		bpchar => sub { $q->($self->text . pick('', '  ')) },
		name => sub { $q->($self->text(1) =~ s/[\x80-\xff]/x/gr) },
		'"char"' => sub { $q->(substr $self->text(1) =~ s/[\x80-\xff]/x/gr, 0, 1) . '::"char"' },
		uuid => sub { "'" . join('', map { sprintf '%02x', rand 256 } 1 .. 16) . "'" },
		bytea => sub { "'\\x" . unpack('H*', join '', map { chr rand 256 } 1 .. length_of()) . "'" },
		json => sub { $q->($self->json(0)) },
		jsonb => sub { $q->($self->json(0)) },
		random_enum => sub { $q->(pick(@labels)) },
		random_domain => sub { $q->($self->text) },
		random_number => sub { "'" . numeric() . "'" },
		random_row => sub { "ROW('" . integer(32) . "', " . $q->($self->text(1)) . ', ' . date() . ')::random_row' },
		interval => sub { "'" . between(-500, 500) . ' mon ' . between(-40, 40) . ' d ' . between(-100000, 100000) . '.' . between(0, 999999) . " s'" },
		timetz => sub { sprintf "'%02d:%02d:%02d%+03d'", between(0, 23), between(0, 59), between(0, 59), between(-12, 12) },
		inet => sub { "'" . join('.', map { int rand 256 } 1 .. 4) . '/' . between(1, 32) . "'" },
		int4range => sub { my $n = between(-1000, 1000); "'[$n," . ($n + between(0, 9)) . ")'" },
		money => sub { "'" . integer(32) . "'" },
		'bit varying' => sub { "B'" . join('', map { int rand 2 } 1 .. between(0, 40)) . "'" },
		xid => sub { "'" . between(0, 4294967295) . "'" },
	);
	$self->{types} = \%types;
	$self->{array_of} = [ qw(int2 int4 int8 float8 numeric bool date timestamp timestamptz text varchar bpchar uuid bytea jsonb random_enum random_domain "char" name interval) ];
	return;
}

sub types
{
	my ($self) = @_;
	return 'CREATE TYPE random_enum AS ENUM (' . join(', ', map { quote_literal($_) } @labels) . ");\n"
	  . "CREATE DOMAIN random_domain AS text CHECK (VALUE <> 'nothing');\n"
	  . "CREATE DOMAIN random_number AS numeric;\n"
	  . "CREATE TYPE random_row AS (i int, t text, d date);\n";
}

# ---------------------------------------------------------------- tables

sub table
{
	my ($self, $name, %opt) = @_;
	$self->setup unless $self->{types};
	my @types = sort keys %{ $self->{types} };
	my @sql;
	my @columns;    # { name, type, value }, in the table's order
	my $number = 0;
	my $new = sub {
		my $type = pick(@types);
		my $array = chance(0.15) ? pick(@{ $self->{array_of} }) : undef;
		my @odd = ('', '', '', ' "q"', ' c,d', ' \\.');
		my $column = {
			name => 'c' . ++$number . pick(@odd),
			type => defined $array ? "$array\[]" : $type,
			value => defined $array ? sub { $self->array($array) } : $self->{types}{$type},
			nulls => pick(0, 0, 0.1, 0.5) };
		$column->{name} = pick('\\.', 'NULL', '') if chance(0.01) && $number == 1;
		$column->{name} = "c$number" if $column->{name} eq '';
		return $column;
	};
	my $quoted = sub { my $n = $_[0]{name} =~ s/"/""/gr; return qq("$n") };
	my $insert = sub {
		my ($rows) = @_;
		for (my $done = 0; $done < $rows; $done += 20)
		{
			my $n = $rows - $done > 20 ? 20 : $rows - $done;
			if (!@columns)
			{
				push @sql, "INSERT INTO $name DEFAULT VALUES" for 1 .. $n;
				next;
			}
			push @sql, "INSERT INTO $name (" . join(', ', map { $quoted->($_) } @columns) . ') VALUES '
			  . join ', ', map { '(' . join(', ', map { chance($_->{nulls}) ? 'NULL' : $_->{value}->() } @columns) . ')' } 1 .. $n;
		}
	};
	push @columns, $new->() for 1 .. pick(0, 1, 1, 2, 3, 5, 8, 8, 12, 20);
	my @defs = map { $quoted->($_) . " $_->{type}" } @columns;
	push @defs, 'g1 int GENERATED ALWAYS AS (7) STORED' if chance(0.1);
	push @sql, "CREATE TABLE $name (" . join(', ', @defs) . ')';
	push @sql, "ALTER TABLE $name SET (toast_tuple_target = 128)" if chance(0.3);
	for my $column (@columns)
	{
		my $storage = pick(qw(plain external extended main));
		push @sql, "ALTER TABLE $name ALTER " . $quoted->($column) . " SET STORAGE $storage"
		  if chance(0.3) && $storage ne 'plain' && $column->{type} =~ /^(text|varchar|bytea|jsonb?|numeric|bpchar|random_domain)|\[]/;
	}
	$insert->(pick(0, 1, 5, 30, 60));
	for (1 .. pick(0, 0, 0, 1, 2, 3))
	{
		if (@columns && chance(0.4))
		{
			my ($column) = splice @columns, rand @columns, 1;
			push @sql, "ALTER TABLE $name DROP COLUMN " . $quoted->($column);
		}
		else
		{
			my $column = $new->();
			# a default is kept in a row of pg_attribute, which has to fit into a page
			my $default = chance(0.6) ? ' DEFAULT ' . $column->{value}->() : '';
			$default = '' if length $default > 2000;
			push @sql, "ALTER TABLE $name ADD COLUMN " . $quoted->($column) . " $column->{type}$default";
			push @columns, $column;
		}
		$insert->(pick(0, 1, 10));
	}
	return {
		name => $name,
		sql => join('', map { "$_;\n" } @sql),
		columns => [ map { $_->{name} } @columns ] };
}

# ---------------------------------------------------------------- settings

# Settings that change how values look, and zones with all kinds of histories.
sub settings
{
	return (
		DateStyle => pick('ISO, MDY', 'ISO, MDY', 'SQL, DMY', 'SQL, MDY', 'German', 'Postgres, DMY', 'Postgres, MDY'),
		TimeZone => zone(),
		extra_float_digits => pick(1, 3, 0, -5, -15),
		bytea_output => pick('hex', 'hex', 'escape'),
		IntervalStyle => pick('postgres', 'iso_8601', 'sql_standard', 'postgres_verbose'));
}

sub zone
{
	return pick('UTC', 'Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Africa/Casablanca', 'Asia/Kolkata', 'Asia/Kathmandu', 'Pacific/Apia',
		'America/St_Johns', 'Africa/Monrovia', 'Europe/Amsterdam', 'Europe/Dublin', 'Asia/Manila', 'America/Sao_Paulo', 'Antarctica/Troll', 'Asia/Gaza',
		'Pacific/Kiritimati', 'America/Caracas', 'Europe/London', 'Asia/Pyongyang', '<+0330>-03:30', 'EST5EDT', 'Factory');
}

# COPY's options, as the JSON object of a push.
sub options
{
	my ($self, $columns) = @_;
	my %options;
	my $format = pick('csv', 'text');
	$options{header} = pick('true', 'false') if chance(0.3);
	return ($format, \%options) if chance(0.5);
	if ($format eq 'csv')
	{
		$options{delimiter} = pick(';', '|', "\t", ':', '-', '1', 'a', '{', '[', ' ', '.', '\\', "'", "\x01") if chance(0.6);
		$options{quote} = pick("'", '$', '1', '-', 'e', '\\', "\x02") if chance(0.3);
		$options{escape} = pick('\\', "'", '1', '"', 't') if chance(0.3);
		$options{null} = pick('NULL', 'null', '\\N', 'NaN', 't', 'f', '0', '-', 'Infinity', '\\x', '{}', '[]', 'a', 'infinity', '1') if chance(0.4);
		$options{force_quote} = chance(0.5) ? '*' : [ map { pick(@$columns) } 1 .. 1 ] if @$columns && chance(0.3);
	}
	else
	{
		$options{delimiter} = pick('|', ';', ',', ':', '-', ' ', '{', '"', 'A', "\x01", "\x0b", '+', '~') if chance(0.7);
		$options{null} = pick('', 'NULL', '\\', 'NaN', '0') if chance(0.4);
	}
	$options{delimiter} //= $format eq 'csv' ? ',' : "\t" if defined $options{null};
	return ($format, \%options);
}

1;
