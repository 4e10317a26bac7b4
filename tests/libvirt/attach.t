#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# sonde attach and sonde recover with a real libvirtd and real domains: traces, and that a domain is
# as it was afterwards, whatever happened to the tracer, to libvirtd, or to the domain meanwhile.
# KILLS (10): how often the tracer is killed; SEED: of the moments.
use strict;
use warnings;
use Cwd qw(realpath);
use File::Basename qw(dirname);
use Test::More;
use Time::HiRes qw(sleep time);

use lib dirname(realpath($0)), dirname(realpath($0)) . '/../guest';
use GuestText;
use Libvirt;
use OracleCompare;

my $tests = dirname(realpath($0));
my $tree = realpath("$tests/../..");
my $build = realpath($ENV{O} // "$tree/build");
my $kernel = "$build/kernels/6.1/vmlinuz";
my $kills = $ENV{KILLS} // 10;
my $seed = $ENV{SEED} // time ^ $$;

my $why = Libvirt::missing();
plan skip_all => $why if $why;
my $libvirt = Libvirt->start("$build/sonde");
END { undef $libvirt } # before its folder goes
my $work = $libvirt->work;
my ($stext, $etext) = GuestText::range("$build/sonde", $kernel);
my ($phys_text, $text_before);
my $traces = 0;

sub build_initrd {
	my ($to, @files) = @_;
	system("$tree/tests/testbed/build-initrd", $to, @files) == 0 or die "build-initrd: $?";
}

sub start_domain {
	my ($name, %option) = @_;
	$libvirt->domain($name, kernel => $kernel, initrd => "$work/initrd", cpus => 1, machine => 'q35',
		memory => 'shared', cmdline => '', %option);
}

sub attach_command {
	my ($name, @options) = @_;
	$traces++;
	return $libvirt->sonde('attach', $name, '-k', "$work/$name.kernel", '-o', "$work/out/$traces", @options);
}

sub attach {
	my ($name, @options) = @_;
	return $libvirt->run(attach_command($name, @options));
}

sub recover { return $libvirt->run($libvirt->sonde('recover', @_)) }

sub trace_dir { return "$work/out/$traces" }

sub report {
	my ($status, $text) = $libvirt->run("$work/sonde", 'report', '--json', trace_dir());
	return map { $text =~ /"$_":\s*(\d+)/ ? $1 : -1 } qw(alloc_events free_events overruns);
}

sub ticks { return ($libvirt->serial($_[0]) =~ /tick (\d+)/g)[-1] // 0 }

sub lives {
	my ($name) = @_;
	my $before = ticks($name);
	my $end = time + 20;
	while (time < $end) {
		return 1 if ticks($name) > $before;
		sleep 0.1;
	}
	return 0;
}

sub journals { return map { s{.*/}{}r } glob "$work/run/sonde/*" }

# Until no sonde works on the domain any more: its watchdog may still.
sub wait_undone {
	my $end = time + 20;
	sleep 0.05 while journals() && time < $end;
	return !journals();
}

sub text_of {
	my ($name) = @_;
	return $libvirt->memory($name, $phys_text + $stext, $etext - $stext);
}

# The state that everything must leave behind; as a list of what is wrong.
sub leftovers {
	my ($name) = @_;
	my @wrong;
	push @wrong, 'journal ' . join ' ', journals() if journals();
	push @wrong, 'state ' . $libvirt->state_of($name) if $libvirt->state_of($name) ne 'running';
	push @wrong, 'device' if $libvirt->virsh('dumpxml', $name) =~ /ua-sonde/;
	push @wrong, map { "file $_" } glob '/dev/shm/ua-sonde-*';
	push @wrong, 'text differs: ' . GuestText::differences(text_of($name), $text_before)
		if text_of($name) ne $text_before;
	push @wrong, 'guest makes no progress' unless lives($name);
	push @wrong, 'guest complains' if $libvirt->serial($name) =~ /WARNING:|BUG:|Oops|Call Trace|soft lockup/;
	return @wrong;
}

sub is_as_before {
	my ($name, $what) = @_;
	my @wrong = leftovers($name);
	is("@wrong", '', "$what: the domain is as it was");
}

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
		is($status, 1, "$name: exit status 1") or diag($text);
		like($text, $pattern, "$name: says so");
		is(scalar(split /\n/, $text), 1, "$name: in one line") or diag($text);
	}
	$libvirt->virsh('suspend', 't');
	my ($status, $text) = attach('t', '--duration', 1);
	like($text, qr/t is paused: resume it/, 'paused: refused');
	is($libvirt->state_of('t'), 'paused', 'paused: stays paused');
	$libvirt->virsh('resume', 't');
	($status, $text) = recover('t');
	is($text, "t: nothing to recover\n", 'recover: nothing to do');
}

sub test_plain {
	my $qemu = $libvirt->qemu('t');
	my $descriptors = () = glob "/proc/$qemu/fd/*";
	my $pid = $libvirt->spawn('first', attach_command('t', '--duration', 4, '--monitor', "$work/run/m"));
	my $dir = trace_dir();
	sleep 2;
	my ($status, $text) = attach('t', '--duration', 1);
	like($text, qr/another sonde is attached/, 'a second tracer is refused');
	($status, $text) = $libvirt->run("$work/sonde", 'ctl', '--json', "$work/run/m", 'query-trace');
	like($text, qr/"mode":\s*"exitless"/, 'the monitor tells of exitless mode') or diag($text);
	($status, $text) = recover('t');
	like($text, qr/another sonde is attached/, 'recover leaves a living tracer alone');
	is($libvirt->wait_for($pid, 60), 0, 'attach: status 0') or diag(Libvirt::slurp("$work/first.txt"));
	$traces--;
	my ($allocs, $frees, $lost) = report();
	cmp_ok($allocs, '>', 500, "$allocs allocations and $frees frees traced");
	is($lost, 0, 'nothing lost');
	is_as_before('t', 'after tracing');
	is(scalar(() = glob "/proc/$qemu/fd/*"), $descriptors, 'QEMU has as many descriptors as before');
}

sub test_ends {
	my ($status, $text) = attach('t', '--until-events', 3000);
	is($status, 0, '--until-events: status 0') or diag($text);
	my ($allocs, $frees) = report();
	cmp_ok($allocs + $frees, '>=', 3000, '--until-events: ' . ($allocs + $frees) . ' events');
	my $pid = $libvirt->spawn('signal', attach_command('t'));
	sleep 2;
	kill INT => $pid;
	is($libvirt->wait_for($pid, 60), 130, 'SIGINT: status 130');
	is_as_before('t', 'after SIGINT');
}

sub test_kills {
	my ($harmed, $late) = (0, 0);
	srand $seed;
	for my $i (1 .. $kills) {
		my $pid = $libvirt->spawn('killed', attach_command('t'));
		my $after = 0.05 + rand 0.6;
		sleep $after;
		kill KILL => $pid;
		waitpid $pid, 0;
		my $at = time;
		wait_undone();
		$late++ if time - $at > 3;
		my @wrong = leftovers('t');
		next unless @wrong;
		$harmed++;
		diag(sprintf 'kill %d after %.3f s: %s; %s', $i, $after, "@wrong", Libvirt::slurp("$work/killed.txt"));
		recover('t');
	}
	is($harmed, 0, "$kills times SIGKILL (seed $seed): $harmed domains not as they were");
	is($late, 0, "$kills times SIGKILL: $late recoveries took more than 3 s");
}

sub children_of {
	my ($pid) = @_;
	return split ' ', Libvirt::slurp("/proc/$pid/task/$pid/children");
}

sub test_recover {
	my $pid = $libvirt->spawn('orphan', attach_command('t'));
	sleep 1.5;
	my ($watchdog) = children_of($pid);
	ok($watchdog, 'attach has a watchdog') or return;
	kill KILL => $watchdog, $pid;
	waitpid $pid, 0;
	is(scalar(journals()), 1, 'tracer and watchdog killed: the journal is left');
	isnt(text_of('t'), $text_before, 'tracer and watchdog killed: the patches are left');
	my ($status, $text) = attach('t', '--duration', 1);
	like($text, qr/run 'sonde recover'/, 'attach asks for recover');
	($status, $text) = recover('t');
	is($status, 0, "recover: $text");
	is_as_before('t', 'after recover');
}

sub test_libvirtd_killed {
	my $pid = $libvirt->spawn('daemon', attach_command('t'));
	sleep 1.5;
	kill KILL => $libvirt->libvirtd;
	isnt($libvirt->wait_for($pid, 60), 0, 'libvirtd killed: attach fails');
	ok(wait_undone(), 'libvirtd killed: the watchdog undoes all with the next one')
		or diag(Libvirt::slurp("$work/daemon.txt"));
	is_as_before('t', 'libvirtd killed');
}

sub test_suspended {
	my $pid = $libvirt->spawn('suspended', attach_command('t', '--duration', 3));
	sleep 1.5;
	$libvirt->virsh('suspend', 't');
	$libvirt->wait_for($pid, 60);
	is($libvirt->state_of('t'), 'paused', 'suspended while traced: stays paused');
	is(text_of('t'), $text_before, 'suspended while traced: the text is as it was');
	$libvirt->virsh('resume', 't');
	recover('t');
	is_as_before('t', 'suspended while traced, resumed and recovered');
}

sub test_destroyed {
	my $pid = $libvirt->spawn('destroyed', attach_command('t'));
	sleep 1.5;
	$libvirt->destroy('t');
	is($libvirt->wait_for($pid, 60), 0, 'destroyed while traced: status 0') or diag(Libvirt::slurp("$work/destroyed.txt"));
	my ($allocs) = report();
	cmp_ok($allocs, '>', 0, "destroyed while traced: the trace has $allocs allocations");
	is(scalar(journals()), 0, 'destroyed while traced: no journal');
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
	is($status, 0, "$what: traced") or diag($text);
	like($text, $option{memory} // '' eq 'private' ? qr{memory +/proc/\d+/mem} : qr/memory +mapped/, "$what: memory");
	my ($allocs, $frees, $lost) = report();
	cmp_ok($allocs, '>', 100, "$what: $allocs allocations");
	is($lost, 0, "$what: nothing lost");
	ok(lives($name), "$what: the guest makes progress");
	$libvirt->destroy($name);
}

# The guest's own tracing saw the same, event by event, pages included.
sub test_oracle {
	my $iterations = 60 * ($ENV{ITERATIONS_SCALE} // 1);
	open my $rc, '>', "$work/oracle.rc" or die $!;
	print $rc "echo oracle-waits >/dev/ttyS0; sleep 6; sleep 3600 | oracle -p -b 24576 workload -n $iterations\n";
	close $rc;
	build_initrd("$work/oracle.cpio", "$work/oracle.rc=/etc/rc");
	start_domain('o', initrd => "$work/oracle.cpio");
	ok($libvirt->wait_serial('o', qr/oracle-waits/, 120), 'oracle: the guest boots') or return;
	my $pid = $libvirt->spawn('oracle', attach_command('o'));
	ok($libvirt->wait_serial('o', qr/sonde-oracle: pages 0x\w+/, 240), 'oracle: the workload ends') or return;
	my ($pages) = $libvirt->serial('o') =~ /sonde-oracle: pages (0x\w+)/;
	kill INT => $pid;
	is($libvirt->wait_for($pid, 60), 130, 'oracle: traced') or diag(Libvirt::slurp("$work/oracle.txt"));
	$libvirt->virsh('qemu-monitor-command', 'o', '--hmp', "pmemsave 0 @{[384 << 20]} \"$work/out/ram\"");
	system("$build/tests/guest/oracle-extract $work/out/ram $pages > $work/guest-events") == 0 or die 'oracle-extract';
	unlink "$work/out/ram";
	my ($status, $text) = $libvirt->run("$work/sonde", 'convert', trace_dir(), '--to', 'kmemtrace', '-o', "$work/out/records");
	is($status, 0, 'oracle: converted') or diag($text);
	my $result = OracleCompare::compare("$work/guest-events", "$work/out/records", 1);
	diag($_) for @{$result->{faults}};
	is($result->{cpus}, 1, 'oracle: window found');
	cmp_ok($result->{events}, '>=', 100 * $iterations, "oracle: $result->{events} guest events compared");
	is(@{$result->{missing}}, 0, 'oracle: none of them missing in ours');
	diag("missing: $_->[1][0]") for grep { defined } @{$result->{missing}}[0 .. 3];
	is(@{$result->{disordered}}, 0, 'oracle: same order for every object');
	is((report())[2], 0, 'oracle: nothing lost');
	$libvirt->destroy('o');
}

build_initrd("$work/initrd", "$tests/ticks=/etc/rc");
start_domain('t');
start_domain('idle', persistent => 1);
system('cp', "$build/kernels/5.10/vmlinuz", "$work/other.kernel");
ok($libvirt->wait_serial('t', qr/tick/, 120), 'the guest boots') or BAIL_OUT($libvirt->serial('t'));
my ($status, $text) = $libvirt->run($libvirt->sonde('attach', 't', '-k', "$work/t.kernel", '--dry-run'));
is($status, 0, '--dry-run: status 0') or diag($text);
($phys_text) = map { hex } $text =~ /guest-physical 0x([0-9a-f]+)/ or BAIL_OUT($text);
$text_before = text_of('t');
cmp_ok(length $text_before, '>', 1 << 20, 'the text of the guest is known');
is(scalar(journals()), 0, '--dry-run: no journal');
test_refusals();
test_plain();
test_ends();
test_kills();
test_recover();
test_libvirtd_killed();
test_suspended();
test_destroyed();
test_oracle();
test_machine('pc4', machine => 'pc', cpus => 4);
test_machine('private', memory => 'private');
$libvirt->virsh('undefine', 'idle');
delete $libvirt->{domains}{idle};
done_testing();
