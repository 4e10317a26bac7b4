#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Attach and detach, over and over, to a domain whose vCPUs are all busy: what each attachment leaves
# in QEMU and in libvirtd, and what the guest says of it. ATTACHES (4): how often.
use strict;
use warnings;
use FindBin;
use List::Util qw(sum);
use Test::More;
use Time::HiRes qw(sleep time);

use lib $FindBin::RealBin;
use AttachTest;
use Files;
use Process;

use constant {
	TREND_FROM => 50,      # attachments; fewer tell nothing of memory
	KIB_PER_ATTACHMENT => 4,
};

my $attaches = $ENV{ATTACHES} // 4;

# How many devices of ours it still has mapped; QEMU lets the last one go a little later.
sub still_mapped {
	my ($pid) = @_;
	my $n;
	wait_until(10, sub { !($n = () = slurp("/proc/$pid/maps") =~ /ua-sonde/g) });
	return $n;
}

# Descriptors, and KiB of memory of its own: the guest's is a shared file's.
sub size_of {
	my ($pid) = @_;
	my $descriptors = () = glob "/proc/$pid/fd/*";
	my ($rss) = slurp("/proc/$pid/status") =~ /^RssAnon:\s+(\d+)/m;
	return {descriptors => $descriptors, rss => $rss};
}

# The same when QEMU has let go what it keeps for a moment.
sub settled {
	my ($pid, $descriptors) = @_;
	wait_until(10, sub { size_of($pid)->{descriptors} <= $descriptors });
	return size_of($pid);
}

# Of a straight line through the last three quarters, in KiB per attachment.
sub slope {
	my @y = @_[@_ / 4 .. $#_];
	my ($mean_x, $mean_y) = ($#y / 2, sum(@y) / @y);
	my $xy = sum(map { ($_ - $mean_x) * ($y[$_] - $mean_y) } 0 .. $#y);
	return $xy / sum(map { ($_ - $mean_x)**2 } 0 .. $#y);
}

sub check_process {
	my ($name, @sizes) = @_;
	my ($first, $last) = @sizes[0, -1];
	is($last->{descriptors}, $first->{descriptors},
		"$name has $last->{descriptors} descriptors after $attaches attachments, and had $first->{descriptors}");
	my @rss = map { $_->{rss} } @sizes;
	diag("$name has $rss[-1] KiB of its own, and had $rss[0]");
	SKIP: {
		skip "$attaches attachments tell nothing of memory, ATTACHES=" . TREND_FROM . ' do', 1
			if $attaches < TREND_FROM;
		my $slope = slope(@rss);
		cmp_ok($slope, '<', KIB_PER_ATTACHMENT,
			sprintf '%s: %.2f KiB more with each of %d attachments', $name, $slope, $attaches);
	}
}

# A tracer that does not run: its rings fill, for which vCPUs wait once and for half a second. Then
# events are lost, and counted, and the guest goes on.
sub test_stopped {
	my $pid = $libvirt->spawn('stopped', attach_command('t'));
	ok(wait_tracing(), 'tracer to be stopped: traced');
	kill STOP => $pid;
	sleep 3;
	my $before = ticks('t');
	sleep 3;
	cmp_ok(ticks('t'), '>', $before, 'tracer stopped for 6 s: the guest makes progress');
	kill CONT => $pid;
	sleep 0.5;
	kill INT => $pid;
	is($libvirt->wait_for($pid, 60), 130, 'tracer goes on: it ends as it should') or diag(log_of('stopped'));
	my ($allocs, $frees, $gone) = report();
	cmp_ok($gone, '>', 1000, sprintf 'tracer stopped: %d events traced, %d lost and counted', $allocs + $frees, $gone);
	is_as_before('t', 'tracer stopped');
}

AttachTest::start();
write_file("$work/busy.rc", <<'RC');
head -c 1 /dev/random >/tmp/random
(while true; do workload -n 100 >/dev/null; done) &
n=0
while true; do n=$((n + 1)); echo "tick $n" >/dev/ttyS0; usleep 500000; done
RC
build_initrd("$work/initrd", "$work/busy.rc=/etc/rc");
start_ticking('t', cpus => 2, tb_cache => 32);
my (@qemu, @daemon);
my ($events, $lost, $from) = (0, 0, time);
attach('t', '--until-events', 1); # what libvirtd and QEMU keep for the first one
sleep 2;
push @qemu, size_of($libvirt->qemu('t'));
my $done = 0;
for my $i (1 .. $attaches) {
	my ($status, $text) = attach('t', '--until-events', 1000);
	if ($status) {
		diag("attachment $i: $text");
		describe('t');
		last;
	}
	my ($allocs, $frees, $overruns) = report();
	$events += $allocs + $frees;
	$lost += $overruns;
	system('rm', '-r', trace_dir());
	push @qemu, size_of($libvirt->qemu('t'));
	push @daemon, size_of($libvirt->libvirtd);
	$done++;
}
is($done, $attaches, sprintf '%d attachments of %d, %d events traced, %.1f s each', $done, $attaches, $events,
	(time - $from) / ($done || 1));
is($lost, 0, "$lost events lost");
is(still_mapped($libvirt->qemu('t')), 0, 'QEMU has nothing of our memory mapped');
push @qemu, settled($libvirt->qemu('t'), $qemu[0]{descriptors});
check_process('QEMU', @qemu);
check_process('libvirtd', @daemon);
is_as_before('t', "$attaches attachments");
test_stopped();
check_seen('t', 'two busy vCPUs', 6);
done_testing();
