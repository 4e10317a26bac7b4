/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_EXPORT_MAKE_H
#define SONDE_TESTS_LIB_EXPORT_MAKE_H

#include "formats/trace/reader.h"
#include "tests/lib/trace-make.h"

/*
 * A trace with all that exports have to cope with: events of kmem in all kinds, two instances of
 * function with other fields each, a class that this program does not know, on EXPORT_MAKE_VCPUS
 * vCPUs, of which the last has no event and the second lost EXPORT_MAKE_LOST; functions of modules
 * and without names; names of caches, tasks and functions that try to break out of XML, JSON, CSV
 * and ftrace's format; times far apart, and times that step back. Aborts on failure.
 */
enum { EXPORT_MAKE_VCPUS = 3, EXPORT_MAKE_EVENTS = 3000, EXPORT_MAKE_LOST = 7 };

void export_make(const char *dir);

/* What the trace's hostile names have in them. */
extern const char export_make_bad[];

/* Run sonde convert DIR --to FORMAT -o OUT with another option (or NULL). Checks that it succeeds.
 */
void export_make_convert(const char *dir, const char *format, const char *out, const char *option);

#endif
