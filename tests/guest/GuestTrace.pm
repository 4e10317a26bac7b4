# SPDX-License-Identifier: GPL-2.0-or-later
#
# Trace directories of either format, for tests that look into them.
package GuestTrace;

use strict;
use warnings;

# The text of the sidecar.
sub sidecar {
	my ($dir) = @_;
	my ($path) = grep { -e } "$dir/.sonde.json", "$dir/sonde.json";
	open my $in, '<:raw', $path // "$dir/.sonde.json" or die "$dir: no sidecar: $!\n";
	local $/;
	return scalar <$in>;
}

1;
