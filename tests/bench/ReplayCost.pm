# SPDX-License-Identifier: GPL-2.0-or-later
#
# The cost of replaying a trace of ten million events of a guest, which is recorded once. babeltrace2, which reads it and
# drops it, `sonde report` and each export take turns on the same machine, which need not be idle: each has the best of
# its rounds.
package ReplayCost;

use strict;
use warnings;
use List::Util qw(min);
use POSIX qw(WNOHANG _exit);
use Time::HiRes qw(time sleep);
use File::Path qw(remove_tree);
use Process;
use Testbed;
use Tree;

use constant { EVENTS => 10_000_000, BOOT_EVENTS => 200_000, ITERATION_EVENTS => 800, TIME_LIMIT => 3600, PAUSE_S => 0.01 };

my @traces = qw(ctf kmemtrace); # directories; the other exports are files
my @exports = (@traces, qw(trace.dat perfetto jsonl csv folded flamegraph pprof parquet parquet-sites rowbinary rowbinary-sites));
my $events; # in the trace

sub record {
	my ($out) = @_;
	my $iterations = int((EVENTS - BOOT_EVENTS) / ITERATION_EVENTS);
	# a guest reads its console
	my @command = ('sh', '-c', 'exec "$@" </dev/null', 'sh', "$build/sonde", 'run', '-k', fetch_kernel('6.1') . '/vmlinuz',
		'-i', "$build/guest/initrd", '-m', 256, '-c', 2, '--trace', 'kmem', '-o', $out,
		'-p', "console=ttyS0 panic=-1 quiet sonde.run=\"workload -n $iterations\"");
	on_kvm_host({timeout => TIME_LIMIT}, @command) == 0 or die "bench: the guest of the long trace failed\n";
}

# The events of all rounds, which `sonde check` counts.
sub count_events {
	my ($trace) = @_;
	my ($n) = `\Q$build\E/sonde check \Q$trace\E` =~ /^Checked +([\d,]+) records/m or die "bench: $trace: no records\n";
	return $n =~ s/,//gr;
}

sub make_trace {
	my $out = "$build/tests/bench/long-trace";
	unless (-e "$out/.sonde.json") {
		print STDERR "bench: recording a guest for ten million events, some minutes\n";
		remove_tree("$out.new");
		record("$out.new");
		rename "$out.new", $out or die "bench: $out: $!\n";
	}
	$events = count_events($out);
	return $out;
}

# The most memory that a process had so far, in bytes; 0 when it has ended.
sub peak_of {
	my ($pid) = @_;
	open my $status, '<', "/proc/$pid/status" or return 0;
	my ($kib) = map { /^VmHWM:\s+(\d+)/ ? $1 : () } <$status>;
	return 1024 * ($kib // 0);
}

# Nanoseconds per event, of all CPUs and of the clock, and bytes of memory.
sub cost {
	my (@command) = @_;
	my ($peak, $begin, @before) = (0, time, times);
	my $pid = fork // die "fork: $!\n";
	if (!$pid) {
		open STDOUT, '>', '/dev/null';
		open STDERR, '>', '/dev/null';
		exec @command or _exit(127);
	}
	until (waitpid($pid, WNOHANG)) {
		my $now = peak_of($pid);
		$peak = $now if $now > $peak;
		sleep(PAUSE_S);
	}
	$? == 0 or die "bench: @command: status $?\n";
	my @after = times;
	my $cpu = $after[2] + $after[3] - $before[2] - $before[3];
	return { cpu => 1e9 * $cpu / $events, clock => 1e9 * (time - $begin) / $events, memory => $peak };
}

sub export_command {
	my ($trace, $format, $out) = @_;
	my @force = grep({ $_ eq $format } @traces) ? () : '--force';
	return ['taskset', '-c', 0, "$build/sonde", 'convert', $trace, @force, '--to', $format, '-o', $out];
}

sub best { my ($what, @costs) = @_; return min(map { $_->{$what} } @costs) }

# {NAME => {cpu, clock, memory}}: babeltrace2 (unless it is not installed), report, both_cpus, and exports by name.
sub run {
	my ($rounds) = @_;
	my $trace = make_trace();
	my $out = "$build/tests/bench/export";
	my %command = (report => ['taskset', '-c', 0, "$build/sonde", 'report', $trace],
		all_cpus => ["$build/sonde", 'report', $trace],
		map({ $_ => export_command($trace, $_, "$out-$_") } @exports));
	$command{babeltrace2} = ['babeltrace2', $trace, '-o', 'dummy'] if grep { -x "$_/babeltrace2" } split /:/, $ENV{PATH};
	my %costs;
	for (1 .. $rounds) {
		for my $name (sort keys %command) {
			remove_tree("$out-$name"); # of a bench that was interrupted
			push @{ $costs{$name} }, cost(@{ $command{$name} });
			remove_tree("$out-$name");
		}
	}
	return { map { my $name = $_; ($name => { map { $_ => best($_, @{ $costs{$name} }) } qw(cpu clock memory) }) } keys %costs };
}

1;
