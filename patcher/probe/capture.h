/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_PROBE_CAPTURE_H
#define SONDE_PATCHER_PROBE_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "patcher/ring/layout.h"

/*
 * What one trampoline records, and where that lies in its records. The trampoline generator and the
 * reader of the rings both go by this description, never by each other.
 */
enum probe_point {
	POINT_ENTRY = 1, /* a function's entry */
	POINT_RETURN,    /* its return */
};

enum record_field {
	FIELD_KEY,       /* gva of the return address on the stack, minus RECORD_KEY_BIAS */
	FIELD_CALL_SITE, /* the return address */
	FIELD_RESULT,    /* RAX; returns only */
	FIELD_ARG0,      /* RDI, RSI, RDX, RCX, R8, R9; entries only */
	FIELD_ARG1,
	FIELD_ARG2,
	FIELD_ARG3,
	FIELD_ARG4,
	FIELD_ARG5,
	FIELD_SLAB_CACHE, /* gva of the kmem_cache the result belongs to, 0 = none; returns only */
	/* With ITEMS_RETURNED: 0 = the entry has kept nothing, else 1 + words skipped. */
	FIELD_SAVED,
	FIELD_OWNER, /* with ITEMS_COUNTED: the word at `owner_offset` of the structure */
	FIELD_PID,   /* of the current task: the kernel's pid, a thread's, in 32 bits */
	FIELD_COMM,  /* its name, 16 bytes */
	/* `stack_words` words from behind the return address; 0 from the end of their page on. */
	FIELD_STACK,
	FIELD_COUNT,
};

enum {
	RECORD_KEY_BIAS = 8, /* the trampoline's flags lie below the return address */
	CAPTURE_ARGUMENTS = 6,
	CAPTURE_MAX_STACK = 48,
	CAPTURE_MAX_ITEMS = 32, /* in a record */
	CAPTURE_ITEMS_PER_CALL = 65536,
	CAPTURE_COMM_SIZE = 16, /* TASK_COMM_LEN of Linux, include/linux/sched.h */
};

#define CAPTURE(field) (1u << (field))

/*
 * A call about many objects: words that lie behind the fields of its record, as many as there are
 * up to CAPTURE_MAX_ITEMS. What does not fit goes into further records, all with the same fields,
 * as if the function had been called several times; without items there is one record with none.
 * Items beyond CAPTURE_ITEMS_PER_CALL are not looked at; they count as one drop. Arguments are 0
 * (RDI) to 5.
 */
enum capture_items_from {
	ITEMS_NONE,
	ITEMS_ARRAY,   /* argument `pointer` points to words, argument `count` says how many */
	ITEMS_COUNTED, /* argument `pointer` points to a structure with a count and words in it */
	ITEMS_LISTED,  /* argument `pointer` is a struct list_head that links structures; NULL as a
			* link ends it, too */
	/* At an entry: no items yet; keep argument `pointer`, if it is not NULL, for the return. */
	ITEMS_SAVED,
	/* At a return: the words that the pointer led to; the result, 32 bits, says how many. None
	 * if that is more than CAPTURE_ITEMS_PER_CALL, which no call gets. */
	ITEMS_RETURNED,
};

struct capture_items {
	enum capture_items_from from;
	uint8_t pointer, count;
	/* Bytes: 1 or 4 with ITEMS_COUNTED; with ITEMS_ARRAY 4 for an int, else 0. */
	uint8_t count_size;
	int32_t count_offset; /* ITEMS_COUNTED: from `pointer`, which may lie inside */
	int32_t words_offset; /* ITEMS_COUNTED: of the first word */
	int32_t owner_offset; /* ITEMS_COUNTED, with FIELD_OWNER */
	int32_t link;         /* ITEMS_LISTED: of the list_head in each structure, whose address
			       * is the item */
	/* ITEMS_SAVED: of `count` words, an int, those in front that are not 0 are no work of the
	 * call; the result counts them nevertheless. */
	bool skip_filled;
	bool page_orders; /* items are struct pages: their lowest 6 bits say the order */
};

struct slab_page_facts; /* introspect/slab/slab.h */

/*
 * How the guest's memory leads from an object or a struct page to what FIELD_SLAB_CACHE and
 * page_orders ask for. A tracer provides it to the captures that ask. Any thread. 0 or -errno.
 */
struct page_lookup {
	void *arg; /* first argument of all */
	/* What trampolines are generated from. -EAGAIN: the guest has no memory map yet. */
	int (*facts)(void *arg, struct slab_page_facts *out, struct error *err);
	/* In a trap: gva of the kmem_cache of an object, or 0. */
	int (*slab_cache)(void *arg, uint64_t object, uint64_t *cache, struct error *err);
	/* In a trap: the order of the struct page at `page`. */
	int (*order)(void *arg, uint64_t page, unsigned int *order, struct error *err);
};

struct capture {
	enum probe_point point;
	uint32_t fields;     /* CAPTURE(...) of each field that is wanted */
	uint8_t stack_words; /* with FIELD_STACK: 1..CAPTURE_MAX_STACK */
	uint8_t parameters;  /* at entries: how many the function has; 0 = not known, take six */
	const struct page_lookup *pages; /* with FIELD_SLAB_CACHE or page_orders */
	struct capture_items items;
};

/* Make `to`, which is of a return, capture what `from` does as well. */
void capture_merge_return(struct capture *to, const struct capture *from);

struct record_layout {
	/* Bytes of the record without items, a multiple of RING_RECORD_ALIGN. */
	uint32_t size;
	uint16_t offset[FIELD_COUNT]; /* bytes from the record's start; 0 = not recorded */
	uint16_t items;               /* likewise: of the first item */
};

/* Where everything lies. -EINVAL if the description asks for what its kind of place cannot give. */
int record_layout(const struct capture *capture, struct record_layout *out, struct error *err);

#endif
