# SPDX-License-Identifier: GPL-2.0-or-later
#
# For the tests of sonde attach: a libvirt of their own, domains in it that do some work and print a
# sign of life, sonde's verbs on them, and the checks of a domain that sonde has left.
package AttachTest;

use strict;
use warnings;
use Exporter qw(import);
use File::Basename qw(dirname);
use Test::More;
use Time::HiRes qw(sleep time);

use lib map { dirname(__FILE__) . "/../$_" } qw(guest lib);
use Files;
use GuestLog;
use GuestText;
use Libvirt;
use Process;
use Testbed;
use Tree;

our @EXPORT = qw($libvirt $work $build $kernel build_initrd start_domain start_ticking
	attach_command attach recover decoy_command start_tracer leave_alone trace_dir last_trace report sidecar ticks lives journals wait_tracing
	wait_undone suspend start_some judge kill_tracer learn_text text_of text_before is_text_as_before leftovers is_as_before
	check_seen describe children_of log_of);

our $kernel = kernel_image('6.1');
our ($libvirt, $work);
my (%text, $traces);

$SIG{$_} = sub { exit 1 } for qw(INT TERM HUP);

# Skips the whole test where there is no libvirt. The program under test may be another one than build/sonde.
sub start {
	my ($program) = @_;
	my $why = Libvirt::missing();
	plan skip_all => $why if $why;
	$libvirt = Libvirt->start($program // "$build/sonde");
	$work = $libvirt->work;
	$traces = 0;
}

END { undef $libvirt } # before its folder is removed

# --- domains

# Options: those of Libvirt::domain, all with a default.
sub start_domain {
	my ($name, %option) = @_;
	$libvirt->domain($name, kernel => $kernel, initrd => "$work/initrd", cpus => 1, machine => 'q35',
		memory => 'shared', cmdline => '', %option);
}

# A domain that does some work all the time. Its text is learned.
sub start_ticking {
	my ($name, %option) = @_;
	build_initrd("$work/initrd", "$tree/tests/libvirt/ticks=/etc/rc") unless -e "$work/initrd";
	start_domain($name, %option);
	$libvirt->virsh('start', $name) if $option{persistent};
	ok($libvirt->wait_serial($name, qr{tick}, 600), "$name boots") or BAIL_OUT($libvirt->serial($name));
	learn_text($name, $option{kernel} // $kernel);
}

sub ticks { return ($libvirt->serial($_[0]) =~ /tick (\d+)/g)[-1] // 0 }

# In trap mode each allocation of the guest stops it for some milliseconds, and there is a process before each tick.
sub lives {
	my ($name) = @_;
	my $before = ticks($name);
	return wait_until(180, sub { ticks($name) > $before });
}

# --- sonde

# Domains whose kernel attach reads from memory.
our %in_memory;

sub attach_command {
	my ($name, @options) = @_;
	my @image = $in_memory{$name} ? () : ('-k', "$work/$name.kernel");
	$traces++;
	return $libvirt->sonde('attach', $name, @image, '-o', trace_dir(), @options);
}

sub attach {
	my ($name, @options) = @_;
	return $libvirt->run(attach_command($name, @options));
}

sub recover { return $libvirt->run($libvirt->sonde('recover', @_)) }

# A process with the arguments by which libvirt starts a domain's QEMU.
sub decoy_command { return ('perl', '-e', 'sleep 300', '--', '-uuid', $_[0]) }

# The trace of the last attach command.
sub trace_dir { return "$work/out/$traces" }

# Go back to the trace of the attach command before the last one.
sub last_trace { $traces-- }

# Allocations, frees and lost events of the last trace.
sub report {
	my ($status, $text) = $libvirt->run("$work/sonde", 'report', '--json', trace_dir());
	my ($allocs, $frees, $overruns, $lost) =
		map { $text =~ /"$_":\s*(\d+)/ ? $1 : die "report: no $_: $text" } qw(alloc_events free_events overruns lost);
	return ($allocs, $frees, $overruns + $lost);
}

sub sidecar { return slurp(trace_dir() . "/.sonde.json") }

# Wait until the last attach command traces.
# On a busy build machine a domain in the KVM host needs minutes.
sub wait_tracing {
	return wait_until(300, sub { sidecar() =~ /"started_realtime_ns": [1-9]/ });
}

# Returns the PIDs of tracer and watchdog once it traces.
sub start_tracer {
	my ($name, @options) = @_;
	my $pid = $libvirt->spawn($name, attach_command('t', @options));
	ok(wait_tracing() && children_of($pid), "$name: attach traces and has a watchdog") or BAIL_OUT(log_of($name));
	sleep 0.5;
	return ($pid, children_of($pid));
}

# Kill tracer and watchdog, so that nothing is undone.
sub leave_alone {
	my ($pid, $watchdog) = start_tracer(@_);
	kill_hard($watchdog, $pid);
	waitpid $pid, 0;
}

# The output of a spawned command.
sub log_of { return slurp("$work/$_[0].txt") }

# Repeated: libvirt takes a domain that stands at a breakpoint, or that sonde holds stopped, for paused, and does nothing.
# QEMU shows the first, libvirt's reason the second.
sub suspend {
	my ($name) = @_;
	my ($libvirts, $qemus);
	return 1 if wait_until(60, sub {
		$libvirt->virsh('suspend', $name);
		$libvirts = $libvirt->virsh('domstate', '--reason', $name);
		$qemus = $libvirt->virsh('qemu-monitor-command', $name, '--hmp', 'info status');
		return $libvirts =~ /^paused \(user\)/ && $qemus =~ /paused\s*$/;
	});
	diag("libvirt: $libvirts", "QEMU: $qemus");
	return 0;
}

# --- what other users of libvirt see

# The events that virsh prints while $run runs: counts by kind, and the lifecycle events in order.
sub events_of {
	my ($name, $run) = @_;
	my $virsh = $libvirt->spawn('events', 'stdbuf', '-oL', 'virsh', '-c', Libvirt::URI, 'event', '--domain', $name,
		'--all', '--loop');
	sleep 2; # it does not report that it is ready
	$run->();
	sleep 0.5;
	kill INT => $virsh;
	waitpid $virsh, 0;
	my %count;
	$count{$_}++ for log_of('events') =~ /^event '(.*?)' for domain/mg;
	my @lifecycle = log_of('events') =~ /event 'lifecycle' for domain .*?: (\w+)/g;
	return (\%count, @lifecycle);
}

# One pause at the start, two at the end. The second one is repeated if a task was preempted in scratch
# memory.
sub check_seen {
	my ($name, $what, $most) = @_;
	my ($count, @lifecycle) = events_of($name, sub {
		my ($status, $text) = attach($name, '--duration', 2);
		is($status, 0, "$what: attach has status 0") or diag($text);
	});
	is($count->{'device-added'}, 1, "$what: libvirt reports one device added");
	is($count->{'device-removed'}, 1, "$what: libvirt reports one device removed");
	my $pairs = @lifecycle / 2;
	is("@lifecycle", join(' ', ('Suspended Resumed') x $pairs), "$what: every suspend is followed by a resume");
	cmp_ok($pairs, '>=', 3, "$what: the domain is suspended at least 3 times: $pairs");
	cmp_ok($pairs, '<=', $most, "$what: the domain is suspended at most $most times: $pairs");
	is_deeply([sort keys %$count], [qw(device-added device-removed lifecycle)], "$what: libvirt reports no other events");
}

# --- what is left behind

sub journals { return map { s{.*/}{}r } glob "$work/run/sonde/*" }

sub running_sondes { return grep { (readlink("$_/exe") // '') eq "$work/sonde" } glob '/proc/[0-9]*' }

# Wait until the watchdog has undone everything, and has said so.
sub wait_undone {
	my $undone = wait_until(60, sub { !journals() }, 0.05);
	wait_until(5, sub { !running_sondes() }, 0.02);
	return $undone;
}

# --dry-run finds where the text lies.
sub learn_text {
	my ($name, $image) = @_;
	my ($stext, $etext) = GuestText::range("$build/sonde", $image);
	my ($status, $said) = $libvirt->run($libvirt->sonde('attach', $name, '-k', "$work/$name.kernel", '--dry-run'));
	is($status, 0, "$name: --dry-run has status 0") or diag($said);
	my ($start) = map { hex } $said =~ /guest-physical 0x([0-9a-f]+)/ or BAIL_OUT($said);
	$text{$name} = {gpa => $start + $stext, size => $etext - $stext};
	$text{$name}{bytes} = text_of($name);
	cmp_ok(length $text{$name}{bytes}, '>', 1 << 20, "$name: its text is read");
}

sub text_of {
	my ($name) = @_;
	return $libvirt->memory($name, $text{$name}{gpa}, $text{$name}{size});
}

sub text_before { return $text{$_[0]}{bytes} }

sub is_text_as_before {
	my ($name, $what) = @_;
	my $now = text_of($name);
	return ok($now eq text_before($name), "$what: the guest's text is as before")
		|| diag(GuestText::differences($now, text_before($name)));
}

# What is wrong with a domain that sonde has left.
sub leftovers {
	my ($name) = @_;
	my @wrong;
	push @wrong, 'journal ' . join ' ', journals() if journals();
	push @wrong, 'state ' . $libvirt->state_of($name) if $libvirt->state_of($name) ne 'running';
	push @wrong, 'device' if $libvirt->virsh('dumpxml', $name) =~ /ua-sonde/;
	push @wrong, map { "file $_" } Libvirt::lasting_files();
	my $now = text_of($name);
	push @wrong, 'text differs: ' . GuestText::differences($now, text_before($name)) if $now ne text_before($name);
	push @wrong, 'guest makes no progress' unless lives($name);
	push @wrong, map { "guest complains: $_" } trouble($libvirt->serial($name), WARNINGS);
	return @wrong;
}

# Whether the domain was harmed. Says how, and recovers it for the next round.
sub judge {
	my ($name, $what, $after, $log) = @_;
	my @wrong = leftovers($name);
	return 0 unless @wrong;
	diag(sprintf '%s after %.3f s: %s; %s', $what, $after, "@wrong", log_of($log));
	describe($name);
	my ($status, $text) = recover($name);
	diag($text);
	return 1;
}

# Start a tracer and let it run for a random part of `whole` seconds. Returns its PID and the time.
sub start_some {
	my ($name, $log, $whole) = @_;
	my $pid = $libvirt->spawn($log, attach_command($name, '--duration', 1));
	my $after = rand $whole;
	sleep $after;
	return ($pid, $after);
}

# The places in the guest's text that the journal names: [gpa, original bytes]. Entries of page tables were 0 before.
sub noted_text {
	my %first;
	for my $journal (map { slurp("$work/run/sonde/$_") } journals()) {
		$first{$1} //= $2 while $journal =~ /^write ([0-9a-f]+) ([0-9a-f]+) /mg;
	}
	return map { [hex $_, pack 'H*', $first{$_}] } grep { $first{$_} !~ /^0{16}$/ } keys %first;
}

# Open the file of the guest's RAM, to read it without stopping the guest.
sub open_memory {
	my ($name) = @_;
	my ($file) = grep { (readlink // '') =~ /memfd/ } glob '/proc/' . $libvirt->qemu($name) . '/fd/*';
	open my $memory, '<:raw', $file // die "$name shares no memory" or die "$file: $!";
	return $memory;
}

sub is_restored {
	my ($memory, @places) = @_;
	for my $place (@places) {
		my ($gpa, $bytes) = @$place;
		sysseek $memory, $gpa, 0;
		sysread $memory, my $now, length $bytes;
		return 0 if $now ne $bytes;
	}
	return 1;
}

# SIGKILL the tracer that was started $after seconds ago as 'killed'. Returns counts: late (the tracer had ended), harmed
# (the domain is not as before), patched (there were patches), met (a task was preempted in scratch memory); and
# seconds: restored (until the text was as before), took (until all was undone).
sub kill_tracer {
	my ($name, $what, $pid, $after) = @_;
	my $memory = open_memory($name);
	my %seen = (late => kill(KILL => $pid) ? 0 : 1);
	waitpid $pid, 0;
	my $at = time;
	my @places = noted_text();
	wait_until(60, sub { is_restored($memory, @places) }, 0.01);
	$seen{restored} = time - $at;
	wait_undone();
	$seen{took} = time - $at;
	$seen{patched} = log_of('killed') =~ /put back [1-9]\d* places/ ? 1 : 0;
	$seen{met} = log_of('killed') =~ /waited for a task/ ? 1 : 0;
	$seen{harmed} = judge($name, $what, $after, 'killed');
	return %seen;
}

# Print the vCPUs and the end of the console, for debugging.
sub describe {
	my ($name) = @_;
	my $registers = eval { $libvirt->virsh('qemu-monitor-command', $name, '--hmp', 'info registers -a') } // $@;
	diag(join '', grep { /CPU#|RIP=|HLT=|RSP=/ } split /^/, $registers);
	my @serial = split /^/, $libvirt->serial($name);
	diag(@serial[-10 .. -1]) if @serial >= 10;
}

sub is_as_before {
	my ($name, $what) = @_;
	my @wrong = leftovers($name);
	is("@wrong", '', "$what: the domain is as before");
}

1;
