# SPDX-License-Identifier: GPL-2.0-or-later
#
# Reading trace directories of either format.
package GuestTrace;

use strict;
use warnings;
use Files;

# The sidecar's text.
sub sidecar {
	my ($dir) = @_;
	my ($path) = grep { -e } "$dir/.sonde.json", "$dir/sonde.json";
	return must_slurp($path // "$dir/.sonde.json");
}

1;
