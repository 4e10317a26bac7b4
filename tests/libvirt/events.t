#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What other users of libvirt see of an attachment, and what becomes of it when they migrate, save, snapshot, dump,
# revert, reset or shut down the domain meanwhile.
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
	ok(wait_tracing(), "$name: traced");
	sleep 0.5;
	return $pid;
}

# The trace is whole and says why it ended.
sub is_noted {
	my ($pid, $why) = @_;
	is($libvirt->wait_for($pid, 200), 0, "$why: status 0") or diag(log_of('traced'));
	like(log_of('traced'), qr/sonde attach: $why, and the trace ended with it/, "$why: sonde says so");
	ok(sidecar() =~ /"complete": true.*"ended": "$why"/s, "$why: the trace says so");
	my ($status, $text) = $libvirt->run("$work/sonde", 'report', trace_dir());
	like($text, qr/^Ended as +$why$/m, "$why: the report says so");
	($status, $text) = $libvirt->run("$work/sonde", 'check', trace_dir());
	is($status, 0, "$why: sonde check finds the trace whole") or diag($text);
	my ($allocs) = report();
	cmp_ok($allocs, '>', 0, "$why: $allocs allocations");
	is(scalar(journals()), 0, "$why: no journal");
}

# Refused, and nothing happens to anybody.
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
		isnt($status, 0, "virsh $case->[0] while attached: refused");
		like($text, qr/Migration is disabled|shmem/, "virsh $case->[0]: libvirt says why");
		ok(lives('t'), "virsh $case->[0]: the guest makes progress");
	}
	kill INT => $pid;
	is($libvirt->wait_for($pid, 60), 130, 'not moved: the trace goes on until Ctrl-C');
	is_as_before('t', 'not moved');
}

# What leaves the guest's memory where it is goes on beside the trace. A dump pauses the domain, for a reason of its own.
sub test_beside {
	my $pid = start_trace('t');
	$libvirt->virsh('snapshot-create-as', 't', 'beside', '--disk-only', '--diskspec',
		"sda,snapshot=external,file=$work/out/beside.qcow2");
	ok(lives('t'), 'snapshot of the disk while attached: the guest makes progress');
	$libvirt->virsh('dump', 't', "$work/out/core", '--memory-only');
	ok(-s "$work/out/core" && lives('t'), 'dump while attached: the guest makes progress');
	unlink "$work/out/core";
	kill INT => $pid;
	is($libvirt->wait_for($pid, 60), 130, 'beside: the trace goes on until Ctrl-C') or diag(log_of('traced'));
	is_as_before('t', 'beside a snapshot of the disk and a dump');
}

# To what was before the attachment: memory and all.
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
	ok(lives('t') && ticks('t') > $ticks, 'virsh save and restore after an attachment: the guest goes on');
}

sub test_reset {
	my $pid = start_trace('t');
	$libvirt->virsh('reset', 't');
	my $boots = () = $libvirt->serial('t') =~ /sonde-guest: init/g;
	is_noted($pid, 'the domain was reset');
	unlike($libvirt->virsh('dumpxml', 't'), qr/ua-sonde/, 'reset: no device is left');
	wait_until(240, sub { (() = $libvirt->serial('t') =~ /sonde-guest: init/g) > $boots });
	ok(lives('t'), 'reset: the guest boots again, and makes progress');
	my ($status, $text) = attach('t', '--duration', 1);
	is($status, 0, 'reset: it can be traced again') or diag($text);
}

sub test_shut_down {
	my $pid = start_trace('t');
	$libvirt->tell('t', 'go');
	is_noted($pid, 'the domain was shut down');
	delete $libvirt->{domains}{t};
}

# It powers off when told.
AttachTest::start();
open my $rc, '>', "$work/rc" or die $!;
print $rc "head -c 1 /dev/random >/tmp/random\n(read -r line </dev/ttyS1; poweroff -f) &\n",
	"n=0\nwhile true; do n=\$((n + 1)); cat /proc/self/maps >/tmp/x; echo \"tick \$n\" >/dev/ttyS0; usleep 200000; done\n";
close $rc;
build_initrd("$work/initrd", "$work/rc=/etc/rc");
start_ticking('t', line => 1, disk => 1, persistent => 1);
check_seen('t', 'quiet', 4);
test_moved();
test_beside();
test_reverted();
test_saved_afterwards();
test_reset();
test_shut_down();
done_testing();
