#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The times of calls. The profile tracer and the graph tracer see the same calls of one run: each function has as many hits,
# and the same time but for what lies between two readings of the clock. Each alone, they have the same times. In a kernel with the guest's own profiler
# (CONFIG_FUNCTION_PROFILER; it has no network) the same work is done once with the profile tracer and once with that: it has the
# same hits; its times include its own work, which is as long for each call, and are otherwise the same.
# GUEST='6.1 6.1-profiler' for other kernels.
use strict;
use warnings;
use FindBin;
use File::Path qw(make_path);
use JSON::PP;
use List::Util qw(sum0);
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Campaign;
use Files;
use GuestConfigs;
use GuestLog;
use Testbed;
use Tree;

# What a task calls for itself. None of the second list is called in another one of them; the last one ends with a jump.
use constant TAIL_FUNCTION => 'vm_area_free';
use constant FUNCTIONS => 'pipe_*,unix_*,sock_*,shmem_*,ep_*,eventfd_*,timerfd_*,do_epoll*,vfs_*,path_*,do_mmap,'
	. 'kernel_clone,vm_*,anon_*,copy_*,dup_*,filemap_*,kmem_cache_*,__kmalloc*,d_*,simple_*';
use constant OWN_FUNCTIONS => 'anon_inode_getfd,dup_mmap,dup_fd,filemap_map_pages,pipe_write,pipe_release,'
	. 'shmem_mknod,shmem_write_end,do_epoll_ctl,do_epoll_create,ep_eventpoll_release,vfs_rename,shmem_unlink,shmem_rmdir,'
	. TAIL_FUNCTION;

# Calls of a function that is compared; what the instructions between two readings of the clock may be apart by, in each call
# (at a return the code of the profile runs before the graph's reads the clock); and the part of the functions for which that
# holds: an interrupt between the two readings takes thousands of instructions, and the host's thread that drains the rings takes
# the only CPU for some milliseconds, more often on a busy machine. In two runs interrupts come at other moments.
use constant { ITERATIONS => 300, CALLS => 100, PERCENT => 2, CALL_NS => {both => 15, tails => 80}, TAIL_NS => 30, PART => 0.85,
	TWO_RUNS_PART => 0.75, ALONE_PART => 0.65, INTERRUPT_NS => 20_000 };
use constant NAME_SIZE => 30; # that the guest's profiler prints

sub json { return eval { JSON::PP::decode_json(slurp($_[0])) } // {} }

sub profiled { return map { $_->{function} => $_ } map { @{$_->{functions}} } @{json($_[0])->{profiles} // []} }

sub boot {
	my ($kernel, $patterns, @phases) = @_;
	my $out = "$build/guest/timed-calls-$kernel";
	empty_folder($out);
	build_initrd("$out/initrd", "$FindBin::RealBin/timed-calls-inside=/bin/timed-calls-inside");
	is(on_kvm_host({icount => undef}, "$FindBin::RealBin/timed-calls-guest", $out, kernel_image($kernel),
			"$out/initrd", ITERATIONS, $patterns, @phases), 0, "$kernel: timed-calls-guest ran on the KVM host");
	my $result = json("$out/result.json");
	is($result->{failure}, undef, "$kernel: the guest passed all its marks") or diag(slurp("$out/err"));
	is($result->{status}, 0, "$kernel: sonde run exits with status 0") or diag(slurp("$out/err"));
	is_untroubled(read_log("$out/log"), "$kernel: the guest's log has no kernel warnings", WARNINGS);
	return $out;
}

# --- profile and graph -----------------------------------------------------------------------------------------

sub is_near {
	my ($profile, $total_ns, $call_ns) = @_;
	my $apart = abs($profile->{total_ns} - $total_ns);
	return $apart <= $total_ns * PERCENT / 100 || $apart <= $call_ns * $profile->{timed};
}

sub is_close {
	my ($profile, $graph, $call_ns) = @_;
	return 1 if is_near($profile, $graph->{total_ns}, $call_ns);
	diag(sprintf '%s: %d ns by the profile, %d by the graph, %d calls', $graph->{name}, $profile->{total_ns},
		$graph->{total_ns}, $profile->{timed});
	return 0;
}

sub check_times {
	my ($kernel, $phase, $what, $profile, @rows) = @_;
	my $call_ns = CALL_NS->{$phase};
	my @close = grep { is_close($profile->{$_->{name}}, $_, $call_ns) } @rows;
	my @long = grep { $_->{total_ns} * PERCENT / 100 > $call_ns * $profile->{$_->{name}}{timed} } @rows;
	cmp_ok(scalar(@close), '>=', PART * @rows, sprintf '%s, %s: %d of %d %s have the same time within %d %%, or %d ns for a call '
		. '(%d of them take so long that it is the former)', $kernel, $phase, scalar(@close), scalar(@rows), $what, PERCENT,
		$call_ns, scalar(@long));
}

# What is counted in one phase. Returns it, by function.
sub compare {
	my ($kernel, $out, $phase) = @_;
	my %profile = profiled("$out/$phase.json");
	my %graph = map { $_->{name} => $_ } @{json("$out/graph-$phase.json")->{functions} // []};
	my $hits = sum0(map { $_->{hits} } values %profile);
	cmp_ok(scalar(keys %profile), '>', 100, "$kernel, $phase: " . keys(%profile) . " functions are called, $hits times");
	is_deeply({map { $_ => $graph{$_}{calls} } keys %graph}, {map { $_ => $profile{$_}{hits} } keys %profile},
		"$kernel, $phase: each has as many hits as the graph tracer has calls");
	my @rows = grep { $profile{$_->{name}}{timed} >= CALLS && $profile{$_->{name}}{timed} == $_->{calls} - $_->{unreturned} }
		values %graph;
	check_times($kernel, $phase, 'functions', \%profile, @rows);
	check_times($kernel, $phase, 'leaf functions', \%profile, grep { $_->{total_ns} == $_->{self_ns} } @rows);
	add_total($hits, 'calls counted, each of which the graph tracer has seen');
	return %profile;
}

sub mean { my ($row, $calls) = @_; return $row->{total_ns} / ($row->{$calls} || 1) }

# One tracer's code does not lie between the other one's readings of the clock, in two phases with the same work. There are as many
# instructions of their own, so that leaf functions have the same time, if no interrupt comes.
sub check_alone {
	my ($kernel, $out) = @_;
	my %counted = profiled("$out/counted.json");
	my @leafs = grep { $_->{total_ns} == $_->{self_ns} && $_->{calls} >= CALLS && !$_->{unreturned} && $counted{$_->{name}}{timed} }
		@{json("$out/graph-recorded.json")->{functions} // []};
	my @apart = grep { abs(mean($counted{$_->{name}}, 'timed') - mean($_, 'calls')) > mean($_, 'calls') * PERCENT / 100 } @leafs;
	diag(sprintf '%s: %.2f ns by the profile, %.2f by the graph', $_->{name}, mean($counted{$_->{name}}, 'timed'),
		mean($_, 'calls')) for @apart;
	cmp_ok(scalar(@leafs), '>=', 20, "$kernel: " . @leafs . ' leaf functions are called often in each of two phases');
	cmp_ok(@leafs - @apart, '>=', ALONE_PART * @leafs, sprintf '%s: %d of them have the same time within %d %%, by each tracer alone',
		$kernel, @leafs - @apart, PERCENT);
}

# With tails, of the functions that are timed each call is, but for those that were open at the beginning or the end.
sub test_both {
	my ($kernel) = @_;
	my $out = boot($kernel, FUNCTIONS, qw(fill both tails counted recorded));
	check_alone($kernel, $out);
	my %without = compare($kernel, $out, 'both');
	my %with = compare($kernel, $out, 'tails');
	my ($some, $all) = map { my $rows = $_; scalar grep { $_->{timed} } values %$rows } \%without, \%with;
	cmp_ok($all, '>', $some, "$kernel: with tails $all functions are timed, without $some");
	my @timed = grep { $_->{returns} } values %with;
	my @open = grep { $_->{hits} - $_->{timed} > 1 } @timed;
	is(join(' ', map { "$_->{function}:$_->{hits}:$_->{timed}" } @open), '',
		"$kernel: of the " . @timed . ' functions that are timed with tails, each call but for one is');
}

# --- the guest's own profiler ------------------------------------------------------------------------------------

# Of all CPUs: name => {hits, ns}. A name may be cut.
sub own_profile {
	my ($log) = @_;
	my %own;
	my ($text) = $log =~ /^sonde-begin\n(.*?)^sonde-end/ms or return;
	for (split /\n/, $text) {
		my ($name, $hits, $us) = /^\s+(\S+)\s+(\d+)\s+([\d.]+) us / or next;
		$own{$name}{hits} += $hits;
		$own{$name}{ns} += 1000 * $us;
	}
	return %own;
}

# Its time ends with that of the function that it jumps to.
sub test_tail_function {
	my ($kernel, $own, $middle, $profile) = @_;
	is($profile->{timed}, $own->{hits}, "$kernel: with tails each call of " . TAIL_FUNCTION . '() is timed');
	my $ns = ($own->{ns} - $profile->{total_ns}) / $own->{hits} - $middle;
	cmp_ok(abs($ns), '<=', TAIL_NS + INTERRUPT_NS / $own->{hits},
		sprintf '%s: by %.0f ns, without that work %.0f ns from what the guest itself has', $kernel,
		$profile->{total_ns} / $own->{hits}, $ns);
}

sub test_profiler {
	my ($kernel) = @_;
	my $out = boot($kernel, OWN_FUNCTIONS, qw(profile tailed profiler));
	my %profile = profiled("$out/profile.json");
	my %own = own_profile(read_log("$out/log"));
	my $hits = sum0(map { $_->{hits} } values %own);
	cmp_ok(scalar(keys %own), '>', 10, "$kernel: the guest's own profiler has " . keys(%own) . " functions, $hits hits");
	is_deeply({map { substr($_, 0, NAME_SIZE) => $profile{$_}{hits} } keys %profile}, {map { $_ => $own{$_}{hits} } keys %own},
		"$kernel: each function has as many hits by Sonde");
	my @timed = grep { $own{$_} && $profile{$_}{timed} } sort keys %profile;
	my @more = sort { $a <=> $b } map { ($own{$_}{ns} - $profile{$_}{total_ns}) / $own{$_}{hits} } @timed;
	my $middle = $more[@more / 2] // 0;
	diag(sprintf '%s: %d calls, %.0f ns by Sonde, %.0f by the guest itself', $_, $own{$_}{hits},
		$profile{$_}{total_ns} / $profile{$_}{timed}, $own{$_}{ns} / $own{$_}{hits}) for @timed;
	cmp_ok($middle, '>', 0, sprintf "%s: its own work makes a call %.0f ns longer in the guest's profile (the middle one of %d "
		. 'functions)', $kernel, $middle, scalar(@timed));
	my @close = grep {
		my $own_ns = $own{$_}{ns} - $middle * $own{$_}{hits};
		is_near($profile{$_}, $own_ns, CALL_NS->{both}) || abs($own_ns - $profile{$_}{total_ns}) <= INTERRUPT_NS;
	} @timed;
	cmp_ok(scalar(@close), '>=', TWO_RUNS_PART * @timed, sprintf '%s: without that %d of them have the same time within %d %%, '
		. '%d ns for a call, or an interrupt in all calls', $kernel, scalar(@close), PERCENT, CALL_NS->{both});
	test_tail_function($kernel, $own{+TAIL_FUNCTION}, $middle, {profiled("$out/tailed.json")}->{+TAIL_FUNCTION});
	add_total($hits, "hits by the guest's own profiler, each function equal to Sonde's");
}

sub has_profiler { return slurp("$build/kernels/$_[0]/config") =~ /^CONFIG_FUNCTION_PROFILER=y/m }

for my $kernel (GuestConfigs::kernels('6.1')) {
	fetch_kernel($kernel);
	has_profiler($kernel) ? test_profiler($kernel) : test_both($kernel);
}
done_testing();
