#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The function tracer against the guest's own: two runs of one workload in the deterministic testbed, of which
# one task is compared. Both have the same functions in the same order; what differs is listed by name. Beside
# it, instances with overlapping filters get exactly their functions. GUEST='5.10 6.12' for other kernels.
use strict;
use warnings;
use FindBin;
use File::Path qw(make_path);
use JSON::PP;
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Files;
use GuestConfigs;
use Tree;

# What a task does in its own system calls: no interrupt calls these.
use constant FUNCTIONS => 'vfs_*,ksys_*,__x64_sys_*,kernel_clone,path_openat,do_exit';

sub task_of {
	my ($log) = @_;
	return $log =~ /^sonde-task (\d+)/m ? $1 : undef;
}

# From the last execve() on, which makes the task the workload.
sub from_exec {
	my @names = @_;
	my ($last) = grep { $names[$_] =~ /sys_execve/ } reverse 0 .. $#names;
	return [defined $last ? @names[$last .. $#names] : ()];
}

sub own_functions {
	my ($log) = @_;
	my $pid = task_of($log) // return [];
	return from_exec($log =~ /^ *\S+-$pid +\[\d+\].*?: (\w[\w.]*) <-/mg);
}

sub events { return map { JSON::PP::decode_json($_) } grep { /^\{/ } split /\n/, $_[0] }

sub name { return $_[0]{ip_symbol} =~ s/\+.*//r }

# Names that are not equally frequent, with both counts.
sub differences {
	my ($a, $b) = @_;
	my (%a, %b);
	$a{$_}++ for @$a;
	$b{$_}++ for @$b;
	my %all = (%a, %b);
	return map { sprintf '%s: %d by Sonde, %d by ftrace', $_, $b{$_} // 0, $a{$_} // 0 }
		grep { ($a{$_} // 0) != ($b{$_} // 0) } sort keys %all;
}

sub check_instances {
	my %seen;
	push @{$seen{$_->{instance}}}, $_ for @_;
	my @all = grep { name($_) =~ /^vfs_/ } @{$seen{all} // []};
	my $list = sub { join ' ', map { "$_->{vcpu}:" . name($_) } @_ };
	ok(@all > 20, scalar(@all) . ' calls of vfs_*');
	is($list->(@{$seen{reads} // []}), $list->(grep { name($_) eq 'vfs_read' } @all),
		'one function of them, by another instance, in the same order');
	is($list->(@{$seen{some} // []}), $list->(grep { name($_) ne 'vfs_write' } @all), 'all but one');
	is($list->(@{$seen{one} // []}), $list->(@all), 'those of the only vCPU');
	is(scalar(@{$seen{none} // []}), 0, 'a pid that no task has: none');
}

sub check {
	my ($kernel) = @_;
	my $out = "$build/guest/function-$kernel";
	make_path($out);
	system("$tree/tests/testbed/kvm-host", '--icount', '--share', $build, '--timeout', 900, '--',
		"$FindBin::RealBin/function-guest", $out, kernel_image($kernel), "$build/guest/initrd", FUNCTIONS);
	is($?, 0, "$kernel: both guests have run") or return;
	my ($ftrace, $sonde) = map { slurp("$out/$_.log") =~ s/\r//gr } qw(ftrace sonde);
	my @events = events(slurp("$out/events"));
	my $pid = task_of($sonde) // 0;
	my $own = own_functions($ftrace);
	my $seen = from_exec(map { name($_) } grep { $_->{instance} eq 'all' && $_->{pid} == $pid } @events);
	ok(@$own > 30, scalar(@$own) . " calls by the guest's own tracer");
	my @different = differences($own, $seen);
	diag($_) for @different;
	is(scalar(@different), 0, 'each function is called as often');
	is_deeply($seen, $own, 'the functions are the same, in the same order');
	check_instances(@events);
	unlike($sonde, qr/WARNING|BUG|Oops|Call Trace/, 'nothing in the log');
}

check($_) for GuestConfigs::kernels('6.1');
done_testing();
