# SPDX-License-Identifier: GPL-2.0-or-later
#
# Counts a virtual machine's exits to user space and its instructions in guest mode, from the host's own
# kvm:* trace events. The events take instructions themselves, so host time is not measured meanwhile.
package KvmEvents;

use strict;
use warnings;
use Files;
use List::Util qw(max);

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

# Sums up each thread's instructions in guest mode. A thread may be in guest mode when tracing starts.
sub read_events {
	my (%entered, %guest);
	my $user_exits = 0;
	open my $trace, '<', TRACEFS . '/trace' or die "trace: $!\n";
	while (<$trace>) {
		my ($thread, $tsc, $event) = /-(\d+) .*? (\d+): (\w+):/ or next;
		$user_exits++ if $event eq 'kvm_userspace_exit';
		if ($event eq 'kvm_entry') {
			$entered{$thread} = $tsc;
		} elsif (defined $entered{$thread}) {
			$guest{$thread} += $tsc - delete $entered{$thread};
		}
	}
	# sonde run first measures KVM's speed with a short guest, which is not the one to count.
	$user_exits && %guest or die "no trace events were seen\n";
	return { user_exits => $user_exits, guest => max(values %guest) };
}

# $boot boots a machine and returns it.
sub watch_boot {
	my ($boot) = @_;
	start();
	my $vm = $boot->();
	stop();
	$vm->end('TERM');
	return read_events();
}

# Instructions in guest mode during $run.
sub guest_instructions {
	my ($run) = @_;
	start();
	$run->();
	stop();
	return read_events()->{guest};
}

1;
