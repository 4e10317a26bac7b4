# SPDX-License-Identifier: GPL-2.0-or-later
#
# A guest kernel's text: its place in the image, and the differences between two copies.
package GuestText;

use strict;
use warnings;

# Offsets of the start and the end of the text from _text.
sub range {
	my ($sonde, $kernel) = @_;
	my %at;
	no warnings 'portable';
	for (`\Q$sonde\E symbols -k \Q$kernel\E _text _stext _etext`) {
		my ($address, $type, $name) = split;
		$at{$name} = hex($address =~ s/^0x//r);
	}
	return map { $at{$_} - $at{_text} } qw(_stext _etext);
}

# The text with zeros in place of the pointers that the kernel wrote into it during boot: they depend on its
# memory randomisation (see runtime-pointers.c). $tool: path of that program.
sub without_pointers {
	my ($tool, $kernel, $text) = @_;
	for my $offset (`\Q$tool\E \Q$kernel\E`) {
		substr($text, $offset, 8) = "\0" x 8 if $offset >= 0 && $offset + 8 <= length $text;
	}
	return $text;
}

# The first few ranges that differ, as text.
sub differences {
	my ($a, $b) = @_;
	return 'different lengths' if length $a != length $b;
	my $x = $a ^ $b;
	my @at;
	while (@at < 8 && $x =~ /[^\0]+/g) {
		my ($from, $n) = ($-[0], $+[0] - $-[0]);
		push @at, sprintf '+0x%x: %s, not %s', $from,
			map { unpack 'H*', substr $_, $from, $n } $a, $b;
	}
	return join '; ', @at;
}

1;
