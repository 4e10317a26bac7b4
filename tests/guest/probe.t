#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Dynamic probes against the guest's own kprobe events, in one run: those of the file `probes` are at the next instruction of
# the same functions, and at the same returns; those of `probes-inside` are at a neighbour of an instruction in the middle of a
# function, which Sonde displaces. Each of their values is the same: integers of all sizes, strings, symbols,
# bit-fields, arrays, the stack; what cannot be read is a fault in both, and harms nobody.
use strict;
use warnings;
use FindBin;
use File::Path qw(make_path);
use IO::Uncompress::Gunzip qw(gunzip);
use JSON::PP;
use MIME::Base64 qw(decode_base64);
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Files;
use Testbed;
use Tree;

use constant STRING_MAX => 255; # characters of a string that Sonde keeps

# Of the strings that were compared.
my ($longest, $nr_cut) = (0, 0);

# By event: [pid, {name => value}] in order. A string of the guest's may end with a newline, which Sonde shows as '?'.
sub own_events {
	my ($log) = @_;
	my ($packed) = $log =~ /^sonde-begin\n(.*?)^sonde-end/ms or return {};
	my (%of, $text);
	gunzip(\decode_base64($packed), \$text) or return {};
	for (split /\n/, $text =~ s/\n" /?" /gr) {
		my ($pid, $event, $values) = /^.*-(\d+)\s+\[\d+\].*?: (\w+): \(.*?\) ?(.*)$/ or next;
		push @{$of{$event}}, [$pid, {$values =~ /(\w+)=("[^"]*"|\{[^}]*\}|\S+)/g}];
	}
	return \%of;
}

sub seen_events {
	my ($lines) = @_;
	my %of;
	push @{$of{$_->{event} =~ s/.*://r}}, $_ for map { JSON::PP::decode_json($_) } grep { /^\{/ } split /\n/, $lines;
	return \%of;
}

sub number {
	my ($text) = @_;
	return !defined $text ? 0 : $text =~ /^0x/ ? do { no warnings 'portable'; hex $text } : $text;
}

sub is_same_string {
	my ($own, $seen, $cut) = @_;
	$longest = length $own if length $own > $longest;
	$nr_cut++ if $cut;
	return length $own > STRING_MAX ? $cut && $seen eq substr $own, 0, STRING_MAX : !$cut && $seen eq $own;
}

# A faulting element of an array is 0 in ftrace's.
sub is_same {
	my ($name, $own, $seen) = @_;
	return !defined $seen->{$name} if $own eq '(fault)';
	return is_same_string($own =~ s/^"|"$//gr, $seen->{$name} // '', $seen->{"${name}_cut"}) if $own =~ /^"/;
	return ($seen->{"${name}_symbol"} // '') eq $own if exists $seen->{"${name}_symbol"} && $own !~ /^(?:0x)?[0-9a-f]+$/;
	if ($own =~ /^\{(.*)\}$/) {
		my @own = map { number($_) } split /,/, $1;
		return !grep { $own[$_] != number($seen->{"${name}_$_"}) } 0 .. $#own;
	}
	return number($own) == number($seen->{$name});
}

sub first_difference {
	my ($own, $seen) = @_;
	for my $i (0 .. $#$own) {
		my ($pid, $values) = @{$own->[$i]};
		return "event $i is of task $pid, by Sonde of $seen->[$i]{pid}" if $pid != $seen->[$i]{pid};
		for my $name (sort keys %$values) {
			return "event $i: $name is $values->{$name}, by Sonde " . ($seen->[$i]{$name} // 'a fault')
				unless is_same($name, $values->{$name}, $seen->[$i]);
		}
	}
	return '';
}

# Sonde records before the guest begins and after it ends: somewhere in between are the guest's events.
sub compare {
	my ($own, $seen) = @_;
	my $difference = 'Sonde has fewer: ' . @$seen;
	for my $from (0 .. @$seen - @$own) {
		my $here = first_difference($own, [@$seen[$from .. $from + $#$own]]);
		return '' if $here eq '';
		$difference = $here if $from == 0 || $difference lt $here;
	}
	return $difference;
}

my $out = "$build/guest/probe";
make_path($out);
build_initrd("$out/initrd", map { "$FindBin::RealBin/$_->[0]=$_->[1]" } ['probe-inside', '/bin/probe-inside'],
	['probes', '/etc/probes'], ['probes-inside', '/etc/probes-inside']);
on_kvm_host({timeout => 600}, "$FindBin::RealBin/probe-guest", $out, kernel_image('6.1'), "$out/initrd",
	map { "$FindBin::RealBin/$_" } 'probes', 'probes-inside');
my $log = slurp("$out/log") =~ s/\r//gr;
my ($own, $seen) = (own_events($log), seen_events(slurp("$out/events")));
my ($values, $faults) = (0, 0);
my @inside = map { m{^p:own/(\w+)} } split /\n/, slurp("$FindBin::RealBin/probes-inside");
cmp_ok(scalar(@inside), '>=', 8, 'probes in the middle of functions');
for my $event (qw(open more missing read result), @inside) {
	my @own = @{$own->{$event} // []};
	my @values = map { values %{$_->[1]} } @own;
	$values += @values;
	$faults += grep { $_ eq '(fault)' } @values;
	cmp_ok(scalar(@own), '>', 150, "$event: " . @own . ' events by the guest');
	is(compare(\@own, $seen->{$event} // []), '', "$event: each value of each is the same by Sonde");
}
cmp_ok($values, '>', 5000, "$values values are compared");
cmp_ok($longest, '>', 300, "strings of up to $longest characters are compared");
cmp_ok($nr_cut, '>', 100, "$nr_cut of them are cut");
cmp_ok($faults, '>', 400, "$faults of them cannot be read");
like(slurp("$out/err"), qr/lost: none/, 'none is lost');
unlike($log, qr/(?:WARNING|BUG|Oops|Call Trace):/, 'nothing in the log');
done_testing();
