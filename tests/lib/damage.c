/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/damage.h"

#include <stdlib.h>
#include <string.h>
#include "formats/trace/writer.h"
#include "tests/lib/trace-make.h"

enum {
	FLUSH = 60, /* records of a packet */
	OBJECTS = 512,
	MOST = 64,   /* bytes that one damage concerns */
	DAMAGES = 3, /* of a file, at most */
};

void damage_make_records(struct kmem_record *records, size_t n, unsigned int bits)
{
	const uint64_t base = bits == 32 ? 0xc0000000 : 0xffff888000000000;
	const uint64_t text = bits == 32 ? 0xc1000000 : 0xffffffff81000000;
	bool live[OBJECTS] = {false};
	unsigned int seed = bits;

	for (size_t i = 0; i < n; i++) {
		const size_t object = (size_t)rand_r(&seed) % OBJECTS;
		const uint64_t ptr = base + object * 64;
		const uint64_t site = text + (uint64_t)(rand_r(&seed) % 50) * 32;
		const int64_t ns = 1000 * (int64_t)i;

		records[i] = live[object] ? make_free(KMEM_TYPE_KMALLOC, ptr, site, ns)
					  : make_alloc(KMEM_TYPE_KMALLOC, ptr, site, 60, 64, ns);
		live[object] = !live[object];
	}
}

/* With a sidecar that counts the events. */
void damage_make_trace(const char *dir, size_t n)
{
	static struct kmem_record records[DAMAGE_MOST_RECORDS];
	struct trace_info info = {.banner = "Linux version 6.1.0", .page_size = 4096};
	struct trace_writer *writer;

	damage_make_records(records, n, 64);
	if (trace_writer_create(dir, 1, 0, &info, &writer, NULL))
		abort();
	for (size_t i = 0; i < n; i++) {
		if (trace_writer_append(writer, 0, &records[i]) ||
		    (i % FLUSH == 0 && trace_writer_flush(writer, NULL)))
			abort();
	}
	if (trace_writer_finish(writer, &info, NULL, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

static void mutate(char *bytes, size_t *size, unsigned int *seed)
{
	size_t at = (size_t)rand_r(seed) % *size, n = 1 + (size_t)rand_r(seed) % MOST;

	n = n < *size - at ? n : *size - at;
	switch (rand_r(seed) % 4) {
	case 0:
		memmove(bytes + at, bytes + at + n, *size - at - n);
		*size -= n;
		break;
	case 1:
		memmove(bytes + at + n, bytes + at, *size - at);
		*size += n;
		break;
	case 2:
		for (size_t i = 0; i < n; i++)
			bytes[at + i] = (char)rand_r(seed);
		break;
	default:
		bytes[at] = (char)(bytes[at] ^ 1 << rand_r(seed) % 8);
	}
}

bool damage_put(const char *dir, const char *name, const void *bytes, size_t size, uint64_t round)
{
	unsigned int seed = (unsigned int)round;
	const size_t whole = size;
	char *copy = malloc(size + DAMAGES * MOST);
	bool differs;

	if (!copy)
		abort();
	memcpy(copy, bytes, size);
	for (int i = 0; i <= (int)round % DAMAGES && size; i++)
		mutate(copy, &size, &seed);
	differs = size != whole || memcmp(copy, bytes, size) != 0;
	file_put(dir, name, copy, size);
	free(copy);
	return differs;
}

uint64_t damage_setting(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}
