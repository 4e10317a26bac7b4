/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_BASE_HUGE_H
#define SONDE_FORMATS_BASE_HUGE_H

#include <stddef.h>

/*
 * An array for lookups in no order, to be freed, not zeroed: a large one is in huge pages, as far
 * as there are any. Otherwise, lookups would mostly miss the TLB. It begins at a line of the
 * processor's cache. NULL: no memory, or too large.
 */
void *huge_array(size_t n, size_t size);

#endif
