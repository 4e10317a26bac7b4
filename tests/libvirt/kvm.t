#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A domain of type='kvm': libvirtd and the oracle test run in the KVM host in software, so that the
# guest is one of real KVM, with libvirt and QEMU between it and sonde.
use strict;
use warnings;
use Cwd qw(realpath);
use File::Basename qw(dirname);
use Test::More;

use lib dirname(realpath($0));
use Libvirt;

my $tests = dirname(realpath($0));
my $tree = realpath("$tests/../..");
my $build = realpath($ENV{O} // "$tree/build");

my $why = Libvirt::missing();
plan skip_all => $why if $why;
my $inside = "chmod 666 /dev/kvm && DOMAIN_TYPE=kvm O=$build ITERATIONS_SCALE=" .
	($ENV{ITERATIONS_SCALE} // 1) . " exec perl $tests/oracle.t";
open my $tap, '-|', "$tree/tests/testbed/kvm-host", '--mem', 2048, '--cpus', 1, '--share', $build, '--timeout', 1200,
	'--', 'sh', '-c', $inside or die "kvm-host: $!";
my %passed;
while (<$tap>) {
	diag($_) if /^#|^Bail/;
	next unless /^(not )?ok \d+ - (.*)/;
	$passed{$2} = ok(!$1, "type='kvm': $2");
}
close $tap;
is($?, 0, "type='kvm': the test in the KVM host has passed");
ok(scalar(grep { /none of them missing in ours/ } keys %passed), "type='kvm': the guest's events were compared");
done_testing();
