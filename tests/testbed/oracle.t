#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The oracle by itself: guests under plain QEMU (no KVM, no Sonde) trace a workload, and oracle-extract reads
# all their events from a dump of their memory. GUEST='5.10 6.1 6.12' names the kernels.

use strict;
use warnings;
use File::Temp qw(tempdir);
use FindBin;
use Test::More;

use lib "$FindBin::RealBin/../lib", "$FindBin::RealBin/../guest";
use GuestConfigs;
use Process;
use Qmp;
use Testbed;
use Tree;

use constant { CPUS => 4, MEMORY_MIB => 512, ITERATIONS => 400, TIME_LIMIT => 300 };
use constant { BEGIN_BYTES => 4812, END_BYTES => 5212 };    # tests/workload/README.md

my $work = tempdir("oracle-XXXXXX", TMPDIR => 1, CLEANUP => 1);

sub build_programs {
	build_initrd("$work/initrd");
	run_or_die($ENV{CC} // "gcc", qw(-std=gnu11 -D_GNU_SOURCE -O2), "-I$tree", "-o",
		"$work/oracle-extract", "$tree/tests/workload/oracle-extract.c",
		map { "$tree/$_" } qw(tests/lib/event-format.c tests/lib/ring-buffer.c formats/base/error.c));
}

# Boots, waits until the oracle prints the address of its result, saves the guest's memory to $work/ram.
sub trace_guest {
	my ($vmlinuz, $socket) = ("$_[0]/vmlinuz", "$work/monitor");
	my $command = "oracle -b 32768 -p workload -n " . ITERATIONS;
	my $pid = open(my $console, "-|", "qemu-system-x86_64", qw(-accel tcg -cpu max -nodefaults),
		qw(-display none -no-reboot -serial stdio -qmp), "unix:$socket,server=on,wait=off",
		"-smp", CPUS, "-m", MEMORY_MIB, "-kernel", $vmlinuz, "-initrd", "$work/initrd",
		"-append", "console=ttyS0 cryptomgr.notests panic=-1 no_timer_check quiet sonde.run=\"$command\"") or die "qemu: $!";
	my $gpa;
	local $SIG{ALRM} = sub { kill KILL => $pid };
	alarm TIME_LIMIT;
	while (<$console>) {
		diag($_) if /sonde-oracle: failed|panic/;
		last if ($gpa) = /sonde-oracle: pages (0x[0-9a-f]+)/;
	}
	if ($gpa) {
		Qmp->connect($socket, TIME_LIMIT)->ask("pmemsave", val => 0, size => MEMORY_MIB << 20,
			filename => "$work/ram");
	}
	kill KILL => $pid;
	close $console;
	alarm 0;
	return $gpa;
}

sub check_events {
	my ($name, $gpa) = @_;
	my (%events, @begin, @end, $total);
	open(my $lines, "-|", "$work/oracle-extract", "$work/ram", $gpa) or die "oracle-extract: $!";
	while (<$lines>) {
		my ($cpu, $number, $event, $site, $pointer, $requested) = split;
		next if $cpu eq "#";
		$total++;
		$events{$event}++;
		next unless $event =~ /^kmalloc/;
		$begin[$cpu] //= $number if $requested == BEGIN_BYTES;
		$end[$cpu] = $number if $requested == END_BYTES;
	}
	ok(close $lines, "$name: no event was lost");
	cmp_ok($total, ">=", 100_000, "$name: there are at least 100,000 events");
	for my $event (qw(kmalloc kfree kmem_cache_alloc kmem_cache_free mm_page_alloc mm_page_free)) {
		ok($events{$event}, "$name: there are $event events");
	}
	for my $cpu (0 .. CPUS - 1) {
		ok(defined $begin[$cpu] && defined $end[$cpu] && $begin[$cpu] < $end[$cpu],
			"$name: CPU $cpu has a begin marker and an end marker after it");
	}
	note(join ", ", map { "$_ $events{$_}" } sort keys %events);
}

build_programs();
for my $name (GuestConfigs::kernels(qw(5.10 6.1 6.12))) {
	my $gpa = trace_guest(fetch_kernel($name));
	ok($gpa, "$name: the guest traced the workload");
	check_events($name, $gpa) if $gpa;
}
done_testing();
