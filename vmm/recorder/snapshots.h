/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_RECORDER_SNAPSHOTS_H
#define SONDE_VMM_RECORDER_SNAPSHOTS_H

#include <stdbool.h>
#include "formats/trace/writer.h"

/*
 * Snapshots of a trace. Each takes as long as its disk does, so a thread of its own writes it.
 * Those that are asked for while one is written are written together, behind it.
 */
struct snapshots;
struct snapshot;

/* The writer must live until snapshots_end(). Returns 0 or -ENOMEM. */
int snapshots_create(struct trace_writer *writer, struct snapshots **out, struct error *err);
/* Wait for those that are being written. The writer is not used any more. NULL-safe. What was asked
 * for may still be waited for. */
void snapshots_end(struct snapshots *snapshots);

/* Have one written. Ends with snapshot_await() or snapshot_forget(). Returns 0, -ENOMEM, -EAGAIN:
 * there is no thread. */
int snapshots_ask(struct snapshots *snapshots, struct snapshot **out, struct error *err);

/* Thread-safe: */
bool snapshot_is_over(struct snapshot *snapshot);
/* Returns what trace_writer_snapshot() has returned. */
int snapshot_await(struct snapshot *snapshot, struct error *err);
/* NULL-safe. It is written nevertheless. */
void snapshot_forget(struct snapshot *snapshot);

#endif
