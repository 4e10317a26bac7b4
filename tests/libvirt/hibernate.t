#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A traced domain hibernates to its swap disk, powers off, is started again, and goes on from that image. The trace ends
# before the image is made, with a reason. What the domain resumes into has nothing of the tracer: neither in its text nor
# at any other place that the tracer has written to. It can be traced again. GUEST='6.12' for another kernel than 6.1,
# which must have a driver of NVMe built in.
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

use constant { DISK_MIB => 512, PATIENCE => 180 };

sub make_domain {
	my ($name, $version) = @_;
	my $disk = "$work/out/$name.swap";
	my ($status, $text) = $libvirt->run('truncate', '-s', DISK_MIB . 'M', $disk);
	die "truncate: $text" if $status;
	build_initrd("$work/initrd", "$FindBin::RealBin/hibernate-inside=/etc/rc");
	start_ticking($name, kernel => kernel_image($version), line => 1, persistent => 1,
		arguments => ['-drive', "file=$disk,format=raw,if=none,id=swap", '-device', 'nvme,serial=swap,drive=swap,bus=pcie.0,addr=0x10']);
}

# The kernel makes a number when it boots, and keeps it in an image.
sub boot_of { return ($libvirt->serial($_[0]) =~ /^boot (\S+) tick/gm)[-1] // 'none' }

# What the tracer has written to: [gpa, bytes of before].
sub places_written {
	my %first;
	for my $journal (map { slurp("$work/run/sonde/$_") } journals()) {
		$first{$1} //= $2 while $journal =~ /^write ([0-9a-f]+) ([0-9a-f]+) /mg;
	}
	return map { [hex $_, pack 'H*', $first{$_}] } keys %first;
}

sub holds_places {
	my ($name, @places) = @_;
	my @wrong = grep { $libvirt->memory($name, $_->[0], length $_->[1]) ne $_->[1] } @places;
	return map { sprintf '0x%x', $_->[0] } @wrong;
}

sub resume {
	my ($name, $what, $boot) = @_;
	$libvirt->virsh('start', $name);
	ok($libvirt->wait_serial($name, qr/^awake/m, PATIENCE), "$what: the domain is started, and goes on from its image") or describe($name);
	ok(lives($name), "$what: it works");
	is(boot_of($name), $boot, "$what: it is the kernel that was traced, and no other");
}

sub hibernate {
	my ($name, $what, $pid) = @_;
	$libvirt->tell($name, 'hibernate');
	is($libvirt->wait_for($pid, PATIENCE), 0, "$what: hibernation ends attach with status 0") or diag(log_of('traced'));
	like(log_of('traced'), qr/^sonde attach: the guest hibernates, and the trace ended with it$/m, "$what: attach says so");
	like(sidecar(), qr/"ended": "the guest hibernates"/, "$what: the trace says so, too");
	ok(wait_until(PATIENCE, sub { $libvirt->state_of($name) eq 'shutoff' }), "$what: the domain writes its image, and powers off")
		or describe($name);
}

sub test_mode {
	my ($name, $mode) = @_;
	my ($what, $boot) = ("$name $mode", boot_of($name));
	my $pid = $libvirt->spawn('traced', attach_command($name, '--mode', $mode));
	ok(wait_tracing(), "$what: attach traces") or diag(log_of('traced'));
	ok(lives($name), "$what: the traced domain works");
	my @places = places_written();
	cmp_ok(scalar @places, '>', 10, "$what: the tracer has written to " . @places . ' places') if $mode eq 'exitless';
	hibernate($name, $what, $pid);
	resume($name, $what, $boot);
	is_deeply([holds_places($name, @places)], [], "$what: all places that the tracer has written to have their bytes of before");
	is_as_before($name, "$what: resumed");
	my ($status, $text) = attach($name, '--duration', 1);
	is($status, 0, "$what: the resumed domain can be traced") or diag($text);
	is_as_before($name, "$what: traced once more");
	is_deeply([found($libvirt->serial($name), 'failure')], [], "$what: nothing fails in the guest");
}

AttachTest::start();
for my $version (GuestConfigs::kernels('6.1')) {
	my $name = 'hibernate-' . $version =~ s/\./-/r;
	make_domain($name, $version);
	test_mode($name, $_) for qw(exitless trap);
	$libvirt->destroy($name);
}
done_testing();
