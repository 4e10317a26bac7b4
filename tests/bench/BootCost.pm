# SPDX-License-Identifier: GPL-2.0-or-later
#
# What it costs to boot one kernel and initrd under each machine, from the start of the process to
# the first line of the guest's init, and what memory the process then holds for itself.
package BootCost;

use strict;
use warnings;
use Time::HiRes qw(sleep);
use VmProcess qw(instructions_now);

use constant { RAM_MIB => 256, QUIET_S => 2 };
use constant TRACEFS => '/sys/kernel/tracing';

my $init_line = qr/sonde-guest: init\r?\n/;
my $cmdline = 'console=ttyS0 quiet panic=-1 sonde.run="sleep 1000"';

# With the defaults it comes with, but for devices that a guest would look for.
sub qemu {
	my ($machine, $kernel, $initrd) = @_;
	return ('qemu-system-x86_64', '-M', $machine, '-accel', 'kvm',
		'-cpu', 'host', '-smp', 1, '-m', RAM_MIB,
		qw(-nodefaults -no-user-config -display none -serial stdio),
		'-kernel', $kernel, '-initrd', $initrd, '-append', $cmdline);
}

sub commands {
	my ($kernel, $initrd) = @_;
	return (
		sonde => ['sonde', 'run', '-k', $kernel, '-i', $initrd, '-m', RAM_MIB, '-c', 1,
			'-p', $cmdline],
		microvm => [qemu('microvm,isa-serial=on,acpi=on,pit=on,pic=on,rtc=on', $kernel, $initrd)],
		q35 => [qemu('q35', $kernel, $initrd)],
	);
}

sub boot {
	my ($name, $command) = @_;
	print STDERR "bench: booting $name\n";
	my $vm = VmProcess->start(name => $name, command => $command,
		errors => "/tmp/$name.stderr");
	$vm->expect($init_line);
	return $vm;
}

sub measure {
	my ($name, $command) = @_;
	my $vm = boot($name, $command);
	my $instructions = instructions_now() - $vm->{started};
	# What follows in the guest's init is not part of the boot.
	$vm->pause;
	my $exits = $vm->exits;
	$vm->unpause;
	sleep QUIET_S;
	my $memory = $vm->own_memory(RAM_MIB << 20);
	$vm->end('TERM');
	return { instructions => $instructions, exits => $exits, memory => $memory };
}

sub trace_file {
	my ($path, $value) = @_;
	open my $file, '>', TRACEFS . "/$path" or die "$path: $!\n";
	print $file "$value\n";
	close $file or die "$path: $!\n";
}

# In a boot of its own, as the trace event itself takes instructions.
sub count_user_exits {
	my ($name, $command) = @_;
	my $event = 'events/kvm/kvm_userspace_exit';
	trace_file('trace', '');
	trace_file("$event/enable", 1);
	my $vm = boot($name, $command);
	trace_file("$event/enable", 0);
	$vm->end('TERM');
	my $count = 0;
	for my $stats (glob TRACEFS . '/per_cpu/cpu*/stats') {
		my $text = VmProcess::slurp($stats);
		$count += $1 while $text =~ /^(?:entries|overrun): (\d+)/mg;
	}
	$count or die "$name: no $event was seen\n";
	return $count;
}

# Rounds of all machines in turn; the first, which fills the caches, counts the exits to user space.
sub run {
	my ($rounds, $kernel, $initrd) = @_;
	my %command = commands($kernel, $initrd);
	my %result;
	for my $name (sort keys %command) {
		$result{$name}{user_exits} = [count_user_exits($name, $command{$name})];
	}
	for my $round (1 .. $rounds) {
		for my $name (sort keys %command) {
			my $figures = measure($name, $command{$name});
			push @{ $result{$name}{$_} }, $figures->{$_} for keys %$figures;
		}
	}
	return \%result;
}

1;
