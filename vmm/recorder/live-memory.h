/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_RECORDER_LIVE_MEMORY_H
#define SONDE_VMM_RECORDER_LIVE_MEMORY_H

#include <jansson.h>
#include <stdint.h>
#include "formats/base/error.h"

/*
 * What of the traced memory is live, while it is traced: a thread follows the trace on the disk,
 * as sonde top does, and keeps the guest's heap of the first instance of kmem. The recording
 * itself does nothing for it.
 */
struct live_memory;

/* Of the trace in `dir`, whose text must outlive it, with a heap of at most `limit` bytes. The
 * thread begins with the first live_memory_poll(): until then the process may fork. -ENOMEM. */
int live_memory_create(const char *dir, uint64_t limit, struct live_memory **out,
		       struct error *err);
/* NULL-safe. Does not wait long for a disk that hangs. */
void live_memory_destroy(struct live_memory *live);

/* Start the thread unless it runs. For a timer. */
void live_memory_poll(struct live_memory *live);

/*
 * What is known, as a new object: "bytes", each counted once; "objects" and "object_bytes" in
 * slabs, "slabs" and "slab_bytes"; "time_ns", up to when the trace was read; or "error", why there
 * is nothing of that. NULL without memory, or as long as nothing was read.
 */
json_t *live_memory_json(struct live_memory *live);

#endif
