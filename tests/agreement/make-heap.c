/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * make-heap DIR: a trace of allocations and frees of all types on three vCPUs, whose figures other
 * programs can work out from its text: no object lies in a traced page, and blocks of pages are
 * freed as a whole.
 */
#include <stdio.h>
#include <stdlib.h>
#include "formats/trace/writer.h"
#include "tests/lib/trace-make.h"

enum { EVENTS = 6000, VCPUS = 3, SLOTS = 400, SITES = 40, CACHES = 5, NODES = 2, PAGE = 4096 };

static const uint64_t text_base = 0xffffffff81000000, data_base = 0xffff888000000000;

static const struct trace_info info = {
	.mode = "trap", .banner = "Linux version 6.1", .page_size = PAGE};

/* One in four call sites has no name. */
static int symbolize(void *arg, uint64_t address, struct site_function *out)
{
	const uint64_t function = (address - text_base) / 64;

	(void)arg;
	if (function % 4 == 3)
		return -1;
	out->start = text_base + function * 64;
	out->size = 64;
	snprintf(out->name, sizeof(out->name), "fn_%u", (unsigned int)function);
	return 0;
}

/* An address has one type; its size differs from time to time. */
static struct kmem_record allocation(unsigned int slot, uint64_t site, unsigned int *seed,
				     int64_t ns)
{
	const unsigned int type = slot % KMEM_TYPE_COUNT;
	const uint64_t smallest = type == KMEM_TYPE_PAGES ? PAGE : 32;
	const uint64_t size = smallest << rand_r(seed) % 4;
	const uint64_t unused = type == KMEM_TYPE_PAGES ? 0 : (uint64_t)rand_r(seed) % 16;
	struct kmem_record record = make_alloc(type, data_base + (uint64_t)slot * 16 * PAGE, site,
					       size - unused, size, ns);

	record.gfp_flags = 0xcc0;
	record.node = rand_r(seed) % (NODES + 1) - 1;
	if (type == KMEM_TYPE_CACHE)
		record.cache = (uint16_t)(1 + slot % CACHES);
	return record;
}

static struct kmem_record release(const struct kmem_record *of, uint64_t site, int64_t ns)
{
	struct kmem_record record = make_free(of->type_id, of->ptr, site, ns);

	record.cache = of->cache;
	if (of->type_id == KMEM_TYPE_PAGES)
		record.bytes_req = record.bytes_alloc = of->bytes_alloc;
	return record;
}

/* Of 50 turns, one frees what is not live, or allocates what is: its event got lost. */
static struct kmem_record next_event(unsigned int *seed, int64_t ns)
{
	static struct kmem_record last[SLOTS];
	static bool is_live[SLOTS];
	const unsigned int slot = (unsigned int)rand_r(seed) % SLOTS;
	const uint64_t site = text_base + (uint64_t)(rand_r(seed) % SITES) * 64 + 8;
	bool is_free = is_live[slot];

	if (rand_r(seed) % 50 == 0 && last[slot].ptr)
		is_free = !is_free;
	is_live[slot] = !is_free;
	if (is_free)
		return release(&last[slot], site, ns);
	return last[slot] = allocation(slot, site, seed, ns);
}

static void put_events(struct trace_writer *writer)
{
	unsigned int seed = 15;

	for (int64_t i = 1; i <= EVENTS; i++) {
		const struct kmem_record record = next_event(&seed, i * 1000);

		if (trace_writer_append(writer, (unsigned int)rand_r(&seed) % VCPUS, &record))
			abort();
	}
}

int main(int argc, char **argv)
{
	struct trace_writer *writer;

	if (argc != 2)
		return 2;
	if (trace_writer_create(argv[1], VCPUS, 0, &info, &writer, NULL) ||
	    trace_writer_add_instance(writer, &kmem_instance, NULL))
		abort();
	for (unsigned int i = 1; i <= CACHES; i++) {
		char name[16];

		snprintf(name, sizeof(name), "cache-%u", i);
		trace_writer_cache_id(writer, name, i, i);
	}
	put_events(writer);
	if (trace_writer_finish(writer, &info, symbolize, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
	return 0;
}
