# SPDX-License-Identifier: GPL-2.0-or-later
#
# A libvirt for one test, unprivileged and without systemd: virsh starts libvirtd in session mode, with all
# its folders in a temporary one. Domains are QEMU guests that boot a kernel directly, emulated unless
# DOMAIN_TYPE=kvm.
package Libvirt;

use strict;
use warnings;
use File::Basename qw(dirname);
use File::Copy qw(copy);
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use Time::HiRes qw(sleep);

use lib dirname(__FILE__) . '/../lib';
use Files;
use Process;

use constant { NOBODY => 65534, URI => 'qemu:///session' };

# Why this machine cannot run it, or ''.
sub missing {
	for my $program (qw(virsh libvirtd qemu-system-x86_64 qemu-img setpriv)) {
		return "no $program" unless grep { -x "$_/$program" } split(/:/, $ENV{PATH}), '/usr/sbin';
	}
	return '';
}

# $sonde is copied to a folder that all users may read.
sub start {
	my ($class, $sonde) = @_;
	my $work = tempdir('sonde-libvirt-XXXXXX', TMPDIR => 1, CLEANUP => 1);
	my $self = bless {work => $work, pid => $$, domains => {}}, $class;
	chmod 0755, $work;
	# libvirt writes a domain's state there at each event; on a real system /run is in memory, too
	$self->{runtime} = tempdir('sonde-libvirt-XXXXXX', DIR => '/dev/shm', CLEANUP => 1);
	symlink $self->{runtime}, "$work/run" or die "$work/run: $!";
	make_path(map { "$work/$_" } qw(home config data cache out));
	copy_program($sonde, "$work/sonde");
	if ($> == 0) {
		chown NOBODY, NOBODY, $work, $self->{runtime}, map { "$work/$_" } qw(home config data cache out);
	}
	return $self;
}

sub copy_program {
	my ($from, $to) = @_;
	copy($from, $to) or die "$from: $!";
	chmod 0755, $to;
}

# The rate of the TSC of this machine.
sub tsc_khz {
	my ($self) = @_;
	unless ($self->{tsc_khz}) {
		my $program = "$self->{work}/tsc-rate";
		run_or_die('cc', '-O1', '-o', $program, dirname(__FILE__) . '/tsc-rate.c');
		chomp($self->{tsc_khz} = `\Q$program\E`);
	}
	return $self->{tsc_khz};
}

sub work { return $_[0]{work} }
sub uri { return URI }

sub environment {
	my ($self) = @_;
	my $work = $self->{work};
	my @user = $> == 0 ? ('setpriv', '--reuid=' . NOBODY, '--regid=' . NOBODY, '--clear-groups') : ();
	return (@user, 'env', "HOME=$work/home", "XDG_RUNTIME_DIR=$work/run", "XDG_CONFIG_HOME=$work/config",
		"XDG_DATA_HOME=$work/data", "XDG_CACHE_HOME=$work/cache");
}

# Start a command as libvirt's user; its output goes to NAME.txt. Returns its PID.
sub spawn {
	my ($self, $name, @command) = @_;
	return $self->spawn_as($name, [], @command);
}

# The same through another command, @$before, which runs as the test's own user.
sub spawn_as {
	my ($self, $name, $before, @command) = @_;
	my $pid = fork // die "fork: $!";
	return $pid if $pid;
	open STDIN, '<', '/dev/null';
	open STDOUT, '>', "$self->{work}/$name.txt" or die "$name.txt: $!";
	open STDERR, '>&', \*STDOUT;
	exec @$before, $self->environment, @command or die "exec: $!";
}

# Run a command, for 300 s at most. Returns exit status and output.
sub run {
	my ($self, @command) = @_;
	return $self->run_as([], @command);
}

sub run_as {
	my ($self, $before, @command) = @_;
	my $pid = $self->spawn_as('command', $before, @command);
	return ($self->wait_for($pid, 300), slurp("$self->{work}/command.txt"));
}

# Wait, and kill it after $seconds. Returns the exit status; 128 + N on signal N.
sub wait_for {
	my ($self, $pid, $seconds) = @_;
	local $SIG{ALRM} = sub { kill KILL => $pid };
	alarm $seconds;
	waitpid $pid, 0;
	alarm 0;
	return exit_status($?);
}

# virsh starts libvirtd, and waits for it some seconds only: too little on a busy host.
sub virsh {
	my ($self, @arguments) = @_;
	my ($status, $text);
	wait_until(120, sub {
		($status, $text) = $self->run('virsh', '-q', '-c', $self->uri, @arguments);
		return $status == 0 || $text !~ /Failed to connect socket/;
	});
	die "virsh @arguments: $text" if $status;
	return $text;
}

sub sonde {
	my ($self, $verb, @arguments) = @_;
	return ("$self->{work}/sonde", $verb, '-c', $self->uri, @arguments);
}

# --- domains

# libvirt plugs in no vCPU without a thread of its own.
sub emulator {
	my ($self, $qemu, $threads) = @_;
	return "/usr/bin/$qemu" if $threads;
	my $path = "$self->{work}/$qemu";
	copy_program(dirname(__FILE__) . '/emulator', $path) unless -e $path;
	return $path;
}

# Options: kernel, initrd, cpus, machine, memory ('shared' or 'private');
# persistent: define it and do not start it; tb_cache: MiB of translated code that QEMU keeps;
# arguments: more arguments of QEMU; line: a second serial line, ttyS1, for tell();
# disk: an empty qcow2 image (SATA, on q35); slots: vCPU slots; mib: RAM; max_mib: RAM with pluggable RAM;
# cells: the contents of <numa>; devices: more devices; ports: PCIe root ports;
# arch, model: instead of x86_64 and qemu64.
# Without no_timer_check a kernel panics if its emulated timer is late, as on a busy host. A guest's
# clock stands still at each breakpoint: without tsc=reliable the kernel may find its TSC unstable, and change its text at
# branches that depend on it. But then it keeps a rate that it has measured wrongly on a busy host: so it is told the rate,
# which is the host's where QEMU emulates the guest. Where it does not, the host is emulated, and each character on the
# console is two exits to QEMU: then the kernel writes warnings only.
sub domain {
	my ($self, $name, %option) = @_;
	my $work = $self->{work};
	for my $file (qw(kernel initrd)) {
		copy($option{$file}, "$work/$name.$file") or die "$option{$file}: $!";
		chmod 0644, "$work/$name.$file";
	}
	open my $serial, '>', "$work/$name.serial" or die $!;
	chmod 0666, "$work/$name.serial";
	my $type = $ENV{DOMAIN_TYPE} // 'qemu';
	my $ports = "<controller type='pci' model='pcie-root-port'/>" x ($option{ports} // 2);
	my ($arch, $model, $mib) = ($option{arch} // 'x86_64', $option{model} // 'qemu64', $option{mib} // 384);
	my $room = $option{max_mib} ? "<maxMemory slots='4' unit='MiB'>$option{max_mib}</maxMemory>" : '';
	my $cells = $option{cells} ? "<numa>$option{cells}</numa>" : '';
	my $slots = $option{slots} // $option{cpus};
	my $emulator = $self->emulator('qemu-system-' . ($arch eq 'i686' ? 'i386' : $arch), $type eq 'kvm' || $slots > $option{cpus});
	my $root = $option{machine} eq 'q35' ? "<controller type='pci' model='pcie-root'/>$ports" : '';
	my $backing = $option{memory} eq 'shared'
		? "<memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking>" : '';
	my $clock_or_log = $type eq 'kvm' ? 'loglevel=5' : 'tsc_early_khz=' . $self->tsc_khz;
	my $tcg = $option{tb_cache} ? "<tcg><tb-cache unit='MiB'>$option{tb_cache}</tb-cache></tcg>" : '';
	my $line = '';
	if ($option{line}) {
		$line = "<serial type='pipe'><source path='$work/$name.line'/><target port='1'/></serial>";
		run_or_die('mkfifo', '-m', '666', "$work/$name.line.in", "$work/$name.line.out");
	}
	my $disk = '';
	if ($option{disk}) {
		my ($status, $text) = $self->run('qemu-img', 'create', '-q', '-f', 'qcow2', "$work/out/$name.qcow2", '16M');
		die "qemu-img: $text" if $status;
		$disk = "<disk type='file'><driver name='qemu' type='qcow2'/><source file='$work/out/$name.qcow2'/>"
			. "<target dev='sda' bus='sata'/></disk>";
	}
	my $more = join '', map { "<qemu:arg value='$_'/>" } @{$option{arguments} // []};
	open my $xml, '>', "$work/$name.xml" or die $!;
	print $xml <<"XML";
<domain type='$type' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><name>$name</name>$room<memory unit='MiB'>$mib</memory><vcpu current='$option{cpus}'>$slots</vcpu>$backing
<os><type arch='$arch' machine='$option{machine}'>hvm</type><kernel>$work/$name.kernel</kernel>
<initrd>$work/$name.initrd</initrd><cmdline>console=ttyS0 cryptomgr.notests panic=-1 no_timer_check tsc=reliable $clock_or_log $option{cmdline}</cmdline></os>
<features><acpi/><apic/>$tcg</features>
<cpu mode='custom' match='exact' check='none'><model fallback='allow'>$model</model>$cells</cpu>
<devices><emulator>$emulator</emulator><controller type='usb' model='none'/>$root
<memballoon model='none'/><serial type='file'><source path='$work/$name.serial'/><target port='0'/></serial>$line$disk@{[$option{devices} // '']}</devices>
<qemu:commandline>$more</qemu:commandline></domain>
XML
	close $xml;
	$self->virsh($option{persistent} ? 'define' : 'create', "$work/$name.xml");
	$self->{domains}{$name} = 1;
}

sub serial { return slurp("$_[0]{work}/$_[1].serial") }

# Wait until the guest has printed a match. False: it has not in time.
sub wait_serial {
	my ($self, $name, $pattern, $seconds) = @_;
	return wait_until($seconds, sub { $self->serial($name) =~ $pattern });
}

sub tell {
	my ($self, $name, $text) = @_;
	open my $line, '+<', "$self->{work}/$name.line.in" or die "$name.line.in: $!";
	syswrite $line, "$text\n";
}

sub state_of {
	my ($self, $name) = @_;
	return $self->virsh('domstate', $name) =~ s/\s+//gr;
}

# Other tests on this machine may have such files for a moment.
sub lasting_files {
	my @files = glob '/dev/shm/ua-sonde-*';
	wait_until(5, sub { !(@files = grep { -e } @files) });
	return @files;
}

# Guest-physical memory, read by QEMU.
sub memory {
	my ($self, $name, $gpa, $size) = @_;
	my $file = "$self->{work}/memory";
	my $reply = $self->virsh('qemu-monitor-command', $name, '--hmp', "pmemsave $gpa $size \"$file\"");
	die "pmemsave: $reply" if $reply =~ /\S/;
	my $bytes = slurp($file);
	unlink $file;
	return $bytes;
}

sub qemu {
	my ($self, $name) = @_;
	my ($pid) = slurp("$self->{work}/run/libvirt/qemu/run/$name.pid") =~ /^(\d+)/;
	return $pid;
}

sub libvirtd {
	my ($self) = @_;
	return slurp("$self->{work}/run/libvirt/libvirtd.pid") =~ /^(\d+)/ ? $1 : undef;
}

sub destroy {
	my ($self, $name) = @_;
	$self->virsh('destroy', $name);
	delete $self->{domains}{$name};
}

sub DESTROY {
	my ($self) = @_;
	return if $$ != $self->{pid};
	local ($?, $@);
	eval { $self->destroy($_) } for keys %{$self->{domains}};
	for my $daemon (qw(libvirtd virtlogd)) {
		my ($pid) = slurp("$self->{work}/run/libvirt/$daemon.pid") =~ /^(\d+)/;
		kill TERM => $pid if $pid;
	}
	sleep 0.5;
}

1;
