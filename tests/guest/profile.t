#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The profile tracer, and `sonde top`, against the events of the same run: each function has as many hits as the function
# tracer has events. Counts are read, compared and cleared while the guest works.
# GUEST='5.10 6.12' for other kernels.
use strict;
use warnings;
use FindBin;
use File::Path qw(make_path);
use JSON::PP;
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Files;
use GuestConfigs;
use Testbed;
use Tree;

use constant FUNCTIONS => 'vfs_*,ksys_*';

sub document { return JSON::PP::decode_json(slurp($_[0]) || '{}') }

# The functions of an instance, by name.
sub functions_of {
	my ($profile, $instance) = @_;
	my ($counts) = grep { $_->{name} eq $instance } @{$profile->{profiles} // []};
	return map { $_->{function} => $_ } @{($counts // {})->{functions} // []};
}

sub calls_of {
	my ($lines) = @_;
	my %calls;
	$calls{$_->{ip_symbol}}++ for map { JSON::PP::decode_json($_) } grep { /^\{/ } split /\n/, $lines;
	return %calls;
}

sub hits { my (%functions) = @_; return {map { $_ => $functions{$_}{hits} } keys %functions} }

sub check_moments {
	my ($out) = @_;
	my %before = functions_of(document("$out/before"), 'counts');
	my %after = functions_of(document("$out/after"), 'counts');
	my %between = functions_of(document("$out/between"), 'counts');
	my %expected = map { $_ => $after{$_}{hits} - ($before{$_}{hits} // 0) } keys %after;
	delete @expected{grep { !$expected{$_} } keys %expected};
	cmp_ok(scalar(keys %expected), '>', 5, 'functions are called between two moments: ' . keys %expected);
	is_deeply(hits(%between), \%expected, 'what is counted since a moment is the difference');
	my %cleared = functions_of(document("$out/cleared"), 'again');
	my %end = functions_of(document("$out/end"), 'again');
	my ($read, $later) = map { $_->{vfs_read}{hits} // 0 } \%cleared, \%end;
	cmp_ok($read, '<', $before{vfs_read}{hits} // 0, 'counts begin again when they are cleared');
	cmp_ok($later, '>', $read, 'and go on');
}

# Two instances count each function: top has the name of the instance behind it.
sub check_top {
	my ($top) = @_;
	my %functions = map { $_->{name} => $_ } @{$top->{functions} // []};
	is_deeply([grep { !/^(vfs|ksys)_\w+(\.\w+)* \((counts|again)\)( \((hits only|partly timed)\))?$/ } keys %functions], [],
		'top has the functions that are counted only');
	cmp_ok($functions{'vfs_read (counts)'}{calls_per_second} // 0, '>', 0, 'vfs_read() is called at some rate');
	ok((grep { $_->{name} =~ /^\w+(\.\w+)*\+0x/ && $_->{allocs_per_second} > 0 } @{$top->{callsites} // []}),
		'call sites allocate at some rate');
	ok((grep { $_->{name} eq 'filp' } @{$top->{caches} // []}), 'top has caches by name');
}

# Seen through a terminal that understands xterm's sequences.
sub check_screen {
	my ($drawn) = @_;
	my ($shown, $after) = $drawn =~ /\e\[\?1049h(.*)\e\[\?1049l(.*)/s;
	like($shown // '', qr/vfs_read \(counts\)/, 'the live view shows functions');
	like($shown // '', qr/frozen/, 'it is frozen by a key');
	like($after // '', qr/status 0\r\n/, 'a key ends it, with status 0');
	like($after // '', qr/ icanon.* echo /s, 'and the terminal is as it was');
}

sub check {
	my ($kernel) = @_;
	my $out = "$build/guest/profile-$kernel";
	make_path($out);
	build_initrd("$out/initrd");
	on_kvm_host({}, "$FindBin::RealBin/profile-guest", $out, kernel_image($kernel), "$out/initrd", FUNCTIONS);
	my %counted = functions_of(document("$out/end"), 'counts');
	my %calls = calls_of(slurp("$out/events"));
	my $sum = 0;
	$sum += $_ for values %calls;
	cmp_ok($sum, '>', 1000, "$kernel: $sum calls by the function tracer, of " . keys(%calls) . ' functions');
	is_deeply(hits(%counted), \%calls, 'each function has as many hits');
	check_moments($out);
	check_top(document("$out/top"));
	check_screen(slurp("$out/screen"));
	my $err = slurp("$out/err");
	like($err, qr/lost: none/, 'none is lost') or diag($err);
	unlike(slurp("$out/log"), qr/WARNING|BUG|Oops|Call Trace/, 'nothing in the log');
}

check($_) for GuestConfigs::kernels('6.1');
done_testing();
