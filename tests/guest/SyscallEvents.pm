# SPDX-License-Identifier: GPL-2.0-or-later
#
# The guest's own raw_syscalls events, and those of the syscalls tracer, in one form, compared task by task.
package SyscallEvents;

use strict;
use warnings;
use Exporter qw(import);
use JSON::PP;

our @EXPORT = qw(own_events seen_events compare);

use constant {NR_EXECVE => 59, NR_CLONE => 56};

# A register as the guest prints it, without leading zeros.
sub hex_text { return $_[0] =~ s/^(?:0x)?0*(?=.)//r }

# By pid: [number, registers] and ["exit of NUMBER", result]. Of lines "PID sys_enter: ..." of the guest's own trace.
sub own_events {
	my ($text) = @_;
	my %of;
	for (split /\n/, $text) {
		push @{$of{$1}}, [$2, join ' ', map { hex_text($_) } split /, /, $3] if /^(\d+) sys_enter: NR (-?\d+) \((.*)\)/;
		push @{$of{$1}}, ["exit of $2", $3] if /^(\d+) sys_exit: NR (-?\d+) = (-?\d+)/;
	}
	return \%of;
}

# The same of JSON lines, with names in place of numbers.
sub seen_events {
	my ($lines) = @_;
	my %of;
	for (map { JSON::PP::decode_json($_) } grep { /^\{/ } split /\n/, $lines) {
		push @{$of{$_->{pid}}}, $_->{event} eq 'syscalls:sys_exit' ? ['exit', $_->{ret}]
			: [$_->{ip_symbol}, join ' ', map { hex_text($_) } @{$_}{map { "arg$_" } 0 .. 5}];
	}
	return \%of;
}

# From the last event on that the condition holds for.
sub from_last {
	my ($is, @events) = @_;
	my ($last) = grep { $is->($events[$_]) } reverse 0 .. $#events;
	return defined $last ? @events[$last .. $#events] : ();
}

# Both begin where the first task becomes the workload, and where a child has been born.
sub trimmed {
	my ($first, $pid, $own, $seen) = @_;
	my @own = @$own;
	return ([from_last(sub { $_[0][0] eq NR_EXECVE }, @own)], [from_last(sub { $_[0][0] =~ /_sys_execve$/ }, @$seen)])
		if $pid == $first;
	shift @own if $own[0][0] eq 'exit of ' . NR_CLONE;
	return (\@own, $seen);
}

# The name of each number, by what the two have at the same place; more than one is a difference.
sub names {
	my (%name) = @_;
	return map { "$_ is " . join ' and ', sort keys %{$name{$_}} } grep { keys %{$name{$_}} != 1 } sort keys %name;
}

# Returns how many events both have, the differences, and the numbers that are not one system call each. $first: the
# task that is compared from its last execve() on.
sub compare {
	my ($first, $own, $seen) = @_;
	my ($n, %name, @different) = (0);
	for my $pid (sort { $a <=> $b } keys %$own) {
		my ($a, $b) = trimmed($first, $pid, $own->{$pid}, $seen->{$pid} // []);
		push @different, "task $pid: " . @$a . ' events by the guest, ' . @$b . ' by Sonde' if @$a != @$b;
		for my $i (0 .. (@$a < @$b ? $#$a : $#$b)) {
			$n++;
			$name{$a->[$i][0]}{$b->[$i][0]}++;
			push @different, "task $pid: @{$a->[$i]}, by Sonde @{$b->[$i]}" if $a->[$i][1] ne $b->[$i][1];
		}
	}
	return ($n, \@different, names(map { $_ => $name{$_} } grep { !/^exit/ } keys %name));
}

1;
