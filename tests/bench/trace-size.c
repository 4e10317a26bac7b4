/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Prints the bytes on disk of a trace's events, and the bytes that the same events take in ftrace's
 * ring buffer and in an LTTng trace, as one JSON object.
 *
 * usage: trace-size DIR
 *
 * For Sonde, whole files are counted. For the others, events are counted without their pages,
 * packets and time extensions, computed from the fields of Linux 6.1 (include/trace/events/kmem.h)
 * and of lttng-modules 2.13 for it (instrumentation/events/kmem.h).
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "formats/event/kmem.h"
#include "formats/trace/reader.h"

enum {
	TRACE_ENTRY = 8, /* struct trace_entry, before every event's fields */
	MAX_FIELDS = 8,
	UNNAMED = 8, /* assumed bytes of an unknown cache name, with its NUL */
};

/* Sizes of an event's fields. In events of kmem_cache_free the cache's name follows. */
struct layout {
	uint8_t ftrace[MAX_FIELDS], lttng[MAX_FIELDS];
	bool has_name;
};

/* By event_id - 1 and type_id. In ftrace the name is a field of 4 bytes and a string at the end. */
static const struct layout layouts[2][KMEM_TYPE_COUNT] = {
	{
		{{8, 8, 8, 8, 8, 4}, {8, 8, 8, 8, 4, 4, 1}, false},    /* kmalloc */
		{{8, 8, 8, 8, 8, 4, 1}, {8, 8, 8, 8, 4, 4, 1}, false}, /* kmem_cache_alloc */
		{{8, 4, 8, 4}, {8, 8, 4, 4, 4}, false},                /* mm_page_alloc */
	},
	{
		{{8, 8}, {8, 8}, false},    /* kfree */
		{{8, 8, 4}, {8, 8}, true},  /* kmem_cache_free */
		{{8, 4}, {8, 8, 4}, false}, /* mm_page_free */
	},
};

static uint64_t align_up(uint64_t value, uint64_t to)
{
	return (value + to - 1) / to * to;
}

/* A header of 4 bytes, the C structure and the string, rounded up to a multiple of 4. */
static uint64_t ftrace_size(const struct layout *layout, size_t name)
{
	uint64_t size = TRACE_ENTRY;

	for (size_t i = 0; layout->ftrace[i]; i++)
		size = align_up(size, layout->ftrace[i]) + layout->ftrace[i];
	return 4 + align_up(align_up(size, 8) + (layout->has_name ? name : 0), 4);
}

/* The compact header of 4 bytes and the packed fields. */
static uint64_t lttng_size(const struct layout *layout, size_t name)
{
	uint64_t size = 4;

	for (size_t i = 0; layout->lttng[i]; i++)
		size += layout->lttng[i];
	return size + (layout->has_name ? name : 0);
}

struct sums {
	uint64_t events, skipped;
	uint64_t sonde, metadata, ftrace, lttng; /* bytes */
};

static void add_event(struct sums *sums, const struct sidecar *sidecar,
		      const struct kmem_record *record)
{
	const struct sidecar_cache *cache = sidecar_cache(sidecar, record->cache);
	size_t name = cache ? strlen(cache->name) + 1 : UNNAMED;
	const struct layout *layout;

	if (record->event_id < 1 || record->event_id > 2 || record->type_id >= KMEM_TYPE_COUNT) {
		sums->skipped++;
		return;
	}
	layout = &layouts[record->event_id - 1][record->type_id];
	sums->events++;
	sums->ftrace += ftrace_size(layout, name);
	sums->lttng += lttng_size(layout, name);
}

static int add_files(struct sums *sums, const char *path)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;

	if (!dir)
		return -1;
	while ((entry = readdir(dir))) {
		struct stat st;

		if (fstatat(dirfd(dir), entry->d_name, &st, 0) || !S_ISREG(st.st_mode))
			continue;
		/* cpu0.NAME is of another instance */
		if (!strncmp(entry->d_name, "cpu", 3) || !strncmp(entry->d_name, "caches", 6))
			sums->sonde += strchr(entry->d_name, '.') ? 0 : (uint64_t)st.st_size;
		else
			sums->metadata += (uint64_t)st.st_size;
	}
	closedir(dir);
	return 0;
}

static void print(const struct sums *s)
{
	double n = s->events ? (double)s->events : 1;

	printf("{\"events\": %" PRIu64 ", \"skipped\": %" PRIu64 ", \"bytes\": %" PRIu64
	       ", \"metadata_bytes\": %" PRIu64 ", \"bytes_per_event\": %.2f"
	       ", \"ftrace_bytes_per_event\": %.2f, \"lttng_bytes_per_event\": %.2f"
	       ", \"of_ftrace\": %.3f, \"of_lttng\": %.3f}\n",
	       s->events, s->skipped, s->sonde, s->metadata, (double)s->sonde / n,
	       (double)s->ftrace / n, (double)s->lttng / n,
	       s->ftrace ? (double)s->sonde / (double)s->ftrace : 0,
	       s->lttng ? (double)s->sonde / (double)s->lttng : 0);
}

int main(int argc, char **argv)
{
	struct trace_reader *reader;
	struct kmem_record record;
	struct event event;
	struct sums sums = {0};
	struct error err;
	int ret;

	if (argc != 2) {
		fputs("usage: trace-size DIR\n", stderr);
		return 2;
	}
	ret = trace_reader_open(argv[1], &reader, &err);
	if (!ret) {
		while ((ret = trace_reader_next(reader, &event, &err)) > 0)
			if (kmem_record_of(&event, &record))
				add_event(&sums, trace_reader_sidecar(reader), &record);
		trace_reader_close(reader);
	}
	if (ret || add_files(&sums, argv[1])) {
		fprintf(stderr, "trace-size: %s\n", ret ? err.text : argv[1]);
		return 1;
	}
	print(&sums);
	return 0;
}
