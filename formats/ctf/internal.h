/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CTF_INTERNAL_H
#define SONDE_FORMATS_CTF_INTERNAL_H

#include <endian.h>
#include <stdio.h>
#include <string.h>
#include "formats/base/bit-cursor.h"
#include "formats/ctf/ctf.h"
#include "formats/event/record-stream.h"
#include "formats/event/task.h"

/* What the files of this room share. */

/* --- metadata.c, metadata-events.c and metadata-parse.c ----------------------------------------
 */

enum { CTF_VERSION_2 = 2, CTF_SUFFIX_SIZE = TRACE_INSTANCE_NAME_MAX + 16 };

/* The comments that metadata.c writes and metadata-parse.c reads. */
#define CTF_BLOCK_BEGIN "/* sonde: "
#define CTF_BLOCK_END " */"
#define CTF_CRC_BEGIN "/* crc32c: "
#define CTF_CRC_END " */\n"

/* The parts of the text. */
void ctf_metadata_put_string(FILE *out, const char *text);
void ctf_metadata_put_instance(FILE *out, const struct ctf_metadata *metadata, unsigned int number);

/* --- writer.c and put.c ----------------------------------------------------------------------- */

/* EVENT_ROOM: an event in any form, a CTF_TIME before it, and what it adds to the tables. */
enum {
	CTF_PACKET_MAX = OUTPUT_PACKET_MAX,
	CTF_EVENT_ROOM = 10 << 10,
	CTF_TABLES_BYTES = CTF_EXTENDED_BYTES + CTF_NR_TABLES * CTF_LENGTH_BYTES,
};

/* An instance: what its streams share. */
struct ctf_instance {
	struct trace_instance about; /* owned copies but for the classes, which are borrowed */
	char suffix[CTF_SUFFIX_SIZE]; /* of its files: "cpu0" and this */
	struct ctf_plan *plan;
	struct ctf_dictionary code, flags, strings, stacks;
};

/* A task as events of kmem have it, which begin with these bits. */
struct ctf_task {
	struct event_task task;
	uint32_t packet; /* that uses its strings; 0: none yet */
	unsigned int nr_bits;
	uint64_t bits[2];
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
	int dir_fd;
	struct packet_file file; /* closed while the stream rests; of the output's thread */
	bool created;            /* the file; of the output's thread */
	uint64_t sequence; /* of the next packet */
	uint64_t written;  /* packets in the file; of the output's thread */
	uint64_t noted;    /* lost events, as of the last packet */
	uint64_t begin, clock;
	size_t used;        /* bytes of the packet */
	size_t table_bytes; /* that its tables will take */
	struct ctf_values code, flags, strings, stacks;
	struct ctf_value last_string; /* and its id; 0: none yet in this packet */
	unsigned int last_string_id;
	uint64_t last_stack[EVENT_STACK_WORDS]; /* likewise */
	unsigned int last_stack_id;
	struct ctf_task last_task;
	uint64_t last_flags; /* likewise */
	unsigned int last_flags_id;
	uint16_t *used_caches; /* by the packet */
	size_t nr_used_caches, caches_capacity;
	bool uses_cache[UINT16_MAX + 1]; /* by id: it is one of those, or 0 */
	uint8_t *bytes; /* of the packet; whole words are stored. NULL while there is none */
};

/* Set how events of each form are written. */
void ctf_find_put(struct ctf_plan *plan, const struct ctf_identity *identity);
/* How those of a form of this program's own classes are; or NULL. */
ctf_put_fn *ctf_put_known(const struct event_class *class, unsigned int form);
/* Likewise a run of the class's first form; or NULL. */
ctf_put_run_fn *ctf_put_run_known(const struct event_class *class);
/* Likewise events of all classes of an instance, whose classes these are; or NULL. */
ctf_put_mix_fn *ctf_put_mix_known(const struct event_class *classes);

/* put() of struct stream_writer_ops. It needs CTF_EVENT_ROOM. */
int ctf_put_event(struct stream_writer *base, unsigned int class_index, int64_t ns,
		  const void *bytes);

/* Likewise put_run(). */
size_t ctf_put_run(struct stream_writer *base, unsigned int class_index,
		   const struct event_run *run);

/* Likewise put_mix(). */
size_t ctf_put_mix(struct stream_writer *base, const struct event_mix *mix);

/* Append the packet's tables. Returns where they begin. */
size_t ctf_put_tables(struct ctf_writer *w);

/* --- reader.c, get.c, get-kmem.c --------------------------------------------------------------- */

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
enum ctf_meaning {
	CTF_MEANS_CODE,
	CTF_MEANS_FLAGS,
	CTF_MEANS_STRING,
	CTF_MEANS_FRAME, /* its address, and the id of its caller's frame */
	CTF_NR_MEANINGS
};

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

/* What an id stands for in the packet at hand; NULL if its tables do not say. */
static inline const struct ctf_value *ctf_meaning_of(const struct ctf_stream *s,
						     enum ctf_meaning kind, uint64_t id)
{
	const struct ctf_meanings *m = &s->meanings[kind];

	return id < m->count && m->items[id].packet == s->nr_packets ? &m->items[id].value : NULL;
}

enum { CTF_ORDER_SHIFT = 12 };

/* The packet has CTF_PACKET_SLACK bytes behind it. */
static inline uint64_t ctf_get_little(const uint8_t *from, unsigned int bit, unsigned int bits)
{
	uint64_t word;

	memcpy(&word, from, sizeof(word));
	word = le64toh(word) >> bit;
	if (bits + bit > 64)
		word |= (uint64_t)from[8] << (64 - bit);
	return word;
}

/* The caller's variables stay in registers. */
#define CTF_ALWAYS_INLINE inline __attribute__((always_inline))

/* The bits of a step, and others above them. */
static CTF_ALWAYS_INLINE uint64_t ctf_get_bits(const uint8_t *from, unsigned int bit,
					       unsigned int bits, bool big_endian)
{
	struct bit_cursor c = {
		.bytes = (uint8_t *)from, .pos = bit, .end = SIZE_MAX, .big_endian = true};

	return big_endian ? bit_get(&c, bits) : ctf_get_little(from, bit, bits);
}

static inline void ctf_store(uint8_t *at, unsigned int size, uint64_t value)
{
	uint32_t four = (uint32_t)value;
	uint16_t two = (uint16_t)value;
	uint8_t one = (uint8_t)value;

	switch (size) {
	case sizeof(one):
		memcpy(at, &one, sizeof(one));
		break;
	case sizeof(two):
		memcpy(at, &two, sizeof(two));
		break;
	case sizeof(four):
		memcpy(at, &four, sizeof(four));
		break;
	default:
		memcpy(at, &value, sizeof(value));
	}
}

/* A step that is not CTF_GET_ANY. Returns false for an id that the tables lack. */
static CTF_ALWAYS_INLINE bool ctf_get_usual(const struct ctf_stream *s, const struct ctf_step *step,
					    const uint8_t *from, bool big_endian, uint8_t *to)
{
	const struct ctf_value *named;
	uint64_t value;

	if (step->get == CTF_GET_IMPLIED) {
		ctf_store(to, step->size, -step->bias);
		return true;
	}
	value = ctf_get_bits(from, step->bit, step->bits, big_endian) & step->max;
	switch ((enum ctf_get)step->get) {
	case CTF_GET_NUMBER_2:
		ctf_store(to, 2, value);
		return true;
	case CTF_GET_SIGNED_4:
		ctf_store(to, 4, (value ^ step->bias) - step->bias);
		return true;
	case CTF_GET_SIGNED_8:
		ctf_store(to, 8, (value ^ step->bias) - step->bias);
		return true;
	case CTF_GET_CODE_8:
		named = ctf_meaning_of(s, CTF_MEANS_CODE, value);
		if (named)
			ctf_store(to, 8, named->word[0]);
		return named;
	case CTF_GET_FLAGS_8:
		named = value ? ctf_meaning_of(s, CTF_MEANS_FLAGS, value) : NULL;
		if (named)
			ctf_store(to, 8, named->word[0]);
		return named || !value;
	case CTF_GET_PAGES_8:
		ctf_store(to, 8, UINT64_C(1) << (value + CTF_ORDER_SHIFT));
		return true;
	default:
		ctf_store(to, 8, value);
		return true;
	}
}

/* Set how events of each form are read. */
void ctf_find_get(struct ctf_plan *plan, const struct ctf_identity *identity);
/* How those of a form of kmem's own classes are, in a little-endian trace; or NULL. */
ctf_get_fn *ctf_get_known(const struct ctf_form *form);
ctf_get_brief_fn *ctf_get_brief(const struct ctf_form *form);

/* The header of an event, in whichever form: moves *clock on. Returns its bytes; 0 if there is no
 * room for one. */
size_t ctf_read_header(const struct ctf_stream *s, size_t at, size_t end, uint64_t *clock,
		       uint32_t *id);

/*
 * Read what is at s->at, and step over it. Returns 1 and an event with its bytes, of which there
 * can be EVENT_MAX_SIZE; 0 if it was none, -EINVAL if it is not of this format. Leaves the event's
 * vcpu, index and offset.
 */
int ctf_read_event(struct ctf_stream *s, struct event *event, uint8_t *bytes);

/* next_run() of struct record_stream_ops: the events of the packet at hand, up to what is none, or
 * cannot be read. */
void ctf_read_run(struct record_stream *base, struct stream_room *room);

/* next_briefs(), likewise. */
void ctf_read_briefs(struct record_stream *base, struct brief_room *room);

#endif
