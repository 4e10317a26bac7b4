# SPDX-License-Identifier: GPL-2.0-or-later
#
# What the host's own kvm:* trace events tell of a machine's boot. The events take instructions
# themselves, so such a boot is good for nothing else.
package KvmEvents;

use strict;
use warnings;
use List::Util qw(max);
use VmProcess;

use constant { TRACEFS => '/sys/kernel/tracing', BUFFER_KIB => 32768 };

my @events = qw(kvm_entry kvm_exit kvm_userspace_exit);

sub set {
	my ($path, $value) = @_;
	open my $file, '>', TRACEFS . "/$path" or die "$path: $!\n";
	print $file "$value\n";
	close $file or die "$path: $!\n";
}

# Exits to user space, and instructions in guest mode by thread. Time stamps are cut off to
# microseconds, at either end alike, so that the error of a sum is small.
sub read_events {
	my (%entered, %guest);
	my $user_exits = 0;
	open my $trace, '<', TRACEFS . '/trace' or die "trace: $!\n";
	while (<$trace>) {
		my ($thread, $seconds, $event) = /-(\d+) .* (\d+\.\d+): (kvm_\w+):/ or next;
		$user_exits++ if $event eq 'kvm_userspace_exit';
		$entered{$thread} = $seconds if $event eq 'kvm_entry';
		next unless $event eq 'kvm_exit' && defined $entered{$thread};
		$guest{$thread} += 1e9 * ($seconds - delete $entered{$thread});
	}
	return ($user_exits, values %guest);
}

# start() begins the boot and returns when it is over, with the machine.
sub watch {
	my ($name, $start) = @_;
	set('buffer_size_kb', BUFFER_KIB);
	set('trace', '');
	set("events/kvm/$_/enable", 1) for @events;
	my $vm = $start->();
	set("events/kvm/$_/enable", 0) for @events;
	$vm->end('TERM');
	for my $stats (glob TRACEFS . '/per_cpu/cpu*/stats') {
		VmProcess::slurp($stats) =~ /^overrun: 0$/m or die "$name: too many trace events\n";
	}
	my ($user_exits, @guest) = read_events();
	$user_exits && @guest or die "$name: no trace events were seen\n";
	# Where a machine has run a guest of a moment before, to see how fast it is, that is not it.
	return { user_exits => $user_exits, guest => max(@guest) };
}

1;
