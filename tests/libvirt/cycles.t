#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Attach and detach repeatedly, to a domain whose vCPUs are all busy: what each attachment leaves in
# QEMU and in libvirtd, and that the guest's log stays clean. ATTACHES (4): how often;
# BUDGET: seconds, instead.
use strict;
use warnings;
use FindBin;
use List::Util qw(sum);
use Test::More;
use Time::HiRes qw(sleep time);

use lib $FindBin::RealBin;
use AttachTest;
use Campaign;
use Files;
use Process;

use constant {
	TREND_FROM => 150,      # attachments; fewer show no trend of memory
	KIB_PER_ATTACHMENT => 4,
};

my $attaches = 0; # that were tried

# The number of scratch devices that QEMU still maps. QEMU unmaps the last one a little later.
sub still_mapped {
	my ($pid) = @_;
	my $n;
	wait_until(10, sub { !($n = () = slurp("/proc/$pid/maps") =~ /ua-sonde/g) });
	return $n;
}

# Descriptors, and KiB of anonymous memory; the guest's memory is a shared file.
sub size_of {
	my ($pid) = @_;
	my $descriptors = () = glob "/proc/$pid/fd/*";
	my ($rss) = slurp("/proc/$pid/status") =~ /^RssAnon:\s+(\d+)/m;
	return {descriptors => $descriptors, rss => $rss};
}

# The same once QEMU has closed what it keeps open for a moment.
sub settled {
	my ($pid, $descriptors) = @_;
	wait_until(10, sub { size_of($pid)->{descriptors} <= $descriptors });
	return size_of($pid);
}

# The slope of a line through the last three quarters, in KiB per attachment.
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
		"$name has as many descriptors after $attaches attachments as before: $first->{descriptors}");
	my @rss = map { $_->{rss} } @sizes;
	diag("$name has $rss[-1] KiB of anonymous memory, and had $rss[0]");
	SKIP: {
		skip "$attaches attachments show no trend of memory; use ATTACHES=" . TREND_FROM, 1
			if $attaches < TREND_FROM;
		my $slope = slope(@rss);
		cmp_ok($slope, '<', KIB_PER_ATTACHMENT,
			sprintf '%s grows by less than %d KiB per attachment: %.2f', $name, KIB_PER_ATTACHMENT, $slope);
	}
}

# A tracer that does not run: its rings fill. The vCPUs wait once, for half a second. After that events
# are lost and counted, and the guest runs on.
sub test_stopped {
	my $pid = $libvirt->spawn('stopped', attach_command('t'));
	ok(wait_tracing(), 'tracer to be stopped: attach traces');
	kill STOP => $pid;
	sleep 3;
	my $before = ticks('t');
	sleep 3;
	cmp_ok(ticks('t'), '>', $before, 'tracer stopped for 6 s: the guest makes progress');
	kill CONT => $pid;
	sleep 0.5;
	kill INT => $pid;
	is($libvirt->wait_for($pid, 60), 130, 'tracer continued: SIGINT ends it with status 130') or diag(log_of('stopped'));
	my ($allocs, $frees, $gone) = report();
	cmp_ok($gone, '>', 1000, sprintf 'tracer stopped: lost events are counted: %d traced, %d lost', $allocs + $frees, $gone);
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
my $cycles = rounds(ATTACHES => 4, 1, 60);
while (my $i = $cycles->next) {
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
$attaches = $cycles->done;
add_total($attaches, 'attachments');
add_total($events, 'events traced');
is($done, $attaches, sprintf 'all attachments succeed: %d of %d, %d events, %.1f s each', $done, $attaches, $events,
	(time - $from) / ($done || 1));
is($lost, 0, 'no event is lost in any attachment');
is(still_mapped($libvirt->qemu('t')), 0, 'QEMU maps no scratch memory any more');
push @qemu, settled($libvirt->qemu('t'), $qemu[0]{descriptors});
check_process('QEMU', @qemu);
check_process('libvirtd', @daemon);
is_as_before('t', "after $attaches attachments");
test_stopped();
check_seen('t', 'two busy vCPUs', 6);
done_testing();
