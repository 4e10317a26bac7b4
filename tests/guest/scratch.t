#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What exitless mode relies on, in guests with two vCPUs (scratch.c): memory that is mapped beside the
# kernel and unmapped again, per-CPU variables, the conversion of time stamps.
use strict;
use warnings;
use FindBin;
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Campaign;
use Files;
use GuestConfigs;
use GuestLog;
use Testbed;
use Tree;

my $out = "$build/guest/scratch";

# Alternately busy and idle; the clocks are read while memory is mapped and unmapped.
my $rc = <<'END';
echo "scratch-test: ready"
(while :; do workload -n 2 >/dev/null || echo "BUG: the workload failed"; usleep 30000; done) &
clock -n 20
echo "scratch-test: clock read"
while :; do sleep 10; done
END

sub check_kernel {
	my ($kernel) = @_;
	is(on_kvm_host({}, "$FindBin::RealBin/scratch-guest", $build, $out, $kernel), 0,
		'scratch ran on the KVM host');
	my $tap = slurp("$out/$kernel.tap");
	my $log = read_log("$out/$kernel.log");
	my ($plan) = $tap =~ /^1\.\.(\d+)$/m;
	my @lines = $tap =~ /^(?:not )?ok .*$/mg;
	for (split /\n/, $tap) {
		if (/^(not )?ok \d+ - (.*)/) {
			ok(!$1, $2);
		} elsif (!/^1\.\./) {
			/^# / && @lines && $tap !~ /^not ok/m ? note($_) : diag($_);
		}
	}
	is(scalar @lines, $plan // 'all of them', 'scratch made all its checks');
	is_untroubled($log, "the guest's log has no kernel warnings", WARNINGS, 'RIP: ', 'unstable', 'Spurious', 'not syncing');
}

empty_folder($out);
write_file("$out/rc", $rc);
build_initrd("$out/initrd", "$out/rc=/etc/rc");
for my $kernel (GuestConfigs::kernels(in_campaign() ? qw(5.10 6.1 6.12 7.0) : qw(5.10 7.0))) {
	subtest "$kernel, 2 vCPUs" => sub { check_kernel($kernel) };
}
done_testing();
