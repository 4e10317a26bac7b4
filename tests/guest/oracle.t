#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The oracle test: Sonde's records against the guest's own trace events, 100 %, on each row of
# tests/guest/configs; and the guest's text after tracing against that of an untraced boot.
use strict;
use warnings;
use FindBin;
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Files;
use GuestConfigs;
use GuestLog;
use GuestText;
use OracleCheck;
use Testbed;
use Tree;

sub check_row {
	my ($row) = @_;
	$row->{ring} = $ENV{RING} if $ENV{RING};
	my $scale = $ENV{ITERATIONS_SCALE} // 1;
	my $iterations = $row->{iterations} * $scale;
	my $kernel = kernel_image($row->{kernel});
	my $name = "$row->{kernel}, $row->{cpus} vCPU";
	my $out = "$build/guest/oracle-$row->{kernel}-$row->{cpus}";
	empty_folder($out);
	my $status = on_kvm_host({mem => 2048, timeout => 1200 + 20 * $iterations},
		"$FindBin::RealBin/oracle-guest", $build, $out, $kernel, "$build/guest/initrd", $row->{cpus},
		$iterations, GuestText::range("$build/sonde", $kernel), $row->{mode}, $row->{ring});
	is($status, 0, "$name: guest ran") or return;
	is(slurp("$out/status"), "0 0\n", "$name: both boots ended with power-off, status 0");
	OracleCheck::check_events(name => $name, build => $build, kernel => $kernel, guest => "$out/oracle.txt",
		trace => "$out/trace", out => $out, cpus => $row->{cpus}, min_events => $row->{min_events} * $scale);
	check_loss($name, $out);
	check_mode($name, $out, $row);
	check_text($name, $out, $kernel);
	my $log = read_log("$out/console.txt");
	isnt($log, '', "$name: there is a console log");
	is_untroubled($log, "$name: no trouble in it", WARNINGS);
}

sub check_loss {
	my ($name, $out) = @_;
	my $query = slurp("$out/query.json");
	like($query, qr/"lost":\s*0\b/, "$name: nothing lost");
	like($query, qr/"refused":\s*\[\s*\]/, "$name: no site refused") or diag($query);
	my $status = system("$build/sonde check $out/trace > $out/check.txt 2>&1");
	is($status, 0, "$name: sonde check finds nothing wrong") or diag(slurp("$out/check.txt"));
}

# Traps are for early boot; of a ring that is too small each vCPU has been waiting for room.
sub check_mode {
	my ($name, $out, $row) = @_;
	my $query = slurp("$out/query.json");
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
		GuestText::without_pointers("$build/tests/guest/runtime-pointers", $kernel, slurp("$out/$_"))
	} qw(text.traced text.plain);
	ok(length $traced > 1 << 20, "$name: text saved");
	ok($traced eq $plain, "$name: text after tracing is byte-identical to an untraced boot's")
		or diag(GuestText::differences($traced, $plain));
}

my @rows = GuestConfigs::rows();
plan skip_all => "no row of tests/guest/configs is asked for by GUEST='$ENV{GUEST}'" unless @rows;
check_row($_) for @rows;
done_testing();
