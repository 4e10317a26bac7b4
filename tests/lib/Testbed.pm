# SPDX-License-Identifier: GPL-2.0-or-later
#
# The programs of tests/testbed.
package Testbed;

use strict;
use warnings;
use Exporter qw(import);
use Process;
use Tree;

our @EXPORT = qw(on_kvm_host on_vmx_host build_initrd build_module unpack_brd fetch_kernel);

# Runs a command on the KVM host, where the build folder is writable. Returns the exit status. Limits: mem in MiB;
# timeout in seconds, which is there to end a run that hangs, and leaves time enough on a busy machine;
# icount => undef for kvm-host --icount, which skips idle time. The host has one CPU; tests/README.md says why.
sub on_kvm_host {
	my ($limits, @command) = @_;
	my %limit = (mem => 1024, timeout => 1200, %$limits);
	system("$tree/tests/testbed/kvm-host", '--cpus', 1, '--share', $build,
		map({ ("--$_", $limit{$_} // ()) } sort keys %limit), '--', @command);
	return exit_status($?);
}

# Runs a Perl script of the tests on the Intel machine that Bochs emulates, which has @$files besides, and leaves what the script
# has written to the empty folder $out there. Returns the exit status. Limits as for on_kvm_host().
sub on_vmx_host {
	my ($limits, $files, $out, $script, @arguments) = @_;
	system("$tree/tests/testbed/kvm-host", '--vmx', '--out', $out, map({ ("--$_", $limits->{$_}) } sort keys %$limits),
		map({ ('--file', $_) } @$files, script_files($script)), '--', $script, @arguments);
	return exit_status($?);
}

# A Perl script with its modules, their libraries, and Perl itself.
sub script_files {
	my ($script) = @_;
	local $ENV{PERL5OPT} = "-I$tree/tests/lib -MListModules";
	chomp(my @modules = `\Q$^X\E -c \Q$script\E 2>/dev/null`);
	@modules or die "$script: no modules\n";
	return ($script, $^X, @modules);
}

# @files: FILE=TARGET, as for build-initrd. The programs are those that make has compiled: an emulated machine takes
# half a minute for them.
sub build_initrd {
	my ($to, @files) = @_;
	run_or_die("$tree/tests/testbed/build-initrd", '--onto', "$build/guest/initrd", $to, @files);
}

# The module brd of a kernel's package, as FOLDER/brd.ko. Returns that, or nothing if the package has none.
sub unpack_brd {
	my ($version, $folder) = @_;
	my ($module) = glob "$build/kernels/$version/modules/kernel/drivers/block/brd.ko*" or return;
	my $unpack = $module =~ /xz$/ ? 'xz -dc' : 'cat';
	run_or_die("$unpack \Q$module\E >\Q$folder\E/brd.ko");
	return "$folder/brd.ko";
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
