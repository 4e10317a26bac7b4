#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The stack traces that a guest's kernel prints of traced functions are complete, and the same as in an
# untraced guest: of a warning in a traced function, of the guest's own trace events, of tasks that sleep in
# a traced function. Tracing ends and the trampolines are unmapped while such tasks sleep.
# GUEST='5.10 6.12' for other kernels than 6.1.
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

# Of a warning: the function that warned, the frames that the unwinder is sure of, and addresses without a symbol.
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
	like($own_rip, qr/^__alloc_(?:frozen_)?pages/, 'the untraced kernel warns in a function that Sonde traces');
	is($rip, $own_rip, 'the traced kernel warns at the same place');
	is_deeply($frames, $own_frames, 'the stack of the warning is the same with tracing');
	is_deeply($unknown, [], 'the stack of the warning has no unknown address');
	like($frames->[-1] // '', qr/^entry_SYSCALL_64_after_hwframe/, 'the stack of the warning reaches the system call entry');
}

sub check_chain {
	my ($log) = @_;
	my ($traced, $untraced) = found_by_phase($log, 'chain', qw(traced untraced));
	is_deeply($traced, $untraced, "the stack of the guest's trace event is the same with tracing");
	ok(grep({ /^__alloc_(?:frozen_)?pages/ } @$traced), "the stack of the guest's trace event has a traced function");
	like($traced->[-1] // '', qr/^entry_SYSCALL_64_after_hwframe/, "the stack of the guest's trace event reaches the system call entry");
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
	cmp_ok(scalar @asleep, '>', 0, 'tasks slept in traced functions');
	is_deeply([grep { !is_complete($_) } @asleep], [], 'the stacks of the sleeping tasks are complete');
	like($before, $allocates, 'one task was kept asleep in a traced function');
	cmp_ok($result->{in_flight} // 0, '>', 0, 'its call was counted as in flight');
	like($result->{unmapped} // '', qr/not a mapped kernel address/, 'the trampolines were unmapped while the task slept');
	is($after, $before, 'the task slept on, with the same stack');
	note(scalar @asleep, " asleep; the last one: $before");
}

sub judge {
	my ($out, $log, $result) = @_;
	my ($asleep) = map { $result->{marks}{$_} } grep { /^asleep/ } keys %{$result->{marks}};
	is($asleep->{mode}, 'exitless', 'tracing was in exitless mode');
	check_warning($log);
	check_chain($log);
	check_sleepers($log, $result);
	is_deeply([found($log, 'failure')], [], 'no command failed in the guest');
	my @trouble = trouble($log, "can't unwind", 'bad frame', 'unwind stack', 'not found');
	is_deeply([grep { !/^found-/ } @trouble], [], "the guest's log has no kernel warnings and no unwinder errors");
	is(scalar(() = $log =~ /^found-warning: .*cut here/mg), 2, 'the kernel gave the two provoked warnings and no other');
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
