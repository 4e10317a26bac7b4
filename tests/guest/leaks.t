#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# `sonde leaks` names a leak of a module, 1 object of 1,000 of a busy site, first within 20 s of guest time beside a mix of
# work, and calls nothing a leak or growing in ten kinds of ordinary work, of which each is judged alone, and with all before it.
use strict;
use warnings;
use FindBin;
use File::Path qw(make_path remove_tree);
use JSON::PP;
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Files;
use Testbed;
use Tree;

use constant {KERNEL => '6.1', KINDS => 10, WITHIN => 20};

my $out = "$build/guest/leaks";

sub leaks {
	my ($work, @options) = @_;
	return decode_json(scalar `\Q$build\E/sonde leaks --json @options \Q$out/$work\E`);
}

# The lines of growth and of leaks that the first screen of the report has, but for what the guest can shrink.
sub alarms {
	my ($work, @options) = @_;
	my ($lines) = `\Q$build\E/sonde report @options \Q$out/$work\E` =~ /^((?:Grows|Leaks) .*?)^Wasted /ms;
	return ('no line of growth') if !defined $lines;
	return grep { m{ (?:[KMG]i)?B/s  } && !/, reclaimable$/ } split /\n/, $lines;
}

sub with_verdict {
	my ($result, $verdict) = @_;
	return grep { $_->{verdict} eq $verdict } @{$result->{call_sites}};
}

sub describe {
	my ($site) = @_;
	my ($symbol, $cache) = map { $_ // '' } @$site{qw(symbol cache)};
	return "$site->{verdict}: $symbol ($cache), $site->{live_objects} objects, $site->{old_objects} old, " .
		"evenness $site->{evenness}, freed $site->{freed_percent} %, born @{$site->{births}}";
}

sub trace {
	my ($work) = @_;
	is(on_kvm_host({icount => undef}, "$FindBin::RealBin/leaks-guest", $out,
		kernel_image(KERNEL), "$out/initrd", $work), 0, "$work: leaks-guest ran on the KVM host");
	like(slurp("$out/$work.log"), qr/^status 0$/m, "$work: the guest was traced") or diag(slurp("$out/$work.err"));
	like(slurp("$out/$work.err"), qr/lost: none/, "$work: no event is lost");
}

# The command that it prints for a closer look.
sub next_command {
	my ($text) = @_;
	my ($command) = $text =~ /^Next +sonde (report .*)$/m;
	return defined $command ? scalar `\Q$build\E/sonde $command` : '';
}

sub check_leaky {
	my $result = leaks('leaky', '--time', ',' . WITHIN);
	my ($first) = @{$result->{call_sites}};
	is($first->{verdict}, 'leak', 'a leak is named first after ' . WITHIN . ' s of guest time');
	like($first->{symbol}, qr/^take_object \[leak\]\+/, '... and it is that of the module');
	cmp_ok($first->{freed_percent}, '>', 99.5, '... most of whose objects are freed');
	cmp_ok($first->{old_objects}, '>', 20, '... with old objects');
	like((alarms('leaky', '--time', ',' . WITHIN))[0], qr/take_object \[leak\]/, 'the first screen of the report names it, too');
	my @others = grep { $_ != $first } map { with_verdict($result, $_) } 'leak', 'only grows';
	is(scalar(@others), 0, 'nothing else leaks or only grows') or diag(join "\n", map { describe($_) } @others);
	like(next_command(scalar `\Q$build\E/sonde leaks \Q$out/leaky\E`), qr/^ *\d+ B +0xffff/m,
		'the command that it prints next lists objects');
}

# When each kind of work began, and when the last one ended.
sub moments { return map { /^\[\d+\] +(\d+\.\d+) / ? $1 : () } split /\n/, `\Q$build\E/sonde events -i function \Q$out/ordinary\E` }

sub check_quiet {
	my ($name, $range) = @_;
	my $result = leaks('ordinary', '--time', $range);
	my @leaks = with_verdict($result, 'leak');
	cmp_ok($result->{records}, '>', 500, "$name: the trace has $result->{records} records of it");
	is(scalar(@leaks), 0, '... and nothing is called a leak') or diag(join "\n", map { describe($_) } @leaks);
	my @growing = with_verdict($result, 'only grows');
	is(scalar(@growing), 0, '... or only grows') or diag(join "\n", map { describe($_) } @growing);
	my @alarms = alarms('ordinary', '--time', $range);
	is(scalar(@alarms), 0, '... and the first screen of the report names neither') or diag(join "\n", @alarms);
}

sub check_ordinary {
	my @kinds = slurp("$out/ordinary.log") =~ /^sonde-work (\w+)\r?$/mg;
	my @moments = moments();
	is(scalar(@kinds), KINDS, 'the guest did ten kinds of work');
	is(scalar(@moments), KINDS + 1, '... and the trace says when');
	for my $i (0 .. $#kinds) {
		check_quiet($kinds[$i], "$moments[$i],$moments[$i + 1]");
		check_quiet("from boot to the end of $kinds[$i]", ",$moments[$i + 1]");
	}
	my @growing = with_verdict(leaks('ordinary'), 'only grows');
	is(scalar(@growing), 0, 'over all of the time nothing only grows') or diag(join "\n", map { describe($_) } @growing);
	is(join("\n", alarms('ordinary')), '', '... nor does the report say so');
}

remove_tree($out);
make_path($out);
build_module(fetch_kernel(KERNEL), "$tree/tests/workload/leak-module.c", "$out/leak.ko");
build_initrd("$out/initrd", "$FindBin::RealBin/leaks-inside=/bin/leaks-inside", "$out/leak.ko=/leak.ko");
trace('leaky');
check_leaky();
trace('ordinary');
check_ordinary();
done_testing();
