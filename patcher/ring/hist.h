/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_RING_HIST_H
#define SONDE_PATCHER_RING_HIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/budget.h"
#include "formats/base/error.h"
#include "formats/hist/hists.h"

/* --- the guest's memory ---------------------------------------------------------------------- */

/*
 * A histogram that code in the guest makes, in the data of a group of rings that nothing else uses;
 * the rings' headers stay as they are. Each CPU's data holds
 *
 *	head | places
 *
 * of which it alone writes. The places are a hash table, probed upwards without a wrap. A place is
 *
 *	state | hits | sums | key words
 *
 * in 64-bit words. Between two instructions an NMI can come that adds to the same table: a place is
 * claimed (HIST_CLAIMED) by a compare-exchange before its key is written, and until it is complete
 * (HIST_READY) others pass over it. So a key may have several places; the host adds them up.
 *
 * The guest can forge everything in here.
 */
struct hist_head {
	uint64_t used;    /* places */
	uint64_t dropped; /* events that found none */
	uint64_t unused[6];
};

_Static_assert(sizeof(struct hist_head) == 64, "fixed by trampolines");

struct hist_place {
	uint64_t state; /* 0: free */
	uint64_t hits;
	uint64_t words[]; /* sums, then the key's */
};

_Static_assert(sizeof(struct hist_place) == 16, "fixed by trampolines");

enum { HIST_CLAIMED = 1, HIST_READY = 2 };

enum {
	HIST_MIN_SIZE = 16,
	HIST_DEFAULT_SIZE = 2048, /* as in the kernel */
	HIST_MAX_SIZE = 1 << 17,
};

/* The high 32 bits of a 64-bit product are as well mixed as those of the multiplications. */
#define HIST_MIX INT32_C(0x4f1bbcdd)

struct hist_layout {
	uint32_t limit; /* places that are used at most */
	uint32_t bits;  /* of the hash: as many places as begin a search, 2 * limit or more */
	uint32_t places;
	uint32_t size; /* of a place */
	uint32_t nr_values, key_words;
};

/*
 * The layout for `limit` keys in so many bytes of each CPU; limit: a power of two, HIST_MIN_SIZE up
 * to HIST_MAX_SIZE. False if they do not fit.
 */
static inline bool hist_layout_make(uint32_t data_bytes, uint32_t limit, uint32_t nr_values,
				    uint32_t key_words, struct hist_layout *out)
{
	const uint32_t spare = 64;
	uint64_t bytes;

	*out = (struct hist_layout){.limit = limit,
				    .bits = 32u - (uint32_t)__builtin_clz(limit),
				    .size = (uint32_t)sizeof(struct hist_place) +
					    8 * (nr_values + key_words),
				    .nr_values = nr_values,
				    .key_words = key_words};
	out->places = (UINT32_C(1) << out->bits) + spare;
	bytes = sizeof(struct hist_head) + (uint64_t)out->places * out->size;
	return bytes <= data_bytes;
}

/* The place where the search for a key begins. */
static inline uint32_t hist_begin(const struct hist_layout *l, const uint64_t *key)
{
	uint64_t hash = 0;

	for (uint32_t i = 0; i < l->key_words; i++)
		hash = (hash + key[i]) * (uint64_t)(int64_t)HIST_MIX;
	hash *= (uint64_t)(int64_t)HIST_MIX;
	return (uint32_t)(hash >> (64 - l->bits));
}

/* --- what is in it, and was ------------------------------------------------------------------ */

/*
 * What code in the guest has summed up by keys, over all times that it did: the sums of earlier
 * times are kept when the memory goes. Any thread may read it at any time.
 */
struct hist;

enum {
	HIST_KEY_WORDS = 3,  /* most of a key ... */
	HIST_ROW_WORDS = 64, /* ... but a call chain has HIST_FRAMES; of hits, sums and keys */
	HIST_HITS = UINT8_MAX,
};

/* What it is of; keys and values by their names. */
struct hist_config {
	struct hist_column keys[HIST_COLUMNS];
	uint8_t words[HIST_COLUMNS]; /* that each key takes */
	/* Of each key: what is to be added to its number; its bits in the word of faults. */
	int64_t bias[HIST_COLUMNS];
	uint32_t faults[HIST_COLUMNS];
	size_t nr_keys;
	/* How sums are shown: each column is of the sum of this number, or HIST_HITS. */
	struct hist_column values[HIST_COLUMNS];
	uint8_t sum_of[HIST_COLUMNS];
	size_t nr_values;
	size_t nr_sums;  /* of the guest's: HIST_COLUMNS or fewer */
	bool nohitcount; /* the number of events is no column of its own */
	bool has_faults; /* the last word of a key is that of faults */
	uint32_t size;   /* keys, a power of two; 0: HIST_DEFAULT_SIZE, or what there is room for */
	struct hist_order order;
};

/* With one user. `budget`: of the guest, for sums of memory that is gone; or NULL; outlives it.
 * -ENOMEM. */
int hist_create(const struct hist_config *config, struct budget *budget, struct hist **out,
		struct error *err);
/* One more user, which is returned; one less: the last one frees it, when nothing is summed up any
 * more. NULL-safe. */
struct hist *hist_get(struct hist *hist);
void hist_put(struct hist *hist);
/* Whether there are several users. */
bool hist_is_shared(const struct hist *hist);
const struct hist_config *hist_config_of(const struct hist *hist);

/* --- where it is made now: by an engine ------------------------------------------------------ */

struct hist_memory {
	void *data;          /* CPU 0's */
	uint32_t data_bytes; /* of each CPU */
	uint32_t stride, nr_cpus;
};

/* Sum up there from now on, if it is done nowhere. Zeroes the memory. -ENOSPC: no room, with the
 * size that there is room for. */
int hist_attach(struct hist *hist, const struct hist_memory *memory, struct error *err);
/* Code that sums up is gone: keep the sums, and zero the memory. */
void hist_detach(struct hist *hist);
/* For code that sums up. Attached. */
struct hist_layout hist_layout_of(const struct hist *hist);

/* --- where the host makes it ------------------------------------------------------------------ */

/* Instead, from the beginning on: in a table like a guest's, of the budget. Nothing attaches it
 * then. -ENOMEM. */
int hist_keep_on_host(struct hist *hist, struct error *err);
/* Add an event: all words of its key, and what each sum grows by. Thread-safe. */
void hist_add(struct hist *hist, const uint64_t *key, const uint64_t *values);
/* Counts events that were lost on the way to hist_add(); they are dropped ones. */
_Atomic uint64_t *hist_lost(struct hist *hist);

/* --- results --------------------------------------------------------------------------------- */

struct hist_sum {
	const uint64_t *key;  /* its words */
	const uint64_t *sums; /* of the values */
	uint64_t hits;
};

struct hist_sums {
	struct hist_sum *v; /* one for each key, by the words of their keys */
	size_t n;
	uint64_t dropped;
	uint32_t size;   /* keys that there is room for; 0: not known yet */
	uint64_t *words; /* that they point to */
};

/* Since the histogram began, or was cleared. -ENOMEM. */
int hist_read(struct hist *hist, struct hist_sums *out, struct error *err);
/* Also of one that is zeroed. */
void hist_sums_deinit(struct hist_sums *sums);
/* Begin from 0 again; the keys stay in the guest's memory, and take their room there. -ENOMEM. */
int hist_clear(struct hist *hist, struct error *err);

#endif
