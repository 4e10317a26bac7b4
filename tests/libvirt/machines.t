#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Domains that are put together in other ways: several NUMA nodes, memory and vCPUs that are plugged in,
# more memory than the guest has ever touched, names that look like something else; and machines that are refused.
use strict;
use warnings;
use FindBin;
use Test::More;
use Time::HiRes qw(sleep time);

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use AttachTest;
use Files;
use Process;

my $name = "big ua-sonde-0123456789abcdef";

# Of the host's memory, what the domain's files take.
sub blocks_of {
	my $qemu = $libvirt->qemu($name);
	my $blocks = 0;
	for my $fd (glob "/proc/$qemu/fd/*") {
		$blocks += (stat $fd)[12] if (readlink($fd) // '') =~ m{^/memfd:};
	}
	return $blocks;
}

# Refused in one line, and nothing has happened to it.
sub is_refused {
	my ($what, $domain, $pattern, @options) = @_;
	my ($status, $text) = $libvirt->run($libvirt->sonde('attach', $domain, '-o', "$work/out/refused", @options));
	is($status, 1, "$what: exit status 1");
	like($text, $pattern, "$what: says so");
	is(scalar(split /\n/, $text), 1, "$what: in one line") or diag($text);
	is($libvirt->state_of($domain), 'running', "$what: the domain runs on");
	is(scalar(journals()), 0, "$what: no journal");
	unlike($libvirt->virsh('dumpxml', $domain), qr/<shmem/, "$what: no device");
}

# What the guest has not touched is not taken from the host, whatever is looked for in it.
sub test_untouched {
	my $before = blocks_of();
	cmp_ok($before, '<', 2 << 20, "untouched: the guest has touched little of its memory: $before blocks");
	my ($status, $text) = $libvirt->run($libvirt->sonde('attach', $name, '--dry-run', '-v'));
	is($status, 0, 'untouched: a kernel is found') or diag($text);
	like($text, qr/1 vCPU, room for 3$/m, 'vCPUs: those that can be are counted');
	is_refused('untouched, another kernel', $name, qr/the guest runs another kernel: Linux version 6\.1/, '-k', "$work/other.kernel");
	# some is the guest's own, which goes on working
	cmp_ok(blocks_of() - $before, '<', 16 << 11, 'untouched: nor is more of it touched afterwards');
}

# Their kernel has its page tables, stacks and objects in memory that was plugged in.
sub test_plugged_memory {
	my ($status, $text) = $libvirt->run($libvirt->sonde('attach', $name, '--duration', 1, '-o', "$work/out/dimm"));
	is($status, 0, 'memory that was plugged in: traced') or diag($text);
	like($text, qr/lost: none/, 'memory that was plugged in: nothing lost');
	my ($start) = $libvirt->virsh('qemu-monitor-command', $name, '--hmp', 'info mtree') =~ /^ +(\w+)-\w+ .*: memdimm0/m;
	no warnings qw(portable);
	my $block = hex($start) >> 27; # of 128 MiB each
	like($libvirt->serial($name), qr/^memory$block online/m, "memory that was plugged in: the guest uses it (block $block)");
	ok(lives($name), 'memory that was plugged in: the guest makes progress');
}

# The guest knew of the vCPU's slot before: the new one finds a ring of its own.
sub test_plugged_vcpus {
	my $pid = $libvirt->spawn('vcpus', $libvirt->sonde('attach', $name, '-o', "$work/out/vcpus"));
	wait_until(60, sub { slurp("$work/out/vcpus/.sonde.json") =~ /"started_realtime_ns": [1-9]/ });
	$libvirt->virsh('setvcpus', $name, 3);
	ok($libvirt->wait_serial($name, qr/cpu2 online/, 60), 'vCPUs plugged in while traced: the guest takes them');
	sleep 3;
	kill INT => $pid;
	is($libvirt->wait_for($pid, 60), 130, 'vCPUs plugged in while traced: the trace goes on until Ctrl-C') or diag(log_of('vcpus'));
	my ($status, $text) = $libvirt->run("$work/sonde", 'check', '--json', "$work/out/vcpus");
	is($status, 0, 'vCPUs plugged in while traced: the trace is right') or diag($text);
	($status, $text) = $libvirt->run('babeltrace2', "$work/out/vcpus");
	my %events;
	$events{$_}++ for $text =~ /cpu_id = (\d+)/g;
	ok($events{$_}, "vCPUs plugged in while traced: CPU $_ has " . ($events{$_} // 0) . ' events') for 0 .. 2;
	ok(lives($name), 'vCPUs plugged in while traced: the guest makes progress');
	unlike($libvirt->serial($name), qr/WARNING:|BUG:|Oops|Call Trace/, 'vCPUs plugged in while traced: no complaint');
	unlike($libvirt->virsh('dumpxml', $name), qr/<shmem/, 'vCPUs plugged in while traced: no device is left');
}

# Of an unplug libvirt 9.0 says that it timed out, though QEMU has done it.
sub set_vcpus {
	my ($domain, $count, $what) = @_;
	$libvirt->run('virsh', '-c', $libvirt->uri, 'setvcpus', $domain, $count);
	ok(wait_until(60, sub {
		my @vcpus = $libvirt->virsh('qemu-monitor-command', $domain, '--hmp', 'info cpus') =~ /CPU #/g;
		return @vcpus == $count;
	}), "$what: QEMU has $count");
}

# QEMU 7.2 would die of the device's end: it stays, and no other one comes.
sub test_unplugged_vcpu {
	my $what = 'a vCPU unplugged';
	start_domain('spare', slots => 2);
	ok($libvirt->wait_serial('spare', qr/tick/, 240), 'spare boots');
	set_vcpus('spare', 2, 'a vCPU plugged in');
	ok($libvirt->wait_serial('spare', qr/cpu1 online/, 60), 'a vCPU plugged in: the guest uses it');
	learn_text('spare', $kernel);
	my $pid = $libvirt->spawn('spare', attach_command('spare'));
	ok(wait_tracing(), "$what: traced") or diag(log_of('spare'));
	set_vcpus('spare', 1, $what);
	kill INT => $pid;
	is($libvirt->wait_for($pid, 60), 1, "$what: not all could be undone");
	like(log_of('spare'), qr/a vCPU was unplugged/, "$what: says why");
	ok(lives('spare'), "$what: the guest makes progress");
	# The kernel itself patches one place or two of its own (static keys) when a CPU goes.
	cmp_ok((text_of('spare') ^ text_before('spare')) =~ tr/\0//c, '<', 16, "$what: the text is as it was");
	my ($status, $text) = recover('spare');
	is($status, 1, "$what: recover");
	like($text, qr/a vCPU was unplugged from this emulated domain/, "$what: recover says why");
	($status, $text) = attach('spare', '--duration', 1);
	is($status, 1, "$what: attach");
	like($text, qr/run 'sonde recover'/, "$what: attach says what is left");
	ok(lives('spare'), "$what: the guest makes progress afterwards");
	my ($uuid) = $libvirt->virsh('domuuid', 'spare') =~ /(\S+)/;
	$libvirt->destroy('spare');
	($status, $text) = recover($uuid);
	is($status, 0, "$what: nothing is left when the domain has ended") or diag($text);
	is(scalar(journals()), 0, "$what: nor a journal");
}

sub test_look_alike {
	my ($status, $text) = recover($name);
	is($text, "$name: nothing to recover\n", "a name like a device's: there is no device");
}

sub test_refusals {
	start_domain('i386', arch => 'i686', model => 'qemu32', machine => 'pc');
	is_refused('another architecture', 'i386', qr/domain i386 has i386 vCPUs: only x86_64 guests can be traced/);
	$libvirt->destroy('i386');
	my $ssh = "qemu+ssh://elsewhere/session?command=$work/ssh&proxy=netcat&socket=$work/run/libvirt/libvirt-sock";
	is_refused('over a network', $name, qr/leads over a network: run sonde on the domain's host/, '-c', $ssh);
}

sub test_no_port {
	start_ticking('narrow', ports => 0);
	is_refused('no free port', 'narrow', qr/no free PCI slot: .*; or use --mode trap/);
	my ($status, $text) = $libvirt->run($libvirt->sonde('attach', 'narrow', '--dry-run'));
	like($text, qr/^device   cannot be plugged in: no free PCI slot: the domain needs an empty pcie-root-port/m, 'no free port: a dry run says so');
	$libvirt->destroy('narrow');
}

AttachTest::start();
open my $ssh, '>', "$work/ssh" or die $!;
print $ssh "#!/bin/sh\nexec socat - UNIX:$work/run/libvirt/libvirt-sock\n";
close $ssh;
chmod 0755, "$work/ssh";
open my $rc, '>', "$work/rc" or die $!;
print $rc <<'END';
for m in /sys/devices/system/memory/memory*; do
	grep -q online $m/state && echo "$(basename $m) online" >/dev/ttyS0
done
(while true; do
	for c in /sys/devices/system/cpu/cpu*/online; do
		[ "$(cat "$c" 2>/dev/null)" = 0 ] && echo 1 >"$c" && echo "$(basename "$(dirname "$c")") online" >/dev/ttyS0
	done
	usleep 200000
done) &
(while true; do cat /proc/self/maps >/tmp/y; usleep 50000; done) &
n=0
while true; do n=$((n + 1)); cat /proc/self/maps >/tmp/x; echo "tick $n" >/dev/ttyS0; usleep 300000; done
END
close $rc;
build_initrd("$work/initrd", "$work/rc=/etc/rc");
system('cp', "$build/kernels/5.10/vmlinuz", "$work/other.kernel");
start_domain($name, slots => 3, mib => 5120 + 256, max_mib => 8192, cmdline => 'memhp_default_state=online_kernel',
	cells => join('', map { "<cell id='$_' cpus='$_' memory='2560' unit='MiB'/>" } 0 .. 1) =~ s/cpus='1'/cpus='1-2'/r,
	devices => "<memory model='dimm'><target><size unit='MiB'>256</size><node>0</node></target></memory>");
ok($libvirt->wait_serial($name, qr/tick/, 240), 'the guest boots') or BAIL_OUT($libvirt->serial($name));
test_untouched();
test_plugged_memory();
test_plugged_vcpus();
test_look_alike();
test_unplugged_vcpu();
test_refusals();
$libvirt->destroy($name);
test_no_port();
done_testing();
