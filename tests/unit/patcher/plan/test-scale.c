/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The cost of a set of 100,000 patches, compared with one of 10,000: reads and writes of guest
 * memory are counted, and the CPU time that planning, applying and reverting take is printed and
 * must not grow as a quadratic step would have it (a hundredfold).
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "patcher/plan/patch-plan.h"
#include "patcher/text/site.h"
#include "patcher/trampoline/trampoline.h"
#include "tests/lib/fake-guest.h"
#include "tests/lib/tap.h"

enum {
	MANY = 100000,
	FEW = MANY / 10,
	ROUNDS = 3,
	AT = 0x30000, /* in the image, behind all that a fake kernel has there */
	FUNCTION_BYTES = 16,
	FUNCTION_SIZE = 9,
	TRAMPOLINES = 10000,
	TRAMPOLINE_BYTES = 256,
	MAX_GROWTH = 40, /* of tenfold work */
};

/* A site, mov %rdi,%rax, ret, and INT3 up to the next function. */
static const uint8_t body[FUNCTION_BYTES] = {0x0f, 0x1f, 0x44, 0x00, 0x00, 0x48, 0x89, 0xf8,
					     0xc3, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc};

static struct fake_guest fg;
static struct decoder *decoder;
static struct probe *probes;
static struct probe_ref *refs;
static uint8_t *before;

enum step { PLAN, APPLY, REVERT, GENERATE, CHANGE, STEPS };
static const char *const step_names[STEPS] = {"plan", "apply", "revert", "trampolines",
					      "a change of all sites"};

struct cost {
	double seconds[STEPS];
	uint64_t reads[STEPS], writes[STEPS];
};

static uint64_t function_at(size_t i)
{
	return AT + i * FUNCTION_BYTES;
}

/* Functions in no order of their addresses. */
static void create(void)
{
	const struct capture entry = {.point = POINT_ENTRY, .fields = CAPTURE(FIELD_KEY)};
	const struct capture leave = {.point = POINT_RETURN, .fields = CAPTURE(FIELD_KEY)};

	probes = calloc(MANY, sizeof(*probes));
	refs = calloc(MANY, sizeof(*refs));
	before = malloc(FAKE_IMAGE_SIZE);
	if (!probes || !refs || !before || fake_guest_create(&fg) || decoder_create(&decoder, NULL))
		abort();
	for (size_t i = 0; i < MANY; i++) {
		size_t at = i * 7919 % MANY;

		memcpy(fake_text(&fg, function_at(i)), body, sizeof(body));
		probes[at] = (struct probe){.name = "fn",
					    .function = FAKE_LINK_TEXT + function_at(i),
					    .size = FUNCTION_SIZE,
					    .site = FAKE_LINK_TEXT + function_at(i),
					    .wants_return = true,
					    .entry = entry,
					    .ret = leave};
		refs[at] = (struct probe_ref){.probe = &probes[at], .id = (uint32_t)at};
	}
	memcpy(before, fake_text(&fg, 0), FAKE_IMAGE_SIZE);
}

static void destroy(void)
{
	decoder_destroy(decoder);
	fake_guest_destroy(&fg);
	free(before);
	free(refs);
	free(probes);
}

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

struct meter {
	double since;
	uint64_t reads, writes;
};

static struct meter begin(void)
{
	return (struct meter){cpu_seconds(), fg.reads, fg.writes};
}

static void end(const struct meter *m, struct cost *cost, enum step step)
{
	double seconds = cpu_seconds() - m->since;

	if (!cost->seconds[step] || seconds < cost->seconds[step])
		cost->seconds[step] = seconds;
	cost->reads[step] = fg.reads - m->reads;
	cost->writes[step] = fg.writes - m->writes;
}

/* One set of `n` patches, entries and returns half each; true if all is done and undone. */
static bool measure_patches(size_t n, struct cost *cost)
{
	const struct patch_request request = {.refs = refs, .nr_refs = n};
	struct patch_outcome outcome = {0};
	struct trap_table traps;
	struct patch_plan plan;
	struct meter m;
	bool good;

	trap_table_init(&traps);
	m = begin();
	good = !patch_plan_make(&plan, &request, &fg.kernel, decoder, &traps, NULL);
	end(&m, cost, PLAN);
	good = good && plan.entries.n == n && plan.returns.n == n;
	m = begin();
	good = good && !patch_plan_apply(&plan, &fg.kernel, NULL);
	end(&m, cost, APPLY);
	m = begin();
	good = good && !patch_plan_revert(&plan, &fg.kernel, &outcome, NULL);
	end(&m, cost, REVERT);
	good = good && outcome.restored == 2 * n &&
	       !memcmp(before, fake_text(&fg, 0), FAKE_IMAGE_SIZE);
	patch_plan_deinit(&plan);
	trap_table_deinit(&traps);
	return good;
}

static bool measure_trampolines(size_t n, struct cost *cost)
{
	const uint64_t gva = FAKE_LINK_TEXT + FAKE_SLIDE + (64 << 20);
	const struct patch_request request = {.refs = refs, .nr_refs = n};
	const struct trampoline_kernel kernel = {0};
	struct trampoline_room room = {
		.gva = gva,
		.bytes = malloc(2 * n * TRAMPOLINE_BYTES),
		.size = 2 * n * TRAMPOLINE_BYTES,
		.rings = {.gva = gva - (1 << 20), .data_bytes = RING_MIN_DATA, .cpus = 1},
		.kernel = &kernel,
	};
	struct trampoline_set set = {0};
	struct trap_table traps;
	struct patch_plan plan;
	struct meter m;
	bool good;

	trap_table_init(&traps);
	good = room.bytes && !patch_plan_make(&plan, &request, &fg.kernel, decoder, &traps, NULL);
	m = begin();
	good = good && !trampoline_set_make(&set, &plan, &traps, decoder, &room, NULL);
	end(&m, cost, GENERATE);
	good = good && set.made == 2 * n;
	trampoline_set_deinit(&set);
	patch_plan_deinit(&plan);
	trap_table_deinit(&traps);
	free(room.bytes);
	return good;
}

/* All sites as calls to one place. */
static bool make_calls(struct patch_set *set, size_t n, uint8_t where)
{
	bool good = true;

	for (size_t i = 0; i < n; i++) {
		struct patch p = {.gva = fake_gva(function_at(i)),
				  .size = SITE_SIZE,
				  .new_bytes = {0xe8, where},
				  .function = "fn"};

		memcpy(p.old_bytes, body, SITE_SIZE);
		good &= !patch_set_add(set, &p, NULL);
	}
	return good && !patch_set_sort(set, NULL);
}

static bool change(const struct patch_set *from, const struct patch_set *to, struct cost *cost)
{
	struct patch_set difference = {0};
	const uint64_t stops = fg.stops;
	struct meter m = begin();
	bool good = !patch_set_difference(from, to, &difference, NULL) &&
		    !patch_set_apply(&difference, &fg.kernel, NULL);

	end(&m, cost, CHANGE);
	patch_set_deinit(&difference);
	return good && fg.stops == stops + 1;
}

/* What the direct lane does with the text: all sites on, all to other code, all off. */
static bool measure_changes(size_t n, struct cost *cost)
{
	struct patch_set none = {0}, one = {0}, other = {0};
	bool good = make_calls(&one, n, 1) && make_calls(&other, n, 2);

	good = good && change(&none, &one, cost) && change(&one, &other, cost) &&
	       change(&other, &none, cost) && !memcmp(before, fake_text(&fg, 0), FAKE_IMAGE_SIZE);
	patch_set_deinit(&one);
	patch_set_deinit(&other);
	return good;
}

static bool is_linear(uint64_t few, uint64_t many)
{
	return many <= 10 * few + 100;
}

static void compare(const struct cost *few, const struct cost *many, enum step step)
{
	const char *name = step_names[step];

	tap_diag("%s: %.1f ms, and %.1f ms for ten times as much; %lu and %lu reads, %lu and %lu "
		 "writes of guest memory",
		 name, few->seconds[step] * 1e3, many->seconds[step] * 1e3, few->reads[step],
		 many->reads[step], few->writes[step], many->writes[step]);
	ok(many->seconds[step] < MAX_GROWTH * few->seconds[step],
	   "%s: tenfold work takes no more than %d times the CPU time", name, MAX_GROWTH);
	ok(is_linear(few->reads[step], many->reads[step]) &&
		   is_linear(few->writes[step], many->writes[step]),
	   "%s: tenfold work accesses guest memory no more than ten times as often", name);
}

int main(void)
{
	struct cost few = {0}, many = {0};
	bool good = true;

	create();
	for (int i = 0; i < ROUNDS; i++)
		good &= measure_patches(FEW, &few) && measure_trampolines(TRAMPOLINES / 10, &few) &&
			measure_changes(FEW, &few);
	ok(good, "sets of %d patches each are planned, applied and reverted", FEW);
	ok(measure_patches(MANY, &many),
	   "sets of %d patches each are planned, applied and reverted", MANY);
	ok(measure_trampolines(TRAMPOLINES, &many), "%d trampolines are generated",
	   2 * TRAMPOLINES);
	ok(measure_changes(MANY, &many), "%d sites are changed in one stop, three times", MANY);
	for (enum step step = 0; step < STEPS; step++)
		compare(&few, &many, step);
	ok(many.reads[APPLY] < MANY / 10, "old bytes are verified and read back page by page");
	destroy();
	return tap_done();
}
