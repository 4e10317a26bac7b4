# SPDX-License-Identifier: GPL-2.0-or-later
#
# On the KVM host: a guest that works until it is told to end, whose tracing is controlled by its monitor.
package LoadedGuest;

use strict;
use warnings;
use Exporter qw(import);
use POSIX qw(WNOHANG);
use Time::HiRes qw(sleep time);

use Files;
use Process;

our @EXPORT = qw(begin has_ended ticks await await_ticks finish power_off save_text);

use constant { MEMORY_MIB => 384, CPUS => 4, KASLR_SEED => 20080722, PATIENCE => 300 };
# Prints a line for each round of work; a line of input ends it. (A kernel that powers off while its CPUs are
# busy may warn: "Unexpected reschedule of offline CPU".)
use constant ENDLESS => 'while [ ! -e /tmp/over ] && workload -n 2 >/dev/null; do echo tick; done & read x; touch /tmp/over; wait';

# A folder for all files, the monitor's socket, the trace.
our @paths;
my ($kernel, $initrd);

sub set_up {
	(my $work, $kernel, $initrd) = @_;
	@paths = ($work, "$work/monitor", "$work/trace");
	mkdir $work;
}

# Boots a guest that runs $command. Its console is NAME.log, the stderr of `sonde run` NAME.err.
sub begin {
	my ($name, $command, @options) = @_;
	my ($work, $monitor) = @paths;
	unlink $monitor;
	pipe(my $input, my $to) or die "pipe: $!\n";
	my $pid = fork // die "fork: $!\n";
	return {name => $name, pid => $pid, to => $to} if $pid;
	open STDIN, '<&', $input;
	open STDOUT, '>', "$work/$name.log";
	open STDERR, '>', "$work/$name.err";
	close $to;
	exec('sonde', 'run', '-k', $kernel, '-i', $initrd, '-m', MEMORY_MIB, '-c', CPUS,
		'--kaslr-seed', KASLR_SEED, '--monitor', $monitor, @options, '-p',
		"console=ttyS0 loglevel=5 cryptomgr.notests panic=-1 sonde.run=\"$command\"") or POSIX::_exit(127);
}

# Whether the run has ended. Sets its exit status, as a shell would print it.
sub has_ended {
	my ($run, $flags) = @_;
	return 1 if defined $run->{status};
	return 0 unless waitpid($run->{pid}, $flags) == $run->{pid};
	$run->{status} = exit_status($?);
	return 1;
}

# Rounds of work until now.
sub ticks { return scalar(() = slurp("$paths[0]/$_[0]{name}.log") =~ /^tick\r?$/mg) }

sub await {
	my ($run, $what, $check) = @_;
	my $seen = wait_until(PATIENCE, sub {
		return 1 if $check->();
		die "$what: the run has ended\n" if has_ended($run, WNOHANG);
		return 0;
	}, 0.05);
	die "$what: not within " . PATIENCE . " s\n" unless $seen;
}

sub await_ticks {
	my ($run, $more) = @_;
	my $goal = ticks($run) + $more;
	await($run, "$more rounds of work", sub { ticks($run) >= $goal });
}

# Waits for the end of the run; returns its exit status.
sub finish {
	my ($run) = @_;
	if (!wait_until(PATIENCE, sub { has_ended($run, WNOHANG) }, 0.05)) {
		kill KILL => $run->{pid};
		die "sonde run did not end\n";
	}
	return $run->{status};
}

sub power_off {
	my ($run) = @_;
	syswrite $run->{to}, "\n";
	return finish($run);
}

# Saves guest-physical memory to NAME.text while the guest is paused.
sub save_text {
	my ($name, $qmp, $gpa, $size) = @_;
	$qmp->ask('stop');
	$qmp->ask('pmemsave', val => $gpa, size => $size, filename => "$paths[0]/$name.text");
	$qmp->ask('cont');
}

1;
