# SPDX-License-Identifier: GPL-2.0-or-later
#
# perl -MListModules -c SCRIPT prints the paths of the modules that the script uses, and of their libraries.
package ListModules;

use strict;
use warnings;
use DynaLoader;
use Fcntl ();    # IPC::Open3 loads it when it starts a program

CHECK {
	delete $INC{'ListModules.pm'};
	print map { "$_\n" } grep { m{^/} } values %INC, @DynaLoader::dl_shared_objects;
}

1;
