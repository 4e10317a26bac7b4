# SPDX-License-Identifier: GPL-2.0-or-later
#
# One name for each function that has several, as that of a system call without arguments: which one a kernel, or Sonde,
# prints of an address is a matter of chance.
package SymbolNames;

use strict;
use warnings;

# Stacks are lists of NAME+OFFSET. A name that several functions have stays as it is.
sub unify {
	my ($sonde, $kernel, @stacks) = @_;
	my $name_of = first_names($sonde, $kernel, names_in(@stacks));
	for my $stack (@stacks) {
		s/^(\w[\w.]*)(?=\+)/$name_of->{$1} \/\/ $1/e for @$stack;
	}
}

# By name: the first of all that its address has among these.
sub first_names {
	my ($sonde, $kernel, @names) = @_;
	my (%at, %first);
	open my $in, '-|', 'sh', '-c', 'exec "$@" 2>/dev/null', 'sh', $sonde, 'symbols', '-k', $kernel, @names or die "$sonde: $!\n";
	while (<$in>) {
		my ($address, $name) = /^(0x\w+) \w (\S+)$/ or next;
		push @{$at{$name}}, $address;
	}
	my %address = map { $_ => $at{$_}[0] } grep { @{$at{$_}} == 1 } keys %at;
	$first{$address{$_}} //= $_ for sort keys %address;
	return {map { $_ => $first{$address{$_}} } keys %address};
}

sub names_in {
	my %names;
	for my $stack (@_) {
		/^(\w[\w.]*)\+/ and $names{$1} = 1 for @$stack;
	}
	return sort keys %names;
}

1;
