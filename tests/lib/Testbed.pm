# SPDX-License-Identifier: GPL-2.0-or-later
#
# The programs of tests/testbed.
package Testbed;

use strict;
use warnings;
use Exporter qw(import);
use Process;
use Tree;

our @EXPORT = qw(on_kvm_host build_initrd build_module fetch_kernel);

# Runs a command on the KVM host, where the build folder is writable. Returns the exit status. Limits:
# timeout in seconds, mem in MiB; icount => undef for kvm-host --icount, which skips idle time. The host has one CPU;
# tests/README.md says why.
sub on_kvm_host {
	my ($limits, @command) = @_;
	my %limit = (mem => 1024, %$limits);
	system("$tree/tests/testbed/kvm-host", '--cpus', 1, '--share', $build,
		map({ ("--$_", $limit{$_} // ()) } sort keys %limit), '--', @command);
	return exit_status($?);
}

# @files: FILE=TARGET, as for build-initrd.
sub build_initrd {
	my ($to, @files) = @_;
	run_or_die("$tree/tests/testbed/build-initrd", $to, @files);
}

# A module for the kernel in $folder, which came with modules.
sub build_module {
	my ($folder, $source, $to) = @_;
	run_or_die("$tree/tests/testbed/build-module", $folder, $source, $to);
}

# The folder of a kernel, which is downloaded if it is not there.
sub fetch_kernel {
	my ($version) = @_;
	chomp(my $folder = `O=\Q$build\E \Q$tree\E/tests/testbed/fetch-kernel \Q$version\E`);
	$? == 0 or die "no kernel $version\n";
	return $folder;
}

1;
