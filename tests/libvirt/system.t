#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# sonde attach with a system libvirt, as root, by the domain's name, uuid and id; and the users that libvirt refuses: of
# the read-only socket, and those without any access.
use strict;
use warnings;
use FindBin;
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Files;
use SystemLibvirt;
use Testbed;
use Tree;

my $read_only = 'qemu+unix:///system?socket=/run/libvirt/libvirt-sock-ro';

my $why = SystemLibvirt::missing();
plan skip_all => $why if $why;
my $libvirt = SystemLibvirt->start("$build/sonde");
END { undef $libvirt }
my $work = $libvirt->work;

# Everything that an attachment could have changed.
sub state_of_everything {
	my ($status, $files) = $libvirt->run('sh', '-c', 'ls /run/sonde /dev/shm 2>/dev/null');
	return $libvirt->state_of('s') . "\n" . $libvirt->virsh('dumpxml', 's') . $files;
}

sub is_refused {
	my ($what, $pattern, @command) = @_;
	my $before = state_of_everything();
	my ($status, $text) = $libvirt->run(@command);
	is($status, 1, "$what: attach has status 1");
	like($text, $pattern, "$what: the error says what to do");
	is(scalar(split /\n/, $text), 1, "$what: the error is one line") or diag($text);
	is(state_of_everything(), $before, "$what: nothing is changed");
}

sub test_names {
	my $uuid = $libvirt->virsh('domuuid', 's') =~ s/\s//gr;
	my $id = $libvirt->virsh('domid', 's') =~ s/\s//gr;
	for my $name ('s', $uuid, $id) {
		my ($status, $text) = $libvirt->run($libvirt->sonde('attach', $name, '--dry-run'));
		is($status, 0, "attach to '$name' has status 0") or diag($text);
		like($text, qr/^domain   s \($uuid\), 1 vCPU$/m, "attach to '$name' finds the domain");
	}
}

sub test_traced {
	my $before = state_of_everything();
	my ($status, $text) = $libvirt->run($libvirt->sonde('attach', 's', '-v', '--until-events', 500, '-o', "$work/out/s"));
	is($status, 0, 'attach as root has status 0') or diag($text);
	like($text, qr/^sonde attach: [\d,]+ allocations and [\d,]+ frees in \S+, lost: none$/m, 'attach as root: no event is lost');
	is(state_of_everything(), $before, 'attach as root: the domain is as before');
	($status, $text) = $libvirt->run("$work/sonde", 'attach', 's', '--dry-run');
	is($status, 0, "root's default URI is qemu:///system") or diag($text);
}

sub test_refusals {
	my %attach = (attach => ['-o', "$work/out/ro"], 'dry run' => ['--dry-run'], traps => ['--mode', 'trap', '-o', "$work/out/ro"]);
	for my $what (sort keys %attach) {
		is_refused("read-only socket, $what", qr/read only access .*; use libvirt's socket for reading and writing, as root or as a member of the group libvirt/,
			"$work/sonde", 'attach', '-c', $read_only, 's', @{$attach{$what}});
	}
	ok(!-e "$work/out/ro", 'read-only socket: no trace directory is created');
	is_refused('another user', qr/Permission denied; run as root, or as a member of the group libvirt/, 'setpriv', '--reuid=65534', '--regid=65534', '--clear-groups',
		$libvirt->sonde('attach', 's', '-o', "$work/out/nobody"));
}

ok($libvirt->wait_ready, 'qemu:///system is ready') or BAIL_OUT(slurp("$work/libvirtd.txt"));
build_initrd("$work/initrd", "$FindBin::RealBin/ticks=/etc/rc");
$libvirt->domain('s', kernel => "$build/kernels/6.1/vmlinuz", initrd => "$work/initrd", cpus => 1, machine => 'q35', memory => 'shared', cmdline => '');
ok($libvirt->wait_serial('s', qr/tick/, 240), 'the guest boots') or BAIL_OUT($libvirt->serial('s'));
test_names();
test_traced();
test_refusals();
done_testing();
