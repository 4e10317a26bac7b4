# SPDX-License-Identifier: GPL-2.0-or-later
#
# Which step of the program fails next (steps.h). Each fails once before any of them fails again, the first time that
# it is made. A file has those that have failed: a test goes on where the last one stopped.
package Steps;

use strict;
use warnings;
use File::Basename qw(dirname);
use List::Util qw(shuffle);

use lib dirname(__FILE__) . '/../lib';
use Files;

# $file: may be missing. @steps: [way, step, how often it is made]. A way is what distinguishes runs of the program; it has
# no blanks. Steps of other programs are dropped from the file.
sub new {
	my ($class, $file, @steps) = @_;
	my %known = map { $_ => 1 } -e $file ? split(/\n/, slurp($file)) : ();
	my %failed = map { $_ => 1 } grep { $known{$_} } map { key(@$_) } @steps;
	my @left = shuffle grep { !$failed{key(@$_)} } @steps;
	my $self = bless {file => $file, steps => \@steps, left => \@left, failed => \%failed}, $class;
	$self->save;
	return $self;
}

sub save { return write_file($_[0]{file}, map { "$_\n" } sort keys %{$_[0]{failed}}) }

sub key { return "$_[0] $_[1]" }

# Whether there is one that has not failed and was not returned by next().
sub has_more { return scalar @{$_[0]{left}} }

# Returns way, step and which time it fails. When each has failed, any of them.
sub next {
	my ($self) = @_;
	my $step = shift @{$self->{left}};
	return ($step->[0], $step->[1], 1) if $step;
	my ($way, $text, $times) = @{$self->{steps}[rand @{$self->{steps}}]};
	return ($way, $text, 1 + int($times**rand));
}

sub has_failed {
	my ($self, $way, $step) = @_;
	$self->save unless $self->{failed}{key($way, $step)}++;
}

# The step did harm: the next test begins with it again.
sub try_again {
	my ($self, $way, $step) = @_;
	$self->save if delete $self->{failed}{key($way, $step)};
}

# Numbers of steps that have failed, by this test and those before it, and of all.
sub counts { return (scalar keys %{$_[0]{failed}}, scalar @{$_[0]{steps}}) }

1;
