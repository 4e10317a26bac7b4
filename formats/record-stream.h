/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_RECORD_STREAM_H
#define SONDE_FORMATS_RECORD_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "formats/kmemtrace.h"
#include "formats/record.h"

/*
 * Decodes one vCPU's records, one after the other, from a file or from memory through a buffer of
 * fixed size. Nothing in the data is trusted.
 */
struct byte_source {
	/* As pread(2), without EINTR: bytes read, 0 at the end, -errno. */
	ssize_t (*read)(const struct byte_source *source, void *out, size_t size, uint64_t offset);
	int fd;
	const uint8_t *base;
	uint64_t size; /* known in advance; nothing behind it is read */
};

/* A regular file of which `size` bytes are of interest; fd stays the caller's. */
struct byte_source byte_source_file(int fd, uint64_t size);
struct byte_source byte_source_memory(const void *base, uint64_t size);

enum record_fault {
	RECORD_FAULT_NONE = 0,
	RECORD_FAULT_TRUNCATED, /* the file ends within a record */
	RECORD_FAULT_SIZE,      /* a record says it is shorter than 56 bytes: no way to go on */
};

struct trace_event {
	struct kmem_record record;
	unsigned int vcpu;
	uint64_t index;  /* of the record in its stream, from 0 */
	uint64_t offset; /* bytes */
};

enum { RECORD_STREAM_BUFFER = 256 };

struct record_stream {
	struct byte_source records, caches;
	unsigned int vcpu;
	bool order_known, swap;
	enum record_fault fault;
	uint64_t offset, index; /* of the next record, or of the end or the fault */
	uint64_t buffer_offset;
	size_t buffer_size;
	uint64_t ids_index;
	size_t ids_count;
	uint8_t buffer[RECORD_STREAM_BUFFER * KMEMTRACE_RECORD_SIZE];
	uint8_t ids[RECORD_STREAM_BUFFER * sizeof(uint16_t)];
};

/* `caches` holds a little-endian u16 cache id per record; where it ends, ids are 0. */
void record_stream_init(struct record_stream *stream, unsigned int vcpu, struct byte_source records,
			struct byte_source caches);

/*
 * The next record. Returns 1; 0 at the end of what can be read, stream->fault then telling whether
 * that is the end of the data; -errno if reading fails at stream->offset.
 */
int record_stream_next(struct record_stream *stream, struct trace_event *event);

#endif
