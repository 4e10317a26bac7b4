# SPDX-License-Identifier: GPL-2.0-or-later
#
# Call chains of allocations and frees: those of the guest's own kmem events with the trigger `stacktrace`, and Sonde's.
package KmemChains;

use strict;
use warnings;
no warnings 'portable';

# The numbers of pages, of which a guest of chains.t has less.
use constant PFN_MASK => 0x3ffff;
# Frames of the trace event and of the allocator, in front of the one that called.
use constant INNER => 8;

# Events in order: {key, stack}. The key is the kind of event, the task, the address, and the call site where the guest's
# event has it.
sub own_events {
	my ($text) = @_;
	my (@events, $stack);
	for (split /\n/, $text) {
		if (/-(\d+)\s+\[\d+\].*: (kmalloc|kfree|kmem_cache_\w+?|mm_page_\w+)(?:_node)?: (.*)/) {
			my ($pid, $kind, $rest) = ($1, $2, $3);
			my ($site) = $rest =~ /call_site=([^ \/]+)/;
			my ($at) = $rest =~ ($kind =~ /page/ ? qr/pfn=0x([0-9a-f]+)/ : qr/ptr=(?:0x)?0*([0-9a-f]+)/);
			$stack = undef;
			next if !defined $at || hex($at) <= 16;
			push @events, {key => key($kind, $pid, hex $at, $site), stack => $stack = [], traces => 0};
		} elsif (/<stack trace>$/) {
			$events[-1]{traces}++ if $stack;
		} elsif (/^ => (\S+)/ && $stack) {
			push @$stack, $1;
		}
	}
	return @events;
}

sub key {
	my ($kind, $pid, $at, $site) = @_;
	return sprintf '%s %d %x %s', $kind, $pid, $kind =~ /page/ ? $at & PFN_MASK : $at, $kind =~ /page/ ? '' : $site;
}

sub seen_events {
	my ($sonde, $trace) = @_;
	my @events;
	open my $in, '-|', $sonde, 'events', '--instance', 'kmem', $trace or die "$sonde: $!\n";
	while (<$in>) {
		if (my ($kind, $pid, $site, $more, $at) =
			/kmem:(\w+): pid=(\d+) call_site=([^ \/]+)(?: \[\w+\]([^ \/]+))?\S* ptr=0x([0-9a-f]+)/) {
			$site .= $more // '';
			$at = $kind =~ /page/ ? hex($at) >> 12 : hex $at;
			push @events, {key => key($kind, $pid, $at, $site), stack => []};
		} elsif (/^\t(0x\w+ )?(\S+)(?: \[\w+\](\S+))?/ && @events) {
			if ($1) { push @{$events[-1]{stack}}, $2 . ($3 // '') } else { $events[-1]{cut} = 1 }
		}
	}
	return @events;
}

# Where the first of the guest's events are among Sonde's, which begin earlier. Interrupts and nested calls may change the
# order.
sub begin {
	my ($own, $seen) = @_;
	FROM: for my $from (0 .. $#$seen) {
		next if $seen->[$from]{key} ne $own->[0]{key};
		my $at = $from;
		for my $event (@$own[1 .. 15]) {
			my ($found) = grep { $_ <= $#$seen && $seen->[$_]{key} eq $event->{key} } $from .. $at + 60;
			next FROM unless defined $found;
			$at = $found if $found > $at;
		}
		return $from;
	}
	return undef;
}

sub text { join ' < ', @{$_[0]} }

# "same", "cut", or how they differ.
sub judge {
	my ($own, $seen) = @_;
	my @frames = @{$own->{stack}};
	my $first = $seen->{stack}[0];
	for (1 .. INNER) {
		last if !@frames || !defined $first || $frames[0] eq $first;
		shift @frames;
	}
	return 'same' if !$seen->{cut} && text(\@frames) eq text($seen->{stack});
	return 'cut' if $seen->{cut} && text($seen->{stack}) eq text([grep { defined } @frames[0 .. $#{$seen->{stack}}]]);
	return "$own->{key}: " . text($seen->{stack}) . ($seen->{cut} ? ' [cut]' : '') . ' instead of ' . text($own->{stack});
}

sub by_key {
	my %of;
	push @{$of{$_->{key}}}, $_ for @_;
	return \%of;
}

# Events with the same key, in order. Sonde may have more: before the guest began, and of bulk calls.
sub compare_same {
	my ($own, $seen) = @_;
	my (@best, $most);
	for my $from (0 .. (@$seen > @$own ? @$seen - @$own : 0)) {
		my @found = map { $seen->[$from + $_] ? judge($own->[$_], $seen->[$from + $_]) : 'missing' } 0 .. $#$own;
		my $good = grep { /^(?:same|cut)$/ } @found;
		($most, @best) = ($good, @found) if !defined $most || $good > $most;
	}
	return @best;
}

# Below functions of the module brd.
sub in_module { grep { /^brd_/ } @{$_[0]{stack}} }

# In an interrupt whose handler has a stack of its own, or in one that came in user mode.
sub in_interrupt { grep { /sysvec|common_interrupt/ } @{$_[0]{stack}} }

# Of each of the guest's events: [event, "missing" or as judge()]; but for those whose stacks are not known, as an interrupt's
# event came between. Empty: Sonde has others.
sub compare {
	my ($own, $seen) = @_;
	my $from = begin($own, $seen) // return ();
	my ($its, $all) = (by_key(@$seen[$from .. $#$seen]), by_key(@$own));
	return map {
		my $same = $all->{$_};
		my @found = compare_same($same, $its->{$_} // []);
		map { [$same->[$_], $found[$_]] } grep { $same->[$_]{traces} == 1 } 0 .. $#$same;
	} sort keys %$all;
}

1;
