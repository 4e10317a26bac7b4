# SPDX-License-Identifier: GPL-2.0-or-later
#
# One fallible call of the whole program fails (faults.h), and what must be so in any case.
package Faults;

use strict;
use warnings;
use Exporter qw(import);
use Files;

our @EXPORT = qw(only_calls fault_of faults_of steps_of wrong_with);

# For the program's environment: which calls count, where the test's environment says it.
sub only_calls { return length($ENV{ONLY} // '') ? "SONDE_FAULT_ONLY=$ENV{ONLY}" : () }

# For the program's environment: that this step fails the n-th time.
sub fault_of { return ("SONDE_FAULT=$_[0]", "SONDE_FAULT_TIME=$_[1]") }

# What the log of a run says, the first process first: [calls, name of the failed call or '-'].
sub faults_of { return map { [split] } slurp($_[0]) =~ /^(\d+ .+)$/mg }

# The steps that it says were made: [step, how often].
sub steps_of { return map { [split] } slurp($_[0]) =~ /^\t(.+)$/mg }

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
