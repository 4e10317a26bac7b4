/* SPDX-License-Identifier: GPL-2.0-or-later */
/* make-calls DIR: a trace of calls and of system calls. */
#include "tests/lib/calls-make.h"

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	calls_make(argv[1], 0);
	return 0;
}
