/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_BENCH_DRAIN_MIX_INTERNAL_H
#define SONDE_TESTS_BENCH_DRAIN_MIX_INTERNAL_H

#include "patcher/engine/ring-internal.h"
#include "tests/bench/drain-mix.h"

/* Inside of the mix: drain-mix.c makes the guest, drain-fill.c what it does. */
enum {
	KMALLOC_CACHES = 13,
	CACHES = KMALLOC_CACHES + 60,
	CACHES_GPA = FAKE_HEAP_GPA + 0x10000,
	CACHE_BYTES = 0x80, /* the struct, and its name behind it */
	CACHE_NAME = 0x40,
	SLAB_SITES = 600,
	PAGE_SITES = 100,
	SITES = SLAB_SITES + PAGE_SITES,
	LOTS = 4096,    /* from which sites and paths are drawn */
	REUSED = 64,    /* free objects of a cache that are used again */
	LIVE_MIN = 512, /* objects of a vCPU */
	LIVE_MAX = 4096,
	LIVE_SPARE = 1,         /* that a call in another one may add */
	INNER_EACH = 40,        /* of so many calls one has another one in it ... */
	INNER_DISTANCE = 0x100, /* ... so many bytes down the stack */
	TASKS = 64,
	FUNCTIONS = 37000,
	SYSCALLS = 60, /* the first of these */
	PATHS = 600,
	PATH_MAX = 48,
	DEPTH_MAX = 16, /* of calls of calls */
	TEXT_BYTES = 16 << 20,
	STEP_BITS = 10, /* of the most ns between two records, of all vCPUs together */
	SLACK_NS = 1000000,
};

/* What is called. Those of pages come last. */
enum mix_function { MIX_KMALLOC, MIX_ALLOC, MIX_PAGES, MIX_KFREE, MIX_FREE, MIX_FREE_PAGES, MIXES };

struct mix_site {
	enum mix_function function;
	unsigned int cache;
	uint64_t address, bytes, gfp;
	bool varies; /* the size */
};

struct mix_cache {
	uint64_t gva, bytes, fresh;
	uint64_t reused[REUSED];
	unsigned int nr_reused;
};

struct mix_object {
	uint64_t address; /* of pages: of the struct page */
	uint16_t site;
};

struct mix_call {
	const struct mix_site *site;
	uint64_t address, bytes, key;
	struct mix_object object;
};

struct mix_vcpu {
	uint64_t stack;
	bool open; /* a call has not returned */
	struct mix_call call;
	struct mix_object live[LIVE_MAX + LIVE_SPARE];
	unsigned int nr_live;
	const struct mix_path *path;
	unsigned int step, depth;
};

struct mix_path {
	uint16_t functions[PATH_MAX];
	unsigned int n;
};

struct drain_mix {
	struct fake_session *fs;
	struct ring_engine *x;
	unsigned int nr_vcpus;
	uint64_t random, now;
	struct mix_site sites[SITES];
	struct mix_cache caches[CACHES];
	struct mix_path paths[PATHS];
	uint32_t ips[FUNCTIONS]; /* their lower halves */
	uint16_t slab_lots[LOTS], page_lots[LOTS], path_lots[LOTS];
	uint32_t entry[MIXES], ret[MIXES]; /* places; UINT32_MAX: not traced */
	bool has_slab, has_pages;
	uint64_t next_page;
	struct mix_vcpu vcpus[FAKE_VCPUS];
};

static inline uint64_t mix_draw(struct drain_mix *m)
{
	m->random ^= m->random << 13;
	m->random ^= m->random >> 7;
	m->random ^= m->random << 17;
	return m->random;
}

static inline uint64_t mix_draw_below(struct drain_mix *m, uint64_t n)
{
	return (mix_draw(m) >> 16) % n;
}

#endif
