/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Instances that sum events up, on a fake guest: where they do, and what is kept of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/fake-counts.h"
#include "tests/lib/tap.h"

enum { RING_BYTES = 64 << 10, CALL = 0xe8, JMP = 0xe9 };

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

static struct hist *first(void)
{
	struct trace_hist list[TRACE_MAX_PROFILES];

	return trace_session_hists(fs.session, list) ? list[0].hist : NULL;
}

/* As code in the guest would, on vCPU 0. */
static void put(uint64_t key, uint64_t hits)
{
	struct hist_place *place = fake_hist_place(&fs);

	place->hits += hits;
	place->words[0] = key;
	place->state = HIST_READY;
}

static bool counted(uint64_t key, uint64_t hits)
{
	struct hist_sums sums;
	bool good = first() && !hist_read(first(), &sums, NULL);

	if (!good)
		return false;
	good = hits ? sums.n == 1 && sums.v[0].key[0] == key && sums.v[0].hits == hits : !sums.n;
	hist_sums_deinit(&sums);
	return good;
}

static void test_counts(void)
{
	struct trace_hist list[TRACE_MAX_PROFILES];
	struct trace_profile profiles[TRACE_MAX_PROFILES];

	create();
	ok(start("h=function:kfree,hist:keys=ip"), "a histogram of calls");
	ok(opcode(FAKE_KFREE) == CALL, "the function's site is a call");
	ok(counted(0, 0), "nothing is counted yet");
	put(5, 3);
	ok(counted(5, 3), "what the guest counts is read");
	ok(!hist_clear(first(), NULL) && counted(0, 0), "and cleared");
	put(5, 1);
	ok(!trace_session_remove_instance(fs.session, "h", NULL) &&
		   trace_session_hists(fs.session, list) == 1 && list[0].ended && counted(5, 1),
	   "it stays when the instance is gone");
	ok(!trace_session_profiles(fs.session, profiles), "it is no profile");
	end();
}

static void test_stop(void)
{
	create();
	ok(start("function:kfree,hist:keys=parent_ip"), "another one");
	put(7, 2);
	ok(!trace_session_stop(fs.session, NULL) && counted(7, 2),
	   "it stays when the memory is gone");
	ok(start("function:kfree,hist:keys=parent_ip"), "another start");
	put(7, 1);
	ok(counted(7, 3), "goes on");
	end();
}

static void test_with_probes(void)
{
	create();
	ok(start("kmem:cache") && !try_add("function:kmem_cache_alloc,hist:keys=ip", NULL),
	   "beside the kmem tracer");
	ok(opcode(FAKE_CACHE_ALLOC) == JMP, "the site leads to a trampoline made for both");
	put(9, 1);
	ok(counted(9, 1), "it counts");
	ok(!trace_session_remove_instance(fs.session, "kmem", NULL) &&
		   opcode(FAKE_CACHE_ALLOC) == CALL && counted(9, 1),
	   "it goes on without the other one");
	end();
}

static void test_refusals(void)
{
	struct error err = {0};

	create();
	ok(start("function:kfree"), "a function");
	ok(try_add("h=function:kfree,hist:keys=ip if comm ~ \"a*\"", &err) == -ENOTSUP &&
		   strstr(err.text, "the guest cannot decide 'comm ~ \"a*\"'"),
	   "a condition that only the host can decide is refused: %s", err.text);
	ok(try_add("h=function:kfree,hist:keys=ip:size=131072", &err) == -ENOSPC &&
		   strstr(err.text, "size=1024 fits"),
	   "so is a size that there is no room for: %s", err.text);
	ok(!try_add("h=function:kfree,hist:keys=ip", &err), "after that one that fits is taken");
	end();
}

int main(void)
{
	ram = malloc(FAKE_RAM);
	if (!ram)
		return 1;
	test_counts();
	test_stop();
	test_with_probes();
	test_refusals();
	free(ram);
	return tap_done();
}
