# SPDX-License-Identifier: GPL-2.0-or-later
#
# The checks of a comparison with the guest's own events: no event is missing, the order is the same, and
# each record that only one side has is explained by the function that was called there.
package OracleCheck;

use strict;
use warnings;
no warnings 'portable';
use Test::More;

use Campaign;
use GuestTrace;
use OracleCompare;

# Where modules are loaded. The only one in these guests is pages.ko (tests/workload/pages-module.c), which is gone then.
use constant MODULES => 0xffffffffc0000000;
# What it allocates when it is loaded: 20 times some pages together, then 16 in an array, then the 5 that were taken out.
use constant { EXACT_PAGES => 20, ARRAY_PAGES => 20 * (16 + 5) };

# The part of all events whose task another CPU takes over within the call. Seen: 36 of 53,640, in 7.3 on a busy machine
# with small rings, for whose room tasks wait.
use constant MOVED_SHARE => 0.005;

# Of what is called there the guest has no event of its own. Since 6.18 kfree_rcu() frees in rcu_free_sheaf(), which RCU
# calls back.
use constant WITHOUT_EVENT => qr/^(kmem_cache_(free|alloc)_bulk|(__)?alloc_pages_bulk|\*rcu_do_batch$|pages\.ko$)/;

# The functions that are called at these call sites, by address. The target of an indirect call (a retpoline in some
# kernels) is unknown: it is named after the caller, with a star.
sub callees_at {
	my ($check, @sites) = @_;
	my ($slide) = GuestTrace::sidecar($check->{trace}) =~ /"virt_slide":\s*"?(-?\w+)/;
	my %callee = map { $_ => 'pages.ko' } grep { $_ >= MODULES } @sites;
	open my $list, '>', "$check->{out}/sites" or die $!;
	printf $list "%x\n", $_ for grep { $_ < MODULES } @sites;
	close $list;
	for (`$check->{build}/tests/guest/call-target $check->{kernel} $slide < $check->{out}/sites`) {
		my ($address, $name, $caller) = split;
		$callee{hex $address} = $name =~ /x86_indirect_thunk|^\?$/ ? "*$caller" : $name;
	}
	return \%callee;
}

sub callees {
	my ($check, $items) = @_;
	my %site = map { $_->[1][2] => 1 } @$items;
	my %name = map { $_ => 1 } values %{callees_at($check, sort keys %site)};
	return sort keys %name;
}

sub report_items {
	my ($what, $items) = @_;
	diag("$what: cpu $_->[0] $_->[1][0]") for @$items[0 .. ($#$items < 7 ? $#$items : 7)];
}

sub check_called {
	my ($check, $what, $items, $allowed) = @_;
	my @callees = callees($check, $items);
	diag("$what come from calls of: @callees") if @callees;
	return !grep { !/$allowed/ } @callees;
}

sub check_explained {
	my ($check, $result) = @_;
	my $name = $check->{name};
	ok(check_called($check, 'extra records', $result->{extra}, WITHOUT_EVENT),
		sprintf '%s: the %d extra records come from bulk operations and kfree_rcu()', $name,
		scalar @{$result->{extra}}) or report_items('extra', $result->{extra});
	ok(check_called($check, 'doubled guest events', $result->{doubled}, qr/^__kmalloc_large_node/),
		sprintf '%s: the %d events that the guest has twice are large kmalloc', $name,
		scalar @{$result->{doubled}}) or report_items('doubled', $result->{doubled});
	ok(check_called($check, 'events with other GFP flags', $result->{adjusted}, qr/^(__kvmalloc_node|(__)?alloc_pages)/),
		sprintf '%s: the %d events whose GFP flags the guest changed are kvmalloc, or pages without I/O', $name,
		scalar @{$result->{adjusted}}) or report_items('adjusted', $result->{adjusted});
	ok(check_called($check, 'frees with other call sites', $result->{split}, qr/^\w+\.part\.\d+$/),
		sprintf '%s: the %d frees whose call site the guest does not know are by functions that the compiler has split',
		$name, scalar @{$result->{split}}) or report_items('split', $result->{split});
}

sub sites_without_event {
	my ($check, @sites) = @_;
	my $callee = callees_at($check, @sites);
	return grep { ($callee->{$_} // '') =~ WITHOUT_EVENT } @sites;
}

# By vCPU, the pids of its events in their order.
sub pids_of {
	my ($check) = @_;
	my %pids;
	open my $in, '-|', "$check->{build}/sonde", 'events', '--json', $check->{trace} or die "sonde events: $!";
	while (<$in>) {
		push @{$pids{$1}}, $2 if /"vcpu":(\d+).*?"pid":(\d+)/;
	}
	close $in;
	return \%pids;
}

# The guest's own events say nothing of pages that are allocated into an array.
sub check_module {
	my ($check) = @_;
	my $allocs = 0;
	open my $in, '-|', "$check->{build}/sonde", 'events', '--json', $check->{trace} or die "sonde events: $!";
	while (<$in>) {
		$allocs++ if /"event":"kmem:mm_page_alloc".*?"call_site":"(0x\w+)"/ && hex($1) >= MODULES;
	}
	close $in;
	is($allocs, EXACT_PAGES + ARRAY_PAGES,
		"$check->{name}: alloc_pages_exact() and each new entry of an array with holes are in the trace once");
}

# Where the trace has the tasks of its events.
sub check_tasks {
	my ($check, $result) = @_;
	cmp_ok($result->{tasks}, '>=', $check->{min_events} * 0.9, "$check->{name}: the pids of $result->{tasks} events compared");
	is(@{$result->{others}}, 0, "$check->{name}: each has the pid of the guest's event")
		or diag(join "\n", grep { defined } @{$result->{others}}[0 .. 7]);
}

# Keys: name, for the labels; build; kernel, the image; guest, output of oracle-extract; trace, a directory;
# out, a directory for work files; cpus; min_events; has_pids: the trace has those of its events.
sub check_events {
	my (%check) = @_;
	my $name = $check{name};
	system("$check{build}/sonde convert $check{trace} --to kmemtrace -o $check{out}/records 2> $check{out}/convert.txt");
	is($?, 0, "$name: sonde convert converts the trace") or diag(`cat $check{out}/convert.txt`);
	my $result = OracleCompare::compare($check{guest}, "$check{out}/records", 1,
		$check{has_pids} ? pids_of(\%check) : {}, sub { sites_without_event(\%check, @_) });
	add_total($result->{events} // 0, 'events compared');
	diag($_) for @{$result->{faults}};
	is($result->{cpus}, $check{cpus}, "$name: both markers are found on every vCPU");
	cmp_ok($result->{events}, '>=', $check{min_events}, "$name: $result->{events} guest events compared");
	is(@{$result->{missing}}, 0, "$name: none of them is missing in the trace")
		or report_items('missing', $result->{missing});
	report_items('on different sides of a marker', $result->{edges}) if @{$result->{edges}};
	is(@{$result->{disordered}}, 0, "$name: the events of each object are in the same order")
		or diag(join "\n", grep { defined } @{$result->{disordered}}[0 .. 3]);
	cmp_ok(@{$result->{moved}}, '<=', $result->{events} * MOVED_SHARE,
		"$name: few tasks moved to another vCPU between the guest's event and the record: " . @{$result->{moved}})
		or report_items('moved', $result->{moved});
	check_explained(\%check, $result);
	check_tasks(\%check, $result) if $check{has_pids};
}

1;
