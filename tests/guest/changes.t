#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What is traced changes while 4 vCPUs work: 8 monitor clients add, replace and remove instances of both lanes at
# once. Nothing is lost, and afterwards the text is what it was. From the environment: CHANGES (32, of all clients
# together, up to 1,000 in each guest) for each mode, SEED, GUEST='5.10 6.12' for other kernels than 6.1, MODES='trap' or
# 'pids', in which the guest looks at pids for kmem, too, BUDGET: seconds, instead of CHANGES.
use strict;
use warnings;
use FindBin;
use Digest::MD5 qw(md5_hex);
use JSON::PP;
use List::Util qw(max min sum0);
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Campaign;
use Files;
use GuestConfigs;
use GuestLog;
use GuestText;
use Testbed;
use Tree;

use constant KEEP_SECONDS => 90; # of the budget, for booting
# Of one guest, whose trace lies in the memory of the KVM host.
use constant { MOST_CHANGES => 1000, MOST_SECONDS => 240 };

my $seed = $ENV{SEED} // int rand 1 << 31;
my $changes = $ENV{CHANGES} // 32;
my @modes = split ' ', $ENV{MODES} // (in_campaign() ? 'exitless pids trap' : 'exitless');

sub total {
	my ($clients, @keys) = @_;
	return sum0(map { my $client = $_; map { $client->{$_} // 0 } @keys } @$clients);
}

sub check_clients {
	my ($result, $part) = @_;
	my $clients = $result->{clients} // [];
	is_deeply([map { $_->{failure} // () } @$clients], [], 'each client got true answers');
	my $done = total($clients, qw(trace-add trace-set trace-remove));
	in_campaign() ? cmp_ok($done, '>', 0, 'the instances were changed') : cmp_ok($done, '>=', 0.9 * $part,
		'the instances were changed');
	is(total($clients, 'waits'), 0, 'what was added or replaced was on at once');
	add_total($done, 'changes of instances');
	my @verbs = qw(trace-add trace-set trace-remove query-trace query-instances query-status);
	diag(sprintf '%d changes in %.0f s, %d rounds of work: %s', $done, $result->{seconds} // 0, $result->{ticks} // 0,
		join ', ', map { "$_ " . total($clients, $_) } @verbs);
	for my $kind (qw(refused again)) {
		my %why;
		for my $client (@$clients) {
			my $reasons = $client->{$kind} // {};
			$why{$_} += $reasons->{$_} for keys %$reasons;
		}
		note("$kind $why{$_} times: $_") for sort keys %why;
	}
}

sub check_query {
	my ($query, $least) = @_;
	is($query->{lost}, 0, 'no event was lost');
	is($query->{overruns}, 0, 'no record was lost in writing the trace');
	cmp_ok(($query->{allocs} // 0) + ($query->{frees} // 0), '>', $least, 'memory was traced');
	note(join ', ', map { "$_ " . ($query->{$_} // 0) } qw(allocs frees unpaired_returns in_flight nested));
}

# Of events that have it: a pid is that of one process, and the idle task of a vCPU has pid 0, and its name.
sub note_task {
	my ($tasks, $line) = @_;
	my %is = $line =~ /"(vcpu|pid|tgid|comm)":"?([^",}]+)/g;
	return if !defined $is{pid} || $line !~ /"instance":"k\d/;
	$tasks->{events}++;
	$tasks->{of}{$is{pid}}{$is{tgid}}++ if defined $is{tgid};
	push @{$tasks->{odd}}, $line if defined $is{comm} && ($is{pid} == 0) != ($is{comm} =~ m{^swapper/$is{vcpu}$});
}

sub check_tasks {
	my ($tasks) = @_;
	my $odd = $tasks->{odd} // [];
	my @several = grep { keys %{$tasks->{of}{$_}} > 1 } keys %{$tasks->{of} // {}};
	note(($tasks->{events} // 0) . ' events of late instances have their task');
	is(join('', @$odd[0 .. min($#$odd, 9)]), '', 'idle tasks have the pid and the name of one, and no others');
	is("@several", '', 'each task belongs to one process');
}

# The events of instances that record all objects of slabs (Linux 6.12 frees heads of skbs that a cache has by kfree()), one
# at a time: an address is allocated when it is free, and
# freed when it is not, but for what was allocated before.
sub pair_events {
	my ($trace, $tasks) = @_;
	my %seen = map { ($_ => {events => 0, sum => '', odd => []}) } qw(stay twin);
	open my $events, '-|', "$build/sonde", 'events', '--json', $trace or die "sonde events: $!\n";
	while (my $line = <$events>) {
		note_task($tasks, $line);
		my ($name) = $line =~ /"instance":"(stay|twin)"/ or next;
		my $of = $seen{$name};
		my ($event) = $line =~ /"event":"(?:kmem:)?(\w+)"/;
		my ($address) = $line =~ /"ptr":"?(0x[0-9a-f]+|\d+)/;
		$of->{events}++;
		$of->{sum} = md5_hex($of->{sum}, $line =~ s/"instance":"$name"//r);
		my $live = $of->{live}{$address};
		push @{$of->{odd}}, $line if $event =~ /free/ ? defined $live && !$live : $live;
		$of->{live}{$address} = $event !~ /free/;
	}
	close $events or die "sonde events: status $?\n";
	$#{$_->{odd}} = min($#{$_->{odd}}, 9) for values %seen;
	return %seen;
}

sub check_trace {
	my ($out, $mode, $least) = @_;
	my %seen = pair_events("$out/trace-$mode", \my %tasks);
	check_tasks(\%tasks);
	cmp_ok($seen{stay}{events}, '>', $least, "the instances that stayed have $seen{stay}{events} events");
	is($seen{twin}{sum}, $seen{stay}{sum}, 'all the same');
	return if $mode eq 'pids'; # one task frees what another one allocates
	is(join("\n", @{$seen{stay}{odd}}), '', 'no allocation of them is missing, made up or there twice');
}

# But for the jump labels that the guest switches itself, as those of its timers, which wait for a worker.
sub check_text {
	my ($out, $kernel, $mode) = @_;
	my ($before, $after) = map {
		GuestText::without_labels("$build/tests/guest/runtime-text", $kernel, slurp("$out/$mode-$_.text"))
	} qw(before after);
	cmp_ok(length $before, '>', 1 << 20, 'the text was saved before anything was traced');
	ok($after eq $before, 'afterwards it is the same') or diag(GuestText::differences($after, $before));
}

sub test_mode {
	my ($out, $kernel, $mode, $part) = @_;
	my $result = eval { decode_json(slurp("$out/$mode.json")) } // {failure => 'it left no result'};
	is($result->{failure}, undef, 'it ran to its end') or diag(slurp("$out/$mode.err"));
	is($result->{status}, 0, 'sonde run exits with status 0') or diag(slurp("$out/$mode.err"));
	is_untroubled(read_log("$out/$mode.log"), "the guest's log has no kernel warnings", WARNINGS);
	check_clients($result, $part);
	# Idle tasks and threads of the kernel do little, and in some boots very little. In a campaign there is as much work as there is
	# time for, which many changes leave little of.
	my $least = $mode eq 'pids' ? 10 : in_campaign() ? 100 : 1000;
	check_query($result->{query} // {}, $least);
	check_trace($out, $mode, $least);
	check_text($out, $kernel, $mode);
}

# `part`: so many changes, or seconds ("20s").
sub test_guest {
	my ($version, $part) = @_;
	my $kernel = kernel_image($version);
	my $out = "$build/guest/changes-$version";
	empty_folder($out);
	my $status = on_kvm_host({mem => 2048, timeout => 600 + $part =~ s/s$//r}, "$FindBin::RealBin/changes-guest", $out,
		$kernel, "$build/guest/initrd", $seed++, $part, GuestText::range("$build/sonde", $kernel), @modes);
	is($status, 0, "$version: changes-guest ran on the KVM host");
	for my $mode (@modes) {
		subtest "$version, $mode" => sub { test_mode($out, $kernel, $mode, $part) };
	}
}

# What is done, divided among guests.
sub parts {
	my ($seconds) = @_;
	my $n = 1 + int(defined $seconds ? $seconds / (MOST_SECONDS + KEEP_SECONDS) : ($changes - 1) / MOST_CHANGES);
	my $part = defined $seconds ? max(20, int($seconds / $n) - KEEP_SECONDS) . 's' : int(($changes + $n - 1) / $n);
	return ($part) x $n;
}

diag("SEED=$seed CHANGES=$changes");
my @kernels = GuestConfigs::kernels('6.1');
my $seconds = in_campaign() ? seconds_left() / @kernels : undef;
for my $version (@kernels) {
	test_guest($version, $_) for parts($seconds);
}
done_testing();
