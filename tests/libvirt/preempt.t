#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# SIGKILL of the tracer of a guest whose kernel preempts its tasks anywhere (preempt=full). A task may stand at the
# first instruction of a trampoline as long as tasks of higher priority run. The trampoline must still be there
# when the task continues.
#
#   KILLS (3)     of each kernel's tracer
#   PREEMPT_KERNELS  6.12; in a campaign 6.1, too
#   SEED          of the moments
#   BUDGET        seconds, instead of KILLS
use strict;
use warnings;
use FindBin;
use Test::More;
use Time::HiRes qw(sleep time);

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use AttachTest;
use Campaign;
use Files;
use Testbed;

my $seed = $ENV{SEED} // int(time) ^ $$;
my @kernels = split ' ', $ENV{PREEMPT_KERNELS} // (in_campaign() ? '6.12 6.1' : '6.12');

# Start a tracer and let it trace for up to half a second.
sub start_traced {
	my ($name) = @_;
	my $pid = $libvirt->spawn('killed', attach_command($name));
	my $after = rand 0.5;
	wait_tracing() or diag(log_of('killed'));
	sleep $after;
	return ($pid, $after);
}

# The journal says how to find such tasks: the runqueues of both CPUs, real-time queues included, and the
# size of a stack.
sub check_journal {
	my ($name, $version) = @_;
	my $pid = $libvirt->spawn('noted', attach_command($name));
	ok(wait_tracing(), "$version: attach traces") or diag(log_of('noted'));
	my ($journal) = map { slurp("$work/run/sonde/$_") } journals();
	like($journal, qr/^tasks( [0-9a-f]+){4} [45] 2( [0-9a-f]+){9}( [1-9a-f][0-9a-f]*){3}( [0-9a-f]+){2}$/m, "$version: the journal has a 'tasks' line");
	kill INT => $pid;
	is($libvirt->wait_for($pid, 60), 130, "$version: SIGINT ends attach with status 130") or diag(log_of('noted'));
}

sub test_kernel {
	my ($version, $share) = @_;
	my $name = 'preempt-' . $version =~ s/\./-/r;
	my $image = fetch_kernel($version) . "/vmlinuz";
	start_ticking($name, kernel => $image, cpus => 2, cmdline => 'preempt=full');
	like($libvirt->serial($name), qr/Dynamic Preempt: full/, "$version: the kernel preempts its tasks");
	check_journal($name, $version);
	my %total = map { $_ => 0 } qw(harmed late patched met);
	my $longest = 0;
	my $kills = rounds(KILLS => 3, $share);
	while (my $i = $kills->next) {
		my %seen = kill_tracer($name, "kill $i", start_traced($name));
		$total{$_} += $seen{$_} for keys %total;
		$longest = $seen{took} if $seen{took} > $longest;
	}
	my $count = $kills->done;
	add_total($count, 'kills of the tracer');
	add_total($total{met}, 'tasks met in scratch memory');
	is($total{harmed}, 0, "$version: SIGKILL of the tracer, $count times (seed $seed), $total{patched} with patches in the "
		. "guest, $total{met} with a task preempted in scratch memory: the domain is as before");
	cmp_ok($longest, '<', 20, sprintf '%s: all is undone within 20 s: %.2f s', $version, $longest);
	$libvirt->destroy($name);
}

# Tasks of low priority that allocate, others that preempt them, and a real-time task that preempts all for a while.
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
test_kernel($kernels[$_], 1 / (@kernels - $_)) for 0 .. $#kernels;
done_testing();
