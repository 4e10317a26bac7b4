/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reports on which only sums by call site depend are made from briefs of records; those with an
 * analysis of events beside, from the records as they are. Both say the same of random histories:
 * objects in slabs and outside, blocks that are slabs, are freed in pieces, or twice; records that
 * no brief has all of; times that are equal or step back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "formats/trace/writer.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum {
	N = 6000,
	SEEDS = 12,
	VCPUS = 2,
	SLABS = 8,
	BLOCKS = 48,      /* without objects */
	BLOCK = 4 * 4096, /* bytes between them */
	SLOT = 64,
	SLOTS = SLABS * BLOCK / SLOT,
	CACHES = 4
};

static const uint64_t memory = UINT64_C(0xffff888000100000);

static unsigned int below(unsigned int *seed, unsigned int n)
{
	return (unsigned int)rand_r(seed) % n;
}

static uint64_t site(unsigned int *seed, unsigned int kind)
{
	const uint64_t base = below(seed, 400) ? UINT64_C(0xffffffff81000000) : UINT64_C(0x1000);

	return base + kind * 0x10000 + below(seed, 6) * 0x100;
}

/* Mostly, blocks are freed as a whole. */
static struct kmem_record page_record(unsigned int *seed, bool is_alloc, bool has_objects,
				      int64_t ns)
{
	const uint64_t number = below(seed, has_objects ? SLABS : BLOCKS);
	const uint64_t ptr = memory + number * BLOCK + (has_objects ? 0 : UINT64_C(1) << 30);
	const uint64_t inner = below(seed, 12) ? 0 : 4096;
	const uint64_t order = below(seed, 6) ? number % 3 : below(seed, 4);
	struct kmem_record record;

	if (is_alloc)
		return make_alloc(KMEM_TYPE_PAGES, ptr, site(seed, has_objects ? 1 : 5),
				  4096u << order, 4096u << order, ns);
	record = make_free(KMEM_TYPE_PAGES, ptr + inner, site(seed, 2), ns);
	record.bytes_req = record.bytes_alloc = 4096u << order;
	return record;
}

static struct kmem_record object_record(unsigned int *seed, bool is_alloc, int64_t ns)
{
	const uint64_t slot = below(seed, SLOTS / 4) * 4 + below(seed, 2);
	const uint64_t ptr = memory + slot * SLOT;
	const unsigned int type = slot % 2 ? KMEM_TYPE_CACHE : KMEM_TYPE_KMALLOC;
	struct kmem_record record;

	if (!is_alloc) {
		record = make_free(type, ptr, site(seed, 3), ns);
		record.cache = type == KMEM_TYPE_CACHE ? slot % CACHES : 0;
		return record;
	}
	record = make_alloc(type, ptr, site(seed, 4), SLOT - slot % 8, SLOT, ns);
	record.cache = (uint16_t)(slot % CACHES);
	if (!below(seed, 40))
		record.bytes_alloc = below(seed, 2) ? UINT64_C(1) << 33 : BLOCK;
	if (!below(seed, 30))
		record.node = below(seed, 2) ? 1 : 300;
	if (!below(seed, 30))
		record.cache = 0;
	return record;
}

static void put_history(struct trace_writer *writer, unsigned int seed)
{
	int64_t now = 1000000;

	for (unsigned int i = 0; i < N; i++) {
		const unsigned int vcpu = below(&seed, 20) ? i / 16 % VCPUS : below(&seed, VCPUS);
		const bool is_alloc = below(&seed, 2);
		const int64_t ns = now - (below(&seed, 200) ? 0 : 900000);
		const unsigned int kind = below(&seed, 64);
		const struct kmem_record record = kind < 12
							  ? page_record(&seed, is_alloc, !kind, ns)
							  : object_record(&seed, is_alloc, ns);

		if (trace_writer_append(writer, vcpu, &record))
			abort();
		now += below(&seed, 3) * 7000;
	}
}

/* Blocks that may have objects are those of the slab allocator. */
static int name_site(void *arg, uint64_t address, struct site_function *out)
{
	(void)arg;
	out->start = address & ~(uint64_t)0xffff;
	out->size = 0x10000;
	snprintf(out->name, sizeof(out->name), "%s",
		 out->start == UINT64_C(0xffffffff81010000) ? "allocate_slab" : "other");
	return 0;
}

static void make_trace(const char *dir, unsigned int seed)
{
	const struct trace_info info = {.mode = "exitless"};
	struct trace_writer *writer;

	if (trace_writer_create(dir, VCPUS, 0, &info, &writer, NULL))
		abort();
	put_history(writer, seed);
	if (trace_writer_finish(writer, &info, name_site, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

static struct verb_result report_of(const char *dir, const char *form, const char *by,
				    const char *analyses)
{
	const char *argv[] = {"report", form, "--by", by, "--analysis", analyses, dir, NULL};
	struct verb_result result = verb_run(cmd_report, argv);

	if (result.status)
		abort();
	return result;
}

/* Whether a report is the beginning of the one that has events, too. */
static bool is_same_text(const char *dir, const char *by)
{
	struct verb_result briefs = report_of(dir, "-v", by, "overview,kmem,leaks");
	struct verb_result records = report_of(dir, "-v", by, "overview,kmem,leaks,events");
	const bool same = !strncmp(briefs.out, records.out, strlen(briefs.out));

	verb_result_deinit(&briefs);
	verb_result_deinit(&records);
	return same;
}

static bool is_same_json(const char *dir)
{
	struct verb_result briefs = report_of(dir, "--json", "callsite", "overview,kmem,leaks");
	struct verb_result records =
		report_of(dir, "--json", "callsite", "overview,kmem,leaks,events");
	json_t *a = json_loads(briefs.out, 0, NULL), *b = json_loads(records.out, 0, NULL);
	bool same;

	json_object_del(b, "events");
	same = a && json_equal(a, b);
	json_decref(a);
	json_decref(b);
	verb_result_deinit(&briefs);
	verb_result_deinit(&records);
	return same;
}

int main(void)
{
	unsigned int wrong = 0;

	for (unsigned int seed = 1; seed <= SEEDS; seed++) {
		struct scratch dir = scratch_make();

		make_trace(dir.path, seed);
		wrong += !is_same_text(dir.path, "cache") || !is_same_text(dir.path, "callsite") ||
			 !is_same_json(dir.path);
		scratch_remove(&dir);
	}
	is_u64(wrong, 0, "reports on random histories say the same of briefs and of records");
	return tap_done();
}
