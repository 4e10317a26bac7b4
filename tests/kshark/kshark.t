#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# KernelShark's library opens the trace.dat that sonde convert writes, and its entries are those that sonde events
# prints: CPU, time, buffer, event, task, and all numbers among the fields.
use strict;
use warnings;
no warnings 'portable'; # 64-bit addresses
use FindBin;
use JSON::PP;
use Test::More;
use lib "$FindBin::Bin/../lib";
use Files;
use Process;
use Tree;

my $dump = "$build/tests/kshark/kshark-dump";
my $sonde = "$build/sonde";
my $work = "$build/tests/kshark/work";
my $json = JSON::PP->new;

plan skip_all => 'libkshark-dev or libjson-c-dev is not installed: run tests/setup kshark' unless -x $dump;

sub lines_of {
	my (@command) = @_;
	open my $out, '-|', @command or die "@command: $!\n";
	my @lines = <$out>;
	close $out or die "@command: status $?\n";
	chomp @lines;
	return @lines;
}

# libtraceevent extends numbers of up to 32 bits with zeros.
sub kshark_number {
	my ($value) = @_;
	return unpack 'q', pack 'Q', hex $value if $value =~ /^0x/;
	return $value < 0 && $value >= -2**31 ? $value + 2**32 : $value;
}

sub sonde_line {
	my ($text) = @_;
	my $event = $json->decode($text);
	my %of = map { $_ => delete $event->{$_} } qw(vcpu ns instance event);
	delete $event->{$_} for grep { /_(symbol|cut)$/ } keys %$event;
	# The library has flags as numbers, sonde events as names; the event's text is test-trace-dat.c's business.
	delete $event->{gfp_flags};
	my ($pid, $comm) = ($event->{pid}, $event->{comm});
	my @numbers = map { "$_=" . kshark_number($event->{$_}) } grep { $event->{$_} =~ /^(-?\d+|0x[0-9a-f]+)$/ } sort keys %$event;
	return join "\t", $of{vcpu}, $of{ns}, $of{instance} // '', $of{event} =~ s,:,/,r, $pid || -1, $pid ? $comm : 'unknown', @numbers;
}

sub kshark_line {
	my ($cpu, $ns, $buffer, $event, $pid, $task, @fields) = split /\t/, $_[0], -1;
	my @numbers = sort grep { !/^(common_|gfp_flags=)/ } @fields;
	return join "\t", $cpu, $ns, $buffer, $event, $pid, $task, @numbers;
}

# The library has an entry of its own where events are missing.
sub same_entries {
	my ($trace, $places) = @_;
	run_or_die('sh', '-c', 'exec "$@" 2>/dev/null', 'sh', $sonde, 'convert', $trace, '--to', 'trace.dat', '-o', "$trace.dat");
	my @want = sort map { sonde_line($_) } lines_of($sonde, 'events', '--json', $trace);
	my @loaded = lines_of($dump, "$trace.dat");
	my @got = sort map { kshark_line($_) } grep { !/\tmissed_events\t/ } @loaded;
	is(@loaded - @got, $places, "events are missing at $places places");
	is(@got, @want, @want . ' entries are loaded');
	my ($wrong) = grep { $got[$_] ne $want[$_] } 0 .. ($#got < $#want ? $#got : $#want);
	ok(!defined $wrong, 'each is what sonde events prints') or diag("got  $got[$wrong]\nwant $want[$wrong]");
	return @got;
}

empty_folder($work);
run_or_die("$build/tests/tables/make-trace", "$work/trace");
my @entries = same_entries("$work/trace", 1);
is(scalar(grep { /^\d+\t\d+\tcalls\t/ } @entries), 750, 'an instance is a buffer');
is(scalar(grep { /\ttask-1\t/ } @entries) > 100, 1, 'tasks have their names');

# More than one compressed chunk for each CPU.
run_or_die("$build/tests/bench/trace-repeat", "$work/trace", "$work/long", 20_000);
same_entries("$work/long", 0);

write_file("$work/bad.dat", substr(must_slurp("$work/trace.dat"), 0, 1000));
isnt(system("$dump $work/bad.dat >$work/bad.out 2>&1"), 0, 'the library refuses a file that is cut off');
done_testing();
