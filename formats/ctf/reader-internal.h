/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CTF_READER_INTERNAL_H
#define SONDE_FORMATS_CTF_READER_INTERNAL_H

#include <stdio.h>
#include "formats/base/bit-cursor.h"
#include "formats/ctf/ctf.h"
#include "formats/ctf/tables.h"
#include "formats/event/record-stream.h"

enum {
	CTF_PACKET_LIMIT = 1 << 20, /* bytes; the writer's are smaller */
	CTF_PACKET_SLACK = 2048,    /* behind a packet: the longest event is read without checks */
};

struct ctf_decoder {
	struct trace_decoder base;
	struct decoder_input input;
	struct ctf_described described;
	struct ctf_plan *plans[TRACE_INSTANCES_MAX]; /* of the instances */
};

/* What ids stand for, by id: those of the packet at hand have its number. */
enum ctf_meaning { CTF_MEANS_CODE, CTF_MEANS_FLAGS, CTF_MEANS_STRING, CTF_NR_MEANINGS };

struct ctf_meanings {
	struct {
		struct ctf_value value;
		uint64_t packet;
	} * items;
	size_t count;
};

struct ctf_stream {
	struct record_stream base;
	const struct ctf_decoder *decoder;
	const struct ctf_plan *plan;
	const struct trace_instance *instance;
	unsigned int number;       /* of the instance */
	uint64_t next_packet;      /* its offset in the file */
	uint64_t sequence;         /* that it should have */
	bool was_damaged;          /* what was before it */
	uint64_t packet_begin;     /* of the packet at hand, in the file */
	uint8_t *packet;           /* its bytes */
	size_t capacity, at, end;  /* bytes; of the next event, and of the tables */
	uint64_t clock, clock_end; /* of the last event, and the packet's latest */
	bool has_time;             /* the next event has this time: */
	int64_t time;
	uint64_t nr_packets; /* read: the number of the packet at hand */
	struct ctf_meanings meanings[CTF_NR_MEANINGS];
	uint8_t bytes[EVENT_MAX_SIZE]; /* of the last event */
};

/* Read the tables of a packet that was loaded. Returns 1; 0 if they are none; -errno. */
int ctf_read_tables(struct ctf_stream *s, const struct ctf_packet *packet);

/*
 * Read what is at s->at, and step over it. Returns 1 and an event, 0 if it was none, -EINVAL if it
 * is not of this format.
 */
int ctf_read_event(struct ctf_stream *s, struct event *event);

#endif
