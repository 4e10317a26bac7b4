#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The oracle test: Sonde's records against the guest's own trace events, 100 %, on each row of
# tests/guest/configs; and the guest's text after tracing against that of an untraced boot.
use strict;
use warnings;
use Cwd qw(realpath);
use File::Basename qw(dirname);
use File::Path qw(make_path remove_tree);
use Test::More;

use lib dirname(realpath($0));
use OracleCompare;
use GuestConfigs;
use GuestText;
use GuestTrace;

my $tree = realpath(dirname(realpath($0)) . '/../..');
my $build = realpath($ENV{O} // "$tree/build");

sub slurp {
	open my $in, '<:raw', $_[0] or return;
	local $/;
	return scalar <$in>;
}

# Which functions are called at the call sites of these items. Of an indirect call (by a retpoline, in
# kernels that have them) the text does not tell: it is named after its caller.
sub callees {
	my ($kernel, $out, $items) = @_;
	my %site = map { $_->[1][2] => 1 } @$items;
	my ($slide) = GuestTrace::sidecar("$out/trace") =~ /"virt_slide":\s*"?(-?\w+)/;
	open my $list, '>', "$out/sites" or die $!;
	printf $list "%x\n", $_ for sort keys %site;
	close $list;
	my %callee;
	for (`$build/tests/guest/call-target $kernel $slide < $out/sites`) {
		my ($address, $name, $caller) = split;
		$callee{$name =~ /x86_indirect_thunk|^\?$/ ? "*$caller" : $name}++;
	}
	return sort keys %callee;
}

sub check_called {
	my ($what, $allowed, @callees) = @_;
	diag("$what come from calls of: @callees") if @callees;
	return !grep { !/$allowed/ } @callees;
}

sub report_items {
	my ($what, $items) = @_;
	diag("$what: cpu $_->[0] $_->[1][0]") for @$items[0 .. ($#$items < 7 ? $#$items : 7)];
}

sub check_row {
	my ($row) = @_;
	$row->{ring} = $ENV{RING} if $ENV{RING};
	my $scale = $ENV{ITERATIONS_SCALE} // 1;
	my $iterations = $row->{iterations} * $scale;
	my $kernel = "$build/kernels/$row->{kernel}/vmlinuz";
	my $name = "$row->{kernel}, $row->{cpus} vCPU";
	my $out = "$build/guest/oracle-$row->{kernel}-$row->{cpus}";
	remove_tree($out);
	make_path($out);
	my ($stext, $etext) = GuestText::range("$build/sonde", $kernel);
	system("$tree/tests/testbed/kvm-host", '--mem', 2048, '--cpus', 1, '--share', $build,
		'--timeout', 1200 + 20 * $iterations, '--', "$tree/tests/guest/oracle-guest", $build, $out, $kernel,
		"$build/guest/initrd", $row->{cpus}, $iterations, $stext, $etext, $row->{mode}, $row->{ring});
	is($?, 0, "$name: guest ran") or return;
	is(slurp("$out/status"), "0 0\n", "$name: both boots ended with power-off, status 0");
	system("$build/sonde convert $out/trace --to kmemtrace -o $out/records 2> $out/convert.txt");
	is($?, 0, "$name: the trace can be converted") or diag(slurp("$out/convert.txt"));
	my $result = OracleCompare::compare("$out/oracle.txt", "$out/records", 1);
	diag($_) for @{$result->{faults}};
	is($result->{cpus}, $row->{cpus}, "$name: window found on every vCPU");
	cmp_ok($result->{events}, '>=', $row->{min_events} * $scale, "$name: $result->{events} guest events compared");
	is(@{$result->{missing}}, 0, "$name: none of them missing in ours")
		or report_items('missing', $result->{missing});
	is(@{$result->{disordered}}, 0, "$name: same order for every object")
		or diag(join "\n", @{$result->{disordered}}[0 .. 3]);
	# RCU calls back rcu_free_sheaf(): the frees of kfree_rcu() since 6.18
	ok(check_called('extra records',
		qr/^(kmem_cache_(free|alloc)_bulk|(__)?alloc_pages_bulk|\*rcu_do_batch$)/,
		callees($kernel, $out, $result->{extra})),
		sprintf '%s: the %d extra records are those of bulk operations and kfree_rcu()', $name,
		scalar @{$result->{extra}}) or report_items('extra', $result->{extra});
	ok(check_called('doubled guest events', qr/^__kmalloc_large_node/,
		callees($kernel, $out, $result->{doubled})),
		sprintf '%s: %d events that the guest gives twice are large kmalloc', $name,
		scalar @{$result->{doubled}}) or report_items('doubled', $result->{doubled});
	ok(check_called('events with other GFP flags', qr/^__kvmalloc_node/,
		callees($kernel, $out, $result->{adjusted})),
		sprintf '%s: %d events whose GFP flags the guest adjusted are kvmalloc', $name,
		scalar @{$result->{adjusted}}) or report_items('adjusted', $result->{adjusted});
	check_loss($name, $out);
	check_mode($name, $out, $row);
	check_text($name, $out, $kernel);
	unlike(slurp("$out/console.txt") // 'no console', qr/WARNING|BUG:|Oops|Call Trace|no console/,
		"$name: no kernel warning on the console");
}

sub check_loss {
	my ($name, $out) = @_;
	my $query = slurp("$out/query.json") // '';
	like($query, qr/"lost":\s*0\b/, "$name: nothing lost");
	like($query, qr/"refused":\s*\[\s*\]/, "$name: no site refused") or diag($query);
	my $status = system("$build/sonde check $out/trace > $out/check.txt 2>&1");
	is($status, 0, "$name: sonde check finds nothing wrong") or diag(slurp("$out/check.txt"));
}

# Traps are for early boot; of a ring that is too small each vCPU has been waiting for room.
sub check_mode {
	my ($name, $out, $row) = @_;
	my $query = slurp("$out/query.json") // '';
	like($query, qr/"mode": "$row->{mode}"/, "$name: $row->{mode} mode");
	my %sum;
	$sum{$1} += $2 while $query =~ /"(traps|ring_records|ring_waits)": (\d+)/g;
	return is($sum{ring_records}, 0, "$name: every event by a trap") if $row->{mode} eq 'trap';
	cmp_ok($sum{ring_records}, '>', 2 * $sum{traps}, "$name: $sum{ring_records} records without an exit");
	cmp_ok($sum{ring_waits}, '>', 100, "$name: full rings made vCPUs wait") if $row->{ring} < 64;
	diag("$name: $sum{traps} traps, $sum{ring_waits} full rings");
}

sub check_text {
	my ($name, $out, $kernel) = @_;
	my ($traced, $plain) = map {
		GuestText::without_pointers("$build/tests/guest/runtime-pointers", $kernel,
			slurp("$out/$_") // '')
	} qw(text.traced text.plain);
	ok(length $traced > 1 << 20, "$name: text saved");
	ok($traced eq $plain, "$name: text after tracing is byte-identical to an untraced boot's")
		or diag(GuestText::differences($traced, $plain));
}

my @rows = GuestConfigs::rows();
plan skip_all => "no row of tests/guest/configs is asked for by GUEST='$ENV{GUEST}'" unless @rows;
check_row($_) for @rows;
done_testing();
