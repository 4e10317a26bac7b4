#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Boots unmodified Debian kernels, one per row of tests/guest/boot-rows. The guest finds its CPUs and
# memory, KASLR has moved the kernel, the guest's log has no warnings, and sonde run reports how the
# guest ended.
use strict;
use warnings;
use File::Path qw(make_path remove_tree);
use FindBin;
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Campaign;
use Files;
use GuestConfigs;
use GuestLog;
use Process;
use Testbed;
use Tree;

my $tests = $FindBin::RealBin;
my $out = "$build/guest/boot";

no warnings 'portable'; # addresses have 64 bits
use constant LINK_TEXT => 0xffffffff81000000;
use constant LINK_PHYS => 0x1000000;

sub read_rows {
	open my $in, '<', "$tests/boot-rows" or die "boot-rows: $!";
	my (@rows, @columns);
	while (<$in>) {
		chomp;
		next if /^\s*(#|$)/;
		if (!@columns) {
			@columns = split;
			next;
		}
		my %row;
		@row{@columns} = split ' ', $_, scalar @columns;
		$row{name} = sprintf 'row%d', scalar @rows;
		push @rows, \%row;
	}
	my %wanted = map { $_ => 1 } GuestConfigs::kernels();
	return grep { $wanted{ $_->{kernel} } } @rows if %wanted;
	return grep { in_campaign() || $_->{when} ne 'long' } @rows;
}

# A second cpio archive, appended to the common one, with the script that this guest runs.
sub write_rc {
	my ($row) = @_;
	my $root = "$out/$row->{name}.root";
	make_path("$root/etc");
	write_file("$root/etc/rc", map { "$_\n" } 'echo "test-cpus: $(nproc)"',
		q{sed 's/^MemTotal: */test-memory: /' /proc/meminfo | head -n 1},
		q{sed -n 's/^\([0-9a-f]*\) T _text$/test-text: \1/p' /proc/kallsyms},
		q{sed -n 's/^ *\([0-9a-f]*\)-.*: Kernel code$/test-phys: \1/p' /proc/iomem},
		$row->{command});
	run_or_die("cd \Q$root\E && find . | cpio -o -H newc --quiet -R 0:0 >\Q$root\E/../$row->{name}.initrd");
	remove_tree($root);
}

sub check_place {
	my ($row, $log) = @_;
	my ($text) = $log =~ /^test-text: (\w+)/m;
	my ($phys) = $log =~ /^test-phys: (\w+)/m;
	isnt(hex($text // 0), 0, '/proc/kallsyms has the address of _text');
	isnt(hex($text // 0), LINK_TEXT, 'the kernel has a virtual slide');
	isnt(hex($phys // 0), LINK_PHYS, 'the kernel has a physical slide');
}

sub check_row {
	my ($row) = @_;
	my $log = read_log("$out/$row->{name}.log");
	my $error = slurp("$out/$row->{name}.err");
	is(slurp("$out/$row->{name}.status"), "$row->{status}\n", "sonde run exits with status $row->{status}") or diag($error);
	like($error, qr/^sonde run: guest .* after [\d.]+ s, [\d,]+ exits?$/m, 'sonde run reports how the guest ended, the time and the exits');
	like($log, qr/^test-cpus: $row->{cpus}$/m, "the guest has $row->{cpus} CPUs");
	my ($kib) = $log =~ /^test-memory: (\d+) kB$/m;
	cmp_ok($kib // 0, '>', $row->{mib} * 1024 * 0.93 - 60 * 1024, 'the guest has its memory');
	check_place($row, $log);
	# One row panics the guest on purpose: its exit status is the check for that.
	is_untroubled($log, "the guest's log has no kernel warnings", 'WARNING:', 'unchecked MSR', 'APIC error', 'Spurious');
}

my @rows = read_rows();
plan skip_all => "no row of boot-rows is for GUEST=$ENV{GUEST}" unless @rows;
empty_folder($out);
write_rc($_) for @rows;
write_file("$out/jobs", map { join(' ', @$_{qw(name kernel cpus boot mib parameter)}) . "\n" } @rows);
is(on_kvm_host({}, "$tests/boot-guest", "$build/kernels", "$build/guest/initrd", $out), 0,
	'boot-guest ran all rows on the KVM host');
for my $row (@rows) {
	subtest "$row->{kernel}, $row->{cpus} vCPU, $row->{boot}, $row->{mib} MiB: $row->{command}" =>
		sub { check_row($row) };
}
done_testing();
