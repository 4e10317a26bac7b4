# SPDX-License-Identifier: GPL-2.0-or-later
#
# The cost of sonde attach for a workload in a libvirt domain: before attaching, attached in each mode, and
# after detaching. The domain is emulated with -icount, so its own clock counts its instructions. The time
# for which it is stopped is measured outside.
package DomainCost;

use strict;
use warnings;
use File::Basename qw(dirname);
use Time::HiRes qw(time);

use lib map { dirname(__FILE__) . "/../$_" } qw(libvirt lib);
use Files;
use Libvirt;
use Process;

use constant { RUN => 100, BOOT_S => 300 };

# Per mode: options of sonde attach, and iterations; fewer if each event takes milliseconds.
my %mode = (
	exitless => {options => [], runs => RUN},
	breakpoints => {options => [qw(--mode trap --max-rate 0)], runs => 1},
);

# Waits for the next line of the guest that matches. $self->{seen}: bytes of the console read so far.
sub expect {
	my ($self, $pattern, $seconds) = @_;
	my $match;
	wait_until($seconds, sub {
		my $new = substr $self->{libvirt}->serial('bench'), $self->{seen};
		return 0 unless $new =~ /$pattern/;
		$self->{seen} += $+[0];
		$match = $1;
		return 1;
	}, 0.02) or die "bench: the domain did not print $pattern\n";
	return $match;
}

sub cost {
	my ($self, $runs) = @_;
	my $from = time;
	$self->{libvirt}->tell('bench', "run $runs");
	my $ns = expect($self, qr/sonde-timed: (\d+)\r?\n/, 1200);
	return {instructions => $ns / $runs, seconds => (time - $from) / $runs};
}

sub wait_tracing {
	my ($self, $trace) = @_;
	wait_until(60, sub { slurp("$trace/.sonde.json") =~ /"started_realtime_ns": [1-9]/ })
		or die 'bench: attach: ', slurp($self->{libvirt}->work . '/attach.txt');
}

sub attached {
	my ($self, $mode) = @_;
	my $libvirt = $self->{libvirt};
	my $trace = $libvirt->work . '/out/' . ++$self->{traces};
	my $pid = $libvirt->spawn('attach', $libvirt->sonde('attach', 'bench', '-k', $libvirt->work . '/bench.kernel',
		'-o', $trace, @{$mode{$mode}{options}}));
	wait_tracing($self, $trace);
	my $cost = cost($self, $mode{$mode}{runs});
	kill INT => $pid;
	$libvirt->wait_for($pid, 120) == 130 or die 'bench: attach: ', slurp($libvirt->work . '/attach.txt');
	my ($status, $text) = $libvirt->run($libvirt->work . '/sonde', 'report', '--json', $trace);
	$text =~ /"lost": 0\b/ && $text =~ /"overruns": 0\b/ or die "bench: events were lost: $text\n";
	return $cost;
}

sub boot {
	my ($libvirt, $kernel, $initrd) = @_;
	my $self = {libvirt => $libvirt, seen => 0, traces => 0};
	$libvirt->domain('bench', kernel => $kernel, initrd => $initrd, cpus => 1, machine => 'q35', memory => 'shared',
		cmdline => 'quiet nokaslr', line => 1, arguments => ['-icount', 'shift=0,sleep=off']);
	expect($self, qr/sonde-loop: ready\r?\n/, BOOT_S);
	cost($self, RUN); # fills the guest's caches
	return $self;
}

# Returns the costs of each round, by mode.
sub run {
	my ($sonde, $rounds, $kernel, $initrd) = @_;
	my $libvirt = Libvirt->start($sonde);
	my $self = boot($libvirt, $kernel, $initrd);
	my @rounds;
	for my $round (1 .. $rounds) {
		print STDERR "bench: domain, round $round\n";
		my %cost = (detached => cost($self, RUN));
		$cost{$_} = attached($self, $_) for sort keys %mode;
		$cost{again} = cost($self, RUN);
		push @rounds, \%cost;
	}
	$libvirt->destroy('bench');
	return \@rounds;
}

1;
