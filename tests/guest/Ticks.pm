# SPDX-License-Identifier: GPL-2.0-or-later
#
# What frozen-inside says: "tick N at SECONDS", by the guest's own clock.
package Ticks;

use strict;
use warnings;
use Exporter qw(import);

our @EXPORT = qw(ticks_of longest_gap);

# The times of the ticks in a log; in a scalar context how many there are.
sub ticks_of {
	my @times = $_[0] =~ /^tick \d+ at ([\d.]+)\r?$/mg;
	return @times;
}

# Of times, in seconds.
sub longest_gap {
	my @times = @_;
	my $longest = 0;
	for my $i (1 .. $#times) {
		$longest = $times[$i] - $times[$i - 1] if $times[$i] - $times[$i - 1] > $longest;
	}
	return $longest;
}

1;
