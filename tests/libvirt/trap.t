#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# sonde attach --mode trap: breakpoints of QEMU's gdbstub instead of scratch memory. What is traced, that a
# sample is reported as one, and that the domain runs on without breakpoints whatever happens to the tracer.
# KILLS (2): how often the tracer is killed; STALLS (0; 1 in check-long): how often libvirtd and QEMU are stopped until
# the tracer gives them up; SEED: of the moments; BUDGET: seconds, instead of KILLS.
use strict;
use warnings;
use FindBin;
use Fcntl qw(O_NOCTTY O_NONBLOCK O_RDWR O_WRONLY);
use POSIX qw(WNOHANG);
use Test::More;
use Time::HiRes qw(sleep time);

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use AttachTest;
use Campaign;
use Files;
use Process;

use constant { TIOCSPTLCK => 0x40045431, TIOCGPTN => 0x80045430 }; # <asm-generic/ioctls.h>

my $seed = $ENV{SEED} // int(time) ^ $$;

sub trap { return attach($_[0], '--mode', 'trap', @_[1 .. $#_]) }

sub count_of { return sidecar() =~ /"$_[0]": "?(\d+)/ ? $1 : -1 }

sub test_plain {
	my ($name) = @_;
	# enough for the end of a process, which frees a lot
	my $events = 150;
	my ($status, $text) = trap($name, '--max-rate', 0, '--until-events', $events, '--duration', 60, '-v');
	is($status, 0, "$name: attach has status 0") or diag($text);
	my ($allocs, $frees, $lost) = report();
	cmp_ok($allocs + $frees, '>=', $events, "$name: at least $events events are traced");
	cmp_ok($allocs, '>', 0, "$name: allocations are traced: $allocs");
	cmp_ok($frees, '>', 0, "$name: frees are traced: $frees");
	is($lost + count_of('lost') + count_of('samplings'), 0, "$name: no event is lost or left out");
	like($text, qr/, lost: none$/m, "$name: attach says that nothing is missing");
	like(sidecar(), qr/"mode": "trap"/, "$name: the sidecar says trap mode");
	like(sidecar(), qr/"memory": "a file shared by QEMU process/, "$name: the sidecar says how memory was read");
	like($text, qr/[\d.]+ events per second/, "$name: -v prints the rate");
	my ($hits) = map { tr/,//dr } $text =~ /([\d,]+) breakpoints? hit/;
	is($hits, count_of('traps'), "$name: -v prints as many hits as the sidecar has traps");
	my ($checked, $found) = $libvirt->run("$work/sonde", 'check', trace_dir());
	is($checked, 0, "$name: sonde check finds no error") or diag($found);
	is_as_before($name, "$name: after tracing");
}

sub test_call_sites {
	my ($status, $text) = $libvirt->run("$work/sonde", 'report', trace_dir());
	like($text, qr{\w+\+0x[0-9a-f]+/0x[0-9a-f]+}, 'call sites have the names of the guest\'s functions');
	unlike($text, qr/a sample/, 'a whole trace is not called a sample');
}

# The rest of each second is left out, and every output says so.
sub test_sample {
	my $rate = 3;
	my ($status, $text) = trap('t', '--max-rate', $rate, '--duration', 4);
	is($status, 0, '--max-rate: attach has status 0') or diag($text);
	like($text, qr/\d gaps? \([\d,.]+ ms of [\d,]+ ms, [\d.]+ %\): this is a sample/, '--max-rate: attach reports the sample');
	like($text, qr/, lost: none, beside what happened in the gaps$/m, '--max-rate: attach does not say that nothing is missing');
	is(count_of('max_rate'), $rate, '--max-rate: the sidecar has the rate');
	cmp_ok(count_of('samplings'), '>=', 1, '--max-rate: at least one second ends early: ' . count_of('samplings'));
	my ($out, $on) = (count_of('unsampled_ns'), count_of('tracing_ns'));
	ok($out > 0 && $out < $on, "--max-rate: part of the time is not traced: $out of $on ns");
	# a call is at most two hits; open calls are waited for, up to as many again
	my $seconds = 1 + $on / 1e9;
	cmp_ok(count_of('traps'), '<=', 4 * $rate * $seconds + 20, '--max-rate: the number of hits is bounded: ' . count_of('traps'));
	($status, $text) = $libvirt->run("$work/sonde", 'report', trace_dir());
	like($text, qr/this is a sample/, '--max-rate: sonde report says that it is a sample');
	($status, $text) = $libvirt->run("$work/sonde", 'check', trace_dir());
	like($text, qr/this is a sample/, '--max-rate: sonde check says that it is a sample');
	is_as_before('t', '--max-rate');
}

# As from within a container: libvirt answers, QEMU's process is not visible.
sub test_gdbstub_memory {
	SKIP: {
		skip 'a PID namespace takes root', 9 if $> != 0;
		my @alone = qw(unshare --pid --fork --mount-proc);
		my ($status, $text) = $libvirt->run_as(\@alone, attach_command('t', '--duration', 1));
		is($status, 1, 'QEMU not visible: exitless mode is refused');
		like($text, qr/only be read by QEMU's gdbstub.*--mode trap/, 'QEMU not visible: the error offers trap mode');
		($status, $text) = $libvirt->run_as(\@alone, attach_command('t', qw(--mode trap --max-rate 0 --until-events 20 --duration 60 -v)));
		is($status, 0, 'QEMU not visible: attach in trap mode has status 0') or diag($text);
		like($text, qr/memory +by QEMU's gdbstub: /, 'QEMU not visible: -v says how memory is read, and why');
		like(sidecar(), qr/"memory": "by QEMU's gdbstub: /, 'QEMU not visible: the sidecar says how memory is read');
		unlike($text, qr/watchdog/, 'QEMU not visible: the tracer undoes everything without its watchdog');
		my ($allocs, $frees) = report();
		cmp_ok($allocs + $frees, '>', 10, "QEMU not visible: more than 10 events are traced: $allocs allocations, $frees frees");
		($status, $text) = $libvirt->run_as(\@alone, attach_command('t', '--dry-run'));
		is($status, 1, 'QEMU not visible: --dry-run is refused');
		like($text, qr/a dry run would have to stop the domain/, 'QEMU not visible: --dry-run says why');
	}
	is_as_before('t', 'QEMU not visible');
}

sub test_kills {
	my ($name, $kills) = @_;
	my ($harmed, $late, $hot) = (0, 0, 0);
	my $extra = 5;    # a few more, until one came while breakpoints were in place
	while (my $i = $kills->next) {
		my $pid = $libvirt->spawn('killed', attach_command($name, '--mode', 'trap', '--max-rate', 0));
		wait_tracing() if $i % 2;
		my $after = rand 1.2;
		sleep $after;
		kill KILL => $pid;
		waitpid $pid, 0;
		my $at = time;
		wait_undone();
		$late++ if time - $at > 3;
		$hot++ if log_of('killed') =~ /removed the breakpoints/;
		$kills->extend if $kills->is_last && !$hot && $extra--;
		my @wrong = leftovers($name);
		next unless @wrong;
		$harmed++;
		diag(sprintf 'kill %d after %.3f s: %s; %s', $i, $after, "@wrong", log_of('killed'));
		recover($name);
	}
	my $count = $kills->done;
	add_total($count, 'kills of the tracer');
	is($harmed, 0, "$name: SIGKILL of the tracer, $count times (seed $seed): the domain is as before");
	is($late, 0, "$name: SIGKILL of the tracer, $count times: all is undone within 3 s");
	cmp_ok($hot, '>', 0, "$name: SIGKILL of the tracer: breakpoints were in place $hot times");
}

# Without libvirtd the gdbstub is still there: the tracer removes its breakpoints, and the domain runs on.
sub test_daemon {
	my $pid = $libvirt->spawn('daemon', attach_command('t', '--mode', 'trap', '--max-rate', 0));
	ok(wait_tracing(), 'libvirtd to be killed: attach traces') or return;
	sleep 0.5;
	kill_hard($libvirt->libvirtd);
	is($libvirt->wait_for($pid, 60), 1, 'libvirtd killed while traced: attach has status 1') or diag(log_of('daemon'));
	ok(lives('t'), 'libvirtd killed while traced: the guest makes progress');
	wait_undone();
	# the next libvirtd learns of it from QEMU
	wait_until(20, sub { $libvirt->state_of('t') eq 'running' });
	is_as_before('t', 'libvirtd killed while traced');
}

# A libvirtd that hangs holds the guest no longer than its connection takes to be given up.
sub test_daemon_hangs {
	my $pid = $libvirt->spawn('hangs', attach_command('t', '--mode', 'trap', '--max-rate', 0));
	ok(wait_tracing(), 'libvirtd to be stopped: attach traces') or return;
	sleep 0.5;
	my ($daemon, $from) = ($libvirt->libvirtd, time);
	kill STOP => $daemon;
	my $status = $libvirt->wait_for($pid, 120);
	is($status, 1, sprintf 'libvirtd stopped while traced: attach ends with status 1 after %.0f s', time - $from) or diag(log_of('hangs'));
	ok(lives('t'), 'libvirtd stopped while traced: the guest makes progress');
	kill CONT => $daemon;
	ok(wait_undone(), 'libvirtd continued: nothing is left to undo');
	# it has yet to read what QEMU said meanwhile
	wait_until(20, sub { $libvirt->state_of('t') eq 'running' });
	is_as_before('t', 'libvirtd stopped while traced');
}

sub test_recover {
	leave_alone('orphan', '--mode', 'trap', '--max-rate', 0);
	is(scalar(journals()), 1, 'tracer and watchdog killed: the journal is left');
	ok(wait_until(20, sub { $libvirt->virsh('qemu-monitor-command', 't', '--hmp', 'info status') =~ /paused/ }),
		'tracer and watchdog killed: the domain stands at a breakpoint');
	my ($status, $text) = recover('t');
	is($status, 0, 'recover has status 0');
	like($text, qr/breakpoints removed/, 'recover says that it has removed breakpoints');
	is_as_before('t', 'after recover');
}

# Another user's journals are in another folder: only the domain shows that it is traced.
sub test_other_user {
	my $pid = $libvirt->spawn('first', attach_command('t', '--mode', 'trap', '--max-rate', 0));
	ok(wait_tracing(), "before another user's attach: attach traces") or return;
	for my $options (['--mode', 'trap'], [], ['--dry-run']) {
		my ($status, $text) = $libvirt->run('env', "XDG_RUNTIME_DIR=$work/out", attach_command('t',
			'-c', "qemu+unix:///session?socket=$work/run/libvirt/libvirt-sock", @$options));
		is($status, 1, "another user's attach is refused: @$options");
		is($text, "sonde attach: another user's sonde is attached to domain t\n", "another user's attach says why: @$options");
	}
	kill INT => $pid;
	is($libvirt->wait_for($pid, 60), 130, "after another user's attach SIGINT ends the first with status 130") or diag(log_of('first'));
	is_as_before('t', "after another user's attach");
}

# Ctrl-Z would leave the domain at its next breakpoint.
sub test_job_control {
	my $pid = $libvirt->spawn('tstp', attach_command('t', '--mode', 'trap', '--max-rate', 0));
	ok(wait_tracing(), 'SIGTSTP: attach traces before') or return;
	sleep 0.5;
	kill TTOU => $pid;
	ok(lives('t'), 'SIGTTOU: the guest makes progress');
	kill TSTP => $pid;
	is($libvirt->wait_for($pid, 60), 128 + 20, 'SIGTSTP ends attach with status 148') or diag(log_of('tstp'));
	is_as_before('t', 'after SIGTSTP');
}

# SIGSTOP cannot be caught: the watchdog kills the tracer.
sub test_stopped {
	my $pid = $libvirt->spawn('stopped', attach_command('t', '--mode', 'trap', '--max-rate', 0));
	ok(wait_tracing(), 'SIGSTOP: attach traces before') or return;
	my $from = time;
	kill STOP => $pid;
	is($libvirt->wait_for($pid, 60), 128 + 9, sprintf 'SIGSTOP: the watchdog kills the tracer after %.0f s', time - $from);
	ok(wait_undone(), 'SIGSTOP: the watchdog undoes everything');
	like(log_of('stopped'), qr/the tracer was stopped or hung for \d+ s.*the watchdog has killed it/, 'SIGSTOP: the watchdog says so');
	is_as_before('t', 'after SIGSTOP');
}

# A terminal that nobody reads: its device, and the reader's end.
sub open_terminal {
	sysopen my $reader, '/dev/ptmx', O_RDWR | O_NOCTTY | O_NONBLOCK or return;
	my $number = pack 'i', 0;
	ioctl $reader, TIOCSPTLCK, $number or return;
	ioctl $reader, TIOCGPTN, $number or return;
	return ('/dev/pts/' . unpack('i', $number), $reader);
}

sub fill_terminal {
	my ($device) = @_;
	sysopen my $writer, $device, O_WRONLY | O_NOCTTY | O_NONBLOCK or die "$device: $!";
	# the kernel makes some room once more while it moves what is there to the reader's end
	for (1 .. 10) {
		1 while syswrite $writer, 'x' x 100;
		sleep 0.1;
	}
}

# Who reads nothing holds the tracer, but not the domain.
sub test_blocked_terminal {
	my ($device, $reader) = open_terminal();
	ok($device, 'a terminal is made') or return;
	my @command = attach_command('t', '--mode', 'trap', '--max-rate', 0);
	my $pid = $libvirt->spawn_as('blocked', ['sh', '-c', "exec \"\$@\" 2>$device", 'sh'], @command);
	ok(wait_tracing(), 'blocked terminal: attach traces before') or return;
	fill_terminal($device);
	for my $round (1 .. 3) {
		my $ticks = ticks('t');
		ok(wait_until(45, sub { ticks('t') > $ticks }), "blocked terminal: the guest makes progress, round $round") or describe('t');
		sleep 2;
	}
	unlike(slurp("/proc/$pid/syscall"), qr/^1 0x2 /, 'blocked terminal: attach does not wait for it');
	kill INT => $pid;
	ok(wait_until(60, sub { 1 while sysread $reader, my $text, 4096; waitpid($pid, WNOHANG) }), 'terminal read again: SIGINT ends attach')
		or kill KILL => $pid;
	is(exit_status($?), 130, 'terminal read again: attach has status 130');
	is_as_before('t', 'blocked terminal');
}

# A QEMU that gets no CPU time for a while answers late; after 20 s the tracer gives up.
sub test_slow_qemu {
	my ($seconds, @allowed) = @_;
	my $name = "QEMU stopped for $seconds s";
	my $pid = $libvirt->spawn('slow', attach_command('t', '--mode', 'trap', '--max-rate', 0));
	ok(wait_tracing(), "$name: attach traces before") or return;
	sleep 0.5 + rand 0.5;
	my $qemu = $libvirt->qemu('t');
	kill STOP => $qemu;
	sleep $seconds;
	kill CONT => $qemu;
	sleep 1;
	kill INT => $pid;
	my $status = $libvirt->wait_for($pid, 120);
	ok((grep { $_ == $status } @allowed), "$name: attach ends with status $status") or diag(log_of('slow'));
	like(log_of('slow'), qr/gdbstub does not answer/, "$name: attach says that the gdbstub does not answer") if $status == 1;
	unlike(log_of('slow'), qr/recover/, "$name: attach undoes everything itself");
	ok(wait_undone(), "$name: nothing is left to undo");
	is_as_before('t', $name);
}

# QEMU's gdbstub serves one debugger.
sub test_debugger {
	my $port = "$work/run/gdb";
	$libvirt->virsh('qemu-monitor-command', 't', '--hmp', "gdbserver unix:$port,server=on,wait=off");
	my $gdb = $libvirt->spawn('gdb', 'socat', '-u', "UNIX:$port", 'OPEN:/dev/null');
	sleep 0.5;
	$libvirt->virsh('qemu-monitor-command', 't', '--hmp', 'cont');
	my ($status, $text) = trap('t', '--duration', 1);
	is($status, 1, 'a domain with a debugger is refused');
	like($text, qr/a debugger is connected to domain t/, 'a domain with a debugger: the error says so');
	kill INT => $gdb;
	waitpid $gdb, 0;
	$libvirt->virsh('qemu-monitor-command', 't', '--hmp', 'cont');
	for my $mode (['--mode', 'trap'], []) {
		($status, $text) = attach('t', '--duration', 1, @$mode);
		is($status, 1, "a domain whose gdbstub listens is refused: @$mode");
		like($text, qr/QEMU's gdbstub waits for a debugger: close it first \(virsh qemu-monitor-command t --hmp 'gdbserver none'\)/,
			"a domain whose gdbstub listens: the error says what to do: @$mode");
	}
	ok(-S $port && $libvirt->virsh('qemu-monitor-command', 't', '{"execute":"query-chardev"}') =~ /"label":"gdb"/,
		"an administrator's listening gdbstub is left alone");
	test_late_listener($port);
	test_named_listener();
	$libvirt->virsh('qemu-monitor-command', 't', '--hmp', 'gdbserver none');
	is_as_before('t', 'after a debugger was connected');
}

# A gdbstub may use a character device of any name.
sub test_named_listener {
	my $backend = '{"type":"socket","data":{"addr":{"type":"unix","data":{"path":"' . "$work/run/named" . '"}},"wait":false}}';
	$libvirt->virsh('qemu-monitor-command', 't', qq({"execute":"chardev-add","arguments":{"id":"mine","backend":$backend}}));
	$libvirt->virsh('qemu-monitor-command', 't', '--hmp', 'gdbserver chardev:mine');
	for my $mode (['--mode', 'trap'], [], ['--dry-run']) {
		my ($status, $text) = attach('t', '--duration', 1, @$mode);
		is($status, 1, "a domain whose gdbstub has another name is refused: @$mode");
		like($text, qr/QEMU's gdbstub seems to use the character device 'mine'/, "a gdbstub of another name: the error says so: @$mode");
	}
	ok($libvirt->virsh('qemu-monitor-command', 't', '{"execute":"query-chardev"}') =~ /"label":"mine"/,
		"a gdbstub of another name is left alone");
	$libvirt->virsh('qemu-monitor-command', 't', '--hmp', 'gdbserver none');
}

# The administrator opens the gdbstub while an exitless trace runs: it is left alone, and the rest undone when it is closed.
sub test_late_listener {
	my ($port) = @_;
	$libvirt->virsh('qemu-monitor-command', 't', '--hmp', 'gdbserver none');
	my $pid = $libvirt->spawn('late', attach_command('t'));
	ok(wait_tracing(), 'gdbstub to be opened by the administrator: attach traces') or return;
	sleep 0.5;
	$libvirt->virsh('qemu-monitor-command', 't', '--hmp', "gdbserver unix:$port,server=on,wait=off");
	kill INT => $pid;
	is($libvirt->wait_for($pid, 60), 1, 'gdbstub opened while traced: attach has status 1, because something is left');
	like(log_of('late'), qr/QEMU's gdbstub waits for a debugger/, 'gdbstub opened while traced: attach says why');
	ok(lives('t'), 'gdbstub opened while traced: the domain runs, while the watchdog tries again and again');
	$libvirt->virsh('qemu-monitor-command', 't', '--hmp', 'gdbserver none');
	ok(wait_undone(), 'gdbstub closed: the watchdog undoes the rest');
	is_as_before('t', 'gdbstub opened while traced');
}

# The administrator's pause is kept, and tracing continues after it.
sub test_suspended {
	my $pid = $libvirt->spawn('suspended', attach_command('t', '--mode', 'trap', '--max-rate', 10));
	ok(wait_tracing(), 'to be suspended: attach traces') or return;
	sleep 0.5;
	ok(suspend('t'), 'the domain is suspended while traced') or return;
	my $ticks = ticks('t');
	sleep 2;
	is($libvirt->state_of('t'), 'paused', 'suspended while traced: the domain stays paused');
	is(ticks('t'), $ticks, 'suspended while traced: the guest stands still');
	$libvirt->virsh('resume', 't');
	ok(lives('t'), 'resumed while traced: the guest makes progress');
	kill INT => $pid;
	is($libvirt->wait_for($pid, 60), 130, 'resumed while traced: SIGINT ends attach with status 130') or diag(log_of('suspended'));
	is_as_before('t', 'suspended and resumed while traced');
}

sub test_destroyed {
	my $pid = $libvirt->spawn('destroyed', attach_command('t', '--mode', 'trap', '--max-rate', 0));
	ok(wait_tracing(), 'to be destroyed: attach traces') or return;
	sleep 1;
	$libvirt->destroy('t');
	is($libvirt->wait_for($pid, 60), 0, 'destroyed while traced: attach has status 0') or diag(log_of('destroyed'));
	is(scalar(journals()), 0, 'destroyed while traced: no journal is left');
}

AttachTest::start();
srand $seed;
# QEMU that is stopped for 24 s is a soft lockup, and a stall of RCU, of 24 s in the guest.
start_ticking('t', cmdline => 'watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=60');
my $mhz = sprintf '%.3f', $libvirt->tsc_khz / 1000;
like($libvirt->serial('t'), qr/tsc: Detected \Q$mhz\E MHz (?:processor|TSC)/, "the guest takes the rate of the host's TSC for its own: $mhz MHz");
test_plain('t');
test_call_sites();
test_sample();
test_gdbstub_memory();
test_kills('t', rounds(KILLS => 2, 0.5, 200));
test_daemon();
test_recover();
test_job_control();
test_stopped();
test_blocked_terminal();
test_slow_qemu(3, 130);
for (1 .. $ENV{STALLS} // (in_campaign() ? 1 : 0)) {
	test_daemon_hangs();
	test_slow_qemu(24, 1, 130);
}
test_other_user();
test_debugger();
test_suspended();
test_destroyed();
start_ticking('t4', cpus => 4);
test_plain('t4');
test_kills('t4', rounds(KILLS => 1, 1, 5));
done_testing();
