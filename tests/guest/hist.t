#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Histograms against the guest's own hist triggers, in one run: allocations of slab memory by call site, with the bytes asked for and got;
# system calls by number, and by an argument's name, and their returns by result; calls of a function by an argument and by what
# it points to. All are of one task, from its birth to its end, so that both have the same events: each entry has the same key,
# the same hits and the same sums. A kernel without such triggers (5.10) records the events, which are counted here. In 6.1 also
# of instructions in the middle of a function.
# GUEST='5.10 6.12' for other kernels.
use strict;
use warnings;
use FindBin;
use File::Path qw(make_path);
use JSON::PP;
use List::Util qw(sum0);
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Files;
use GuestConfigs;
use GuestLog;
use HistEntries;
use Testbed;
use Tree;

# Where Sonde's probe is, in the middle of a function, and where the guest's own is, at the next instruction; and where one is that
# has many callers.
my %inside = ('6.1' => ['do_sys_openat2+0x35', 'do_sys_openat2+0x3e', 'alloc_empty_file+0x1c']);

sub printed { return unpacked($_[0], "sonde-begin $_[1]", 'sonde-end') }

sub count {
	my ($entries, $key, @sums) = @_;
	my @before = split / /, $entries->{$key} // '';
	$entries->{$key} = join ' ', map { ($before[$_] // 0) + (1, @sums)[$_] } 0 .. @sums;
}

# Of the events themselves, whose call sites are symbols.
sub traced_entries {
	my ($log) = @_;
	my %of;
	for (split /\n/, printed($log, 'trace')) {
		count($of{alloc} //= {}, $1, $2, $3) if /: (?:kmalloc|kmem_cache_alloc)(?:_node)?: .*call_site=(\S+) .*bytes_req=(\d+) bytes_alloc=(\d+)/;
		count($of{sys_enter} //= {}, $1) if /: sys_enter: NR (-?\d+)/;
		count($of{sys_exit} //= {}, sprintf('%u %u', $1, $2)) if /: sys_exit: NR (-?\d+) = (-?\d+)/;
		count($of{open} //= {}, sprintf('%u %u', $1, hex $2), hex $2) if /: open: .* dfd=(-?\d+) flags=(\w+)/;
	}
	return \%of;
}

sub add {
	my ($entries, $more) = @_;
	for my $key (keys %$more) {
		my @sums = split / /, $entries->{$key} // '0 0 0';
		my @others = split / /, $more->{$key};
		$entries->{$key} = join ' ', map { $sums[$_] + $others[$_] } 0 .. $#others;
	}
}

sub is_healthy {
	my ($kernel, $log, $err) = @_;
	unlike($log =~ s/^sonde-begin.*?^sonde-end$//gmsr, qr/WARNING|BUG|Oops|Call Trace/, "$kernel: nothing in the log");
	like($log, qr/^status 0$/m, "$kernel: the run succeeds") or diag(slurp($err));
}

# Hits and sums of an instance whose conditions the host decides, by key.
sub rows_of {
	my ($document, $name) = @_;
	my ($table) = grep { $_->{name} eq $name } @{$document->{histograms} // []};
	return { map { (join(' ', map { $_->{frames} ? map { $_->{text} } @{$_->{frames}} : $_->{number} } @{$_->{keys}}) =>
		[$_->{hitcount}, $_->{values}{bytes_req} // 0]) } @{$table->{rows} // []} };
}

sub check_conditions {
	my ($kernel, $document, $log) = @_;
	my ($all, $small, $large, $opens) = map { rows_of($document, $_) } qw(all small large opens);
	my %both = map { my $key = $_; $key => sum0(map { exists $_->{$key} ? $_->{$key}[0] : () } $small, $large) }
		keys %$small, keys %$large;
	cmp_ok(scalar(keys %$small), '>=', 3, "$kernel: " . keys(%$small) . ' chains with a condition for the host, of kmem');
	cmp_ok(scalar(keys %$large), '>=', 3, "$kernel: " . keys(%$large) . ' with its opposite');
	is_deeply(\%both, {map { $_ => $all->{$_}[0] } keys %$all}, "$kernel: together they are all");
	is(join(' ', grep { $small->{$_}[1] >= 64 * $small->{$_}[0] } keys %$small), '', "$kernel: those for small ones are of such");
	my $own = own_entries(printed($log, 'sys_enter'))->{257};
	is(sum0(map { $_->[0] } values %$opens), $own, "$kernel: $own system calls with a condition for the host, as by the guest");
}

# Chains of allocators that call each other are told apart by neither.
sub check_chains {
	my ($kernel, $out) = @_;
	my $log = slurp("$out/chains-log") =~ s/\r//gr;
	my $document = JSON::PP::decode_json(slurp("$out/chains-hists") || '{}');
	my ($seen, $cut, $dropped) = seen_chains($document, 'chains');
	my (%own, $hits, $same);
	for my $event (qw(kmalloc kmalloc_node kmem_cache_alloc kmem_cache_alloc_node)) {
		my $chains = own_chains(printed($log, $event));
		$own{$_} += $chains->{$_} for keys %$chains;
	}
	for my $chain (keys %own) {
		my $both = $own{$chain} < ($seen->{$chain} // 0) ? $own{$chain} : $seen->{$chain} // 0;
		$hits += $own{$chain};
		$same += $both;
		diag("$own{$chain} hits by the guest, " . ($seen->{$chain} // 0) . " by Sonde: $chain") if $both != $own{$chain};
	}
	cmp_ok(scalar(keys %own), '>=', 20, "$kernel: " . keys(%own) . " call chains by the guest, $hits hits");
	cmp_ok($same + $cut, '>=', $hits, "$kernel: $same of them are the same by Sonde, $cut are cut");
	cmp_ok($cut, '<=', 0.05 * $hits, "$kernel: few are cut: those of execve(), whose frames are large");
	is($dropped, 0, "$kernel: no chain is dropped");
	check_conditions($kernel, $document, $log);
	my ($opened) = seen_entries($document, 'opened');
	cmp_ok(scalar(keys %$opened), '>=', 2, "$kernel: " . keys(%$opened) . ' flags of openat()');
	is_deeply($opened, own_entries(printed($log, 'sys_enter_openat')), "$kernel: by the argument's name, each is the guest's own");
	if ($inside{$kernel}) {
		my ($counted) = seen_entries($document, 'counted');
		my $hits = sum0(map { (split / /)[0] } values %$counted);
		cmp_ok($hits, '>=', 200, "$kernel: $hits hits of an instruction in the middle");
		is_deeply($counted, own_entries(printed($log, 'inner')), "$kernel: each is the guest's own");
		my ($at_entry, $in_middle) = map { (seen_chains($document, $_))[0] } qw(entry inner);
		cmp_ok(scalar(keys %$at_entry), '>=', 2, "$kernel: " . keys(%$at_entry) . ' call chains of a function');
		is_deeply($in_middle, $at_entry, "$kernel: an instruction in the middle of it has the same ones");
	}
	like(slurp("$out/chains-text"), qr/^\{ stacktrace:\n {9}\w+\+0x\S+\n(?: {9}\S+\n)*\} hitcount: +\d+  bytes_req: +\d+$/m,
		"$kernel: one is printed as by ftrace");
	is_healthy($kernel, $log, "$out/chains-err");
}

# An argument when the call returns, by the host, against that when it begins.
sub check_named {
	my ($kernel, $log, $document) = @_;
	my ($rows, %named) = (rows_of($document, 'named'));
	$named{(split / /, $_)[-1]} += $rows->{$_}[0] for keys %$rows;
	my $own = own_entries(printed($log, 'sys_enter_openat'));
	is_deeply(\%named, {map { $_ => 0 + $own->{$_} } keys %$own}, "$kernel: arguments are known at returns, too");
}

# The guest's own have a new task's return from its parent's clone(), vfork() or clone3(), which is none of a function.
sub check_returns {
	my ($kernel, $out, $has_triggers) = @_;
	my $log = slurp("$out/returns-log") =~ s/\r//gr;
	my $document = JSON::PP::decode_json(slurp("$out/returns-hists") || '{}');
	my $own = $has_triggers ? own_entries(printed($log, 'sys_exit')) : traced_entries($log)->{sys_exit} // {};
	delete @$own{'56 0', '58 0', '435 0'};
	my ($seen, $dropped) = seen_entries($document, 'sys_exit');
	my $failed = grep { (split / /)[1] > 1 << 63 } keys %$own;
	cmp_ok(scalar(keys %$own), '>=', 30, "$kernel: " . keys(%$own) . ' returns of system calls by number and result, by the guest');
	cmp_ok($failed, '>=', 1, "$kernel: $failed of them are errors");
	is_deeply($seen, $own, "$kernel: each is the same by Sonde");
	is($dropped, 0, "$kernel: none is dropped");
	my (%failed, $long);
	for (keys %$own) {
		my ($id, $result) = split / /;
		my $signed = unpack 'q', pack 'Q', $result;
		my ($hits) = split / /, $own->{$_};
		$long += $hits if $signed > 4000;
		next if $signed >= 0 || ($id != 257 && $id != 0);
		my ($before, $sum) = split / /, $failed{$id} // '0 0';
		$failed{$id} = join ' ', $before + $hits, $sum + $hits * $signed;
	}
	cmp_ok(scalar(keys %failed), '>=', 1, "$kernel: openat() has failed");
	is_deeply((seen_entries($document, 'failed'))[0], \%failed, "$kernel: a condition on the result holds, of some system calls");
	is(sum0(map { $_->[0] } values %{rows_of($document, 'long')}), $long, "$kernel: so does one that the host decides");
	check_named($kernel, $log, $document) if $has_triggers;
	like(slurp("$out/returns-text"), qr/^\{ id: sys_openat +\[257\], ret: +-2 *\} hitcount: +\d+$/m, "$kernel: results have their sign");
	is_healthy("$kernel, returns", $log, "$out/returns-err");
}

sub check {
	my ($kernel) = @_;
	my $out = "$build/guest/hist-$kernel";
	make_path($out);
	my ($place, $own_place, $often) = @{$inside{$kernel} // []};
	write_file("$out/inside", $own_place // '');
	build_initrd("$out/initrd", "$FindBin::RealBin/hist-inside=/bin/hist-inside", "$out/inside=/etc/inside");
	on_kvm_host({}, "$FindBin::RealBin/hist-guest", $out, kernel_image($kernel), "$out/initrd", $place // (), $often // ());
	my $log = slurp("$out/log") =~ s/\r//gr;
	my $document = JSON::PP::decode_json(slurp("$out/hists") || '{}');
	like($log, qr/^sonde-task 10000$/m, "$kernel: the task has the number that is counted");
	my %least = (alloc => 20, sys_enter => 10, open => 2);
	my $has_triggers = printed($log, 'kmalloc') ne '';
	my $traced = traced_entries($log);
	for my $event (qw(alloc sys_enter open)) {
		my @parts = $event eq 'alloc' ? qw(kmalloc kmalloc_node kmem_cache_alloc kmem_cache_alloc_node) : $event;
		my $own = $has_triggers ? {} : $traced->{$event} // {};
		add($own, own_entries(printed($log, $_))) for $has_triggers ? @parts : ();
		my ($seen, $dropped) = seen_entries($document, $event, !$has_triggers);
		my $hits = 0;
		$hits += (split / /)[0] for values %$own;
		cmp_ok(scalar(keys %$own), '>=', $least{$event}, "$kernel, $event: " . keys(%$own) . " entries by the guest, $hits hits");
		is_deeply($seen, $own, "$kernel, $event: each is the same by Sonde");
		is($dropped, 0, "$kernel, $event: none is dropped");
	}
	my $text = slurp("$out/text");
	like($text, qr/^\{ call_site: \[f[0-9a-f]{15}\] \w+\+0x[0-9a-f]+\S* +\} hitcount: +\d+  bytes_req: +\d+  bytes_alloc: +\d+$/m,
		"$kernel: an entry is printed as by ftrace");
	like($text, qr/^\{ id: sys_openat +\[257\] \} hitcount: +\d+$/m, "$kernel: system calls have names");
	like($text, qr/^Totals:\n    Hits: \d+\n    Entries: \d+\n    Dropped: 0$/m, "$kernel: so are the totals");
	is_healthy($kernel, $log, "$out/err");
	check_returns($kernel, $out, $has_triggers);
	check_chains($kernel, $out) if $has_triggers;
}

check($_) for GuestConfigs::kernels('6.1');
done_testing();
