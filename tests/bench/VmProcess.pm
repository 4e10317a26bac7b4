# SPDX-License-Identifier: GPL-2.0-or-later
#
# A VMM's process on the KVM host, observed from outside: its guest's console, the exits that KVM counted, its
# memory. Also the host's clock, which counts instructions.
package VmProcess;

use strict;
use warnings;
use Exporter 'import';
use Files;
use POSIX ();
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

our @EXPORT_OK = qw(instructions_now);

# With -icount a nanosecond is an instruction, but idle time is skipped by advancing the clock, and must be
# subtracted. /proc/timer_list has it in nanoseconds (kernel/time/timer_list.c).
sub instructions_now {
	my $timers = must_slurp('/proc/timer_list');
	my $idle = 0;
	for my $kind (qw(idle_sleeptime iowait_sleeptime)) {
		my ($ns) = $timers =~ /\.$kind\s*:\s*(\d+) nsecs/
			or die "/proc/timer_list has no $kind\n";
		$idle += $ns;
	}
	return int(clock_gettime(CLOCK_MONOTONIC) * 1e9 - $idle);
}

sub start {
	my ($class, %opt) = @_;
	pipe my $child_in, my $to or die "pipe: $!\n";
	pipe my $from, my $child_out or die "pipe: $!\n";
	my $self = bless { %opt, to => $to, from => $from, seen => '' }, $class;
	$self->{started} = instructions_now();
	$self->{pid} = fork() // die "fork: $!\n";
	if (!$self->{pid}) {
		open STDIN, '<&', $child_in;
		open STDOUT, '>&', $child_out;
		open STDERR, '>', $opt{errors};
		exec { $opt{command}[0] } @{ $opt{command} } or POSIX::_exit(127);
	}
	$to->autoflush(1);
	return $self;
}

sub failed {
	my ($self, $what) = @_;
	my @errors = grep { /\S/ } split /\n/, must_slurp($self->{errors});
	my @console = split /\r?\n/, $self->{seen};
	splice @console, 0, @console - 8 if @console > 8;
	die join("\n", "$self->{name}: $what", map({ "  stderr: $_" } @errors),
		map({ "  console: $_" } @console)) . "\n";
}

# Waits until the console has shown the pattern, and returns what its group matched. There is no time limit
# here, because the clock jumps while this machine waits for 9p; kvm-host limits the real time.
sub expect {
	my ($self, $pattern) = @_;
	while (1) {
		if ($self->{seen} =~ s{^.*?$pattern}{}s) {
			return defined $1 ? $1 : "";
		}
		sysread $self->{from}, $self->{seen}, 65536, length $self->{seen}
			or $self->failed("ended before $pattern");
	}
}

sub say {
	my ($self, $line) = @_;
	print { $self->{to} } "$line\n" or $self->failed("cannot write to its console: $!");
}

# All exits since the machine was created, including those that KVM handled itself.
sub exits {
	my ($self) = @_;
	my @files = glob "/sys/kernel/debug/kvm/$self->{pid}-*/exits";
	@files == 1 or $self->failed('KVM does not have exactly one machine of this process');
	return 0 + must_slurp($files[0]);
}

# Resident bytes of the process without the guest's RAM. That mapping is recognised by its size, as it may be a
# file or anonymous memory.
sub own_memory {
	my ($self, $ram_size) = @_;
	my ($own, $ram_mappings, $is_ram) = (0, 0, 0);
	for (split /\n/, must_slurp("/proc/$self->{pid}/smaps")) {
		if (my ($from, $to, $access) = /^([0-9a-f]+)-([0-9a-f]+) (\S+) /) {
			no warnings "portable";    # addresses have more than 32 bits
			$is_ram = $access =~ /^rw/ && hex($to) - hex($from) == $ram_size;
			$ram_mappings += $is_ram;
		} elsif (/^Rss:\s+(\d+) kB/ && !$is_ram) {
			$own += $1 * 1024;
		}
	}
	$ram_mappings == 1 or $self->failed("$ram_mappings mappings look like the guest's RAM");
	return $own;
}

# The VMM's threads that have names of their own: name to thread id.
sub threads {
	my ($self) = @_;
	my %threads;
	for (glob "/proc/$self->{pid}/task/*") {
		my ($name) = (must_slurp("$_/comm") =~ /^sonde-(.*)$/m) or next;
		($threads{$name}) = m{(\d+)$};
	}
	return \%threads;
}

# Nanoseconds that each of them had a CPU, which are instructions, in the kernel as well as outside of it
# (Documentation/scheduler/sched-stats.rst).
sub thread_instructions {
	my ($self) = @_;
	my $threads = $self->threads;
	return { map { $_ => (split ' ', must_slurp("/proc/$self->{pid}/task/$threads->{$_}/schedstat"))[0] } keys %$threads };
}

sub pause { kill STOP => $_[0]{pid} }
sub unpause { kill CONT => $_[0]{pid} }

sub end {
	my ($self, $signal) = @_;
	kill $signal => $self->{pid} if $signal;
	waitpid $self->{pid}, 0;
	delete $self->{pid};
	return $?;
}

# If a measurement dies, its machine must not run beside the next one.
sub DESTROY {
	my ($self) = @_;
	local $?;
	$self->end('KILL') if $self->{pid};
}

1;
