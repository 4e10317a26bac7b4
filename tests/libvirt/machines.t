#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Other machines: several NUMA nodes, memory and vCPUs that are plugged in, more memory than the guest has
# touched, a misleading name; and machines that are refused.
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

# The host memory that the domain's files take, in blocks of 512 bytes.
sub blocks_of {
	my $qemu = $libvirt->qemu($name);
	my $blocks = 0;
	for my $fd (glob "/proc/$qemu/fd/*") {
		$blocks += (stat $fd)[12] if (readlink($fd) // '') =~ m{^/memfd:};
	}
	return $blocks;
}

# Attach is refused in one line, and the domain is not changed.
sub is_refused {
	my ($what, $domain, $pattern, @options) = @_;
	my ($status, $text) = $libvirt->run($libvirt->sonde('attach', $domain, '-o', "$work/out/refused", @options));
	is($status, 1, "$what: attach has status 1");
	like($text, $pattern, "$what: the error names the cause");
	is(scalar(split /\n/, $text), 1, "$what: the error is one line") or diag($text);
	is($libvirt->state_of($domain), 'running', "$what: the domain runs on");
	is(scalar(journals()), 0, "$what: no journal is left");
	unlike($libvirt->virsh('dumpxml', $domain), qr/<shmem/, "$what: no device is left");
}

# Searching the guest's memory does not allocate pages that the guest has not touched.
sub test_untouched {
	my $before = blocks_of();
	cmp_ok($before, '<', 2 << 20, "untouched memory: the guest has touched less than 1 GiB: $before blocks");
	my ($status, $text) = $libvirt->run($libvirt->sonde('attach', $name, '--dry-run', '-v'));
	is($status, 0, 'untouched memory: the kernel is found') or diag($text);
	like($text, qr/1 vCPU, room for 3$/m, 'vCPU slots are counted');
	is_refused('another kernel', $name, qr/the guest runs another kernel: Linux version 6\.1/, '-k', "$work/other.kernel");
	# the running guest itself touches some
	cmp_ok(blocks_of() - $before, '<', 16 << 11, 'untouched memory: searching it allocates less than 16 MiB');
}

# The guest's kernel has page tables, stacks and objects in memory that was plugged in.
sub test_plugged_memory {
	my ($status, $text) = $libvirt->run($libvirt->sonde('attach', $name, '--duration', 1, '-o', "$work/out/dimm"));
	is($status, 0, 'plugged memory: attach has status 0') or diag($text);
	like($text, qr/lost: none/, 'plugged memory: no event is lost');
	my ($start) = $libvirt->virsh('qemu-monitor-command', $name, '--hmp', 'info mtree') =~ /^ +(\w+)-\w+ .*: memdimm0/m;
	no warnings qw(portable);
	my $block = hex($start) >> 27; # of 128 MiB each
	like($libvirt->serial($name), qr/^memory$block online/m, "plugged memory: the guest uses it (block $block)");
	ok(lives($name), 'plugged memory: the guest makes progress');
}

# A vCPU that is plugged in while traced has a ring, because its slot existed.
sub test_plugged_vcpus {
	my $pid = $libvirt->spawn('vcpus', $libvirt->sonde('attach', $name, '-o', "$work/out/vcpus"));
	wait_until(60, sub { slurp("$work/out/vcpus/.sonde.json") =~ /"started_realtime_ns": [1-9]/ });
	$libvirt->virsh('setvcpus', $name, 3);
	ok($libvirt->wait_serial($name, qr/cpu2 online/, 60), 'vCPUs plugged in while traced: the guest uses them');
	sleep 3;
	kill INT => $pid;
	is($libvirt->wait_for($pid, 60), 130, 'vCPUs plugged in while traced: the trace goes on until SIGINT') or diag(log_of('vcpus'));
	my ($status, $text) = $libvirt->run("$work/sonde", 'check', '--json', "$work/out/vcpus");
	my @nodes = slurp("$work/out/vcpus/.sonde.json") =~ /"node": (\d+),\s*"start": "0x\w+",\s*"bytes": (\d+),\s*"vcpus": "0x0*(\w+)"/g;
	is_deeply([@nodes[0, 2, 3, 5]], [0, 1, 1, 6], 'vCPUs plugged in while traced: the trace has both nodes and their vCPUs');
	cmp_ok($nodes[$_], '>=', 2048 << 20, "vCPUs plugged in while traced: node $nodes[$_ - 1] has its memory") for 1, 4;
	is($status, 0, 'vCPUs plugged in while traced: sonde check finds no error') or diag($text);
	($status, $text) = $libvirt->run('babeltrace2', "$work/out/vcpus");
	my %events;
	$events{$_}++ for $text =~ /cpu_id = (\d+)/g;
	ok($events{$_}, "vCPUs plugged in while traced: CPU $_ has " . ($events{$_} // 0) . ' events') for 0 .. 2;
	ok(lives($name), 'vCPUs plugged in while traced: the guest makes progress');
	unlike($libvirt->serial($name), qr/WARNING:|BUG:|Oops|Call Trace/, "vCPUs plugged in while traced: the guest's log is clean");
	unlike($libvirt->virsh('dumpxml', $name), qr/<shmem/, 'vCPUs plugged in while traced: no device is left');
}

# The guest makes files in a tmpfs when it has got more memory. That lies above 4 GiB, in a zone of its own, and the
# guest's kernel allocates there first.
sub start_growing {
	open my $rc, '>', "$work/files.rc" or die $!;
	print $rc <<'END';
blocks() { ls -d /sys/devices/system/memory/memory* | wc -l; }
tick() { n=$((n + 1)); cat /proc/self/maps >/tmp/x; echo "tick $n" >/dev/ttyS0; usleep 300000; }
began=$(blocks) n=0 made=0
until [ "$(blocks)" -gt "$began" ] && ! grep -q offline /sys/devices/system/memory/memory*/state; do tick; done
while [ $made -lt 1000 ]; do made=$((made + 1)); : >/tmp/made$made; done
echo "made $made files" >/dev/ttyS0
while true; do tick; done
END
	close $rc;
	build_initrd("$work/files.initrd", "$work/files.rc=/etc/rc");
	start_domain('growing', initrd => "$work/files.initrd", mib => 384, max_mib => 2048,
		cmdline => 'memhp_default_state=online_kernel', cells => "<cell id='0' cpus='0' memory='384' unit='MiB'/>");
	ok($libvirt->wait_serial('growing', qr/tick/, 240), 'growing boots') or BAIL_OUT($libvirt->serial('growing'));
	learn_text('growing', $kernel);
}

# Guest-physical addresses: from, to.
sub plug_memory {
	my ($domain, $mib) = @_;
	open my $xml, '>', "$work/dimm.xml" or die $!;
	print $xml "<memory model='dimm'><target><size unit='MiB'>$mib</size><node>0</node></target></memory>";
	close $xml;
	$libvirt->virsh('attach-device', $domain, "$work/dimm.xml");
	my ($from) = $libvirt->virsh('qemu-monitor-command', $domain, '{"execute":"query-memory-devices"}') =~ /"addr":(\d+)/;
	return ($from, $from + ($mib << 20));
}

# Node 0 of the last trace, in guest-physical addresses; and where the guest's kernel maps address 0.
sub first_node {
	my ($start, $bytes) = sidecar() =~ /"node": 0,\s*"start": "0x(\w+)",\s*"bytes": (\d+)/ or return;
	no warnings qw(portable);
	my $base = hex($start) >> 30 << 30;
	return (hex($start) - $base, hex($start) - $base + $bytes, $base);
}

# How many inodes of a tmpfs the last trace has, and how many of them between these guest-physical addresses.
sub inodes_within {
	my ($from, $to) = @_;
	my ($status, $text) = $libvirt->run("$work/sonde", 'convert', '--to', 'csv', trace_dir(), '-o', "$work/out/inodes.csv");
	is($status, 0, 'the trace is converted') or diag($text);
	my (undef, undef, $base) = first_node();
	no warnings qw(portable);
	my @gpas = map { hex($_) - $base } slurp("$work/out/inodes.csv") =~ /,kmem:kmem_cache_alloc\w*,\w+,shmem_alloc_inode\+[^,]*,(\w+),/g;
	return (scalar @gpas, scalar grep { $_ >= $from && $_ < $to } @gpas);
}

# Objects in memory that is plugged in while an exitless trace runs are recorded, all of them.
sub test_growing {
	my $what = 'memory plugged in while traced';
	start_growing();
	my $pid = $libvirt->spawn('grown', attach_command('growing'));
	ok(wait_tracing(), "$what: attach traces before") or diag(log_of('grown'));
	my ($from, $to) = plug_memory('growing', 256);
	my (undef, $end) = first_node();
	cmp_ok($end, '<=', $from, "$what: the node ends before it");
	ok($libvirt->wait_serial('growing', qr/made 1000 files/, 120), "$what: the guest uses it");
	sleep 1;
	kill INT => $pid;
	is($libvirt->wait_for($pid, 60), 130, "$what: the trace goes on until SIGINT") or diag(log_of('grown'));
	my ($status, $text) = $libvirt->run("$work/sonde", 'check', trace_dir());
	is($status, 0, "$what: sonde check finds no error") or diag($text);
	my ($made, $inside) = inodes_within($from, $to);
	my (undef, undef, $lost) = report();
	cmp_ok($made, '>=', 1000, "$what: each inode is recorded: $made");
	is($lost, 0, "$what: no event is lost");
	cmp_ok($inside, '>', 500, "$what: most of them are in it: $inside");
	(undef, $end) = first_node();
	is($end, $to, "$what: the trace's node reaches to its end");
	is_as_before('growing', $what);
	$libvirt->destroy('growing');
}

# libvirt 9.0 reports a timeout of an unplug that QEMU has done.
sub set_vcpus {
	my ($domain, $count, $what) = @_;
	$libvirt->run('virsh', '-c', $libvirt->uri, 'setvcpus', $domain, $count);
	ok(wait_until(60, sub {
		my @vcpus = $libvirt->virsh('qemu-monitor-command', $domain, '--hmp', 'info cpus') =~ /CPU #/g;
		return @vcpus == $count;
	}), "$what: QEMU has $count vCPUs");
}

# Unplugging the device would crash QEMU 7.2: it stays, and no other one is plugged in.
sub test_unplugged_vcpu {
	my $what = 'a vCPU unplugged';
	start_domain('spare', slots => 2);
	ok($libvirt->wait_serial('spare', qr/tick/, 240), 'spare boots');
	set_vcpus('spare', 2, 'a vCPU plugged in');
	ok($libvirt->wait_serial('spare', qr/cpu1 online/, 60), 'a vCPU plugged in: the guest uses it');
	learn_text('spare', $kernel);
	my $pid = $libvirt->spawn('spare', attach_command('spare'));
	ok(wait_tracing(), "$what: attach traces before") or diag(log_of('spare'));
	set_vcpus('spare', 1, $what);
	kill INT => $pid;
	is($libvirt->wait_for($pid, 60), 1, "$what: attach has status 1, because something is left");
	like(log_of('spare'), qr/a vCPU was unplugged/, "$what: attach says why something is left");
	ok(lives('spare'), "$what: the guest makes progress");
	# the kernel itself patches a few bytes of its text (static keys) when a CPU goes
	cmp_ok((text_of('spare') ^ text_before('spare')) =~ tr/\0//c, '<', 16, "$what: the guest's text is as before");
	my ($status, $text) = recover('spare');
	is($status, 1, "$what: recover has status 1");
	like($text, qr/a vCPU was unplugged from this emulated domain/, "$what: recover says why");
	($status, $text) = attach('spare', '--duration', 1);
	is($status, 1, "$what: a new attach has status 1");
	like($text, qr/run 'sonde recover'/, "$what: a new attach asks for recover");
	ok(lives('spare'), "$what: the guest makes progress afterwards");
	my ($uuid) = $libvirt->virsh('domuuid', 'spare') =~ /(\S+)/;
	$libvirt->destroy('spare');
	my $decoy = $libvirt->spawn('decoy', decoy_command($uuid));
	($status, $text) = recover($uuid);
	kill KILL => $decoy;
	waitpid $decoy, 0;
	is($status, 0, "$what: recover by uuid has status 0 when the domain has ended") or diag($text);
	is(scalar(journals()), 0, "$what: no journal is left when the domain has ended");
}

sub test_look_alike {
	my ($status, $text) = recover($name);
	is($text, "$name: nothing to recover\n", "a domain's name like a device's is not taken for a device");
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
	like($text, qr/^device   cannot be plugged in: no free PCI slot: the domain needs an empty pcie-root-port/m, 'no free port: --dry-run says so');
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
test_growing();
test_no_port();
done_testing();
