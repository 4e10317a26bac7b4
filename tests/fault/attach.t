#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# sonde attach: each time another one of the tracer's, or the watchdog's, allocations and system calls fails. It ends
# in order or says in one line why not, and the domain is as before, at the latest after sonde recover.
# ROUNDS (6): how often, `all` for each step once; BUDGET: seconds, instead; SEED: of the steps. STEP: this one instead, in
# all ways. ONLY: of calls whose names begin so, for example vir: those of libvirt.
use strict;
use warnings;
use FindBin;
use Test::More;
use Time::HiRes qw(sleep);

use lib $FindBin::RealBin, map { "$FindBin::RealBin/../$_" } qw(guest lib libvirt);
use AttachTest;
use Campaign;
use Faults;
use Files;
use Process;
use Steps;

my $seed = $ENV{SEED} // int rand 1 << 31;
my $log; # of faults
my %modes = (exitless => ['exitless'], trap => ['trap', '--max-rate', 20]);

sub command {
	my ($mode, $who, @fault) = @_;
	my @faults = (only_calls(), @fault, "SONDE_FAULT_IN=$who", "SONDE_FAULT_LOG=$log");
	return ('env', @faults, attach_command('t', '--mode', @{$modes{$mode}}, '--duration', $who eq 'tracer' ? 1 : 100));
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

# Returns status and output.
sub attach_with_fault {
	my ($way, @fault) = @_;
	my ($mode, $who) = split /-/, $way;
	unlink $log;
	my @command = command($mode, $who, @fault);
	return $who eq 'tracer' ? $libvirt->run(@command) : leave_to_watchdog(@command);
}

# The steps of tracer or watchdog.
sub find_steps {
	my ($way) = @_;
	my ($status, $text) = attach_with_fault($way, 'SONDE_FAULT=none');
	is($status, 0, "$way: without faults attach has status 0") or diag($text);
	my @steps = steps_of($log);
	cmp_ok(scalar @steps, '>', $ENV{ONLY} ? 0 : 20, "$way: it has steps that can fail: " . @steps);
	is(scalar(journals()), 0, "$way: without faults everything is undone");
	return map { [$way, @$_] } @steps;
}

sub start_guest { start_ticking('t', cpus => 2) }

# What a round has left must not fail the next ones.
sub start_again {
	describe('t');
	$libvirt->destroy('t');
	unlink Libvirt::lasting_files();
	start_guest();
}

# What a fault has left is for sonde recover. Returns whether the step was made, whether attach had an error, and whether
# something is wrong.
sub round {
	my ($way, $step, $time) = @_;
	my ($status, $text) = attach_with_fault($way, fault_of($step, $time));
	my ($failed) = grep { $_ ne '-' } map { $_->[1] } faults_of($log);
	my @wrong = $way =~ /tracer/ ? wrong_with('attach', $status, $text) : ();
	wait_until(60, sub { !AttachTest::running_sondes() });
	my ($recovered, $why) = journals() ? recover('t') : (0, '');
	push @wrong, "recover: $why" if $recovered;
	push @wrong, leftovers('t');
	note("$way, $step, time $time: ", $failed ? "status $status" : 'was not made');
	return ($failed, $status, 0) unless @wrong;
	diag("$way, $step, time $time: @wrong; $text");
	recover('t');
	start_again();
	return ($failed, $status, 1);
}

AttachTest::start("$build/fault/sonde");
$log = "$work/out/faults";
srand $seed;
diag("SEED=$seed");
start_guest();
my @ways = map { ("$_-tracer", "$_-watchdog") } sort keys %modes;
my $steps = Steps->new("$build/fault/attach-steps" . ($ENV{ONLY} // ''), map { find_steps($_) } @ways);
my ($done, $errors, $harmed) = (0, 0, 0);

sub try_step {
	my ($way, $step, $time) = @_;
	my ($made, $status, $wrong) = round($way, $step, $time);
	$done++ if $made;
	$errors++ if $status;
	$harmed++ if $wrong;
	$steps->has_failed($way, $step) if $made && !$wrong;
}

if ($ENV{STEP}) {
	try_step($_, $ENV{STEP}, 1) for @ways;
} elsif (($ENV{ROUNDS} // '') eq 'all') {
	try_step($steps->next) while $steps->has_more;
} else {
	my $rounds = rounds(ROUNDS => 6, 1, 20);
	try_step($steps->next) while $rounds->next;
}
add_total($done, 'faults injected');
my ($failed, $of) = $steps->counts;
diag("$failed of $of steps of sonde attach have failed, by this test and those before it");
is($harmed, 0, "a step failed $done times, $errors attachments had an error: the domain is as before");
done_testing();
