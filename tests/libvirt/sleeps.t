#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A domain cannot suspend to RAM (S3) while an exitless trace runs: at the wakeup QEMU would reset the device with the tracer's
# memory. When the trace has ended it can. (Awake, 6.1 accepts no device that is plugged in.) GUEST='6.12' for another
# kernel than 6.1.
use strict;
use warnings;
use FindBin;
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib", "$FindBin::RealBin/../guest";
use AttachTest;
use Files;
use GuestConfigs;
use GuestLog;
use Process;
use Testbed;
use Tree;

use constant { PATIENCE => 180 };

sub make_domain {
	my ($name, $version) = @_;
	build_initrd("$work/initrd", "$FindBin::RealBin/sleeps-inside=/etc/rc");
	start_ticking($name, kernel => kernel_image($version), line => 1);
}

sub nr_awake { return scalar(my @all = $libvirt->serial($_[0]) =~ /^awake/gm) }

sub wake_up {
	my ($name, $what) = @_;
	my $before = nr_awake($name);
	ok(wait_until(PATIENCE, sub { $libvirt->state_of($name) eq 'pmsuspended' }), "$what: the domain sleeps") or describe($name);
	$libvirt->virsh('dompmwakeup', $name);
	ok(wait_until(PATIENCE, sub { nr_awake($name) > $before }), "$what: it wakes up") or describe($name);
	ok(lives($name), "$what: it works");
}

sub test_exitless {
	my ($name) = @_;
	my $what = "$name exitless";
	my $pid = $libvirt->spawn('traced', attach_command($name));
	ok(wait_tracing(), "$what: attach traces") or diag(log_of('traced'));
	$libvirt->tell($name, 'sleep');
	ok($libvirt->wait_serial($name, qr/^refused/m, PATIENCE), "$what: the guest cannot suspend") or describe($name);
	ok(lives($name), "$what: it goes on");
	kill INT => $pid;
	is($libvirt->wait_for($pid, PATIENCE), 130, "$what: the trace goes on until SIGINT") or diag(log_of('traced'));
	is_as_before($name, "$what: left");
	$libvirt->tell($name, 'sleep');
	wake_up($name, $what);
	is_as_before($name, "$what: awake");
	is_deeply([found($libvirt->serial($name), 'failure')], [], "$what: nothing fails in the guest");
}

AttachTest::start();
for my $version (GuestConfigs::kernels('6.1')) {
	my $name = 'sleeps-' . $version =~ s/\./-/r;
	make_domain($name, $version);
	test_exitless($name);
	$libvirt->destroy($name);
}
done_testing();
