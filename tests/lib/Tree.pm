# SPDX-License-Identifier: GPL-2.0-or-later
#
# Paths: $tree, the source tree; $build, the build folder ($O, or build/).
package Tree;

use strict;
use warnings;
use Cwd qw(realpath);
use Exporter qw(import);
use File::Basename qw(dirname);

our @EXPORT = qw($tree $build kernel_image);
our $tree = realpath(dirname(realpath(__FILE__)) . '/../..');
our $build = realpath($ENV{O} // "$tree/build");

# Path of the bzImage of a kernel that make has downloaded.
sub kernel_image {
	my ($version) = @_;
	return "$build/kernels/$version/vmlinuz";
}

1;
