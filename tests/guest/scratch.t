#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What exitless tracing stands on, in real guests with two vCPUs (scratch.c): memory mapped beside the
# kernel and taken away again, per-CPU variables, the clock of time stamps that vCPUs take.
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

my $out = "$build/guest/scratch";

# Busy and idle by turns; the clock is read while memory comes and goes.
my $rc = <<'END';
echo "scratch-test: ready"
(while :; do workload -n 2 >/dev/null || echo "BUG: the workload failed"; usleep 30000; done) &
clock -n 20
echo "scratch-test: told"
while :; do sleep 10; done
END

sub check_kernel {
	my ($kernel) = @_;
	is(on_kvm_host({timeout => 260}, "$FindBin::RealBin/scratch-guest", $build, $out, $kernel), 0,
		'the KVM host did its job');
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
	is(scalar @lines, $plan // 'all of them', 'all checks were made');
	is_untroubled($log, 'no trouble in the log', WARNINGS, 'RIP: ', 'unstable', 'Spurious', 'not syncing');
}

empty_folder($out);
write_file("$out/rc", $rc);
build_initrd("$out/initrd", "$out/rc=/etc/rc");
for my $kernel (GuestConfigs::kernels(qw(5.10 6.1 6.12 7.0))) {
	subtest "$kernel, 2 vCPUs" => sub { check_kernel($kernel) };
}
done_testing();
