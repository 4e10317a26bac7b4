#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# sonde attach and sonde recover with a real libvirtd and real domains: what is refused, what is
# traced, how a trace ends, and that the domain is as before afterwards. (kills.t: a process dies.)
use strict;
use warnings;
use FindBin;
use Test::More;
use Time::HiRes qw(sleep time);

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use AttachTest;
use Process;

# A user who is neither root nor libvirt's.
use constant STRANGER => 65533;

sub test_refusals {
	my @cases = (
		['no such domain', qr/no domain 'nope'/, $libvirt->sonde('attach', 'nope', '-k', $kernel, '-o', "$work/out/x")],
		['not running', qr/idle is not running/, $libvirt->sonde('attach', 'idle', '-k', "$work/t.kernel", '-o', "$work/out/x")],
		["another hypervisor's domain", qr/only QEMU's/, "$work/sonde", 'attach', '-c', 'test:///default', 'test', '-k', 'x', '-o', 'y'],
		['no connection', qr/cannot connect/, "$work/sonde", 'attach', '-c', 'qemu+unix:///session?socket=/nowhere', 't', '-k', 'x', '-o', 'y'],
		['no kernel file', qr/no-kernel/, $libvirt->sonde('attach', 't', '-k', "$work/no-kernel", '-o', "$work/out/x")],
		['another kernel', qr/another kernel: Linux version 6\.1/, $libvirt->sonde('attach', 't', '-k', "$work/other.kernel", '-o', "$work/out/x")],
	);
	for my $case (@cases) {
		my ($name, $pattern, @command) = @$case;
		my ($status, $text) = $libvirt->run(@command);
		is($status, 1, "$name: attach has status 1") or diag($text);
		like($text, $pattern, "$name: the error names the cause");
		is(scalar(split /\n/, $text), 1, "$name: the error is one line") or diag($text);
	}
	$libvirt->virsh('suspend', 't');
	my ($status, $text) = attach('t', '--duration', 1);
	like($text, qr/t is paused: resume it/, 'a paused domain is refused');
	is($libvirt->state_of('t'), 'paused', 'a paused domain that is refused stays paused');
	$libvirt->virsh('resume', 't');
	($status, $text) = recover('t');
	is($text, "t: nothing to recover\n", 'recover finds nothing to do');
}

sub test_plain {
	my $qemu = $libvirt->qemu('t');
	my $descriptors = () = glob "/proc/$qemu/fd/*";
	my $pid = $libvirt->spawn('first', attach_command('t', '--duration', 4, '--monitor', "$work/run/m"));
	ok(wait_tracing(), 'attach traces');
	my @modes = map { sprintf '%o', (stat)[2] & 0777 } grep { readlink =~ m{^/dev/shm/ua-sonde-} } glob "/proc/$qemu/fd/*";
	is("@modes", '600', 'no other user can read the memory that QEMU shares');
	my ($status, $text) = attach('t', '--duration', 1);
	like($text, qr/another sonde is attached/, 'a second tracer is refused');
	($status, $text) = $libvirt->run("$work/sonde", 'ctl', '--json', "$work/run/m", 'query-trace');
	like($text, qr/"mode":\s*"exitless"/, 'the monitor reports exitless mode') or diag($text);
	($status, $text) = recover('t');
	like($text, qr/another sonde is attached/, 'recover of a domain that is being traced is refused');
	is($libvirt->wait_for($pid, 60), 0, 'attach has status 0') or diag(log_of('first'));
	last_trace();
	my ($allocs, $frees, $lost) = report();
	cmp_ok($allocs, '>', 500, "more than 500 allocations are traced: $allocs, and $frees frees");
	is($lost, 0, 'no event is lost');
	is_as_before('t', 'after tracing');
	is(scalar(() = glob "/proc/$qemu/fd/*"), $descriptors, 'QEMU has as many descriptors as before');
}

sub test_monitor {
	my $pid = $libvirt->spawn('monitored', attach_command('t', '--monitor', "$work/run/m"));
	ok(wait_tracing(), 'with a monitor: attach traces');
	my $ctl = sub { return join ' ', $libvirt->run("$work/sonde", 'ctl', "$work/run/m", @_) };
	is($ctl->('status'), "0 running\n", 'ctl status prints that the domain runs');
	is($ctl->('stop'), "1 sonde ctl: libvirt owns the domain: use 'virsh -c qemu:///session suspend t'\n",
		'ctl stop prints what pauses the domain');
	unlike($ctl->('help'), qr/^  (?:stop|cont) /m, 'ctl help lists neither stop nor cont');
	like($ctl->('trace', 'off'), qr/^0 tracing is off: [\d,]+ events in \S+, 0 lost$/, 'ctl trace off prints what the trace has');
	like($ctl->('trace', 'on'), qr/^0 tracing kmem: [1-9]\d* functions/, 'ctl trace on prints what is traced');
	like($ctl->('trace', 'off'), qr/^0 tracing is off: [\d,]+ events in \S+, 0 lost outside the gaps$/,
		'and ctl trace off that the trace has a gap now');
	like($ctl->('trace', 'on'), qr/^0 tracing kmem: /, 'ctl trace on goes on');
	$libvirt->virsh('suspend', 't');
	is($ctl->('status'), "0 paused\n", 'ctl status prints that the domain is paused');
	$libvirt->virsh('resume', 't');
	is($ctl->('quit'), '0 ', 'ctl quit succeeds');
	is($libvirt->wait_for($pid, 60), 0, 'ctl quit ends attach with status 0') or diag(log_of('monitored'));
	like(log_of('monitored'), qr/^next: sonde report \S+$/m, 'the last line names the next command');
	is_as_before('t', 'after ctl quit');
}

# Tracing was off and is on again, when the trace is checked and the tracer dies.
sub test_switched {
	my ($pid) = start_tracer('switched', '--monitor', "$work/run/s");
	for my $what ('off', 'on') {
		my ($status, $text) = $libvirt->run("$work/sonde", 'ctl', "$work/run/s", 'trace', $what);
		is($status, 0, "switched: ctl trace $what has status 0") or diag($text);
	}
	sleep 2;
	my ($status, $text) = $libvirt->run("$work/sonde", 'check', trace_dir());
	is($status, 0, 'switched: sonde check finds no error while attach records') or diag($text);
	like($text, qr/^Now +sonde attach is writing this trace/m, 'and says that it does');
	kill KILL => $pid;
	waitpid $pid, 0;
	ok(wait_undone(), 'switched: the watchdog undoes everything after SIGKILL');
	($status, $text) = $libvirt->run("$work/sonde", 'check', trace_dir());
	is($status, 0, 'switched: nor does sonde check after SIGKILL') or diag($text);
	like($text, qr/^Lost +1 gap: tracing was switched off\n +sonde attach did not end in order/m, 'and says how it ended');
	is_as_before('t', 'switched, and killed');
}

# Processes with the arguments of a domain's QEMU: of libvirt's user and, as root, of another one. Returns their PIDs.
sub start_decoys {
	my ($domain) = @_;
	my ($uuid) = $libvirt->virsh('domuuid', $domain) =~ /(\S+)/;
	my @pids = $libvirt->spawn('decoy', decoy_command($uuid));
	return @pids if $>;
	my $pid = fork // die "fork: $!";
	return (@pids, $pid) if $pid;
	exec 'setpriv', "--reuid=@{[STRANGER]}", "--regid=@{[STRANGER]}", '--clear-groups', decoy_command($uuid) or die "exec: $!";
}

sub end_decoys {
	my ($what, @pids) = @_;
	is(kill(0 => @pids), scalar @pids, "$what: they live all the time: @pids");
	kill KILL => @pids;
	waitpid $_, 0 for @pids;
}

# Any process may have QEMU's arguments; libvirt's pid file names the right one.
sub test_decoy {
	my $what = "attach beside processes with QEMU's arguments";
	my @decoys = start_decoys('t');
	my ($status, $text) = attach('t', '-v', '--duration', 1);
	is($status, 0, "$what has status 0") or diag($text);
	my ($qemu) = $text =~ /memory +a file shared by QEMU process (\d+)/;
	is($qemu, $libvirt->qemu('t'), "$what reads QEMU's memory") or diag($text);
	end_decoys($what, @decoys);
}

sub test_decoy_recovers {
	my $what = "recover beside processes with QEMU's arguments";
	leave_alone('unfinished');
	ok(text_of('t') ne text_before('t'), "$what: before, patches are in the domain");
	my @decoys = start_decoys('t');
	my ($status, $text) = recover('t');
	is($status, 0, "$what has status 0") or diag($text);
	like($text, qr/^t: [1-9][\d,]* places put back, memory device removed/, "$what undoes everything");
	end_decoys($what, @decoys);
	is_as_before('t', $what);
}

sub test_ends {
	my ($status, $text) = attach('t', '--until-events', 3000);
	is($status, 0, 'attach --until-events has status 0') or diag($text);
	like($text, qr/^sonde attach: --until-events is reached$/m, 'it says why it ended');
	my ($allocs, $frees) = report();
	cmp_ok($allocs + $frees, '>=', 3000, '--until-events 3000 traces at least that many: ' . ($allocs + $frees));
	my $pid = $libvirt->spawn('signal', attach_command('t'));
	ok(wait_tracing(), 'SIGINT: attach traces before');
	kill INT => $pid;
	is($libvirt->wait_for($pid, 60), 130, 'SIGINT: attach has status 130');
	is_as_before('t', 'after SIGINT');
}

sub test_suspended {
	my $pid = $libvirt->spawn('suspended', attach_command('t', '--duration', 3));
	ok(wait_tracing(), 'to be suspended: attach traces');
	sleep 0.5;
	$libvirt->virsh('suspend', 't');
	$libvirt->wait_for($pid, 60);
	is($libvirt->state_of('t'), 'paused', 'suspended while traced: the domain stays paused');
	is_text_as_before('t', 'suspended while traced');
	$libvirt->virsh('resume', 't');
	ok(wait_undone(), 'suspended while traced: the watchdog undoes the rest once it is resumed');
	is_as_before('t', 'suspended while traced, and resumed');
}

# A vCPU in the kernel may be in scratch memory. While the domain is suspended it cannot be seen elsewhere, unless its
# stacks lead to no address there: then nothing but the memory device is left.
sub suspend_in_kernel {
	for (1 .. 50) {
		suspend('t') or return 0;
		my $registers = $libvirt->virsh('qemu-monitor-command', 't', '--hmp', 'info registers');
		return 1 if $registers =~ /CPL=0\b/ && $registers =~ /HLT=0\b/;
		$libvirt->virsh('resume', 't');
		sleep rand 0.1;
	}
	return 0;
}

sub test_suspended_inside {
	my $pid = $libvirt->spawn('inside', attach_command('t'));
	ok(wait_tracing(), 'to be suspended in the kernel: attach traces');
	sleep 0.5;
	ok(suspend_in_kernel(), 'the domain is suspended with its vCPU in the kernel');
	my $from = time;
	kill INT => $pid;
	my $status = $libvirt->wait_for($pid, 60);
	cmp_ok(time - $from, '<', 8, sprintf 'suspended in the kernel: the trace ends %.1f s after SIGINT', time - $from);
	is($status, 1, 'suspended in the kernel: attach has status 1, because something is left');
	like(log_of('inside'), qr/run 'sonde recover -c qemu:\/\/\/session t': (?:places in the guest that are not restored: 1; the domain is paused|the domain is paused: to remove its memory device)/,
		'suspended in the kernel: the error names what is left, and why');
	is($libvirt->state_of('t'), 'paused', 'suspended in the kernel: the domain stays paused');
	is_text_as_before('t', 'suspended in the kernel');
	my ($allocs, undef, $lost) = report();
	cmp_ok($allocs, '>', 0, "suspended in the kernel: the trace has $allocs allocations");
	is($lost, 0, 'suspended in the kernel: no event is lost');
	$libvirt->virsh('resume', 't');
	ok(wait_undone(), 'suspended in the kernel: the watchdog undoes the rest once it is resumed');
	is_as_before('t', 'suspended in the kernel, and resumed');
}

# Root's tracers find each other in any environment. Another user's is found by its device.
sub test_root {
	my $uri = 'qemu+unix:///session?socket=' . ($libvirt->virsh('uri') && "$work/run/libvirt/libvirt-sock");
	my $as_root = sub {
		my ($name, $runtime, @command) = @_;
		my $pid = fork // die "fork: $!";
		return $pid if $pid;
		$runtime ? $ENV{XDG_RUNTIME_DIR} = $runtime : delete $ENV{XDG_RUNTIME_DIR};
		open STDOUT, '>', "$work/$name.txt" or die $!;
		open STDERR, '>&', \*STDOUT;
		exec "$work/sonde", shift @command, '-c', $uri, 't', @command or die "exec: $!";
	};
	my @output = ('-o', trace_dir() . '-root');
	my $pid = $as_root->('root', "$work/data", 'attach', @output);
	my $uuid = $libvirt->virsh('domuuid', 't') =~ s/\s+//gr;
	my $journal = "/run/sonde/$uuid";
	wait_until(30, sub { -s $journal && text_of('t') ne text_before('t') });
	ok(-s $journal, "root: the journal is in /run/sonde") or diag(log_of('root'));
	for my $runtime ($work, undef) {
		my $which = ($runtime ? 'another' : 'no') . ' XDG_RUNTIME_DIR';
		is($libvirt->wait_for($as_root->('second', $runtime, 'attach', '-o', "$work/out/no"), 60), 1,
			"root: a second attach with $which has status 1");
		like(log_of('second'), qr/another sonde is attached/, "root: a second attach with $which finds the first");
	}
	for my $mode ('exitless', 'trap') {
		my ($status, $text) = attach('t', '--duration', 1, '--mode', $mode);
		like($text, qr/has a device of an earlier sonde/, "root: another user's attach --mode $mode is refused because of the device");
		last_trace();
	}
	kill_hard(children_of($pid), $pid);
	waitpid $pid, 0;
	is($libvirt->wait_for($as_root->('recover', undef, 'recover'), 60), 0, 'root: recover has status 0');
	like(log_of('recover'), qr/[1-9]\d* places? put back/, 'root: recover puts places back');
	ok(!-e $journal, 'root: recover removes the journal');
	system('rm', '-r', $output[1]);
	is_as_before('t', 'traced by root');
}

sub test_destroyed {
	my $pid = $libvirt->spawn('destroyed', attach_command('t'));
	ok(wait_tracing(), 'to be destroyed: attach traces');
	sleep 0.5;
	$libvirt->destroy('t');
	is($libvirt->wait_for($pid, 60), 0, 'destroyed while traced: attach has status 0') or diag(log_of('destroyed'));
	like(log_of('destroyed'), qr/the domain was destroyed, and the trace ended with it/, 'destroyed while traced: attach says so');
	my ($allocs) = report();
	cmp_ok($allocs, '>', 0, "destroyed while traced: the trace has $allocs allocations");
	is(scalar(journals()), 0, 'destroyed while traced: no journal is left');
}

sub test_machine {
	my ($name, %option) = @_;
	my $what = join ', ', map { "$_ $option{$_}" } sort keys %option;
	start_domain($name, %option);
	if (!$libvirt->wait_serial($name, qr/tick/, 120)) {
		fail("$what: the guest boots");
		return;
	}
	my ($status, $text) = attach($name, '-v', '--duration', 2);
	is($status, 0, "$what: attach has status 0") or diag($text);
	like($text, $option{memory} // '' eq 'private' ? qr{memory +/proc/\d+/mem} : qr/memory +a file shared by QEMU process \d+/, "$what: -v says how memory is read");
	my ($allocs, $frees, $lost) = report();
	cmp_ok($allocs, '>', 100, "$what: more than 100 allocations are traced: $allocs");
	is($lost, 0, "$what: no event is lost");
	ok(lives($name), "$what: the guest makes progress");
	$libvirt->destroy($name);
}

AttachTest::start();
start_ticking('t');
is(scalar(journals()), 0, '--dry-run leaves no journal');
start_domain('idle', persistent => 1);
system('cp', "$build/kernels/5.10/vmlinuz", "$work/other.kernel");
test_refusals();
test_plain();
test_monitor();
test_switched();
test_decoy();
test_decoy_recovers();
test_ends();
test_suspended();
test_suspended_inside();
SKIP: {
	skip 'needs root', 10 if $>;
	test_root();
}
test_destroyed();
test_machine('private', memory => 'private');
$libvirt->virsh('undefine', 'idle');
delete $libvirt->{domains}{idle};
done_testing();
