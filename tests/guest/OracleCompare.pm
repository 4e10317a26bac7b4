# SPDX-License-Identifier: GPL-2.0-or-later
#
# Compares the guest's own trace events (output of oracle-extract) with Sonde's records, event by event for
# each vCPU, in the window between the workload's two markers.
package OracleCompare;

use strict;
use warnings;
use List::Util qw(max min);

use constant {
	RECORD_SIZE => 56,
	BEGIN_BYTES => 4812,    # tests/workload/README.md
	END_BYTES => 5212,
	ALLOC => 1, FREE => 2,
	KMALLOC => 0, CACHE => 1, PAGES => 2,
	ZERO_SIZE_PTR => 16,
	DIRECT_MAP_MASK => 0x3fffffff,    # guests of up to 1 GiB: KASLR moves the map by whole GiB
	EDGE_ITEMS => 16,    # events of interrupts around a marker
};

my %slab_event = (
	kmalloc => [ALLOC, KMALLOC], kmalloc_node => [ALLOC, KMALLOC],
	kmem_cache_alloc => [ALLOC, CACHE], kmem_cache_alloc_node => [ALLOC, CACHE],
	kfree => [FREE, KMALLOC], kmem_cache_free => [FREE, CACHE],
);

sub slab_key {
	my ($event, $type, $site, $pointer, $requested, $allocated, $gfp) = @_;
	return join ' ', $event == ALLOC ? 'alloc' : 'free', $type == KMALLOC ? 'kmalloc' : 'cache',
		map { sprintf '%x', $_ } $site, $pointer,
		$event == ALLOC ? ($requested, $allocated, $gfp) : ();
}

sub page_key {
	my ($event, $pfn, $bytes, $gfp) = @_;
	return join ' ', $event == ALLOC ? 'alloc' : 'free', 'pages',
		map { sprintf '%x', $_ } $pfn, $bytes, $event == ALLOC ? $gfp : ();
}

# Items are [key, object, call site, bytes requested if it can be a marker, pid if it is known].
sub guest_item {
	my ($event, @field) = @_;
	my $pid = @field && $field[-1] =~ /^pid=(\d+)$/ ? $1 : undef;
	if (my $kind = $slab_event{$event}) {
		my ($site, $pointer, $requested, $allocated, $gfp) = map { number($_) } @field;
		return if $pointer <= ZERO_SIZE_PTR;
		return [slab_key(@$kind, $site, $pointer, $requested, $allocated, $gfp), $pointer,
			$site, $kind->[0] == ALLOC && $kind->[1] == KMALLOC ? $requested : 0, $pid];
	}
	my ($pfn, $order, $gfp) = map { number($_) } @field;
	return if $pfn == 0 || $pfn > 0xffffffff;
	return [page_key($event eq 'mm_page_alloc' ? ALLOC : FREE, $pfn, 4096 << $order, $gfp),
		"page $pfn", 0, 0, $pid];
}

sub number { no warnings 'portable'; return $_[0] eq '-' ? 0 : $_[0] =~ /^0x/ ? hex $_[0] : $_[0] }

sub read_guest {
	my ($path) = @_;
	my (%items, %total);
	open my $in, '<', $path or die "$path: $!";
	while (<$in>) {
		my ($cpu, $number, $event, @field) = split;
		next if $cpu eq '#';
		my $item = guest_item($event, @field);
		push @{$items{$cpu}}, $item if $item;
	}
	return \%items;
}

sub record_item {
	my ($event, $type, $site, $pointer, $requested, $allocated, $gfp) = @_;
	return [page_key($event, ($pointer & DIRECT_MAP_MASK) >> 12, $requested, $gfp),
		'page ' . (($pointer & DIRECT_MAP_MASK) >> 12), $site, 0] if $type == PAGES;
	return [slab_key($event, $type, $site, $pointer, $requested, $allocated, $gfp), $pointer,
		$site, $event == ALLOC && $type == KMALLOC ? $requested : 0];
}

# $pids: by CPU, those of its records in their order.
sub read_records {
	my ($dir, $pids) = @_;
	my %items;
	for my $path (glob "$dir/cpu*") {
		my ($cpu) = $path =~ /cpu(\d+)$/ or next;
		open my $in, '<:raw', $path or die "$path: $!";
		while (read($in, my $bytes, RECORD_SIZE) == RECORD_SIZE) {
			my ($event, $type, $size, $node, @rest) = unpack 'CCS<l<Q<Q<Q<Q<Q<q<', $bytes;
			die "$path: record of $size bytes\n" if $size != RECORD_SIZE;
			my $item = record_item($event, $type, @rest);
			$item->[4] = $pids->{$cpu}[@{$items{$cpu} // []}];
			push @{$items{$cpu}}, $item;
		}
	}
	return \%items;
}

sub sites_of {
	my ($items) = @_;
	my %sites = map { $_->[2] => 1 } map { @$_ } values %$items;
	return sort { $a <=> $b } keys %sites;
}

# The items from the first begin marker to the first end marker after it, both included; and [some items
# before, some after these].
sub window {
	my ($items) = @_;
	my ($first, $last);
	for my $i (0 .. $#$items) {
		$first //= $i if $items->[$i][3] == BEGIN_BYTES;
		next unless defined $first && $items->[$i][3] == END_BYTES;
		$last = $i;
		last;
	}
	return unless defined $last;
	my $before = max(0, $first - EDGE_ITEMS);
	my $behind = min($#$items, $last + EDGE_ITEMS);
	return ([@{$items}[$first .. $last]],
		[[@{$items}[$before .. $first - 1]], [@{$items}[$last + 1 .. $behind]]]);
}

# The items that one list has more often than the other: missing in the second, extra in the second. The guest's events of
# pages have no call site: of several that are equal without it, those are extra of whose call sites the guest has no
# event, $unseen.
sub difference {
	my ($guest, $sonde, $unseen) = @_;
	my (%count, @extra);
	$count{$_->[0]}++ for @$guest;
	for my $item ((grep { !$unseen->{$_->[2]} } @$sonde), grep { $unseen->{$_->[2]} } @$sonde) {
		push @extra, $item unless ($count{$item->[0]} // 0) > 0 && $count{$item->[0]}--;
	}
	my @missing = grep { ($count{$_->[0]} // 0) > 0 && $count{$_->[0]}-- } reverse @$guest;
	return ([reverse @missing], \@extra);
}

# The guest's event for a marker comes earlier than Sonde's record, which is made when the function returns.
# The events of an interrupt between them are inside the window of one side and outside that of the other.
# Removes from @$alone, the items that only this side has inside, those that only the other side has beside its
# window. Returns the items of @$window that they are: of several equal ones the first behind the begin
# marker, or the last before the end marker.
sub take_edges {
	my ($alone, $window, $beside, $beside_other) = @_;
	my @edges;
	for my $end (0, 1) {
		my ($only_other) = difference($beside_other->[$end], $beside->[$end], {});
		my @candidates = $end ? reverse @$window : @$window;
		for my $other (@$only_other) {
			my ($i) = grep { $alone->[$_][0] eq $other->[0] } 0 .. $#$alone;
			next unless defined $i;
			splice @$alone, $i, 1;
			my %taken = map { $_ => 1 } @edges;
			push @edges, (grep { !$taken{$_} && $_->[0] eq $other->[0] } @candidates)[0];
		}
	}
	return @edges;
}

# The objects whose events are in another order on the other side. Items that only one side has are left out.
sub orders_differ {
	my ($guest, $sonde, $alone) = @_;
	my (%skip, %of, @bad);
	$skip{$_} = 1 for @$alone;
	push @{$of{$_->[1]}[0]}, $_->[0] for grep { !$skip{$_} } @$guest;
	push @{$of{$_->[1]}[1]}, $_->[0] for grep { !$skip{$_} } @$sonde;
	for my $object (sort keys %of) {
		my ($a, $b) = map { join "\n", @{$_ // []} } @{$of{$object}}[0, 1];
		push @bad, $object if $a ne $b;
	}
	return \@bad;
}

# Since 6.12 the guest has two events for a kmalloc() that is too large for any cache: one in
# __kmalloc_large_node(), whose call site is in the allocator, and one in its caller. Sonde records it once.
# Removes the first of the two from @$guest and returns them.
sub take_doubled {
	my ($guest) = @_;
	my (@doubled, @kept);
	for my $i (0 .. $#$guest) {
		my ($item, $next) = @{$guest}[$i, $i + 1];
		if ($next && $item->[3] > 8192 && $item->[2] != $next->[2]
			&& without_site($item) eq without_site($next)) {
			push @doubled, $item;
		} else {
			push @kept, $item;
		}
	}
	@$guest = @kept;
	return \@doubled;
}

sub without_site { my @part = split ' ', $_[0][0]; splice @part, 2, 1; return "@part" }

sub without_gfp { return $_[0][0] =~ s/^(alloc .*) [0-9a-f]+$/$1/r }

# The page allocator takes these flags away from tasks that are within memalloc_noio_save() or memalloc_nofs_save():
# current_gfp_context().
use constant { GFP_IO => 0x40, GFP_FS => 0x80 };

sub in_scope {
	my ($guest, $sonde) = map { hex(($_->[0] =~ / (\w+)$/)[0]) } @_;
	return $guest == ($sonde & ~GFP_FS) || $guest == ($sonde & ~(GFP_IO | GFP_FS));
}

# Takes the first of Sonde's items that is the guest's but for flags that the guest changes.
sub take_match {
	my ($item, $list) = @_;
	my $is_page = $item->[0] =~ /^alloc pages/;
	my ($i) = grep { !$is_page || in_scope($item, $list->[$_]) } 0 .. $#$list;
	return defined $i ? splice @$list, $i, 1 : undef;
}

# The guest's event has the flags with which it went on, and Sonde's record those of the caller. kvmalloc() of more than
# a page changes them before it tries kmalloc(): both are one function in 7.0. Removes such pairs from @$missing and
# @$extra, gives the guest's items the key of Sonde's, and returns them.
sub take_adjusted {
	my ($missing, $extra) = @_;
	my (%sonde, @adjusted, @kept);
	push @{$sonde{without_gfp($_)}}, $_ for grep { $_->[0] =~ /^alloc (kmalloc|pages)/ } @$extra;
	for my $item (@$missing) {
		my $match = take_match($item, $sonde{without_gfp($item)} // []);
		if ($match) {
			push @adjusted, $match;
			$item->[0] = $match->[0];
		} else {
			push @kept, $item;
		}
	}
	my %paired = map { $_ => 1 } @adjusted;
	@$missing = @kept;
	@$extra = grep { !$paired{$_} } @$extra;
	return \@adjusted;
}

# The compiler may split a function that frees: the rest, which makes the event, is a function of its own, and what it
# takes for its call site is in the first part. Removes such pairs from @$missing and @$extra, gives the guest's items the
# key of Sonde's, and returns what they were.
sub take_split {
	my ($missing, $extra) = @_;
	my (%sonde, %paired, @split, @kept);
	push @{$sonde{without_site($_)}}, $_ for grep { $_->[0] =~ /^free (kmalloc|cache)/ } @$extra;
	for my $item (@$missing) {
		my $match = shift @{$sonde{without_site($item)} // []};
		if ($match) {
			push @split, [@$item];
			$paired{$match} = 1;
			$item->[0] = $match->[0];
		} else {
			push @kept, $item;
		}
	}
	@$missing = @kept;
	@$extra = grep { !$paired{$_} } @$extra;
	return \@split;
}

# A preemptible kernel may move a task to another CPU within the call: the guest's event is on one CPU then, and Sonde's
# record, which is made when an allocation returns and a free begins, on another. Removes such pairs from the lists of
# $result, and adds Sonde's items to its list moved.
sub take_moved {
	my ($result) = @_;
	my (%sonde, @missing, %paired);
	push @{$sonde{$_->[1][0]}}, $_ for @{$result->{extra}};
	for my $entry (@{$result->{missing}}) {
		my ($cpu, $item) = @$entry;
		my $others = $sonde{$item->[0]} // [];
		my ($i) = grep { $others->[$_][0] != $cpu && same_task($item, $others->[$_][1]) } 0 .. $#$others;
		if (defined $i) {
			my ($match) = splice @$others, $i, 1;
			$paired{$match} = 1;
			push @{$result->{moved}}, $match;
		} else {
			push @missing, $entry;
		}
	}
	$result->{missing} = \@missing;
	$result->{extra} = [grep { !$paired{$_} } @{$result->{extra}}];
}

sub same_task { return !defined $_[0][4] || !defined $_[1][4] || $_[0][4] == $_[1][4] }

# Counts events that both sides have equally often, and whose pids both know, in $result->{tasks}; and lists those whose
# pids differ.
sub compare_tasks {
	my ($result, $cpu, $guest, $sonde) = @_;
	my %of;
	push @{$of{$_->[0]}[0]}, $_ for @$guest;
	push @{$of{$_->[0]}[1]}, $_ for @$sonde;
	for my $key (sort keys %of) {
		my ($g, $o) = map { $_ // [] } @{$of{$key}}[0, 1];
		next if @$g != @$o;
		for my $i (0 .. $#$g) {
			next unless defined $g->[$i][4] && defined $o->[$i][4];
			$result->{tasks}++;
			push @{$result->{others}}, "cpu $cpu $key: pid $g->[$i][4], not $o->[$i][4]" if $g->[$i][4] != $o->[$i][4];
		}
	}
}

# Returns {cpus, events, tasks, missing, extra, moved, edges, doubled, adjusted, split, disordered, others, faults}; the lists
# are of [cpu, item], the last three of texts. $pids: as of read_records(). $find_unseen->(@sites): those of Sonde's call
# sites of whose calls the guest has no event.
sub compare {
	my ($oracle_path, $trace_dir, $with_pages, $pids, $find_unseen) = @_;
	my ($guest, $sonde) = (read_guest($oracle_path), read_records($trace_dir, $pids // {}));
	my %unseen = map { $_ => 1 } $find_unseen ? $find_unseen->(sites_of($sonde)) : ();
	my %result = (cpus => 0, events => 0, tasks => 0, others => [], missing => [], extra => [], moved => [], edges => [], doubled => [], adjusted => [], split => [], disordered => [], faults => []);
	for my $cpu (sort { $a <=> $b } keys %$guest) {
		my ($g, $g_beside) = window($guest->{$cpu});
		my ($o, $o_beside) = window($sonde->{$cpu} // []);
		push @{$result{faults}}, "cpu $cpu: no window in the guest's events" unless $g;
		push @{$result{faults}}, "cpu $cpu: no window in Sonde's records" unless $o;
		next unless $g && $o;
		@$o = grep { $_->[1] !~ /^page/ } @$o unless $with_pages;
		push @{$result{doubled}}, map { [$cpu, $_] } @{take_doubled($g)};
		my ($missing, $extra) = difference($g, $o, \%unseen);
		push @{$result{adjusted}}, map { [$cpu, $_] } @{take_adjusted($missing, $extra)};
		push @{$result{split}}, map { [$cpu, $_] } @{take_split($missing, $extra)};
		compare_tasks(\%result, $cpu, $g, $o);
		my @edges = (take_edges($missing, $g, $g_beside, $o_beside), take_edges($extra, $o, $o_beside, $g_beside));
		push @{$result{edges}}, map { [$cpu, $_] } @edges;
		$result{cpus}++;
		$result{events} += @$g;
		push @{$result{missing}}, map { [$cpu, $_] } @$missing;
		push @{$result{extra}}, map { [$cpu, $_] } @$extra;
		push @{$result{disordered}}, map { "cpu $cpu $_" }
			@{orders_differ($g, $o, [@edges, @$missing, @$extra])};
	}
	take_moved(\%result);
	return \%result;
}

1;
