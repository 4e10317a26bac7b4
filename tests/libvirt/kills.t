#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# SIGKILL of the tracer, of libvirtd, or of tracer and watchdog at random moments of an attachment: the
# domain is as before, by the watchdog or, after the watchdog's death, by sonde recover.
#
#   KILLS (6)           of the tracer
#   DAEMON_KILLS (2)    of libvirtd
#   WATCHDOG_KILLS (2)  of watchdog and tracer
#   SEED                of the moments
#   BUDGET              seconds, instead of these numbers
use strict;
use warnings;
use FindBin;
use POSIX qw(WNOHANG);
use Test::More;
use Time::HiRes qw(sleep time);

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use AttachTest;
use Campaign;
use Process;

my $seed = $ENV{SEED} // int(time) ^ $$;
my $whole; # seconds that an undisturbed attachment takes

sub measure {
	my $from = time;
	my ($status, $text) = attach('t', '--duration', 1);
	$whole = time - $from;
	is($status, 0, sprintf 'an undisturbed attachment of 1 s has status 0, after %.1f s', $whole) or diag($text);
}

# Whether the watchdog had something to undo, by its message.
sub had_patches { return log_of($_[0]) =~ /put back [1-9]\d* places/ ? 1 : 0 }

# On a busy machine both the watchdog and the guest, which has to release the device, wait for a CPU.
sub check_times {
	my ($count, $what, $most, @s) = @_;
	@s = sort { $a <=> $b } @s, @s ? () : 0;
	cmp_ok($s[-1], '<', $most, sprintf 'SIGKILL of the tracer, %d times: %s within %d s: %.2f s (median), %.2f s (longest)',
		$count, $what, $most, $s[@s / 2], $s[-1]);
}

sub test_tracer {
	my $kills = rounds(KILLS => 6, 0.6, 150);
	my %total = map { $_ => 0 } qw(harmed late patched);
	my (@restored, @took); # s, until the text is as before; until mapping and device are gone, too
	while (my $i = $kills->next) {
		my %seen = kill_tracer('t', "kill $i", start_some('t', 'killed', $whole));
		$total{$_} += $seen{$_} for keys %total;
		push @restored, $seen{restored} if $seen{patched};
		push @took, $seen{took};
	}
	my $count = $kills->done;
	add_total($count, 'kills of the tracer');
	is($total{harmed}, 0, "SIGKILL of the tracer, $count times (seed $seed), $total{patched} with patches in the guest: "
		. 'the domain is as before');
	check_times($count, 'the text is as before', 3, @restored);
	check_times($count, 'all is undone', 10, @took);
	is($total{late}, 0, "SIGKILL of the tracer, $count times: none comes after its end");
}

sub test_daemon {
	my $kills = rounds(DAEMON_KILLS => 2, 1, 100);
	my ($harmed, $failed, $patched) = (0, 0, 0);
	while (my $i = $kills->next) {
		my ($pid, $after) = start_some('t', 'daemon', $whole);
		kill_hard($libvirt->libvirtd);
		$failed++ if $libvirt->wait_for($pid, 60);
		wait_undone();
		$patched += had_patches('daemon');
		$harmed += judge('t', "libvirtd's kill $i", $after, 'daemon');
	}
	my $count = $kills->done;
	add_total($count, 'kills of libvirtd');
	is($harmed, 0, "SIGKILL of libvirtd, $count times (seed $seed), $failed attachments failed, $patched undone by the "
		. 'watchdog: the domain is as before');
}

# libvirtd dies and stays away: the tracer waits for its watchdog, unless the user asks it again to end. The watchdog
# does its work when libvirtd is back.
sub test_daemon_away {
	local $ENV{LIBVIRT_AUTOSTART} = 0; # sonde does not start a libvirtd itself
	my $pid = $libvirt->spawn('away', attach_command('t'));
	ok(wait_tracing(), 'libvirtd to be killed: attach traces');
	sleep 0.5;
	my ($daemon, $from) = ($libvirt->libvirtd, time);
	kill_hard($daemon);
	sleep 3;
	is(waitpid($pid, WNOHANG), 0, 'libvirtd away: the tracer waits for its watchdog');
	my $asked = time;
	kill INT => $pid;
	is($libvirt->wait_for($pid, 4), 130, 'libvirtd away: SIGINT ends the wait with status 130') or diag(log_of('away'));
	cmp_ok(time - $from, '<', 9, sprintf 'libvirtd away: the tracer ends before its watchdog does: %.1f s after SIGINT', time - $asked);
	is(scalar(journals()), 1, 'libvirtd away: the journal is left');
	delete $ENV{LIBVIRT_AUTOSTART};
	$libvirt->virsh('list');
	ok(wait_undone(), 'libvirtd back: the watchdog undoes everything');
	is_as_before('t', 'libvirtd away and back');
}

# libvirtd hangs: the tracer gives it up and ends, as does a new one, and the watchdog does its work when it is back.
sub test_daemon_hangs {
	my $pid = $libvirt->spawn('hangs', attach_command('t'));
	ok(wait_tracing(), 'libvirtd to be stopped: attach traces');
	sleep 0.5;
	my ($daemon, $from) = ($libvirt->libvirtd, time);
	kill STOP => $daemon;
	my ($status, $text) = recover('none');
	is($status, 1, 'libvirtd stopped: recover has status 1');
	like($text, qr/libvirtd does not answer/, sprintf 'libvirtd stopped: recover says so after %.0f s', time - $from);
	is($libvirt->wait_for($pid, 120), 1, sprintf 'libvirtd stopped: attach ends with status 1 after %.0f s', time - $from)
		or diag(log_of('hangs'));
	ok(lives('t'), 'libvirtd stopped: the guest makes progress');
	kill CONT => $daemon;
	ok(wait_undone(), 'libvirtd continued: the watchdog undoes everything');
	is_as_before('t', 'libvirtd stopped and continued');
}

# Start a tracer and wait until it has its watchdog.
sub start_watched {
	my ($name) = @_;
	my $pid = $libvirt->spawn($name, attach_command('t'));
	return ($pid, wait_until(30, sub { (children_of($pid))[0] }, 0.02));
}

sub test_recover {
	leave_alone('orphan');
	is(scalar(journals()), 1, 'tracer and watchdog killed: the journal is left');
	ok(text_of('t') ne text_before('t'), 'tracer and watchdog killed: the patches are left');
	my ($status, $text) = attach('t', '--duration', 1);
	like($text, qr/run 'sonde recover'/, 'tracer and watchdog killed: a new attach asks for recover');
	($status, $text) = recover('t');
	is($status, 0, "tracer and watchdog killed: recover has status 0: $text");
	is_as_before('t', 'after recover');
}

# The administrator pauses a domain whose tracer and watchdog are dead: it stays paused, with its own text.
sub test_recover_paused {
	leave_alone('orphan');
	$libvirt->virsh('suspend', 't');
	my ($status, $text) = recover('t');
	is($status, 1, "recover of a paused domain has status 1, because something is left: $text");
	like($text, qr/paused/, 'recover of a paused domain says why something is left');
	is_text_as_before('t', 'recover of a paused domain');
	like($libvirt->virsh('domstate', 't', '--reason'), qr/^paused \(user\)/, 'recover of a paused domain leaves it paused');
	$libvirt->virsh('resume', 't');
	($status, $text) = recover('t');
	is($status, 0, "recover after the resume has status 0: $text");
	is_as_before('t', 'paused, recovered, resumed');
}

sub test_watchdog {
	my $kills = rounds(WATCHDOG_KILLS => 2, 0.6, 100);
	my ($harmed, $failed, $patched) = (0, 0, 0);
	while (my $i = $kills->next) {
		my ($pid, $watchdog) = start_watched('orphan');
		my $after = rand $whole;
		sleep $after;
		kill_hard($watchdog, $pid);
		waitpid $pid, 0;
		$patched++ if text_of('t') ne text_before('t');
		my ($status, $text) = recover('t');
		$failed++, diag("recovery $i: $text") if $status;
		$harmed += judge('t', "watchdog's kill $i", $after, 'orphan');
	}
	my $count = $kills->done;
	add_total($count, 'kills of tracer and watchdog');
	is($harmed + $failed, 0, "SIGKILL of watchdog and tracer, $count times (seed $seed), $patched with patches in the "
		. 'guest: sonde recover succeeds and the domain is as before');
}

# The journal lacks a stop that followed an administrator's resume. libvirt's reason shows it.
sub test_unnoted_stop {
	leave_alone('unnoted');
	$libvirt->virsh('qemu-monitor-command', 't', '--hmp', 'stop');
	my ($status, $text) = recover('t');
	is($status, 0, "a stop that the journal lacks: recover has status 0: $text");
	is_as_before('t', 'a stop that the journal lacks');
}

# A tracer that ends in order does not need its watchdog.
sub test_watchdog_only {
	my ($pid, $watchdog) = start_tracer('unwatched');
	kill_hard($watchdog);
	sleep 0.5;
	kill INT => $pid;
	is($libvirt->wait_for($pid, 60), 130, 'watchdog killed: SIGINT ends the tracer with status 130') or diag(log_of('unwatched'));
	is_as_before('t', 'watchdog killed');
}

AttachTest::start();
start_ticking('t');
srand $seed;
measure();
test_tracer();
test_recover();
test_recover_paused();
test_unnoted_stop();
test_watchdog_only();
test_watchdog();
test_daemon();
test_daemon_away();
test_daemon_hangs();
done_testing();
