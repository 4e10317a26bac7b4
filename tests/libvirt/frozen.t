#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The file system of a trace hangs: it is frozen while the domain writes records as fast as it can, or stops for each call in
# trap mode. The domain goes on, what is lost is counted, and when the file system works again the trace is valid and the domain can be left.
use strict;
use warnings;
use FindBin;
use Test::More;
use Time::HiRes qw(sleep time);

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib", "$FindBin::RealBin/../guest";
use AttachTest;
use Files;
use GuestLog;
use Process;
use Ticks;

# Seconds of the guest's time, and of the host's at most. The guest's watchdogs report a soft lockup after 2 * LOCKUP, and
# a stall of RCU after STALL, which are the lowest. By default these are 20 and 21.
use constant { FROZEN => 15, FROZEN_MOST => 60, LONGEST_GAP => 5, LOCKUP => 1, STALL => 3 };

# Many events: what waits for a disk is 8 MiB, and the rings.
my @specs = ('--trace', 'kmem', '--trace', 'function:vfs_*,*alloc*,*free*,*page*,*lock*,parent,pid');

my ($disk, $frozen, @tracers);

sub freeze { $frozen = !system('fsfreeze', '-f', $disk) }
sub thaw { system('fsfreeze', '-u', $disk) if $frozen; $frozen = 0 }

END {
	my $status = $?;
	thaw();
	kill KILL => @tracers;
	system("umount -l \Q$disk\E") if $disk;
	$? = $status;
}

# Whether a thread of the process waits in the kernel for a file system (proc(5): D).
sub hangs {
	my ($pid) = @_;
	return grep { slurp($_) =~ /^.*\) D/s } glob "/proc/$pid/task/*/stat";
}

# A file system of its own for traces, or why there is none.
sub mount_disk {
	my $at = "$work/out";
	run_or_die('truncate', '-s', '512M', "$work/disk");
	my $said = `mkfs.ext4 -q "$work/disk" 2>&1 && mount -o loop "$work/disk" "$at" 2>&1`;
	return "no loop device can be mounted: $said" if $?;
	$disk = $at;
	chmod 0777, $disk;
	return "the file system cannot be frozen" unless freeze();
	thaw();
	return '';
}

# The guest's times of its ticks behind the first $skipped, in seconds; in a scalar context how many there are.
sub times_behind {
	my ($name, $skipped) = @_;
	my @all = ticks_of($libvirt->serial($name));
	my @later = @all[$skipped .. $#all];
	return @later;
}

# The file system hangs for FROZEN seconds of the guest's time, in which no watchdog of the guest fires.
sub is_alive_frozen {
	my ($name, $what) = @_;
	my $before = times_behind($name, 0);
	ok(freeze(), "$what: the file system of the trace hangs");
	my @times;
	wait_until(FROZEN_MOST, sub { @times = times_behind($name, $before); @times && $times[-1] - $times[0] >= FROZEN });
	cmp_ok($times[-1] - $times[0], '>=', FROZEN, "$what: the guest goes on") or describe($name);
	cmp_ok(longest_gap(@times), '<', LONGEST_GAP, sprintf "$what: it stands still for %.2f s at most", longest_gap(@times));
	is_untroubled($libvirt->serial($name) =~ s/\r//gr, "$what: no watchdog of the guest fires", WARNINGS);
}

sub test_frozen {
	my ($name) = @_;
	push @tracers, my $pid = $libvirt->spawn('traced', attach_command($name, @specs));
	ok(wait_tracing(), 'attach traces') or diag(log_of('traced'));
	sleep 1;
	is_alive_frozen($name, 'exitless');
	thaw();
	sleep 1;
	kill INT => $pid;
	is($libvirt->wait_for(pop @tracers, 60), 1, 'SIGINT ends attach with status 1, as events are missing') or diag(log_of('traced'));
	like(log_of('traced'), qr/, lost: [\d,]+ records: not written/, 'attach says what was lost, and why');
	like(log_of('traced'), qr/^sonde attach: cpu0: cannot write: /m, 'and that the disk did not take it');
	note(log_of('traced'));
	my (undef, undef, $lost) = report();
	cmp_ok($lost, '>', 0, "the trace has the number: $lost");
	my ($status, $said) = $libvirt->run("$work/sonde", 'check', trace_dir());
	is($status, 0, 'the trace is valid') or diag($said);
	is_as_before($name, 'afterwards');
	is_untroubled($libvirt->serial($name) =~ s/\r//gr, "the guest's log has no warnings", WARNINGS);
}

# SIGINT leaves the domain before the file system works again.
sub test_left {
	my ($name) = @_;
	push @tracers, my $pid = $libvirt->spawn('left', attach_command($name, @specs));
	ok(wait_tracing(), 'attach traces once more') or diag(log_of('left'));
	sleep 1;
	ok(freeze(), 'the file system hangs again');
	sleep 3;
	kill INT => $pid;
	ok(wait_until(30, sub { text_of($name) eq text_before($name) }), 'SIGINT takes all patches out, though it hangs');
	ok(wait_until(30, sub { log_of('left') =~ /: the disk has not answered for \d+ s: waiting for it$/m }), 'and says what it waits for');
	thaw();
	like($libvirt->wait_for(pop @tracers, 60), qr/^(1|130)$/, 'then attach ends') or diag(log_of('left'));
	my ($status, $said) = $libvirt->run("$work/sonde", 'check', trace_dir());
	is($status, 0, 'that trace is valid, too') or diag($said);
	is_as_before($name, 'in the end');
}

# In trap mode the domain stands still for each call. Its disk has room for all of them.
sub test_traps {
	my ($name) = @_;
	push @tracers, my $pid = $libvirt->spawn('trapped', attach_command($name, '--mode', 'trap'));
	ok(wait_tracing(), 'attach traces by traps') or diag(log_of('trapped'));
	sleep 1;
	is_alive_frozen($name, 'the domain stops for each call');
	kill INT => $pid;
	ok(wait_until(30, sub { text_of($name) eq text_before($name) }), 'SIGINT takes all breakpoints out, though the disk hangs');
	my $left = times_behind($name, 0);
	ok(wait_until(30, sub { times_behind($name, 0) > $left + 20 }), 'and the guest works on') or describe($name);
	thaw();
	# 1: the disk has not answered in time; it had no more than one packet of each vCPU to write.
	like($libvirt->wait_for(pop @tracers, 60), qr/^(1|130)$/, 'attach ends when the disk works again') or diag(log_of('trapped'));
	like(log_of('trapped'), qr/, lost: none( counted, but recording failed)?(, beside what happened in the gaps)?$/m, 'no record of a call that was traced is lost') or diag(log_of('trapped'));
	my ($status, $said) = $libvirt->run("$work/sonde", 'check', trace_dir());
	is($status, 0, 'the trace of traps is valid') or diag($said);
	is_as_before($name, 'after traps');
}

# A tracer that is killed while one of its threads hangs in the kernel keeps its journal, and its connection to the gdbstub.
sub test_killed {
	my ($name) = @_;
	push @tracers, my $pid = $libvirt->spawn('killed', attach_command($name, '--mode', 'trap'));
	ok(wait_tracing(), 'attach traces by traps again') or diag(log_of('killed'));
	sleep 1;
	ok(freeze(), 'the disk hangs');
	ok(wait_until(30, sub { hangs($pid) }), 'and so does a thread of the tracer');
	kill KILL => $pid;
	ok(wait_until(40, sub { text_of($name) eq text_before($name) }), 'it is killed: its watchdog takes all breakpoints out') or diag(log_of('killed'));
	my $left = times_behind($name, 0);
	ok(wait_until(30, sub { times_behind($name, 0) > $left + 20 }), 'and the guest works on') or describe($name);
	ok(wait_undone(), 'it undoes everything') or diag(log_of('killed'));
	ok(hangs($pid), 'though the thread hangs all the time');
	thaw();
	$libvirt->wait_for(pop @tracers, 60);
	is_as_before($name, 'after the kill');
}

# The same when SIGINT has taken all patches out, and its first thread waits for the disk to finish the trace.
sub test_killed_at_end {
	my ($name) = @_;
	push @tracers, my $pid = $libvirt->spawn('ending', attach_command($name, @specs));
	ok(wait_tracing(), 'attach traces a last time') or diag(log_of('ending'));
	sleep 1;
	ok(freeze(), 'the disk hangs a last time');
	sleep 3;
	kill INT => $pid;
	ok(wait_until(30, sub { log_of('ending') =~ /: the disk has not answered for \d+ s: waiting for it$/m }), 'its end waits for the disk');
	kill KILL => $pid;
	ok(wait_undone(), 'its watchdog undoes the rest') or diag(log_of('ending'));
	ok(hangs($pid), 'though it hangs all the time');
	thaw();
	$libvirt->wait_for(pop @tracers, 60);
	is_as_before($name, 'after that kill');
}

AttachTest::start();
my $why = mount_disk();
plan skip_all => $why if $why;
build_initrd("$work/initrd", "$FindBin::RealBin/../guest/frozen-inside=/etc/rc");
start_ticking('frozen');
like($libvirt->serial('frozen'), qr/^watchdogs: 1 after @{[LOCKUP]}, @{[STALL]}\r?$/m, "the guest's watchdogs are on");
test_frozen('frozen');
test_left('frozen');
test_traps('frozen');
test_killed('frozen');
test_killed_at_end('frozen');
is_untroubled($libvirt->serial('frozen') =~ s/\r//gr, "the guest's log has no warnings in the end", WARNINGS);
$libvirt->destroy('frozen');
done_testing();
