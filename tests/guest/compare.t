#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# OracleCompare finds every kind of difference: it compares the events of one CPU with an equal trace, and
# with traces that each differ in one way. No guest runs.
use strict;
use warnings;
no warnings 'portable'; # 64-bit addresses
use Cwd qw(realpath);
use File::Basename qw(dirname);
use File::Temp qw(tempdir);
use Test::More;

use lib dirname(realpath($0));
use OracleCompare;

use constant { SITE => 0xffffffff81000000, GFP => 0xcc0, DIRECT_MAP => 0xffff888000000000 };

my $dir = tempdir(CLEANUP => 1);

# One event: [kind, pointer or page frame, bytes, pid if there is one, flags if they are others, CPU if it is not 0, the
# guest's call site if it is another, Sonde's likewise].
sub marker { return ['kmalloc', DIRECT_MAP + 0x100000, $_[0]] }

sub work {
	my @events;
	for my $i (1 .. 40) {
		my $object = DIRECT_MAP + 0x2000 + $i * 64;
		push @events, ['kmalloc', $object, 64], ['mm_page_alloc', 0x500 + $i, 4096], ['kmem_cache_alloc', $object + 0x8000, 32],
			['kfree', $object, 0], ['kmem_cache_free', $object + 0x8000, 0], ['mm_page_free', 0x500 + $i, 4096];
	}
	return @events;
}

sub free_of { return ['kmem_cache_free', DIRECT_MAP + 0x70000 + $_[0] * 64, 0] }

# Events before and after the window: the guest's tracing and Sonde's start and end at different times.
sub whole { return (free_of(1), free_of(2), marker(4812), work(), marker(5212), free_of(3), free_of(4)) }

sub write_guest {
	my (@events) = @_;
	open my $out, '>', "$dir/guest" or die $!;
	my $number = 0;
	for (@events) {
		my ($kind, $what, $bytes, $pid, $gfp, $cpu, $site) = @$_;
		printf $out "%d %d %s %s%s\n", $cpu // 0, $number++, $kind, $kind =~ /^mm_/
			? sprintf('0x%x %d %s', $what, 0, $kind eq 'mm_page_alloc' ? sprintf('0x%x', $gfp // GFP) : '-')
			: sprintf('0x%x 0x%x %d %d 0x%x', $site // SITE, $what, $bytes, $bytes, $gfp // GFP), defined $pid ? " pid=$pid" : '';
	}
	close $out;
}

sub write_sonde {
	my (@events) = @_;
	write_sonde_cpu(0, grep { !$_->[5] } @events);
	write_sonde_cpu(1, grep { $_->[5] } @events);
}

sub write_sonde_cpu {
	my ($cpu, @events) = @_;
	open my $out, '>:raw', "$dir/cpu$cpu" or die $!;
	for (@events) {
		my ($kind, $what, $bytes, $site) = @{$_}[0 .. 2, 7];
		my $type = $kind =~ /^mm_/ ? OracleCompare::PAGES : $kind =~ /^k(malloc|free)$/ ? OracleCompare::KMALLOC : OracleCompare::CACHE;
		my $pointer = $type == OracleCompare::PAGES ? DIRECT_MAP + $what * 4096 : $what;
		print $out pack 'CCS<l<Q<Q<Q<Q<Q<q<', $kind =~ /alloc/ ? OracleCompare::ALLOC : OracleCompare::FREE, $type,
			OracleCompare::RECORD_SIZE, 0, $site // SITE, $pointer, $bytes, $bytes, GFP, 0;
	}
	close $out;
}

# The number of differences of each kind.
sub found {
	my ($guest, $trace) = @_;
	write_guest(@$guest);
	write_sonde(@$trace);
	my $result = OracleCompare::compare("$dir/guest", $dir, 1);
	return {map { $_ => scalar @{$result->{$_}} } grep { @{$result->{$_}} } qw(missing extra moved edges split disordered faults)};
}

my @all = whole();
my $first = 3; # index of the first event of work()
my $result = found(\@all, \@all);
is_deeply($result, {}, 'equal traces have no differences') or diag(explain($result));

# Applies the change to each event, one per copy of the trace. Returns for how many the comparison finds the
# expected differences.
sub seen {
	my ($change, %expected) = @_;
	my $seen = 0;
	for my $i ($first .. $#all - 3) {
		my @trace = @all;
		$change->(\@trace, $i);
		my $found = found(\@all, \@trace);
		$seen++ unless grep { ($found->{$_} // 0) != $expected{$_} } keys %expected;
	}
	return $seen;
}

sub test_each {
	my $lose = sub { splice @{$_[0]}, $_[1], 1 };
	my $double = sub { splice @{$_[0]}, $_[1], 0, $all[$_[1]] };
	my $alter = sub { my ($kind, $pointer, @rest) = @{$all[$_[1]]}; $_[0][$_[1]] = [$kind, $pointer + 8 * 4096, @rest] };
	is(seen($lose, missing => 1), 240, 'each of 240 events that is missing in the trace is found');
	is(seen($double, extra => 1), 240, 'each of 240 events that is in the trace twice is found');
	is(seen($alter, missing => 1, extra => 1), 240, 'each of 240 events with another pointer is found');
}

sub test_disordered {
	my @trace = @all;
	@trace[$first, $first + 3] = @trace[$first + 3, $first];
	is_deeply(found(\@all, \@trace), {disordered => 1}, 'a free that precedes its allocation is found');
}

# An interrupt inside the marker's function: its events are on different sides of the marker.
sub test_edges {
	my @trace = @all;
	my ($end) = grep { $all[$_][2] == 5212 } 0 .. $#all;
	@trace[$end, $end + 1] = @trace[$end + 1, $end];
	is_deeply(found(\@all, \@trace), {edges => 1}, "an event before the end marker in the trace and after it in the guest's is an edge");
	is_deeply(found(\@trace, \@all), {edges => 1}, "an event after the end marker in the trace and before it in the guest's is an edge");
	@trace = @all;
	splice @trace, $end, 0, $all[$end + 1];
	is_deeply(found(\@all, \@trace), {extra => 1}, 'an event that the trace has before and after the end marker is extra');
	@trace = @all;
	splice @trace, $end, 0, free_of(5);
	is_deeply(found(\@all, \@trace), {extra => 1}, "an event before the end marker that the guest does not have is extra");
}

# The same at either end, while the object lives on: it is freed from the same place again and again.
sub test_repeated_edges {
	my @life = (['kmem_cache_alloc', free_of(1)->[1], 64], free_of(1));
	my @guest = (marker(4812), free_of(1), @life, @life, work(), @life, ['kmem_cache_alloc', free_of(1)->[1], 64], marker(5212), free_of(1));
	my @trace = @guest;
	@trace[0, 1] = @trace[1, 0];
	is_deeply(found(\@guest, \@trace), {edges => 1}, 'the first of several equal events is an edge');
	is_deeply(found(\@trace, \@guest), {edges => 1}, "the first of several equal events is an edge in the guest's events");
	@trace = @guest;
	@trace[-2, -1] = @trace[-1, -2];
	is_deeply(found(\@guest, \@trace), {edges => 1}, 'the last of several equal events is an edge');
	is_deeply(found(\@trace, \@guest), {edges => 1}, "the last of several equal events is an edge in the guest's events");
}

# Within memalloc_noio_save() or memalloc_nofs_save() the guest takes flags away from pages.
sub test_flags {
	for (['GFP_NOIO', 'mm_page_alloc', GFP & ~0xc0, {}], ['GFP_NOFS', 'mm_page_alloc', GFP & ~0x80, {}],
		['other flags', 'mm_page_alloc', GFP & ~0x840, {missing => 1, extra => 1}],
		['more flags', 'mm_page_alloc', GFP | 0x100, {missing => 1, extra => 1}],
		['GFP_NOIO', 'kmem_cache_alloc', GFP & ~0xc0, {missing => 1, extra => 1}]) {
		my ($what, $kind, $gfp, $expected) = @$_;
		my @guest = @all;
		my ($i) = grep { $all[$_][0] eq $kind } 0 .. $#all;
		$guest[$i] = [@{$all[$i]}[0 .. 2], undef, $gfp];
		is_deeply(found(\@guest, \@all), $expected, "$kind with $what in the guest's event: " .
			(%$expected ? 'a difference' : 'as the guest has changed it'));
	}
}

# The guest's event of a free has another call site.
sub test_split {
	for (['kfree', {split => 1}], ['kmem_cache_free', {split => 1}], ['kmalloc', {missing => 1, extra => 1}]) {
		my ($kind, $expected) = @$_;
		my @guest = @all;
		my ($i) = grep { $all[$_][0] eq $kind && $_ >= $first } 0 .. $#all;
		$guest[$i] = [@{$all[$i]}[0 .. 2], (undef) x 3, SITE + 16];
		is_deeply(found(\@guest, \@all), $expected, "$kind with another call site in the guest's event: " .
			($expected->{split} ? 'its function may be split' : 'a difference'));
	}
}

sub on_cpu { my ($event, $cpu, $pid) = @_; return [@{$event}[0 .. 2], $pid, undef, $cpu] }

# Two CPUs, and a task that moves from one to the other between the guest's event and Sonde's record.
sub test_moved {
	my @other = map { on_cpu($_, 1) } marker(4812), free_of(7), marker(5212);
	my @guest = (@all, @other);
	is_deeply(found(\@guest, \@guest), {}, 'equal traces of two CPUs have no differences');
	my @trace = (@all[0 .. $first + 1], @all[$first + 3 .. $#all], $other[0], on_cpu($all[$first + 2], 1), @other[1 .. $#other]);
	is_deeply(found(\@guest, \@trace), {moved => 1}, 'an event that the trace has on another CPU has moved');
	push @trace, splice(@trace, -1, 1, on_cpu($all[$first + 2], 1)), on_cpu(free_of(8), 1);
	is_deeply(found(\@guest, \@trace), {moved => 1, extra => 1}, 'one that it has there twice has moved and is extra');
	is_deeply(found(\@guest, [(grep { $_ != $all[$first + 2] } @all), @other]), {missing => 1},
		'one that it has on no CPU is missing');
}

sub test_tasks {
	my @guest = map { [@{$all[$_]}[0 .. 2], 100 + $_ % 7] } 0 .. $#all;
	my %pids = (0 => [map { $_->[3] } @guest]);
	my $compare = sub {
		write_guest(@guest);
		write_sonde(@guest);
		my $result = OracleCompare::compare("$dir/guest", $dir, 1, @_);
		return [$result->{tasks}, scalar @{$result->{others}}];
	};
	is_deeply($compare->(\%pids), [242, 0], 'the pids of all events are compared');
	is_deeply($compare->(), [0, 0], 'those of a trace without any are not');
	$pids{0}[$first + 17]++;
	is_deeply($compare->(\%pids), [242, 1], 'another pid is found');
}

# A page that is allocated in bulk, of which the guest has no event, and then once more.
sub test_unseen {
	my ($alloc, $free) = (['mm_page_alloc', 0x900, 4096], ['mm_page_free', 0x900, 4096]);
	my @guest = (marker(4812), work(), $free, $alloc, $free, marker(5212));
	write_guest(@guest);
	write_sonde(@guest[0 .. $#guest - 4], [@$alloc, (undef) x 4, SITE + 16], @guest[$#guest - 3 .. $#guest]);
	my $result = OracleCompare::compare("$dir/guest", $dir, 1, {}, sub { grep { $_ == SITE + 16 } @_ });
	is_deeply([map { $_->[1][2] } @{$result->{extra}}], [SITE + 16], 'of two equal allocations the one that has no event is extra');
	is_deeply([map { @{$result->{$_}} } qw(missing disordered)], [], 'and the other one is the one that the guest has');
}

sub test_no_window {
	my @trace = grep { $_->[2] != 5212 } @all;
	is_deeply(found(\@all, \@trace), {faults => 1}, 'a trace without an end marker is found');
}

test_each();
test_disordered();
test_edges();
test_repeated_edges();
test_flags();
test_split();
test_moved();
test_tasks();
test_unseen();
test_no_window();
done_testing();
