/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CTF_PLAN_H
#define SONDE_FORMATS_CTF_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/event/kmem.h"

/*
 * How the events of an instance are written in CTF: the classes' descriptions, compiled into lists
 * of steps. Each form of a class is a CTF event of its own; its id is its index here. Two more ids
 * follow: CTF_TIME and CTF_TABLES of ctf_plan_id().
 *
 * Events begin at a byte, with LTTng's compact header: 5 bits of id and the low 27 bits of the
 * clock; or the id CTF_EXTENDED, then 32 bits of id and all 64 of the clock. The fields follow
 * without gaps.
 */
enum {
	CTF_EXTENDED = 31,
	CTF_ID_BITS = 5,
	CTF_CLOCK_BITS = 27,
	CTF_HEADER_BYTES = 4,
	CTF_EXTENDED_BYTES = 13,
	CTF_MAX_CLASSES = 32, /* of an instance */
	CTF_MAX_STEPS = EVENT_MAX_FIELDS + 8,
};

enum ctf_op {
	CTF_NUMBER,  /* as it is, if it fits; with 0 bits: nothing, if it is the implied value */
	CTF_SIGNED,  /* likewise, sign-extended */
	CTF_CACHE,   /* as CTF_NUMBER; the tables of the packet describe the cache */
	CTF_CODE,    /* the id of an address, 0: none */
	CTF_ADDRESS, /* an address without an id */
	CTF_FLAGS,   /* the id of a value; 0 for 0 */
	CTF_PAGES,   /* n of 4096 << n */
	CTF_ORDER,   /* the smallest such n, beside the bytes, for other readers */
	CTF_STRING,  /* the id of a string; 0 for an empty one */
	CTF_BYTES,   /* a string as it is, from the next byte on */
	CTF_STACK,   /* the id of its innermost frame; 0 for an empty one */
	CTF_FRAMES,  /* all words of a stack as they are */
	CTF_TEXT,    /* a string with its NUL, from the next byte on; behind all other steps */
};

/* How the value of a step is read: what most are, by size; the rest as its op says. */
enum ctf_get {
	CTF_GET_ANY,
	CTF_GET_IMPLIED, /* takes no bits */
	CTF_GET_NUMBER_2,
	CTF_GET_NUMBER_8,
	CTF_GET_SIGNED_4,
	CTF_GET_SIGNED_8,
	CTF_GET_CODE_8,
	CTF_GET_FLAGS_8,
	CTF_GET_PAGES_8,
};

struct ctf_step {
	uint8_t op;    /* enum ctf_op */
	uint8_t bits;  /* on disk */
	uint8_t field; /* index in the class */
	uint8_t size;  /* bytes of the field in memory */
	uint16_t at;   /* of the field in memory */
	/* In memory: shift the 8 bytes from `load` on left, then right. Not for strings. */
	uint16_t load;
	uint8_t left, right;
	/* On disk: where the bits begin in a word of 64 bits, and whether they fill it up. */
	uint8_t shift;
	bool fills;
	/* Likewise from the header's end on: a byte, and a bit in it. */
	uint8_t bit;
	uint8_t get; /* enum ctf_get */
	uint16_t byte;
	uint64_t bias, max; /* it fits if value + bias <= max; `max` is also the mask */
};

/* --- steps: inline, as the compiler makes code from those of constant fields --------------------
 */

static inline enum ctf_op ctf_op_of(const struct event_field *field, unsigned int bits)
{
	bool whole = bits == 8u * field->size;

	switch (field->type) {
	case EVENT_INT:
	case EVENT_POINTER:
		return CTF_SIGNED;
	case EVENT_DICTIONARY:
		return CTF_CACHE;
	case EVENT_CODE:
	case EVENT_FUNCTION:
		return !bits ? CTF_NUMBER : whole ? CTF_ADDRESS : CTF_CODE;
	case EVENT_FLAGS:
		return whole || !bits ? CTF_NUMBER : CTF_FLAGS;
	case EVENT_PAGES:
		return whole || !bits ? CTF_NUMBER : CTF_PAGES;
	case EVENT_STRING:
		return whole ? CTF_BYTES : CTF_STRING;
	case EVENT_STACK:
		return whole ? CTF_FRAMES : CTF_STACK;
	case EVENT_LONG_STRING:
		return CTF_TEXT;
	case EVENT_UINT:
	case EVENT_HEX:
	case EVENT_NR_TYPES:
		break;
	}
	return CTF_NUMBER;
}

static inline enum ctf_get ctf_get_of(const struct ctf_step *step)
{
	switch ((enum ctf_op)step->op) {
	case CTF_NUMBER:
	case CTF_CACHE:
	case CTF_ADDRESS:
	case CTF_SIGNED:
		if (!step->bits)
			return CTF_GET_IMPLIED;
		if (step->size == 8)
			return step->op == CTF_SIGNED ? CTF_GET_SIGNED_8 : CTF_GET_NUMBER_8;
		if (step->op == CTF_SIGNED)
			return step->size == 4 ? CTF_GET_SIGNED_4 : CTF_GET_ANY;
		return step->size == 2 ? CTF_GET_NUMBER_2 : CTF_GET_ANY;
	case CTF_CODE:
		return step->size == 8 ? CTF_GET_CODE_8 : CTF_GET_ANY;
	case CTF_FLAGS:
		return step->size == 8 ? CTF_GET_FLAGS_8 : CTF_GET_ANY;
	case CTF_PAGES:
		return step->size == 8 ? CTF_GET_PAGES_8 : CTF_GET_ANY;
	default:
		return CTF_GET_ANY;
	}
}

/* But for its places on disk, and what the writer loads. */
static inline struct ctf_step ctf_step_of(const struct event_field *field, enum ctf_op op,
					  unsigned int bits)
{
	struct ctf_step step = {
		.op = (uint8_t)op, .bits = (uint8_t)bits, .size = field->size, .at = field->at};

	if (bits)
		step.max = bits < 64 ? UINT64_MAX >> (64 - bits) : UINT64_MAX;
	if (!bits)
		step.bias = -(uint64_t)(int64_t)field->implied;
	else if (op == CTF_SIGNED && bits < 64)
		step.bias = UINT64_C(1) << (bits - 1);
	step.get = (uint8_t)ctf_get_of(&step);
	return step;
}

struct ctf_writer;
struct ctf_stream;
struct ctf_form;

/* Append an event in this form, behind its header. Returns false if the form cannot express it. */
typedef bool ctf_put_fn(struct ctf_writer *writer, const struct ctf_form *form, uint64_t header,
			const uint8_t *bytes);

/* Append events of a run in this form or a later one of its class, each with a compact header,
 * until one cannot be, or the packet may have no room for another. Returns how many. */
typedef size_t ctf_put_run_fn(struct ctf_writer *writer, const struct ctf_form *form,
			      const struct event_run *run);

/* Append the first of these `n` events, which certainly have room, each in the first form of its
 * class that can express it, and with a compact header, until one cannot be. Returns how many. */
typedef size_t ctf_put_mix_fn(struct ctf_writer *writer, const struct event_mix *mix, size_t n);

/* Read an event in this form, of which `from` is what follows its header. Sets all its bytes.
 * Returns false if the packet's tables lack an id. */
typedef bool ctf_get_fn(const struct ctf_stream *stream, const struct ctf_form *form,
			const uint8_t *from, uint8_t *to);

/* Likewise a record of kmem: sets all but its time and class. Returns false also if a brief has not
 * all of it. */
typedef bool ctf_get_brief_fn(const struct ctf_stream *stream, const uint8_t *from,
			      struct kmem_brief *to);

struct ctf_form {
	const struct event_class *class;
	unsigned int id;         /* its index in the plan */
	bool is_last;            /* of the class */
	ctf_put_fn *put;         /* with a compact header; NULL: it cannot be written so */
	ctf_put_run_fn *put_run; /* NULL: there is none */
	ctf_get_fn *get;
	ctf_get_brief_fn *get_brief; /* NULL: there is none */
	bool is_record;              /* of kmem, of this class and with these ids: */
	uint8_t kmem_class;
	struct kmem_ids ids;
	unsigned int class_index, form;
	bool has_bytes;     /* a step is CTF_BYTES or CTF_FRAMES */
	size_t nr_steps;    /* without those of CTF_TEXT: */
	size_t nr_texts;    /* so many more are behind them */
	size_t size;        /* bytes on disk with a compact header, if it has no such bytes */
	size_t body_size;   /* bytes on disk behind the header, up to the texts */
	size_t table_bytes; /* that an event adds to the packet's tables, at most */
	struct ctf_step steps[CTF_MAX_STEPS];
};

struct ctf_plan {
	size_t nr_classes, nr_forms;
	size_t most_body_size;   /* of all forms */
	size_t most_class_size;  /* bytes of an event in memory */
	bool has_texts;          /* a form has */
	ctf_put_mix_fn *put_mix; /* NULL: events are written one by one */
	size_t most; /* bytes that an event without texts adds to a packet, those of the tables
		      * included, in whichever form */
	const struct ctf_form *first[CTF_MAX_CLASSES]; /* form of each class */
	struct ctf_form forms[];                       /* by event id */
};

/* The ids behind those of the forms. */
enum ctf_extra {
	CTF_TIME,   /* the time stamp of the next event is one that the clock cannot have */
	CTF_TABLES, /* what the ids in the packet stand for: its last event */
};

static inline unsigned int ctf_plan_id(const struct ctf_plan *plan, enum ctf_extra extra)
{
	return (unsigned int)plan->nr_forms + extra;
}

/* The classes must outlive the plan, which is to be freed. NULL without memory. */
struct ctf_plan *ctf_plan_create(const struct event_class *classes, size_t nr_classes);

/* The ids that fit into the fields of the plan: the greatest one. 0: there is no such field. */
unsigned int ctf_plan_max_id(const struct ctf_plan *plan, enum ctf_op op);

/* --- tables ---------------------------------------------------------------------------------- */

/*
 * The tables at the end of a packet: what the ids in it stand for. They are an event whose fields
 * are sequences, all byte-aligned: their lengths first.
 */
enum ctf_table {
	CTF_TABLE_NEAR, /* addresses of code in the last 2 GiB, where a kernel's text is */
	CTF_TABLE_CODE, /* other addresses of code */
	CTF_TABLE_FLAGS,
	CTF_TABLE_STRINGS,
	CTF_TABLE_CACHES,
	/* Frames of stacks: of each its caller's frame, which comes before it, or 0. Only in the
	 * tables of an instance that has stacks. */
	CTF_TABLE_STACKS,
	CTF_NR_TABLES,
};

/* How many there are in the packets of this plan. */
unsigned int ctf_plan_nr_tables(const struct ctf_plan *plan);

struct ctf_table_field {
	const char *name; /* NULL ends the list */
	uint8_t bytes;    /* 0: a string with its NUL */
	bool is_signed, is_hex;
};

enum { CTF_TABLE_FIELDS = 4, CTF_LENGTH_BYTES = 2, CTF_NAME_MAX = 255 /* without the NUL */ };

/* The first field is an id of 16 bits. */
struct ctf_table_layout {
	const char *name;
	struct ctf_table_field fields[CTF_TABLE_FIELDS + 1];
	size_t entry_bytes; /* at most */
};

extern const struct ctf_table_layout ctf_tables[CTF_NR_TABLES];

#endif
