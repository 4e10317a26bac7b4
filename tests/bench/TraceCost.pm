# SPDX-License-Identifier: GPL-2.0-or-later
#
# What tracing costs the guest: one workload in one guest, untraced, traced by Sonde, switched off
# again, and traced by the guest's own kmem events.
package TraceCost;

use strict;
use warnings;
use JSON::PP;
use VmProcess;

use constant { RAM_MIB => 256, ITERATIONS => 50 };
use constant { MONITOR => "/tmp/bench.monitor", SPEC => "kmem:kmalloc,cache" };

sub ctl { system('sonde', 'ctl', MONITOR, @_) == 0 or die "sonde ctl @_ failed\n" }

sub query {
	my $text = qx(sonde ctl --json ${\MONITOR} query-trace);
	$? == 0 or die "sonde ctl query-trace failed\n";
	my $answer = decode_json($text);
	$answer->{overruns} == 0 && $answer->{lost} == 0 or die "events were lost\n";
	return $answer;
}

sub timed {
	my ($vm) = @_;
	$vm->say('run');
	return $vm->expect(qr/sonde-timed: (\d+)\r?\n/);
}

sub traced {
	my ($vm, $figures) = @_;
	ctl(qw(trace on), SPEC);
	my ($events, $exits) = (query()->{events}, $vm->exits);
	$figures->{traced} = timed($vm);
	$figures->{trap_exits} = $vm->exits - $exits;
	$figures->{trap_events} = query()->{events} - $events;
	ctl(qw(trace off));
}

sub ftrace {
	my ($vm, $figures) = @_;
	$vm->say('events');
	$vm->expect(qr/sonde-loop: ready\r?\n/);
	$figures->{ftrace} = timed($vm);
	$vm->say('count');
	$figures->{ftrace_events} = $vm->expect(qr/sonde-events: (\d+)\r?\n/);
	$vm->say('off');
	$vm->expect(qr/sonde-loop: ready\r?\n/);
}

# A guest of its own for each round, as only before the first tracing is it truly untraced.
sub measure {
	my ($round, $kernel, $initrd) = @_;
	print STDERR "bench: tracing, round $round\n";
	my %figures;
	my $vm = VmProcess->start(name => 'traced', errors => '/tmp/traced.stderr',
		command => ['sonde', 'run', '-k', $kernel, '-i', $initrd, '-m', RAM_MIB, '-c', 1,
			'--kaslr-seed', 5, '--monitor', MONITOR, '-o', "/tmp/trace.$round", '-p',
			'console=ttyS0 quiet panic=-1 sonde.run="guest-loop ' . ITERATIONS . '"']);
	$vm->expect(qr/sonde-loop: ready\r?\n/);
	timed($vm);    # fills the guest's caches
	my $exits = $vm->exits;
	$figures{untraced} = timed($vm);
	$figures{untraced_exits} = $vm->exits - $exits;
	traced($vm, \%figures);
	$figures{off} = timed($vm);
	ftrace($vm, \%figures);
	$vm->say('quit');
	$vm->end == 0 or $vm->failed('did not end well');
	return \%figures;
}

sub run {
	my ($rounds, $kernel, $initrd) = @_;
	my %result;
	for my $round (1 .. $rounds) {
		my $figures = measure($round, $kernel, $initrd);
		push @{ $result{$_} }, 0 + $figures->{$_} for keys %$figures;
	}
	return { %result, iterations => ITERATIONS };
}

1;
