# SPDX-License-Identifier: GPL-2.0-or-later
#
# Where members of a kernel's structs are, as pahole(1) reads it from the kernel's BTF: by another reader than Sonde's.
package KernelTypes;

use strict;
use warnings;
use Exporter qw(import);
use DamagedImage qw(unpack_image);
use Files;

our @EXPORT = qw(has_pahole kernel_types fill_places);

sub has_pahole { return system('command -v pahole >/dev/null && command -v lz4 >/dev/null') == 0 }

# The types of the kernel in $path; $to is a file for its vmlinux.
sub kernel_types {
	my ($path, $to) = @_;
	write_file($to, unpack_image(must_slurp($path), "$to.payload"));
	-s $to or die "$path: no ELF image is in it\n";
	return {vmlinux => $to};
}

# A member's line: "type name; /* offset size */", "type name:bits; /* offset:bit size */".
sub find_member {
	my ($types, $structure, $member) = @_;
	$types->{$structure} //= `pahole -F btf -C \Q$structure\E \Q$types->{vmlinux}\E 2>/dev/null`;
	my ($offset, $bit) = $types->{$structure} =~ m{\b\Q$member\E(?:\[\w+\])?(?::\d+)?;\s*/\*\s*(\d+)(?::\s*(\d+))?\s} or
		die "no $structure.$member\n";
	return ($offset, $bit);
}

# "{file.f_path+path.dentry}" becomes the sum of these offsets, in bytes; "{file.bit@}" that in bits within the member's container.
sub fill_places {
	my ($types, $text) = @_;
	$text =~ s/\{(\w+)\.(\w+)\@\}/(find_member($types, $1, $2))[1]/ge;
	$text =~ s{\{(\w+\.\w+(?:\+\w+\.\w+)*)\}}{
		my $sum = 0;
		$sum += (find_member($types, split /\./))[0] for split /\+/, $1;
		$sum}ge;
	return $text;
}

1;
