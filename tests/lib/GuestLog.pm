# SPDX-License-Identifier: GPL-2.0-or-later
#
# Guest console logs: kernel warnings, and the guest's own findings, "found-WHAT: ...".
package GuestLog;

use strict;
use warnings;
use Exporter qw(import);
use IO::Uncompress::Gunzip qw(gunzip);
use MIME::Base64 qw(decode_base64);
use Test::More;
use Files;

our @EXPORT = qw(read_log unpacked trouble is_untroubled found found_by_phase WARNINGS);

# For trouble(), in a guest that is not made to warn.
use constant WARNINGS => ('WARNING:', 'Call Trace', 'Kernel panic');

use constant REPORT_LINES => 50;

# Without the console's carriage returns.
sub read_log {
	my ($path) = @_;
	return slurp($path) =~ s/\r//gr;
}

# What the guest has printed as `gzip | base64` between two lines; '' if it has not.
sub unpacked {
	my ($log, $begin, $end) = @_;
	my ($packed) = $log =~ /^\Q$begin\E\n(.*?)^\Q$end\E/ms or return '';
	$packed =~ s/^\[ *\d.*\n//mg; # the kernel's own messages
	gunzip(\decode_base64($packed), \my $text) or return '';
	return $text;
}

# The lines of a log that report a bug of the kernel. @more: further patterns of such lines.
sub trouble {
	my ($log, @more) = @_;
	my $any = join '|', 'BUG:', 'Oops', 'soft lockup', 'rcu.*detected.*stall', @more;
	return $log =~ /^(.*(?:$any).*?)\r?$/mg;
}

# Tests that there are none. Prints the kernel's first report, with its call trace, and its first line again at
# the end: of a long output only the end may be kept.
sub is_untroubled {
	my ($log, $what, @more) = @_;
	my @trouble = trouble($log, @more);
	is_deeply(\@trouble, [], $what) and return 1;
	my @lines = split /\r?\n/, substr $log, index $log, $trouble[0];
	diag($_) for @lines[0 .. ($#lines < REPORT_LINES ? $#lines : REPORT_LINES)], "first of these lines: $trouble[0]";
	return 0;
}

sub found {
	my ($log, $what) = @_;
	return $log =~ /^found-$what: (.*)$/mg;
}

# Findings that begin with the name of a test phase: one list for each phase.
sub found_by_phase {
	my ($log, $what, @phases) = @_;
	my %lines;
	push @{$lines{$1}}, $2 while $log =~ /^found-$what: (\w+) (.*)$/mg;
	return map { $lines{$_} // [] } @phases;
}

1;
