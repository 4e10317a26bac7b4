#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A domain that is destroyed and started again is another guest with the same uuid. A tracer that was stopped meanwhile,
# its watchdog and sonde recover leave it alone. It boots another kernel at the same address, so that bytes of the old
# one's text would be noticed.
use strict;
use warnings;
use File::Copy qw(copy);
use FindBin;
use Test::More;
use Time::HiRes qw(sleep);

use lib map { "$FindBin::RealBin/$_" } '.', qw(../guest ../lib);
use AttachTest;
use Files;
use GuestText;
use Process;
use Tree;

use constant KERNEL_AT => 0x1000000; # CONFIG_PHYSICAL_START, with nokaslr

my %size; # of a kernel's text, and what lies before it
my ($uuid, $version);

# The kernel of the domain's next start.
sub use_kernel {
	($version) = @_;
	copy(kernel_image($version), "$work/t.kernel") or die "$work/t.kernel: $!";
	$size{$version} //= (GuestText::range("$build/sonde", "$work/t.kernel"))[1];
}

sub start_anew {
	my ($kernel, @options) = @_;
	$libvirt->virsh('destroy', 't');
	use_kernel($kernel);
	write_file("$work/t.serial");
	$libvirt->virsh('start', 't', @options);
}

sub boots { return $libvirt->wait_serial('t', qr{tick}, 600) }

sub text { return $libvirt->memory('t', KERNEL_AT, $size{$version}) }

sub is_untouched {
	my ($before, $what) = @_;
	my $now = text();
	ok($now eq $before, "$what: the new guest's text is untouched") or diag(GuestText::differences($now, $before));
	ok(lives('t'), "$what: the new guest makes progress");
	unlike($libvirt->virsh('dumpxml', 't'), qr/ua-sonde/, "$what: no device is left");
	is(scalar(journals()), 0, "$what: no journal is left");
}

sub append_to_journal {
	my ($line) = @_;
	open my $journal, '+<', "$work/run/sonde/$uuid" or die "$work/run/sonde/$uuid: $!";
	seek $journal, 0, 2;
	print $journal "$line\n";
	close $journal;
}

sub places { return scalar(() = slurp("$work/run/sonde/$uuid") =~ /^write /mg) }

# Another libvirtd of the same user, without domains.
sub other_connection {
	my $folder = "$work/out/other";
	my @other = ('env', map { "$_=$folder" } qw(HOME XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_DATA_HOME XDG_CACHE_HOME));
	my ($status, $text) = $libvirt->run('mkdir', '-p', $folder);
	($status, $text) = $libvirt->run(@other, 'virsh', '-q', '-c', Libvirt::URI, 'list');
	is($status, 0, "another libvirtd runs: $text");
	return "qemu+unix:///session?socket=$folder/libvirt/libvirt-sock";
}

sub end_other { kill TERM => $1 if slurp("$work/out/other/libvirt/libvirtd.pid") =~ /^(\d+)/ }

# Tracer and watchdog are dead; the domain runs at its own connection.
sub test_wrong_connection {
	leave_alone('unasked');
	my $uri = other_connection();
	my $places = places();
	my ($status, $text) = $libvirt->run("$work/sonde", 'recover', '-c', $uri, $uuid);
	is($status, 1, 'recover at a wrong connection has status 1');
	like($text, qr/its QEMU does.*with -c$/, "recover at a wrong connection asks for -c: $text");
	cmp_ok(places(), '>', 0, 'recover at a wrong connection keeps the journal');
	is(places(), $places, 'recover at a wrong connection does not change the journal');
	end_other();
	($status, $text) = recover('t');
	is($status, 0, "recover at the right connection has status 0: $text");
	like($text, qr/^t: [1-9]\d* places? put back/, 'recover at the right connection puts places back');
}

# The journal gets a breakpoint where the new guest has that byte by itself.
sub test_recover {
	leave_alone('orphan');
	start_anew('6.12');
	ok(boots(), 'recover: the domain boots again') or BAIL_OUT($libvirt->serial('t'));
	my $before = text();
	append_to_journal(sprintf 'write %x 90 %s', KERNEL_AT + 0x1000, unpack 'H*', substr $before, 0x1000, 1);
	my ($status, $text) = recover('t');
	is($status, 0, "recover after a restart has status 0: $text");
	like($text, qr/^t: the domain that was traced has ended/, 'recover after a restart says that the traced domain has ended');
	is_untouched($before, 'recover after a restart');
}

sub test_held_up {
	my ($pid, $watchdog) = start_tracer('held');
	kill STOP => $watchdog, $pid; # the watchdog would kill a tracer that is stopped
	start_anew('6.1');
	ok(boots(), 'stopped tracer: the domain boots again') or BAIL_OUT($libvirt->serial('t'));
	my $before = text();
	kill CONT => $pid;
	sleep 1.5; # it shows that it lives
	kill CONT => $watchdog;
	is($libvirt->wait_for($pid, 60), 0, 'stopped tracer: it ends with status 0 when continued') or diag(log_of('held'));
	like(log_of('held'), qr/sonde attach: the domain was destroyed, and the trace ended with it/, 'stopped tracer: it says why it ends');
	is_untouched($before, 'stopped tracer');
}

# A stop in an old journal does not make the watchdog resume a domain that was started paused.
sub test_watchdog {
	my ($pid, $watchdog) = start_tracer('watched');
	kill STOP => $watchdog;
	kill KILL => $pid;
	waitpid $pid, 0;
	append_to_journal('stop');
	start_anew('6.1', '--paused');
	kill CONT => $watchdog;
	ok(wait_undone(), 'watchdog after a restart: the journal is removed');
	like(log_of('watched'), qr/has ended: the watchdog has nothing to put back/, 'watchdog after a restart: it says that there is nothing to put back');
	is($libvirt->state_of('t'), 'paused', 'watchdog after a restart: a domain that was started paused stays paused');
}

# In trap mode, with a SIGINT when the traced domain has ended.
sub test_interrupted {
	my ($pid, $watchdog) = start_tracer('interrupted', '--mode', 'trap');
	kill STOP => $watchdog, $pid; # the watchdog would kill a tracer that is stopped
	start_anew('6.1', '--paused');
	kill INT => $pid;
	kill CONT => $pid;
	sleep 1.5; # it shows that it lives
	kill CONT => $watchdog;
	is($libvirt->wait_for($pid, 60), 0, 'SIGINT after a restart: the tracer ends with status 0') or diag(log_of('interrupted'));
	like(log_of('interrupted'), qr/sonde attach: the domain was destroyed, and the trace ended with it/,
		'SIGINT after a restart: the tracer says why it ends');
	is($libvirt->state_of('t'), 'paused', 'SIGINT after a restart: a domain that was started paused stays paused');
	is(scalar(journals()), 0, 'SIGINT after a restart: no journal is left');
}

AttachTest::start();
build_initrd("$work/initrd", "$tree/tests/libvirt/ticks=/etc/rc");
start_domain('t', persistent => 1, cmdline => 'nokaslr');
($uuid) = $libvirt->virsh('domuuid', 't') =~ /(\S+)/;
use_kernel('6.1');
$libvirt->virsh('start', 't');
ok(boots(), 'the domain boots') or BAIL_OUT($libvirt->serial('t'));
test_recover();
test_held_up();
test_wrong_connection();
test_watchdog();
$libvirt->virsh('resume', 't');
ok(boots(), 'the domain that was started paused boots when resumed');
test_interrupted();
done_testing();
