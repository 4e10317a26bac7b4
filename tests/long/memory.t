#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A trace that is larger than the machine's memory: the verbs read one of 10 GiB, in a control group that has 2 GiB
# for the process and for its part of the page cache. GIB and LIMIT_MIB change that.
use strict;
use warnings;
use File::Path qw(remove_tree);
use FindBin;
use Test::More;
use Time::HiRes qw(time);

use lib "$FindBin::RealBin/../lib";
use Campaign;
use Files;
use Process;
use Tree;

my $gib = $ENV{GIB} // 10;
my $limit = ($ENV{LIMIT_MIB} // 2048) << 20;
my $sample = 1_000_000; # events, to learn their size

# The memory controller: version 2, or 1. [folder, file of the limit, file with the most that was in use]
my ($groups, $limit_file, $peak_file) = -e '/sys/fs/cgroup/cgroup.controllers'
	? ('/sys/fs/cgroup', 'memory.max', 'memory.peak')
	: ('/sys/fs/cgroup/memory', 'memory.limit_in_bytes', 'memory.max_usage_in_bytes');
my $group = "$groups/sonde-test-$$";
my $work = "$build/long-memory";

sub put {
	my ($file, $text) = @_;
	open my $out, '>', $file or return 0;
	print $out $text;
	return close $out;
}

sub make_group {
	mkdir $group or return 0;
	return put("$group/$limit_file", $limit);
}

sub trace_bytes { my ($bytes) = (0); $bytes += -s $_ for glob "$_[0]/*"; return $bytes }

# A demo guest's trace, again and again. Returns how many events there are.
sub make_trace {
	my $source = "$build/demo/trace";
	run_or_die("$tree/examples/first-trace/run") unless -d $source;
	remove_tree($work);
	mkdir $work or die "$work: $!\n";
	run_or_die("$build/tests/bench/trace-repeat", $source, "$work/sample", $sample);
	my $events = int($sample * ($gib * 2**30) / trace_bytes("$work/sample"));
	run_or_die("$build/tests/bench/trace-repeat", $source, "$work/trace", $events);
	# What stays in the page cache would be the writer's, and not count for the group.
	run_or_die('sync', glob "$work/trace/*");
	run_or_die('dd', "if=$_", 'iflag=nocache', 'count=0', 'status=none') for glob "$work/trace/*";
	return $events;
}

# Run a shell command in the group, with $sonde and $trace. Returns its output; the status is $?.
sub limited {
	my ($command) = @_;
	my $line = "echo \$\$ >$group/cgroup.procs && $command";
	local @ENV{qw(sonde trace)} = ("$build/sonde", "$work/trace");
	open my $out, '-|', 'bash', '-o', 'pipefail', '-c', $line or die "bash: $!\n";
	my $text = join '', <$out>;
	close $out;
	return $text;
}

sub with_commas { my ($n) = @_; 1 while $n =~ s/^(\d+)(\d{3})/$1,$2/; return $n }

plan skip_all => 'needs root, for a control group' if $>;
plan skip_all => "no memory controller in $groups" unless make_group();

my $events = make_trace();
my $size = trace_bytes("$work/trace");
my $count = with_commas($events);
cmp_ok($size, '>', 2 * $limit * $gib / 10, sprintf('a trace of %.1f GiB has %s events', $size / 2**30, $count));

# What each prints if it has read all of the trace.
for my $case (['$sonde report $trace', qr/^Trace +$count records/m], ['$sonde leaks $trace', qr/^Trace +$count records/m],
	['$sonde timeline $trace', qr/^Trace +$count records/m],
	['$sonde events $trace | tail -n 1', qr/^\[00\d\] +\d+\.\d{9} kmem:/],
	['$sonde convert $trace --to pprof -o ${trace%/*}/pprof 2>&1', qr/^sonde convert: $count records/m]) {
	my ($command, $expected) = @$case;
	my $begin = time;
	my $text = limited($command);
	my $status = $?;
	ok(!$status && $text =~ $expected,
		sprintf '%s ends well with %d MiB of memory, in %.0f s', $command, $limit >> 20, time - $begin)
		or diag("status $status: " . substr($text, 0, 1000));
}
add_total(int($size / 2**30), 'GiB read with less memory');
diag(sprintf 'most memory in use, page cache included: %d MiB', slurp("$group/$peak_file") >> 20) if -e "$group/$peak_file";

END {
	my $status = $?;
	rmdir $group if defined $group;
	remove_tree($work) if defined $work && !$ENV{KEEP};
	$? = $status;
}
done_testing();
