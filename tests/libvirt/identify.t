#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# sonde attach without the kernel's file: the kernel is found in the memory of a real domain, the plan is
# the same as with the file, and what --dry-run prints is true and changes nothing.
use strict;
use warnings;
use FindBin;
use File::Copy qw(copy);
use Test::More;
use Time::HiRes qw(sleep time);

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use DamagedImage;
use Files;
use Libvirt;
use Process;
use Testbed;
use Tree;

my $kernel = "$build/kernels/6.1/vmlinuz";

my $why = Libvirt::missing();
plan skip_all => $why if $why;
my $libvirt = Libvirt->start("$build/sonde");
END { undef $libvirt } # before its folder is removed
my $work = $libvirt->work;

sub start_domain {
	my ($name, %option) = @_;
	$libvirt->domain($name, kernel => $kernel, initrd => "$work/initrd", cpus => 1, machine => 'q35',
		memory => 'shared', cmdline => '', %option);
}

sub attach { return $libvirt->run($libvirt->sonde('attach', @_)) }

# From the firmware on, until the guest has booted: either the kernel is found, or the one line says why not and what to
# do.
sub test_booting {
	my ($name) = @_;
	my $reasons = qr/no vCPU is in a Linux kernel: .*|the kernel has not set up its mcount sites yet|the kernel is still booting|the kernel's memory changes while it is read/;
	my $advice = qr/if Linux has booted there, give its image with -k|try again when it has booted/;
	my $end = time + 120;
	my ($refused, $found, @strange) = (0, 0);
	until ($libvirt->serial($name) =~ /tick/ || time > $end) {
		my ($status, $text) = attach($name, '--dry-run');
		if ($status == 1 && $text =~ /^sonde attach: no kernel found in domain $name: (?:$reasons); $advice$/m) {
			$refused++;
		} elsif ($status == 0 && $text =~ /^kernel   Linux version 6\.1\./m) {
			$found++;
		} else {
			push @strange, $text;
		}
		sleep 0.05;
	}
	ok(!@strange, "$name boots: the kernel is found ($found times), or the error says why not ($refused times)") or diag(@strange);
	cmp_ok($refused + $found, '>', 0, "$name boots: attach has looked while it did");
}

# Rows of the table: gva, gpa, bytes, replacement, function.
sub rows {
	my @rows = grep {/ jump, at /} split /\n/, $_[0];
	return map { [/^ (f\w{15}) +(\w+)  ((?:\w\w )+) *(jump, at (?:entry|return)) +(\w+)$/] } @rows;
}

# Everything in which a change of the domain would show.
sub state_of {
	my ($name) = @_;
	return join "\n", $libvirt->state_of($name), $libvirt->virsh('dumpxml', $name), glob("$work/run/sonde/*"), Libvirt::lasting_files();
}

sub test_dry_run {
	my ($name) = @_;
	my $before = state_of($name);
	my ($status, $text) = attach($name, '--dry-run');
	is($status, 0, "$name: --dry-run without -k has status 0") or diag($text);
	is(state_of($name), $before, "$name: --dry-run changes nothing");
	my ($banner) = $libvirt->serial($name) =~ /(Linux version .*?)\r?\n/;
	like($text, qr/^kernel   \Q$banner\E$/m, "$name: --dry-run names the kernel of the guest's log");
	like($text, qr/read from guest memory, through the page tables of vCPU \d/, "$name: --dry-run says where the kernel was found");
	like($text, qr/ [\d,]{6,} symbols \(kallsyms in memory\), [\d,]{6,} mcount sites, BTF at 0x\w+ with [\d,]{6,} types/, "$name: --dry-run counts symbols, sites and types");
	my @rows = rows($text);
	my @untrue = grep { $libvirt->memory($name, '0x' . $_->[1], length($_->[2]) / 3) ne pack 'H*', $_->[2] =~ s/ //gr } @rows;
	cmp_ok(@rows, '>', 20, "$name: --dry-run lists more than 20 places: " . @rows);
	is(@untrue, 0, "$name: each place holds the listed bytes, according to QEMU");
	note($text);
	return $text;
}

# In one line, as it can be searched.
sub flowing { return $_[0] =~ s/\s+/ /gr }

# What tracing changes besides the guest's text, and what may happen to the domain meanwhile.
sub test_risks {
	my ($name, $text) = @_;
	my $taint = 'and marks the domain as tainted, as it does for every use of QEMU\'s monitor, this listing included; ';
	$text = flowing($text);
	like($text, qr/ device <shmem> 'ua-sonde-\.\.\.' of \d+ MiB \(ivshmem-plain\) is plugged in [^;]*; it is unplugged at the end risks /,
		"$name: --dry-run says which device is plugged in");
	like($text, qr/ risks the domain stands still when tracing begins and when it ends \(30 to 200 ms were measured\); libvirt reports these pauses \(suspended, resumed\) and the device \(added, removed\) to its clients, \Q$taint\Ewhile it is traced, the domain can be neither migrated nor saved, and its guest cannot suspend \(EBUSY\) /,
		"$name: --dry-run says what tracing means for the domain");
	like($text, qr/: the tracer gives way if tracer and watchdog are both killed, or libvirtd hangs, ftrace waits for 20 s, and then finds jumps that are not its own: it warns, and switches itself off; until 'sonde recover', kprobes inside functions, hibernation and suspend fail with EBUSY patches /,
		"$name: --dry-run says what remains if tracer and watchdog are killed");
	unlike($text, qr/ breaks /, "$name: --dry-run names no breakpoints");
	my ($status, $trap) = attach($name, '--dry-run', '--mode', 'trap', '--max-rate', 1000);
	is($status, 0, "$name: --dry-run --mode trap has status 0") or diag($trap);
	$trap = flowing($trap);
	like($trap, qr/ breaks breakpoints of QEMU's gdbstub, which no debugger can use meanwhile; at most 1,000 calls per second are traced risks each breakpoint stops the domain for 5 to 15 ms; libvirt reports these pauses to its clients \(suspended, resumed\), \Q$taint\Ea KVM domain must be neither migrated nor saved while it is traced /,
		"$name: --dry-run --mode trap says what breakpoints mean for the domain");
	unlike($trap, qr/ device |both killed/, "$name: --dry-run --mode trap names no device, and no jumps that would remain");
	($status, $trap) = attach($name, '--dry-run', '--mode', 'trap', '--max-rate', 0);
	like(flowing($trap), qr/ breaks [^;]*; the number of calls per second has no bound risks /, "$name: --dry-run --mode trap says that there is no bound");
}

sub test_as_with_file {
	my ($name, $text) = @_;
	my ($status, $with) = attach($name, '--dry-run', '-k', "$work/$name.kernel");
	is($status, 0, "$name: --dry-run with -k has status 0") or diag($with);
	is_deeply([map {"@$_"} rows($text)], [map {"@$_"} rows($with)], "$name: with and without the kernel's file the places are the same");
	is(($text =~ /(slide .*)/)[0], ($with =~ /(slide .*)/)[0], "$name: with and without the kernel's file the slide is the same");
}

# Types from a file, not from the guest's memory: those of this kernel, and of another.
sub test_given_types {
	my ($name, $version, $text) = @_;
	my $other = $version eq '6.1' ? '6.12' : '6.1';
	my ($status, $given) = attach($name, '--dry-run', '--btf', types_of("$build/kernels/$version/vmlinuz", "$work/types.btf"));
	is($status, 0, "$name: --dry-run with --btf has status 0") or diag($given);
	is_deeply([map {"@$_"} rows($given)], [map {"@$_"} rows($text)], "$name: with types from a file the places are the same");
	($status, $given) = attach($name, '--dry-run', '--btf', types_of("$build/kernels/$other/vmlinuz", "$work/types.btf"));
	is($status, 1, "$name: the types of another kernel are refused");
	like($given, qr/^sonde attach: domain $name: \S+types\.btf: not the types of this kernel: it lacks \d+ of \d+ functions that they name$/m,
		"$name: the error says which file, and why");
}

# Also: a dry run of a domain that is being traced is refused.
sub test_traces {
	my ($name) = @_;
	my $pid = $libvirt->spawn($name, $libvirt->sonde('attach', $name, '-o', "$work/out/$name"));
	wait_until(30, sub { $libvirt->virsh('dumpxml', $name) =~ /ua-sonde/ });
	my ($status, $text) = attach($name, '--dry-run');
	is($status, 1, "$name: --dry-run while traced has status 1");
	like($text, qr/^sonde attach: another sonde is attached to this domain/m, "$name: --dry-run while traced says why");
	sleep 2;
	kill INT => $pid;
	is($libvirt->wait_for($pid, 60), 130, "$name: attach without -k traces until SIGINT") or diag(slurp("$work/$name.txt"));
	($status, $text) = $libvirt->run("$work/sonde", 'report', '--json', "$work/out/$name");
	my %number = $text =~ /"(\w+_events|overruns)":\s*(\d+)/g;
	cmp_ok($number{alloc_events} // 0, '>', 200, "$name: more than 200 allocations are traced: $number{alloc_events}");
	is($number{overruns}, 0, "$name: no event is lost");
	my @sites = $text =~ /"symbol":\s*"(.*?)"/g;
	my @named = grep {/^[\w.]+\+0x/} @sites;
	ok(@sites > 10 && @named == @sites, "$name: all " . @sites . ' call sites have names');
	like(slurp("$work/out/$name/.sonde.json"), qr/"symbol_source":\s*"kallsyms in memory"/, "$name: the sidecar says where the symbols come from");
	($status, $text) = $libvirt->run("$work/sonde", 'check', "$work/out/$name");
	is($status, 0, "$name: sonde check finds no error") or diag($text);
}

# The file's BTF lacks names: some functions are not traced, which attach says, and the others are. The same rows of
# guest/refusals show that for `sonde run`.
sub test_in_part {
	my ($name) = @_;
	my $image = image_without("$build/kernels/6.12/vmlinuz", 'kmem_cache', "$work/in-part");
	my ($status, $text) = $libvirt->run($libvirt->sonde('attach', $name, '-k', $image, '-o', "$work/out/in-part", '--until-events', 200));
	is($status, 0, "$name: attach with a damaged file has status 0") or diag($text);
	is_deeply([$text =~ /^sonde attach: (not traced: .*|traced nevertheless: .*)$/mg],
		['not traced: kmem_cache_alloc_noprof, kmem_cache_alloc_lru_noprof, kmem_cache_alloc_node_noprof, kmem_cache_alloc_bulk_noprof, kmem_cache_free: BTF shows no parameter that is the cache',
		'not traced: caches and allocated sizes of kmalloc(): BTF has no struct kmem_cache', 'traced nevertheless: 16 functions'],
		"$name: attach says exactly what is not traced") or diag($text);
	($status, $text) = $libvirt->run("$work/sonde", 'check', "$work/out/in-part");
	is($status, 0, "$name: sonde check finds no error in the trace of the rest") or diag($text);
}

# The guest loops in real mode, at the first instruction of the kernel's setup code.
sub test_not_booted {
	copy($kernel, "$work/stuck") or die $!;
	open my $file, '+<:raw', "$work/stuck" or die $!;
	seek $file, 0x200, 0;
	print $file "\xeb\xfe";
	close $file;
	start_domain('stuck', kernel => "$work/stuck");
	my ($status, $text) = attach('stuck', '-o', "$work/out/stuck");
	is($status, 1, 'a guest that has not booted is refused');
	like($text, qr/no kernel found in domain stuck: no vCPU is in a Linux kernel: .*; if Linux has booted there, give its image with -k/, 'a guest that has not booted: the error says so and what to do');
	is(scalar(split /\n/, $text), 1, 'a guest that has not booted: the error is one line') or diag($text);
	is($libvirt->state_of('stuck'), 'running', 'a guest that has not booted runs on');
	$libvirt->destroy('stuck');
}

build_initrd("$work/initrd", "$FindBin::RealBin/ticks=/etc/rc");
start_domain('t');
test_booting('t');
start_domain('four', cpus => 4, machine => 'pc', memory => 'private', kernel => "$build/kernels/6.12/vmlinuz");
test_not_booted();
for my $name (qw(t four)) {
	ok($libvirt->wait_serial($name, qr/tick/, 120), "$name: the guest boots") or BAIL_OUT($libvirt->serial($name));
	my $text = test_dry_run($name);
	test_as_with_file($name, $text);
	test_given_types($name, $name eq 't' ? '6.1' : '6.12', $text);
	test_risks($name, $text);
	test_traces($name);
}
test_in_part('four');
done_testing();
