#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What exitless tracing stands on, in real guests with two vCPUs (scratch.c): memory mapped beside the
# kernel and taken away again, per-CPU variables, the clock of time stamps that vCPUs take.
use strict;
use warnings;
use Cwd qw(realpath);
use File::Basename qw(dirname);
use File::Path qw(make_path remove_tree);
use Test::More;

my $tests = dirname(realpath($0));
my $tree = realpath("$tests/../..");
my $build = realpath($ENV{O} // "$tree/build");
my $out = "$build/guest/scratch";
my @kernels = split ' ', $ENV{GUEST} || '5.10 6.1 6.12 7.0';

my $trouble = qr/^.*(?:WARNING:|BUG:|Oops|RIP: |soft lockup|rcu.*stall|unstable|Spurious|not syncing).*$/m;

# Busy and idle by turns; the clock is read while memory comes and goes.
my $rc = <<'END';
echo "scratch-test: ready"
(while :; do workload -n 2 >/dev/null || echo "BUG: the workload failed"; usleep 30000; done) &
clock -n 20
echo "scratch-test: told"
while :; do sleep 10; done
END

sub slurp {
	open my $in, '<:raw', $_[0] or return '';
	local $/;
	return scalar(<$in>) // '';
}

sub make_initrd {
	open my $file, '>', "$out/rc" or die "rc: $!";
	print $file $rc;
	close $file or die "rc: $!";
	system("$tree/tests/testbed/build-initrd", "$out/initrd", "$out/rc=/etc/rc") == 0
		or die "build-initrd failed";
}

sub check_kernel {
	my ($kernel) = @_;
	system("$tree/tests/testbed/kvm-host", '--cpus', 1, '--share', $build, '--timeout', 260, '--',
		"$tests/scratch-guest", $build, $out, $kernel);
	is($?, 0, 'the KVM host did its job');
	my $tap = slurp("$out/$kernel.tap");
	my $log = slurp("$out/$kernel.log") =~ s/\r//gr;
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
	is($log =~ $trouble ? $& : undef, undef, 'no trouble in the log') or diag($log);
}

plan skip_all => 'GUEST names no kernel' unless @kernels;
remove_tree($out);
make_path($out);
make_initrd();
for my $kernel (@kernels) {
	subtest "$kernel, 2 vCPUs" => sub { check_kernel($kernel) };
}
done_testing();
