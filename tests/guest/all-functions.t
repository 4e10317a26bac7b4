#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# All functions by one instance of the function tracer, against the guest's own: two runs of one workload in the deterministic
# testbed, of which one task is compared. It does the same in each round. Now and then an interrupt comes, or an allocator's list is
# empty, or a clock has gone on. So each system call of a round makes calls of several kinds. Of each, the most frequent kind that both
# tracers have is compared: the same calls, in the same order. Functions that only one of the two has are listed by name: Sonde has refused
# them, or ftrace does not trace them. GUEST='5.10 6.12' for other kernels.
use strict;
use warnings;
use FindBin;
use JSON::PP;
use List::Util qw(max min);
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Campaign;
use Files;
use GuestConfigs;
use GuestLog;
use Testbed;
use Tree;

# Of how many rounds at least a kind is; calls of a round; functions that only one of them can trace.
use constant { ROUNDS => 40, ALIKE => 3, CALLS => 2000, FEW => 20 };
use constant FIRST => '__x64_sys_mkdir'; # of a round

# [pid, "name address"]
sub own_calls {
	my ($log) = @_;
	return map { /^(\d+) (\S+) <(\w+)>$/ ? [$1, "$2 0x$3"] : () } split /\n/, unpacked($log, 'sonde-begin', 'sonde-end');
}

sub seen_calls {
	my ($text) = @_;
	return map { my $event = JSON::PP::decode_json($_); [$event->{pid}, "$event->{ip_symbol} $event->{ip}"] }
		grep { /^\{/ } split /\n/, $text;
}

# The calls of the task that has the most rounds.
sub workload_of {
	my %of;
	push @{$of{$_->[0]}}, $_->[1] for @_;
	my %rounds = map { my $pid = $_; $pid => scalar grep { is_first($_) } @{$of{$pid}} } keys %of;
	my ($most) = sort { $rounds{$b} <=> $rounds{$a} } keys %rounds;
	return defined $most ? @{$of{$most}} : ();
}

sub is_first { return index($_[0], FIRST . ' ') == 0 }

# Whole rounds: lists of system calls, each with what it calls, until the next one begins, as text of a line for a call.
sub rounds_of {
	my @rounds;
	for (@_) {
		push @rounds, [] if is_first($_);
		next unless @rounds;
		if (/^__x64_sys_/) { push @{$rounds[-1]}, $_ }
		else { $rounds[-1][-1] .= "\n$_" }
	}
	pop @rounds;
	return @rounds;
}

sub count { my %count; $count{$_}++ for @_; return \%count }

sub system_calls { return join ' ', map { /^(\S+)/ } @{$_[0]} }

# Those with the same system calls as most.
sub usual_rounds {
	my @rounds = rounds_of(@_);
	my $count = count(map { system_calls($_) } @rounds);
	my ($usual) = sort { $count->{$b} <=> $count->{$a} } keys %$count;
	return grep { system_calls($_) eq $usual } @rounds;
}

# A system call's calls, without those of functions that the other tracer cannot trace.
sub without {
	my ($calls, $functions) = @_;
	return join "\n", grep { !$functions->{s/ .*//r} } split /\n/, $calls;
}

# The kind that both have most often: [its calls, how often the one has it that has it less often].
sub usual_kind {
	my ($own, $seen) = map { count(@$_) } @_;
	my ($most) = sort { $b->[1] <=> $a->[1] || $a->[0] cmp $b->[0] } map { [$_, min($own->{$_}, $seen->{$_} // 0)] } keys %$own;
	return $most;
}

# For a reader of a failure: how the most frequent kinds differ.
sub difference {
	my ($own, $seen) = map { my $count = count(@$_); [split /\n/, (sort { $count->{$b} <=> $count->{$a} } keys %$count)[0]] } @_;
	my ($i) = grep { ($own->[$_] // '') ne ($seen->[$_] // '') } 0 .. max($#$own, $#$seen);
	return !defined $i ? "$own->[0]: rare" : "$own->[0]: behind " . ($own->[$i - 1] // 'its end') . ' comes '
		. ($own->[$i] // 'nothing') . ', by Sonde ' . ($seen->[$i] // 'nothing');
}

sub compare {
	my ($kernel, $own, $seen, $only_own, $only_seen) = @_;
	my @own = usual_rounds(@$own);
	my @seen = usual_rounds(@$seen);
	cmp_ok($_, '>', ROUNDS / 2, "$kernel: $_ rounds make the same system calls") for scalar(@own), scalar(@seen);
	is(system_calls($seen[0]), system_calls($own[0]), "$kernel: they are the same by both tracers");
	my ($calls, @different) = (0);
	for my $i (0 .. $#{$own[0]}) {
		my @own_kinds = map { without($_->[$i], $only_own) } @own;
		my @seen_kinds = map { without($_->[$i], $only_seen) } @seen;
		my $kind = usual_kind(\@own_kinds, \@seen_kinds);
		if ($kind->[1] >= ALIKE) { $calls += split /\n/, $kind->[0] }
		else { push @different, difference(\@own_kinds, \@seen_kinds) }
	}
	is(join("\n", @different), '', "$kernel: each of " . @{$own[0]} . ' system calls has the same calls, in the same order');
	cmp_ok($calls, '>', CALLS, "$kernel: $calls in all");
	add_total($calls, "calls of a round, those of the guest's own function tracer");
}

sub symbols { return split /\n/, qx($build/sonde symbols -k \Q$_[0]\E $_[1] 2>/dev/null) }

# Of two lists of names, which name a function each: those of the one list that are not in the other by another name.
sub only_by_address {
	my ($image, $one, $other) = @_;
	return {} unless @$one;
	my %address = map { /^(\S+) \S (\S+)/ ? ($2 => $1) : () } symbols($image, "@$one @$other");
	my %there = map { $address{$_} => 1 } grep { $address{$_} } @$other;
	return {map { $_ => 1 } grep { !$there{$address{$_} // ''} } @$one};
}

# By name: what only one of the tracers can trace. ftrace lists sites without a function, too.
sub functions_of {
	my ($kernel, $log, @refused) = @_;
	my $image = kernel_image($kernel);
	my %own = map { s/ .*//r => 1 } grep { !/^__ftrace_invalid_address/ }
		split /\n/, unpacked($log, 'sonde-functions-begin', 'sonde-functions-end');
	my %seen = map { $_ => 1 } symbols($image, "--functions '*'");
	my @only_own = grep { !$seen{$_} } keys %own;
	my @only_seen = grep { !$own{$_} } keys %seen;
	my @of_both = (only_by_address($image, \@only_own, \@only_seen), only_by_address($image, \@only_seen, \@only_own));
	$of_both[0]{$_->{function}} = 1 for @refused;
	return @of_both;
}

sub check {
	my ($kernel) = @_;
	my $out = "$build/guest/all-functions-$kernel";
	empty_folder($out);
	build_initrd("$out/initrd", "$FindBin::RealBin/all-functions-inside=/bin/all-functions-inside");
	is(on_kvm_host({icount => undef}, "$FindBin::RealBin/all-functions-guest", $out, kernel_image($kernel),
			"$out/initrd", ROUNDS), 0, "$kernel: both guests ran on the KVM host");
	is(slurp("$out/failure"), '', "$kernel: no run was given up") or diag(slurp("$out/err"));
	check_run($kernel, $out);
}

sub check_run {
	my ($kernel, $out) = @_;
	my ($ftrace, $sonde) = map { read_log("$out/$_.log") } qw(ftrace sonde);
	my $status = eval { JSON::PP::decode_json(slurp("$out/status.json")) } // {};
	my ($only_own, $only_seen) = functions_of($kernel, $ftrace, @{$status->{sites}{refused} // []});
	my @own = workload_of(own_calls($ftrace));
	my @seen = workload_of(seen_calls(slurp("$out/events")));
	cmp_ok(keys(%$only_own), '<', FEW, "$kernel: ftrace alone can trace: " . join ' ', sort keys %$only_own);
	cmp_ok(keys(%$only_seen), '<', FEW, "$kernel: Sonde alone can trace: " . join ' ', sort keys %$only_seen);
	compare($kernel, \@own, \@seen, $only_own, $only_seen);
	is($status->{overruns}, 0, "$kernel: none is lost");
	is_untroubled($sonde, "$kernel: nothing in the guest's log", WARNINGS);
}

check($_) for GuestConfigs::kernels('6.1');
done_testing();
