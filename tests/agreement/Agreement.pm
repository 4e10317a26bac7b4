# SPDX-License-Identifier: GPL-2.0-or-later
#
# What sonde report, sonde leaks and sonde convert say of a trace, and what a ledger has after it has read the text that
# another program prints of the same events: trace-cmd of the trace.dat, babeltrace2 of the CTF. The figures of `perf kmem`,
# by its definitions (tools/perf/builtin-kmem.c), follow from the same text and equal the measures of sonde report.
package Agreement;

use strict;
use warnings;
no warnings 'portable'; # 64-bit addresses
use Exporter qw(import);
use JSON::PP;
use Test::More;
use Process;
use Tree;

our @EXPORT = qw(check_agreement);

use constant { PAGE => 4096, KERNEL_HALF => 0xffff << 48, HALF_PERCENT_DIGIT => 0.005001 };

my $sonde = "$build/sonde";
my @sums = qw(hits bytes_requested bytes_allocated frees cross_cpu_frees live_objects live_bytes);
my %type_of = (kmalloc => 'kmalloc', kfree => 'kmalloc', kmem_cache_alloc => 'cache', kmem_cache_free => 'cache',
	mm_page_alloc => 'pages', mm_page_free => 'pages');

sub is_installed { return scalar grep { -x "$_/$_[0]" } split /:/, $ENV{PATH} }

# Calls $take for each line.
sub each_line {
	my ($take, @command) = @_;
	open my $out, '-|', @command or die "@command: $!\n";
	while (my $line = <$out>) {
		chomp $line;
		$take->($line);
	}
	close $out or die "@command: status $?\n";
}

sub quiet { return ('sh', '-c', 'exec "$@" 2>/dev/null', 'sh', @_) }

sub json_of {
	my (@command) = @_;
	my $text = '';
	each_line(sub { $text .= "$_[0]\n" }, $sonde, @command);
	return JSON::PP->new->decode($text);
}

sub report {
	my ($trace, @options) = @_;
	return json_of('report', '--json', '--top', '0', @options, $trace);
}

# The addresses that are live at the end, with their bytes, by type. JSON::PP takes 10 s for 60,000 of them.
sub live_of {
	my ($trace) = @_;
	my (%live, %row);
	each_line(sub {
		my ($key, $value) = $_[0] =~ /^   "(pointer|type|live_objects|live_bytes)": "?(\w+)/ or return;
		%row = () if $key eq 'pointer';
		$row{$key} = $value;
		$live{"$row{pointer} $row{type}"} = $value if $key eq 'live_bytes' && $row{pointer} && $row{live_objects};
	}, $sonde, 'report', '--json', '--top', '0', '--by', 'pointer,type', $trace);
	return \%live;
}

# Events by kind, out of the table that sonde convert writes.
sub table_of {
	my ($trace) = @_;
	my (@titles, %kinds);
	each_line(sub {
		my @cells = split /,/, $_[0];
		return @titles = @cells unless @titles;
		my %cell;
		@cell{@titles} = @cells;
		my $name = $cell{event} =~ s/.*://r;
		my $kind = $kinds{$name} //= { events => 0, bytes_req => 0, bytes_alloc => 0 };
		$kind->{events}++;
		return if $name =~ /free$/;
		$kind->{bytes_req} += $cell{bytes_req};
		$kind->{bytes_alloc} += $cell{bytes_alloc} || $cell{bytes_req};
	}, quiet($sonde, 'convert', $trace, '--to', 'csv', '-o', '-'));
	return \%kinds;
}

# All that is compared with the ledgers.
sub figures_of {
	my ($trace) = @_;
	return { report => report($trace), live => live_of($trace), table => table_of($trace),
		by_type => report($trace, '--by', 'callsite,type')->{combinations},
		by_node => report($trace, '--by', 'vcpu,node')->{combinations},
		leaks => json_of('leaks', '--json', '--verbose', '--top', '0', $trace)->{call_sites} };
}

# --- events out of texts ---

# A call site by its name, without module and size; one without a name as its address.
sub site {
	my ($text) = @_;
	$text =~ s, \[[^]]*\],,;
	$text =~ s,/0x[0-9a-f]+$,,;
	return $text =~ /^(0x[0-9a-f]+)(?:\+(0x[0-9a-f]+))?$/i ? sprintf '0x%x', hex($1) + hex($2 // 0) : $text;
}

sub event {
	my ($cpu, $name, $field) = @_;
	my $order = $field->{order};
	my $req = $field->{bytes_req} // (defined $order ? PAGE << $order : undef);
	return { cpu => $cpu, name => $name, type => $type_of{$name}, is_alloc => $name !~ /free$/, req => $req,
		bytes => $field->{bytes_alloc} // $req, node => $field->{node} // -1, site => site($field->{call_site}),
		ptr => hex($field->{ptr}) | KERNEL_HALF };
}

sub trace_cmd_event {
	my ($line) = @_;
	my ($cpu, $name, $rest) = $line =~ /\[(\d+)\] +\d+\.\d{9}: (\w+): (.*)/ or return;
	my %field = $rest =~ /(\w+)=(\S+(?: \[\w+\]\S*)?)/g;
	return $type_of{$name} ? event($cpu + 0, $name, \%field) : undef;
}

sub babeltrace_event {
	my ($line) = @_;
	my ($name, $cpu, $rest) = $line =~ /^\[\d+\.\d{9}\] (\w+): \{ cpu_id = (\d+)(.*)/ or return;
	my %field;
	$field{$1} = $2 // $3 while $rest =~ /(\w+) = (?:\( "([^"]*)"|([^ ,{]+))/g;
	return $type_of{$name} ? event($cpu, $name, \%field) : undef;
}

# --- the ledger ---

# What an event's allocation counts for: all, its call site, and its call site and type.
sub rows_of {
	my ($ledger, $event) = @_;
	return map { $ledger->{rows}{$_} //= { map { $_ => 0 } @sums } } 'all', $event->{site}, "$event->{site} $event->{type}";
}

sub pages_of {
	my ($ptr, $bytes) = @_;
	return map { $ptr + $_ * PAGE } 0 .. ($bytes + PAGE - 1) / PAGE - 1;
}

# Slab objects and the pages below them may have the same address.
sub lives_of {
	my ($ledger, $event) = @_;
	return $ledger->{ $event->{type} eq 'pages' ? 'blocks' : 'objects' };
}

sub put_life {
	my ($ledger, $life) = @_;
	lives_of($ledger, $life)->{ $life->{ptr} } = $life;
	$_->{live_objects}++, $_->{live_bytes} += $life->{bytes} for rows_of($ledger, $life);
	return if $life->{type} ne 'pages';
	$ledger->{block_of}{$_} = $life for pages_of($life->{ptr}, $life->{bytes});
}

sub drop_life {
	my ($ledger, $life) = @_;
	delete lives_of($ledger, $life)->{ $life->{ptr} };
	$_->{live_objects}--, $_->{live_bytes} -= $life->{bytes} for rows_of($ledger, $life);
	return if $life->{type} ne 'pages';
	delete $ledger->{block_of}{$_} for pages_of($life->{ptr}, $life->{bytes});
}

sub free_life {
	my ($ledger, $event, $life) = @_;
	$_->{frees}++, $_->{cross_cpu_frees} += $event->{cpu} != $life->{cpu} for rows_of($ledger, $life);
	drop_life($ledger, $life);
}

# If a block is freed in pieces, each of its pages counts as a block from then on (sonde-report(1)).
sub split_block {
	my ($ledger, $block) = @_;
	drop_life($ledger, $block);
	put_life($ledger, { %$block, ptr => $_, bytes => PAGE }) for pages_of($block->{ptr}, $block->{bytes});
}

# Returns whether a block is there.
sub free_pages {
	my ($ledger, $event) = @_;
	my ($ptr, $end) = ($event->{ptr}, $event->{ptr} + $event->{bytes});
	return 0 unless $ledger->{block_of}{$ptr};
	for my $page (pages_of($ptr, $event->{bytes})) {
		my $block = $ledger->{block_of}{$page} // next;
		split_block($ledger, $block) if $block->{ptr} < $ptr || $block->{ptr} + $block->{bytes} > $end;
		free_life($ledger, $event, $ledger->{block_of}{$page});
	}
	return 1;
}

sub free_object {
	my ($ledger, $event) = @_;
	my $life = $ledger->{objects}{ $event->{ptr} } // return 0;
	free_life($ledger, $event, $life);
	return 1;
}

sub allocate {
	my ($ledger, $event, $node_of_vcpu) = @_;
	my $former = lives_of($ledger, $event)->{ $event->{ptr} };
	$ledger->{missed_frees}++, drop_life($ledger, $former) if $former;
	for my $row (rows_of($ledger, $event)) {
		$row->{hits}++;
		$row->{bytes_requested} += $event->{req};
		$row->{bytes_allocated} += $event->{bytes};
	}
	put_life($ledger, $event);
	$ledger->{cross_node} += $event->{node} >= 0 && $event->{node} != $node_of_vcpu->($event->{cpu});
}

sub take_event {
	my ($ledger, $event, $node_of_vcpu) = @_;
	my $kind = $ledger->{kinds}{ $event->{name} } //= { events => 0, bytes_req => 0, bytes_alloc => 0 };
	$kind->{events}++;
	$kind->{bytes_req} += $event->{req}, $kind->{bytes_alloc} += $event->{bytes} if $event->{is_alloc};
	$ledger->{ $event->{is_alloc} ? 'alloc_events' : 'free_events' }++;
	return allocate($ledger, $event, $node_of_vcpu) if $event->{is_alloc};
	$ledger->{unknown_frees} += !($event->{type} eq 'pages' ? free_pages($ledger, $event) : free_object($ledger, $event));
}

# Of lines in the order of time. A program may print the address of a call site whose name others have: %$names has those.
sub ledger_of {
	my ($names, $node_of_vcpu, $event_of, @command) = @_;
	my %ledger = map { $_ => 0 } qw(alloc_events free_events unknown_frees missed_frees cross_node);
	$ledger{$_} = {} for qw(objects blocks block_of rows kinds);
	each_line(sub {
		my $event = $event_of->($_[0]) // return;
		$event->{site} = $names->{ $event->{site} } // $event->{site};
		take_event(\%ledger, $event, $node_of_vcpu);
	}, @command);
	return \%ledger;
}

# --- the comparison ---

# Groups of a report by the texts of these keys. Functions may have the same name.
sub groups_by {
	my ($groups, @keys) = @_;
	my %by;
	for my $row (@$groups) {
		my $sums = $by{ join ' ', map { $_ eq 'symbol' ? site($row->{$_}) : $row->{$_} } @keys } //= {};
		$sums->{$_} += $row->{$_} for grep { defined $row->{$_} } @sums;
	}
	return \%by;
}

sub fragmentation {
	my ($row) = @_;
	return $row->{bytes_allocated} ? 100 * ($row->{bytes_allocated} - $row->{bytes_requested}) / $row->{bytes_allocated} : 0;
}

sub same_totals {
	my ($ledger, $report) = @_;
	my @keys = qw(alloc_events free_events unknown_frees missed_frees);
	is_deeply({ map { $_ => $report->{$_} } @keys }, { map { $_ => $ledger->{$_} } @keys },
		"as many allocations ($ledger->{alloc_events}) and frees, as many of them unmatched");
	my @all = grep { $_ ne 'hits' } @sums;
	is_deeply({ map { $_ => $report->{$_} } @all }, { map { $_ => $ledger->{rows}{all}{$_} } @all }, 'all totals are the same');
	my %hits = map { $type_of{$_} => $ledger->{kinds}{$_}{events} } grep { !/free$/ } keys %{ $ledger->{kinds} };
	is_deeply({ map { $_ => $report->{types}{$_}{hits} } keys %hits }, \%hits, 'each kind of allocation is there as often');
}

sub same_sites {
	my ($ledger, $figures, $least) = @_;
	my $sites = groups_by($figures->{report}{call_sites}, 'symbol');
	my %got = (%$sites, %{ groups_by($figures->{by_type}, 'symbol', 'type') });
	my %want = map { $_ => $ledger->{rows}{$_} } grep { $_ ne 'all' } keys %{ $ledger->{rows} };
	cmp_ok(keys %$sites, '>=', $least, 'there are many call sites: ' . keys %$sites);
	is_deeply(\%got, \%want, 'each call site has the same figures, by type, too');
}

sub same_live {
	my ($ledger, $live, $least) = @_;
	my @lives = map { values %{ $ledger->{$_} } } 'objects', 'blocks';
	cmp_ok(keys %$live, '>=', $least, 'many objects are live at the end: ' . keys %$live);
	is_deeply($live, { map { (sprintf('0x%x %s', $_->{ptr}, $_->{type}) => $_->{bytes}) } @lives },
		'the same addresses are live, with the same bytes');
}

# What it says is live: all but the pages that slabs and large objects lie in.
sub same_leaks {
	my ($ledger, $sites) = @_;
	my $leaks = groups_by($sites, 'symbol', 'type');
	my $rows = $ledger->{rows};
	my @keys = grep { $rows->{$_}{live_objects} } keys %$leaks;
	is(@keys, keys %$leaks, 'sonde leaks has call sites of which objects are live: ' . @keys);
	is_deeply({ map { $_ => [@{ $leaks->{$_} }{qw(live_objects live_bytes)}] } @keys },
		{ map { $_ => [@{ $rows->{$_} }{qw(live_objects live_bytes)}] } @keys }, 'each with as many objects and bytes');
	is_deeply([grep { !$leaks->{$_} && / (?:kmalloc|cache)$/ && $rows->{$_}{live_objects} } keys %$rows], [],
		'and all that have slab objects');
}

# perf kmem counts slab objects: fragmentation is what was not asked for of all that was allocated; ping-pong a free on
# another CPU than that of the allocation; cross-node an allocation for another node than the CPU's.
sub same_as_perf {
	my ($ledger, $figures, $facts) = @_;
	my (%types, %count);
	$count{ $_->[0] }++, $types{ $_->[0] } = $_->[1] for map { [site($_->{symbol}) . " $_->{type}", $_] } @{ $figures->{by_type} };
	# functions may have the same name
	my @slab = grep { !/ pages$/ && $count{$_} == 1 } keys %types;
	my @wrong = grep { abs($types{$_}{fragmentation_percent} - fragmentation($ledger->{rows}{$_})) > HALF_PERCENT_DIGIT } @slab;
	is_deeply(\@wrong, [], 'perf kmem\'s fragmentation of a call site is FRAG %, rounded');
	is_deeply({ map { $_ => $types{$_}{cross_cpu_frees} } @slab }, { map { $_ => $ledger->{rows}{$_}{cross_cpu_frees} } @slab },
		'its ping-pong is CROSS-CPU');
	cmp_ok($ledger->{rows}{all}{cross_cpu_frees}, '>=', $facts->{cross_cpu}, "so often: $ledger->{rows}{all}{cross_cpu_frees}");
	my $cross = 0;
	for my $row (@{ $figures->{by_node} }) {
		$cross += $row->{hits} if $row->{node} =~ /^\d+$/ && $row->{node} != $facts->{node_of_vcpu}->($row->{vcpu});
	}
	cmp_ok($cross, '>=', $facts->{cross_node}, "allocations for another node: $cross");
	is($cross, $ledger->{cross_node}, 'its cross-node allocations are those of --by vcpu,node');
}

sub same_as_text {
	my ($figures, $facts, $event_of, @command) = @_;
	my $report = $figures->{report};
	my %names = map { ($_->{address} => site($_->{symbol})) } @{ $report->{call_sites} };
	my $ledger = ledger_of(\%names, $facts->{node_of_vcpu}, $event_of, @command);
	my $events = $ledger->{alloc_events} + $ledger->{free_events};
	cmp_ok($events, '>=', $facts->{events}, "the text has many events: $events");
	is($events, $report->{records}, 'it has all events');
	same_totals($ledger, $report);
	same_sites($ledger, $figures, $facts->{sites});
	same_live($ledger, $figures->{live}, $facts->{live});
	same_leaks($ledger, $figures->{leaks});
	is_deeply($figures->{table}, $ledger->{kinds}, 'the table of sonde convert has as many events of each kind, with the same bytes');
	same_as_perf($ledger, $figures, $facts);
}

# $work: an empty folder. Facts: the node_of_vcpu, and the least number of events, call sites, objects that are live at the
# end, cross_cpu frees and cross_node allocations.
sub check_agreement {
	my ($trace, $work, $facts) = @_;
	my $figures = figures_of($trace);
	subtest 'trace-cmd report of the trace.dat' => sub {
		plan skip_all => 'trace-cmd is not installed' unless is_installed('trace-cmd');
		run_or_die(quiet($sonde, 'convert', $trace, '--to', 'trace.dat', '-o', "$work/trace.dat"));
		same_as_text($figures, $facts, \&trace_cmd_event, 'trace-cmd', 'report', '-N', '-t', "$work/trace.dat");
		unlink "$work/trace.dat";
	};
	subtest 'babeltrace2 of the trace' => sub {
		plan skip_all => 'babeltrace2 is not installed' unless is_installed('babeltrace2');
		same_as_text($figures, $facts, \&babeltrace_event, 'babeltrace2', '--no-delta', '--clock-seconds', $trace);
	};
}

1;
