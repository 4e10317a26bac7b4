#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The stacks that a guest's kernel shows of functions that we trace are complete, and those of an untraced
# guest: of a warning in one, of the guest's own trace events, of tasks that sleep in one. Tracing ends while
# they do, our memory goes, and they are none the wiser. GUEST='5.10 6.12' for other kernels than 6.1.
use strict;
use warnings;
use FindBin;
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Files;
use GuestConfigs;
use GuestLog;
use MarkedGuest;
use Testbed;
use Tree;

my $allocates = qr/(?:kmem_cache_alloc|__kmalloc|kmalloc_|__alloc_pages)\w*\+/;

# The frames of a warning that its kernel vouches for, and where it was.
sub frames {
	my @lines = @_;
	my ($rip) = map { /RIP: 0010:(\S+)/ } @lines;
	shift @lines while @lines && $lines[0] !~ /Call Trace/;
	my @frames = map { /^\[[^]]*\] +(\S+\+0x\S+)/ } @lines;
	my @unknown = grep { /^\[[^]]*\] +(?:\? )?(?:\[<)?(?:0x)?[0-9a-f]{16}/ } @lines;
	return ($rip // 'none', \@frames, \@unknown);
}

sub check_warning {
	my ($log) = @_;
	my ($traced, $untraced) = found_by_phase($log, 'warning', qw(traced untraced));
	my ($rip, $frames, $unknown) = frames(@$traced);
	my ($own_rip, $own_frames) = frames(@$untraced);
	like($own_rip, qr/^__alloc_(?:frozen_)?pages/, 'the kernel warns in a function that we trace');
	is($rip, $own_rip, 'at the same place when traced');
	is_deeply($frames, $own_frames, 'with the same stack');
	is_deeply($unknown, [], 'and nothing unknown in it');
	like($frames->[-1] // '', qr/^entry_SYSCALL_64_after_hwframe/, 'and all, down to the system call');
}

sub check_chain {
	my ($log) = @_;
	my ($traced, $untraced) = found_by_phase($log, 'chain', qw(traced untraced));
	is_deeply($traced, $untraced, "the stack of the guest's own event is the same");
	ok(grep({ /^__alloc_(?:frozen_)?pages/ } @$traced), 'a function that we trace is in it');
	like($traced->[-1] // '', qr/^entry_SYSCALL_64_after_hwframe/, 'and all, down to the system call');
}

sub is_complete {
	my @frames = grep { !/^\[<0>\]$/ } split ' ', $_[0];
	return $frames[-1] =~ /^(?:entry_SYSCALL_64_after_hwframe|asm_\w+|ret_from_fork\w*)\+/ &&
		!grep { !/^[\w.]+\+0x[0-9a-f]+\/0x[0-9a-f]+$/ } @frames;
}

sub check_sleepers {
	my ($log, $result) = @_;
	my @asleep = $log =~ /^found-asleep: (.*)$/mg;
	my ($before, $after) = map { $log =~ /^found-same: $_ (.*)$/m } qw(before after);
	cmp_ok(scalar @asleep, '>', 0, 'tasks slept in functions that we trace');
	is_deeply([grep { !is_complete($_) } @asleep], [], 'their stacks are complete');
	like($before, $allocates, 'one slept there');
	cmp_ok($result->{in_flight} // 0, '>', 0, 'and we knew of it');
	like($result->{unmapped} // '', qr/not a mapped kernel address/, 'while tracing ended and our memory went');
	is($after, $before, 'and slept on, with the same stack');
	note(scalar @asleep, " asleep; the last one: $before");
}

sub judge {
	my ($out, $log, $result) = @_;
	my ($asleep) = map { $result->{marks}{$_} } grep { /^asleep/ } keys %{$result->{marks}};
	is($asleep->{mode}, 'exitless', 'it is in exitless mode');
	check_warning($log);
	check_chain($log);
	check_sleepers($log, $result);
	is_deeply([found($log, 'failure')], [], 'nothing failed in it');
	my @trouble = trouble($log, "can't unwind", 'bad frame', 'unwind stack', 'not found');
	is_deeply([grep { !/^found-/ } @trouble], [], "no trouble in the guest's log");
	is(scalar(() = $log =~ /^found-warning: .*cut here/mg), 2, 'nor any warning but those two');
	system("\Q$build\E/sonde check \Q$out\E/trace >/dev/null");
	is($?, 0, 'sonde check finds no error');
}

sub test_guest {
	my ($version) = @_;
	my $out = "$build/guest/stacks-$version";
	empty_folder($out);
	build_initrd("$out/initrd", "$FindBin::RealBin/stacks-inside=/bin/stacks-inside");
	judge($out, MarkedGuest::run($out, $version, 'exitless', 'stacks-inside'));
}

for my $version (GuestConfigs::kernels('6.1')) {
	subtest $version => sub { test_guest($version) };
}
done_testing();
