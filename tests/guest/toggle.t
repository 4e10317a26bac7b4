#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Tracing is switched on and off while 4 vCPUs work and while they boot; a run ends in every possible way
# while it is traced; a guest decompresses and places itself. From the environment: TOGGLES (8), SEED,
# GUEST='5.10 6.12' for other kernels than 6.1, LONG=1 for all scenarios, SCENARIOS='plain kill' for some, BUDGET: seconds, instead of
# TOGGLES.
use strict;
use warnings;
use FindBin;
use JSON::PP;
use List::Util qw(max);
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Campaign;
use Files;
use GuestConfigs;
use GuestLog;
use GuestText;
use GuestTrace;
use Testbed;
use Tree;

my $seed = $ENV{SEED} // int rand 1 << 31;
my $toggles = $ENV{TOGGLES} // 8;
# Of the budget, for the scenario "live"; the others and the second guest take KEEP_SECONDS.
use constant KEEP_SECONDS => 240;
my $live_seconds = in_campaign() ? max(30, $ENV{BUDGET} - KEEP_SECONDS) : 0;

# Status and all output of `sonde VERB TRACE`.
sub sonde {
	my (@words) = @_;
	my $text = `\Q$build\E/sonde @words 2>&1`;
	return ($? >> 8, $text);
}

sub load {
	my ($out, $name) = @_;
	my $result = eval { decode_json(slurp("$out/$name.json")) } // {failure => 'the scenario left no result'};
	is($result->{failure}, undef, "scenario $name ran to its end") or diag(slurp("$out/$name.err"));
	add_total($result->{toggles} // 0, 'toggles');
	note(sprintf '%d toggles, %d rounds of work, %.0f s', map { $_ // 0 } @$result{qw(toggles ticks seconds)});
	return $result;
}

sub check_log {
	my ($out, $name) = @_;
	my $log = read_log("$out/$name.log");
	like($log, qr/sonde-guest: init/, "the guest's init started");
	is_untroubled($log, "the guest's log has no kernel warnings", WARNINGS);
}

sub check_trace {
	my ($trace) = @_;
	my ($status, $text) = sonde('check', $trace);
	is($status, 0, 'sonde check finds no error') or diag($text);
	my $info = eval { decode_json(GuestTrace::sidecar($trace)) } // {};
	ok($info->{complete}, 'the trace is complete');
	return $info;
}

sub check_query {
	my ($query) = @_;
	is($query->{lost}, 0, 'no event was lost');
	is($query->{overruns}, 0, 'no record was lost in writing the trace');
	is_deeply($query->{sites}{refused}, [], 'no site was refused');
	ok(!$query->{enabled}, 'tracing is off at the end');
	note(join ', ', map { "$_ $query->{$_}" } qw(allocs frees unpaired_returns in_flight nested));
}

sub check_text {
	my ($out, $name) = @_;
	my ($version) = $out =~ /toggle-(.+)$/;
	my ($text, $plain) = map {
		GuestText::without_pointers("$build/tests/guest/runtime-text",
			kernel_image($version), slurp("$out/$_.text"))
	} $name, 'plain';
	cmp_ok(length $plain, '>', 1 << 20, "the text of an untraced boot was saved");
	ok($text eq $plain, "the text after tracing is that of an untraced boot")
		or diag(GuestText::differences($text, $plain));
}

sub check_live {
	my ($out, $name) = @_;
	my $result = load($out, $name);
	is($result->{status}, 0, 'sonde run exits with status 0') or diag(slurp("$out/$name.err"));
	check_log($out, $name);
	check_query($result->{query} // {});
	check_trace("$out/$name");
	check_text($out, $name);
	return $result;
}

sub test_live {
	my ($out) = @_;
	my $result = check_live($out, 'live');
	in_campaign() ? cmp_ok($result->{toggles}, '>', 0, "tracing was switched on and off for $live_seconds s")
		: is($result->{toggles}, 2 * $toggles, "tracing was switched on and off $toggles times");
	cmp_ok($result->{query}{allocs} // 0, '>', 10_000, 'more than 10,000 allocations were traced');
}

sub test_boot {
	my ($out, $name) = @_;
	my $result = check_live($out, $name);
	cmp_ok($result->{toggles}, '>=', 4, 'tracing was switched on and off at least twice during the boot');
	my @odd = grep { !/patching its own text in early boot/ } @{$result->{refusals} // []};
	is_deeply(\@odd, [], "trace-start was refused only while the guest patched its own text");
	note(scalar(@{$result->{refusals} // []}), " refusals");
}

sub test_ended {
	my ($out, $name, $status) = @_;
	my $result = load($out, $name);
	is($result->{status}, $status, "sonde run exits with status $status");
	like(slurp("$out/$name.err"), qr/^sonde run: [\d,]+ allocations and [\d,]+ frees in .*, lost: none(, beside what happened in the gaps)?$/m,
		'sonde run prints how many records it has written');
	my $info = check_trace("$out/$name");
	cmp_ok($info->{vcpus}[0]{allocs} // 0, '>', 1000, 'vCPU 0 has more than 1,000 allocations');
	my ($report) = sonde('report', "$out/$name");
	is($report, 0, 'sonde report reads the trace');
}

use constant NAMED_SITE => qr/ \w+\+0x[0-9a-f]+\/0x[0-9a-f]+ /;
use constant NAMELESS_SITE => qr/ 0xffffffff[0-9a-f]{8} /;

# -k names the functions of a trace that has lost its names.
sub test_names_from_kernel {
	my ($trace) = @_;
	rename "$trace/.sonde.names", "$trace/../names" or diag("$trace/.sonde.names: $!");
	my ($status, $text) = sonde('report', $trace);
	like($text, NAMELESS_SITE, 'without the file of names call sites are addresses');
	($status, $text) = sonde('report', '-k', "$build/kernels/6.1/vmlinuz", $trace);
	like($text, NAMED_SITE, 'sonde report -k names them after the kernel');
	unlike($text, NAMELESS_SITE, 'sonde report -k names all of them');
	($status, $text) = sonde('events', '-k', "$build/kernels/6.1/vmlinuz", '--filter', q('call_site ~ "*"'), $trace, '| head -n 5');
	like($text, qr/\w\+0x[0-9a-f]+/, 'sonde events -k names them, too');
	($status, $text) = sonde('check', '-k', "$build/kernels/5.10/vmlinuz", $trace);
	is($status, 1, 'another kernel is refused');
	like($text, qr/not the kernel that was traced/, 'and the message says why');
	rename "$trace/../names", "$trace/.sonde.names";
}

sub test_killed {
	my ($out) = @_;
	my $result = load($out, 'kill');
	is($result->{status}, 128 + 9, 'SIGKILL ended sonde run');
	is($result->{check_status}, 0, 'sonde check finds no error while the trace is written, with tracing on again')
		or diag($result->{checked});
	like($result->{reported}, qr/^Trace .*, exitless\b/m, 'sonde report says then that it is recorded exitlessly');
	for my $text (@$result{qw(checked reported)}) {
		like($text, qr/^Now +sonde run is writing this trace/m, 'it says that the trace is being written');
		unlike($text, qr/did not end in order/, 'and not that it ended');
	}
	my ($status, $text) = sonde('report', '--json', "$out/kill");
	is($status, 0, 'sonde report reads the trace of a killed recorder') or diag($text);
	cmp_ok((eval { decode_json($text) } // {})->{alloc_events} // 0, '>', 1000, 'more than 1,000 allocations are in it');
	($status, $text) = sonde('report', "$out/kill");
	like($text, qr/^Lost +1 gap: .*\n +sonde run did not end in order/m, 'sonde report says that the recorder did not end in order');
	like($text, NAMED_SITE, 'call sites in the trace of a killed recorder have names');
	unlike($text, NAMELESS_SITE, 'all of them have');
	test_names_from_kernel("$out/kill");
	($status, $text) = sonde('check', "$out/kill");
	is($status, 0, 'sonde check finds no error after the kill') or diag($text);
	like($text, qr/^Lost +1 gap: .*\n +sonde run did not end in order/m, 'sonde check says that the recorder did not end in order');
}

sub test_bzimage {
	my ($out) = @_;
	my $result = load($out, 'bzimage');
	is($result->{status}, 0, 'sonde run exits with status 0') or diag(slurp("$out/bzimage.err"));
	check_log($out, 'bzimage');
	# Whether a query comes before tracing starts depends on how fast the guest decompresses itself.
	ok($result->{queries}{on}, 'query-trace answered while the guest was paused');
	note(sprintf '%d queries before tracing started', $result->{queries}{off} // 0);
	my $info = check_trace("$out/bzimage");
	ok($info->{from_first_allocation}, 'tracing began before the first allocation');
	like(slurp("$out/bzimage.err"), qr/, lost: none(, beside what happened in the gaps)?$/m, 'no event was lost');
}

sub test_full {
	my ($out) = @_;
	my $result = load($out, 'full');
	my $output = slurp("$out/full.err");
	is($result->{status}, 1, 'sonde run exits with status 1');
	my @errors = $output =~ /^sonde run: (?!guest powered off|[\d,]+ allocations)(.*)$/mg;
	is(scalar @errors, 1, 'sonde run prints one error');
	like($errors[0] // '', qr/cannot write: No space left on device/, 'the error is that the disk is full');
	like($output, qr/^sonde run: guest powered off after/m, 'the guest ran to its end on a full disk');
	like(slurp("$out/full.log"), qr/^worked\r?$/m, 'the workload ran on a full disk');
	check_log($out, 'full');
	check_trace("$out/full");
	my ($status, $text) = sonde('report', '--json', "$out/full");
	my $report = eval { decode_json($text) } // {};
	cmp_ok($report->{alloc_events} // 0, '>', 1000, 'the trace has the records that there was room for');
	cmp_ok($report->{overruns} // 0, '>', 1000, 'the trace counts the other records as lost');
}

my %judge = (
	live => \&test_live,
	boot1 => \&test_boot,
	boot2 => \&test_boot,
	quit => sub { test_ended(@_, 0) },
	term => sub { test_ended(@_, 128 + 15) },
	kill => \&test_killed,
	full => \&test_full,
	bzimage => \&test_bzimage,
);
# In this order on one KVM host: "plain" saves the text that the others are compared with, at the address
# that "live" has found.
my @short = qw(live plain boot1 quit kill full);
my @long = (@short, qw(boot2 term bzimage));

sub test_kernel {
	my ($version, @scenarios) = @_;
	my $kernel = kernel_image($version);
	my $out = "$build/guest/toggle-$version";
	empty_folder($out);
	my $status = on_kvm_host({mem => 2048, timeout => 2400 + ($live_seconds || 4 * $toggles)}, "$FindBin::RealBin/toggle-guest",
		$out, $kernel, "$build/guest/initrd", $seed, $live_seconds ? "${live_seconds}s" : $toggles, GuestText::range("$build/sonde", $kernel),
		@scenarios);
	is($status, 0, "$version: toggle-guest ran on the KVM host");
	for my $name (grep { $judge{$_} } @scenarios) {
		subtest "$version: $name" => sub { $judge{$name}->($out, $name) };
	}
}

my @scenarios = $ENV{SCENARIOS} ? split(' ', $ENV{SCENARIOS}) : $ENV{LONG} ? @long : @short;
diag("SEED=$seed TOGGLES=$toggles");
if (my @kernels = GuestConfigs::kernels()) {
	test_kernel($_, @scenarios) for @kernels;
} else {
	test_kernel('6.1', @scenarios);
	test_kernel('6.12', 'bzimage');
}
done_testing();
