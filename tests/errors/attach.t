#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Machines where no libvirt can be reached. What a libvirt answers is in tests/libvirt/attach.t.
use strict;
use warnings;
use FindBin;
use Test::More;

use lib $FindBin::RealBin;
use Errors qw(:DEFAULT has_namespaces);

my $uri = "qemu+unix:///system?socket=$work/sockets/libvirt-sock";
my @domain = ('-c', $uri, 'guest', '-o', "$work/trace");

# Where there is nothing but an empty file.
sub without_library {
	my ($library) = glob '/usr/lib/x86_64-linux-gnu/libvirt.so.0.*' or die "no libvirt.so.0\n";
	return ['unshare', '-m', 'sh', '-c', "mount --bind /dev/null $library && exec \"\$@\"", 'sh',
		"$build/sonde", 'attach', @domain];
}

refuses('no libvirtd', 1, qr{cannot connect to \Q$uri\E: .*No such file}, 'attach', @domain);
SKIP: {
	skip 'needs root, for mount namespaces and other users', 2 if $> || !has_namespaces();
	refuses('no libvirt', 1, qr{libvirt\.so\.0 cannot be loaded: install libvirt's client library},
		without_library());
	chmod 0755, $work;
	mkdir "$work/sockets", 0700 or die "sockets: $!";
	write_file("$work/sockets/libvirt-sock", '');
	system('cp', "$build/sonde", "$work/sonde") == 0 or die "cp: $?";
	refuses('no permission', 1, qr{cannot connect to \Q$uri\E: .*Permission denied},
		['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', "$work/sonde", 'attach', @domain]);
}
done_testing();
