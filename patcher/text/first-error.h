/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TEXT_FIRST_ERROR_H
#define SONDE_PATCHER_TEXT_FIRST_ERROR_H

#include <stdatomic.h>
#include "formats/base/error.h"

/*
 * The first thing that went wrong where nobody waits for an answer, in a trap handler for instance.
 * Set and read by any thread; zero-initialised it is empty; once set it stays as it is.
 */
enum first_error_state { FIRST_ERROR_NONE, FIRST_ERROR_WRITING, FIRST_ERROR_SET };

struct first_error {
	_Atomic int state; /* enum first_error_state */
	struct error error;
};

static inline void first_error_set(struct first_error *first, const struct error *err)
{
	int none = FIRST_ERROR_NONE;

	if (!atomic_compare_exchange_strong(&first->state, &none, FIRST_ERROR_WRITING))
		return;
	first->error = *err;
	atomic_store_explicit(&first->state, FIRST_ERROR_SET, memory_order_release);
}

/* NULL if there is none (yet). */
static inline const struct error *first_error_get(const struct first_error *first)
{
	int state = atomic_load_explicit(&first->state, memory_order_acquire);

	return state == FIRST_ERROR_SET ? &first->error : NULL;
}

#endif
