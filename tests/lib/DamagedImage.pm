# SPDX-License-Identifier: GPL-2.0-or-later
#
# Kernels whose BTF lacks something.
package DamagedImage;

use strict;
use warnings;
use Exporter qw(import);
use Files;

our @EXPORT = qw(image_without types_of);
our @EXPORT_OK = qw(unpack_image);

# Magic number, version, flags and the header's length, as they are in all kernels.
use constant BTF_HEADER => pack 'v C C V', 0xeb9f, 1, 0, 24;

# The ELF image in a bzImage; $scratch is a file for a moment. The last four bytes of the payload are its size, and not
# part of the stream.
sub unpack_image {
	my ($bytes, $scratch) = @_;
	my ($sectors, $offset, $length) = unpack 'x497 C x86 V V', $bytes;
	write_file($scratch, substr $bytes, ($sectors + 1) * 512 + $offset, $length - 4);
	my $is_lz4 = substr($bytes, ($sectors + 1) * 512 + $offset, 4) eq "\x02\x21\x4c\x18";
	my $image = $is_lz4 ? `lz4 -dcq <\Q$scratch\E` : `zstd -dcq <\Q$scratch\E`;
	unlink $scratch;
	return $image;
}

# Writes the BTF of the kernel in $path to $to, and returns that. Behind its header's length are where its types and its strings
# begin, behind the header, and how long they are.
sub types_of {
	my ($path, $to) = @_;
	my $image = unpack_image(must_slurp($path), "$to.payload");
	my $at = index $image, BTF_HEADER;
	$at >= 0 or die "$path: no BTF\n";
	my ($length, undef, undef, $strings, $size) = unpack 'x4 V5', substr $image, $at, 24;
	write_file($to, substr $image, $at, $length + $strings + $size);
	return $to;
}

# The kernel in $path, in whose BTF a name is another one of the same length, or for 'BTF' the header's length is wrong, as
# vmlinux in $to. Returns $to.
sub image_without {
	my ($path, $name, $to) = @_;
	my $image = unpack_image(must_slurp($path), "$to.payload");
	my ($old, $new) = $name eq 'BTF' ? (BTF_HEADER, substr(BTF_HEADER, 0, 4) . pack 'V', 1) : ("\0$name\0", "\0" . $name =~ s/.$/X/r . "\0");
	$image =~ s/\Q$old\E/$new/g or die "$path: no $name\n";
	write_file($to, $image);
	return $to;
}

1;
