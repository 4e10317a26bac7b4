#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The syscalls tracer against the guest's own raw_syscalls events, in one run: each task of a workload enters the same
# system calls with the same registers, and returns from them with the same results, in the same order. What only one
# of the two can see is listed: a child's return from the clone() of its parent, and system calls that never return.
# Likewise those of a 32-bit program, by another instance.
# GUEST='5.10 6.12' for other kernels.
use strict;
use warnings;
use FindBin;
use File::Path qw(make_path);
use JSON::PP;
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Files;
use GuestConfigs;
use GuestLog;
use SyscallEvents;
use Testbed;
use Tree;

use constant NR_IA32_OPENAT => 295;

# A 32-bit program begins with its first system call. What its task did before is 64-bit.
sub ia32_events {
	my ($log, $lines) = @_;
	my ($pid) = $log =~ /^sonde-ia32-task (\d+)/m or return ([], []);
	my @own = @{own_events(unpacked($log, 'sonde-ia32-begin', 'sonde-ia32-end'))->{$pid} // []};
	my ($first) = grep { $own[$_][0] eq NR_IA32_OPENAT } 0 .. $#own;
	return ([defined $first ? @own[$first .. $#own] : ()], seen_events($lines)->{$pid} // []);
}

sub check_ia32 {
	my ($log, $out) = @_;
	my $lines = slurp("$out/events-sys32");
	my ($own, $seen) = ia32_events($log, $lines);
	my ($n, $different, @names) = compare(0, {1 => [['', ''], @$own]}, {1 => [['', ''], @$seen]});
	cmp_ok($n, '>', 2000, "$n events of a 32-bit program by both");
	diag($_) for @$different[0 .. ($#$different < 9 ? $#$different : 9)], @names;
	is(scalar(@$different), 0, 'it has the same ones, with the same registers and results');
	is(scalar(@names), 0, 'each number is one system call');
	is(scalar(keys %{seen_events($lines)}), 1, 'no other task has 32-bit ones');
	my ($pid) = $log =~ /^sonde-ia32-task (\d+)/m;
	my ($last) = reverse @{seen_events(slurp("$out/events-syscalls"))->{$pid // 0} // []};
	is($last->[0] // '', 'exit', 'the last 64-bit one of its task is execve(), which has returned');
	like(slurp("$out/calls-sys32"), qr/^\S+ +\S+ ia32-\d+ lseek\(fd=\d+, offset=-48, whence=1\) = 0 <\S+ us>$/m,
		'they are printed with their arguments by name');
}

sub check {
	my ($kernel) = @_;
	my $out = "$build/guest/syscalls-$kernel";
	make_path($out);
	build_initrd("$out/initrd", "$FindBin::RealBin/syscalls-inside=/bin/syscalls-inside",
		"$build/tests/guest/ia32=/bin/ia32");
	on_kvm_host({}, "$FindBin::RealBin/syscalls-guest", $out, kernel_image($kernel), "$out/initrd");
	my $log = slurp("$out/log") =~ s/\r//gr;
	my ($first) = $log =~ /^sonde-task (\d+)/m;
	my ($n, $different, @names) = compare($first // 0, own_events(unpacked($log, 'sonde-begin', 'sonde-end')), seen_events(slurp("$out/events-syscalls")));
	cmp_ok($n, '>', 4000, "$kernel: $n events by both");
	diag($_) for @$different[0 .. ($#$different < 9 ? $#$different : 9)], @names;
	is(scalar(@$different), 0, 'each task has the same ones, with the same registers and results');
	is(scalar(@names), 0, 'each number is one system call');
	like(slurp("$out/err"), qr/lost: none/, 'none is lost');
	like(slurp("$out/calls-syscalls"), qr/^\S+ +\S+ \d+ openat\(dfd=-100, filename=0x\w+, flags=0x\w+, mode=\d+\) = \d+ <\S+ us>$/m,
		'calls are printed with their arguments by name');
	check_ia32($log, $out);
	unlike($log, qr/WARNING|BUG|Oops|Call Trace/, 'nothing in the log');
}

check($_) for GuestConfigs::kernels('6.1');
done_testing();
