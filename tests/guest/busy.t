#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# vCPUs that are never seen halted or in user mode: idle ones poll (idle=poll), and one works in the kernel all the time.
# When tracing ends, the trampolines are unmapped nevertheless, in bounded time. GUEST='6.12' for other kernels than 6.1.
use strict;
use warnings;
use FindBin;
use List::Util qw(max min);
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Files;
use GuestConfigs;
use GuestLog;
use MarkedGuest;
use Testbed;
use Tree;

# Seconds. Stacks are looked at after one of them (QUIESCE_JUDGE_MS), if a vCPU was not seen halted or in user mode; the
# rest is for a busy host.
use constant { LEAST_SECONDS => 1, MOST_SECONDS => 10 };

sub judge {
	my ($out, $log, $result) = @_;
	is($result->{marks}{up}{mode}, 'exitless', 'tracing is in exitless mode');
	like($log, qr/using polling idle threads/, 'idle vCPUs poll');
	my @seconds = @{$result->{left_after} // []};
	is(scalar @seconds, 2, 'the trampolines are unmapped while idle vCPUs poll, and while one works in the kernel');
	cmp_ok(max(0, @seconds), '<', MOST_SECONDS, 'it takes at most ' . MOST_SECONDS . ' s each time');
	cmp_ok(min(MOST_SECONDS, @seconds), '>', LEAST_SECONDS, 'not before the stacks of vCPUs were looked at');
	note("left after @seconds s");
	is_deeply([found($log, 'failure')], [], 'no command failed in the guest');
	is_untroubled($log, "the guest's log has no kernel warnings", WARNINGS);
	my $text = `\Q$build\E/sonde check \Q$out\E/trace 2>&1`;
	is($? >> 8, 0, 'sonde check finds no error') or diag($text);
}

sub test_guest {
	my ($version) = @_;
	my $out = "$build/guest/busy-$version";
	empty_folder($out);
	build_initrd("$out/initrd", "$FindBin::RealBin/busy-inside=/bin/busy-inside");
	judge($out, MarkedGuest::run($out, $version, 'exitless', 'busy-inside', 'idle=poll loglevel=7'));
}

for my $version (GuestConfigs::kernels('6.1')) {
	subtest $version => sub { test_guest($version) };
}
done_testing();
