# SPDX-License-Identifier: GPL-2.0-or-later
#
# Where things are: this source tree, and what make built of it ($O, or build/).
package Tree;

use strict;
use warnings;
use Cwd qw(realpath);
use Exporter qw(import);
use File::Basename qw(dirname);

our @EXPORT = qw($tree $build kernel_image);
our $tree = realpath(dirname(realpath(__FILE__)) . '/../..');
our $build = realpath($ENV{O} // "$tree/build");

# Of one of the kernels that make has fetched.
sub kernel_image {
	my ($version) = @_;
	return "$build/kernels/$version/vmlinuz";
}

1;
