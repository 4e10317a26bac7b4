/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_BABELTRACE_H
#define SONDE_TESTS_LIB_BABELTRACE_H

#include <stdbool.h>
#include <stddef.h>
#include "formats/event/kmem.h"

/* What babeltrace2, the reference reader, makes of a CTF trace. Abort without memory. */

/*
 * Run it with these options on the directory. Returns its exit status, 127 if it is not there;
 * *output, unless NULL, is what it printed on standard output, to be freed.
 */
int babeltrace_run(const char *options, const char *dir, char **output);

/*
 * The records of a trace of ours with one stream, rebuilt from the text of all events that
 * babeltrace2 prints, definitions included. At most max. Returns their number, -1 if it refuses.
 */
long babeltrace_records(const char *dir, struct kmem_record *records, size_t max);

#endif
