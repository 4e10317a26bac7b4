#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Each tracer once in a domain, which has 2 MiB for rings and code: what it records or counts is what the domain does all
# the time. Afterwards the domain is as before.
use strict;
use warnings;
use FindBin;
use JSON::PP;
use List::Util qw(sum0);
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib", "$FindBin::RealBin/../guest";
use AttachTest;
use Files;
use GuestLog;
use Process;

use constant NAME => 'tracers';

# Trace for some seconds. Returns what a verb prints of the trace.
sub traced {
	my ($spec, @verb) = @_;
	my ($status, $text) = attach(NAME, '--duration', 3, '--trace', $spec);
	is($status, 0, "$spec: attach has status 0") or diag($text);
	like($text, qr/lost: none/, "$spec: nothing is lost") or diag($text);
	($status, my $shown) = $libvirt->run("$work/sonde", @verb, trace_dir());
	is($status, 0, "$spec: '@verb' has status 0") or diag($shown);
	return $shown;
}

sub objects { return map { JSON::PP::decode_json($_) } grep { /^\{/ } split /\n/, $_[0] }

sub test_kmem {
	my @events = objects(traced('kmem:kmalloc,cache,pid', 'events', '--json'));
	cmp_ok(scalar(@events), '>', 100, 'kmem: allocations and frees are recorded: ' . @events);
	is(scalar(grep { !$_->{call_site_symbol} && !defined $_->{call_site} } @events), 0, 'kmem: each has its caller');
}

sub test_function {
	my @events = objects(traced('function:vfs_read,vfs_write,pid', 'events', '--json'));
	my %calls;
	$calls{$_->{ip_symbol}}++ for @events;
	is_deeply([sort keys %calls], [qw(vfs_read vfs_write)], 'function: the functions that were asked for are recorded');
}

# All of them, and their returns: each of tens of thousands of sites is patched, with rings of 2 MiB in all.
sub test_all_functions {
	my $report = JSON::PP::decode_json(traced('graph:*', 'report', '--analysis', 'functions', '--json', '--top', 0));
	my %calls = map { $_->{name} => $_->{calls} } @{$report->{functions}};
	cmp_ok(scalar(keys %calls), '>', 300, 'all functions: ' . keys(%calls) . ' are called');
	cmp_ok($calls{vfs_read} // 0, '>', 0, 'all functions: among them is vfs_read()');
}

# A process that reads /proc/self/maps enters the file system twice: by way of ksys_read(), and in the pipe of a shell.
sub test_graph {
	my $text = traced('graph:ksys_read,vfs_read,seq_read*', 'events', '--graph');
	like($text, qr/\|  ksys_read\(\) \{\n[^\n]*\|    vfs_read\(\) \{\n[^\n]*\|      seq_read_?\w*\(\);?/,
		'graph: calls are within those that make them');
	my @times = $text =~ /([\d.]+) us +\|/g;
	cmp_ok(scalar(@times), '>', 20, 'graph: calls have durations: ' . @times);
}

sub test_profile {
	my $profile = JSON::PP::decode_json(traced('profile:vfs_read,vfs_write,hist', 'profile', '--json'));
	my %of = map { $_->{function} => $_ } @{$profile->{profiles}[0]{functions}};
	is_deeply([sort keys %of], [qw(vfs_read vfs_write)], 'profile: the functions that were asked for are counted');
	for my $function (values %of) {
		my $calls = 0;
		$calls += $_->{calls} for @{$function->{buckets}};
		cmp_ok($function->{timed}, '>', 0, "profile: calls of $function->{function} are timed");
		is($calls, $function->{timed}, "profile: $function->{function} has a histogram of them");
	}
}

sub test_syscalls {
	my $text = traced('syscalls:read,openat,comm', 'events', '--syscalls');
	like($text, qr/ openat\(dfd=-100, filename=0x\w+, flags=\w+, mode=\w+\) = \d+ </, 'syscalls: arguments are named');
	unlike($text, qr/ (?!openat|read)\w+\([^)]*\) = /, 'syscalls: no others are recorded');
}

sub test_probe {
	my @events = objects(traced('probe:p:opened do_sys_openat2 dfd name=+0($arg2):ustring', 'events', '--json'));
	cmp_ok(scalar(grep { ($_->{name} // '') eq '/proc/self/maps' } @events), '>', 0,
		'probe: arguments and what they point to are recorded');
	is(scalar(grep { $_->{event} !~ /opened$/ } @events), 0, 'probe: each event has the name that was given');
}

# In the middle of a function, where the refusal of a place that is none names one.
sub test_probe_inside {
	my ($status, $text) = attach(NAME, '--trace', 'probe:p:inside do_sys_openat2+2 %sp');
	isnt($status, 0, 'probe: a place in the middle of an instruction is refused');
	my ($near) = $text =~ /no instruction begins there; try (\+0x\w+)/;
	ok($near, 'probe: a place near it is named') or return diag($text);
	my @events = objects(traced("probe:p:inside do_sys_openat2$near sp=%sp:x64", 'events', '--json'));
	cmp_ok(scalar(grep { $_->{sp} } @events), '>', 10, "probe: calls that come by do_sys_openat2$near are recorded: " . @events);
}

sub test_stack {
	my @events = objects(traced('kmem:kmalloc,stack', 'events', '--json'));
	my @whole = grep { ($_->{stack_symbol}[-1] // '') =~ /^entry_SYSCALL_64_after_hwframe\b/ && !$_->{stack_cut} } @events;
	cmp_ok(scalar(@whole), '>', 20, 'stack: call chains lead to system calls: ' . @whole . ' of ' . @events);
}

sub hits { return map { $_->{keys}[0]{text} => $_->{hitcount} } @{JSON::PP::decode_json($_[0])->{histograms}[0]{rows}} }

sub test_hist {
	my %calls = hits(traced('calls=syscalls:hist:keys=id.syscall', 'hist', '--json'));
	cmp_ok((sum0(map { $calls{$_} } grep { /^sys_openat\b/ } keys %calls)), '>', 10, 'hist: calls are counted by name: ' . join(' ', sort keys %calls));
}

# A verb while the domain is traced.
sub live {
	my ($verb, @arguments) = @_;
	my ($status, $text) = $libvirt->run("$work/sonde", $verb, @arguments);
	is($status, 0, "live: '$verb' has status 0") or diag($text);
	return $text;
}

sub while_traced {
	my ($check, @specs) = @_;
	my $pid = $libvirt->spawn('live', attach_command(NAME, '--monitor', "$work/run/m", map { ('--trace', $_) } @specs));
	ok(wait_tracing(), "live, @specs: attach traces") or BAIL_OUT(log_of('live'));
	sleep 2;
	$check->("$work/run/m");
	kill INT => $pid;
	is($libvirt->wait_for($pid, 60), 130, "live, @specs: SIGINT ends attach with status 130") or diag(log_of('live'));
	like(log_of('live'), qr/lost: none/, "live, @specs: nothing is lost");
}

sub check_top {
	my ($monitor) = @_;
	my $top = JSON::PP::decode_json(live('top', '--json', $monitor));
	cmp_ok(scalar(@{$top->{callsites} // []}), '>', 3, 'top: call sites');
	ok((grep { $_->{name} =~ /^openat\b/ } @{$top->{syscalls} // []}), 'top: system calls');
}

sub test_live {
	while_traced(\&check_top, 'kmem:kmalloc,stack', 'syscalls:read,openat');
	while_traced(sub { like(live('ctl', $_[0], 'profile'), qr/\bvfs_read\b/, 'ctl prints the profile until now') }, 'profile:vfs_read');
	while_traced(sub { like(live('ctl', $_[0], 'hist'), qr/openat/, 'ctl prints the histogram until now') },
		'syscalls:hist:keys=id.syscall');
}

# Instances of kmem that ask for more of tasks than those before them, or come after another tracer: the code for them is made
# beside that of the start.
sub test_late {
	while_traced(sub {
		my ($monitor) = @_;
		live('ctl', $monitor, 'trace', 'add', 'plain=kmem:kmalloc,cache');
		live('ctl', $monitor, 'trace', 'add', 'late=kmem:kmalloc,cache,pid,comm');
		live('ctl', $monitor, 'trace', 'add', 'chains=kmem:kmalloc,stack');
		sleep 2;
		live('ctl', $monitor, 'trace', 'remove', $_) for qw(late chains);
		sleep 1;
	}, 'function:vfs_read');
	my ($status, $text) = $libvirt->run("$work/sonde", 'events', '--json', trace_dir());
	my %of;
	push @{$of{$_->{instance} // ''}}, $_ for objects($text);
	cmp_ok(scalar(grep { ($_->{comm} // '') eq 'cat' && $_->{pid} > 1 } @{$of{late}}), '>', 20,
		'late: allocations have their task: ' . @{$of{late} // []} . ' events');
	cmp_ok(scalar(grep { ($_->{stack_symbol}[-1] // '') =~ /^entry_SYSCALL_64/ } @{$of{chains}}), '>', 5, 'late: and call chains');
	cmp_ok(scalar(@{$of{plain} // []}), '>=', scalar(@{$of{late} // []}), 'late: another instance goes on without');
}

# What does not fit into the memory is refused before anything is traced, with the number that would fit.
sub is_refused {
	my ($what, $why, @specs) = @_;
	my ($status, $text) = attach(NAME, '--duration', 3, map { ('--trace', $_) } @specs);
	is($status, 1, "$what: attach has status 1");
	like($text, $why, "$what: the reason has the number that fits");
}

sub test_refusals {
	is_refused('a profile of all functions', qr/^sonde attach: no room for the counts of more than \d+ functions: /m, 'profile:*');
	is_refused('two profiles', qr/^sonde attach: no memory for counts: .* the sets are 1$/m, map { "p$_=profile:vfs_read" } 1, 2);
	is_refused('a function beside a profile', qr/^sonde attach: no rings: .* the sets are 1$/m, 'profile:vfs_read',
		'function:vfs_read');
	is_refused('a histogram', qr/size=\d+ fits/, 'function:vfs_*,hist:keys=ip:size=131072');
	# each reads 20 words behind chains of 15 pointers
	my $arguments = join ' ', (('+0(' x 15) . '%di' . (')' x 15)) x 20;
	is_refused('two probes of one function', qr/^sonde attach: vfs_read, which 2 instances want: the code takes \d+ bytes, \d+ are the most$/m,
		map { "probe:p:e$_ vfs_read $arguments" } 1, 2);
	my @events = objects(traced('function:vfs_read,pid', 'events', '--json'));
	cmp_ok(scalar(@events), '>', 0, 'the domain can be traced afterwards');
}

AttachTest::start();
start_ticking(NAME);
test_kmem();
test_function();
test_all_functions();
test_graph();
test_profile();
test_syscalls();
test_probe();
test_probe_inside();
test_stack();
test_hist();
test_live();
test_late();
test_refusals();
is_as_before(NAME, 'at the end');
is_untroubled($libvirt->serial(NAME) =~ s/\r//gr, "the guest's log has no warnings", WARNINGS);
done_testing();
