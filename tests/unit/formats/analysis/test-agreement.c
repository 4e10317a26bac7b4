/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What sonde report counts is what follows from the text that babeltrace2 prints of the same trace.
 * The text is evaluated here, without any code of the reader, the heap or the analyses.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "tests/lib/babeltrace.h"
#include "tests/lib/ctf-make.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

#define OLD_TRACE "tests/unit/formats/trace/data/ctf"

enum { MAX_LINES = 65536, MAX_SITES = 1024, N = 8000, SLOTS = 64, BLOCK_PAGES = 8, PAGE = 4096 };

/* A live object; pages and slab objects may have the same address. */
struct life {
	uint64_t ptr, bytes, site;
	bool is_pages;
};

struct site {
	uint64_t address, hits, live_objects, live_bytes;
};

struct ledger {
	struct life lives[MAX_LINES];
	size_t nr_lives;
	struct site sites[MAX_SITES];
	size_t nr_sites;
	uint64_t allocs, frees, live_bytes, live_objects;
};

static struct ledger ledger;

static struct site *site_of(uint64_t address)
{
	for (size_t i = 0; i < ledger.nr_sites; i++) {
		if (ledger.sites[i].address == address)
			return &ledger.sites[i];
	}
	if (ledger.nr_sites == MAX_SITES)
		abort();
	ledger.sites[ledger.nr_sites].address = address;
	return &ledger.sites[ledger.nr_sites++];
}

static void end_life(size_t i)
{
	struct life *life = &ledger.lives[i];
	struct site *site = site_of(life->site);

	site->live_objects--;
	site->live_bytes -= life->bytes;
	ledger.live_objects--;
	ledger.live_bytes -= life->bytes;
	*life = ledger.lives[--ledger.nr_lives];
}

static bool end_life_at(uint64_t ptr, bool is_pages)
{
	for (size_t i = 0; i < ledger.nr_lives; i++) {
		if (ledger.lives[i].ptr != ptr || ledger.lives[i].is_pages != is_pages)
			continue;
		end_life(i);
		return true;
	}
	return false;
}

static void begin_life(uint64_t ptr, uint64_t bytes, uint64_t address, bool is_pages)
{
	struct site *site = site_of(address);

	site->hits++;
	site->live_objects++;
	site->live_bytes += bytes;
	ledger.live_objects++;
	ledger.live_bytes += bytes;
	ledger.lives[ledger.nr_lives++] = (struct life){ptr, bytes, address, is_pages};
}

/* The number behind the last " name = " of a line; a code address may have its name before it. */
static uint64_t number(const char *line, const char *name)
{
	char label[64];
	const char *at;

	snprintf(label, sizeof(label), " %s = ", name);
	at = strstr(line, label);
	if (!at)
		return 0;
	at += strlen(label);
	if (*at == '(') {
		at = strstr(at, "container = ");
		at = at ? at + strlen("container = ") : "";
	}
	return strtoull(at, NULL, 0);
}

/* Of a block of pages, the old format has the order; and of addresses, only 48 bits. */
static uint64_t bytes_of(const char *line)
{
	if (strstr(line, " order = "))
		return UINT64_C(4096) << number(line, "order");
	return number(line, "bytes_alloc");
}

static uint64_t address_of(const char *line, const char *name)
{
	return number(line, name) & 0xffffffffffff;
}

/* Ids of call sites, which events of their own define. */
struct ids {
	uint64_t addresses[MAX_LINES];
};

static void take_line(const char *line, struct ids *ids)
{
	bool is_pages = strstr(line, " mm_page_");
	uint64_t ptr = address_of(line, "ptr"), site = number(line, "call_site");

	if (strstr(line, " sonde_call_site: ") && site < MAX_LINES) {
		ids->addresses[site] = number(line, "address");
	} else if (strstr(line, "alloc: ") || strstr(line, " kmalloc: ")) {
		ledger.allocs++;
		end_life_at(ptr, is_pages);
		begin_life(ptr, bytes_of(line), site < MAX_LINES ? ids->addresses[site] : site,
			   is_pages);
	} else if (strstr(line, "free: ")) {
		ledger.frees++;
		end_life_at(ptr, is_pages);
	}
}

static void read_text(const char *dir)
{
	static struct ids ids;
	char *text = NULL, *rest, *line;

	if (babeltrace_run("--no-delta", dir, &text))
		abort();
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		take_line(line, &ids);
	free(text);
}

static json_t *report(const char *dir)
{
	const char *argv[] = {"report", "--json", dir, NULL};

	return verb_json(cmd_report, argv);
}

static uint64_t count(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

static void same_totals(const json_t *root, const char *what)
{
	ok(ledger.allocs > 100, "babeltrace2 prints the events of %s", what);
	is_u64(count(root, "alloc_events"), ledger.allocs,
	       "the allocations of the text are counted");
	is_u64(count(root, "free_events"), ledger.frees, "the frees of the text are counted");
	is_u64(count(root, "live_objects"), ledger.live_objects,
	       "what is live by the text is live");
	is_u64(count(root, "live_bytes"), ledger.live_bytes, "with as many bytes");
}

static void same_sites(const json_t *root)
{
	const json_t *sites = json_object_get(root, "call_sites"), *item;
	size_t i, wrong = 0;

	is_u64(json_array_size(sites), ledger.nr_sites, "each call site of the text is a group");
	json_array_foreach(sites, i, item)
	{
		const char *address = json_string_value(json_object_get(item, "address"));
		const struct site *site = site_of(strtoull(address ? address : "", NULL, 0));

		if (count(item, "hits") == site->hits &&
		    count(item, "live_objects") == site->live_objects &&
		    count(item, "live_bytes") == site->live_bytes)
			continue;
		tap_diag("%s: %" PRIu64 " of %" PRIu64 " allocations", address, count(item, "hits"),
			 site->hits);
		wrong++;
	}
	is_u64(wrong, 0, "each has the allocations and live bytes of the text");
}

/* A trace of a real guest, by sonde 0.1. */
static void test_old(void)
{
	json_t *root = report(OLD_TRACE);

	memset(&ledger, 0, sizeof(ledger));
	read_text(OLD_TRACE);
	same_totals(root, "a guest");
	same_sites(root);
	json_decref(root);
}

/* What is allocated at a place: an object, or those pages of a block that have their bit. */
struct slot {
	bool has_object;
	unsigned int pages;
};

static struct kmem_record random_record(struct slot *slots, unsigned int *seed, int64_t ns)
{
	unsigned int i = (unsigned int)rand_r(seed) % SLOTS, size = 32u << rand_r(seed) % 5;
	unsigned int type = (unsigned int)rand_r(seed) % 2, page;
	uint64_t ptr = 0xffff888000000000 + (uint64_t)i * BLOCK_PAGES * PAGE;
	uint64_t site = 0xffffffff81000000 + (uint64_t)(rand_r(seed) % 40) * 16;
	struct kmem_record free;

	if (rand_r(seed) % 2) {
		slots[i].has_object = !slots[i].has_object;
		return slots[i].has_object ? make_alloc(type, ptr, site, size - 3, size, ns)
					   : make_free(type, ptr, site, ns);
	}
	if (!slots[i].pages) {
		slots[i].pages = (1u << BLOCK_PAGES) - 1;
		return make_alloc(KMEM_TYPE_PAGES, ptr, site, BLOCK_PAGES * PAGE,
				  BLOCK_PAGES * PAGE, ns);
	}
	page = (unsigned int)__builtin_ctz(slots[i].pages);
	if (slots[i].pages == (1u << BLOCK_PAGES) - 1)
		page = (unsigned int)rand_r(seed) % BLOCK_PAGES;
	free = make_free(KMEM_TYPE_PAGES, ptr + page * PAGE, site, ns);
	free.bytes_req = free.bytes_alloc = page || rand_r(seed) % 2 ? PAGE : BLOCK_PAGES * PAGE;
	slots[i].pages &= free.bytes_alloc == PAGE ? ~(1u << page) : 0;
	return free;
}

static void put_random(const char *dir)
{
	static struct kmem_record records[N];
	struct slot slots[SLOTS] = {{0}};
	unsigned int seed = 5;
	struct ctf_made made;

	for (int64_t i = 0; i < N; i++)
		records[i] = random_record(slots, &seed, 1000 + i);
	ctf_make(&made, false, records, N, 0);
	ctf_made_put(&made, dir);
	ctf_made_free(&made);
}

/* Page by page: blocks are freed in pieces. */
static void take_record(const struct kmem_record *r)
{
	bool is_pages = r->type_id == KMEM_TYPE_PAGES, is_alloc = r->event_id == KMEM_EVENT_ALLOC;
	uint64_t step = is_pages ? PAGE : r->bytes_alloc + 1;

	ledger.allocs += is_alloc;
	ledger.frees += !is_alloc;
	for (uint64_t at = 0; !at || at < r->bytes_alloc; at += step) {
		if (is_alloc)
			begin_life(r->ptr + at, is_pages ? PAGE : r->bytes_alloc, r->call_site,
				   is_pages);
		else
			end_life_at(r->ptr + at, is_pages);
	}
}

/* In the present format; blocks of pages are freed whole and in pieces. */
static void test_random(void)
{
	static struct kmem_record records[N];
	struct scratch dir = scratch_make();
	json_t *root;
	long n;

	put_random(dir.path);
	memset(&ledger, 0, sizeof(ledger));
	n = babeltrace_records(dir.path, records, N);
	for (long i = 0; i < n; i++)
		take_record(&records[i]);
	root = report(dir.path);
	is_u64(n < 0 ? 0 : (uint64_t)n, N, "babeltrace2 prints all records");
	is_u64(count(root, "alloc_events"), ledger.allocs, "all allocations are counted");
	is_u64(count(root, "free_events"), ledger.frees, "all frees are counted");
	is_u64(count(root, "live_bytes"), ledger.live_bytes,
	       "what is live has as many bytes, in blocks that are freed in pieces, too");
	is_u64(count(root, "unknown_frees"), 0, "no free is of an unknown object");
	json_decref(root);
	scratch_remove(&dir);
}

/* A verb's line that says how to search for an address finds all that babeltrace2 prints of it. */
static void is_found(const struct verb_result *result, const char *line, const char *text,
		     uint64_t ptr)
{
	static const char before[] = " in text of babeltrace2: grep -i ";
	const char *at = strstr(result->out, line), *digits = at ? strstr(at, before) : NULL;
	unsigned int found = 0;
	char pattern[24] = "";

	if (digits)
		sscanf(digits + sizeof(before) - 1, "%20[0-9a-fx]", pattern);
	for (at = text; *pattern && (at = strcasestr(at, pattern)); at++)
		found++;
	if (!ok(found == 2, "%.6s says how to search for 0x%" PRIx64, line + 1, ptr))
		tap_diag("'%s' is there %u times: %s", pattern, found, text);
}

/* Usual records have 48 or 57 bits of an address, others, such as that of a large block, have all.
 */
static void test_search(void)
{
	static const uint64_t ptrs[] = {0xffff8b4041048000, 0xff118b4041048000, 0x7b4041048000};

	for (size_t i = 0; i < sizeof(ptrs) / sizeof(ptrs[0]); i++) {
		const struct kmem_record records[] = {
			make_free(KMEM_TYPE_KMALLOC, ptrs[i], 0x1010, 1000),
			make_alloc(KMEM_TYPE_PAGES, ptrs[i], 0x1010, PAGE << 8, PAGE << 8, 2000)};
		struct scratch dir = scratch_make();
		const char *const by[] = {"report", "--by", "pointer", dir.path, NULL};
		const char *const check[] = {"check", dir.path, NULL};
		struct verb_result first, second;
		struct ctf_made made;
		char *text;

		ctf_make(&made, false, records, 2, 0);
		ctf_made_put(&made, dir.path);
		babeltrace_run("", dir.path, &text);
		first = verb_run(cmd_report, by);
		second = verb_run(cmd_check, check);
		is_found(&first, "\nSearch  ", text, ptrs[i]);
		is_found(&second, "\nSearch  ", text, ptrs[i]);
		free(text);
		verb_result_deinit(&first);
		verb_result_deinit(&second);
		ctf_made_free(&made);
		scratch_remove(&dir);
	}
}

int main(void)
{
	if (babeltrace_run("--version", "", NULL) == 127) {
		puts("1..0 # SKIP babeltrace2 is not installed");
		return 0;
	}
	test_old();
	test_random();
	test_search();
	return tap_done();
}
