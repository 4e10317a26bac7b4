/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "formats/base/fs.h"
#include "formats/trace/sidecar.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

static struct sidecar_vcpu vcpus[] = {{10, 5, 0}, {7, 8, 9}};
static char cache_name[] = "kmalloc-64", odd_name[] = "a\033[31m\xff";
static char first_name[] = "first", second_name[] = "second";
static struct sidecar_cache caches[] = {{2, odd_name, 60, 64}, {1, cache_name, 64, 64}};
static struct sidecar_symbol symbols[] = {
	{.address = 0xffffffff81000210,
	 .start = 0xffffffff81000200,
	 .size = 0x40,
	 .name = second_name,
	 .build_id = {{0xab, 0x1c, 0}, 3}},
	{.address = 0xffffffff81000110,
	 .start = 0xffffffff81000100,
	 .size = 0x20,
	 .name = first_name,
	 .returned = {192, "struct\033dentry"}},
};
static const struct sidecar sample = {
	.info =
		{
			.tool_version = "1.2",
			.writer = "attach",
			.mode = "trap",
			.banner = "Linux version 6.1",
			.slab_allocator = "slub",
			.symbol_source = "kallsyms in memory",
			.btf_source = "given",
			.virt_slide = -4096,
			.text_gpa = 0x1000000,
			.started_ns = 12,
			.from_first_allocation = true,
			.page_size = 4096,
			.stack_bytes = 32768,
			.gfp_names = {{0xcc0, "GFP_KERNEL"}, {UINT64_MAX, "__GFP\n"}},
			.nr_gfp_names = 2,
			.gaps = {{"f", "called by g"}, {"h\n", "unknown"}},
			.nr_gaps = 2,
			.nodes = {{.number = 0, .bytes = 4096, .vcpus = 5},
				  {.number = 7,
				   .start = 0xffff888000001000,
				   .bytes = 8192,
				   .vcpus = UINT64_C(1) << 63}},
			.nr_nodes = 2,
			.cut = true,
			.counters.v[COUNTER_LOST] = UINT64_MAX,
		},
	.complete = true,
	.vcpus = vcpus,
	.nr_vcpus = 2,
	.caches = caches,
	.nr_caches = 2,
	.symbols = symbols,
	.nr_symbols = 2,
};

static int load(const char *dir, struct sidecar **out, struct error *err)
{
	struct trace_files *files;
	int ret;

	if (trace_files_open(dir, &files, NULL))
		abort();
	ret = sidecar_load(files, out, err);
	trace_files_close(files);
	return ret;
}

static void check_info(const struct trace_info *info)
{
	is_str(info->banner, "Linux version 6.1", "a string is read back");
	is_str(info->mode, "trap", "a short string is read back");
	is_str(info->build_id, "", "an empty string is read back");
	is_str(info->slab_allocator, "slub", "the guest's allocator is read back");
	is_str(info->symbol_source, "kallsyms in memory", "a string with blanks is read back");
	is_str(info->btf_source, "given", "so is where the types came from");
	ok(info->virt_slide == -4096, "a negative number is read back");
	is_u64(info->text_gpa, 0x1000000, "an address is read back");
	is_u64(info->stack_bytes, 32768, "a count is read back");
	is_u64(info->counters.v[COUNTER_LOST], INT64_MAX, "a count beyond JSON's range is capped");
	ok(info->from_first_allocation && info->cut, "booleans are read back");
	is_u64(info->nr_gfp_names, 2, "all GFP names are read back");
	is_u64(info->gfp_names[1].mask, UINT64_MAX, "the mask of a GFP name is read back");
	is_str(info->gfp_names[1].name, "__GFP?", "control characters in a GFP name are replaced");
	is_u64(info->nr_gaps, 2, "all gaps are read back");
	ok(info->nr_nodes == 2 && info->nodes[0].vcpus == 5 && info->nodes[1].number == 7 &&
		   info->nodes[1].start == 0xffff888000001000 && info->nodes[1].bytes == 8192 &&
		   info->nodes[1].vcpus == UINT64_C(1) << 63,
	   "so are the nodes");
	is_str(info->gaps[0].reason, "called by g", "a gap has its reason");
	is_str(info->gaps[1].function, "h?", "a gap's function is printable");
}

static void check_lookup(const struct sidecar *s)
{
	const struct sidecar_symbol *symbol = sidecar_symbol(s, 0xffffffff8100021f);

	is_str(symbol ? symbol->name : NULL, "second",
	       "an address inside a function finds its symbol");
	ok(symbol && symbol->build_id.size == 3 && !memcmp(symbol->build_id.bytes, "\xab\x1c", 3),
	   "a symbol keeps the build id of its module");
	symbol = sidecar_symbol(s, 0xffffffff81000100);
	ok(symbol && !symbol->build_id.size, "one of the kernel has none");
	is_str(symbol ? symbol->name : NULL, "first",
	       "a function's first address finds its symbol");
	is_str(symbol ? symbol->returned.name : NULL, "struct?dentry",
	       "what it returns a pointer to is kept, without control characters");
	is_u64(symbol ? symbol->returned.bytes : 0, 192, "and its size");
	ok(!sidecar_symbol(s, 0xffffffff81000120), "the address behind a function has no symbol");
	ok(!sidecar_symbol(s, 0xffffffff810000ff),
	   "an address before the first function has no symbol");
	ok(!sidecar_symbol(s, UINT64_MAX), "the last address has no symbol");
	ok(!sidecar_symbol(NULL, 1) && !sidecar_cache(NULL, 1),
	   "without a sidecar nothing has a name");
	is_str(sidecar_cache(s, 1) ? sidecar_cache(s, 1)->name : NULL, "kmalloc-64",
	       "a cache is found by its id");
	is_str(sidecar_cache(s, 2) ? sidecar_cache(s, 2)->name : NULL, "a?[31m?",
	       "control characters in a cache's name are replaced");
	ok(!sidecar_cache(s, 3), "an unknown id has no cache");
}

static void test_round_trip(void)
{
	static const char temp_name[] = SIDECAR_NAME SIDECAR_TEMP_SUFFIX;
	struct scratch dir = scratch_make();
	int fd = open(dir.path, O_RDONLY | O_DIRECTORY);
	struct sidecar *loaded = NULL;
	struct error err = {0};
	size_t size = 0;
	char *text;

	ok(load(dir.path, &loaded, &err) == -ENOENT, "a directory without a sidecar gives -ENOENT");
	file_reserve(fd, temp_name, 64 << 10);
	ok(!sidecar_write(fd, SIDECAR_NAME, &sample, &err), "a sidecar is written");
	ok(faccessat(fd, temp_name, F_OK, 0) < 0, "no temporary file is left");
	text = file_get(dir.path, SIDECAR_NAME, &size);
	ok(text && strlen(text) == size, "no reserved space is left behind the text");
	free(text);
	if (ok(!load(dir.path, &loaded, &err), "a sidecar is loaded")) {
		check_info(&loaded->info);
		is_u64(loaded->nr_vcpus, 2, "all vCPUs are read back");
		is_u64(loaded->vcpus[1].overruns, 9, "a vCPU's overruns are read back");
		check_lookup(loaded);
	}
	sidecar_destroy(loaded);
	close(fd);
	scratch_remove(&dir);
}

static const char *const keys[] = {
	"version",       "checksum",       "crc32c",        "complete",
	"tool_version",  "writer",         "mode",          "tracers",
	"banner",        "memory",         "build_id",      "slab_allocator",
	"symbol_source", "btf_source",     "virt_slide",    "phys_base",
	"clock",         "ended",          "part",          "started_realtime_ns",
	"started_ns",    "page_size",      "stack_bytes",   "from_first_allocation",
	"vcpus",         "caches",         "symbols",       "max_rate",
	"cut",           "gfp_flags",      "gaps",          "nodes",
	"instances",     "losses_unknown", "chosen_events",
};

static void test_keys(void)
{
	struct scratch dir = scratch_make();
	int fd = open(dir.path, O_RDONLY | O_DIRECTORY);
	json_t *root;
	char *text;

	sidecar_write(fd, SIDECAR_NAME, &sample, NULL);
	text = file_get(dir.path, SIDECAR_NAME, NULL);
	root = json_loads(text, 0, NULL);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		ok(json_object_get(root, keys[i]), "a sidecar has the key %s", keys[i]);
	for (enum counter_id id = 0; id < COUNTER_COUNT; id++)
		ok(json_object_get(root, counter_table[id].key), "the sidecar has the counter %s",
		   counter_table[id].key);
	is_u64(json_object_size(root), sizeof(keys) / sizeof(keys[0]) + COUNTER_COUNT,
	       "a sidecar has no other key");
	is_str(json_string_value(json_object_get(
		       json_array_get(json_object_get(root, "symbols"), 1), "address")),
	       "0xffffffff81000110", "addresses are written as hexadecimal strings");
	json_decref(root);
	free(text);
	close(fd);
	scratch_remove(&dir);
}

static void test_hostile(void)
{
	static const struct {
		const char *text;
		int want;
		const char *what;
	} rows[] = {
		{"{\"version\":1}", 0, "a sidecar with nothing but its version is accepted"},
		{"{\"version\":1,\"lost\":5}", 0,
		 "a sidecar of a version without checksums is accepted"},
		{"{\"version\":1,\"new\":[{}]}", 0, "an unknown key is ignored"},
		{"", -EINVAL, "an empty file is refused"},
		{"{\"version\":1", -EINVAL, "a text that was cut off is refused"},
		{"[1]", -EINVAL, "an array is refused"},
		{"{\"version\":2}", -EINVAL, "another version is refused"},
		{"{\"version\":1,\"banner\":5}", -EINVAL, "a number for a string is refused"},
		{"{\"version\":1,\"lost\":-1}", -EINVAL, "a negative count is refused"},
		{"{\"version\":1,\"lost\":\"1\"}", -EINVAL, "a string for a count is refused"},
		{"{\"version\":1,\"lost\":99999999999999999999}", -EINVAL,
		 "a count that overflows is refused"},
		{"{\"version\":1,\"phys_base\":\"12\"}", -EINVAL,
		 "an address without 0x is refused"},
		{"{\"version\":1,\"phys_base\":\"0x11111111111111111\"}", -EINVAL,
		 "an address of 17 digits is refused"},
		{"{\"version\":1,\"complete\":0}", -EINVAL, "a number for a boolean is refused"},
		{"{\"version\":1,\"vcpus\":{}}", -EINVAL, "an object for an array is refused"},
		{"{\"version\":1,\"vcpus\":[3]}", -EINVAL, "a number for an object is refused"},
		{"{\"version\":1,\"caches\":[{\"id\":0}]}", -EINVAL, "cache id 0 is refused"},
		{"{\"version\":1,\"caches\":[{\"id\":65536}]}", -EINVAL,
		 "cache id 65536 is refused"},
		{"{\"version\":1,\"symbols\":[{\"name\":\"a\"},7]}", -EINVAL,
		 "an array with one wrong item is refused"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sidecar *sidecar = NULL;
		struct error err = {0};
		int ret = sidecar_parse(rows[i].text, strlen(rows[i].text), &sidecar, &err);

		ok(ret == rows[i].want &&
			   (ret ? err.text[0] && !sidecar : sidecar && !sidecar->damaged),
		   "%s", rows[i].what);
		sidecar_destroy(sidecar);
	}
}

/* The directory's sonde.json may be anything, a FIFO that would block us too. */
static void test_not_a_file(void)
{
	struct scratch dir = scratch_make();
	int fd = open(dir.path, O_RDONLY | O_DIRECTORY);
	struct sidecar *sidecar = NULL;

	ok(!mkfifoat(fd, SIDECAR_NAME, 0600), "a FIFO is made");
	ok(load(dir.path, &sidecar, NULL) == -EINVAL,
	   "a FIFO as sidecar is refused without blocking");
	close(fd);
	scratch_remove(&dir);
}

/* Such as those of a kernel image that somebody else made. */
static void test_added_names(void)
{
	static const char text[] = "{\"version\":1}";
	char name[] = "f\n\x1b[31m\xc2\x9b";
	const struct sidecar_symbol symbol = {
		.address = 0x1000, .start = 0x1000, .size = 16, .name = name};
	struct sidecar *sidecar;

	if (sidecar_parse(text, strlen(text), &sidecar, NULL) ||
	    sidecar_add_symbols(sidecar, &symbol, 1))
		abort();
	is_str(sidecar_function_text(sidecar, 0x1008).s, "f??[31m??",
	       "names of functions that are added later are cleaned");
	sidecar_destroy(sidecar);
}

/* What is no build id is none; sizes are those of the kernel's. */
static void test_build_ids(void)
{
	static const char *const ids[] = {"\"abc\"", "\"xy\"", "7", "\"\"",
					  "\"0123456789012345678901234567890123456789ab\""};

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		struct sidecar *sidecar;
		char text[256];

		snprintf(text, sizeof(text),
			 "{\"version\":1,\"symbols\":[{\"name\":\"a\",\"build_id\":%s}]}", ids[i]);
		ok(!sidecar_parse(text, strlen(text), &sidecar, NULL) &&
			   !sidecar->symbols[0].build_id.size,
		   "%s is no build id", ids[i]);
		sidecar_destroy(sidecar);
	}
}

/* Each bit of a sidecar is flipped. */
static void test_checksum(void)
{
	char *text = sidecar_text(&sample);
	const size_t size = strlen(text);
	struct sidecar *sidecar = NULL;
	uint64_t missed = 0, read = 0;

	ok(!sidecar_parse(text, size, &sidecar, NULL) && !sidecar->damaged &&
		   sidecar->has_checksums,
	   "the checksum of a sidecar is right");
	sidecar_destroy(sidecar);
	for (size_t bit = 0; bit < 8 * size; bit++) {
		int ret;

		text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
		ret = sidecar_parse(text, size, &sidecar, NULL);
		text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
		if (ret)
			continue;
		missed += !sidecar->damaged;
		read++;
		sidecar_destroy(sidecar);
	}
	is_u64(missed, 0, "each flipped bit is noticed");
	ok(read > size, "and many of these sidecars can be read");
	free(text);
}

int main(void)
{
	test_round_trip();
	test_keys();
	test_hostile();
	test_not_a_file();
	test_added_names();
	test_build_ids();
	test_checksum();
	return tap_done();
}
