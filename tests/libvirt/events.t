#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What other users of libvirt see of an attachment, and how it ends when they migrate, save, snapshot, dump, revert,
# reset or shut down the domain meanwhile.
use strict;
use warnings;
use FindBin;
use Test::More;
use Time::HiRes qw(sleep time);

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use AttachTest;
use Process;

sub start_trace {
	my ($name) = @_;
	my $pid = $libvirt->spawn('traced', attach_command($name));
	ok(wait_tracing(), "$name: attach traces");
	sleep 0.5;
	return $pid;
}

# The trace is complete and says why it ended.
sub is_noted {
	my ($pid, $why) = @_;
	is($libvirt->wait_for($pid, 200), 0, "$why: attach has status 0") or diag(log_of('traced'));
	like(log_of('traced'), qr/sonde attach: $why, and the trace ended with it/, "$why: attach says so");
	ok(sidecar() =~ /"complete": true.*"ended": "$why"/s, "$why: the trace is complete and says so");
	my ($status, $text) = $libvirt->run("$work/sonde", 'report', trace_dir());
	like($text, qr/^Ended as +$why$/m, "$why: the report says so");
	($status, $text) = $libvirt->run("$work/sonde", 'check', trace_dir());
	is($status, 0, "$why: sonde check finds no error") or diag($text);
	my ($allocs) = report();
	cmp_ok($allocs, '>', 0, "$why: the trace has $allocs allocations");
	is(scalar(journals()), 0, "$why: no journal is left");
}

# libvirt refuses them because of the device; trace and guest go on.
sub test_moved {
	my $pid = start_trace('t');
	my $memory = "$work/out/snapshot.memory,snapshot=external";
	my @disk = ('--diskspec', "sda,snapshot=external,file=$work/out/snapshot.qcow2");
	for my $case (
		['save', 't', "$work/out/saved"],
		['managedsave', 't'],
		['migrate', 't', Libvirt::URI, '--live'],
		['snapshot-create', 't'],
		['snapshot-create-as', 't', 's', '--memspec', "file=$memory", @disk],
		['snapshot-create-as', 't', 's', '--live', '--memspec', "file=$memory", @disk],
	) {
		my ($status, $text) = $libvirt->run('virsh', '-q', '-c', Libvirt::URI, @$case);
		isnt($status, 0, "virsh $case->[0] is refused while attached");
		like($text, qr/Migration is disabled|shmem/, "virsh $case->[0]: libvirt names the device as the cause");
		ok(lives('t'), "virsh $case->[0] refused: the guest makes progress");
	}
	kill INT => $pid;
	is($libvirt->wait_for($pid, 60), 130, 'migration and saves refused: the trace goes on until SIGINT');
	is_as_before('t', 'migration and saves refused');
}

# Jobs that leave the guest's memory in place work while it is traced. A dump pauses the domain, with a reason.
sub test_beside {
	my $pid = start_trace('t');
	$libvirt->virsh('snapshot-create-as', 't', 'beside', '--disk-only', '--diskspec',
		"sda,snapshot=external,file=$work/out/beside.qcow2");
	ok(lives('t'), 'snapshot of the disk while attached: the guest makes progress');
	$libvirt->virsh('dump', 't', "$work/out/core", '--memory-only');
	ok(-s "$work/out/core" && lives('t'), 'dump while attached: the guest makes progress');
	unlink "$work/out/core";
	kill INT => $pid;
	is($libvirt->wait_for($pid, 60), 130, 'after a disk snapshot and a dump the trace goes on until SIGINT') or diag(log_of('traced'));
	is_as_before('t', 'after a disk snapshot and a dump');
}

# To a snapshot with memory, from before the attachment.
sub test_reverted {
	$libvirt->virsh('snapshot-create-as', 't', 'whole');
	my $pid = start_trace('t');
	$libvirt->virsh('snapshot-revert', 't', 'whole');
	is_noted($pid, 'the domain was reverted to a snapshot');
	is_as_before('t', 'reverted');
}

sub test_saved_afterwards {
	my $ticks = ticks('t');
	$libvirt->virsh('save', 't', "$work/out/saved");
	$libvirt->virsh('restore', "$work/out/saved");
	unlink "$work/out/saved";
	ok(lives('t') && ticks('t') > $ticks, 'saved and restored after an attachment: the guest makes progress');
}

sub test_reset {
	my $pid = start_trace('t');
	$libvirt->virsh('reset', 't');
	my $boots = () = $libvirt->serial('t') =~ /sonde-guest: init/g;
	is_noted($pid, 'the domain was reset');
	unlike($libvirt->virsh('dumpxml', 't'), qr/ua-sonde/, 'reset while traced: no device is left');
	wait_until(240, sub { (() = $libvirt->serial('t') =~ /sonde-guest: init/g) > $boots });
	ok(lives('t'), 'reset while traced: the guest boots again and makes progress');
	my ($status, $text) = attach('t', '--duration', 1);
	is($status, 0, 'reset while traced: the guest can be traced again') or diag($text);
}

sub test_shut_down {
	my $pid = start_trace('t');
	$libvirt->tell('t', 'go');
	is_noted($pid, 'the domain was shut down');
	delete $libvirt->{domains}{t};
}

# The guest powers off when a line arrives on ttyS1.
AttachTest::start();
open my $rc, '>', "$work/rc" or die $!;
print $rc "head -c 1 /dev/random >/tmp/random\n(read -r line </dev/ttyS1; poweroff -f) &\n",
	"n=0\nwhile true; do n=\$((n + 1)); cat /proc/self/maps >/tmp/x; echo \"tick \$n\" >/dev/ttyS0; usleep 200000; done\n";
close $rc;
build_initrd("$work/initrd", "$work/rc=/etc/rc");
start_ticking('t', line => 1, disk => 1, persistent => 1);
check_seen('t', 'quiet domain', 4);
test_moved();
test_beside();
test_reverted();
test_saved_afterwards();
test_reset();
test_shut_down();
done_testing();
