/* SPDX-License-Identifier: GPL-2.0-or-later */
/* make-trace DIR: the trace that exports are tested with, in an empty directory. */
#include "tests/lib/export-make.h"
#include "tests/lib/tap.h"

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	export_make(argv[1]);
	return 0;
}
