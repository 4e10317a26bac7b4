#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What the tracers of functions record of the task, against what the guest says of its threads: pid, tgid, name, and the id of
# the cgroup, which is the inode of its directory, also after the task has moved to another one. Conditions on tgid and cgroup
# choose the events that have these, and a histogram by them counts these.
# GUEST='5.10 6.12' for other kernels.
use strict;
use warnings;
use FindBin;
use File::Path qw(make_path);
use JSON::PP;
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Files;
use GuestConfigs;
use Testbed;
use Tree;

use constant {ROUNDS => 200, FIRST => 10000, PROCESS => 10001};

# By pid: what is true of its calls, in order.
sub truth {
	my ($log) = @_;
	my %of;
	push @{$of{$1}}, ("$2 $4 $3") x ROUNDS while $log =~ /^sonde-thread (\d+) (\d+) (\d+) (.+)$/mg;
	return \%of;
}

# Those of the graph tracer's returns have no pid: they are of the task that made the call.
sub events {
	my ($out, $instance) = @_;
	return grep { ($_->{pid} // 0) >= FIRST } map { JSON::PP::decode_json($_) } grep { /^\{/ }
		split /\n/, slurp("$out/events-$instance");
}

sub text { return "$_[0]{tgid} $_[0]{comm} $_[0]{cgroup}" }

# The reads are the last that a thread does, but it reads what its cgroup is in front of each part.
sub reads {
	my ($truth, @events) = @_;
	my %of;
	push @{$of{$_->{pid}}}, text($_) for @events;
	for my $pid (keys %$truth) {
		my $seen = $of{$pid} // [];
		my $surplus = @$seen - @{$truth->{$pid}};
		my $parts = @{$truth->{$pid}} / ROUNDS;
		$of{$pid} = $surplus < 0 || $surplus % $parts ? $seen
			: [map { @$seen[($_ + 1) * @$seen / $parts - ROUNDS .. ($_ + 1) * @$seen / $parts - 1] } 0 .. $parts - 1];
	}
	return {map { $_ => $of{$_} } keys %$truth};
}

sub differences {
	my ($truth, $seen) = @_;
	my @different;
	for my $pid (sort keys %$truth) {
		my ($a, $b) = ($truth->{$pid}, $seen->{$pid});
		push @different, "task $pid: " . @$b . ' events, not ' . @$a if @$a != @$b;
		push @different, map { "task $pid, event $_: $b->[$_], not $a->[$_]" }
			grep { $a->[$_] ne $b->[$_] } 0 .. (@$a < @$b ? $#$a : $#$b);
	}
	return @different;
}

sub check_tracer {
	my ($kernel, $truth, $label, @events) = @_;
	my @different = differences($truth, reads($truth, @events));
	my $n = 0;
	$n += @$_ for values %$truth;
	diag($_) for @different[0 .. ($#different < 9 ? $#different : 9)];
	is(scalar(@different), 0, "$kernel, $label: $n events have the process, name and cgroup that the guest says");
	my %tgid = map { my $pid = $_; map { $pid => (split / /)[0] } $truth->{$pid}[0] } keys %$truth;
	is(scalar(grep { defined $tgid{$_->{pid}} && $_->{tgid} != $tgid{$_->{pid}} } @events), 0,
		"$kernel, $label: so do all others of these tasks");
}

# In the order of each vCPU's events: whose they are, and how many in a row.
sub pids {
	my @runs;
	for (sort { $a->{vcpu} <=> $b->{vcpu} } @_) {
		push @runs, [$_->{pid}, 0] if !@runs || $runs[-1][0] != $_->{pid};
		$runs[-1][1]++;
	}
	return join ' ', map { "$_->[0]*$_->[1]" } @runs;
}

sub check_conditions {
	my ($kernel, $out) = @_;
	my @all = events($out, 'function');
	my @process = grep { $_->{tgid} == PROCESS } @all;
	cmp_ok(scalar(@process), '>', 2 * 3 * ROUNDS, "$kernel: " . @process . ' of ' . @all . ' calls are of one process');
	is(pids(events($out, 'by-tgid')), pids(@process), "$kernel: those that tgid == N chooses in the guest");
	is(pids(grep { $_->{tgid} == PROCESS } events($out, 'by-host')), pids(@process), "$kernel: and on the host");
	is(pids(events($out, 'by-cgroup')), pids(grep { $_->{cgroup} > 1 } @all), "$kernel: likewise cgroup > 1");
	is(pids(events($out, 'by-return')), pids(grep { $_->{tgid} == PROCESS && $_->{cgroup} != 1 } events($out, 'returns')),
		"$kernel: and at returns");
}

# A histogram by process and cgroup counts what the events say.
sub check_sums {
	my ($kernel, $out) = @_;
	my (%counts, %seen);
	$counts{"$_->{tgid} $_->{cgroup}"}++ for events($out, 'function');
	my $document = JSON::PP::decode_json(slurp("$out/hists") || '{}');
	for my $row (map { @{$_->{rows}} } @{$document->{histograms} // []}) {
		$seen{join ' ', map { $_->{number} } @{$row->{keys}}} = $row->{hitcount};
	}
	is_deeply(\%seen, \%counts, "$kernel: a histogram by tgid and cgroup has the same " . keys(%counts) . ' entries');
}

sub check {
	my ($kernel) = @_;
	my $out = "$build/guest/tasks-$kernel";
	make_path($out);
	build_initrd("$out/initrd", "$FindBin::RealBin/tasks-inside=/bin/tasks-inside");
	on_kvm_host({}, "$FindBin::RealBin/tasks-guest", $out, kernel_image($kernel), "$out/initrd");
	my $log = slurp("$out/log") =~ s/\r//gr;
	my $truth = truth($log);
	like($log, qr/^sonde-threads done$/m, "$kernel: the threads have done their work");
	is(scalar(keys %$truth), 7, "$kernel: seven threads");
	my %cgroups = map { (split / /)[-1] => 1 } map { @$_ } values %$truth;
	is(scalar(keys %cgroups), 3, "$kernel: in three cgroups: " . join ' ', sort keys %cgroups);
	check_tracer($kernel, $truth, $_, events($out, $_)) for qw(function graph probe returns);
	for my $kind (qw(enter exit)) {
		check_tracer($kernel, $truth, "syscalls, $kind",
			grep { $_->{event} eq "syscalls:sys_$kind" } events($out, 'syscalls'));
	}
	check_conditions($kernel, $out);
	check_sums($kernel, $out);
	like(slurp("$out/err"), qr/lost: none/, "$kernel: none is lost");
	unlike($log, qr/WARNING|BUG|Oops|Call Trace/, "$kernel: nothing in the log");
	like($log, qr/^status 0$/m, "$kernel: the run succeeds") or diag(slurp("$out/err"));
}

check($_) for GuestConfigs::kernels('6.1');
done_testing();
