/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_TRACE_FILES_H
#define SONDE_FORMATS_TRACE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include "formats/base/byte-source.h"
#include "formats/base/error.h"

/* The files of a trace, by name: those of a directory, or of memory. None of them is trusted. */
struct trace_files;

struct trace_memory_file {
	const char *name;
	const void *bytes;
	size_t size;
};

/* Returns 0; -errno if the directory cannot be read. */
int trace_files_open(const char *dir, struct trace_files **out, struct error *err);

/* The array and all that it points at must outlive *out. Returns 0 or -ENOMEM. */
int trace_files_open_memory(const struct trace_memory_file *files, size_t nr_files,
			    struct trace_files **out, struct error *err);

/* NULL-safe. Ends the byte sources that were made of the files. */
void trace_files_close(struct trace_files *files);

/*
 * Whether a trace writer has the directory open now: trace_writer_create() locks it. False where
 * that cannot be known (in memory, on file systems without locks).
 */
bool trace_files_are_being_written(const struct trace_files *files);

/* What differs between a file and the one that is written in its place. All 0: there is no file, or
 * nothing can be written in its place, as it is in memory. */
struct trace_file_stamp {
	uint64_t inode, size; /* bytes */
	struct timespec changed;
};
struct trace_file_stamp trace_files_stamp(const struct trace_files *files, const char *name);
bool trace_file_stamps_equal(const struct trace_file_stamp *a, const struct trace_file_stamp *b);

/* The numbers n of the files "cpu<n>" and "cpu<n>.<more>", ascending, valid until close. */
const unsigned int *trace_files_vcpus(const struct trace_files *files, size_t *nr_vcpus);

/*
 * A source that reads a file of its current size. Returns 0; with *out empty -ENOENT, -errno, or
 * -EINVAL for what is no regular file (a FIFO or device would block the reader).
 */
int trace_files_source(struct trace_files *files, const char *name, struct byte_source *out,
		       struct error *err);

/* The same for the file PREFIX<vcpu>SUFFIX. One that is missing reads as an empty one. */
int trace_files_stream(struct trace_files *files, const char *prefix, unsigned int vcpu,
		       const char *suffix, struct byte_source *out, struct error *err);

/* Whether there is a file cpu<vcpu>SUFFIX. */
bool trace_files_has(const struct trace_files *files, unsigned int vcpu, const char *suffix);

/* A whole file of at most `max` bytes, NUL-terminated and to be freed. Errors as above, -EFBIG. */
int trace_files_load(struct trace_files *files, const char *name, size_t max, char **text,
		     size_t *size, struct error *err);

#endif
