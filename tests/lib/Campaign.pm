# SPDX-License-Identifier: GPL-2.0-or-later
#
# Tests that can run as campaigns: more rounds of the same, for a given time, and totals of what was done.
#
#   BUDGET        seconds that the whole test may take; it then does as many rounds as fit
#   SONDE_TOTALS  a file that gets a line for each total: the number and what was counted
package Campaign;

use strict;
use warnings;
use Exporter qw(import);
use Time::HiRes qw(time);

our @EXPORT = qw(rounds in_campaign seconds_left add_total);

my $end = time + ($ENV{BUDGET} // 0);

sub in_campaign { return exists $ENV{BUDGET} }

# Of the test's budget.
sub seconds_left { return $end - time }

# The rounds of one loop: as many as the environment says in $name; or in a campaign as many as fit into a
# share of the time that is left when $keep seconds are kept for what comes after them; or $default. At least one.
sub rounds {
	my ($name, $default, $share, $keep) = @_;
	my $self = bless {name => $name, done => 0, most => $ENV{$name} // $default}, __PACKAGE__;
	return $self if !in_campaign() || exists $ENV{$name};
	my $seconds = (seconds_left() - ($keep // 0)) * ($share // 1);
	@$self{qw(most end)} = (undef, time + $seconds);
	return $self;
}

# The number of the next round, from 1; 0 if there is none.
sub next {
	my ($self) = @_;
	return 0 if defined $self->{most} ? $self->{done} >= $self->{most} : $self->{done} && time >= $self->{end};
	return ++$self->{done};
}

# One round more than planned.
sub extend {
	my ($self) = @_;
	$self->{most}++ if defined $self->{most};
	$self->{end} = time + 1 if defined $self->{end} && time >= $self->{end};
}

# Whether this round is the last one, as far as is known.
sub is_last {
	my ($self) = @_;
	return defined $self->{most} ? $self->{done} >= $self->{most} : time >= $self->{end};
}

# How often next() has returned a number.
sub done { return $_[0]{done} }

sub add_total {
	my ($number, $what) = @_;
	my $path = $ENV{SONDE_TOTALS} or return;
	open my $totals, '>>', $path or die "$path: $!\n";
	syswrite $totals, "$number $what\n";
}

1;
