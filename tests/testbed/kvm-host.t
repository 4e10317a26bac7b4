#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# tests/testbed/kvm-host: streams, environment, exit statuses, clean-up.

use strict;
use warnings;
use File::Temp qw(tempdir);
use FindBin;
use Test::More;

use lib "$FindBin::RealBin/../lib";
use Files;
use Process;
use Tree;

my $kvm_host = "$tree/tests/testbed/kvm-host";
my $work = tempdir("kvm-host-t-XXXXXX", TMPDIR => 1, CLEANUP => 1);
chdir $work or die "$work: $!";

# KVM must not see another frequency of the TSC later than the one it was loaded with (host-init).
my $print_clock = "dmesg | grep -oE 'Switched to clocksource tsc\$|kvm: Nested Virtualization'\n";
my $clock_first = "Switched to clocksource tsc\nkvm: Nested Virtualization\n";

# Runs a shell script as the command. Returns status, standard output, standard error.
sub host {
	my ($options, $script) = @_;
	write_file("$work/script", $script);
	system("\Q$kvm_host\E $options -- sh ./script <in >out 2>err");
	return ($? >> 8, slurp("$work/out"), slurp("$work/err"));
}

sub test_streams {
	write_file("$work/in", map { "line $_\n" } 1 .. 50000);
	my ($status, $out, $err) = host("", $print_clock . <<'END');
echo to-stderr >&2
[ -c /dev/kvm ] && echo kvm
pwd
cat /sys/kernel/debug/kvm/exits
echo shared >written
echo $((1000 + $(nproc)))
seq 3 >/dev/stdout
head -c 3000000 /dev/zero | tr '\0' z
cat
exit 3
END
	is($status, 3, "kvm-host exits with the status of the command");
	is($err, "to-stderr\n", "standard error has the command's lines and no others");
	my ($head, $zs, $rest) = $out =~ /^(.*?\n)(z+)(.*)$/s;
	is($head, "${clock_first}kvm\n$work\n0\n1002\n1\n2\n3\n", "the command sees a TSC that KVM can trust, /dev/kvm, its directory, KVM's statistics and two CPUs");
	is(length $zs, 3_000_000, "megabytes of output arrive");
	ok($rest eq slurp("$work/in"), "standard input reaches the command");
	is(slurp("$work/written"), "shared\n", "a file that the command writes is on the build machine");
	write_file("$work/in");
}

# SIGINT must not be ignored when the command starts: a shell cannot undo that, so tests of Ctrl-C would be void.
sub test_environment {
	$ENV{SONDE_TEST} = "two  words'\"";
	my ($status, $out, $err) = host("--cpus 1 --share $work --share $tree", <<END);
printf '%s\\n' "\$SONDE_TEST" "\${PATH%%:*}"
trap 'echo caught' INT; kill -INT \$\$
touch /etc/sonde-test 2>/dev/null || echo read-only
$tree/tests/testbed/kvm-host --help | head -n 1
sleep 1000 &
exit 200
END
	is($status, 200, "kvm-host does not wait for background processes of the command");
	like($out, qr/^two  words'"\n\Q$build\E\ncaught\nread-only\nusage: kvm-host/,
		"the command has environment, PATH, SIGINT, a read-only root and the tree");
}

sub test_icount {
	my ($status, $out) = host("--icount", $print_clock . <<'END');
cat /sys/devices/system/clocksource/clocksource0/current_clocksource; nproc
grep -m 1 MHz /proc/cpuinfo
END
	like($out, qr/^${clock_first}tsc\n1\n.*: (1000\.\d+|999\.\d+)\n/s, "with --icount a TSC cycle is a virtual nanosecond");
}

sub test_failures {
	my ($status, $out, $err) = host("", "echo c >/proc/sysrq-trigger; sleep 100");
	is($status, 125, "a kernel panic of the machine gives status 125");
	like($err, qr/kernel stopped: .*sysrq triggered crash/, "the panic message is on standard error");

	($status, $out, $err) = host("--timeout 45", "echo early; sleep 100");
	is("$status $out", "124 early\n", "the time limit gives status 124, after the output that came before");
	like($err, qr/^kvm-host: time limit of 45 s/, "standard error names the time limit");

	is(system("\Q$kvm_host\E --bogus -- true 2>err") >> 8, 2, "an unknown option gives status 2");
	is(system("\Q$kvm_host\E 2>err") >> 8, 2, "a missing command gives status 2");
}

# Returns the process of kvm-host.
sub start_host {
	my @command = @_;
	my $pid = fork();
	if ($pid == 0) {
		open(STDIN, "<", "$work/in");
		open(STDOUT, ">", "$work/out");
		open(STDERR, ">", "$work/err");
		exec $kvm_host, @command;
	}
	return $pid;
}

sub wait_for_qemu {
	my ($pid) = @_;
	return wait_until(30, sub {
		(grep { (readlink("/proc/$_/exe") // "") =~ /qemu/ } children_of($pid))[0]
	});
}

sub test_hang {
	write_file("$work/in", "input\n");
	my $pid = start_host(qw(--start 40 --), "sh", "-c", "echo begun; cat");
	kill STOP => wait_for_qemu($pid);
	waitpid($pid, 0);
	is($? >> 8, 0, "a machine that hangs before it runs the command is started again");
	is(slurp("$work/out"), "begun\ninput\n", "... and the command runs once, with all of its input");
	like(slurp("$work/err"), qr/^kvm-host: the machine did not run the command within 40 s\n.*^kvm-host: starting it again\n/ms,
		"... which is said");
	write_file("$work/in");
}

sub test_killed {
	my ($signal) = @_;
	my $pid = start_host("--", "sleep", "100");
	my $qemu = wait_for_qemu($pid);
	kill $signal => $pid;
	waitpid($pid, 0);
	my $status = $?;
	ok($qemu && wait_until(30, sub { !-e "/proc/$qemu/exe" }), "QEMU ends with kvm-host on SIG$signal");
	return $status;
}

write_file("$work/in");
test_streams();
test_environment();
test_icount();
test_failures();
test_hang();
is(test_killed("TERM") >> 8, 143, "SIGTERM gives status 143");
is(test_killed("KILL"), 9, "SIGKILL ends kvm-host");
done_testing();
