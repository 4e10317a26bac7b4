#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What Sonde counts is what follows from the text that trace-cmd and babeltrace2 print of the same events: of a made trace, and
# of TRACE, that of a guest; oracle.t does the same with each of its guests.
use strict;
use warnings;
use FindBin;
use Test::More;
use lib $FindBin::Bin, "$FindBin::Bin/../lib";
use Agreement;
use Files;
use Process;
use Tree;

my $work = "$build/tests/agreement/work";
# perf kmem asks the host of the events.
my @made_nodes = (0, 0, 1);

empty_folder($work);
run_or_die("$build/tests/agreement/make-heap", "$work/trace");
check_agreement("$work/trace", $work,
	{events => 6000, sites => 40, live => 100, cross_cpu => 1000, cross_node => 500, node_of_vcpu => sub { $made_nodes[$_[0]] }});
check_agreement($ENV{TRACE}, $work, {events => 1, sites => 1, live => 0, cross_cpu => 0, cross_node => 0, node_of_vcpu => sub { 0 }})
	if $ENV{TRACE};
done_testing();
