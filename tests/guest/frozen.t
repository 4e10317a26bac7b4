#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The file system of a trace hangs while `sonde run` records more than its memory holds, by trampolines and by traps: the
# guest goes on, none of its watchdogs fires, what is lost is counted, and the trace is valid when the file system works
# again. GUEST='6.12' for other kernels than 6.1, MODES=trap for one mode.
use strict;
use warnings;
use FindBin;
use JSON::PP;
use List::Util qw(max);
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Files;
use GuestConfigs;
use GuestLog;
use Testbed;
use Ticks;
use Tree;

# Seconds of the guest's time; frozen-inside sets its watchdogs to 2 and 3 s, the lowest. When the disk hangs, a vCPU waits for
# half a second, and not again: in exitless mode for room in its ring, in trap mode for the disk. Ticks are later, in
# exitless mode much later: each lost record is an exit, for which the emulated host takes long.
use constant { LONGEST_WAIT => 3, LONGEST_GAP => 2 };

# Many events, which are large: before a vCPU waits the disk's 8 MiB and the rings must be full, within the 10 s for which
# sonde waits for the disk. By traps there are fewer of them; each instance writes its own.
my $fields = 'pid,tgid,comm,cgroup';
my %modes = (
	exitless => {seconds => 15, judge => \&judge_rings,
		specs => ["kmem:$fields", "function:vfs_*,*alloc*,*free*,*page*,*lock*,parent,$fields"]},
	trap => {seconds => 30, judge => \&judge_traps, specs => [map { "i$_=kmem:$fields,stack" } 1 .. 12]},
);

sub judge_rings {
	my ($log, $result) = @_;
	my @waited = map { { map { ($_->{index} => $_->{ring_wait_ns} / 1e9) } @{$_->{vcpus} // []} } } @$result{'before', 'seen'};
	my $waited = max(0, map { $waited[1]{$_} - $waited[0]{$_} } keys %{$waited[1]});
	cmp_ok($waited, '>', 0, 'vCPUs wait for room');
	cmp_ok($waited, '<', LONGEST_WAIT, sprintf 'none of them longer than %.2f s in all', $waited);
}

sub judge_traps {
	my ($log, $result) = @_;
	my $gap = longest_gap((ticks_of($log))[$result->{from} .. $result->{to}]);
	cmp_ok($result->{seen}{disk_waits}, '>', 0, 'vCPUs wait for the disk');
	cmp_ok($gap, '<', LONGEST_GAP, sprintf 'the guest stands still for %.2f s at most', $gap);
}

sub judge_guest {
	my ($log, $result, $mode) = @_;
	like($log, qr/^watchdogs: 1 after 1, 3$/m, "the guest's watchdogs are on");
	$mode->{judge}->($log, $result);
	is_untroubled($log, 'no watchdog of the guest fires, and it has no warnings', WARNINGS);
}

sub judge_trace {
	my ($out, $err) = @_;
	like($err, qr/, lost: [\d,]+ records: not written/, 'sonde run says what was lost, and why');
	like($err, qr/^sonde run: cpu\d: cannot write: /m, 'and that the disk did not take it');
	my $text = `\Q$build\E/sonde report --json \Q$out\E/trace 2>/dev/null`;
	my $report = eval { decode_json($text) } // {overruns => 0};
	cmp_ok($report->{overruns}, '>', 0, "the trace has the number: $report->{overruns}");
	my $said = `\Q$build\E/sonde check \Q$out\E/trace 2>&1`;
	is($?, 0, 'the trace is valid') or diag($said);
}

sub test_guest {
	my ($version, $name) = @_;
	my ($mode, $out) = ($modes{$name}, "$build/guest/frozen-$version-$name");
	my $modules = fetch_kernel('6.1-host') . '/modules';
	-e "$modules/kernel/drivers/block/loop.ko" or die "$modules was fetched by an older tree: remove its kernel\n";
	empty_folder($out);
	build_initrd("$out/initrd", "$FindBin::RealBin/frozen-inside=/etc/rc");
	is(on_kvm_host({}, "$FindBin::RealBin/frozen-guest", $out, kernel_image($version), "$out/initrd", $modules,
		$mode->{seconds}, $name, @{$mode->{specs}}), 0, 'frozen-guest ran on the KVM host');
	my $result = eval { decode_json(slurp("$out/result.json")) } // {failure => 'frozen-guest left no result'};
	my $err = slurp("$out/err");
	is($result->{failure}, undef, 'the guest worked all the time') or diag($err);
	is($result->{status}, 1, 'sonde run ends with status 1, as events are missing') or diag($err);
	judge_guest(read_log("$out/log"), $result, $mode);
	judge_trace($out, $err);
	note($err);
}

for my $version (GuestConfigs::kernels('6.1')) {
	for my $mode ($ENV{MODES} ? split(' ', $ENV{MODES}) : sort keys %modes) {
		subtest "$version $mode" => sub { test_guest($version, $mode) };
	}
}
done_testing();
