#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# `sonde replay` with the model of the guest's own allocator, against /proc/slabinfo, which the guest printed at several
# moments: pages of each cache are within 2 %, or one slab. The trace begins with the guest's first allocation. GUEST='6.1/2'
# for other kernels and CPUs; 6.1-slab/2 has SLAB, 6.1-slob/1 SLOB, and these are built first. With SLOB there are the pages of
# all objects only, in /proc/meminfo.
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

# In s of guest time: longer pauses are between two readings of the file.
use constant {PAUSE => 0.5, TOLERANCE => 0.02};

# All objects: with SLOB, which has no caches.
use constant {ALL => 'all'};

sub readings_of_slob {
	my ($log) = @_;
	return map { {ALL() => {pages => $_ / 4, slab => 1}} } $log =~ /^sonde-begin\n.*?^Slab: +(\d+) kB\n.*?^sonde-end/msg;
}

# For each time the guest printed the file: pages and pages of a slab, by cache.
sub readings {
	my ($log) = @_;
	my @readings;
	for my $text ($log =~ /^sonde-begin\n(.*?)^sonde-end/msg) {
		my %of;
		for (split /\n/, $text) {
			my ($name, $per_slab, $slabs) = /^(\S+) +\d+ +\d+ +\d+ +\d+ +(\d+) : .* : slabdata +\d+ +(\d+)/ or next;
			$of{$name} = {pages => $per_slab * $slabs, slab => $per_slab};
		}
		push @readings, \%of;
	}
	return @readings;
}

# When the guest began to read the file.
sub moments {
	my ($trace) = @_;
	my (@moments, $last);
	for (split /\n/, `\Q$build\E/sonde events -i function \Q$trace\E`) {
		my ($time) = /^\[\d+\] +(\d+\.\d+) / or next;
		push @moments, $time if !defined $last || $time - $last > PAUSE;
		$last = $time;
	}
	return @moments;
}

# Pages by cache, as the model has them.
sub model_pages {
	my ($trace, $moment) = @_;
	my $result = decode_json(scalar `\Q$build\E/sonde replay --json --time ,$moment \Q$trace\E`);
	my %pages;
	$pages{$_->{cache}} += $_->{pages}, $pages{ALL()} += $_->{pages} for @{$result->{caches}};
	return %pages;
}

sub compare {
	my ($name, $trace, $moment, $reading) = @_;
	my %model = model_pages($trace, $moment);
	my ($sum, $model_sum, @different) = (0, 0);
	for (sort keys %$reading) {
		my $guest = $reading->{$_};
		my $pages = $model{$_} // 0;
		my $difference = abs($pages - $guest->{pages});
		$sum += $guest->{pages};
		$model_sum += $pages;
		push @different, "$_: $guest->{pages} pages, by the model $pages"
			if $difference > TOLERANCE * $guest->{pages} && $difference > $guest->{slab};
	}
	cmp_ok($sum, '>', 500, "$name: the guest has $sum pages of slabs at $moment s, the model $model_sum");
	cmp_ok(abs($model_sum - $sum), '<=', TOLERANCE * $sum, '... which is within 2 %');
	is(scalar(@different), 0, '... as are the pages of each cache, or within a slab') or diag($_) for join "\n", @different;
}

sub check {
	my ($kernel, $cpus) = @_;
	my $name = "$kernel, $cpus vCPU";
	my $has_slob = $kernel =~ /-slob$/;
	my $out = "$build/guest/slabinfo-$kernel-$cpus";
	remove_tree($out);
	make_path($out);
	build_initrd("$out/initrd", "$FindBin::RealBin/slabinfo-inside=/bin/slabinfo-inside");
	is(on_kvm_host({}, "$FindBin::RealBin/slabinfo-guest", $out, fetch_kernel($kernel) . "/vmlinuz", "$out/initrd", $cpus,
			$has_slob ? 'meminfo_proc_show' : 'slab_show'), 0, "$name: slabinfo-guest ran on the KVM host");
	my $log = slurp("$out/log") =~ s/\r//gr;
	my @readings = $has_slob ? readings_of_slob($log) : readings($log);
	my @moments = moments("$out/trace");
	is(scalar(@readings), 4, "$name: the guest printed its file four times");
	is(scalar(@moments), scalar(@readings), '... and the trace has the moments');
	like(slurp("$out/err"), qr/lost: none/, '... and has lost nothing');
	compare($name, "$out/trace", $moments[$_], $readings[$_]) for 0 .. $#moments;
}

check(split m{/}, $_) for split ' ', $ENV{GUEST} // '6.1/1';
done_testing();
