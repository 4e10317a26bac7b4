#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The oracle test: compares Sonde's records with the guest's own trace events, event by event, for each
# row of tests/guest/configs, or of another such file; the guest's text after tracing with that of an untraced
# boot; and Sonde's figures with those that follow from trace-cmd's and babeltrace2's text of the trace. In a campaign
# (BUDGET) each row runs again, with so many iterations that the time is used.
#
# usage: oracle.t [ROWS]
use strict;
use warnings;
use FindBin;
use List::Util qw(min);
use Test::More;
use Time::HiRes qw(time);

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib", "$FindBin::RealBin/../agreement";
use Agreement;
use Campaign;
use DamagedImage;
use Files;
use GuestConfigs;
use GuestLog;
use GuestText;
use OracleCheck;
use Testbed;
use Tree;

use constant { MEMORY_MIB => 768, VMX_MEMORY_MIB => 256 };

# The guest's initramfs, with a module for `rare` in a row that has one.
sub make_initrd {
	my ($row, $folder, $out) = @_;
	return "$build/guest/initrd" unless has_module($row);
	build_module($folder, "$tree/tests/workload/pages-module.c", "$out/pages.ko");
	build_initrd("$out/initrd", "$out/pages.ko=/lib/pages.ko");
	return "$out/initrd";
}

sub has_module { ($_[0]{module} // '-') ne '-' }

# Runs oracle-guest on the KVM host, or, in a row with the host vmx, on the Intel machine that Bochs emulates: a guest with
# less memory there, in which no block of it can go off line.
sub run_guest {
	my ($row, $out, $kernel, $initrd, $iterations) = @_;
	my ($image, @given) = booted($row, $out);
	my @command = ("$FindBin::RealBin/oracle-guest", $build, $out, $image, $initrd, $row->{cpus}, $iterations,
		GuestText::range("$build/sonde", $kernel), $row->{mode}, $row->{ring}, $row->{spec} // 'kmem');
	return on_kvm_host({mem => 2304, timeout => 1200 + 20 * $iterations}, @command, MEMORY_MIB, options($row), '--', @given)
		unless on_vmx($row);
	return on_vmx_host({mem => 1024, timeout => 7200}, [$image, $initrd, "$build/tests/guest/oracle-extract"], $out, @command,
		VMX_MEMORY_MIB);
}

sub given { return $_[0]{given} // '-' }

sub image { return fetch_kernel($_[0]{kernel}) . '/' . ($_[0]{image} // 'vmlinuz') }

# The image that is booted, and options of sonde run for what the row says that it does not have itself. btf: its BTF is
# damaged, and given as it was. system-map: its own symbols do not suffice.
sub booted {
	my ($row, $out) = @_;
	my $image = image($row);
	return (image_without($image, 'BTF', "$out/vmlinux"), '--btf', types_of($image, "$out/types.btf")) if given($row) eq 'btf';
	return ($image, given($row) eq 'system-map' ? ('--system-map', $image =~ s{[^/]+$}{System.map}r) : ());
}

# The image of the same kernel that has all of it.
sub whole { return given($_[0]) eq 'system-map' ? image($_[0]) =~ s{[^/]+$}{vmlinux}r : image($_[0]) }

# Of the guest's command line.
sub options { return grep { $_ ne '-' } split /\+/, $_[0]{options} // '' }

sub on_vmx { ($_[0]{host} // '-') eq 'vmx' }

sub check_row {
	my ($row, $scale) = @_;
	$row->{ring} = $ENV{RING} if $ENV{RING};
	my $iterations = $row->{iterations} * $scale;
	my $folder = fetch_kernel($row->{kernel});
	my $kernel = whole($row);
	my $name = join ', ', $row->{kernel}, "$row->{cpus} vCPU", on_vmx($row) ? 'Intel' : (), options($row),
		given($row) eq '-' ? () : given($row) . ' given';
	my $out = "$build/guest/oracle-$row->{kernel}-$row->{cpus}" . (on_vmx($row) ? '-vmx' : '');
	empty_folder($out);
	my $initrd = make_initrd($row, $folder, $out);
	my $status = run_guest($row, $out, $kernel, $initrd, $iterations);
	is($status, 0, "$name: oracle-guest ran on the KVM host") or return;
	is(slurp("$out/status"), "0 0\n", "$name: the traced and the untraced boot powered off");
	OracleCheck::check_events(name => $name, build => $build, kernel => $kernel, guest => "$out/oracle.txt",
		trace => "$out/trace", out => $out, cpus => $row->{cpus}, min_events => $row->{min_events} * $scale,
		has_pids => scalar(($row->{spec} // '') =~ /\bpid\b/));
	check_loss($name, $out);
	check_mode($name, $out, $row);
	check_text($name, $out, $kernel);
	my $log = read_log("$out/console.txt");
	isnt($log, '', "$name: the console log is not empty");
	is_untroubled($log, "$name: the console log has no kernel warnings", WARNINGS);
	return if on_vmx($row);
	check_rare($name, $row, $log);
	check_figures($name, $out, $row) unless options($row) || $scale > 1;
	OracleCheck::check_module({name => $name, build => $build, trace => "$out/trace"}) if has_module($row);
}

# A guest of configs has one node.
use constant { LEAST_SITES => 200, LEAST_LIVE => 5000, LEAST_PING_PONG => 100 };

sub check_figures {
	my ($name, $out, $row) = @_;
	subtest "$name: Sonde's figures are those of other tools" => sub {
		check_agreement("$out/trace", $out, {events => $row->{min_events}, sites => LEAST_SITES, live => LEAST_LIVE,
			cross_cpu => $row->{cpus} > 1 ? LEAST_PING_PONG : 0, cross_node => 0, node_of_vcpu => sub { 0 }});
	};
}

# The kernel takes a new page for each that it wants to move, and gives it back if the old one stays: compaction_free(),
# with an event of its own since 6.10.
use constant { LEAST_MOVED => 1000, LEAST_STAYED => 32 };

# What tests/workload/rare.c did between the markers. The kernels that tests/testbed/build-kernel builds have no kexec.
sub check_rare {
	my ($name, $row, $log) = @_;
	my ($did) = $log =~ /^rare: (.*?)\r?$/m;
	$did //= '';
	like($did, qr/^splice done,/, "$name: pages were spliced");
	my ($moved, $stayed) = $did =~ /compaction done \((\d+) pages moved, (\d+) stayed\)/;
	cmp_ok($moved // 0, '>=', LEAST_MOVED, "$name: compaction moved pages");
	cmp_ok($stayed // 0, '>=', LEAST_STAYED, "$name: compaction gave back the pages that it had taken for some that stayed");
	like($did, qr/memory block off and on/, "$name: memory went off line and came back");
	like($did, qr/CPU off and on/, "$name: so did a CPU") if $row->{cpus} > 1;
	like($did, qr/kexec done/, "$name: another kernel was loaded for kexec, and unloaded") unless $row->{image};
	like($did, qr/exact pages and arrays with holes done/,
		"$name: alloc_pages_exact() and bulk allocation into arrays with holes were used") if has_module($row);
}

sub check_loss {
	my ($name, $out) = @_;
	my $query = slurp("$out/query.json");
	like($query, qr/"lost":\s*0\b/, "$name: no event was lost");
	like($query, qr/"refused":\s*\[\s*\]/, "$name: no site was refused") or diag($query);
	my $status = system("$build/sonde check $out/trace > $out/check.txt 2>&1");
	is($status, 0, "$name: sonde check finds no error") or diag(slurp("$out/check.txt"));
}

# Exitless mode uses traps in early boot only. If the rings are small, each vCPU must have waited for room.
sub check_mode {
	my ($name, $out, $row) = @_;
	my $query = slurp("$out/query.json");
	like($query, qr/"mode": "$row->{mode}"/, "$name: tracing was in $row->{mode} mode");
	my %sum;
	$sum{$1} += $2 while $query =~ /"(traps|ring_records|ring_waits)": (\d+)/g;
	return is($sum{ring_records}, 0, "$name: trap mode wrote no record into a ring") if $row->{mode} eq 'trap';
	cmp_ok($sum{ring_records}, '>', 2 * $sum{traps}, "$name: $sum{ring_records} records came through rings, far more than through traps");
	cmp_ok($sum{ring_waits}, '>', 100, "$name: vCPUs waited for room in full rings") if $row->{ring} < 64;
	diag("$name: $sum{traps} traps, $sum{ring_waits} full rings");
}

sub check_text {
	my ($name, $out, $kernel) = @_;
	my ($traced, $plain) = map {
		GuestText::without_pointers("$build/tests/guest/runtime-text", $kernel, slurp("$out/$_"))
	} qw(text.traced text.plain);
	ok(length $traced > 1 << 20, "$name: the text was saved");
	ok($traced eq $plain, "$name: the text after tracing is that of an untraced boot, byte by byte")
		or diag(GuestText::differences($traced, $plain));
}

# First once, to learn how long it takes. A guest with more than MOST_SCALE has no room for its own events.
use constant { MOST_SCALE => 28, BOOTS_SHARE => 0.5 };
sub run_for {
	my ($row, $seconds) = @_;
	my $end = time + $seconds;
	my $from = time;
	check_row($row, 1);
	my $once = time - $from;
	while (1) {
		my $scale = min(MOST_SCALE, int(($end - time - BOOTS_SHARE * $once) / ((1 - BOOTS_SHARE) * $once)));
		last if $scale < 1;
		check_row($row, $scale);
	}
}

my @rows = GuestConfigs::rows($ARGV[0]);
plan skip_all => "no row matches GUEST='$ENV{GUEST}'" unless @rows;
if (in_campaign()) {
	run_for($rows[$_], seconds_left() / (@rows - $_)) for 0 .. $#rows;
} else {
	check_row($_, $ENV{ITERATIONS_SCALE} // 1) for @rows;
}
done_testing();
