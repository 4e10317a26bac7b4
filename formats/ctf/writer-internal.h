/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CTF_WRITER_INTERNAL_H
#define SONDE_FORMATS_CTF_WRITER_INTERNAL_H

#include "formats/ctf/ctf.h"
#include "formats/ctf/plan.h"
#include "formats/ctf/tables.h"
#include "formats/ctf/values.h"

/* EVENT_ROOM: an event in any form, a CTF_TIME before it, and what it adds to the tables. */
enum {
	CTF_PACKET_MAX = OUTPUT_PACKET_MAX,
	CTF_EVENT_ROOM = 10 << 10,
	CTF_TABLES_BYTES = CTF_EXTENDED_BYTES + CTF_NR_TABLES * CTF_LENGTH_BYTES,
};

/* An instance: what its streams share. */
struct ctf_instance {
	struct trace_instance about; /* owned copies but for the classes, which are borrowed */
	char suffix[TRACE_INSTANCE_NAME_MAX + 16]; /* of its files: "cpu0" and this */
	struct ctf_plan *plan;
	struct ctf_dictionary code, flags, strings;
};

/* A stream: events are gathered into packets, each as long as its content. */
struct ctf_writer {
	struct stream_writer base;
	const struct ctf_identity *identity;
	struct cache_table *caches;
	struct call_sites *sites;
	struct ctf_instance *instance;
	const struct ctf_plan *plan;
	unsigned int stream, vcpu;
	struct packet_file file;
	uint64_t sequence; /* of the next packet */
	uint64_t noted;    /* lost events, as of the last packet */
	uint64_t begin, clock;
	size_t used;        /* bytes of the packet */
	size_t table_bytes; /* that its tables will take */
	struct ctf_values code, flags, strings;
	struct ctf_value last_string; /* and its id; 0: none yet in this packet */
	unsigned int last_string_id;
	uint64_t last_flags; /* likewise */
	unsigned int last_flags_id;
	uint16_t *used_caches; /* by the packet */
	size_t nr_used_caches, caches_capacity;
	uint8_t cache_bits[(UINT16_MAX + 1) / 8]; /* a bit set of those */
	uint8_t *bytes; /* of the packet; whole words are stored. NULL while there is none */
};

/*
 * Append an event at w->clock or later. It needs CTF_EVENT_ROOM. Returns 0, or -EINVAL for a class
 * that the instance does not have.
 */
int ctf_put_event(struct ctf_writer *w, unsigned int class_index, int64_t ns, const uint8_t *bytes);

/* Append the packet's tables. Returns where they begin. */
size_t ctf_put_tables(struct ctf_writer *w);

#endif
