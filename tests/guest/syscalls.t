#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The syscalls tracer against the guest's own raw_syscalls events, in one run: each task of a workload enters the same
# system calls with the same registers, and returns from them with the same results, in the same order. What only one
# of the two can see is listed: a child's return from the clone() of its parent, and system calls that never return.
# Likewise those of a 32-bit program, by another instance.
# GUEST='5.10 6.12' for other kernels.
use strict;
use warnings;
use FindBin;
use File::Path qw(make_path);
use IO::Uncompress::Gunzip qw(gunzip);
use JSON::PP;
use MIME::Base64 qw(decode_base64);
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Files;
use GuestConfigs;
use Testbed;
use Tree;

use constant {NR_EXECVE => 59, NR_CLONE => 56, NR_IA32_OPENAT => 295};

# A register as the guest prints it, without leading zeros.
sub hex_text { return $_[0] =~ s/^(?:0x)?0*(?=.)//r }

sub own_events {
	my ($log, $what) = @_;
	my ($packed) = $log =~ /^sonde-${what}begin\n(.*?)^sonde-${what}end/ms or return {};
	$packed =~ s/^\[ *\d.*\n//mg; # the kernel's own messages
	my (%of, $text);
	gunzip(\decode_base64($packed), \$text) or return {};
	for (split /\n/, $text) {
		push @{$of{$1}}, [$2, join ' ', map { hex_text($_) } split /, /, $3] if /^(\d+) sys_enter: NR (-?\d+) \((.*)\)/;
		push @{$of{$1}}, ["exit of $2", $3] if /^(\d+) sys_exit: NR (-?\d+) = (-?\d+)/;
	}
	return \%of;
}

sub seen_events {
	my ($lines) = @_;
	my %of;
	for (map { JSON::PP::decode_json($_) } grep { /^\{/ } split /\n/, $lines) {
		push @{$of{$_->{pid}}}, $_->{event} eq 'syscalls:sys_exit' ? ['exit', $_->{ret}]
			: [$_->{ip_symbol}, join ' ', map { hex_text($_) } @{$_}{map { "arg$_" } 0 .. 5}];
	}
	return \%of;
}

# From the last event on that the condition holds for.
sub from_last {
	my ($is, @events) = @_;
	my ($last) = grep { $is->($events[$_]) } reverse 0 .. $#events;
	return defined $last ? @events[$last .. $#events] : ();
}

# Both begin where the first task becomes the workload, and where a child has been born.
sub trimmed {
	my ($first, $pid, $own, $seen) = @_;
	my @own = @$own;
	return ([from_last(sub { $_[0][0] eq NR_EXECVE }, @own)], [from_last(sub { $_[0][0] =~ /_sys_execve$/ }, @$seen)])
		if $pid == $first;
	shift @own if $own[0][0] eq 'exit of ' . NR_CLONE;
	return (\@own, $seen);
}

# The name of each number, by what the two have at the same place; more than one is a difference.
sub names {
	my (%name) = @_;
	return map { "$_ is " . join ' and ', sort keys %{$name{$_}} } grep { keys %{$name{$_}} != 1 } sort keys %name;
}

sub compare {
	my ($first, $own, $seen) = @_;
	my ($n, %name, @different) = (0);
	for my $pid (sort { $a <=> $b } keys %$own) {
		my ($a, $b) = trimmed($first, $pid, $own->{$pid}, $seen->{$pid} // []);
		push @different, "task $pid: " . @$a . ' events by the guest, ' . @$b . ' by Sonde' if @$a != @$b;
		for my $i (0 .. (@$a < @$b ? $#$a : $#$b)) {
			$n++;
			$name{$a->[$i][0]}{$b->[$i][0]}++;
			push @different, "task $pid: @{$a->[$i]}, by Sonde @{$b->[$i]}" if $a->[$i][1] ne $b->[$i][1];
		}
	}
	return ($n, \@different, names(map { $_ => $name{$_} } grep { !/^exit/ } keys %name));
}

# A 32-bit program begins with its first system call. What its task did before is 64-bit.
sub ia32_events {
	my ($log, $lines) = @_;
	my ($pid) = $log =~ /^sonde-ia32-task (\d+)/m or return ([], []);
	my @own = @{own_events($log, 'ia32-')->{$pid} // []};
	my ($first) = grep { $own[$_][0] eq NR_IA32_OPENAT } 0 .. $#own;
	return ([defined $first ? @own[$first .. $#own] : ()], seen_events($lines)->{$pid} // []);
}

sub check_ia32 {
	my ($log, $out) = @_;
	my $lines = slurp("$out/events-sys32");
	my ($own, $seen) = ia32_events($log, $lines);
	my ($n, $different, @names) = compare(0, {1 => [['', ''], @$own]}, {1 => [['', ''], @$seen]});
	cmp_ok($n, '>', 2000, "$n events of a 32-bit program by both");
	diag($_) for @$different[0 .. ($#$different < 9 ? $#$different : 9)], @names;
	is(scalar(@$different), 0, 'it has the same ones, with the same registers and results');
	is(scalar(@names), 0, 'each number is one system call');
	is(scalar(keys %{seen_events($lines)}), 1, 'no other task has 32-bit ones');
	my ($pid) = $log =~ /^sonde-ia32-task (\d+)/m;
	my ($last) = reverse @{seen_events(slurp("$out/events-syscalls"))->{$pid // 0} // []};
	is($last->[0] // '', 'exit', 'the last 64-bit one of its task is execve(), which has returned');
	like(slurp("$out/calls-sys32"), qr/^\S+ +\S+ ia32-\d+ lseek\(fd=\d+, offset=-48, whence=1\) = 0 <\S+ us>$/m,
		'they are printed with their arguments by name');
}

sub check {
	my ($kernel) = @_;
	my $out = "$build/guest/syscalls-$kernel";
	make_path($out);
	build_initrd("$out/initrd", "$FindBin::RealBin/syscalls-inside=/bin/syscalls-inside",
		"$build/tests/guest/ia32=/bin/ia32");
	on_kvm_host({timeout => 400}, "$FindBin::RealBin/syscalls-guest", $out, kernel_image($kernel), "$out/initrd");
	my $log = slurp("$out/log") =~ s/\r//gr;
	my ($first) = $log =~ /^sonde-task (\d+)/m;
	my ($n, $different, @names) = compare($first // 0, own_events($log, ''), seen_events(slurp("$out/events-syscalls")));
	cmp_ok($n, '>', 4000, "$kernel: $n events by both");
	diag($_) for @$different[0 .. ($#$different < 9 ? $#$different : 9)], @names;
	is(scalar(@$different), 0, 'each task has the same ones, with the same registers and results');
	is(scalar(@names), 0, 'each number is one system call');
	like(slurp("$out/err"), qr/lost: none/, 'none is lost');
	like(slurp("$out/calls-syscalls"), qr/^\S+ +\S+ \d+ openat\(dfd=-100, filename=0x\w+, flags=0x\w+, mode=\d+\) = \d+ <\S+ us>$/m,
		'calls are printed with their arguments by name');
	check_ia32($log, $out);
	unlike($log, qr/WARNING|BUG|Oops|Call Trace/, 'nothing in the log');
}

check($_) for GuestConfigs::kernels('6.1');
done_testing();
