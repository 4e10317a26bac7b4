#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What sonde report counts is what a ledger has after it has read the text that another program prints of the same
# events: trace-cmd of the trace.dat, babeltrace2 of the CTF. The figures of `perf kmem`, by its definitions
# (tools/perf/builtin-kmem.c), follow from the same text and equal the measures of sonde report.
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

use constant { PAGE => 4096, KERNEL_HALF => 0xffff << 48 };

my $sonde = "$build/sonde";
my $work = "$build/tests/agreement/work";
my @sums = qw(hits bytes_requested bytes_allocated frees cross_cpu_frees live_objects live_bytes);
my %type_of = (kmalloc => 'kmalloc', kfree => 'kmalloc', kmem_cache_alloc => 'cache', kmem_cache_free => 'cache',
	mm_page_alloc => 'pages', mm_page_free => 'pages');
# Of the made trace: perf kmem asks the host of the events.
my @node_of_vcpu = (0, 0, 1);

sub is_installed { return scalar grep { -x "$_/$_[0]" } split /:/, $ENV{PATH} }

sub output_of {
	my (@command) = @_;
	open my $out, '-|', @command or die "@command: $!\n";
	local $/;
	my $text = <$out>;
	close $out or die "@command: status $?\n";
	return $text;
}

sub report {
	my ($trace, @options) = @_;
	return JSON::PP->new->decode(output_of($sonde, 'report', '--json', '--top', '0', @options, $trace));
}

# --- events out of texts ---

# Fields of a line, as text: " name = value" or " name=value".
sub field {
	my ($line, $name) = @_;
	return $line =~ /[ {]$name ?= ?\( "([^"]*)"/ || $line =~ /[ {]$name ?= ?([^ ,]+)/ ? $1 : undef;
}

# A call site by its name, without the function's size; one without a name as its address.
sub site {
	my ($text) = @_;
	$text =~ s,/0x[0-9a-f]+$,,;
	return $text =~ /^(0x[0-9a-f]+)(?:\+(0x[0-9a-f]+))?$/i ? sprintf '0x%x', hex($1) + hex($2 // 0) : $text;
}

sub event {
	my ($ns, $cpu, $name, $line) = @_;
	my ($order, $req) = (field($line, 'order'), field($line, 'bytes_req'));
	$req //= PAGE << $order if defined $order;
	return { ns => $ns, cpu => $cpu, type => $type_of{$name}, is_alloc => $name !~ /free$/, req => $req,
		bytes => field($line, 'bytes_alloc') // $req, node => field($line, 'node') // -1,
		site => site(field($line, 'call_site')), ptr => sprintf('0x%x', hex(field($line, 'ptr')) | KERNEL_HALF) };
}

sub trace_cmd_event {
	my ($line) = @_;
	return $line =~ /\[(\d+)\] +(\d+)\.(\d{9}): (\w+): (.*)/ && $type_of{$4} ? event("$2$3", $1 + 0, $4, " $5") : ();
}

sub babeltrace_event {
	my ($line) = @_;
	return $line =~ /^\[(\d+)\.(\d{9})\] (\w+): \{ cpu_id = (\d+)(.*)/ && $type_of{$3} ? event("$1$2", $4, $3, $5) : ();
}

# --- the ledger ---

sub note_free {
	my ($ledger, $event, $life) = @_;
	$_->{frees}++, $_->{cross_cpu_frees} += $event->{cpu} != $life->{cpu} for rows_of($ledger, $life);
}

sub end_life {
	my ($ledger, $life) = @_;
	$_->{live_objects}--, $_->{live_bytes} -= $life->{bytes} for rows_of($ledger, $life);
	delete $ledger->{live}{ $life->{ptr} };
}

# What an event's allocation counts for: all, its call site, and its call site and type.
sub rows_of {
	my ($ledger, $event) = @_;
	return map { $ledger->{rows}{$_} //= { map { $_ => 0 } @sums } } 'all', $event->{site}, "$event->{site} $event->{type}";
}

sub begin_life {
	my ($ledger, $event) = @_;
	$ledger->{live}{ $event->{ptr} } = $event;
	for my $row (rows_of($ledger, $event)) {
		$row->{hits}++;
		$row->{bytes_requested} += $event->{req};
		$row->{bytes_allocated} += $event->{bytes};
		$row->{live_objects}++;
		$row->{live_bytes} += $event->{bytes};
	}
}

sub ledger_of {
	my (@events) = @_;
	my %ledger = (live => {}, rows => {}, map { $_ => 0 } qw(alloc_events free_events unknown_frees missed_frees cross_node));
	for my $event (sort { $a->{ns} <=> $b->{ns} } @events) {
		my $life = $ledger{live}{ $event->{ptr} };
		$ledger{ $event->{is_alloc} ? 'alloc_events' : 'free_events' }++;
		$ledger{missed_frees}++ if $life && $event->{is_alloc};
		$ledger{unknown_frees}++ if !$life && !$event->{is_alloc};
		note_free(\%ledger, $event, $life) if $life && !$event->{is_alloc};
		end_life(\%ledger, $life) if $life;
		next unless $event->{is_alloc};
		begin_life(\%ledger, $event);
		$ledger{cross_node} += $event->{node} >= 0 && $event->{node} != $node_of_vcpu[ $event->{cpu} ];
	}
	return \%ledger;
}

# --- the comparison ---

sub sums_of { my ($row) = @_; return { map { $_ => $row->{$_} } @sums } }

# Groups of a report by the texts of these keys.
sub groups_by {
	my ($groups, @keys) = @_;
	return map { my $row = $_; (join(' ', map { $_ eq 'symbol' ? site($row->{$_}) : $row->{$_} } @keys) => $row) } @$groups;
}

sub fragmentation {
	my ($row) = @_;
	return $row->{bytes_allocated} ? sprintf('%.2f', 100 * ($row->{bytes_allocated} - $row->{bytes_requested}) / $row->{bytes_allocated}) : 0;
}

sub same_totals {
	my ($ledger, $report) = @_;
	my @keys = qw(alloc_events free_events unknown_frees missed_frees);
	is_deeply({ map { $_ => $report->{$_} } @keys }, { map { $_ => $ledger->{$_} } @keys }, 'as many allocations and frees, as many of them unmatched');
	my @all = grep { $_ ne 'hits' } @sums;
	is_deeply({ map { $_ => $report->{$_} } @all }, { map { $_ => $ledger->{rows}{all}{$_} } @all }, 'all totals are the same');
}

sub same_sites {
	my ($ledger, $report, $trace) = @_;
	my %sites = groups_by($report->{call_sites}, 'symbol');
	my %types = groups_by(report($trace, '--by', 'callsite,type')->{combinations}, 'symbol', 'type');
	my %got = (%sites, %types);
	my %want = map { $_ => $ledger->{rows}{$_} } grep { $_ ne 'all' } keys %{ $ledger->{rows} };
	cmp_ok(keys %sites, '>=', 40, 'there are many call sites');
	is_deeply({ map { $_ => sums_of($got{$_}) } keys %got }, \%want, 'each call site has the same figures, by type, too');
	return \%types;
}

sub same_live {
	my ($ledger, $trace) = @_;
	my %live = map { $_->{address} => $_->{live_bytes} } grep { $_->{live_objects} } @{ report($trace, '--by', 'pointer')->{pointers} };
	cmp_ok(keys %live, '>', 100, 'many objects are live at the end');
	is_deeply(\%live, { map { $_ => $ledger->{live}{$_}{bytes} } keys %{ $ledger->{live} } }, 'the same pointers are live, with the same bytes');
}

# perf kmem counts slab objects: fragmentation is what was not asked for of all that was allocated; ping-pong a free on
# another CPU than that of the allocation; cross-node an allocation for another node than the CPU's.
sub same_as_perf {
	my ($ledger, $types, $trace) = @_;
	my @slab = grep { !/ pages$/ } keys %$types;
	is_deeply({ map { $_ => $types->{$_}{fragmentation_percent} + 0 } @slab }, { map { $_ => fragmentation($ledger->{rows}{$_}) + 0 } @slab },
		'perf kmem\'s fragmentation of a call site is FRAG %');
	is_deeply({ map { $_ => $types->{$_}{cross_cpu_frees} } @slab }, { map { $_ => $ledger->{rows}{$_}{cross_cpu_frees} } @slab },
		'its ping-pong is CROSS-CPU');
	cmp_ok($ledger->{rows}{all}{cross_cpu_frees}, '>', 1000, 'which is often');
	my $cross = 0;
	for my $row (@{ report($trace, '--by', 'vcpu,node')->{combinations} }) {
		$cross += $row->{hits} if $row->{node} =~ /^\d+$/ && $row->{node} != $node_of_vcpu[ $row->{vcpu} ];
	}
	cmp_ok($cross, '>', 500, 'many allocations are for another node');
	is($cross, $ledger->{cross_node}, 'its cross-node allocations are those of --by vcpu,node');
}

sub same_as_text {
	my ($trace, @events) = @_;
	my $report = report($trace);
	my $ledger = ledger_of(@events);
	is(@events, 6000, 'the text has all events');
	same_totals($ledger, $report);
	my $types = same_sites($ledger, $report, $trace);
	same_live($ledger, $trace);
	same_as_perf($ledger, $types, $trace);
}

my $trace = "$work/trace";
empty_folder($work);
run_or_die("$build/tests/agreement/make-heap", $trace);

subtest 'trace-cmd report of the trace.dat' => sub {
	plan skip_all => 'trace-cmd is not installed' unless is_installed('trace-cmd');
	run_or_die('sh', '-c', 'exec "$@" 2>/dev/null', 'sh', $sonde, 'convert', $trace, '--to', 'trace.dat', '-o', "$work/trace.dat");
	same_as_text($trace, map { trace_cmd_event($_) } split /\n/, output_of('trace-cmd', 'report', '-N', '-t', "$work/trace.dat"));
};

subtest 'babeltrace2 of the trace' => sub {
	plan skip_all => 'babeltrace2 is not installed' unless is_installed('babeltrace2');
	same_as_text($trace, map { babeltrace_event($_) } split /\n/, output_of('babeltrace2', '--no-delta', '--clock-seconds', $trace));
};
done_testing();
