# What is in a stored object, read without any code of the extension: zstd frames by the format's specification
# (RFC 8878), the rows of COPY's binary format by PostgreSQL's documentation, CRC32C by its polynomial.
#
#   use PgObjStore::Objects;
#   my @frames = zstd_frames($bytes);            # compressed frames, as strings; dies if anything else is in between
#   is(crc32c($bytes), $row->{crc32c});
package PgObjStore::Objects;
use strict;
use warnings;
use File::Path ();
use Exporter 'import';
use File::Temp ();

our @EXPORT = qw(crc32c zstd_frames zstd_expand zstd_compress zstd_problem copy_binary_offsets read_file write_file put_file);

my @crc_table;

# CRC-32C (Castagnoli, reflected polynomial 0x82F63B78) as 8 hexadecimal digits.
sub crc32c
{
	my ($bytes) = @_;
	if (!@crc_table)
	{
		for my $n (0 .. 255)
		{
			my $c = $n;
			$c = $c & 1 ? 0x82F63B78 ^ ($c >> 1) : $c >> 1 for 1 .. 8;
			push @crc_table, $c;
		}
	}
	my $c = 0xFFFFFFFF;
	for (my $at = 0; $at < length $bytes; $at += 1 << 16)
	{
		$c = $crc_table[ ($c ^ $_) & 0xFF ] ^ ($c >> 8) for unpack 'C*', substr($bytes, $at, 1 << 16);
	}
	return sprintf '%08x', $c ^ 0xFFFFFFFF;
}

# Splits at the ends of the frames: magic number, frame header, blocks up to the last, checksum.
sub zstd_frames
{
	my ($bytes) = @_;
	my ($at, @frames) = (0);
	while ($at < length $bytes)
	{
		my $begin = $at;
		my $magic = unpack 'V', substr($bytes, $at, 4);
		if (($magic & 0xFFFFFFF0) == 0x184D2A50)	# skippable
		{
			$at += 8 + unpack 'V', substr($bytes, $at + 4, 4);
			push @frames, substr($bytes, $begin, $at - $begin);
			next;
		}
		die sprintf("no zstd frame at offset %d\n", $at) if $magic != 0xFD2FB528;
		my $descriptor = ord substr($bytes, $at + 4, 1);
		my $single_segment = $descriptor >> 5 & 1;
		$at += 5 + (1 - $single_segment) + (0, 1, 2, 4)[ $descriptor & 3 ]
		  + ($single_segment, 2, 4, 8)[ $descriptor >> 6 ];
		my $last = 0;
		until ($last)
		{
			die "a frame is cut off\n" if $at + 3 > length $bytes;
			my $header = unpack 'V', substr($bytes, $at, 3) . "\0";
			$last = $header & 1;
			# of an RLE block the header has the size that it stands for
			$at += 3 + (($header >> 1 & 3) == 1 ? 1 : $header >> 3);
		}
		$at += 4 if $descriptor & 4;
		die "a frame is cut off\n" if $at > length $bytes;
		push @frames, substr($bytes, $begin, $at - $begin);
	}
	return @frames;
}

# What the zstd command makes of each of the strings.
sub zstd_expand
{
	my @frames = @_;
	my $dir = File::Temp::tempdir(CLEANUP => 1);
	my $n = 0;
	write_file("$dir/" . $n++ . '.zst', $_) for @frames;
	system('zstd', '-dq', map { "$dir/$_.zst" } 0 .. $n - 1) == 0 or die "zstd -d failed\n";
	return map { read_file("$dir/$_") } 0 .. $n - 1;
}

sub zstd_compress
{
	my ($bytes, @options) = @_;
	my $dir = File::Temp::tempdir(CLEANUP => 1);
	write_file("$dir/x", $bytes);
	system('zstd', '-q', @options, "$dir/x") == 0 or die "zstd failed\n";
	return read_file("$dir/x.zst");
}

# What "zstd -t" says about it: "" if all is well.
sub zstd_problem
{
	my ($bytes) = @_;
	my $dir = File::Temp::tempdir(CLEANUP => 1);
	write_file("$dir/x.zst", $bytes);
	my $text = `zstd -tq $dir/x.zst 2>&1`;
	return $? == 0 ? '' : $text || 'failed';
}

# Where the rows of a file in COPY's binary format begin; the last offset is that of the trailer.
sub copy_binary_offsets
{
	my ($bytes) = @_;
	die "no COPY signature\n" if substr($bytes, 0, 11) ne "PGCOPY\n\xff\r\n\0";
	my $at = 19 + unpack 'N', substr($bytes, 15, 4);
	my @offsets;
	while (1)
	{
		die "no trailer\n" if $at + 2 > length $bytes;
		my $fields = unpack 's>', substr($bytes, $at, 2);
		push @offsets, $at;
		$at += 2;
		last if $fields < 0;
		for (1 .. $fields)
		{
			my $len = unpack 'l>', substr($bytes, $at, 4);
			$at += 4 + ($len > 0 ? $len : 0);
		}
	}
	die "bytes behind the trailer\n" if $at != length $bytes;
	return @offsets;
}

sub read_file
{
	my ($path) = @_;
	open my $f, '<:raw', $path or die "$path: $!\n";
	local $/;
	return scalar <$f>;
}

sub write_file
{
	my ($path, $bytes) = @_;
	open my $f, '>:raw', $path or die "$path: $!\n";
	print $f $bytes;
	close $f or die "$path: $!\n";
}

# A file in the folder of a file: store, with its folders.  Whole at once, and always a new one, as the etag of a file
# is made of its inode, size and time; until then in a place where no pull finds it under another name.
sub put_file
{
	my ($dir, $key, $bytes) = @_;
	File::Path::make_path("$dir/$1") if $key =~ m{(.*)/};
	write_file("$dir/.new", $bytes);
	rename "$dir/.new", "$dir/$key" or die "$dir/$key: $!\n";
}

1;
