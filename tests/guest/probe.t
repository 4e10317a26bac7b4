#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Dynamic probes against the guest's own kprobe events, in one run: those of the file `probes` are at the next instruction of
# the same functions, and at the same returns; those of `probes-inside` are at a neighbour of an instruction in the middle of a
# function, which Sonde displaces. Each of their values is the same: integers of all sizes, strings, symbols,
# bit-fields, arrays, the stack; what cannot be read is a fault in both, and harms nobody. 6.12 has the types that came after
# 6.1: char, symstr, %pd (GUEST=6.12). Another guest has those of `probes-chains`: members by name, which pahole(1) turns into the
# offsets that the guest's own probes have, or 6.12 itself into values.
#   PROBES  'probe' or 'probe-chains': one of the two guests only
#   ROUNDS  1; LONG=1: as many as it takes for 100,000 events and as many faulting fetches, or as fit into BUDGET seconds
use strict;
use warnings;
use FindBin;
use File::Path qw(make_path);
use JSON::PP ();
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Campaign;
use Files;
use GuestConfigs;
use GuestLog;
use KernelTypes;
use ProbeEvents;
use Testbed;
use Tree;

use constant LONG_ROUNDS => 3;

# What is probed besides.
my %kernels = ('6.1' => {inside => 'probes-inside'}, '6.12' => {more => 'probes-newer'});

sub names_of { return map { m{^[pr]:own/(\w+)} } split /\n/, $_[0] }

# Files for the guest: its own probes, and those in the middle of functions; for Sonde: those whose offset it leaves out, and
# those that it takes as they are.
sub write_probes {
	my ($out, %text) = @_;
	write_file("$out/$_", $text{$_} // '') for qw(own inside probes chains);
	build_initrd("$out/initrd", "$FindBin::RealBin/probe-inside=/bin/probe-inside", "$out/own=/etc/probes",
		"$out/inside=/etc/probes-inside");
}

# Sonde finds do_filp_open() by its address. The guest's kernel is where its file says.
sub placed {
	my ($version, $probes) = @_;
	my $kernel = kernel_image($version);
	my $json = `$build/sonde probes -k \Q$kernel\E --json do_filp_open`;
	my $address = JSON::PP::decode_json($json)->{probes}[0]{address};
	$probes =~ s/^(p:own\/placed) do_filp_open\+5/$1 $address/m or die "no probe at an address\n";
	return $probes;
}

# The probes of a kernel. Returns the events' names.
sub make_probes {
	my ($version, $out) = @_;
	my $kernel = $kernels{$version};
	my $probes = join '', map { slurp("$FindBin::RealBin/$_") } 'probes', $kernel->{more} // ();
	my $inside = $kernel->{inside} ? slurp("$FindBin::RealBin/$kernel->{inside}") : '';
	write_probes($out, own => $probes, probes => placed($version, $probes), inside => $inside);
	cmp_ok(scalar(names_of($inside)), '>=', 8, "$version: probes in the middle of functions") if $inside;
	return names_of($probes), names_of($inside);
}

# A line of probes-chains, as Sonde and as the guest have it.
sub both_of {
	my ($line) = @_;
	my ($head, $seen_place, $own_place, @args) = split ' ', $line;
	my @seen = map { s/\|.*//r =~ s/^S://r } grep { !/^G:/ } @args;
	my @own = map { s/=.*\|/=/r =~ s/^G://r } grep { !/^S:/ } @args;
	return ("$head $seen_place @seen\n", "$head $own_place @own\n");
}

# Likewise those with members. What pahole has no place for is an error.
sub make_chains {
	my ($version, $out) = @_;
	my $types = kernel_types(kernel_image($version), "$out/vmlinux");
	my ($chains, $own) = ('', '');
	for my $line (grep { !/^#/ } split /\n/, slurp("$FindBin::RealBin/probes-chains")) {
		next if $line =~ s/^([0-9.]+) // && $1 ne $version;
		my ($seen_line, $own_line) = both_of(fill_places($types, $line));
		$chains .= $seen_line;
		$own .= $own_line;
	}
	write_probes($out, own => $own, chains => $chains);
	return names_of($own);
}

sub test_round {
	my ($version, $out, @names) = @_;
	on_kvm_host({icount => undef}, "$FindBin::RealBin/probe-guest", $out, kernel_image($version), map { "$out/$_" }
		qw(initrd probes inside chains));
	my $log = read_log("$out/log");
	my $text = unpacked($log, 'sonde-begin', 'sonde-end');
	my ($own, $seen) = (own_events($text), seen_events(slurp("$out/events")));
	my $again = again_events($text, unpacked($log, 'sonde-begin again', 'sonde-end'));
	for my $event (@names) {
		my @own = @{$own->{$event} // []};
		cmp_ok(scalar(@own), '>', 150, "$version: $event: " . @own . ' events by the guest');
		is(compare(\@own, $seen->{$event} // [], $again->{$event}), '', "$event: each value of each is the same by Sonde");
	}
	like(slurp("$out/err"), qr/lost: none/, 'none is lost');
	is_untroubled($log =~ s/^sonde-begin( again)?\n.*?^sonde-end//gmsr, "nothing in the guest's log", WARNINGS);
}

my %groups = (probe => \&make_probes);
if (has_pahole()) { $groups{'probe-chains'} = \&make_chains }
else { diag('members are not compared: pahole (Debian: pahole) or lz4 is missing') }
for my $version (GuestConfigs::kernels('6.1')) {
	for my $group (grep { $_ eq ($ENV{PROBES} // $_) } sort keys %groups) {
		my $out = "$build/guest/$group-$version";
		make_path($out);
		my @names = $groups{$group}->($version, $out);
		my $rounds = rounds('ROUNDS', $ENV{LONG} ? LONG_ROUNDS : 1);
		test_round($version, $out, @names) while $rounds->next;
	}
}
cmp_ok($ProbeEvents::contradictions, '<=', 3 + $ProbeEvents::events / 10_000,
	"the guest's two records of an event differ in $ProbeEvents::contradictions only");
cmp_ok($ProbeEvents::values, '>', 5000, "$ProbeEvents::values values of $ProbeEvents::events events are compared");
if (($ENV{PROBES} // 'probe') eq 'probe') {
	cmp_ok($ProbeEvents::longest, '>', 300, "strings of up to $ProbeEvents::longest characters are compared");
	cmp_ok($ProbeEvents::nr_cut, '>', 100, "$ProbeEvents::nr_cut of them are cut");
	cmp_ok($ProbeEvents::faults, '>', 400, "$ProbeEvents::faults values cannot be read");
}
if ($ENV{LONG}) {
	cmp_ok($_, '>', 100_000, '100,000 events, and as many faulting fetches') for $ProbeEvents::events, $ProbeEvents::faults;
}
add_total($ProbeEvents::events, 'events of probes, equal to the guest\'s own');
add_total($ProbeEvents::values, 'values of these');
add_total($ProbeEvents::faults, 'faulting fetches, without a warning');
done_testing();
