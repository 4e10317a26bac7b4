/* SPDX-License-Identifier: GPL-2.0-or-later */
/* make-hostile DIR: a trace of a guest whose names are to break out of their places. */
#include "tests/lib/hostile-make.h"

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	hostile_make(argv[1]);
	return 0;
}
