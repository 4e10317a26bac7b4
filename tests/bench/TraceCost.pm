# SPDX-License-Identifier: GPL-2.0-or-later
#
# The cost of tracing: one workload in a guest, untraced, traced by Sonde in each mode, with tracing switched
# off again, and traced with the guest's own events of the same kinds; and each tracer in a guest with four vCPUs.
package TraceCost;

use strict;
use warnings;
use JSON::PP;
use List::Util qw(sum0);
use Time::HiRes qw(sleep);
use KvmEvents;
use Process;
use VmProcess qw(instructions_now);

# RUN is limited by the buffer of kvm:* events; STEADY_RUN is long enough to count rare exits.
use constant { RAM_MIB => 256, RUN => 100, TRAP_RUN => 10, STEADY_RUN => 1000 };
use constant { MONITOR => "/tmp/bench.monitor", SETTLE_S => 0.5 };
# All functions have 40 times as many events.
use constant { FUNCTION_RUN => 20, FUNCTION_STEADY_RUN => 100 };

# All vCPUs take turns on the host's only CPU.
use constant { VCPUS => 4, WIDE_TRIES => 5 };
# What the guest does now and then, some 6,000 instructions in an iteration, is in one of them and not in another.
use constant TRIES => 3;
# Iterations of a short and of a long run there.
my %wide_run = (kmem => [400, 2000], functions => [100, 400], syscall => [300, 1000]);
# Rings of 4 MiB: those of 2 MiB have room for the counts of 39,321 functions.
use constant COUNT_RINGS => ('--subbufs', 16);

my %spec = (slab => 'kmem:kmalloc,cache', all => 'kmem', function => 'function', graph => 'graph', syscall => 'syscalls',
	profile => 'profile');

sub ctl { run_or_die('sh', '-c', 'exec sonde ctl "$@" >/dev/null', 'sh', MONITOR, @_) }

sub query {
	my $text = qx(sonde ctl --json ${\MONITOR} query-trace);
	$? == 0 or die "sonde ctl query-trace failed\n";
	my $answer = decode_json($text);
	$answer->{overruns} == 0 && $answer->{lost} == 0 or die "events were lost\n";
	return $answer;
}

sub check_mode {
	my ($mode) = @_;
	my $query = query();
	$query->{mode} eq $mode or die "traced in $query->{mode} mode: $query->{no_exitless}\n";
}

# Entries and returns that the guest has counted.
sub counted {
	my $text = qx(sonde profile --json ${\MONITOR});
	$? == 0 or die "sonde profile failed\n";
	return sum0(map { $_->{hits} + $_->{timed} } map { @{ $_->{functions} } } @{ decode_json($text)->{profiles} });
}

# Exits to Sonde that tracing causes.
sub own_exits {
	my ($answer) = @_;
	return $answer->{doorbells} + sum0(map { $_->{traps} + $_->{ring_waits} } @{ $answer->{vcpus} });
}

# Calls $measure, which runs the workload, and adds the events to its result. Processes that wait are there before, and end
# after it.
sub with_workload {
	my ($vm, $count, $measure) = @_;
	if ($vm->{waits}) {
		$vm->say("$vm->{run} $count");
		$vm->expect(qr/workload: ready\r?\n/);
	}
	my $number = $vm->{number} // sub { 0 };
	my $begin = $number->();
	my $result = $measure->();
	$result->{events} = $number->() - $begin;
	if ($vm->{waits}) {
		$vm->say('end');
		$vm->expect(qr/ 0 failed\r?\nsonde-loop: ready\r?\n/);
	}
	return $result;
}

sub run_workload {
	my ($vm, $count) = @_;
	$vm->say($vm->{waits} ? 'begin' : "$vm->{run} $count");
	$vm->expect($vm->{waits} ? qr/workload: done\r?\n/ : qr/sonde-timed: \d+\r?\n/);
}

# Also waits until the host has written its records, which happens asynchronously.
sub run_and_settle {
	my ($vm, $count) = @_;
	run_workload($vm, $count);
	sleep SETTLE_S;
}

sub run_once {
	my ($vm, $count) = @_;
	with_workload($vm, $count, sub { run_and_settle($vm, $count); return {} });
}

my @threads = qw(drain writer);

# Instructions in guest mode, and in system calls of the threads that drain and write. A first run gets the pages of the
# rings, each at an exit. If there are several others, the one with the fewest instructions counts.
# The guest's own events are of all runs, or of the last one.
sub cost {
	my ($vm, $count) = @_;
	run_once($vm, $count);
	my $tries = $vm->{tries} // 1;
	my ($least) = sort { $a->{guest} <=> $b->{guest} } map { watched_cost($vm, $count) } 1 .. $tries;
	return { %$least, runs => $count, ftrace_runs => $vm->{waits} ? 1 : 1 + $tries };
}

sub watched_cost {
	my ($vm, $count) = @_;
	return with_workload($vm, $count, sub {
		my $exits = $vm->exits;
		my $tids = $vm->threads;
		my %watched = map { $_ => $tids->{$_} } grep { $tids->{$_} } @threads;
		my $seen = KvmEvents::instructions(\%watched, sub { run_and_settle($vm, $count) });
		return { exits => $vm->exits - $exits, guest => $seen->{guest},
			map({ ("${_}_calls" => $seen->{calls}{$_} // 0) } @threads) };
	});
}

# Instructions of the whole host, and of these threads, without the trace events of cost(), which take some. The run
# is long: what the host does each second does not count for an event.
sub long_cost {
	my ($vm, $count) = @_;
	return with_workload($vm, $count, sub {
		my ($before, $begin) = ($vm->thread_instructions, instructions_now());
		run_and_settle($vm, $count);
		my $all = instructions_now() - $begin;
		my $after = $vm->thread_instructions;
		return { runs => $count, all => $all, map({ ($_ => ($after->{$_} // 0) - ($before->{$_} // 0)) } @threads) };
	});
}

# A guest without tracing. All others are compared with it, so that what it does now and then must not be in it.
sub untraced_cost {
	my ($vm, $count, $long_count) = @_;
	my ($least) = sort { $a->{guest} <=> $b->{guest} } map { cost($vm, $count) } 1 .. 2;
	return { %$least, long => long_cost($vm, $long_count) };
}

sub traced {
	my ($vm, $count, $long_count, $kinds, $mode) = @_;
	ctl(qw(trace on), $spec{$kinds});
	check_mode($mode);
	my $cost = traced_cost($vm, $count, $long_count);
	check_mode($mode);
	ctl(qw(trace off));
	return $cost;
}

# The same with the events of each, and the exits that tracing causes.
sub traced_cost {
	my ($vm, $count, $long_count) = @_;
	local $vm->{number} = sub { query()->{events} };
	my $cost = cost($vm, $count);
	my $begin = query();
	my $long = long_cost($vm, $long_count);
	$long->{own_exits} = own_exits(query()) - own_exits($begin);
	return { %$cost, long => $long };
}

# --- functions ------------------------------------------------------------------------------------------------

# How long the last switch of sites has stopped the guest, and how many there were.
sub last_switch {
	my ($begin, $end) = @_;
	$end->{switches} == $begin->{switches} + 1 or die "it took $end->{switches} - $begin->{switches} stops\n";
	return { map { $_ => $end->{$_} - $begin->{$_} } qw(switched_sites switch_ns) };
}

# One instance on all sites, then a second one on the same, then one that no call passes.
sub functions {
	my ($vm) = @_;
	my %cost = (function_untraced => untraced_cost($vm, FUNCTION_RUN, FUNCTION_STEADY_RUN));
	my $off = query();
	ctl(qw(trace on), "one=$spec{function}");
	my $on = query();
	$cost{switch_on} = last_switch($off, $on);
	$cost{exitless_function} = traced_cost($vm, FUNCTION_RUN, FUNCTION_STEADY_RUN);
	ctl(qw(trace add), "two=$spec{function}");
	$cost{exitless_functions} = cost($vm, FUNCTION_RUN);
	ctl(qw(trace set), "two=$spec{function}:pid=4000000");
	ctl(qw(trace remove one));
	$cost{refused} = cost($vm, FUNCTION_RUN);
	$on = query();
	ctl(qw(trace remove two));
	$cost{switch_off} = last_switch($on, query());
	ctl(qw(trace off));
	$cost{ftrace_function} = ftrace($vm, 'function', FUNCTION_RUN);
	return %cost;
}

# Entries and returns, which are two events of a call: of all functions, as the guest's function_graph; of system calls,
# as its raw_syscalls events.
sub calls {
	my ($vm) = @_;
	my %cost;
	for (['graph', FUNCTION_RUN, FUNCTION_STEADY_RUN], ['syscall', RUN, STEADY_RUN]) {
		my ($kinds, $run, $steady) = @$_;
		$cost{"exitless_$kinds"} = traced($vm, $run, $steady, $kinds, 'exitless');
		$cost{"ftrace_$kinds"} = ftrace($vm, $kinds, $run);
	}
	return %cost;
}

# The same calls as graph, counted in the guest.
sub profile {
	my ($vm, $count, $long_count) = @_;
	ctl(qw(trace on), $spec{profile});
	check_mode('exitless');
	local $vm->{number} = \&counted;
	my $cost = cost($vm, $count);
	my $long = long_cost($vm, $long_count);
	check_mode('exitless');
	ctl(qw(trace off));
	return { %$cost, long => $long };
}

sub ftrace {
	my ($vm, $kinds, $count) = @_;
	$vm->say("events $kinds");
	$vm->expect(qr/sonde-loop: ready\r?\n/);
	my $cost = cost($vm, $count);
	$vm->say('count');
	$cost->{events} = $vm->expect(qr/sonde-events: (\d+)\r?\n/) / $cost->{ftrace_runs};
	$vm->say('off');
	$vm->expect(qr/sonde-loop: ready\r?\n/);
	return $cost;
}

sub boot {
	my ($mode, $dir, $kernel, $initrd, $cpus, @more) = @_;
	my $vm = VmProcess->start(name => $mode, errors => "/tmp/$mode.stderr",
		command => ['sonde', 'run', '-k', $kernel, '-i', $initrd, '-m', RAM_MIB, '-c', $cpus // 1, @more,
			'--kaslr-seed', 5, '--monitor', MONITOR, '-o', $dir, '--mode', $mode, '-p',
			'console=ttyS0 quiet panic=-1 sonde.run="guest-loop"']);
	$vm->expect(qr/sonde-loop: ready\r?\n/);
	$vm->{run} = 'run';
	return $vm;
}

sub end {
	my ($vm) = @_;
	$vm->say('quit');
	$vm->end == 0 or $vm->failed('exited with an error');
}

# A guest is untraced only before tracing was first on, so each round boots new guests.
sub measure_exitless {
	my ($dir, @machine) = @_;
	my $vm = boot('exitless', $dir, @machine);
	my %cost;
	$vm->{tries} = TRIES;
	run_workload($vm, RUN);    # fills the guest's caches
	$cost{untraced} = $cost{syscall_untraced} = untraced_cost($vm, RUN, STEADY_RUN);
	for my $kinds (qw(slab all)) {
		$cost{"exitless_$kinds"} = traced($vm, RUN, STEADY_RUN, $kinds, 'exitless');
		$cost{off} //= cost($vm, RUN);
		$cost{"ftrace_$kinds"} = ftrace($vm, $kinds, RUN);
	}
	%cost = (%cost, functions($vm), calls($vm));
	end($vm);
	return \%cost;
}

sub measure_profile {
	my ($dir, @machine) = @_;
	my $vm = boot('exitless', $dir, @machine, 1, COUNT_RINGS);
	my %cost;
	run_workload($vm, RUN);
	$cost{profile_untraced} = untraced_cost($vm, FUNCTION_RUN, FUNCTION_STEADY_RUN);
	$cost{exitless_profile} = profile($vm, FUNCTION_RUN, FUNCTION_STEADY_RUN);
	end($vm);
	return \%cost;
}

sub measure_trap {
	my ($dir, @machine) = @_;
	my $vm = boot('trap', $dir, @machine);
	my %cost;
	run_workload($vm, RUN);
	cost($vm, RUN);
	run_and_settle($vm, STEADY_RUN);
	$cost{untraced_later} = cost($vm, RUN);
	$cost{untraced_before_trap} = untraced_cost($vm, TRAP_RUN, TRAP_RUN);
	$cost{trap} = traced($vm, TRAP_RUN, TRAP_RUN, 'slab', 'trap');
	end($vm);
	return \%cost;
}

# --- four vCPUs -----------------------------------------------------------------------------------------------

# On a host with one CPU, vCPUs that wait for a spinlock use up their time slices before its holder, or the next in the
# queue, gets the CPU: millions of instructions each. Therefore processes begin and end outside of what is measured, and
# hardly ever do what others have to wait for.

# The same calls as of the function tracer, all of which are another task's than the one to trace.
sub refused {
	my ($vm, $count, $long_count) = @_;
	ctl(qw(trace on), "$spec{function}:pid=4000000");
	check_mode('exitless');
	my $cost = cost($vm, $count);
	my $long = long_cost($vm, $long_count);
	check_mode('exitless');
	ctl(qw(trace off));
	return { %$cost, long => $long };
}

# Each tracer, and the guest's own.
sub wide_costs {
	my ($vm, $run, @kinds) = @_;
	return map { ("exitless_$_" => traced($vm, @$run, $_, 'exitless'), "ftrace_$_" => ftrace($vm, $_, $run->[0])) } @kinds;
}

sub measure_wide {
	my ($dir, @machine) = @_;
	my $vm = boot('exitless', $dir, @machine, VCPUS, COUNT_RINGS);
	my %cost;
	my ($kmem, $functions, $syscall) = @wide_run{qw(kmem functions syscall)};
	@$vm{qw(run waits tries)} = ('run-O', 1, WIDE_TRIES);
	run_once($vm, $kmem->[0]) for 1 .. 3;    # the guest's memory is there afterwards
	$cost{untraced} = untraced_cost($vm, @$kmem);
	$cost{function_untraced} = $cost{profile_untraced} = untraced_cost($vm, @$functions);
	%cost = (%cost, wide_costs($vm, $kmem, qw(slab all)), wide_costs($vm, $functions, qw(function graph)));
	$cost{exitless_profile} = profile($vm, @$functions);
	$cost{refused} = refused($vm, @$functions);
	$vm->{run} = 'run-S';
	$cost{syscall_untraced} = untraced_cost($vm, @$syscall);
	%cost = (%cost, wide_costs($vm, $syscall, 'syscall'));
	end($vm);
	return \%cost;
}

sub run_wide {
	my ($rounds, @machine) = @_;
	my @rounds;
	for my $round (1 .. $rounds) {
		print STDERR "bench: tracing four vCPUs, round $round\n";
		push @rounds, measure_wide("/tmp/wide.$round", @machine);
	}
	return \@rounds;
}

sub sizes {
	my ($dir) = @_;
	my $text = qx(trace-size $dir);
	$? == 0 or die "trace-size failed\n";
	return decode_json($text);
}

sub run {
	my ($rounds, @machine) = @_;
	my @rounds;
	for my $round (1 .. $rounds) {
		print STDERR "bench: tracing, round $round\n";
		push @rounds, { %{ measure_exitless("/tmp/trace.$round", @machine) },
			%{ measure_profile("/tmp/profile.$round", @machine) }, %{ measure_trap("/tmp/trap.$round", @machine) } };
	}
	return { rounds => \@rounds, size => sizes("/tmp/trace.1") };
}

1;
