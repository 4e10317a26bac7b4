/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/ring/call-counts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	OPENS_MAX = 1 << 20, /* bytes */
	OPENS_SHARE = 4,     /* of the data */
	SPARE_SHARE = 16,    /* of the places: behind the slots */
};

static uint32_t log2_of(uint32_t value)
{
	return 31u - (uint32_t)__builtin_clz(value);
}

struct call_counts_layout call_counts_layout(uint32_t data_bytes, bool histogram, bool tails)
{
	const uint32_t ways = tails ? CALL_TAIL_WAYS : CALL_OPEN_WAYS;
	const uint32_t share = data_bytes / OPENS_SHARE;
	const uint32_t opens = share < OPENS_MAX ? share : OPENS_MAX;
	const uint32_t left = data_bytes - opens;
	struct call_counts_layout l = {
		.ways = ways,
		.opens_bits = log2_of(opens / (ways * (uint32_t)sizeof(struct call_open))),
		.counts_at = opens,
		.size = sizeof(struct call_count) +
			(histogram ? CALL_COUNT_BUCKETS * sizeof(uint64_t) : 0),
	};

	l.capacity = (left < CALL_COUNTS_MAX ? left : CALL_COUNTS_MAX) / l.size;
	l.slots = l.capacity - l.capacity / SPARE_SHARE - 1;
	return l;
}

static struct call_count *count_at(const struct call_counts *c, uint32_t cpu, uint32_t offset)
{
	return (struct call_count *)(void *)(c->data + (size_t)cpu * c->stride +
					     c->layout.counts_at + offset);
}

static void zero(const struct call_counts *c)
{
	for (uint32_t cpu = 0; cpu < c->nr_cpus; cpu++)
		memset(c->data + (size_t)cpu * c->stride, 0,
		       c->layout.counts_at + (size_t)c->layout.capacity * c->layout.size);
}

int call_counts_init(struct call_counts *c, const struct call_counts_layout *layout, void *data,
		     uint32_t stride, uint32_t nr_cpus, struct error *err)
{
	*c = (struct call_counts){
		.layout = *layout, .data = data, .stride = stride, .nr_cpus = nr_cpus};
	c->ips = calloc(layout->capacity, sizeof(*c->ips));
	if (!c->ips)
		return error_set(err, ENOMEM, "out of memory");
	zero(c);
	return 0;
}

void call_counts_deinit(struct call_counts *c)
{
	if (c->ips)
		zero(c);
	free(c->ips);
	*c = (struct call_counts){0};
}

static int no_room(const struct call_counts *c, struct error *err)
{
	const uint64_t bytes = (uint64_t)c->layout.capacity * c->layout.size;

	return error_set(err, ENOSPC,
			 "no room for the counts of more than %u functions: %u bytes each, in "
			 "%llu KiB of each vCPU; profile fewer functions, or give it larger rings",
			 c->n, c->layout.size, (unsigned long long)bytes >> 10);
}

/* The last place stays free. */
int call_counts_add(struct call_counts *c, uint32_t ip, uint32_t *offset, struct error *err)
{
	uint32_t i = call_counts_offset(&c->layout, ip) / c->layout.size;

	while (i < c->layout.capacity && c->ips[i] && c->ips[i] != ip)
		i++;
	if (i + 1 >= c->layout.capacity)
		return no_room(c, err);
	*offset = i * c->layout.size;
	if (c->ips[i])
		return 0;
	c->ips[i] = ip;
	c->n++;
	for (uint32_t cpu = 0; cpu < c->nr_cpus; cpu++)
		__atomic_store_n(&count_at(c, cpu, *offset)->hash, call_counts_hash(ip),
				 __ATOMIC_RELEASE);
	return 0;
}

static uint64_t load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static void add_buckets(const struct call_counts *c, const struct call_count *count,
			uint64_t *buckets)
{
	const uint64_t *words = (const uint64_t *)(count + 1);

	for (int i = 0; c->layout.size > sizeof(*count) && i < CALL_COUNT_BUCKETS; i++)
		buckets[i] += load(&words[i]);
}

/* Hits are read last: no call is timed before it is one. */
void call_counts_read(const struct call_counts *c, uint32_t offset, bool restart,
		      struct call_totals *out, uint64_t buckets[CALL_COUNT_BUCKETS])
{
	*out = (struct call_totals){0};
	if (buckets)
		memset(buckets, 0, CALL_COUNT_BUCKETS * sizeof(*buckets));
	for (uint32_t cpu = 0; cpu < c->nr_cpus; cpu++) {
		struct call_count *count = count_at(c, cpu, offset);
		const uint64_t longest = load(&count->longest);

		out->timed += load(&count->timed);
		out->ticks += load(&count->ticks);
		out->longest = longest > out->longest ? longest : out->longest;
		if (restart)
			__atomic_store_n(&count->longest, 0, __ATOMIC_RELAXED);
		if (buckets)
			add_buckets(c, count, buckets);
	}
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	for (uint32_t cpu = 0; cpu < c->nr_cpus; cpu++)
		out->hits += load(&count_at(c, cpu, offset)->hits);
}
