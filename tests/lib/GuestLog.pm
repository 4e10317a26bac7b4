# SPDX-License-Identifier: GPL-2.0-or-later
#
# What guests print on their console, and leave of their own findings there: "found-WHAT: ...".
package GuestLog;

use strict;
use warnings;
use Exporter qw(import);
use Test::More;
use Files;

our @EXPORT = qw(read_log trouble is_untroubled found found_by_phase WARNINGS);

# For trouble(), of a guest that nobody makes warn.
use constant WARNINGS => ('WARNING:', 'Call Trace', 'Kernel panic');

use constant REPORT_LINES => 50;

# Without the console's carriage returns.
sub read_log {
	my ($path) = @_;
	return slurp($path) =~ s/\r//gr;
}

# The lines that a kernel writes if something is wrong with it; patterns of what else means that.
sub trouble {
	my ($log, @more) = @_;
	my $any = join '|', 'BUG:', 'Oops', 'soft lockup', 'rcu.*stall', @more;
	return $log =~ /^(.*(?:$any).*?)\r?$/mg;
}

# A test of that; the kernel's report of the first trouble is shown, with its call trace.
sub is_untroubled {
	my ($log, $what, @more) = @_;
	my @trouble = trouble($log, @more);
	is_deeply(\@trouble, [], $what) and return 1;
	my @lines = split /\r?\n/, substr $log, index $log, $trouble[0];
	diag($_) for @lines[0 .. ($#lines < REPORT_LINES ? $#lines : REPORT_LINES)];
	return 0;
}

sub found {
	my ($log, $what) = @_;
	return $log =~ /^found-$what: (.*)$/mg;
}

# Of findings that begin with a phase of the test, those of each of these, as lists.
sub found_by_phase {
	my ($log, $what, @phases) = @_;
	my %lines;
	push @{$lines{$1}}, $2 while $log =~ /^found-$what: (\w+) (.*)$/mg;
	return map { $lines{$_} // [] } @phases;
}

1;
