#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Kernels that cannot be traced, or not wholly: sonde run says why, word for word as in the rows of
# tests/guest/refusals, and the guest boots and powers off, if it is booted.
use strict;
use warnings;
use FindBin;
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Campaign;
use DamagedImage;
use Files;
use GuestConfigs;
use GuestLog;
use Testbed;
use Tree;

my $out = "$build/guest/refusals";

# A boot for each kernel, image and tracer, with all lines that are expected.
sub read_boots {
	my (@boots, %known);
	my @lines = grep { !/^\s*(#|$)/ } split /\n/, must_slurp("$FindBin::RealBin/refusals");
	my $wanted = join '|', map { "\Q$_\E" } GuestConfigs::kernels();
	for (@lines[1 .. $#lines]) {
		my ($kernel, $image, $without, $trace, $status, $line) = split ' ', $_, 6;
		next if $wanted && $kernel !~ /^($wanted)$/;
		my $key = "$kernel $image" . ($without eq '-' ? '' : " without $without") . " $trace";
		push @boots, $known{$key} = {name => $key, kernel => $kernel, image => $image, without => $without, trace => $trace,
			status => $status} unless $known{$key};
		push @{$known{$key}{lines}}, $line;
	}
	return @boots;
}

# Of what sonde run says: all but how the guest ended, if nothing is traced, or else what is traced.
sub errors_in {
	my ($boot, @said) = @_;
	return $boot->{status} ? grep { !/^sonde run: guest powered off after/ } @said
		: grep { /^sonde run: (not traced|traced nevertheless|graph):/ } @said;
}

# So does sonde symbols, of a kernel in which results cannot be recorded.
sub check_symbols {
	my ($boot, $kernel) = @_;
	return unless grep { /the kernel has no return thunks/ } @{$boot->{lines}};
	my $text = `\Q$build\E/sonde symbols -k \Q$kernel\E`;
	like($text, qr/^Return sites  0: results are recorded only where a `ret` has room for a patch/m, "$boot->{name}: so does sonde symbols");
}

sub check_boot {
	my ($boot) = @_;
	my $name = $boot->{name};
	my $kernel = fetch_kernel($boot->{kernel}) . "/$boot->{image}";
	empty_folder($out);
	$kernel = image_without($kernel, $boot->{without}, "$out/vmlinux") if $boot->{without} ne '-';
	on_kvm_host({mem => 1024}, 'sh', '-c', "sonde run -k $kernel -i $build/guest/initrd -m 512 -c 2 " .
		"--trace '$boot->{trace}' -o $out/trace -p 'console=ttyS0 cryptomgr.notests panic=-1 sonde.run=\"workload -n 3\"' " .
		">$out/console.txt 2>$out/err; echo \$? >$out/status");
	my @said = split /\n/, slurp("$out/err");
	is(slurp("$out/status"), "$boot->{status}\n", "$name: sonde run exits with status $boot->{status}");
	my @lines = map { s/\bKERNEL\b/$kernel/r } @{$boot->{lines}};
	is_deeply([errors_in($boot, @said)], \@lines, "$name: it says exactly what it cannot trace: @lines") or diag(map { "$_\n" } @said);
	check_symbols($boot, $kernel);
	my $log = read_log("$out/console.txt");
	is_untroubled($log, "$name: the guest's log has no kernel warnings", WARNINGS) if length $log;
	add_total(1, 'kernels refused or traced in part');
	return if $boot->{status};
	system("$build/sonde check $out/trace >$out/check.txt 2>&1");
	is($?, 0, "$name: sonde check finds no error in the trace of the rest") or diag(slurp("$out/check.txt"));
}

my @boots = read_boots();
plan skip_all => "no row of tests/guest/refusals matches GUEST='$ENV{GUEST}'" unless @boots;
check_boot($_) for @boots;
done_testing();
