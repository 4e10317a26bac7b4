#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Call chains that Sonde unwinds, against those of the guest's own unwinder, in one run: its kprobe events with the trigger
# `stacktrace` are behind what ftrace patches in the same functions. At least 99 % of the chains are the same, those in
# interrupts included, and all others are marked as cut, and the same up to there. Chains of dynamic probes at calls, at returns and in the
# middle of functions are those of the calls. Those of the graph and syscalls tracers, of functions that call vfs_read(), are
# the ends of its chains. By chains of allocations sonde report charges callers.
use strict;
use warnings;
use FindBin;
use JSON::PP;
use List::Util qw(min);
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Files;
use GuestConfigs;
use GuestLog;
use KmemChains;
use SymbolNames;
use Testbed;
use Tree;

use constant { LEAST => 0.99, KMEM_EVENTS => 1000, MODULE_EVENTS => 50, INTERRUPT_EVENTS => 50, PROBE_EVENTS => 100 };

# Probes, and the functions whose calls they are in. Those that only 6.1 has are in the middle of its functions.
my %PROBED = (
	opens => ['do_sys_openat2', 'p:opens do_sys_openat2 dfd=%di:s32'],
	calls => ['do_sys_openat2', 'p:calls do_sys_openat2+0x47 %sp', '6.1'],
	branches => ['do_sys_openat2', 'p:branches do_sys_openat2+0xb8 %sp', '6.1'],
	loads => ['alloc_empty_file', 'p:loads alloc_empty_file+0x53 %bx', '6.1'],
	allocated => ['alloc_empty_file', 'r:allocated alloc_empty_file $retval', '6.1'],
);

sub probes_of {
	my ($version) = @_;
	return grep { !$PROBED{$_}[2] || $PROBED{$_}[2] eq $version } sort keys %PROBED;
}

# By function: [pid, frames] in order. In front of the function's caller the guest's chain has the handler of the kprobe, and
# the function.
sub own_chains {
	my ($log, @functions) = @_;
	my ($any, %of) = join '|', @functions;
	for (split /^(?=.*<stack trace>$)/m, unpacked($log, 'sonde-begin', 'sonde-end')) {
		my ($pid) = /-(\d+)\s+\[\d+\].*<stack trace>/ or next;
		my @frames = /^ => (\S+)$/mg;
		shift @frames while @frames && $frames[0] !~ /^(?:$any)\+/;
		my ($function) = (shift(@frames) // next) =~ /^(\w+)/;
		push @{$of{$function}}, [$pid, \@frames];
	}
	return \%of;
}

sub seen_chains {
	my ($lines) = @_;
	my %of;
	for my $event (map { JSON::PP::decode_json($_) } grep { /^\{/ } split /\n/, $lines) {
		push @{$of{$event->{ip_symbol}}}, [$event->{pid}, $event->{stack_symbol}, $event->{stack_cut}];
	}
	return \%of;
}

sub text { join ' < ', @{$_[0]} }

# "same", "cut", or how they differ. The guest's own trace has less than 64 frames of a chain, as its handler takes some.
sub judge {
	my ($own, $seen) = @_;
	my (undef, $frames, $cut) = @$seen;
	return 'same' if !$cut && text($own) eq text($frames);
	return 'cut' if $cut && text($frames) eq text([@$own[0 .. min($#$frames, $#$own)]]);
	return text($frames) . ($cut ? ' [cut]' : '') . ' instead of ' . text($own);
}

# Sonde records before the guest begins and after it ends: of the places where the tasks of the guest's events are those of
# Sonde's, the one with the most chains in common.
sub place {
	my ($own, $seen) = @_;
	my ($best, $most);
	for my $from (0 .. @$seen - @$own) {
		next if grep { $own->[$_][0] != $seen->[$from + $_][0] } 0 .. $#$own;
		my $same = grep { judge($own->[$_][1], $seen->[$from + $_]) =~ /^(?:same|cut)$/ } 0 .. $#$own;
		($best, $most) = ($from, $same) if !defined $best || $same > $most;
	}
	return $best;
}

sub compare {
	my ($function, $own, $seen) = @_;
	my $from = place($own, $seen);
	my %count = (same => 0, cut => 0);
	return ok(0, "$function: the guest's " . @$own . " events are among Sonde's " . @$seen) unless defined $from;
	my @wrong = grep { !/^(?:same|cut)$/ } map {
		my $is = judge($own->[$_][1], $seen->[$from + $_]);
		$count{$is}++;
		$is;
	} 0 .. $#$own;
	is($wrong[0], undef, "$function: of " . @$own . " chains $count{same} are the guest's own, $count{cut} are marked as cut");
	return \%count;
}

# Allocations and frees, of tasks and in interrupts, and below functions of a module.
sub compare_kmem {
	my ($version, $log, $trace, $has_module) = @_;
	my @own = KmemChains::own_events(unpacked($log, 'sonde-kmem-begin', 'sonde-kmem-end'));
	my @seen = KmemChains::seen_events("$build/sonde", $trace);
	SymbolNames::unify("$build/sonde", kernel_image($version), map { $_->{stack} } @own, @seen);
	my @found = KmemChains::compare(\@own, \@seen);
	my %count = (same => 0, cut => 0, missing => 0);
	my @wrong = grep { !defined $count{$_} || !++$count{$_} } map { $_->[1] } @found;
	my @outside = grep { !KmemChains::in_interrupt($_->[0]) } @found;
	my @below = map { $_->[1] } grep { KmemChains::in_module($_->[0]) } @outside;
	my $whole = grep { $_ eq 'same' } @below;
	cmp_ok($whole, '>', MODULE_EVENTS, "kmem: $whole chains through a module are the guest's own") if $has_module;
	is($whole, scalar(@below), 'kmem: none of these is cut');
	cmp_ok(scalar(@found), '>', KMEM_EVENTS, 'kmem: ' . @found . ' events by the guest');
	is($wrong[0], undef, "kmem: $count{same} chains are the guest's own, $count{cut} are marked as cut");
	cmp_ok($count{same}, '>=', LEAST * @found, "kmem: these are $count{same} of " . @found);
	my $inside = grep { KmemChains::in_interrupt($_->[0]) && $_->[1] eq 'same' } @found;
	cmp_ok($inside, '>', INTERRUPT_EVENTS, "kmem: $inside of them are of interrupts");
	cmp_ok($count{missing}, '<=', (1 - LEAST) * @found, "kmem: $count{missing} events are the guest's alone");
}

# sonde report charges who called kstrdup() with what that allocates. Of wrappers that call it there are these.
sub compare_charged {
	my ($trace) = @_;
	my (%want, %hits, $all);
	for my $event (KmemChains::seen_events("$build/sonde", $trace)) {
		next unless $event->{key} =~ /^(?:kmalloc|kmem_cache_alloc|mm_page_alloc) /;
		my ($first, $second) = (@{$event->{stack}}, '', '');
		$all++;
		$want{$second}++ if $first =~ /^kstrdup\+/ && $second !~ /^(?:|kobject_set_name_vargs\+.*|(?:__)?kmem_cache_create\w*\+.*)$/;
	}
	open my $in, '-|', "$build/sonde", 'report', '--instance', 'kmem', '--json', '--top', 0, $trace or die "sonde: $!\n";
	my $report = JSON::PP::decode_json(join '', <$in>);
	$hits{$_->{symbol}} += $_->{hits} for @{$report->{call_sites}};
	cmp_ok(scalar(keys %want), '>', 5, 'kmem: ' . keys(%want) . ' places call kstrdup()');
	is_deeply({map { $_ => $hits{$_} } keys %want}, \%want, 'kmem: each is charged with what kstrdup() allocates for it');
	is_deeply([grep { /^(?:kstrdup|kvmalloc_node|mas_alloc_nodes|radix_tree_node_alloc)\b/ } keys %hits], [],
		'kmem: such functions are charged with nothing');
	my $sum = 0;
	$sum += $_ for values %hits;
	is($sum, $all, 'kmem: each allocation is charged to one place');
}

# Wherever in a call a probe is, those who called are the same.
sub compare_probes {
	my ($lines, @names) = @_;
	my (%last, %count, %wrong);
	for my $event (map { JSON::PP::decode_json($_) } split /\n/, $lines) {
		my $chain = text($event->{stack_symbol} // []) . ($event->{stack_cut} ? ' [cut]' : '');
		$last{"$event->{pid} $event->{ip_symbol}"} = $chain if ($event->{instance} // '') eq 'around';
		my ($name) = $event->{event} =~ /^kprobes:(.*)/ or next;
		my $want = $last{"$event->{pid} $PROBED{$name}[0]"} // 'no call';
		$count{$name}++;
		$wrong{$name} //= "$chain instead of $want" if $chain ne $want;
	}
	for my $name (@names) {
		cmp_ok($count{$name} // 0, '>', PROBE_EVENTS, "$name: " . ($count{$name} // 0) . ' events of the probe');
		is($wrong{$name}, undef, "$name: their chains are those of the calls of $PROBED{$name}[0]()");
	}
}

# read() calls ksys_read(), which calls vfs_read().
sub compare_callers {
	my ($lines) = @_;
	my (%last, %count, %wrong);
	for my $event (map { JSON::PP::decode_json($_) } split /\n/, $lines) {
		my @frames = @{$event->{stack_symbol} // next};
		$last{$event->{event}}{$event->{pid}} = text(\@frames) if $event->{event} =~ /^(?:graph|syscalls):/;
		next if ($event->{instance} // $event->{event}) ne 'function:function';
		next if $event->{stack_cut} || ($frames[0] // '') !~ /^ksys_read\+/;
		for my $tracer ('graph:entry', 'syscalls:sys_enter') {
			my $chain = $last{$tracer}{$event->{pid}} // 'no call';
			$count{$tracer}++;
			$wrong{$tracer} //= "$chain instead of the end of " . text(\@frames) if $chain ne text([@frames[1 .. $#frames]]);
		}
	}
	for my $tracer ('graph:entry', 'syscalls:sys_enter') {
		cmp_ok($count{$tracer} // 0, '>', PROBE_EVENTS, "$tracer: " . ($count{$tracer} // 0) . ' calls around vfs_read()');
		is($wrong{$tracer}, undef, "$tracer: their chains are the ends of those of vfs_read()");
	}
}

sub test_guest {
	my ($version) = @_;
	my $out = "$build/guest/chains-$version";
	# in 6.12 the guest's own kprobes behind those of the others have no chains
	my @functions = $version eq '6.12' ? 'vfs_read' : split ' ', slurp("$FindBin::RealBin/chains");
	my ($same, $all) = (0, 0);
	empty_folder($out);
	my $module = unpack_brd($version, $out);
	write_file("$out/functions", map { "$_\n" } @functions);
	build_initrd("$out/initrd", "$FindBin::RealBin/chains-inside=/bin/chains-inside", "$out/functions=/etc/chains",
		$module ? "$module=/lib/brd.ko" : ());
	on_kvm_host({}, "$FindBin::RealBin/chains-guest", $out, kernel_image($version), "$out/initrd", join(',', @functions),
		map { $PROBED{$_}[1] } probes_of($version));
	my $log = slurp("$out/log") =~ s/\r//gr;
	my ($own, $seen) = (own_chains($log, @functions), seen_chains(slurp("$out/events")));
	SymbolNames::unify("$build/sonde", kernel_image($version), map { $_->[1] // () } map { @$_ } values %$own, values %$seen);
	for my $function (@functions) {
		my $chains = $own->{$function} // [];
		cmp_ok(scalar(@$chains), '>', 10, "$function: " . @$chains . ' events by the guest');
		my $count = compare($function, $chains, $seen->{$function} // []) or next;
		next unless ref $count;
		$same += $count->{same};
		$all += @$chains;
	}
	cmp_ok($same, '>=', LEAST * $all, "$same of $all chains of functions are the same");
	compare_kmem($version, $log, "$out/trace", $module);
	compare_charged("$out/trace") if $version eq '6.1';
	compare_probes(slurp("$out/probes"), probes_of($version));
	compare_callers(slurp("$out/probes"));
	like(slurp("$out/live"), qr/^kmem:kmem_cache_alloc;entry_SYSCALL_64_after_hwframe;do_syscall_64;\S*;alloc_inode \d+$/m,
		'live bytes have whole chains');
	like(slurp("$out/folded"), qr/^function:function;entry_SYSCALL_64_after_hwframe;do_syscall_64;.*ksys_read;vfs_read \d+$/m,
		'folded stacks have whole chains');
	ok($log =~ /^status 0$/m, 'the recorder succeeds');
	ok($log =~ /^check 0$/m, 'sonde check finds no error');
	like(slurp("$out/err"), qr/lost: none/, 'none is lost');
	unlike($log =~ s/^sonde-begin.*//msr, qr/WARNING|BUG|Oops|Call Trace/, 'nothing in the log');
}

for my $version (GuestConfigs::kernels('6.1')) {
	subtest $version => sub { test_guest($version) };
}
done_testing();
