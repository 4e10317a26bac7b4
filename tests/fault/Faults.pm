# SPDX-License-Identifier: GPL-2.0-or-later
#
# One fallible call of the whole program fails (faults.h): which one, and what must be so in any case.
package Faults;

use strict;
use warnings;
use Exporter qw(import);
use Files;

our @EXPORT = qw(choose_call chosen_calls only_calls faults_of wrong_with);

# A call of 1 to $calls. The first calls are chosen more often: those of the loops come in thousands.
sub choose_call {
	my ($calls) = @_;
	return 1 + int($calls**rand);
}

# The first and the last call of the environment's CALLS=FIRST-LAST; none without.
sub chosen_calls {
	my $calls = $ENV{CALLS} or return;
	return $calls =~ /^(\d+)-(\d+)$/ ? ($1, $2) : die "CALLS=$calls is not FIRST-LAST\n";
}

# For the program's environment: which calls count, where the test's environment says it.
sub only_calls { return length($ENV{ONLY} // '') ? "SONDE_FAULT_ONLY=$ENV{ONLY}" : () }

# What the log of a run says, the first process first: [calls, name of the failed call or '-'].
sub faults_of { return map { [split] } slurp($_[0]) =~ /^(\d+ .+)$/mg }

# What is wrong with the end of `sonde $verb`, by its status and its output.
sub wrong_with {
	my ($verb, $status, $text) = @_;
	my @wrong;
	push @wrong, "status $status" if $status > 128 && $status != 130;
	my @errors = grep { !/^(guest .* after [\d.]+ s|[\d,]+ allocations)/ } $text =~ /^sonde $verb: (.*)$/mg;
	push @wrong, 'no error is reported' if $status && !@errors;
	push @wrong, 'a sanitizer complains' if $text =~ /Sanitizer|runtime error/;
	return @wrong;
}

1;
