/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sonde replay, on a trace whose guest held slabs of two caches. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum {
	SLAB = 0x1000, /* the slab allocator's own call site */
	USER = 0x2010,
	SLABS = 8,
	PER_SLAB = 21, /* dentries in a page */
	MS = 1000000,
	SCREEN_LINES = 24,
	SCREEN_COLUMNS = 80,
};

static const char sidecar[] =
	"{\"version\":1,\"complete\":true,\"from_first_allocation\":true,\"vcpus\":[{}],"
	"\"banner\":\"Linux version 6.1.0\","
	"\"caches\":[{\"id\":1,\"name\":\"dentry\",\"object_size\":190,\"size\":192}],"
	"\"symbols\":[{\"name\":\"allocate_slab\",\"start\":\"0x1000\",\"size\":4096},"
	"{\"name\":\"user\",\"start\":\"0x2000\",\"size\":4096}]}";

/* Full slabs, each of a page with its objects, and then the frees of half of the objects. */
static void put_trace(const char *dir)
{
	struct kmem_record records[SLABS * (1 + PER_SLAB) + SLABS * PER_SLAB];
	uint8_t caches[2 * sizeof(records) / sizeof(records[0])] = {0};
	const uint64_t base = 0xffff888000100000;
	size_t n = 0;

	for (uint64_t i = 0; i < SLABS; i++) {
		records[n] = make_alloc(KMEM_TYPE_PAGES, base + i * 4096, SLAB, 4096, 4096,
					(int64_t)n * MS);
		n++;
		for (uint64_t j = 0; j < PER_SLAB; j++) {
			caches[2 * n] = 1;
			records[n] = make_alloc(KMEM_TYPE_CACHE, base + i * 4096 + j * 192, USER,
						190, 192, (int64_t)n * MS);
			n++;
		}
	}
	for (uint64_t i = 0; i < SLABS * PER_SLAB; i += 2) {
		caches[2 * n] = 1;
		records[n] =
			make_free(KMEM_TYPE_CACHE, base + i / PER_SLAB * 4096 + i % PER_SLAB * 192,
				  USER, (int64_t)n * MS);
		n++;
	}
	stream_put(dir, 0, records, n);
	file_put(dir, "caches0", caches, 2 * n);
	file_put(dir, "sonde.json", sidecar, strlen(sidecar));
}

static uint64_t number(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

static json_t *run(const char *dir, const char *model, const char *time)
{
	const char *const argv[] = {"replay", "--json", "--allocator", model,
				    "--time", time,     dir,           NULL};

	return verb_json(cmd_replay, argv);
}

static void test_guest(const char *dir)
{
	json_t *root = run(dir, "guest", "0,");
	const json_t *cache = json_array_get(json_object_get(root, "caches"), 0);

	ok(number(cache, "pages") == SLABS && number(cache, "guest_pages") == SLABS,
	   "the model of the guest's own allocator has as many pages as the guest");
	ok(number(cache, "internal_bytes") == 2 * number(cache, "objects"),
	   "what objects take beyond their size is internal");
	ok(number(cache, "external_bytes") == SLABS * 4096 - 192 * number(cache, "objects"),
	   "what slabs have in no object is external");
	ok(number(cache, "guest_internal_bytes") == 2 * number(cache, "objects") &&
		   number(root, "guest_internal_bytes") == 2 * number(cache, "objects"),
	   "so it is in the guest");
	ok(number(cache, "guest_external_bytes") == number(cache, "external_bytes") &&
		   number(root, "guest_external_bytes") == number(cache, "external_bytes") &&
		   number(cache, "guest_external_bytes"),
	   "and what its slabs have in no object is known");
	ok(number(json_object_get(root, "replayed"), "peak_bytes") == SLABS * 4096,
	   "the peak is known");
	json_decref(root);
}

static void test_models(const char *dir, const char *file)
{
	static const char text[] = "align = 256\nmin_objects = 1\norder_max = 0\n";
	json_t *root;

	file_put(dir, "model", text, sizeof(text) - 1);
	root = run(dir, file, "0,");
	ok(number(json_array_get(json_object_get(root, "caches"), 0), "size") == 256 &&
		   number(json_object_get(root, "replayed"), "peak_bytes") ==
			   (SLABS * PER_SLAB + 15) / 16 * 4096,
	   "a model file is obeyed");
	json_decref(root);
	root = run(dir, "slub-6.1", ",0.05");
	ok(number(json_object_get(root, "replayed"), "bytes") == 3 * 4096,
	   "--time ends the replay at a moment");
	json_decref(root);
}

/* Of a time without a change, what was held before is the course; else it begins with that. */
static void test_still(const char *dir)
{
	static const char *const times[] = {"1,", "0.0305,0.0308"};
	static const uint64_t bytes[] = {SLABS * 4096, 2 * 4096};
	json_t *root;

	for (size_t i = 0; i < 2; i++) {
		const json_t *held;

		root = run(dir, "guest", times[i]);
		held = json_object_get(root, "guest");
		ok(number(held, "bytes") == bytes[i] && number(held, "peak_bytes") == bytes[i] &&
			   number(held, "mean_bytes") == bytes[i],
		   "without a record in the time, the guest goes on with what it held");
		held = json_object_get(root, "replayed");
		ok(number(held, "bytes") == bytes[i] && number(held, "peak_bytes") == bytes[i] &&
			   number(held, "mean_bytes") == bytes[i] &&
			   (uint64_t)json_integer_value(
				   json_array_get(json_object_get(held, "course"), 31)) == bytes[i],
		   "so does the model");
		json_decref(root);
	}
}

/* A free of an object that is not known, and a while later the free of a slab. */
static void test_begin(void)
{
	const struct kmem_record records[] = {
		make_alloc(KMEM_TYPE_KMALLOC, 0x10000, USER, 8192, 8192, MS),
		make_free(KMEM_TYPE_KMALLOC, 0x5000, USER, 100 * MS),
		make_free(KMEM_TYPE_KMALLOC, 0x10000, USER, 200 * MS)};
	struct scratch dir = scratch_make();
	const json_t *held;
	json_t *root;

	stream_put(dir.path, 0, records, 3);
	file_put(dir.path, "sonde.json", sidecar, strlen(sidecar));
	root = run(dir.path, "slub-6.1", "0.05,");
	held = json_object_get(root, "replayed");
	ok(number(held, "peak_bytes") == number(held, "mean_bytes") && number(held, "peak_bytes"),
	   "a course begins with what was held before it");
	json_decref(root);
	scratch_remove(&dir);
}

/* Without its first allocations, or of a part of them, a trace says nothing of what the guest held.
 */
static void test_unknown_guest(const char *dir)
{
	static const struct {
		bool from_first;
		const char *spec, *losses, *why;
	} rows[] = {
		{false, "kmem", "", "the trace may lack the guest's first allocations\n"},
		{true, "kmem:kmalloc", "", "only some of the allocations were traced\n"},
		{true, "kmem", "\"pauses\":2,", "unknown: events are missing\n"},
		{true, "kmem", "\"overwritten\":3,", "unknown: events are missing\n"},
		{true, "kmem", "\"lost\":3,", "unknown: events are missing\n"},
		{true, "kmem", "\"complete\":false,", "unknown: events may be missing\n"},
		{true, "kmem\",\"late\":true,\"a\":\"", "",
		 "the trace may lack the guest's first allocations\n"},
		{true, "kmem\",\"interrupted\":true,\"a\":\"", "", "unknown: events are missing\n"},
		{true, "kmem\",\"late\":false,\"interrupted\":false,\"a\":\"", "\"pauses\":1,",
		 "unknown: events are missing\n"}};
	const char *const argv[] = {"replay", dir, NULL};
	char text[sizeof(sidecar) + 256];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct verb_result result;
		json_t *root;

		snprintf(text, sizeof(text),
			 "{\"version\":1,%s%s\"from_first_allocation\":%s,"
			 "\"instances\":[{\"name\":\"kmem\",\"spec\":\"%s\",\"lost\":0,"
			 "\"vcpus\":[]}],%s",
			 strstr(rows[i].losses, "complete") ? "" : "\"complete\":true,",
			 rows[i].losses, rows[i].from_first ? "true" : "false", rows[i].spec,
			 strstr(sidecar, "\"vcpus\""));
		file_put(dir, "sonde.json", text, strlen(text));
		root = run(dir, "guest", "0,");
		ok(json_is_null(json_object_get(root, "guest")) &&
			   json_is_null(json_object_get(root, "guest_internal_bytes")) &&
			   json_is_null(json_object_get(root, "guest_external_bytes")) &&
			   !json_object_get(json_array_get(json_object_get(root, "caches"), 0),
					    "guest_pages"),
		   "what is not known of the guest is null");
		json_decref(root);
		result = verb_run(cmd_replay, argv);
		ok(strstr(result.out, "KiB at the end\n") && strstr(result.out, rows[i].why) &&
			   strstr(result.out, "in slabs, in no object\n"),
		   "the model is compared with nothing, and the text says why");
		verb_result_deinit(&result);
	}
	file_put(dir, "sonde.json", sidecar, strlen(sidecar));
}

/* A trace that names the guest's allocator, with the same events. */
static void test_named_allocator(const char *dir)
{
	static const struct {
		const char *allocator, *model;
	} rows[] = {{"slab", "slab-5.10"}, {"slub", "slub-6.1"}, {"slob", "slob-5.10"}};
	char text[sizeof(sidecar) + 64];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *root;

		snprintf(text, sizeof(text), "{\"slab_allocator\":\"%s\",%s", rows[i].allocator,
			 sidecar + 1);
		file_put(dir, "sonde.json", text, strlen(text));
		root = run(dir, "guest", "0,");
		is_str(json_string_value(json_object_get(root, "model")), rows[i].model,
		       "the model is that of the allocator that the trace names");
		ok(json_is_false(json_object_get(root, "assumed")), "it is not assumed");
		json_decref(root);
	}
	file_put(dir, "sonde.json", sidecar, strlen(sidecar));
}

/* Whether each line of a text fits the screen, and the lines together. */
static bool fits_screen(const char *text)
{
	size_t lines = 0;

	for (; *text; lines++) {
		const size_t bytes = strcspn(text, "\n");
		size_t columns = 0;

		for (size_t i = 0; i < bytes; i++)
			columns += ((uint8_t)text[i] & 0xc0) != 0x80;
		if (columns > SCREEN_COLUMNS)
			return false;
		text += bytes + (text[bytes] == '\n');
	}
	return lines <= SCREEN_LINES;
}

static void test_text(const char *dir)
{
	const char *const argv[] = {"replay", dir, NULL};
	struct verb_result result = verb_run(cmd_replay, argv);

	ok(result.status == 0 &&
		   strstr(result.out,
			  "Model         slub-6.1: SLUB (assumed: the trace names none), 1 CPU, "
			  "1 node\n"),
	   "the text names the model, and says that it is assumed");
	ok(strstr(result.out, "32.0 KiB at the end, the guest 32.0 KiB (+0.0 %)") != NULL,
	   "and compares it with the guest");
	ok(strstr(result.out, "\nExternal      16.2 KiB in slabs, in no object, the guest 16.2 KiB "
			      "(+0.0 %)\n") != NULL,
	   "so it does with what is wasted");
	if (!ok(fits_screen(result.out), "it fits a screen of 80x24"))
		tap_diag("%s", result.out);
	verb_result_deinit(&result);
}

/* A trace that nobody writes any more is shown once. */
static void test_follow(const char *dir)
{
	struct verb_result followed = verb_run(
		cmd_replay, (const char *const[]){"replay", "--json", "--follow", dir, NULL});
	struct verb_result whole =
		verb_run(cmd_replay, (const char *const[]){"replay", "--json", dir, NULL});

	is_str(followed.out, whole.out, "--follow prints at its end what a replay prints");
	verb_result_deinit(&followed);
	verb_result_deinit(&whole);
}

static void test_usage(const char *dir, const char *file)
{
	struct verb_result result =
		verb_run(cmd_replay, (const char *const[]){"replay", "--list", NULL});

	ok(result.status == 0 && strstr(result.out, "\nslub-7.0 "), "--list has the models");
	verb_result_deinit(&result);
	result = verb_run(cmd_replay, (const char *const[]){"replay", "-a", "slub-6.2", dir, NULL});
	ok(result.status == 2 && strstr(result.err, "did you mean 'slub-6.1'?"),
	   "a model that is not there is refused");
	verb_result_deinit(&result);
	file_put(dir, "model", "align = 3\n", 10);
	result = verb_run(cmd_replay, (const char *const[]){"replay", "-a", file, dir, NULL});
	ok(result.status == 1 && strstr(result.err, "/model:1: align takes a power of 2, not '3'"),
	   "an error in a model file has its line");
	verb_result_deinit(&result);
}

static uint64_t objects_of(const json_t *root, const char *cache)
{
	const json_t *caches = json_object_get(root, "caches"), *item;
	size_t i;

	json_array_foreach(caches, i, item)
	{
		if (!strcmp(json_string_value(json_object_get(item, "cache")), cache))
			return number(item, "objects");
	}
	return 0;
}

/* A message, a copy of memory of a user, and others; the guest may have buckets of its own. */
static void put_bucket_trace(const char *dir, const char *caches)
{
	static const uint64_t user = 0x100cc0, nowarn = 0x2000;
	struct kmem_record records[] = {
		make_alloc(KMEM_TYPE_KMALLOC, 0x100, 0x1010, 50, 64, MS),
		make_alloc(KMEM_TYPE_KMALLOC, 0x200, 0x2010, 50, 64, 2 * MS),
		make_alloc(KMEM_TYPE_KMALLOC, 0x300, 0x2010, 50, 64, 3 * MS),
		make_alloc(KMEM_TYPE_KMALLOC, 0x400, 0x3010, 50, 64, 4 * MS),
	};
	char text[1024];

	records[1].gfp_flags = user | nowarn;
	records[2].gfp_flags = user;
	snprintf(text, sizeof(text),
		 "{\"version\":1,\"complete\":true,\"vcpus\":[{}],"
		 "\"banner\":\"Linux version 6.12.0\",\"caches\":[%s],\"gfp_flags\":["
		 "{\"name\":\"GFP_USER\",\"mask\":\"0x100cc0\"},"
		 "{\"name\":\"__GFP_NOWARN\",\"mask\":\"0x2000\"}],\"symbols\":["
		 "{\"name\":\"load_msg\",\"start\":\"0x1000\",\"size\":256},"
		 "{\"name\":\"user\",\"start\":\"0x2000\",\"size\":256}]}",
		 caches);
	stream_put(dir, 0, records, sizeof(records) / sizeof(records[0]));
	file_put(dir, "sonde.json", text, strlen(text));
}

static void test_buckets(void)
{
	struct scratch dir = scratch_make();
	json_t *root;

	put_bucket_trace(dir.path, "");
	root = run(dir.path, "slub-6.12-buckets", "0,");
	ok(objects_of(root, "msg_msg-64") == 1 && objects_of(root, "memdup_user-64") == 1 &&
		   objects_of(root, "kmalloc-64") == 2,
	   "messages are known by their function, copies by their flags");
	json_decref(root);
	put_bucket_trace(dir.path, "{\"id\":1,\"name\":\"memdup_user-64\","
				   "\"object_size\":64,\"size\":64}");
	root = run(dir.path, "slub-6.12-buckets", "0,");
	ok(objects_of(root, "kmalloc-64") == 4, "a guest that has buckets names them itself");
	json_decref(root);
	scratch_remove(&dir);
}

/* The objects of a slab, of which as many are freed at once by kfree_rcu(); then its pages. */
static void put_collected(const char *dir, const char *banner, const char *freeing)
{
	enum { OBJECTS = 28 }; /* of a sheaf */
	const uint64_t base = 0xffff888000100000;
	struct kmem_record records[2 * OBJECTS + 4];
	uint8_t caches[2 * sizeof(records) / sizeof(records[0])] = {0};
	char text[1024];
	size_t n = 0;

	for (uint64_t i = 0; i < 2; i++)
		records[n++] = make_alloc(KMEM_TYPE_PAGES, base + i * 4096, SLAB, 4096, 4096, MS);
	for (uint64_t i = 0; i < OBJECTS; i++) {
		caches[2 * n] = 1;
		records[n++] = make_alloc(KMEM_TYPE_CACHE, base + i * 256, USER, 256, 256,
					  (int64_t)(2 + i) * MS);
	}
	for (uint64_t i = 0; i < OBJECTS; i++) {
		caches[2 * n] = 1;
		records[n++] = make_free(KMEM_TYPE_CACHE, base + i * 256, 0x3010, 50 * MS);
	}
	for (uint64_t i = 0; i < 2; i++) {
		records[n] = make_free(KMEM_TYPE_PAGES, base + i * 4096, 0x4010, 60 * MS);
		records[n++].bytes_req = 4096;
	}
	snprintf(text, sizeof(text),
		 "{\"version\":1,\"complete\":true,\"from_first_allocation\":true,\"vcpus\":[{}],"
		 "\"banner\":\"Linux version %s\",\"caches\":[{\"id\":1,\"name\":\"node\","
		 "\"object_size\":256,\"size\":256}],\"symbols\":["
		 "{\"name\":\"allocate_slab\",\"start\":\"0x1000\",\"size\":256},"
		 "{\"name\":\"user\",\"start\":\"0x2000\",\"size\":256},"
		 "{\"name\":\"%s\",\"start\":\"0x3000\",\"size\":256},"
		 "{\"name\":\"__kmem_cache_do_shrink\",\"start\":\"0x4000\",\"size\":256}]}",
		 banner, freeing);
	stream_put(dir, 0, records, n);
	file_put(dir, "caches0", caches, 2 * n);
	file_put(dir, "sonde.json", text, strlen(text));
}

static uint64_t pages_at(const char *dir, const char *time)
{
	json_t *root = run(dir, "guest", time);
	uint64_t pages = number(json_array_get(json_object_get(root, "caches"), 0), "pages");

	json_decref(root);
	return pages;
}

static void test_collected(void)
{
	struct scratch dir = scratch_make();

	put_collected(dir.path, "7.0.0", "rcu_do_batch");
	ok(pages_at(dir.path, ",0.055") == 2, "a sheaf that kfree_rcu() has filled is kept");
	ok(pages_at(dir.path, "0,") == 0, "until the guest shrinks the cache");
	put_collected(dir.path, "6.12.0", "kvfree_rcu_bulk");
	ok(pages_at(dir.path, ",0.055") == 2 && pages_at(dir.path, "0,") == 0,
	   "a guest without sheaves shrinks caches, too");
	scratch_remove(&dir);
}

/* Objects of 8 KiB in slabs of their own are freed, more than a CPU keeps; one slab is given back.
 */
static void put_drained(const char *dir, const char *giving)
{
	enum { OBJECTS = 10, BYTES = 8192 };
	const uint64_t base = 0xffff888000100000;
	struct kmem_record records[3 * OBJECTS + 1];
	uint8_t caches[2 * sizeof(records) / sizeof(records[0])] = {0};
	char text[1024];
	size_t n = 0;

	for (uint64_t i = 0; i < OBJECTS; i++) {
		records[n++] = make_alloc(KMEM_TYPE_PAGES, base + i * BYTES, SLAB, BYTES, BYTES,
					  (int64_t)(1 + i) * MS);
		caches[2 * n] = 1;
		records[n++] = make_alloc(KMEM_TYPE_CACHE, base + i * BYTES, USER, BYTES, BYTES,
					  (int64_t)(1 + i) * MS);
	}
	for (uint64_t i = 0; i < OBJECTS; i++) {
		caches[2 * n] = 1;
		records[n++] = make_free(KMEM_TYPE_CACHE, base + i * BYTES, 0x3010,
					 (int64_t)(20 + i) * MS);
	}
	records[n] = make_free(KMEM_TYPE_PAGES, base, 0x4010, 60 * MS);
	records[n++].bytes_req = BYTES;
	snprintf(text, sizeof(text),
		 "{\"version\":1,\"complete\":true,\"vcpus\":[{}],\"slab_allocator\":\"slab\","
		 "\"banner\":\"Linux version 6.1.0\",\"caches\":[{\"id\":1,\"name\":\"large\","
		 "\"object_size\":8192,\"size\":8192}],\"symbols\":["
		 "{\"name\":\"allocate_slab\",\"start\":\"0x1000\",\"size\":256},"
		 "{\"name\":\"user\",\"start\":\"0x2000\",\"size\":256},"
		 "{\"name\":\"%s\",\"start\":\"0x4000\",\"size\":256}]}",
		 giving);
	stream_put(dir, 0, records, n);
	file_put(dir, "caches0", caches, 2 * n);
	file_put(dir, "sonde.json", text, strlen(text));
}

static void test_drained(void)
{
	struct scratch dir = scratch_make();

	put_drained(dir.path, "drain_freelist.isra.0");
	ok(pages_at(dir.path, ",0.055") == 20, "empty slabs of SLAB are kept");
	ok(pages_at(dir.path, "0,") == 16, "until the guest's timer gives one back");
	put_drained(dir.path, "slabs_destroy");
	ok(pages_at(dir.path, "0,") == 20, "which others are not");
	scratch_remove(&dir);
}

int main(void)
{
	struct scratch dir = scratch_make();
	char file[128];

	snprintf(file, sizeof(file), "%s/model", dir.path);
	put_trace(dir.path);
	test_guest(dir.path);
	test_models(dir.path, file);
	test_still(dir.path);
	test_begin();
	test_unknown_guest(dir.path);
	test_named_allocator(dir.path);
	test_text(dir.path);
	test_follow(dir.path);
	test_usage(dir.path, file);
	test_buckets();
	test_collected();
	test_drained();
	scratch_remove(&dir);
	return tap_done();
}
