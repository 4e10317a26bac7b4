# SPDX-License-Identifier: GPL-2.0-or-later
#
# Trace directories of either format, for tests that look into them.
package GuestTrace;

use strict;
use warnings;
use Files;

# The text of the sidecar.
sub sidecar {
	my ($dir) = @_;
	my ($path) = grep { -e } "$dir/.sonde.json", "$dir/sonde.json";
	return must_slurp($path // "$dir/.sonde.json");
}

1;
