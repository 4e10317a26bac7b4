#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Machines without a usable KVM, and kernels and initrds that are none. No guest gets to run.
use strict;
use warnings;
use FindBin;
use Test::More;

use lib $FindBin::RealBin;
use Errors qw(:DEFAULT has_namespaces);

my @sonde = ("$build/sonde", 'run', '-k', $kernel);
our $image = slurp($kernel);

# /dev with nothing in it, or with a kvm that is no KVM.
sub with_dev {
	my ($prepare) = @_;
	return ['unshare', '-m', 'sh', '-c', "mount -t tmpfs none /dev && $prepare && exec \"\$@\"", 'sh', @sonde];
}

sub test_devices {
	SKIP: {
		skip 'needs root, for mount namespaces', 7 if $> || !has_namespaces();
		refuses('no /dev/kvm', 1, qr{no /dev/kvm: load kvm-intel or kvm-amd, and enable virtualisation}, with_dev('true'));
		refuses('/dev/kvm without a driver', 1, qr{no /dev/kvm: load},
			with_dev('mknod /dev/kvm c 10 251'));
		refuses('/dev/kvm is a file', 1, qr{/dev/kvm is not a KVM}, with_dev('touch /dev/kvm'));
		my @nobody = ('setpriv', '--reuid=65534', '--clear-groups', @sonde);
		refuses('no permission', 1, qr{no permission to open /dev/kvm: join group kvm},
			['unshare', '-m', 'sh', '-c', 'mount -t tmpfs none /dev && touch /dev/kvm && ' .
			'chmod 600 /dev/kvm && exec "$@"', 'sh', @nobody]);
		my $told = `unshare -m sh -c 'mount -t tmpfs none /dev && exec \Q$build\E/sonde doctor' 2>&1`;
		is($? >> 8, 1, 'doctor: exit status 1');
		like($told, qr{cannot run guests: there is no /dev/kvm}, 'doctor: says that there is no /dev/kvm');
		like($told, qr{Only 'sonde run' needs KVM}, 'doctor: says what needs no KVM');
	}
}

# Only on a machine like that can it be shown.
sub test_emulated {
	my $doctor = `\Q$build\E/sonde doctor 2>&1`;
	SKIP: {
		skip 'this machine has no emulated /dev/kvm', 1 unless $doctor =~ /not backed by hardware/;
		refuses('KVM not backed by hardware', 1,
			qr{not backed by hardware: a guest gets [\d.]+ million instructions a second.*'sonde run --force' tries},
			[@sonde]);
	}
}

# With --force the machine's speed does not matter, and each file is looked at on its own.
sub test_kernel {
	my ($name, $text, $content) = @_;
	my $path = "$work/kernel";
	write_file($path, $content);
	refuses("run: $name", 1, $text, 'run', '--force', '-k', $path);
	refuses("symbols: $name", 1, $text, 'symbols', '-k', $path);
}

sub flipped {
	my ($at, $mask) = @_;
	my $copy = $image;
	substr($copy, $at, 1) = chr(ord(substr $copy, $at, 1) ^ $mask);
	return $copy;
}

sub overwritten {
	my ($at) = @_;
	my $copy = $image;
	substr($copy, $at, 4096) = "\xff" x 4096;
	return $copy;
}

# One bit is noticed by the payload's checksum, as zstd has one, or by that of a bzImage with LZ4.
sub test_flips {
	for my $version (qw(6.1 6.12)) {
		my $kernel = "$build/kernels/$version/vmlinuz";
		SKIP: {
			skip "no $kernel", 3 unless -e $kernel;
			local $image = slurp($kernel);
			for my $tenth (2, 5, 8) {
				my $at = int(length($image) * $tenth / 10);
				write_file("$work/kernel", flipped($at, 1 << $tenth % 8));
				refuses(sprintf("$version: bit flipped at 0x%x", $at), 1, qr/corrupt/,
					"symbols", "-k", "$work/kernel");
			}
		}
	}
}

sub test_kernels {
	my $no_kernel = qr/not a Linux kernel \(neither bzImage nor ELF vmlinux\)/;
	refuses("$_: no kernel there", 1, qr{/none: .*No such file}, $_, @{{run => ['--force']}->{$_} // []},
		'-k', "$work/none") for qw(run symbols);
	refuses('kernel is a directory', 1, qr/not a regular file|directory/i, 'symbols', '-k', $work);
	test_kernel('empty file', qr/empty|not a Linux kernel/, '');
	test_kernel('text', $no_kernel, "hello\n" x 1000);
	test_kernel('ELF program', qr/kernel/, slurp("$build/sonde"));
	test_kernel("cut off at byte $_", $no_kernel, substr $image, 0, $_) for 1, 511, 512;
	test_kernel("cut off at byte $_", qr/truncated/, substr $image, 0, $_)
		for 600, 1024, 16384, 1 << 20, int(length($image) / 2), length($image) - 8192;
	for my $tenth (3, 5, 8) {
		my $at = int(length($image) * $tenth / 10);
		test_kernel(sprintf('4 KiB overwritten at 0x%x', $at), qr/corrupt/, overwritten($at));
	}
	test_flips();
	test_kernel('boot flag wrong', $no_kernel, flipped(0x1fe, 0xff));
	test_kernel('header magic wrong', $no_kernel, flipped(0x202, 0xff));
	test_kernel('payload beyond the file', qr/truncated|beyond|outside/, flipped(0x24b, 0x7f));
}

sub test_initrds {
	my @run = ('run', '--force', '-k', $kernel);
	refuses('no initrd there', 1, qr{cannot open the initrd $work/none: No such file}, @run, '-i',
		"$work/none");
	refuses('initrd is a directory', 1, qr/initrd is not a regular file/, @run, '-i', $work);
	open my $file, '>', "$work/big" or die $!;
	truncate $file, 200 << 20;
	refuses('initrd too large for the RAM', 1,
		qr{$work/big: the initrd \(200.0 MiB\) is too large for the RAM \(128 MiB\): give more with -m},
		@run, '-m', 128, '-i', "$work/big");
	refuses('initrd leaves no room for the kernel', 1, qr/give more with -m/, @run, '-m', 210, '-i',
		"$work/big");
	truncate $file, 5 << 30;
	refuses('initrd of 5 GiB', 1, qr/is too large for the RAM/, @run, '-m', 512, '-i', "$work/big");
}

if (!-e $kernel) {
	plan skip_all => "no $kernel: run tests/testbed/fetch-kernel 6.1";
}
test_devices();
test_emulated();
test_kernels();
test_initrds();
done_testing();
