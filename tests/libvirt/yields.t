#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A domain that is traced without exits changes its own text: its ftrace, its BPF programs, its kprobes and a livepatch take
# traced places, and give them back. It hibernates. The tracer gives way each time, the guest never complains, and its text is as before, also
# where a kprobe of its own outlives the trace.
#
#   YIELD_KERNELS  6.1 6.12/memory: the image of the second one is what the running kernel has made of its text; it has
#                  sealed the ENDBR of functions that ask (CONFIG_X86_KERNEL_IBT)
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
use Testbed;
use Tree;

my @kernels = split ' ', $ENV{YIELD_KERNELS} // '6.1 6.12/memory';
use constant TROUBLE => (WARNINGS, 'ftrace fail', 'write error', "can't (?:open|create)", 'not found');

sub stuck {
	my ($name, $command) = @_;
	describe($name);
	diag(log_of('traced')) if -e "$work/traced.txt";
	BAIL_OUT("the guest does not finish '$command'");
}

# Let the guest do something, and wait until it has.
sub do_inside {
	my ($name, $command) = @_;
	my $before = () = $libvirt->serial($name) =~ /^did \Q$command\E/mg;
	my $from = time;
	$libvirt->tell($name, $command);
	my $done = sub { my $n = () = $libvirt->serial($name) =~ /^did \Q$command\E/mg; return $n > $before };
	wait_until(120, $done) or stuck($name, $command);
	return time - $from;
}

sub query {
	my ($status, $text) = $libvirt->run("$work/sonde", 'ctl', '--json', "$work/run/m", 'query-trace');
	return $text;
}

# How many functions or exits are refused for this reason now.
sub refused {
	my ($what) = @_;
	return scalar(my @reasons = query() =~ /"reason":\s*"[^"]*$what/g);
}

# The addresses of a traced function's return slots, which --dry-run lists; some may be those of rare errors.
sub find_exits {
	my ($name, $version) = @_;
	my ($status, $text) = $libvirt->run($libvirt->sonde('attach', $name, '-k', "$work/$name.kernel", '--dry-run'));
	like($text, qr/^yields   to the guest's own ftrace, kprobes, hibernation, kexec: the tracer gives way$/m,
		"$version: --dry-run says what the tracer gives way to");
	my @exits = $text =~ /^ ([0-9a-f]{16}) .* jump, at return +kmem_cache_alloc(?:_noprof)?$/mg;
	ok(scalar(@exits), "$version: --dry-run lists exits: @exits");
	return map { "0x$_" } @exits;
}

# Debian's 7.0 and later have no livepatches.
sub can_livepatch { return $_[0] =~ /^yields-(5-10|6-\d+)$/ }
sub livepatching { return can_livepatch($_[0]) ? ('livepatch_on', 'work', 'livepatch_off') : () }

# All of it once without a tracer: ftrace's own trampolines are not as before afterwards.
sub rehearse {
	my ($name, @exits) = @_;
	do_inside($name, $_) for 'functions_on', 'work', 'functions_off', 'bpf_on', 'bpf_off', livepatching($name), "probes_on @exits", 'work';
	my $probed = text_of($name);
	do_inside($name, 'probes_off');
	learn_text($name, "$work/$name.kernel");
	return $probed;
}

# One change while the tracer still stays away because of the one before.
sub test_rapid {
	my ($name, $version, @exits) = @_;
	for (1 .. 3) {
		do_inside($name, $_) for 'functions_on', "probes_on @exits", 'functions_off', 'probes_off';
	}
	pass("$version: the guest makes changes in quick succession");
}

sub test_functions {
	my ($name, $version) = @_;
	for my $round (1, 2) {
		my $took = do_inside($name, 'functions_on');
		note(sprintf '%s: the function tracer was switched on within %.2f s', $version, $took);
		do_inside($name, 'work');
		ok(wait_until(20, sub { refused(qr/guest's own ftrace/) >= 2 }),
			"$version: round $round: the functions that ftrace has taken are listed as refused");
		do_inside($name, 'functions_off');
		ok(wait_until(20, sub { !refused(qr/guest's own ftrace/) }),
			"$version: round $round: the functions that ftrace has given back are traced again");
	}
	like(query(), qr/"lost":\s*0\b/, "$version: no event is lost because functions are taken and given back");
	my @calls = found($libvirt->serial($name) =~ s/\r//gr, 'calls');
	is(scalar(grep { $_ > 10 } @calls), 3, "$version: the guest's function tracer has recorded calls: @calls");
}

# BPF makes the site call its own code, past ftrace's.
sub test_bpf {
	my ($name, $version) = @_;
	do_inside($name, 'bpf_on');
	is(join(' ', found($libvirt->serial($name) =~ s/\r//gr, 'bpf')), 'fentry: attached fentry: attached',
		"$version: a BPF program is attached to a traced function");
	do_inside($name, 'work');
	ok(wait_until(20, sub { refused(qr/guest's own ftrace/) == 1 }), "$version: the function is listed as refused");
	do_inside($name, 'bpf_off');
	ok(wait_until(20, sub { !refused(qr/guest's own ftrace/) }), "$version: it is traced again when the program has gone");
}

# The livepatch's own function calls another traced one.
sub test_livepatch {
	my ($name, $version) = @_;
	do_inside($name, 'livepatch_on');
	like((found($libvirt->serial($name) =~ s/\r//gr, 'livepatch'))[-1], qr/^kmem_cache_alloc(_noprof)? transition 0$/,
		"$version: a livepatch is applied to a traced function");
	do_inside($name, 'work');
	ok(wait_until(20, sub { refused(qr/guest's own ftrace or livepatch/) }), "$version: the function is listed as refused");
	do_inside($name, 'livepatch_off');
	ok(wait_until(20, sub { !refused(qr/guest's own ftrace or livepatch/) }),
		"$version: it is traced again when the livepatch has gone");
	like(query(), qr/"lost":\s*0\b/, "$version: no event is lost because of it");
}

sub test_probes {
	my ($name, $version, @exits) = @_;
	do_inside($name, "probes_on @exits");
	do_inside($name, 'work');
	is(refused(qr/a kprobe of the guest is at this exit/), scalar(@exits), "$version: the exits with kprobes are listed as refused");
}

sub hits {
	my ($name) = @_;
	my $log = $libvirt->serial($name) =~ s/\r//gr;
	return map { /^(\w+) +(\d+) / ? ($1 => $2) : () } found($log, 'kprobe');
}

sub make_initrd {
	my ($name, $version) = @_;
	my @files = ("$FindBin::RealBin/yields-inside=/etc/rc");
	if (can_livepatch($name)) {
		build_module(fetch_kernel($version), "$tree/tests/workload/livepatch-module.c", "$work/livepatch.ko");
		push @files, "$work/livepatch.ko=/lib/livepatch.ko";
	}
	build_initrd("$work/$name.cpio", @files);
}

sub test_kernel {
	my ($version, $image) = split m{/}, $_[0];
	my $name = 'yields-' . $version =~ s/\./-/r;
	$AttachTest::in_memory{$name} = $image;
	make_initrd($name, $version);
	# With two vCPUs QEMU 7.2's emulation hangs now and then when the guest changes its text, traced or not.
	start_ticking($name, kernel => fetch_kernel($version) . "/vmlinuz", initrd => "$work/$name.cpio", line => 1);
	my @exits = find_exits($name, $version);
	my $probed = rehearse($name, @exits);
	my $pid = $libvirt->spawn('traced', attach_command($name, '--monitor', "$work/run/m"));
	ok(wait_tracing(), "$version: attach traces") or diag(log_of('traced'));
	test_functions($name, $version);
	test_bpf($name, $version);
	test_livepatch($name, $version) if can_livepatch($name);
	test_rapid($name, $version, @exits);
	test_probes($name, $version, @exits);
	kill INT => $pid;
	is($libvirt->wait_for($pid, 60), 130, "$version: SIGINT ends attach with status 130") or diag(log_of('traced'));
	ok(!journals(), "$version: nothing is left to be undone");
	ok(text_of($name) eq $probed, "$version: the text with the guest's own kprobes is that of an untraced guest")
		or diag(GuestText::differences(text_of($name), $probed));
	do_inside($name, 'work');
	do_inside($name, 'probes_off');
	my %hits = hits($name);
	cmp_ok($hits{$_} // 0, '>', 10, "$version: the kprobe $_ was hit: " . ($hits{$_} // 0)) for qw(at_site at_exit);
	is_as_before($name, "$version: when the kprobes are removed");
	test_hibernation($name, $version);
	is_untroubled($libvirt->serial($name) =~ s/\r//gr, "$version: the guest's log has no warnings", TROUBLE);
	$libvirt->destroy($name);
}

# Without swap the kernel makes the image, which newer ones do not print, and cannot write it.
sub test_hibernation {
	my ($name, $version) = @_;
	my $pid = $libvirt->spawn('hibernated', attach_command($name));
	ok(wait_tracing(), "$version: to hibernate: attach traces") or diag(log_of('hibernated'));
	my $took = do_inside($name, 'hibernate');
	is($libvirt->wait_for($pid, 60), 0, "$version: hibernation ends attach with status 0") or diag(log_of('hibernated'));
	like(log_of('hibernated'), qr/^sonde attach: the guest hibernates, and the trace ended with it$/m, "$version: attach says so");
	like(sidecar(), qr/"ended": "the guest hibernates"/, "$version: the trace says so, too");
	like($libvirt->serial($name), qr/hibernation: .*[Ii]mage created|Cannot find swap device/, sprintf "%s: the guest makes an image after that, within %.1f s", $version, $took)
		or diag($libvirt->serial($name) =~ /(.*(?:PM:|hibernat).*)/g);
	is_as_before($name, "$version: hibernated");
}

# The other kernel ticks, too; its initramfs has none to start. An emulated CPU that others use as well may take longer than
# the 21 s of the watchdog to hash both.
sub test_kexec {
	my ($version) = @_;
	my ($name, $image) = ('kexec-' . $version =~ s/\./-/r, fetch_kernel($version) . "/vmlinuz");
	build_initrd("$work/small", "$tree/tests/libvirt/ticks=/etc/rc");
	build_initrd("$work/large", "$FindBin::RealBin/yields-inside=/etc/rc", "$image=/boot/vmlinuz", "$work/small=/boot/initrd");
	start_ticking($name, kernel => $image, initrd => "$work/large", line => 1, mib => 512, cmdline => 'rcupdate.rcu_cpu_stall_timeout=120');
	my $pid = $libvirt->spawn('left', attach_command($name));
	ok(wait_tracing(), "$version: to start another kernel: attach traces") or diag(log_of('left'));
	$libvirt->tell($name, 'kexec');
	is($libvirt->wait_for($pid, 120), 0, "$version: kexec ends attach with status 0") or diag(log_of('left'));
	like(log_of('left'), qr/^sonde attach: the guest starts another kernel \(kexec\), and the trace ended with it$/m, "$version: attach says so");
	my $again = sub { my $n = () = $libvirt->serial($name) =~ /Linux version/g; return $n == 2 && $libvirt->serial($name) =~ /Linux version.*Linux version.*tick/s };
	ok(wait_until(120, $again), "$version: the other kernel boots") or describe($name);
	ok(wait_undone(), "$version: nothing is left to be undone") or diag(log_of('left'));
	unlike($libvirt->virsh('dumpxml', $name), qr/ua-sonde/, "$version: the device has gone");
	is_untroubled($libvirt->serial($name) =~ s/\r//gr, "$version: neither kernel's log has warnings", TROUBLE);
	my ($status, $text) = attach($name, '--duration', 1);
	is($status, 0, "$version: the other kernel can be traced") or diag($text);
	$libvirt->destroy($name);
}

AttachTest::start();
test_kernel($_) for @kernels;
test_kexec($kernels[0] =~ s{/.*}{}r);
done_testing();
