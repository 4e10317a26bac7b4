/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_PERFETTO_PACKETS_H
#define SONDE_FORMATS_PERFETTO_PACKETS_H

#include "formats/export/file.h"
#include "formats/perfetto/schema.h"
#include "formats/perfetto/threads.h"

/* Packets, each a TracePacket of the file's one sequence; errors are left to the file. */

/* One with further fields from *at on, up to `end`. `begin` is what packet_begin() returned. */
uint8_t *packet_begin(struct export_file *file, uint8_t **at);
void packet_end(struct export_file *file, uint8_t *begin, const uint8_t *end);

/* A track. `parent`: 0 if it has none. */
void packet_track(struct export_file *file, uint64_t uuid, uint64_t parent, const char *name,
		  bool is_counter);
/* That of a thread, also where one is described again: it may get another name. */
void packet_thread(struct export_file *file, const struct thread_track *thread);
/* Gives a text a number. */
void packet_entry(struct export_file *file, enum interned_data kind, uint64_t iid,
		  const char *text);
/* A value of a counter's track. */
void packet_counter(struct export_file *file, uint64_t track, int64_t ns, uint64_t value);

#endif
