/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_CORE_DUMP_H
#define SONDE_TESTS_LIB_CORE_DUMP_H

#include <stdbool.h>

/* Whether a core dump of this process would have the mapping that `address` is in. */
bool core_dump_has(const void *address);

#endif
