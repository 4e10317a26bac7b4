#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# SIGKILLs of the tracer of a guest whose kernel takes the CPU from its tasks anywhere (preempt=full): a task may
# stand at the first instruction of a trampoline for as long as others are more important, and must find it
# there when it goes on.
#
#   KILLS (3)     of each kernel's tracer
#   PREEMPT_KERNELS  6.12
#   SEED          of the moments
use strict;
use warnings;
use FindBin;
use Test::More;
use Time::HiRes qw(sleep time);

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use AttachTest;
use Files;

my $seed = $ENV{SEED} // int(time) ^ $$;
my $count = $ENV{KILLS} // 3;

# For some tenths of a second.
sub start_traced {
	my ($name) = @_;
	my $pid = $libvirt->spawn('killed', attach_command($name));
	my $after = rand 0.5;
	wait_tracing() or diag(log_of('killed'));
	sleep $after;
	return ($pid, $after);
}

# What it notes for whoever has to look for such tasks: the runqueues of both CPUs, with their real-time queues, too.
sub check_journal {
	my ($name, $version) = @_;
	my $pid = $libvirt->spawn('noted', attach_command($name));
	ok(wait_tracing(), "$version: traced") or diag(log_of('noted'));
	my ($journal) = map { slurp("$work/run/sonde/$_") } journals();
	like($journal, qr/^tasks( [0-9a-f]+){4} [45] 2( [0-9a-f]+){9}( [1-9a-f][0-9a-f]*){2}$/m, "$version: the journal tells of its tasks");
	kill INT => $pid;
	is($libvirt->wait_for($pid, 60), 130, "$version: the tracer leaves") or diag(log_of('noted'));
}

sub test_kernel {
	my ($version) = @_;
	my $name = 'preempt-' . $version =~ s/\./-/r;
	my $image = "$build/kernels/$version/vmlinuz";
	start_ticking($name, kernel => $image, cpus => 2, cmdline => 'preempt=full');
	like($libvirt->serial($name), qr/Dynamic Preempt: full/, "$version: the kernel preempts its tasks");
	check_journal($name, $version);
	my %total = map { $_ => 0 } qw(harmed late patched met);
	my $longest = 0;
	for my $i (1 .. $count) {
		my %seen = kill_tracer($name, "kill $i", start_traced($name));
		$total{$_} += $seen{$_} for keys %total;
		$longest = $seen{took} if $seen{took} > $longest;
	}
	is($total{harmed}, 0, "$version: $count times SIGKILL of the tracer (seed $seed), $total{patched} of them with patches "
		. "in the guest, $total{met} with a task that was preempted in our memory: $total{harmed} domains not as they were");
	cmp_ok($longest, '<', 20, sprintf '%s: all undone after %.2f s at most', $version, $longest);
	$libvirt->destroy($name);
}

# Tasks of little importance that allocate, others that take the CPU from them, and one that does so at any time and
# keeps it for a while.
AttachTest::start();
open my $rc, '>', "$work/rc" or die $!;
print $rc <<'RC';
head -c 1 /dev/random >/tmp/random
dmesg | grep 'Dynamic Preempt' >/dev/ttyS0
for i in 1 2 3 4 5 6; do
	(while true; do nice -n 19 workload -n 100 >/dev/null; done) &
done
for i in 1 2; do
	(while true; do ls /proc >/dev/null; done) &
done
(while true; do chrt -f 10 cat /proc/kallsyms >/dev/null; usleep 50000; done) &
n=0
while true; do n=$((n + 1)); echo "tick $n" >/dev/ttyS0; usleep 300000; done
RC
close $rc;
build_initrd("$work/initrd", "$work/rc=/etc/rc");
srand $seed;
test_kernel($_) for split ' ', $ENV{PREEMPT_KERNELS} // '6.12';
done_testing();
