/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Instances of the profile tracer on a fake guest: where they count, and what is kept of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/fake-counts.h"
#include "tests/lib/tap.h"

enum {
	RING_BYTES = 64 << 10,
	CALL = 0xe8,
	JMP = 0xe9,
	ALLOC_SLOT = FAKE_CACHE_ALLOC + 15,
};

static struct fake_session fs;
static uint8_t *ram;

static void create(void)
{
	fake_counts_create(&fs, RING_BYTES);
	memcpy(ram, fs.fg.base.ram, FAKE_RAM);
}

static int try_add(const char *spec, struct error *err)
{
	return trace_session_add_instance(fs.session, spec, err);
}

static bool add(const char *spec)
{
	return fake_session_add(&fs, spec);
}

static bool start(const char *spec)
{
	return fake_counts_start(&fs, spec);
}

static void end(void)
{
	fake_session_end_as(&fs, ram);
}

static uint8_t opcode(uint64_t at)
{
	return *fake_text(&fs.fg, at);
}

static bool is_original(uint64_t slot)
{
	enum { SLOT_SIZE = 5 };
	const uint8_t *now = fake_text(&fs.fg, slot);

	return !memcmp(now, ram + (now - fs.fg.base.ram), SLOT_SIZE);
}

static struct profile_rows read_rows(size_t i)
{
	struct trace_profile list[TRACE_MAX_PROFILES];
	struct profile_rows rows = {0};

	if (i < trace_session_profiles(fs.session, list))
		profile_read(list[i].profile, &rows, NULL);
	return rows;
}

/* As code in the guest would: calls of the function with this site, on vCPU 0. */
static void call(uint64_t site, uint64_t hits, uint64_t timed, uint64_t longest)
{
	struct call_count *count = fake_call_count(&fs, site);

	count->hits += hits;
	count->timed += timed;
	count->ticks += timed * longest;
	count->longest = longest;
}

/* Whether calls of the function with this site are timed. */
static bool is_timed(size_t i, uint64_t site)
{
	struct profile_rows rows = read_rows(i);
	bool timed = false;

	for (size_t k = 0; k < rows.n; k++)
		timed |= rows.v[k].site == fake_gva(site) && rows.v[k].returns;
	profile_rows_deinit(&rows);
	return timed;
}

static bool counted(size_t i, uint64_t site, uint64_t hits, uint64_t timed)
{
	struct profile_rows rows = read_rows(i);
	bool found = false;

	for (size_t k = 0; k < rows.n; k++)
		found |= rows.v[k].site == fake_gva(site) && rows.v[k].hits == hits &&
			 rows.v[k].timed == timed && !rows.v[k].total_ns == !timed &&
			 rows.v[k].returns == (site == FAKE_CACHE_ALLOC);
	profile_rows_deinit(&rows);
	return found;
}

static void test_counts(void)
{
	struct trace_profile list[TRACE_MAX_PROFILES];

	create();
	ok(start("profile:kfree,kmem_cache_alloc"), "two functions");
	ok(opcode(FAKE_CACHE_ALLOC) == CALL && opcode(ALLOC_SLOT) == JMP &&
		   opcode(FAKE_KFREE) == CALL,
	   "their sites are calls, and the slot of the one that has one is a jump");
	ok(counted(0, FAKE_CACHE_ALLOC, 0, 0) && counted(0, FAKE_KFREE, 0, 0),
	   "nothing is counted yet; one function has hits only");
	call(FAKE_CACHE_ALLOC, 5, 4, 1000);
	call(FAKE_KFREE, 3, 0, 0);
	ok(counted(0, FAKE_CACHE_ALLOC, 5, 4) && counted(0, FAKE_KFREE, 3, 0),
	   "what the guest counts is read");
	trace_session_profiles(fs.session, list);
	profile_clear(list[0].profile);
	ok(counted(0, FAKE_CACHE_ALLOC, 0, 0), "and cleared");
	call(FAKE_CACHE_ALLOC, 2, 1, 10);
	ok(counted(0, FAKE_CACHE_ALLOC, 2, 1), "what follows is counted from 0");
	ok(!trace_session_remove_instance(fs.session, "profile", NULL) &&
		   trace_session_profiles(fs.session, list) == 1 && list[0].ended &&
		   counted(0, FAKE_CACHE_ALLOC, 2, 1),
	   "the counts stay when the instance is gone");
	end();
}

/* kmem_cache_alloc_lru() ends with a jump to kmem_cache_alloc(). */
static void test_tails(void)
{
	create();
	ok(start("profile:kmem_cache_alloc_lru") && is_original(ALLOC_SLOT) &&
		   !is_timed(0, FAKE_TAIL),
	   "a function that ends with a tail call has hits only");
	end();
	create();
	ok(start("profile:kmem_cache_alloc_lru,kmem_cache_alloc,kfree,tails") &&
		   !is_original(ALLOC_SLOT) && is_timed(0, FAKE_TAIL) &&
		   is_timed(0, FAKE_CACHE_ALLOC),
	   "on request it is timed, too, by the slot of the one that it jumps to");
	ok(!is_timed(0, FAKE_KFREE), "one without a slot has hits only then as well");
	end();
}

static void test_stop(void)
{
	create();
	ok(start("profile:kmem_cache_alloc,hist"), "with a histogram");
	call(FAKE_CACHE_ALLOC, 5, 4, 1000);
	ok(!trace_session_stop(fs.session, NULL) && counted(0, FAKE_CACHE_ALLOC, 5, 4),
	   "the counts stay when the memory is gone");
	ok(start("profile:kmem_cache_alloc,hist"), "another start");
	call(FAKE_CACHE_ALLOC, 1, 1, 1000);
	ok(counted(0, FAKE_CACHE_ALLOC, 6, 5), "counts on");
	end();
}

/* Each takes a set of rings; with one of them left, the others share it. */
static void test_groups(void)
{
	struct error err = {0};

	create();
	ok(start("a=profile:kfree") && add("b=profile:kfree") && add("f=function:kfree"),
	   "two profiles beside a function");
	ok(add("g=function:kmem_cache_alloc") && add("h=graph:kmem_cache_alloc"),
	   "all with events share what is left");
	ok(try_add("c=profile:kfree", &err) == -ENOSPC && strstr(err.text, "no memory for counts"),
	   "a profile that finds no rings of its own is refused");
	ok(!trace_session_remove_instance(fs.session, "a", NULL) && add("c=profile:kfree"),
	   "it gets those of another one that goes");
	end();
}

/* Whatever their order, if they come together. */
static void test_last(void)
{
	const char *const specs[] = {"a=function:kfree", "b=function:kfree", "c=function:kfree",
				     "profile:kfree", NULL};

	create();
	ok(!trace_session_start(fs.session, specs, NULL) && counted(0, FAKE_KFREE, 0, 0),
	   "one behind as many others as there are sets of rings");
	end();
}

static void test_with_probes(void)
{
	create();
	ok(start("kmem:cache") && add("profile:kmem_cache_alloc,kfree"), "beside the kmem tracer");
	ok(opcode(FAKE_CACHE_ALLOC) == JMP && opcode(ALLOC_SLOT) == JMP,
	   "site and slot lead to trampolines made for both");
	call(FAKE_CACHE_ALLOC, 1, 1, 5);
	ok(counted(0, FAKE_CACHE_ALLOC, 1, 1), "it counts");
	ok(!trace_session_remove_instance(fs.session, "kmem", NULL) &&
		   opcode(FAKE_CACHE_ALLOC) == CALL && counted(0, FAKE_CACHE_ALLOC, 1, 1),
	   "it goes on without the other one");
	end();
}

int main(void)
{
	ram = malloc(FAKE_RAM);
	if (!ram)
		return 1;
	test_counts();
	test_tails();
	test_stop();
	test_groups();
	test_last();
	test_with_probes();
	free(ram);
	return tap_done();
}
