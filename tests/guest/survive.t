#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A traced guest can use its own tracing: its ftrace and kprobes take over traced functions, modules are
# loaded, CPUs go off line, and tracing ends while tasks are inside traced functions. The guest's own stack
# traces and trace events are those of an untraced guest. GUEST='5.10 6.12' for other kernels than 6.1,
# MODES='exitless trap' for both.
use strict;
use warnings;
use FindBin;
use JSON::PP;
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Files;
use GuestConfigs;
use GuestLog;
use MarkedGuest;
use Testbed;
use Tree;

# Offset of the instruction after a function's mcount site. With IBT an ENDBR of 4 bytes comes first.
my %offset = ('5.10' => 5, '6.1' => 5, '6.12' => 9, '7.0' => 9);
no warnings 'portable';

# --- checks -----------------------------------------------------------------------------------

# Allocations between two marks.
sub allocs {
	my ($marks, $name) = @_;
	return ($marks->{"$name-after"}{allocs} // 0) - ($marks->{"$name-before"}{allocs} // 0);
}

sub names_of_refused {
	my ($query) = @_;
	return map { $_->{function} } @{$query->{sites}{refused} // []};
}

sub check_yielding {
	my ($log, $marks, $sites, $mode) = @_;
	is_deeply([names_of_refused($marks->{'free-before'})], [], 'no site is refused before the guest uses ftrace');
	for my $round (1, 2) {
		my @taken = names_of_refused($marks->{"taken-before $round"});
		ok(grep({ /^kmem_cache_alloc/ } @taken) && grep({ $_ eq 'kfree' } @taken),
			"round $round: the functions that the guest's ftrace has taken are listed as refused") or diag("@taken");
		my ($reason) = map { $_->{reason} } @{$marks->{"taken-before $round"}{sites}{refused}};
		like($reason // '', qr/guest's own ftrace/, "round $round: the reason names the guest's ftrace");
		my %seen = map { /^$round (\S+) (\d+)/ ? ($1 => $2) : () } found($log, 'functions');
		cmp_ok($seen{$_} // 0, '>', 100, "round $round: the guest's ftrace records calls of $_") for qw(kmem_cache_alloc kfree);
	}
	like((join "\n", found($log, 'functions')), qr{^all any \d\d}m, "the guest's ftrace records calls while it has many functions");
	cmp_ok(scalar names_of_refused($marks->{'all-taken'}), '>=', $marks->{up}{sites}{entry},
		"all traced functions are refused while the guest's ftrace has them");
	for my $round (1, 2) {
		my %hits = map { /^$round (\w+) +(\d+) / ? ($1 => $2) : () } found($log, 'kprobe');
		cmp_ok($hits{$_} // 0, '>', 100, "round $round: the guest's kprobe $_ was hit")
			for qw(at_site inside);
		is_deeply([names_of_refused($marks->{"probed $round"})], ['kfree'], "round $round: only kfree, which has kprobes, is refused");
	}
	is_deeply([names_of_refused($marks->{'again-before'})], [], 'no site is refused after the guest has given them back');
	my ($ours) = $mode eq 'trap' ? qr/^e6e4$/ : qr/^e9/;
	is_deeply([grep { $sites->{$_} !~ $ours } sort keys %$sites], [], 'the sites that the guest gave back are patched again');
	cmp_ok(scalar keys %$sites, '>=', $marks->{up}{sites}{entry}, 'all sites were read after the guest gave them back');
}

sub check_exit {
	my ($log, $marks) = @_;
	my ($hits) = map { /^3 at_exit +(\d+) / ? $1 : () } found($log, 'kprobe');
	cmp_ok($hits // 0, '>', 100, "the guest's kprobe at an exit was hit");
	my ($refused) = @{$marks->{'exit-probed'}{sites}{refused} // []};
	like($refused->{reason} // '', qr/kprobe .* exit/, 'the function with the kprobe at an exit is refused, with that reason');
}

sub check_counts {
	my ($marks) = @_;
	my ($free, $taken, $again) = map { allocs($marks, $_) } qw(free taken again);
	$taken = ($marks->{'taken-after 1'}{allocs} // 0) - ($marks->{'taken-before 1'}{allocs} // 0);
	cmp_ok($free, '>', 500, 'the workload makes allocations');
	cmp_ok($taken, '<', 0.8 * $free, "fewer allocations are recorded while the guest's ftrace has functions");
	cmp_ok($again, '>', 0.85 * $free, 'as many allocations as at first are recorded after the guest has given them back');
	note("allocations: $free, $taken, $again");
	cmp_ok($marks->{end}{yields}, '>=', 10, 'the gaps while the guest changed its sites are counted');
}

sub check_modules {
	my ($log, $trace) = @_;
	my @loaded = map { /^\d+ \d+ .* (0x[0-9a-f]+)/ ? hex $1 : () } found($log, 'module');
	is(scalar @loaded, 3, 'a module was loaded three times');
	is(scalar(my @unloaded = found($log, 'unloaded')), 3, 'the module was unloaded three times');
	my $json = `\Q$build\E/sonde report --json --top 0 \Q$trace\E`;
	my $report = eval { decode_json($json) } // {};
	my @sites = map { hex $_->{address} } @{$report->{call_sites} // []};
	for my $base (@loaded) {
		ok(grep({ $_ >= $base && $_ < $base + 0x4000 } @sites), 'allocations of the module are in the trace')
			or diag(sprintf '%x', $base);
	}
}

sub check_hotplug {
	my ($log, $marks) = @_;
	is_deeply([found($log, 'cpus')], [1, 2, 1, 2], 'CPU 1 went off line and came back, twice');
	my ($first, $again) = map {
		($marks->{"$_-after"}{vcpus}[1]{allocs} // 0) - ($marks->{"$_-before"}{vcpus}[1]{allocs} // 0)
	} qw(free cpus);
	# The scheduler decides how much of the work CPU 1 gets.
	cmp_ok($again, '>', 0.2 * $first, 'CPU 1 is traced after it came back');
}

sub check_call_chains {
	my ($log) = @_;
	for my $what (qw(chain stack)) {
		my ($traced, $untraced) = found_by_phase($log, $what, qw(traced untraced));
		cmp_ok(scalar @$untraced, '>=', 4, "$what: the untraced guest prints at least 4 lines");
		is_deeply($traced, $untraced, "$what: the traced guest prints the same");
	}
	like($log, qr/^found-chain: traced kmalloc\w*: call_site=\S*[1-9a-f]/m, "the guest's event has a call site");
	like($log, qr/^found-chain: traced => .*setgroups/m, "the stack of the guest's event reaches the system call");
}

sub check_trace {
	my ($out, $marks) = @_;
	my $text = `\Q$build\E/sonde check \Q$out\E/trace 2>&1`;
	is($? >> 8, 0, 'sonde check finds no error') or diag($text);
	like($text, qr/\d gaps? .*: the guest's own ftrace or kprobes changed traced functions/, 'sonde check reports the gaps');
	my ($lost, $exit, $end) = map { $marks->{$_}{lost} } qw(again-after exit-free end);
	is($lost, 0, 'no event was lost while functions were taken and given back');
	# Calls that were open meanwhile are found lost when their stacks are used again.
	cmp_ok($end - $exit, '<=', 16, 'hardly an event is lost after the kprobe at an exit was removed: ' . ($end - $exit));
	is($marks->{end}{overruns}, 0, 'no record was lost in writing the trace');
	is($marks->{end}{no_exitless} // '', '', 'there is no reason against exitless mode');
}

# --- a guest -------------------------------------------------------------------------------------------

sub judge {
	my ($out, $mode, $log, $result) = @_;
	my $marks = $result->{marks} // {};
	is_untroubled($log, "the guest's log has no kernel warnings and no script errors", WARNINGS, 'ftrace fail', "can't (?:open|create)",
		'write error', 'not found');
	is_deeply([found($log, 'failure')], [], 'no workload failed in the guest');
	is($marks->{'again-after'}{mode}, $mode, "tracing is in $mode mode");
	check_yielding($log, $marks, $result->{sites} // {}, $mode);
	check_exit($log, $marks);
	check_counts($marks);
	check_modules($log, "$out/trace");
	check_hotplug($log, $marks);
	cmp_ok($result->{in_flight} // 0, '>', 0, 'tracing ended while tasks were inside traced functions');
	check_call_chains($log);
	check_trace($out, $marks);
}

sub make_initrd {
	my ($version, $out) = @_;
	my $module = unpack_brd($version, $out) or return;
	build_initrd("$out/initrd", "$module=/lib/brd.ko",
		"$FindBin::RealBin/survive-inside=/bin/survive-inside");
	return 1;
}

sub test_guest {
	my ($version, $mode) = @_;
	my $out = "$build/guest/survive-$version-$mode";
	my $offset = $offset{$version} // die "no offset for $version\n";
	empty_folder($out);
	make_initrd($version, $out) or return plan(skip_all => "the package of $version has no brd module");
	judge($out, $mode, MarkedGuest::run($out, $version, $mode, "survive-inside $offset"));
}

for my $version (GuestConfigs::kernels('6.1')) {
	for my $mode (split ' ', $ENV{MODES} // 'exitless') {
		subtest "$version $mode" => sub { test_guest($version, $mode) };
	}
}
done_testing();
