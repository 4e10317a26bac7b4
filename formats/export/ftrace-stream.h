/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EXPORT_FTRACE_STREAM_H
#define SONDE_FORMATS_EXPORT_FTRACE_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include "formats/export/file.h"
#include "formats/export/ftrace-format.h"

/*
 * The records of a CPU as trace-cmd keeps them: pages of the kernel's ring buffer
 * (include/linux/ring_buffer.h, enum ring_buffer_type; kernel/trace/ring_buffer.c, struct
 * buffer_data_page), several of which make a chunk that is compressed (trace-cmd.dat.v7(5),
 * "Compression format of the trace data").
 *
 * Chunks of all streams go to one scratch file in the order in which they become full. A stream
 * knows where its own are.
 */
struct ftrace_spool {
	int fd;
	uint64_t size; /* bytes */
	void *zstd;    /* ZSTD_CCtx */
	uint8_t *packed;
	size_t packed_room;
};

struct ftrace_chunk {
	uint64_t offset; /* in the spool */
	uint32_t size;   /* bytes, with the two sizes in front */
};

struct ftrace_stream {
	uint8_t *pages;   /* of the chunk at hand; NULL before the first event */
	size_t nr_pages;  /* of these, those that are full */
	size_t used;      /* bytes of the page at hand that have records; 0: none begun */
	uint64_t last_ns; /* time of the last record */
	uint64_t lacks, page_lacks; /* missing before the next record, and the page at hand's first
				     */
	struct ftrace_chunk *chunks;
	size_t nr_chunks, chunks_room;
};

enum { FTRACE_PAGE = 4096 };

/* Returns 0 or -errno. A zeroed spool whose fd is -1 may be given back, too. */
int ftrace_spool_init(struct ftrace_spool *spool, struct export_file *file, struct error *err);
void ftrace_spool_deinit(struct ftrace_spool *spool);

/* Before the next event of a stream so many are missing, or FTRACE_UNKNOWN, an unknown number. */
#define FTRACE_UNKNOWN UINT64_MAX
void ftrace_stream_miss(struct ftrace_stream *stream, uint64_t events);

/* Append an event to a stream, zeroed at first. Returns 0 or -errno. */
int ftrace_stream_put(struct ftrace_stream *stream, struct ftrace_spool *spool,
		      const struct ftrace_class *layout, int64_t ns, const void *bytes);

/* After the last event. Returns 0 or -errno. */
int ftrace_stream_finish(struct ftrace_stream *stream, struct ftrace_spool *spool);

/* Append the number of chunks, and all chunks, to the file; nothing if the stream has no event.
 * Returns 0 or -errno. */
int ftrace_stream_copy(const struct ftrace_stream *stream, const struct ftrace_spool *spool,
		       struct export_file *file);

void ftrace_stream_deinit(struct ftrace_stream *stream);

#endif
