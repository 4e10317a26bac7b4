# SPDX-License-Identifier: GPL-2.0-or-later
#
# Counts a virtual machine's exits to user space and its instructions in guest mode, from the host's own
# kvm:* trace events; and what threads spend in system calls. The events take instructions themselves, so host
# time is not measured meanwhile.
package KvmEvents;

use strict;
use warnings;
use Files;
use List::Util qw(max sum);

use constant { TRACEFS => '/sys/kernel/tracing', BUFFER_KIB => 32768 };

# The host serves an interrupt before the kvm_exit event.
my @events = qw(kvm/kvm_entry kvm/kvm_exit kvm/kvm_userspace_exit irq_vectors/local_timer_entry
	irq_vectors/reschedule_entry irq/irq_handler_entry);

sub set {
	my ($path, $value) = @_;
	write_file(TRACEFS . "/$path", "$value\n");
}

# The TSC runs at 1 GHz, so it counts instructions like all clocks here, but is not rounded.
sub start {
	set('buffer_size_kb', BUFFER_KIB);
	set('trace_clock', 'x86-tsc');    # also empties the buffer
	set("events/$_/enable", 1) for @events;
}

sub stop {
	set("events/$_/enable", 0) for @events;
	for my $stats (glob TRACEFS . '/per_cpu/cpu*/stats') {
		must_slurp($stats) =~ /^overrun: 0$/m or die "too many trace events\n";
	}
}

# Sums up each thread's instructions in guest mode. Threads take turns on a CPU, but only between their kvm_exit and their
# next kvm_entry. A thread may be in guest mode when tracing starts.
sub read_events {
	my (%entered, %guest);
	my $user_exits = 0;
	open my $trace, '<', TRACEFS . '/trace' or die "trace: $!\n";
	while (my $line = <$trace>) {
		my ($thread, $tsc, $event) = $line =~ /-(\d+) .*? (\d+): (\w+):/ or next;
		$user_exits++ if $event eq 'kvm_userspace_exit';
		if ($event eq 'kvm_entry') {
			$entered{$thread} = $tsc;
		} elsif (defined $entered{$thread}) {
			$guest{$thread} += $tsc - delete $entered{$thread};
		}
	}
	$user_exits && %guest or die "no trace events were seen\n";
	return { user_exits => $user_exits, guest => [values %guest] };
}

# $boot boots a machine with one vCPU and returns it. sonde run first measures KVM's speed with a short guest, which is
# not the one to count.
sub watch_boot {
	my ($boot) = @_;
	start();
	my $vm = $boot->();
	stop();
	$vm->end('TERM');
	my $seen = read_events();
	return { %$seen, guest => max(@{ $seen->{guest} }) };
}

# Instructions in guest mode of all vCPUs during $run; and in system calls of each of these threads, by name.
sub instructions {
	my ($threads, $run) = @_;
	start();
	start_calls($threads);
	$run->();
	stop();
	return { guest => sum(@{ read_events()->{guest} }), calls => read_calls($threads) };
}

# --- system calls of some threads -------------------------------------------------------------------------------

use constant CALLS => 'instances/sonde-calls';
my @call_events = qw(raw_syscalls/sys_enter raw_syscalls/sys_exit sched/sched_switch);

sub start_calls {
	my ($threads) = @_;
	mkdir TRACEFS . '/' . CALLS;
	set(CALLS . '/buffer_size_kb', 8192);
	set(CALLS . '/trace_clock', 'x86-tsc');
	set(CALLS . '/set_event_pid', join(' ', values %$threads) || 1);
	set(CALLS . "/events/$_/enable", 1) for @call_events;
}

# A thread that is switched out in a call is not busy until it is switched in.
sub read_calls {
	my ($threads) = @_;
	my %name = reverse %$threads;
	my (%since, %in_call, %sum);
	set(CALLS . "/events/$_/enable", 0) for @call_events;
	my $end = sub {
		my ($tid, $tsc) = @_;
		$sum{$name{$tid}} += $tsc - delete $since{$tid} if $name{$tid} && defined $since{$tid};
	};
	open my $trace, '<', TRACEFS . '/' . CALLS . '/trace' or die "trace: $!\n";
	while (my $line = <$trace>) {
		my ($tid, $tsc, $event, $fields) = $line =~ /-(\d+) .*? (\d+): (\w+):? (.*)/ or next;
		if ($event eq 'sys_enter') {
			($in_call{$tid}, $since{$tid}) = (1, $tsc);
		} elsif ($event eq 'sys_exit') {
			$end->($tid, $tsc);
			$in_call{$tid} = 0;
		} elsif (my ($from, $to) = $fields =~ /prev_pid=(\d+) .*next_pid=(\d+)/) {
			$end->($from, $tsc);
			$since{$to} = $tsc if $in_call{$to};
		}
	}
	return \%sum;
}

1;
