/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_CALLS_MAKE_H
#define SONDE_TESTS_LIB_CALLS_MAKE_H

#include <stdint.h>

/*
 * A trace with nothing but calls: CALLS_MADE of `outer`, each of which calls `inner`, by the graph
 * tracer; and as many system calls `read` and `write`, of equal durations, by the syscalls tracer.
 * Call i of inner and write takes 10 + i ns, one of outer and read 1000 ns; the last of those does
 * not return. Two of read fail. The trace says that `lost` events were lost. Aborts on failure.
 */
enum { CALLS_MADE = 5 };

void calls_make(const char *dir, uint64_t lost);

#endif
