#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# An administrator suspends and resumes a domain at random moments while sonde attaches and detaches repeatedly. A
# domain that libvirt reports as "paused (user)" stays paused; a domain that was resumed runs.
#
# A suspend while sonde holds the domain stopped has no effect: libvirt reports success and does nothing, because the
# domain is paused already. Its reason is "unknown" then.
#
#   SUSPENDS (8)     of the domain
#   SEED            of the moments
#   BUDGET          seconds, instead of SUSPENDS
use strict;
use warnings;
use FindBin;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use AttachTest;
use Campaign;
use Files;
use Process;

my $seed = $ENV{SEED} // int(time) ^ $$;

sub reason { return $libvirt->virsh('domstate', 't', '--reason') =~ s/^\s+|\s+$//gr }

# Attach repeatedly until the file $go is gone. Writes the outcomes to attached.txt.
sub attach_forever {
	my ($go) = @_;
	my $pid = fork // die "fork: $!";
	return $pid if $pid;
	my %ended = (done => 0, refused => 0, cut => 0);
	for (my $i = 0; -e $go; $i++) {
		my $dir = "$work/out/cycle$i";
		my $status = $libvirt->wait_for($libvirt->spawn('cycle', $libvirt->sonde('attach', 't', '-k', "$work/t.kernel",
			'-o', $dir, '--until-events', 200)), 60);
		my $text = log_of('cycle');
		$ended{$status == 0 ? 'done' : $text =~ /is paused: resume it/ ? 'refused' : 'cut'}++;
		if ($text =~ /sonde recover/) {
			$libvirt->wait_for($libvirt->spawn('cycle-recover', $libvirt->sonde('recover', 't')), 100);
		}
		system('rm', '-rf', $dir);
	}
	open my $out, '>', "$work/attached.txt" or die $!;
	print $out "$ended{done} complete, $ended{cut} ended early, $ended{refused} refused";
	close $out;
	POSIX::_exit(0);
}

sub wait_running {
	return wait_until(20, sub { reason() =~ /^running/ });
}

# Returns whether the suspend had an effect, and what went wrong.
sub suspend_once {
	sleep rand 1.5;
	$libvirt->virsh('suspend', 't');
	my $reason = reason();
	return (0) unless $reason eq 'paused (user)';
	my $ticks = ticks('t');
	sleep 0.2 + rand 1;
	my $later = reason();
	my $wrong = $later eq $reason && ticks('t') == $ticks ? '' : "suspended, then $later";
	$libvirt->virsh('resume', 't');
	$wrong ||= 'resumed, but ' . reason() unless wait_running();
	return (1, $wrong || ());
}

AttachTest::start();
start_ticking('t');
srand $seed;
my $go = "$work/go";
open my $file, '>', $go or die $!;
close $file;
my $cycles = attach_forever($go);
my ($effective, @wrong) = (0);
my $suspends = rounds(SUSPENDS => 8, 1, 20);
while (my $i = $suspends->next) {
	my ($took, @why) = suspend_once();
	$effective += $took;
	push @wrong, map { "$i: $_" } @why;
}
unlink $go;
waitpid $cycles, 0;
my $count = $suspends->done;
add_total($count, 'suspensions');
is(scalar(@wrong), 0, "suspended $count times (seed $seed), $effective with effect: a suspended domain stays paused and a "
	. 'resumed one runs; attachments: ' . slurp("$work/attached.txt")) or diag(join "\n", @wrong, map { "$_: " . log_of($_) } qw(cycle cycle-recover));
cmp_ok($effective, '>', 0, 'at least one suspend has an effect');
recover('t');
ok(wait_undone(), 'after the suspends nothing is left to undo');
is_as_before('t', 'after the suspends');
done_testing();
