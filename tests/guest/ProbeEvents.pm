# SPDX-License-Identifier: GPL-2.0-or-later
#
# The guest's own kprobe events, and those of dynamic probes, in one form; and whether each value is the same.
package ProbeEvents;

use strict;
use warnings;
use Exporter qw(import);
use JSON::PP;

our @EXPORT = qw(own_events again_events seen_events compare);

use constant STRING_MAX => 255; # characters of a string that Sonde keeps

# Of what was compared.
our ($events, $values, $faults, $longest, $nr_cut, $contradictions) = (0) x 6;

# By event: [pid, {name => value}] in order, of the guest's own trace. A string may end with a newline, which Sonde shows as '?'.
sub own_events {
	my ($text) = @_;
	my %of;
	for (split /\n/, $text =~ s/\n" /?" /gr) {
		my ($pid, $event, $values) = /^.*-(\d+)\s+\[\d+\].*?: (\w+): \(.*?\) ?(.*)$/ or next;
		# What nothing lies at: the guest's own events say so of strings only, numbers are what was in the buffer before.
		$values =~ s/=\S+/=(fault)/g if $event eq 'faulty' || $values =~ /^mode=.* name=\(fault\)/;
		push @{$of{$event}}, [$pid, {$values =~ /(\w+)=("[^"]*"|\{[^}]*\}|\S+)/g}];
	}
	return \%of;
}

# What the guest has recorded once more, in another buffer: its text, and the differences of that (unified, without context).
sub again_events {
	my ($text, $differences) = @_;
	my @lines = split /\n/, $text, -1;
	while ($differences =~ /^@@ -(\d+)(?:,\d+)? \+.*? @@\n((?:-.*\n)+)((?:\+.*\n)+)/mg) {
		my ($first, @parts) = ($1, $2, $3);
		my ($own, $again) = map { [map { substr $_, 1 } split /\n/] } @parts;
		splice @lines, $first - 1, @$own, @$again if @$own == @$again;
	}
	return own_events(join "\n", @lines);
}

sub seen_events {
	my ($lines) = @_;
	my %of;
	push @{$of{$_->{event} =~ s/.*://r}}, $_ for map { JSON::PP::decode_json($_) } grep { /^\{/ } split /\n/, $lines;
	return \%of;
}

sub number {
	my ($text) = @_;
	return !defined $text ? 0 : $text =~ /^0x/ ? do { no warnings 'portable'; hex $text } : $text;
}

sub is_same_string {
	my ($own, $seen, $cut) = @_;
	$longest = length $own if length $own > $longest;
	$nr_cut++ if $cut;
	return length $own > STRING_MAX ? $cut && $seen eq substr $own, 0, STRING_MAX : !$cut && $seen eq $own;
}

# In 3 of 10 boots, without a tracer, too, a few bytes are 0 in one of the events that a 6.12 records, some 64 KiB from the beginning of
# its buffer: the pid, a value, or the rest of a string. A second buffer has them at another event. So the guest records each event
# twice, and what its records do not agree on is what one of them says.
sub is_same_task {
	my ($records, $seen) = @_;
	return grep { $_->[0] == $seen } @$records;
}

# Elements are fields of their own, unless there is one only.
sub is_same_array {
	my ($name, $own, $seen) = @_;
	my @own = $own =~ /("[^"]*"|[^,]+)/g;
	return is_same($name, $own[0], $seen) if @own == 1;
	return !grep { !is_same("${name}_$_", $own[$_], $seen) } 0 .. $#own;
}

# A faulting element of an array is 0 in ftrace's.
sub is_same {
	my ($name, $own, $seen) = @_;
	return !grep { /^\Q$name\E(?:_\d+)?$/ && defined $seen->{$_} } keys %$seen if $own eq '(fault)';
	return $own =~ s/[{}',]//gr eq ($seen->{$name} // '') if $own =~ /^\{?'/; # characters
	return is_same_array($name, $1, $seen) if $own =~ /^\{(.*)\}$/;
	return $own eq qq("$seen->{"${name}_symbol"}") if exists $seen->{"${name}_symbol"} && $own =~ /^"/;
	return is_same_string($own =~ s/^"|"$//gr, $seen->{$name} // '', $seen->{"${name}_cut"}) if $own =~ /^"/;
	return ($seen->{"${name}_symbol"} // '') eq $own if exists $seen->{"${name}_symbol"} && $own !~ /^(?:0x)?[0-9a-f]+$/;
	return number($own) == number($seen->{$name});
}

sub first_difference {
	my ($own, $again, $seen) = @_;
	for my $i (0 .. $#$own) {
		my @records = ($own->[$i], $again->[$i]);
		my ($pid, $values) = @{$own->[$i]};
		my $task = $seen->[$i]{common_pid} // $seen->[$i]{pid};
		return "event $i is of task $pid, by Sonde of $task" unless is_same_task(\@records, $task);
		for my $name (sort keys %$values) {
			return "event $i: $name is $values->{$name}, by Sonde " . ($seen->[$i]{$name} // 'a fault')
				unless grep { is_same($name, $_->[1]{$name}, $seen->[$i]) } @records;
		}
	}
	return '';
}

sub nr_contradictions {
	my ($own, $again) = @_;
	return scalar grep {
		my ($one, $other) = ($own->[$_], $again->[$_]);
		$one->[0] != $other->[0] || grep { $one->[1]{$_} ne $other->[1]{$_} } keys %{$one->[1]};
	} 0 .. $#$own;
}

# Elements of an array are fields of their own.
sub nr_faults {
	my ($values, $seen) = @_;
	return scalar grep { my $name = $_; !grep { defined $seen->{$_} } $name, "${name}_0", "${name}_1" } keys %$values;
}

# Sonde records before the guest begins and after it ends: somewhere in between are the guest's events. `again`: the same, as the
# guest has recorded them once more.
sub compare {
	my ($own, $seen, $again) = @_;
	$again //= $own;
	my $difference = 'Sonde has fewer: ' . @$seen;
	for my $from (0 .. @$seen - @$own) {
		my $here = first_difference($own, $again, [@$seen[$from .. $from + $#$own]]);
		if ($here eq '') {
			$events += @$own;
			$contradictions += nr_contradictions($own, $again);
			$values += keys %{$_->[1]} for @$own;
			$faults += nr_faults($own->[$_][1], $seen->[$from + $_]) for 0 .. $#$own;
			return '';
		}
		$difference = $here if $from == 0 || $difference lt $here;
	}
	return $difference;
}

1;
