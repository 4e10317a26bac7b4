# SPDX-License-Identifier: GPL-2.0-or-later
#
# A system libvirt, qemu:///system, with root's rights and the usual sockets, without systemd. It runs in a mount
# namespace with folders of its own: the machine's libvirt is not touched, and files of other tests in /dev/shm are not
# there.
package SystemLibvirt;

use strict;
use warnings;
use Cwd qw(realpath);
use File::Basename qw(dirname);
use POSIX ();
use Time::HiRes qw(sleep time);

use lib dirname(realpath(__FILE__));
use parent 'Libvirt';

my $qemu_conf = <<'END';
user="root"
group="root"
dynamic_ownership=0
remember_owner=0
security_driver="none"
cgroup_controllers=[ ]
namespaces=[ ]
stdio_handler="file"
END
my $libvirtd_conf = <<'END';
auth_unix_rw="none"
auth_unix_ro="none"
unix_sock_rw_perms="0700"
unix_sock_ro_perms="0777"
END

sub missing {
	return 'needs root' if $>;
	return 'needs mount namespaces' if system('unshare -m true 2>/dev/null');
	return Libvirt::missing();
}

sub uri { return 'qemu:///system' }

sub write_file {
	my ($path, $text) = @_;
	open my $file, '>', $path or die "$path: $!";
	print $file $text;
	close $file or die "$path: $!";
}

# Debian's packages create this user. Debian's libvirtd needs it, whatever its configuration says.
sub add_user {
	my ($work, $file, $line) = @_;
	my $text = Libvirt::slurp("/etc/$file");
	$text .= "$line\n" unless $text =~ /^libvirt-qemu:/m;
	write_file("$work/etc-$file", $text);
	return "mount --bind $work/etc-$file /etc/$file";
}

sub start {
	my ($class, $sonde) = @_;
	my $self = $class->SUPER::start($sonde);
	my $work = $self->work;
	mkdir "$work/etc" or die "$work/etc: $!";
	write_file("$work/etc/qemu.conf", $qemu_conf);
	write_file("$work/etc/libvirtd.conf", $libvirtd_conf);
	my @mounts = ((map { "mkdir -p $_ && mount -t tmpfs tmpfs $_" } qw(/run /dev/shm /var/lib/libvirt /var/cache/libvirt /var/log/libvirt)),
		"mkdir -p /etc/libvirt && mount --bind $work/etc /etc/libvirt",
		add_user($work, 'passwd', 'libvirt-qemu:x:64055:64055::/var/lib/libvirt:/usr/sbin/nologin'),
		add_user($work, 'group', 'libvirt-qemu:x:64055:'));
	my $pid = fork // die "fork: $!";
	if (!$pid) {
		open STDOUT, '>', "$work/libvirtd.txt";
		open STDERR, '>&', \*STDOUT;
		exec('unshare', '-m', '--propagation', 'private', 'sh', '-c', join(' && ', @mounts, 'exec /usr/sbin/libvirtd'))
			or POSIX::_exit(127);
	}
	$self->{daemon} = $pid;
	my $end = time + 30;
	sleep 0.1 until (Libvirt::slurp("/proc/$pid/comm") =~ /libvirtd/ && -S "/proc/$pid/root/run/libvirt/libvirt-sock") || time > $end;
	return $self;
}

# libvirtd refuses connections until its QEMU driver is ready.
sub wait_ready {
	my ($self) = @_;
	my $end = time + 30;
	my $status;
	sleep 0.2 while ($status = ($self->run('virsh', '-q', '-c', $self->uri, 'list'))[0]) && time < $end;
	return !$status;
}

sub environment {
	my ($self) = @_;
	return ('nsenter', '-t', $self->{daemon}, '-m', '-r', 'env', '-u', 'XDG_RUNTIME_DIR', "HOME=$self->{work}/home");
}

sub DESTROY {
	my ($self) = @_;
	return if $$ != $self->{pid};
	local ($?, $@);
	$self->SUPER::DESTROY;
	kill TERM => $self->{daemon};
	waitpid $self->{daemon}, 0;
}

1;
