#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Domains of type='kvm': libvirtd, the oracle test in both modes and, if LONG=1, the tests of breakpoints (kvm-traps) and of
# vCPUs that halt without an exit (kvm-idle) run in the software KVM host. So the guests run under real KVM, with libvirt and QEMU
# between them and sonde. PARTS='kvm-traps' selects parts.
use strict;
use warnings;
use FindBin;
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Campaign;
use Libvirt;
use Tree;

my @parts = split ' ', $ENV{PARTS} // ($ENV{LONG} ? 'oracle.t kvm-traps kvm-idle' : 'oracle.t');

# The oracle takes about half of the time.
sub budget { return in_campaign() && $_[0] eq 'kvm-traps' ? sprintf 'BUDGET=%d ', seconds_left() / 2 : '' }

my $why = Libvirt::missing();
plan skip_all => $why if $why;
my $settings = join ' ', 'DOMAIN_TYPE=kvm', "O=$build",
	map { "$_=$ENV{$_}" } grep { exists $ENV{$_} } qw(ITERATIONS_SCALE KVM_KILLS LONG SEED);
my $inside = join '; ', 'chmod 666 /dev/kvm', 'failed=0',
	map({ budget($_) . "$settings perl $FindBin::RealBin/$_ || failed=1" } @parts), 'exit $failed';
open my $tap, '-|', "$tree/tests/testbed/kvm-host", '--mem', 2048, '--cpus', 1, '--share', $build, '--timeout', 2400 + ($ENV{BUDGET} // 0),
	'--', 'sh', '-c', $inside or die "kvm-host: $!";
my %passed;
while (<$tap>) {
	diag($_) if /^#|^Bail/;
	next unless /^(not )?ok \d+ - (.*)/;
	$passed{$2} = ok(!$1, "type='kvm': $2");
}
close $tap;
is($?, 0, "type='kvm': the tests in the KVM host pass");
for my $mode (grep { "@parts" =~ /oracle/ } qw(exitless trap)) {
	ok(scalar(grep { /$mode: none of them is missing in the trace/ } keys %passed),
		"type='kvm', $mode: sonde's events are compared with the guest's");
}
done_testing();
