#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A traced guest hibernates, or starts another kernel with kexec: tracing ends before, with a reason, and the guest goes on
# undisturbed. When it panics, and so starts its crash kernel, tracing ends then. WAYS='crash-trap' for some of them. GUEST='6.12' for another kernel than 6.1.
use strict;
use warnings;
use FindBin;
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Files;
use GuestConfigs;
use GuestLog;
use Testbed;
use Tree;

my $two_boots = qr/Linux version.*Linux version.*sonde-guest: init/s;
my $crash = 'the guest has crashed, and starts its crash kernel (kdump)';
my %ways = (
	hibernation => {what => 'hibernation', mode => 'exitless', why => 'the guest hibernates', status => 0, proof => qr/hibernation: .*[Ii]mage created/},
	'kexec-trap' => {what => 'kexec', mode => 'trap', why => 'the guest starts another kernel (kexec)', status => 3, proof => $two_boots},
	'crash-trap' => {what => 'crash', mode => 'trap', why => $crash, status => 5, proof => $two_boots},
	'crash-exitless' => {what => 'crash', mode => 'exitless', why => $crash, status => 5, proof => $two_boots},
	'kexec-exitless' => {what => 'kexec', mode => 'exitless', why => 'the guest starts another kernel (kexec)', status => 3, proof => $two_boots},
);

sub make_initrd {
	my ($out, $image) = @_;
	build_initrd("$out/small");
	build_initrd("$out/initrd", "$FindBin::RealBin/leave-inside=/bin/leave-inside", "$image=/boot/vmlinuz", "$out/small=/boot/initrd");
}

sub test_way {
	my ($version, $name) = @_;
	my $way = $ways{$name};
	my $out = "$build/guest/leave-$version-$name";
	my $image = kernel_image($version);
	empty_folder($out);
	make_initrd($out, $image);
	is(on_kvm_host({mem => 2048}, "$FindBin::RealBin/leave-guest", $out, $image, "$out/initrd", $way->{mode}, "leave-inside $way->{what}"),
		0, 'leave-guest ran on the KVM host');
	my ($log, $err) = (read_log("$out/log"), slurp("$out/err"));
	is(slurp("$out/status"), "$way->{status}\n", "sonde run exits with status $way->{status}") or diag($err);
	like($err, qr/^sonde run: \Q$way->{why}\E: tracing has ended$/m, 'sonde run says why tracing ends');
	my ($ended) = slurp("$out/trace/.sonde.json") =~ /"ended": "([^"]*)"/;
	is($ended, $way->{why}, 'the trace names the reason');
	like($log, $way->{proof}, 'the guest goes on');
	is_deeply([found($log, 'failure')], [], 'nothing fails in the guest');
	$log =~ s/^.*sysrq: Trigger a crash.*?Linux version//ms if $way->{what} eq 'crash';
	is_untroubled($log, "the guest's log has no kernel warnings", WARNINGS);
	my $text = `\Q$build\E/sonde check \Q$out\E/trace 2>&1`;
	is($? >> 8, 0, 'sonde check finds no error') or diag($text);
	like($err, qr/lost: none/, 'nothing is lost') or diag($err);
}

for my $version (GuestConfigs::kernels('6.1')) {
	for my $name ($ENV{WAYS} ? split(' ', $ENV{WAYS}) : sort keys %ways) {
		subtest "$version $name" => sub { test_way($version, $name) };
	}
}
done_testing();
