/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_TRACE_READER_INTERNAL_H
#define SONDE_FORMATS_TRACE_READER_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/event/read-ahead.h"
#include "formats/trace/decoder.h"
#include "formats/trace/reader.h"

/* What reader.c opens, reader-sidecar.c knows of it, and merge.c reads events from. */

struct merge_stream {
	struct record_stream *decoder; /* what is decoded ahead is not to be used */
	struct record_stream begin;    /* as it was before that */
	size_t number;
	unsigned int instance; /* of the decoder's */
	/* The next event: a struct stream_event or, of briefs, a struct kmem_brief. Either begins
	 * with its time. */
	const void *head;
	bool is_brief;
	const uint8_t *bytes;              /* that its place is in */
	struct stream_event own;           /* the head, unless it is one of a batch */
	const void *batch;                 /* NULL: none is decoded ahead */
	size_t left;                       /* events of the batch behind the head */
	const struct record_stream *state; /* at the head, but for: */
	uint64_t index, offset;            /* behind it */
	bool ended;
	/* When the trace is followed: bytes of the file that were there a second ago at least, and
	 * those that will be the next time. */
	uint64_t ripe, ripening;
};

struct trace_reader {
	struct trace_files *files;
	struct trace_decoder *decoder;
	struct sidecar *sidecar;       /* or NULL, sidecar_error saying why */
	struct error sidecar_error;    /* or that it is damaged */
	struct error sidecar_damage;   /* what is wrong with it, or with its copy */
	struct merge_stream **streams; /* by vCPU */
	size_t nr_streams;
	unsigned int vcpu_end;
	struct merge_stream **heap; /* those not ended, the earliest head first */
	size_t heap_size;
	char names_file[64];                   /* beside the sidecar */
	char names_damage[160];                /* or "" */
	struct byte_source names;              /* likewise; read NULL: it is not there yet */
	uint64_t names_size;                   /* bytes of it that were read */
	bool has_last_names;                   /* those of a sidecar that was completed meanwhile */
	bool being_written;                    /* when the sidecar was read */
	struct trace_file_stamp sidecar_stamp; /* of the last one that a reader who follows took */
	bool following;                        /* events that are not ripe are held back */
	bool reads_ahead;
	unsigned int nr_threads;
	const struct trace_instance *brief; /* whose runs may be of briefs; or NULL */
	struct read_ahead *ahead; /* or NULL */
	uint64_t ripening_ns;     /* since when */
	bool primed;
	bool taken; /* the event of heap[0] was handed out */
	bool cut;
};

/* Events that an instance's vCPU should have; `otherwise` if the sidecar does not say, or said so
 * before the end. */
uint64_t trace_reader_expected(const struct trace_reader *reader, unsigned int instance,
			       unsigned int vcpu, uint64_t otherwise);

/* Whether the trace says that its last records are missing. */
bool trace_reader_is_unfinished(const struct trace_reader *reader);

/* Give the sidecar the caches that a stream has noted before an event. Frees the notes. -ENOMEM. */
int trace_reader_add_caches(struct trace_reader *reader, struct stream_note *notes);

/* Load the sidecar, and find out whether the trace is being written. */
void trace_reader_load_sidecar(struct trace_reader *reader);

/* Of a trace that is followed: take what a sidecar that was written since has news of. It is not
 * worth an error. */
void trace_reader_reload_sidecar(struct trace_reader *reader);

/* The names that were written since the last time. They are not worth an error. */
void trace_reader_load_names(struct trace_reader *reader);

#endif
