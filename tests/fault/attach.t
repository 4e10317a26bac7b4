#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# sonde attach: each time another one of the tracer's, or the watchdog's, allocations and system calls fails. It ends
# in order or says in one line why not, and the domain is as before, at the latest after sonde recover.
# ROUNDS (6): how often; BUDGET: seconds, instead; SEED: of the calls. CALLS: FIRST-LAST, each of these calls of tracer and
# watchdog in both modes instead. ONLY: of calls whose names begin so, for example vir: those of libvirt.
use strict;
use warnings;
use FindBin;
use List::Util qw(min);
use Test::More;
use Time::HiRes qw(sleep);

use lib $FindBin::RealBin, map { "$FindBin::RealBin/../$_" } qw(guest lib libvirt);
use AttachTest;
use Campaign;
use Faults;
use Files;
use Process;

my $seed = $ENV{SEED} // int rand 1 << 31;
my $log; # of faults
my @modes = (['exitless'], ['trap', '--max-rate', 20]);

sub command {
	my ($call, $who, @mode) = @_;
	my @faults = (only_calls(), "SONDE_FAULT=$call", "SONDE_FAULT_IN=$who", "SONDE_FAULT_LOG=$log");
	return ('env', @faults, attach_command('t', '--mode', @mode, '--duration', $who eq 'tracer' ? 1 : 100));
}

# The tracer is killed, and its watchdog undoes what it did. Returns the watchdog's output.
sub leave_to_watchdog {
	my (@command) = @_;
	my $pid = $libvirt->spawn('killed', @command);
	wait_tracing();
	sleep 0.5;
	kill KILL => children_of($pid) ? $pid : ();
	waitpid $pid, 0;
	wait_until(60, sub { !AttachTest::running_sondes() });
	return (0, log_of('killed'));
}

# Returns status and output, and what the log of faults says.
sub attach_with_fault {
	my ($call, $who, @mode) = @_;
	unlink $log;
	my @command = command($call, $who, @mode);
	my ($status, $text) = $who eq 'tracer' ? $libvirt->run(@command) : leave_to_watchdog(@command);
	return ($status, $text, faults_of($log));
}

# Fallible calls of tracer or watchdog.
sub count_calls {
	my ($mode, $who) = @_;
	my ($status, $text, @faults) = attach_with_fault(0, $who, @$mode);
	is($status, 0, "@$mode: without faults attach has status 0") or diag($text);
	my ($calls) = sort { $b <=> $a } map { $_->[0] } @faults;
	cmp_ok($calls // 0, '>', $ENV{ONLY} ? 0 : 20, "@$mode: the $who has fallible calls: " . ($calls // 0));
	is(scalar(journals()), 0, "@$mode: without faults the $who undoes everything");
	return $calls || 1;
}

sub start_guest { start_ticking('t', cpus => 2) }

# What a round has done to the guest must not fail the next ones.
sub start_again {
	describe('t');
	$libvirt->destroy('t');
	start_guest();
}

# What a fault has left is for sonde recover.
sub round {
	my ($mode, $who, $call) = @_;
	my ($status, $text, @faults) = attach_with_fault($call, $who, @$mode);
	my ($failed) = grep { $_ ne '-' } map { $_->[1] } @faults;
	my @wrong = $who eq 'tracer' ? wrong_with('attach', $status, $text) : ();
	wait_until(60, sub { !AttachTest::running_sondes() });
	my ($recovered, $why) = journals() ? recover('t') : (0, '');
	push @wrong, "recover: $why" if $recovered;
	push @wrong, leftovers('t');
	note("@$mode, $who, call $call, ", $failed // 'none', ": status $status");
	return $status unless @wrong;
	diag("@$mode, $who, call $call, ", $failed // 'none', ": @wrong; $text");
	recover('t');
	start_again();
	return ($status, 1);
}

AttachTest::start("$build/fault/sonde");
$log = "$work/out/faults";
srand $seed;
diag("SEED=$seed");
start_guest();
my @ways = map { my $mode = $_; map { [$mode, $_, count_calls($mode, $_)] } qw(tracer watchdog) } @modes;
my ($failed, $harmed) = (0, 0);
my $done = 0;

sub try_call {
	my ($mode, $who, $call) = @_;
	my ($status, $wrong) = round($mode, $who, $call);
	$done++;
	$failed++ if $status;
	$harmed++ if $wrong;
}

sub try_all {
	my ($first, $last) = @_;
	for my $way (@ways) {
		my ($mode, $who, $calls) = @$way;
		try_call($mode, $who, $_) for $first .. min($last, $calls);
	}
}

sub try_some {
	my $rounds = rounds(ROUNDS => 6, 1, 20);
	while (my $i = $rounds->next) {
		my ($mode, $who, $calls) = @{$ways[$i % @ways]};
		try_call($mode, $who, choose_call($calls));
	}
}

my @calls = chosen_calls();
@calls ? try_all(@calls) : try_some();
add_total($done, 'faults injected');
is($harmed, 0, "a call failed $done times, $failed attachments had an error: the domain is as before");
done_testing();
