# SPDX-License-Identifier: GPL-2.0-or-later
#
# Processes, and waiting for what they do.
package Process;

use strict;
use warnings;
use Exporter qw(import);
use Time::HiRes qw(sleep time);
use Files;

our @EXPORT = qw(run_or_die exit_status children_of kill_hard wait_until);

sub run_or_die {
	my (@command) = @_;
	system(@command) == 0 or die "@command: status ", exit_status($?), "\n";
}

# A shell's $? for a status of wait().
sub exit_status {
	my ($status) = @_;
	return $status & 127 ? 128 + ($status & 127) : $status >> 8;
}

sub children_of {
	my ($pid) = @_;
	return split ' ', slurp("/proc/$pid/task/$pid/children");
}

# Whether all of a process's threads have ended, and have closed its files. Its parent may not have seen that yet.
sub has_ended {
	my ($pid) = @_;
	return !grep { slurp("$_/stat") =~ /\) [^ZX]/ } glob "/proc/$pid/task/*";
}

# Sends SIGKILL. A signal is delivered later: returns when the processes have ended, so that their sockets refuse
# connections and their locks are free.
sub kill_hard {
	my (@pids) = @_;
	kill KILL => @pids;
	wait_until(60, sub { !grep { !has_ended($_) } @pids }, 0.005) or die "SIGKILL does not end @pids\n";
}

# Polls $check every $pause seconds (0.1) until it returns true, for at most $seconds. Returns its last
# result.
sub wait_until {
	my ($seconds, $check, $pause) = @_;
	my $end = time + $seconds;
	my $found;
	until ($found = $check->()) {
		last if time > $end;
		sleep($pause // 0.1);
	}
	return $found;
}

1;
