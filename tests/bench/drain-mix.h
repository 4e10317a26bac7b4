/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_BENCH_DRAIN_MIX_H
#define SONDE_TESTS_BENCH_DRAIN_MIX_H

#include <stdbool.h>
#include <stdint.h>
#include "tests/lib/fake-session.h"

/*
 * What a loaded guest leaves in its rings, made up: the same at each run. The shares are those of a
 * Debian 6.1 guest's workload, as `sonde report` shows them.
 *
 *   kmem      600 call sites of slab memory and 100 of pages, some far more frequent than others;
 *             13 caches of kmalloc() and 60 others. An allocation is an entry and a return, with
 *             records of other vCPUs between them. Most objects are freed soon, the latest first,
 *             a few on another vCPU. Some frees are of NULL.
 *   function  calls of 37,000 functions. They come in paths: calls that follow each other, as in
 *             a system call; some are far more frequent than others.
 *   graph     the same calls with their returns, at most 16 of them open.
 *
 * Not made up: nested calls, bulk calls, callers of wrappers of the page allocator (no ORC data is
 * read), and a symbol table of a real size.
 */
struct drain_mix;

/* What the rings got. */
struct drain_mix_counts {
	uint64_t records;
	uint64_t events; /* that must be in the trace */
};

/* Prepare the fake kernel, before tracing starts: caches in its memory, and trampolines for the
 * returns of pages. Aborts if the machine fails it. */
struct drain_mix *drain_mix_create(struct fake_session *fs);
void drain_mix_destroy(struct drain_mix *mix);

/* After the start: where to write records. False: the session has no rings. */
bool drain_mix_begin(struct drain_mix *mix, unsigned int vcpus);

/* Whether the session records on the direct lane: functions or a graph. */
bool drain_mix_is_direct(const struct drain_mix *mix);

/*
 * Write records into the rings of the first vCPUs, until one of them has no room behind `bytes`,
 * and move the guest's clock behind them. While the thread that drains does not run. Open calls
 * return in a later fill. Adds to the counts.
 */
void drain_mix_fill_kmem(struct drain_mix *mix, uint32_t bytes, struct drain_mix_counts *counts);
void drain_mix_fill_direct(struct drain_mix *mix, uint32_t bytes, struct drain_mix_counts *counts);

#endif
