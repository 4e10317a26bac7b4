# SPDX-License-Identifier: GPL-2.0-or-later
#
# The cost of booting one kernel and initrd under each VMM, from the start of the process to the first line
# of the guest's init, and the memory that the process then uses itself.
package BootCost;

use strict;
use warnings;
use KvmEvents;
use Time::HiRes qw(sleep);
use VmProcess qw(instructions_now);

use constant { RAM_MIB => 256, QUIET_S => 2 };

my $init_line = qr/sonde-guest: init\r?\n/;
my $cmdline = 'console=ttyS0 quiet panic=-1 sonde.run="sleep 1000"';

# QEMU's defaults, but without devices that a guest would probe.
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
	# The rest of the guest's init is not part of the boot.
	$vm->pause;
	my $exits = $vm->exits;
	$vm->unpause;
	sleep QUIET_S;
	my $memory = $vm->own_memory(RAM_MIB << 20);
	$vm->end('TERM');
	return { instructions => $instructions, exits => $exits, memory => $memory };
}

# All machines in turn, in each round. A first boot of each, with trace events, fills the caches.
sub run {
	my ($rounds, $kernel, $initrd) = @_;
	my %command = commands($kernel, $initrd);
	my %result;
	for my $name (sort keys %command) {
		my $seen = KvmEvents::watch_boot(sub { boot($name, $command{$name}) });
		$result{$name}{$_} = [$seen->{$_}] for keys %$seen;
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
