/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The patterns that sonde check notes. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { MAX = 60000, MS = 1000000, KREALLOC = 0x9010 };

static const char sidecar[] =
	"{\"version\":1,\"complete\":true,\"from_first_allocation\":true,\"vcpus\":[{},{}],"
	"\"symbols\":[{\"name\":\"krealloc\",\"start\":\"0x9000\",\"size\":256}]}";

/* Records of two vCPUs. */
struct maker {
	struct kmem_record *records[2];
	size_t n[2];
	int64_t ns;
};

static void alloc(struct maker *maker, unsigned int vcpu, uint64_t ptr, uint64_t site,
		  uint64_t bytes)
{
	maker->records[vcpu][maker->n[vcpu]++] =
		make_alloc(KMEM_TYPE_KMALLOC, ptr, site, bytes, bytes, maker->ns++);
}

static void release(struct maker *maker, unsigned int vcpu, uint64_t ptr, uint64_t site)
{
	maker->records[vcpu][maker->n[vcpu]++] =
		make_free(KMEM_TYPE_KMALLOC, ptr, site, maker->ns++);
}

/* Objects of 0x1000 are freed on the other vCPU, those of 0x2000 every second time. */
static void put_cross_cpu(struct maker *maker)
{
	for (unsigned int i = 0; i < 1500; i++) {
		maker->ns += MS;
		alloc(maker, 0, 0x10000, 0x1000, 64);
		release(maker, 1, 0x10000, 0x1001);
		alloc(maker, 0, 0x20000, 0x2000, 64);
		release(maker, i % 2, 0x20000, 0x2001);
	}
}

/* 0x3000 frees an object a second time, when 0x4000 has it. */
static void put_stale_free(struct maker *maker)
{
	for (unsigned int i = 0; i < 200; i++) {
		maker->ns += MS;
		alloc(maker, 0, 0x30000, 0x3000, 64);
		release(maker, 0, 0x30000, 0x3001);
		alloc(maker, 0, 0x30000, 0x4000, 64);
		release(maker, 0, 0x30000, i == 150 ? 0x3001 : 0x4001);
	}
}

/* 0x5000 allocates 1,500 objects within 5 ms, else one in a ms; 0x6000 always 200 in a ms. */
static void put_storm(struct maker *maker)
{
	for (unsigned int ms = 0; ms < 200; ms++) {
		unsigned int n = ms >= 150 && ms < 155 ? 300 : 1;

		maker->ns += MS / 2;
		for (unsigned int i = 0; i < n; i++) {
			alloc(maker, 0, 0x50000, 0x5000, 64);
			release(maker, 0, 0x50000, 0x5001);
		}
		for (unsigned int i = 0; i < 120; i++) {
			alloc(maker, 1, 0x60000, 0x6000, 64);
			release(maker, 1, 0x60000, 0x6001);
		}
		maker->ns += MS / 2;
	}
}

/* 0xd000 allocates one object in a ms, and 1,200 within 10 ms: half of them are within 10 ms from
 * any one before. */
static void put_storm_between(struct maker *maker)
{
	for (unsigned int ms = 0; ms < 200; ms++, maker->ns += MS)
		for (unsigned int i = 0; i < (ms >= 155 && ms < 165 ? 120 : 1); i++) {
			alloc(maker, 0, 0xd0000, 0xd000, 64);
			release(maker, 0, 0xd0000, 0xd001);
		}
}

/* 0x7000 resizes an object to and fro, 0x8000 makes it larger each time. */
static void put_realloc(struct maker *maker)
{
	alloc(maker, 0, 0x70000, 0x7000, 64);
	alloc(maker, 0, 0x80000, 0x8000, 64);
	for (unsigned int i = 1; i < 20; i++) {
		maker->ns += MS;
		alloc(maker, 0, 0x70000 + i * 0x1000, 0x7000, i % 2 ? 128 : 64);
		release(maker, 0, 0x70000 + (i - 1) * 0x1000, KREALLOC);
		alloc(maker, 0, 0x90000 + i * 0x1000, 0x8000, 64 + i * 8);
		release(maker, 0, i > 1 ? 0x90000 + (i - 1) * 0x1000 : 0x80000, KREALLOC);
	}
}

static json_t *check(void (*put)(struct maker *))
{
	struct scratch dir = scratch_make();
	const char *argv[] = {"check", "--json", dir.path, NULL};
	struct maker maker = {.records = {calloc(MAX, sizeof(struct kmem_record)),
					  calloc(MAX, sizeof(struct kmem_record))}};
	struct verb_result result;
	json_t *root;

	if (!maker.records[0] || !maker.records[1])
		abort();
	put(&maker);
	for (unsigned int vcpu = 0; vcpu < 2; vcpu++) {
		stream_put(dir.path, vcpu, maker.records[vcpu], maker.n[vcpu]);
		free(maker.records[vcpu]);
	}
	file_put(dir.path, "sonde.json", sidecar, strlen(sidecar));
	result = verb_run(cmd_check, argv);
	root = json_loads(result.out, 0, NULL);
	verb_result_deinit(&result);
	scratch_remove(&dir);
	return root;
}

/* The only finding about patterns: its class, count, and the call site of its example. */
static void finds(const char *what, void (*put)(struct maker *), const char *class,
		  const char *call_site)
{
	static const char *const known[] = {"cross-cpu", "free-stale", "storm", "realloc"};
	json_t *root = check(put), *finding;
	unsigned int others = 0;
	bool found = false;
	size_t i;

	json_array_foreach(json_object_get(root, "findings"), i, finding)
	{
		const char *id = json_string_value(json_object_get(finding, "class"));
		const json_t *example = json_array_get(json_object_get(finding, "examples"), 0);
		const char *site = json_string_value(json_object_get(example, "call_site"));

		if (!strcmp(id, class) &&
		    json_integer_value(json_object_get(finding, "count")) == 1 &&
		    !strcmp(site, call_site))
			found = true;
		else
			for (size_t k = 0; k < 4; k++)
				others += !strcmp(id, known[k]);
	}
	if (!ok(found && !others, "%s", what)) {
		char *text = json_dumps(json_object_get(root, "findings"), 0);

		tap_diag("%s", text);
		free(text);
	}
	json_decref(root);
}

int main(void)
{
	finds("a call site whose objects another vCPU frees is noted", put_cross_cpu, "cross-cpu",
	      "0x1000");
	finds("a second free of an object whose address was reused is noted", put_stale_free,
	      "free-stale", "0x3001");
	finds("a storm of allocations is noted, and not what is always so busy", put_storm, "storm",
	      "0x5000");
	finds("a storm is noted wherever it begins", put_storm_between, "storm", "0xd000");
	finds("an object resized to and fro is noted, and not one that only grows", put_realloc,
	      "realloc", "0x9010");
	return tap_done();
}
