# SPDX-License-Identifier: GPL-2.0-or-later
#
# The cost of printing a trace as text: `sonde events` and babeltrace2 with the same trace, and `trace-cmd report` with
# one of this machine's own events of the same kinds. A program that is not installed is left out.
package ReadCost;

use strict;
use warnings;
use List::Util qw(sum0);
use Process;
use TraceCost;
use VmProcess qw(instructions_now);

use constant { RUN => 300, FOLDER => '/tmp/read', OWN => '/tmp/read.dat' };

my @kmem = qw(kmalloc kfree kmem_cache_alloc kmem_cache_free mm_page_alloc mm_page_free);

sub is_installed {
	my ($program) = @_;
	return 1 if grep { -x "$_/$program" } split /:/, $ENV{PATH};
	print STDERR "bench: no figures of $program, which is not installed\n";
	return 0;
}

# Instructions of a command whose output nobody reads.
sub instructions {
	my ($command) = @_;
	my $begin = instructions_now();
	run_or_die('sh', '-c', "exec $command >/dev/null 2>&1");
	return instructions_now() - $begin;
}

sub lines { return 0 + qx(sh -c '$_[0]' 2>/dev/null | wc -l) }

sub per_event {
	my ($command, $events) = @_;
	$events > 10000 or die "$command: $events events\n";
	return { command => $command, events => $events, instructions => instructions($command) / $events };
}

sub record {
	my (@machine) = @_;
	my $vm = TraceCost::boot('exitless', FOLDER, @machine);
	TraceCost::ctl(qw(trace on kmem));
	TraceCost::run_and_settle($vm, RUN);
	TraceCost::end($vm);
}

# What a machine does that lists files.
sub record_own {
	my $work = 'for i in 1 2 3 4 5 6 7 8; do ls -lR /usr/share/perl5; done';
	run_or_die('sh', '-c', 'trace-cmd record -q -b 16384 -o ' . OWN .
		join('', map { " -e kmem:$_" } @kmem) . " sh -c '$work' >/dev/null 2>&1");
}

sub run {
	my (@machine) = @_;
	my %cost;
	record(@machine);
	my $events = lines('sonde events ' . FOLDER);
	$cost{sonde} = per_event('sonde events ' . FOLDER, $events);
	$cost{babeltrace2} = per_event('babeltrace2 ' . FOLDER, $events) if is_installed('babeltrace2');
	if (is_installed('trace-cmd')) {
		record_own();
		my $report = 'trace-cmd report -i ' . OWN;
		$cost{trace_cmd} = per_event($report, lines($report));
	}
	return \%cost;
}

1;
