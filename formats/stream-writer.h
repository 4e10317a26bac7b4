/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_STREAM_WRITER_H
#define SONDE_FORMATS_STREAM_WRITER_H

#include <stddef.h>
#include <stdint.h>
#include "formats/kmemtrace.h"
#include "formats/record.h"

/*
 * One vCPU's two files, `cpu<n>` and `caches<n>`, and the buffer before them. The buffer is
 * written when full, in whole records; what the disk refuses stays in it, and the files are cut
 * back to whole records, so that they are a valid trace whenever no call is under way. Not
 * thread-safe.
 */
enum { STREAM_BUFFER_RECORDS = 65536 / KMEMTRACE_RECORD_SIZE };

struct stream_writer {
	int records_fd, caches_fd;
	uint64_t written; /* records in the files */
	size_t buffered;
	uint8_t records[STREAM_BUFFER_RECORDS * KMEMTRACE_RECORD_SIZE];
	uint16_t caches[STREAM_BUFFER_RECORDS]; /* little-endian */
};

/* Create the two files of `vcpu` in dir_fd, which must not exist. Returns 0 or -errno. */
int stream_writer_init(struct stream_writer *stream, int dir_fd, unsigned int vcpu);

/* Close the files. Drops what is buffered. */
void stream_writer_deinit(struct stream_writer *stream);

/* Append one record. Returns 0, or -errno if the buffer is full and cannot be written. */
int stream_writer_append(struct stream_writer *stream, const struct kmem_record *record);

/* Write what is buffered. Returns 0 or -errno, the unwritten records then being still buffered. */
int stream_writer_flush(struct stream_writer *stream);

/* Drop what is buffered, adding the number of allocations and frees to the two counts. */
void stream_writer_drop(struct stream_writer *stream, uint64_t *allocs, uint64_t *frees);

#endif
