/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_PROBE_PROBE_H
#define SONDE_PATCHER_PROBE_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/event/task.h"
#include "introspect/guest/clock.h"
#include "introspect/kernel/kernel.h"
#include "patcher/ring/layout.h"
#include "patcher/ring/stacks.h"

/*
 * What a tracer wants to know of a function's calls (struct probe, struct capture), and what is
 * known of one (struct probe_hit). Traps, the generator of trampolines and the reader of their
 * records all go by the capture, so that a hit from a trap looks like a hit from a trampoline.
 */
enum probe_point {
	POINT_ENTRY = 1, /* a function's entry */
	POINT_RETURN,    /* its return */
	POINT_INSIDE,    /* an instruction in the middle of it; on the direct lane only */
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
	FIELD_SLAB_CACHE, /* gva of the kmem_cache of the result, 0 = none; returns only */
	FIELD_SAVED,      /* with ITEMS_RETURNED: 0 = no array was saved, else 1 + words skipped, or
			   * 1 + SAVED_ALL_OR_NONE + `count` */
	FIELD_OWNER,      /* with ITEMS_COUNTED: the word at `owner_offset` of the structure */
	FIELD_PID,        /* of the current task: the kernel's pid, a thread's, in 32 bits */
	FIELD_COMM,       /* its name, 16 bytes */
	FIELD_TGID,       /* its process, in 32 bits */
	FIELD_CGROUP,     /* the id of its cgroup; 0: none */
	FIELD_STACK,      /* `stack_words` words from behind the return address; 0 from the end of
			   * their page on */
	FIELD_CHAIN,      /* what a call chain is made of: a struct direct_stack of `chain_words`
			   * words */
	FIELD_COUNT,
};

enum {
	RECORD_KEY_BIAS = RING_KEY_BIAS, /* the trampoline's flags lie below the return address */
	CAPTURE_ARGUMENTS = 6,
	CAPTURE_MAX_STACK = 40,
	CAPTURE_MAX_ITEMS = 32, /* in a record */
	CAPTURE_ITEMS_PER_CALL = 65536,
	CAPTURE_COMM_SIZE = 16, /* TASK_COMM_LEN of Linux, include/linux/sched.h */
};

#define CAPTURE(field) (1u << (field))

/* In what is saved of an array: the rest is the number of its words, all of which are the call's
 * work if the low byte of its result is not 0. */
#define SAVED_ALL_OR_NONE (UINT64_C(1) << 32)

/*
 * A call about many objects has items: words that lie behind the fields of its record, up to
 * CAPTURE_MAX_ITEMS. More items go into further records with the same fields, as if the function
 * had been called several times; a call without items has one record. Items beyond
 * CAPTURE_ITEMS_PER_CALL are not read; they count as one lost event. Arguments are 0 (RDI) to 5.
 */
enum capture_items_from {
	ITEMS_NONE,
	ITEMS_ARRAY,    /* argument `pointer` points to words, argument `count` is their number */
	ITEMS_COUNTED,  /* argument `pointer` points to a structure with a count and words in it */
	ITEMS_LISTED,   /* argument `pointer` is a struct list_head that links structures; a NULL
			 * link ends the list, too */
	ITEMS_LAST,     /* argument `pointer` is a structure, and an item itself if the 32 bits at
			 * `count_offset` are 1: the call drops its last reference */
	ITEMS_SAVED,    /* at an entry: save argument `pointer`, if it is not NULL, for the return.
			 * With skip_filled, its words behind the first 0 that are not 0 are items:
			 * they are not the call's work either. Otherwise no items */
	ITEMS_RETURNED, /* at a return: the words that the saved pointer leads to; the result, 32
			 * bits, is their number. No items if that is more than
			 * CAPTURE_ITEMS_PER_CALL, which no call gets */
};

struct capture_items {
	enum capture_items_from from;
	uint8_t pointer, count;
	uint8_t count_size;   /* bytes: 1 or 4 with ITEMS_COUNTED; with ITEMS_ARRAY 4 for an int,
			       * else 0 */
	int32_t count_offset; /* ITEMS_COUNTED, ITEMS_LAST: from `pointer`, which may lie inside */
	int32_t words_offset; /* ITEMS_COUNTED: of the first word */
	int32_t owner_offset; /* ITEMS_COUNTED, with FIELD_OWNER */
	int32_t link;         /* ITEMS_LISTED: of the list_head in each structure, whose address
			       * is the item */
	bool skip_filled;     /* ITEMS_SAVED: of `count` words, an int, those in front that are not
			       * 0 are not the call's work, but its result counts them */
	bool all_or_none; /* ITEMS_SAVED: the result is a bool, true for `count` words, an int */
	bool page_orders; /* items are struct pages with their orders: page_item() */
};

/*
 * The address of a struct page and its order. Struct pages may have any size, so that the lowest bits of an address may
 * all be needed; its highest 7 bits are equal.
 */
enum { PAGE_ITEM_ORDER_BITS = 6, PAGE_ITEM_ORDER_MASK = (1 << PAGE_ITEM_ORDER_BITS) - 1 };

static inline uint64_t page_item(uint64_t page, unsigned int order)
{
	return page << PAGE_ITEM_ORDER_BITS | (order & PAGE_ITEM_ORDER_MASK);
}

static inline uint64_t page_item_page(uint64_t item)
{
	return (uint64_t)((int64_t)item >> PAGE_ITEM_ORDER_BITS);
}

static inline unsigned int page_item_order(uint64_t item)
{
	return item & PAGE_ITEM_ORDER_MASK;
}

/* Those of the current task. */
enum {
	CAPTURE_TASK = CAPTURE(FIELD_PID) | CAPTURE(FIELD_COMM) | CAPTURE(FIELD_TGID) |
		       CAPTURE(FIELD_CGROUP),
};

struct slab_page_facts; /* introspect/slab/slab.h */
struct task_places;     /* introspect/tasks/task-reader.h */

/*
 * How guest memory leads from an object or a struct page to what FIELD_SLAB_CACHE and page_orders
 * ask for. A tracer provides it to the captures that ask. Any thread. 0 or -errno.
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

/* What to record at a point. */
struct capture {
	enum probe_point point;
	uint32_t fields;      /* CAPTURE(...) of each field that is wanted */
	uint8_t stack_words;  /* with FIELD_STACK: 1..CAPTURE_MAX_STACK */
	uint16_t chain_words; /* with FIELD_CHAIN: 1..STACK_MAX_WORDS */
	uint8_t parameters;   /* at entries: how many the function has; 0 = unknown, take six */
	const struct page_lookup *pages; /* with FIELD_SLAB_CACHE or page_orders */
	/* With fields of CAPTURE_TASK or FIELD_CHAIN: where they are; lives as long as the tracer.
	 */
	const struct task_places *task;
	struct capture_items items;
};

struct tracer; /* patcher/tracers/tracer.h */

/* One function of one tracer. */
struct probe {
	const char *name;  /* the function's, for messages; lives as long as the tracer */
	uint64_t function; /* link-time address */
	uint64_t size;     /* bytes of the function */
	uint64_t site;     /* link-time address of the mcount site */
	bool wants_return;
	/* Neither capture has a stack or items, so that its hits are a struct probe_record each. */
	bool simple;
	/* Its records, which have no items, go to the tracer in runs: those of its entries if it
	 * does not want returns, else those of calls that have returned at once. */
	bool in_runs;
	struct capture entry, ret;
	const void *data; /* the tracer's own */
	const void *plan; /* likewise, of probes that are `in_runs` */
	const void *family; /* likewise: tells these plans from all others */
};

/*
 * What the probes of a session's ordered lane capture from some change on: probes[i] is that with
 * the id i, and differs from it in `entry`, `ret` and what is below `in_runs` only. No other view
 * has its number.
 */
enum { PROBE_VIEWS = 1 << EVENT_TASK_FIELDS };
struct probe_view {
	unsigned int number; /* less than PROBE_VIEWS */
	const struct probe *const *probes;
};

/* A function whose calls a tracer cannot see, and why; all lives as long as the tracer. */
struct probe_gap {
	const char *function;
	uint64_t address; /* link-time address, 0 = none */
	const char *reason;
};

/* A probe and its tracer. `id` is its index in the session's list of all probes. */
struct probe_ref {
	struct tracer *tracer;
	const struct probe *probe;
	uint32_t id;
	/* No instance wants its hits: they are passed over. One thread at a time sets it. */
	_Atomic bool off;
	/* It is about to be off: returns of its open calls may pass unseen. Another thread sets it.
	 */
	_Atomic bool leaving;
};

/* A struct direct_stack of so many words, which may be the guest's memory. NULL: there is none. */
struct probe_chain {
	const uint64_t *at;
	size_t words;
	/* gva of the instruction that was next; 0: that of a function's beginning, or of its
	 * return, and the first word is the return address */
	uint64_t ip;
};

/*
 * One event at a probe: a call of its function was entered, or returned. It holds what the capture
 * asks for; all else is 0. The guest may be far ahead when a tracer handles it: a tracer must not
 * read from the guest what is not in here.
 */
struct probe_hit {
	unsigned int vcpu;
	uint64_t time_ns;
	/* Hits with the same number were all in the past when the first of them was emitted: what
	 * was read from the guest for one serves all. 0: a number of its own. */
	uint64_t batch;
	uint32_t fields;                  /* CAPTURE(...) of each that was captured */
	uint64_t key;                     /* gva of the return address on the stack */
	uint64_t call_site;               /* the return address; at entries */
	uint64_t args[CAPTURE_ARGUMENTS]; /* at entries */
	uint64_t result;                  /* at returns */
	uint64_t slab_cache;              /* gva of the kmem_cache of the result, or 0 */
	uint64_t saved, owner;            /* FIELD_SAVED, FIELD_OWNER */
	uint64_t pid, tgid, cgroup, comm[CAPTURE_COMM_SIZE / 8]; /* of the task; at entries */

	const uint64_t *stack; /* words from behind the return address */
	size_t nr_stack;
	struct probe_chain chain;
	/* Objects of a bulk operation. A call about many of them is several hits, which differ only
	 * in these two. */
	const uint64_t *items;
	size_t nr_items;
};

/* What the records of a vCPU have in common, in a pass over its ring. */
struct probe_cpu {
	unsigned int vcpu;
	uint64_t batch; /* as in struct probe_hit */
	struct tsc_quick_clock clock;
};

/*
 * A hit of a simple probe: what is frequent goes to its tracer without being copied. Its words may
 * be the guest's memory, which may change meanwhile.
 */
struct probe_record {
	const struct probe_cpu *cpu;
	uint64_t tsc;
	const uint64_t *words;
	const uint8_t *index; /* by field: which word it is; only of those that were captured */
	uint32_t fields;      /* CAPTURE(...) of these */
};

/*
 * Takes such a record to its tracer; `ref` is NULL at returns. False: it is to be emitted as a hit.
 * Which function that is, is known of a place before there are records.
 */
typedef bool probe_take_fn(void *arg, const struct probe_ref *ref,
			   const struct probe_record *record);

/* A place that writes records. */
struct probe_writer {
	const struct probe_ref *ref; /* NULL: it writes returns */
	const void *plan, *family;   /* the probe's */
	const uint8_t *index;        /* as in struct probe_record */
};

/* Records of a vCPU that follow each other: an array. */
struct ring_taken; /* patcher/ring/ring.h */
struct probe_run {
	const struct ring_taken *taken;
	size_t n;
	const struct probe_writer *writers; /* by id of a record */
	const struct probe_cpu *cpu;
};

/* Read once, and believed. */
static inline uint64_t probe_record_word(const struct probe_record *record, enum record_field field)
{
	return __atomic_load_n(&record->words[record->index[field]], __ATOMIC_RELAXED);
}

static inline uint64_t probe_record_ns(const struct probe_record *record)
{
	return tsc_quick_ns(&record->cpu->clock, record->tsc);
}

/* The task of a record: what it has of one. All else is 0. */
struct event_task probe_record_task(const struct probe_record *record);

/* By field of one word, and of COMM the first: which word of a hit it is, from `key` on. */
extern const uint8_t probe_hit_index[FIELD_COUNT];

/* Empty without FIELD_CHAIN. A record is that of a simple probe's place: what capture_fit_chain()
 * says. */
struct probe_chain probe_record_chain(const struct probe_record *record);

/* Lives as long as the hit and `cpu`, which is filled in. */
struct probe_record probe_record_of(const struct probe_hit *hit, struct probe_cpu *cpu);

/* How many items a call has whose return is `hit`; 0 without a saved array. */
static inline uint64_t probe_hit_all_items(const struct probe_hit *hit)
{
	uint64_t saved = hit->saved - 1;
	uint32_t result = (uint32_t)hit->result;

	if (!hit->saved)
		return 0;
	if (saved & SAVED_ALL_OR_NONE)
		return (uint8_t)result ? (uint32_t)saved : 0;
	return result > saved ? result - saved : 0;
}

/* --- captures (capture.c) -------------------------------------------------------------------- */

/* With FIELD_CHAIN: give it as many words as a record has room for. */
void capture_fit_chain(struct capture *capture);

/* Make `to`, which is of a return, capture what `from` does as well. */
void capture_merge_return(struct capture *to, const struct capture *from);

struct record_layout {
	uint32_t size;                /* bytes without items, a multiple of RING_RECORD_ALIGN */
	uint16_t offset[FIELD_COUNT]; /* bytes from the record's start; 0 = not recorded */
	uint16_t items;               /* likewise: of the first item */
};

/* Where each field lies. -EINVAL if the capture asks for what its point does not have. */
int record_layout(const struct capture *capture, struct record_layout *out, struct error *err);

/* --- items of a vCPU in a trap (object-iter.c) ----------------------------------------------- */

/* Zeroed, there are none. */
struct object_iter {
	enum capture_items_from from; /* ITEMS_NONE, ITEMS_ARRAY, ITEMS_LISTED, ITEMS_LAST */
	uint64_t at;                  /* gva of the first word, of the struct list_head, or item */
	uint64_t count;               /* of words; of a list at most so many */
	int32_t link;                 /* offset of the list_head in each */
	bool page_orders;             /* as in struct capture_items */
	bool skip_zero;               /* words that are 0 are no items */
	uint64_t node;                /* of a list: the current node, 0 = not begun */
};

/* The items of a call with these arguments. -EFAULT if a structure that counts, or the front of an
 * array that is skipped, cannot be read. */
int object_iter_init(struct object_iter *iter, const struct kernel *kernel,
		     const struct capture_items *items, const uint64_t *args, struct error *err);

/*
 * The next items: up to `max`, *n of them; 0 at the end. `pages` is for page orders. -EFAULT if the
 * guest's pointers lead nowhere, or a page's order cannot be read; `to` has what could be read.
 */
int object_iter_read(struct object_iter *iter, const struct kernel *kernel,
		     const struct page_lookup *pages, uint64_t *to, size_t max, size_t *n,
		     struct error *err);

/* How many of `count` words at the front are not 0. */
uint64_t object_iter_filled(const struct kernel *kernel, uint64_t at, uint64_t count);

/* --- events ----------------------------------------------------------------------------------- */

/* Where events go: the writer's functions (formats/trace/writer.h), or a test's. */
struct event_sink;
struct event_batch;
struct event_run;
struct event_mix;

struct event_output {
	/* `bytes` is an event of the instance's class number `class`. */
	int (*put)(struct event_batch *batch, struct event_sink *sink, unsigned int class,
		   int64_t ns, const void *bytes);
	/* Both: each of these, as put() does. */
	void (*put_run)(struct event_batch *batch, struct event_sink *sink, unsigned int class,
			const struct event_run *run);
	void (*put_mix)(struct event_batch *batch, struct event_sink *sink,
			const struct event_mix *mix);
	void (*end)(struct event_batch *batch);
};

#endif
