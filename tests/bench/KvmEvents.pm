# SPDX-License-Identifier: GPL-2.0-or-later
#
# What the host's own kvm:* trace events tell of a machine: its exits to user space, and how many
# instructions it has spent in guest mode. The events take instructions themselves, so that time in
# the host means nothing meanwhile.
package KvmEvents;

use strict;
use warnings;
use Files;
use List::Util qw(max);

use constant { TRACEFS => '/sys/kernel/tracing', BUFFER_KIB => 32768 };

# The host serves interrupts before it comes to kvm_exit.
my @events = qw(kvm/kvm_entry kvm/kvm_exit kvm/kvm_userspace_exit irq_vectors/local_timer_entry
	irq_vectors/reschedule_entry irq/irq_handler_entry);

sub set {
	my ($path, $value) = @_;
	write_file(TRACEFS . "/$path", "$value\n");
}

# The TSC runs at 1 GHz, so that it counts instructions as all clocks do here, and is not rounded.
sub start {
	set('buffer_size_kb', BUFFER_KIB);
	set('trace_clock', 'x86-tsc');    # empties the buffer
	set("events/$_/enable", 1) for @events;
}

sub stop {
	set("events/$_/enable", 0) for @events;
	for my $stats (glob TRACEFS . '/per_cpu/cpu*/stats') {
		must_slurp($stats) =~ /^overrun: 0$/m or die "too many trace events\n";
	}
}

# Instructions in guest mode by thread, which may have been there already when it began.
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
	# Where a machine has run a guest of a moment before, to see how fast it is, that is not it.
	$user_exits && %guest or die "no trace events were seen\n";
	return { user_exits => $user_exits, guest => max(values %guest) };
}

# start() begins the boot and returns when it is over, with the machine.
sub watch_boot {
	my ($boot) = @_;
	start();
	my $vm = $boot->();
	stop();
	$vm->end('TERM');
	return read_events();
}

# Instructions in guest mode while run() lasts.
sub guest_instructions {
	my ($run) = @_;
	start();
	$run->();
	stop();
	return read_events()->{guest};
}

1;
