/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_TRACE_MAKE_H
#define SONDE_TESTS_LIB_TRACE_MAKE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/kmemtrace/kmemtrace.h"
#include "formats/event/record-stream.h"
#include "formats/trace/reader.h"
#include "formats/trace/site-names.h"
#include "formats/trace/writer.h"

/* Hand-made traces for unit tests. All of these abort() when the machine fails them. */

/* A new empty directory under TMPDIR, else /tmp; scratch_remove() deletes it with all in it. */
struct scratch {
	char path[64];
};
struct scratch scratch_make(void);
void scratch_remove(const struct scratch *scratch);
/* Take what is left of the disk that `path` is on, in a hidden file there. */
void scratch_fill(const char *path);

/* Write, or read whole (NUL-terminated, to be freed; NULL if it cannot be opened), dir/name. */
void file_put(const char *dir, const char *name, const void *bytes, size_t size);
char *file_get(const char *dir, const char *name, size_t *size);

struct kmem_record make_alloc(unsigned int type, uint64_t ptr, uint64_t call_site, uint64_t req,
			      uint64_t alloc, int64_t timestamp);
struct kmem_record make_free(unsigned int type, uint64_t ptr, uint64_t call_site,
			     int64_t timestamp);

/* Turn an encoded record into what a machine of the other byte order writes. */
void kmemtrace_reverse(uint8_t record[KMEMTRACE_RECORD_SIZE]);

/* For trace_writer_finish(): functions f0 to f15 of 0x90 bytes, one every 0x1000. */
int name_numbered(void *arg, uint64_t address, struct site_function *out);

/* Add an instance whose spec is its name. Returns its number. */
int trace_add(struct trace_writer *writer, const char *name, const struct event_class *classes,
	      size_t nr_classes);
/* Put an event of vCPU 0, in a batch of its own. */
void trace_put(struct trace_writer *writer, int instance, unsigned int class_index, int64_t ns,
	       const void *bytes);

/* Encode n records into dir/cpu<vcpu>. */
void stream_put(const char *dir, unsigned int vcpu, const struct kmem_record *records, size_t n);

/* An event that is a record, and its place. */
struct record_event {
	struct kmem_record record;
	unsigned int vcpu;
	uint64_t index, offset;
};

/* As trace_reader_next() and record_stream_next(), for traces with nothing but records. */
int read_record(struct trace_reader *reader, struct record_event *out, struct error *err);
int stream_record(struct record_stream *stream, struct record_event *out);

/* What a verb printed and returned. Run with standard output and error redirected. */
struct verb_result {
	int status;
	char *out, *err; /* to be freed by verb_result_deinit() */
};
struct verb_result verb_run(int (*verb)(int, char **), const char *const *argv);
void verb_result_deinit(struct verb_result *result);
/* A check that the verb prints one JSON value and returns 0. The caller's; NULL if it prints none.
 */
json_t *verb_json(int (*verb)(int, char **), const char *const *argv);

#endif
