#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Each tracer in small, in one guest: what function, graph, profile, syscalls, probe, kmem and a histogram have of one
# task, and what the guest's own events have of it. function.t, profile.t, syscalls.t, probe.t and hist.t, which are no part
# of `make check`, do so at length.
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
use GuestLog;
use HistEntries;
use ProbeEvents ();
use SyscallEvents ();
use Testbed;
use Tree;

use constant TASK => 10000;

sub document { return JSON::PP::decode_json(slurp($_[0]) || '{}') }

# JSON lines, by the system of their events.
sub lines_by_system {
	my ($text) = @_;
	my %of;
	$of{JSON::PP::decode_json($_)->{event} =~ s/:.*//r} .= "$_\n" for grep { /^\{/ } split /\n/, $text;
	return %of;
}

sub decoded { return map { JSON::PP::decode_json($_) } split /\n/, $_[0] // '' }

sub check_reads {
	my ($out, $trace, %seen) = @_;
	my @own = @{ProbeEvents::own_events($trace)->{read} // []};
	cmp_ok(scalar(@own), '>', 50, @own . " calls of vfs_read by the guest's own kprobe event");
	is(ProbeEvents::compare(\@own, ProbeEvents::seen_events($seen{kprobes} // '')->{read} // []), '',
		'probe: each has the same values');
	is(scalar(decoded($seen{kprobes})), @own, 'and there are no others');
	is(scalar(decoded($seen{function})), @own, 'function: as many calls');
	my @graph = decoded($seen{graph});
	my @results = map { $_->{result} } grep { $_->{event} =~ /exit$/ } @graph;
	is(scalar(@graph) - @results, @own, 'graph: as many calls');
	is_deeply(\@results, [map { sprintf '0x%x', $_ } $trace =~ /: sys_exit: NR 0 = (-?\d+)$/mg], 'and their results are those of the system call');
	my ($counts) = @{document("$out/profile")->{profiles} // []};
	is_deeply([map { "$_->{function} $_->{hits}" } @{$counts->{functions} // []}], ['vfs_read ' . @own], 'profile: as many hits');
}

# kmalloc(), of which nothing else of the guest is written by its vCPU.
sub check_memory {
	my ($trace, $lines) = @_;
	my @own = $trace =~ /: kmalloc(?:_node)?: .*\bbytes_req=(\d+ bytes_alloc=\d+)/g;
	my @seen = map { "$_->{bytes_req} bytes_alloc=$_->{bytes_alloc}" } grep { $_->{event} eq 'kmem:kmalloc' } decoded($lines);
	cmp_ok(scalar(@own), '>', 20, 'kmem: ' . @own . ' allocations by the guest\'s own events');
	is_deeply(\@seen, \@own, 'the same ones, of these sizes');
}

sub check_syscalls {
	my ($trace, $lines) = @_;
	my $own = SyscallEvents::own_events($trace =~ s/^.*-(\d+) *\[\d+\].*: (sys_e.*)/$1 $2/mgr);
	my ($n, $different, @names) = SyscallEvents::compare(TASK, $own, SyscallEvents::seen_events($lines // ''));
	cmp_ok($n, '>', 30, "syscalls: $n events by both");
	diag($_) for @$different[0 .. ($#$different < 9 ? $#$different : 9)], @names;
	is(@$different + @names, 0, 'with the same registers and results');
}

sub check_hist {
	my ($own, $document) = @_;
	my ($seen, $dropped) = seen_entries($document, 'ids');
	cmp_ok(scalar(keys %$own), '>=', 5, 'hist: ' . keys(%$own) . ' entries by the guest');
	is_deeply($seen, $own, 'each is the same');
	is($dropped, 0, 'none is dropped');
}

sub check {
	my ($kernel) = @_;
	my $out = "$build/guest/slice-$kernel";
	make_path($out);
	build_initrd("$out/initrd", "$FindBin::RealBin/slice-inside=/bin/slice-inside");
	on_kvm_host({icount => undef}, "$FindBin::RealBin/slice-guest", $out, kernel_image($kernel), "$out/initrd");
	my $log = read_log("$out/log");
	my ($trace, $hist) = map { unpacked($log, "sonde-begin $_", 'sonde-end') } qw(trace hist);
	my %seen = lines_by_system(slurp("$out/events"));
	like($log, qr/^sonde-task 10000$/m, "$kernel: the task has the number that is traced");
	check_reads($out, $trace, %seen);
	check_memory($trace, $seen{kmem});
	check_syscalls($trace, $seen{syscalls});
	SKIP: {
		skip 'Debian\'s 5.10 has no hist triggers', 3 if $kernel =~ /^5\.10/;
		check_hist(own_entries($hist), document("$out/hists"));
	}
	like(slurp("$out/err"), qr/memory: .*; the guest decides pid=10000$/m, 'kmem: the guest decides whose allocations are recorded');
	like(slurp("$out/err"), qr/lost: none/, 'none is lost') or diag(slurp("$out/err"));
	is_untroubled($log =~ s/^sonde-begin.*?^sonde-end$//gmsr, "nothing in the guest's log", WARNINGS);
}

check($_) for GuestConfigs::kernels('6.1');
done_testing();
