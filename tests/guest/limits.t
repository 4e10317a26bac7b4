#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Limits of a trace: --max-size ends the recorder, and `sonde events --follow` with it; a flight recorder writes what it
# keeps at a snapshot, at a guest's panic and at the end. Each trace is read by events, report, check and babeltrace2,
# which agree, and what is missing is counted.
use strict;
use warnings;
use FindBin;
use JSON::PP;
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Files;
use GuestConfigs;
use Testbed;
use Tree;

my $sonde = "$build/sonde";
my $out = "$build/guest/limits";

sub result { return eval { decode_json(slurp("$out/$_[0].json")) } // {failure => 'no result'} }

sub status_and_text {
	my ($command) = @_;
	my $text = `$command 2>&1`;
	return ($?, $text);
}

# Lines of each instance, and the last times, per vCPU.
sub events_of {
	my ($dir) = @_;
	my %events = (kmem => 0, calls => 0);
	open my $in, '-|', "\Q$sonde\E events \Q$out/$dir\E 2>/dev/null" or die "sonde events: $!\n";
	while (<$in>) {
		my ($ns, $name) = /^\[\d+\] +([\d.]+) (.*?:)/ or die "line: $_";
		$events{$name =~ /^calls / ? 'calls' : 'kmem'}++;
		$events{goes_back} = 1 if defined $events{last} && $ns < $events{last};
		$events{first} //= $ns;
		$events{last} = $ns;
	}
	return \%events;
}

sub report {
	my ($dir) = @_;
	my $text = `\Q$sonde\E report --json \Q$out/$dir\E 2>/dev/null`;
	return eval { decode_json($text) } // {};
}

# What other readers find, and that all agree. Returns the events and the report.
sub check_readable {
	my ($dir) = @_;
	my $events = events_of($dir);
	my $sum = $events->{kmem} + $events->{calls};
	my $report = report($dir);
	ok($events->{kmem} > 100 && $events->{calls} > 100, "$dir: events of both instances: $events->{kmem}, $events->{calls}");
	ok(!$events->{goes_back}, "$dir: they are in the order of time");
	is($report->{records}, $events->{kmem}, "$dir: report has the events of kmem");
	my ($status, $text) = status_and_text("\Q$sonde\E check \Q$out/$dir\E");
	is($status, 0, "$dir: check finds no damage") or diag($text);
	my ($lines) = `babeltrace2 \Q$out/$dir\E 2>/dev/null | grep -vc ' sonde_[a-z]*: '` =~ /(\d+)/;
	is($lines, $sum, "$dir: babeltrace2 has all events");
	return ($events, $report);
}

sub check_run {
	my ($name, $status) = @_;
	my $result = result($name);
	is($result->{failure}, undef, "$name: the scenario was played") or diag(slurp("$out/$name.err"));
	is($result->{status}, $status, "$name: sonde run has status $status") or diag(slurp("$out/$name.err"));
	unlike(slurp("$out/$name.log"), qr/WARNING: |BUG: |general protection/, "$name: no trouble in the guest's log");
	return $result;
}

sub bytes_of {
	my ($dir) = @_;
	my $sum = 0;
	$sum += -s $_ for glob "\Q$out/$dir\E/cpu*";
	return $sum;
}

sub check_size {
	my $result = check_run('size', 0);
	my ($events, $report) = check_readable('size');
	like(slurp("$out/size.err"), qr/^sonde run: --max-size is reached$/m, 'size: sonde run says why it ended');
	is($report->{ended}, '--max-size is reached', 'size: so does the trace');
	ok($report->{complete}, 'size: the trace is complete');
	my $bytes = bytes_of('size');
	ok($bytes >= 2 << 20 && $bytes < 6 << 20, "size: the events have $bytes bytes");
	is($report->{lost}, 0, 'size: nothing is lost');
	is($result->{seen_before_the_end}, 1, 'size: --follow prints events while they are recorded');
	is($result->{follower}, 0, 'size: --follow ends with the recorder') or diag(slurp("$out/followed.err"));
	is(system("\Q$sonde\E events \Q$out/size\E 2>/dev/null | cmp -s - \Q$out/followed\E"), 0,
		'size: what --follow printed is what events prints afterwards');
}

# All that was recorded is in the trace, but for what was forgotten, which is not among the monitor's events.
sub check_flight {
	my $result = check_run('flight', 0);
	my ($events, $report) = check_readable('flight');
	my $last;
	for my $n (1, 2) {
		my ($then) = check_readable("flight.$n");
		my $seen = $then->{kmem} + $then->{calls};
		cmp_ok($seen, '>', $last // 0, "flight.$n: the snapshot has $seen events");
		cmp_ok($seen, '<=', $result->{queries}[$n - 1]{events}, "flight.$n: no more than were recorded");
		$last = $seen;
	}
	my $sum = $events->{kmem} + $events->{calls};
	cmp_ok($sum, '>', $last, 'flight: the end is in the trace, too');
	my $query = $result->{query};
	cmp_ok($query->{overwritten}, '>', 0, "flight: $query->{overwritten} events were forgotten");
	is($report->{overwritten}, $query->{overwritten}, 'flight: the trace says so');
	is($sum, $query->{events}, 'flight: all others are there');
	ok($report->{complete}, 'flight: the trace is complete');
}

sub check_panic {
	my $result = check_run('panic', 137);
	is($result->{runs_on}, 1, 'panic: sonde run waits for the guest, which stands still');
	is_deeply([slurp("$out/panic.err") =~ /^sonde run: guest panicked(.*)$/mg], [': sysrq triggered crash'],
		'panic: sonde run says so, once, and not of a line that imitates one');
	my ($events, $report) = check_readable('panic');
	ok(!$report->{complete}, 'panic: the trace of a recorder that was killed is not complete');
	my $crash = `\Q$sonde\E events -e function -f 'ip == sysrq_handle_crash' \Q$out/panic\E 2>/dev/null`;
	is(scalar(() = $crash =~ /^.*sysrq_handle_crash.*$/mg), 1, 'panic: the trace has the call that crashed the guest');
	my ($crashed) = $crash =~ /\] +([\d.]+)/;
	cmp_ok($events->{last} - ($crashed // 0), '<', 5, 'panic: and ends there');
}

sub check_kernel {
	my ($kernel) = @_;
	empty_folder($out);
	is(on_kvm_host({}, "$FindBin::RealBin/limits-guest", $out, kernel_image($kernel), "$build/guest/initrd",
		qw(size flight panic)), 0, "$kernel: the guests ran");
	check_size();
	check_flight();
	check_panic();
}

check_kernel($_) for GuestConfigs::kernels('6.1');
done_testing();
