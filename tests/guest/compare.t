#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Whether OracleCompare finds what it is there for: traces of a CPU that are right, and then each wrong in
# one way. No guest runs.
use strict;
use warnings;
no warnings 'portable'; # 64-bit addresses
use Cwd qw(realpath);
use File::Basename qw(dirname);
use File::Temp qw(tempdir);
use Test::More;

use lib dirname(realpath($0));
use OracleCompare;

use constant { SITE => 0xffffffff81000000, GFP => 0xcc0, DIRECT_MAP => 0xffff888000000000 };

my $dir = tempdir(CLEANUP => 1);

# One event: [kind, pointer or page frame, bytes].
sub marker { return ['kmalloc', DIRECT_MAP + 0x100000, $_[0]] }

sub work {
	my @events;
	for my $i (1 .. 40) {
		my $object = DIRECT_MAP + 0x2000 + $i * 64;
		push @events, ['kmalloc', $object, 64], ['mm_page_alloc', 0x500 + $i, 4096], ['kmem_cache_alloc', $object + 0x8000, 32],
			['kfree', $object, 0], ['kmem_cache_free', $object + 0x8000, 0], ['mm_page_free', 0x500 + $i, 4096];
	}
	return @events;
}

sub free_of { return ['kmem_cache_free', DIRECT_MAP + 0x70000 + $_[0] * 64, 0] }

# Some before the window and some behind it, as the guest's and ours start and end at other times.
sub whole { return (free_of(1), free_of(2), marker(4812), work(), marker(5212), free_of(3), free_of(4)) }

sub write_guest {
	my (@events) = @_;
	open my $out, '>', "$dir/guest" or die $!;
	my $number = 0;
	for (@events) {
		my ($kind, $what, $bytes) = @$_;
		printf $out "0 %d %s %s\n", $number++, $kind, $kind =~ /^mm_/
			? sprintf('0x%x %d %s', $what, 0, $kind eq 'mm_page_alloc' ? sprintf('0x%x', GFP) : '-')
			: sprintf('0x%x 0x%x %d %d 0x%x', SITE, $what, $bytes, $bytes, GFP);
	}
	close $out;
}

sub write_ours {
	my (@events) = @_;
	open my $out, '>:raw', "$dir/cpu0" or die $!;
	for (@events) {
		my ($kind, $what, $bytes) = @$_;
		my $type = $kind =~ /^mm_/ ? OracleCompare::PAGES : $kind =~ /^k(malloc|free)$/ ? OracleCompare::KMALLOC : OracleCompare::CACHE;
		my $pointer = $type == OracleCompare::PAGES ? DIRECT_MAP + $what * 4096 : $what;
		print $out pack 'CCS<l<Q<Q<Q<Q<Q<q<', $kind =~ /alloc/ ? OracleCompare::ALLOC : OracleCompare::FREE, $type,
			OracleCompare::RECORD_SIZE, 0, SITE, $pointer, $bytes, $bytes, GFP, 0;
	}
	close $out;
}

# What is found: counts of each kind.
sub found {
	my ($guest, $ours) = @_;
	write_guest(@$guest);
	write_ours(@$ours);
	my $result = OracleCompare::compare("$dir/guest", $dir, 1);
	return {map { $_ => scalar @{$result->{$_}} } grep { @{$result->{$_}} } qw(missing extra edges disordered faults)};
}

my @all = whole();
my $first = 3; # of the work
my $result = found(\@all, \@all);
is_deeply($result, {}, 'equal traces: nothing is found') or diag(explain($result));

# How many of the events, each for itself changed in a copy, make a comparison find what is expected.
sub seen {
	my ($change, %expected) = @_;
	my $seen = 0;
	for my $i ($first .. $#all - 3) {
		my @ours = @all;
		$change->(\@ours, $i);
		my $found = found(\@all, \@ours);
		$seen++ unless grep { ($found->{$_} // 0) != $expected{$_} } keys %expected;
	}
	return $seen;
}

sub test_each {
	my $lose = sub { splice @{$_[0]}, $_[1], 1 };
	my $double = sub { splice @{$_[0]}, $_[1], 0, $all[$_[1]] };
	my $alter = sub { my ($kind, $pointer, @rest) = @{$all[$_[1]]}; $_[0][$_[1]] = [$kind, $pointer + 8 * 4096, @rest] };
	is(seen($lose, missing => 1), 240, 'each of 240 events that is missing in ours is found');
	is(seen($double, extra => 1), 240, 'each of 240 events that is in ours twice is found');
	is(seen($alter, missing => 1, extra => 1), 240, 'each of 240 events with another pointer is found');
}

sub test_disordered {
	my @ours = @all;
	@ours[$first, $first + 3] = @ours[$first + 3, $first];
	is_deeply(found(\@all, \@ours), {disordered => 1}, 'a free before its allocation is found');
}

# An interrupt that comes within the marker's function.
sub test_edges {
	my @ours = @all;
	my ($end) = grep { $all[$_][2] == 5212 } 0 .. $#all;
	@ours[$end, $end + 1] = @ours[$end + 1, $end];
	is_deeply(found(\@all, \@ours), {edges => 1}, 'ours before the end marker, the guest\'s behind it: the same event');
	is_deeply(found(\@ours, \@all), {edges => 1}, 'the other way round');
	@ours = @all;
	splice @ours, $end, 0, $all[$end + 1];
	is_deeply(found(\@all, \@ours), {extra => 1}, 'ours before the end marker and behind it: twice');
	@ours = @all;
	splice @ours, $end, 0, free_of(5);
	is_deeply(found(\@all, \@ours), {extra => 1}, 'ours before the end marker and nowhere else: not the guest\'s');
}

sub test_no_window {
	my @ours = grep { $_->[2] != 5212 } @all;
	is_deeply(found(\@all, \@ours), {faults => 1}, 'no end marker in ours is found');
}

test_each();
test_disordered();
test_edges();
test_no_window();
done_testing();
