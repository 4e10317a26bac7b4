/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which functions emit events about allocations, and whether entry points cover them, in a kernel
 * made by hand whose functions call each other in every way.
 */
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/kmem/allocators.h"
#include "tests/lib/fake-btf.h"
#include "tests/lib/tap.h"

#define TEXT 0xffffffff81000000
enum {
	FUNCTION = 0x100,
	DATA = 0x4000,
	TABLE = DATA,               /* the jump table */
	TRACEPOINTS = DATA + 0x800, /* 0x60 bytes each */
	POINTERS = DATA + 0xc00,
	SITES = DATA + 0xe00, /* __start_mcount_loc to __stop_mcount_loc */
	SIZE = DATA + 0x1000,
	MAX_FUNCTIONS = 32,
};

static const char *const events[] = {"kmalloc", "kfree", "kmem_cache_alloc", "mm_page_free"};

struct fake {
	struct kernel_image image;
	struct alloc_points points;
	uint8_t bytes[SIZE];
	uint64_t sites[MAX_FUNCTIONS];
	size_t nr_entries, nr_pointers;
	uint64_t slide;
};

static const char *const prototypes[] = {
	"void *__kmalloc(size_t size, gfp_t flags)",
	"void *kmalloc_new(gfp_t flags, int node, size_t size)",
	"void *kmalloc_odd(gfp_t flags)",
	"void free_unref_page(struct page *page, unsigned int order)",
	"void free_ok(struct page *page, unsigned int order)",
	"void __free_frozen_pages(struct page *page, unsigned int order)",
	NULL,
};

static void add_symbol(char *map, uint64_t address, char type, const char *name)
{
	sprintf(map + strlen(map), "%llx %c %s\n", (unsigned long long)address, type, name);
}

/* With the named functions of 256 bytes each, which do nothing yet, and those exported. */
static void fake_init(struct fake *fake, const char *functions, const char *exported)
{
	char map[8192] = "", word[64];
	size_t n = 0;

	memset(fake, 0, sizeof(*fake));
	memset(fake->bytes, 0xcc, DATA);
	add_symbol(map, TEXT, 'T', "_text");
	for (int used; sscanf(functions, " %63s%n", word, &used) == 1; functions += used, n++) {
		fake->sites[n] = TEXT + (n + 1) * FUNCTION;
		add_symbol(map, fake->sites[n], 't', word);
	}
	add_symbol(map, TEXT + (n + 1) * FUNCTION, 't', "text_end");
	add_symbol(map, TEXT + TABLE, 'D', "__start___jump_table");
	add_symbol(map, TEXT + TRACEPOINTS, 'D', "__stop___jump_table");
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		snprintf(word, sizeof(word), "__tracepoint_%s", events[i]);
		add_symbol(map, TEXT + TRACEPOINTS + i * 0x60, 'D', word);
	}
	add_symbol(map, TEXT + POINTERS, 'D', "pointers");
	add_symbol(map, TEXT + SITES, 'D', "__start_mcount_loc");
	add_symbol(map, TEXT + SITES + 0x100, 'D', "__stop_mcount_loc");
	if (*exported) {
		snprintf(word, sizeof(word), "__ksymtab_%s", exported);
		add_symbol(map, TEXT + SITES + 0x100, 'r', word);
	}
	if (symbols_from_system_map(map, strlen(map), &fake->image.symbols, NULL))
		abort();
	fake->image.btf = fake_btf_of(prototypes);
	fake->image.text = TEXT;
	fake->image.etext = TEXT + DATA;
	fake->image.init_bytes = fake->bytes;
	fake->image.init_size = SIZE;
	fake->image.mcount_sites = fake->sites;
	fake->image.nr_mcount_sites = n;
}

static void fake_deinit(struct fake *fake)
{
	alloc_points_free(&fake->points);
	btf_destroy(fake->image.btf);
	symbols_destroy(fake->image.symbols);
}

static uint64_t address_of(const struct fake *fake, const char *function)
{
	return symbols_address(fake->image.symbols, function);
}

static void put(struct fake *fake, uint64_t address, const void *bytes, size_t size)
{
	memcpy(fake->bytes + (address - TEXT), bytes, size);
}

/* An instruction whose last four bytes are the distance to a function. */
static void refer(struct fake *fake, const char *from, unsigned int at, const char *opcode,
		  const char *to, unsigned int into)
{
	uint64_t place = address_of(fake, from) + at;
	size_t n = strlen(opcode);
	int32_t distance = (int32_t)(address_of(fake, to) + into - (place + n + 4));

	put(fake, place, opcode, n);
	put(fake, place + n, &distance, sizeof(distance));
}

static void put_call(struct fake *fake, const char *from, const char *to)
{
	refer(fake, from, 0x20, "\xe8", to, 0);
}

static void put_pointer(struct fake *fake, uint64_t at, const char *to)
{
	uint64_t value = address_of(fake, to) + fake->slide;

	put(fake, at, &value, sizeof(value));
}

/* Let a function have a static branch on events[event]. */
static void emit(struct fake *fake, const char *function, unsigned int event)
{
	uint64_t at = TEXT + TABLE + 16 * fake->nr_entries++;
	int32_t code = (int32_t)(address_of(fake, function) + 0x80 - at);
	uint64_t key = TEXT + TRACEPOINTS + event * 0x60 + 8 - (at + 8);

	key |= 1;
	put(fake, at, &code, sizeof(code));
	put(fake, at + 8, &key, sizeof(key));
}

static void prove(struct fake *fake)
{
	alloc_points_free(&fake->points);
	if (alloc_points_resolve(&fake->image, &fake->points, NULL) ||
	    alloc_points_prove(&fake->image, &fake->points, NULL))
		abort();
}

static const struct alloc_emitter *emitter(const struct fake *fake, const char *function)
{
	for (size_t i = 0; i < fake->points.nr_emitters; i++)
		if (!strcmp(fake->points.emitters[i].function, function))
			return &fake->points.emitters[i];
	return NULL;
}

static void is_cover(const struct fake *fake, const char *function, enum alloc_cover cover,
		     const char *reason, const char *label)
{
	const struct alloc_emitter *e = emitter(fake, function);

	if (!ok(e && e->cover == cover && !strcmp(e->reason, reason), "%s", label))
		tap_diag("%d, \"%s\"", e ? (int)e->cover : -1, e ? e->reason : "no emitter");
}

#define FUNCTIONS "free_unref_page inner other __kmalloc kmalloc_new middle"
enum { KMALLOC, KFREE, CACHE_ALLOC, PAGE_FREE };

static void test_nested(void)
{
	static struct fake f;

	fake_init(&f, FUNCTIONS, "");
	emit(&f, "free_unref_page", PAGE_FREE);
	emit(&f, "inner", PAGE_FREE);
	prove(&f);
	is_u64(f.points.nr_emitters, 2, "each function with a static branch on an event is found");
	is_cover(&f, "free_unref_page", ALLOC_COVER_PROBE, "", "an entry point covers itself");
	is_cover(&f, "inner", ALLOC_COVER_UNUSED, "", "a function that nothing calls is unused");
	put_call(&f, "free_unref_page", "inner");
	prove(&f);
	is_cover(&f, "inner", ALLOC_COVER_NESTED, "",
		 "a function that only entry points call is nested");
	put_call(&f, "inner", "inner");
	prove(&f);
	is_cover(&f, "inner", ALLOC_COVER_NESTED, "", "a function may call itself");
	put_call(&f, "free_unref_page", "middle");
	put_call(&f, "middle", "inner");
	prove(&f);
	is_cover(&f, "inner", ALLOC_COVER_NESTED, "",
		 "a function is nested that others call which only entry points call");
	put_call(&f, "other", "middle");
	prove(&f);
	is_cover(&f, "inner", ALLOC_COVER_NONE, "called by middle, which is not traced",
		 "a caller that others call, too, proves nothing");
	fake_deinit(&f);
}

/* One more way to call or to take the address of a function that would be nested otherwise. */
static void test_way(const char *opcode, unsigned int into, const char *reason, const char *label)
{
	static struct fake f;

	fake_init(&f, FUNCTIONS, "");
	emit(&f, "inner", PAGE_FREE);
	put_call(&f, "free_unref_page", "inner");
	refer(&f, "other", 0x30, opcode, "inner", into);
	prove(&f);
	is_cover(&f, "inner", *reason ? ALLOC_COVER_NONE : ALLOC_COVER_NESTED, reason, label);
	fake_deinit(&f);
}

static void test_ways(void)
{
	static const char other[] = "called by other, which is not traced";
	static const char taken[] = "its address is taken";

	test_way("\xe8", 0, other, "a call is found");
	test_way("\xe9", 0, other, "a tail jump is found");
	test_way("\x0f\x84", 0, other, "a conditional tail jump is found");
	test_way("\xe8", 4, other, "a call behind endbr64 is found");
	test_way("\xe8", (unsigned int)-10, other, "a call of the code in front of it is found");
	test_way("\xe9", (unsigned int)-10, "", "a jump there leads to another function's end");
	test_way("\xe8", 8, "", "a branch into the middle is no call");
	test_way("\x48\x8d\x3d", 0, taken, "lea takes an address");
	test_way("\x4c\x8d\x05", 0, taken, "lea to a high register takes an address");
	test_way("\x48\x8b\x3d", 0, "", "a load from the text takes no address");
}

/* In a running kernel something may call what nothing seems to call. */
static void test_running(void)
{
	static struct fake f;

	fake_init(&f, FUNCTIONS, "");
	f.image.in_memory = true;
	emit(&f, "inner", PAGE_FREE);
	prove(&f);
	is_cover(&f, "inner", ALLOC_COVER_NONE,
		 "nothing is seen to call it, which proves nothing of a running kernel",
		 "of a kernel read from memory, a function that nothing calls is not covered");
	put_call(&f, "free_unref_page", "inner");
	prove(&f);
	is_cover(&f, "inner", ALLOC_COVER_NESTED, "", "one that only entry points call is nested");
	fake_deinit(&f);
}

static void test_pointers(uint64_t slide)
{
	static struct fake f;
	uint32_t low;

	fake_init(&f, FUNCTIONS, "");
	f.image.bytes_slide = f.slide = slide;
	emit(&f, "inner", PAGE_FREE);
	put_call(&f, "free_unref_page", "inner");
	put_pointer(&f, TEXT + SITES + 8, "inner");
	put_pointer(&f, TEXT + POINTERS + 4, "inner");
	prove(&f);
	is_cover(&f, "inner", ALLOC_COVER_NESTED, "",
		 "the list of sites takes no address, nor does what is not aligned");
	put_pointer(&f, TEXT + POINTERS + 8, "inner");
	prove(&f);
	is_cover(&f, "inner", ALLOC_COVER_NONE, "its address is taken",
		 "a pointer in the data takes an address");
	memset(f.bytes + POINTERS, 0, 0x20);
	low = (uint32_t)(address_of(&f, "inner") + slide);
	put(&f, address_of(&f, "other") + 0x13, &low, sizeof(low));
	prove(&f);
	is_cover(&f, "inner", ALLOC_COVER_NONE, "its address is taken",
		 "an immediate operand takes an address");
	fake_deinit(&f);
}

static void test_short_jump(const char *functions, const char *jump, const char *reason,
			    const char *label)
{
	static struct fake f;

	fake_init(&f, functions, "");
	emit(&f, "inner", PAGE_FREE);
	put_call(&f, "free_unref_page", "inner");
	put(&f, address_of(&f, "inner") - 10, jump, 2);
	prove(&f);
	is_cover(&f, "inner", *reason ? ALLOC_COVER_NONE : ALLOC_COVER_NESTED, reason, label);
	fake_deinit(&f);
}

static void test_short_jumps(void)
{
	static const char other[] = "called by other, which is not traced";

	test_short_jump("free_unref_page inner other", "\xeb\x08", "",
			"a short jump from an entry point is a call by it");
	test_short_jump("free_unref_page other inner", "\xeb\x08", other,
			"a short jump from another function is a call by that");
	test_short_jump("free_unref_page other inner", "\x74\x08", other,
			"a conditional short jump is a call");
	test_short_jump("free_unref_page other inner", "\xeb\x07", "",
			"a short jump to another place is no call");
}

static void test_exported(void)
{
	static struct fake f;

	fake_init(&f, FUNCTIONS, "inner");
	emit(&f, "inner", PAGE_FREE);
	put_call(&f, "free_unref_page", "inner");
	prove(&f);
	is_cover(&f, "inner", ALLOC_COVER_NONE, "modules may call it",
		 "an exported function is never nested");
	fake_deinit(&f);
}

static void test_families(void)
{
	static struct fake f;

	fake_init(&f, FUNCTIONS " inner.cold", "");
	emit(&f, "inner.cold", KFREE);
	put_call(&f, "free_unref_page", "inner");
	prove(&f);
	is_cover(
		&f, "inner", ALLOC_COVER_NONE, "called by free_unref_page, which is not traced",
		"an entry point of another family covers nothing; a cold part counts as the whole");
	fake_deinit(&f);
}

static bool is_point(const struct fake *fake, const char *function)
{
	for (size_t i = 0; i < fake->points.n; i++)
		if (!strcmp(fake->points.v[i].entry.name, function))
			return true;
	return false;
}

static void test_discovery(void)
{
	static struct fake f;

	fake_init(&f, FUNCTIONS " kmalloc_odd", "kmalloc_new");
	emit(&f, "__kmalloc", KMALLOC);
	emit(&f, "kmalloc_new", KMALLOC);
	emit(&f, "kmalloc_odd", KMALLOC);
	put_call(&f, "other", "kmalloc_odd");
	prove(&f);
	ok(is_point(&f, "kmalloc_new"),
	   "an unknown function that allocates becomes an entry point");
	is_cover(&f, "kmalloc_new", ALLOC_COVER_PROBE, "", "which covers it");
	ok(!is_point(&f, "kmalloc_odd"), "one without a size does not");
	is_cover(&f, "kmalloc_odd", ALLOC_COVER_NONE, "called by other, which is not traced",
		 "and is not covered");
	put_call(&f, "kmalloc_new", "kmalloc_odd");
	memset(f.bytes + (address_of(&f, "other") - TEXT), 0xcc, FUNCTION);
	prove(&f);
	is_cover(&f, "kmalloc_odd", ALLOC_COVER_NESTED, "",
		 "what only a discovered entry point calls is nested");
	emit(&f, "other", PAGE_FREE);
	put_call(&f, "middle", "other");
	prove(&f);
	ok(!is_point(&f, "other"), "an unknown function that frees stays what it is");
	fake_deinit(&f);
}

static const struct alloc_entry *point(const struct fake *fake, const char *function)
{
	for (size_t i = 0; i < fake->points.n; i++)
		if (!strcmp(fake->points.v[i].entry.name, function))
			return &fake->points.v[i].entry;
	return NULL;
}

/* free_ok() emits the event of a free; free_unref_page() ends in it. */
static void begin_outer_calls(struct fake *f, const char *exported)
{
	fake_init(f, "free_unref_page free_ok exact accept outer caller", exported);
	emit(f, "free_unref_page", PAGE_FREE);
	emit(f, "free_ok", PAGE_FREE);
	refer(f, "free_unref_page", 0x40, "\xe9", "free_ok", 0);
	put_call(f, "caller", "free_unref_page");
	put_call(f, "exact", "free_ok");
}

static void test_outer_calls(void)
{
	static struct fake f;
	const struct alloc_entry *entry;
	uint64_t exact, accept;

	begin_outer_calls(&f, "");
	refer(&f, "accept", 0x30, "\xe9", "free_ok", 4);
	put_call(&f, "outer", "accept");
	prove(&f);
	entry = point(&f, "free_ok");
	exact = address_of(&f, "exact") + 0x25;
	accept = address_of(&f, "outer") + 0x25;
	if (ok(entry, "a function that frees becomes an entry point for calls through no other")) {
		is_u64(entry->nr_calls, 2, "it counts calls of itself, and of what jumps to it");
		ok(alloc_call_counts(entry, exact), "a call counts that comes from no entry point");
		ok(alloc_call_counts(entry, accept), "one through a tail jump does");
		ok(!alloc_call_counts(entry, address_of(&f, "caller") + 0x25),
		   "a call does not count that came through an entry point");
		ok(alloc_call_counts(point(&f, "free_unref_page"), 1),
		   "all calls of an entry point count whose callers do not matter");
	}
	is_cover(&f, "free_ok", ALLOC_COVER_PROBE, "", "then it is covered");
	fake_deinit(&f);
}

/* Where calls cannot be told apart, a free is rather missed, and that is said. */
static void test_doubtful_calls(void)
{
	static const char reason[] = "called by exact, which is not traced";
	static struct fake f;

	begin_outer_calls(&f, "");
	refer(&f, "exact", 0x40, "\xe9", "free_ok", 0);
	refer(&f, "exact", 0x50, "\xe9", "outer", 0);
	refer(&f, "outer", 0x50, "\xe9", "free_unref_page", 0);
	put_call(&f, "caller", "exact");
	prove(&f);
	ok(!point(&f, "free_ok"), "a caller that may end in either leaves it uncovered");
	is_cover(&f, "free_ok", ALLOC_COVER_NONE, reason, "and that caller is named");
	fake_deinit(&f);

	begin_outer_calls(&f, "");
	put_call(&f, "free_unref_page", "exact");
	put_call(&f, "caller", "exact");
	prove(&f);
	ok(!point(&f, "free_ok"), "so does a caller that an entry point calls, too");
	fake_deinit(&f);

	begin_outer_calls(&f, "free_ok");
	prove(&f);
	ok(!point(&f, "free_ok"), "so does an export");
	fake_deinit(&f);
}

static void test_counted_before(void)
{
	static struct fake f;
	const struct alloc_entry *entry;
	uint64_t prepared;

	fake_init(&f, "__free_frozen_pages free_prepared_contig_range other", "");
	emit(&f, "__free_frozen_pages", PAGE_FREE);
	prove(&f);
	entry = point(&f, "__free_frozen_pages");
	prepared = address_of(&f, "free_prepared_contig_range");
	ok(entry && !alloc_call_counts(entry, prepared + FUNCTION) &&
		   !alloc_call_counts(entry, prepared + 5),
	   "pages that were counted when they were prepared do not count again");
	ok(entry && alloc_call_counts(entry, prepared + FUNCTION + 1) &&
		   alloc_call_counts(entry, prepared),
	   "pages that other functions free count");
	fake_deinit(&f);
}

static void test_unproven(void)
{
	static struct fake f;

	fake_init(&f, FUNCTIONS, "");
	prove(&f);
	is_str(f.points.unproven, "no function of the kernel emits kmem events",
	       "without events nothing is proven");
	f.image.init_size = DATA;
	prove(&f);
	is_str(f.points.unproven, "the kernel image has no jump table",
	       "nor is it without a jump table");
	is_u64(f.points.nr_emitters, 0, "and no function is said to emit events");
	fake_deinit(&f);
}

static void test_many(void)
{
	static struct fake f;
	const struct alloc_emitter *e;

	fake_init(&f, FUNCTIONS " a b c d e", "");
	emit(&f, "inner", PAGE_FREE);
	for (char caller[] = "a"; *caller <= 'e'; ++*caller)
		put_call(&f, caller, "inner");
	prove(&f);
	e = emitter(&f, "inner");
	is_str(e->reason, "called by a, b, c and 2 more, which are not traced",
	       "of many callers some are named");
	fake_deinit(&f);
}

int main(void)
{
	test_nested();
	test_ways();
	test_running();
	test_pointers(0);
	test_pointers(0x1e00000);
	test_short_jumps();
	test_exported();
	test_families();
	test_discovery();
	test_outer_calls();
	test_doubtful_calls();
	test_counted_before();
	test_unproven();
	test_many();
	return tap_done();
}
