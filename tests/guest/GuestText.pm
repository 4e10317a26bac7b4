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

# What the kernel itself writes into its text, of one kind: lists of numbers (see runtime-text.c). $tool: path of that program.
sub places {
	my ($tool, $kernel, $kind) = @_;
	return map { my ($is, @at) = split; $is eq $kind ? [@at] : () } `\Q$tool\E \Q$kernel\E`;
}

# The text with zeros in place of the pointers that the kernel wrote into it during boot: they depend on its memory
# randomisation.
sub without_pointers {
	my ($tool, $kernel, $text) = @_;
	for (places($tool, $kernel, 'pointer')) {
		my ($at) = @$_;
		substr($text, $at, 8) = "\0" x 8 if $at >= 0 && $at + 8 <= length $text;
	}
	return $text;
}

# The text with zeros in place of the kernel's jump labels, which it switches while it runs. What is neither the NOP nor the jump
# of a label stays.
sub without_labels {
	my ($tool, $kernel, $text) = @_;
	for (places($tool, $kernel, 'label')) {
		my ($at, $target) = @$_;
		next if $at < 0 || $at + 5 > length $text;
		my $by = $target - $at;
		my @short = $by >= -126 && $by < 130 ? pack('C c', 0xeb, $by - 2) : ();
		for my $of ("\x0f\x1f\x44\x00\x00", pack('C l<', 0xe9, $by - 5), "\x66\x90", @short) {
			next if substr($text, $at, length $of) ne $of;
			substr($text, $at, length $of) = "\0" x length $of;
			last;
		}
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
