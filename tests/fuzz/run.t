#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Runs the libFuzzer programs named as arguments, AT_ONCE (2) at a time, for FUZZ_SECONDS each or BUDGET together,
# with the seeds of tests/fuzz/corpus/NAME/ if there are any. The input of a crash is stored in $O/fuzz/found/.
use strict;
use warnings;
use File::Basename qw(basename dirname);
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use FindBin;
use POSIX ();
use Test::More;

use lib "$FindBin::RealBin/../lib";
use Campaign;
use Files;

use constant { GRACE_SECONDS => 120, INPUT_SECONDS => 20, MEMORY_MIB => 2048 };

my $at_once = $ENV{AT_ONCE} // 2;
my $seconds = $ENV{FUZZ_SECONDS} // 30;
my $corpora = "$FindBin::RealBin/corpus";
my $work = tempdir('fuzz-XXXXXX', TMPDIR => 1, CLEANUP => 1);

# Returns the process id. The output goes to $work/NAME.log.
sub start {
	my ($program) = @_;
	my $name = basename($program);
	my $found = dirname($program) . "/../../fuzz/found";
	make_path("$work/$name", $found);
	my @seeds = grep { -d } "$corpora/" . $name =~ s/^fuzz-//r;
	my $pid = fork // die "fork: $!";
	return $pid if $pid;
	open STDIN, '<', '/dev/null';
	open STDOUT, '>', "$work/$name.log";
	open STDERR, '>&', \*STDOUT;
	exec('timeout', '-k', 5, $seconds + GRACE_SECONDS, $program, "-max_total_time=$seconds",
		'-timeout=' . INPUT_SECONDS, '-rss_limit_mb=' . MEMORY_MIB, '-print_final_stats=1',
		"-artifact_prefix=$found/$name-", "$work/$name", @seeds) or POSIX::_exit(127);
}

sub judge {
	my ($program, $status) = @_;
	my $name = basename($program);
	my $log = slurp("$work/$name.log");
	my ($runs) = $log =~ /^stat::number_of_executed_units:\s*(\d+)/m;
	is($status, 0, sprintf '%s: no crash in %s runs', $name, $runs // 'unknown')
		or diag(substr $log, length $log > 6000 ? -6000 : 0);
	cmp_ok($runs // 0, '>', 0, "$name: the target was run at least once");
	add_total($runs // 0, "runs of $name");
	diag(sprintf '%s: %d runs in %d s', $name, $runs // 0, $seconds);
}

my @programs = @ARGV;
plan skip_all => 'no fuzz programs named; run make check-fuzz' unless @programs;
$seconds = 1 + int($ENV{BUDGET} * $at_once / @programs) if in_campaign();
my %running;
while (@programs || %running) {
	while (@programs && keys %running < $at_once) {
		my $program = shift @programs;
		$running{start($program)} = $program;
	}
	my $pid = wait;
	my $status = $?;
	judge(delete $running{$pid}, $status) if $running{$pid};
}
done_testing();
