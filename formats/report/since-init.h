/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_REPORT_SINCE_INIT_H
#define SONDE_FORMATS_REPORT_SINCE_INIT_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/event/kmem.h"
#include "formats/trace/sidecar.h"

/* Where in a trace the guest's init begins: with the last free of memory of the kernel's own
 * initialisation. */

enum { SINCE_INIT_ASKED = 16 };

/* Whether a record is such a free. The sidecar may be NULL. */
bool since_init_frees(const struct sidecar *sidecar, const struct kmem_record *record);

/* Looking for the last such free in a pass. */
struct since_init {
	int64_t ns; /* INT64_MIN: there was none yet */
	struct {
		uint64_t call_site; /* 0: none */
		bool frees;
	} asked[SINCE_INIT_ASKED]; /* call sites that were looked at */
};

void since_init_begin(struct since_init *init);
void since_init_note(struct since_init *init, const struct sidecar *sidecar,
		     const struct kmem_record *record);

/* Whether the trace names the function of such frees, so that there probably is one. */
bool since_init_is_known(const struct sidecar *sidecar);

/* Find the last one in the trace `dir`, in a pass of its own, also by the names in `names` (may be
 * NULL). -ENOENT: there is none (yet). */
int since_init_find(const char *dir, const struct sidecar *names, int64_t *ns, struct error *err);

#endif
