#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The oracle test on libvirt domains, for each row of tests/libvirt/configs: compares what sonde attach
# recorded with the guest's own trace events, one by one, pages included. In a campaign (BUDGET) the rows come in
# random order, again and again.
use strict;
use warnings;
use FindBin;
use List::Util qw(shuffle);
use Test::More;
use Time::HiRes qw(time);

use lib $FindBin::RealBin, map { "$FindBin::RealBin/../$_" } qw(guest lib);
use AttachTest;
use Campaign;
use Files;
use GuestConfigs;
use GuestLog;
use OracleCheck;
use Process;
use Tree;

use constant MEMORY_BYTES => 384 << 20;

# The guest waits for a line before its workload; its oracle waits forever after it. Traps are slow: with
# them the work is one small command, or with 0 iterations the oracle's own. The oracle's buffer is small
# then, because its pages are events, too.
sub guest_script {
	my ($row, $iterations) = @_;
	return "oracle -p -b 256 -s </dev/ttyS1 >/dev/ttyS0\n" unless $iterations;
	my $work = $row->{mode} eq 'trap' ? '-b 2048 cat /proc/self/maps' : "-b 24576 workload -n $iterations";
	return "echo oracle-waits >/dev/ttyS0; read -r line </dev/ttyS1\n" .
		"sleep 1000000 | oracle -p $work\n";
}

sub start_oracle {
	my ($row, $iterations) = @_;
	write_file("$work/oracle.rc", guest_script($row, $iterations));
	build_initrd("$work/oracle.cpio", "$work/oracle.rc=/etc/rc");
	start_domain('o', kernel => kernel_image($row->{kernel}), initrd => "$work/oracle.cpio",
		cpus => $row->{cpus}, machine => $row->{machine}, line => 1);
	return $libvirt->wait_serial('o', qr/oracle-waits/, 300);
}

# Read the oracle's events from the guest's memory.
sub save_events {
	my ($pages) = $libvirt->serial('o') =~ /sonde-oracle: pages (0x\w+)/;
	$libvirt->virsh('qemu-monitor-command', 'o', '--hmp', 'pmemsave 0 ' . MEMORY_BYTES . " \"$work/out/ram\"");
	run_or_die("$build/tests/guest/oracle-extract $work/out/ram $pages > $work/guest-events");
	unlink "$work/out/ram";
}

# In trap mode the whole workload is traced, not a sample.
sub mode_options {
	my ($row) = @_;
	return ('--mode', $row->{mode}, $row->{mode} eq 'trap' ? ('--max-rate', 0) : ());
}

sub trace_workload {
	my ($row, $name, $iterations) = @_;
	my $pid = $libvirt->spawn('oracle', attach_command('o', mode_options($row)));
	my $from = time;
	ok(wait_tracing(), "$name: attach traces") or return;
	$libvirt->tell('o', 'go');
	ok($libvirt->wait_serial('o', qr/sonde-oracle: pages 0x\w+/, $row->{mode} eq 'trap' ? 900 : 240 + 10 * $iterations),
		"$name: the workload ends") or return;
	diag(sprintf '%s: workload of %.0f s', $name, time - $from);
	kill INT => $pid;
	return is($libvirt->wait_for($pid, 120), 130, "$name: SIGINT ends attach with status 130");
}

# A row that fails leaves nothing to the next one.
sub check_row {
	my ($row) = @_;
	compare_events($row);
	system('rm', '-r', '-f', "$work/records");
	$libvirt->destroy('o');
	unlink map { "$work/o.line.$_" } qw(in out);
}

sub compare_events {
	my ($row) = @_;
	my $scale = $row->{mode} eq 'trap' ? 1 : $ENV{ITERATIONS_SCALE} // 1;
	my $iterations = $row->{iterations} * $scale;
	my $name = "$row->{kernel}, $row->{machine}, $row->{cpus} vCPU, $row->{mode}";
	ok(start_oracle($row, $iterations), "$name: the guest boots") or return diag($libvirt->serial('o'));
	trace_workload($row, $name, $iterations) or return diag(log_of('oracle'));
	save_events();
	OracleCheck::check_events(name => $name, build => $build, guest => "$work/guest-events",
		kernel => kernel_image($row->{kernel}), trace => trace_dir(), out => $work,
		cpus => $row->{cpus}, min_events => $row->{min_events} * $scale);
	my ($allocs, $frees, $lost) = report();
	is($lost, 0, sprintf '%s: of %d events none is lost', $name, $allocs + $frees);
	is_untroubled($libvirt->serial('o'), "$name: the guest's log is clean", WARNINGS);
}

AttachTest::start();
my @rows = GuestConfigs::rows("$FindBin::RealBin/configs");
my $on_kvm = ($ENV{DOMAIN_TYPE} // '') eq 'kvm';
@rows = grep { ($_->{when} eq 'kvm') == $on_kvm } @rows;
@rows = grep { $_->{when} ne 'long' || $ENV{LONG} } @rows unless $ENV{GUEST};
plan skip_all => 'no row of tests/libvirt/configs matches GUEST=' . ($ENV{GUEST} // '') unless @rows;
my $rows = rounds(ROWS => scalar @rows, 1, 60);
@rows = shuffle @rows if in_campaign();
while (my $i = $rows->next) { check_row($rows[($i - 1) % @rows]) }
add_total($rows->done, 'guests');
done_testing();
