# SPDX-License-Identifier: GPL-2.0-or-later
#
# The cost of tracing: one workload in a guest, untraced, traced by Sonde in each mode, with tracing switched
# off again, and traced with the guest's own events of the same kinds.
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

my %spec = (slab => 'kmem:kmalloc,cache', all => 'kmem');

sub ctl { run_or_die('sonde', 'ctl', MONITOR, @_) }

sub query {
	my $text = qx(sonde ctl --json ${\MONITOR} query-trace);
	$? == 0 or die "sonde ctl query-trace failed\n";
	my $answer = decode_json($text);
	$answer->{overruns} == 0 && $answer->{lost} == 0 or die "events were lost\n";
	return $answer;
}

# Exits to Sonde that tracing causes.
sub own_exits {
	my ($answer) = @_;
	return $answer->{doorbells} + sum0(map { $_->{traps} + $_->{ring_waits} } @{ $answer->{vcpus} });
}

sub run_workload {
	my ($vm, $count) = @_;
	$vm->say("run $count");
	$vm->expect(qr/sonde-timed: \d+\r?\n/);
}

# Also waits until the host has written its records, which happens asynchronously.
sub run_and_settle {
	my ($vm, $count) = @_;
	run_workload($vm, $count);
	sleep SETTLE_S;
}

# Instructions of the whole host, and in guest mode. The workload runs twice, because the events that count
# guest mode would disturb the first figure.
sub cost {
	my ($vm, $count) = @_;
	my ($exits, $begin) = ($vm->exits, instructions_now());
	run_and_settle($vm, $count);
	return { all => instructions_now() - $begin, exits => $vm->exits - $exits, runs => $count,
		guest => KvmEvents::guest_instructions(sub { run_and_settle($vm, $count) }) };
}

sub traced {
	my ($vm, $count, $kinds, $mode) = @_;
	ctl(qw(trace on), $spec{$kinds});
	my $begin = query();
	$begin->{mode} eq $mode or die "traced in $begin->{mode} mode: $begin->{no_exitless}\n";
	my $cost = cost($vm, $count);
	$cost->{events} = (query()->{events} - $begin->{events}) / 2;
	$cost->{steady} = steady($vm) if $mode eq "exitless" && $kinds eq "slab";
	ctl(qw(trace off));
	return $cost;
}

# Events and exits of a long run.
sub steady {
	my ($vm) = @_;
	my $begin = query();
	run_and_settle($vm, STEADY_RUN);
	my $end = query();
	return { events => $end->{events} - $begin->{events},
		exits => own_exits($end) - own_exits($begin) };
}

sub ftrace {
	my ($vm, $kinds) = @_;
	$vm->say("events $kinds");
	$vm->expect(qr/sonde-loop: ready\r?\n/);
	my $cost = cost($vm, RUN);
	$vm->say('count');
	$cost->{events} = $vm->expect(qr/sonde-events: (\d+)\r?\n/) / 2;
	$vm->say('off');
	$vm->expect(qr/sonde-loop: ready\r?\n/);
	return $cost;
}

sub boot {
	my ($mode, $dir, $kernel, $initrd) = @_;
	my $vm = VmProcess->start(name => $mode, errors => "/tmp/$mode.stderr",
		command => ['sonde', 'run', '-k', $kernel, '-i', $initrd, '-m', RAM_MIB, '-c', 1,
			'--kaslr-seed', 5, '--monitor', MONITOR, '-o', $dir, '--mode', $mode, '-p',
			'console=ttyS0 quiet panic=-1 sonde.run="guest-loop"']);
	$vm->expect(qr/sonde-loop: ready\r?\n/);
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
	run_workload($vm, RUN);    # fills the guest's caches
	$cost{untraced} = cost($vm, RUN);
	run_and_settle($vm, STEADY_RUN);
	for my $kinds (qw(slab all)) {
		$cost{"exitless_$kinds"} = traced($vm, RUN, $kinds, 'exitless');
		$cost{off} //= cost($vm, RUN);
		$cost{"ftrace_$kinds"} = ftrace($vm, $kinds);
	}
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
	$cost{untraced_before_trap} = cost($vm, TRAP_RUN);
	$cost{trap} = traced($vm, TRAP_RUN, 'slab', 'trap');
	end($vm);
	return \%cost;
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
			%{ measure_trap("/tmp/trap.$round", @machine) } };
	}
	return { rounds => \@rounds, size => sizes("/tmp/trace.1") };
}

1;
