/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Makes a long trace of a short one: its allocations and frees again and again, later each time,
 * until there are enough.
 *
 * usage: trace-repeat DIR OUT EVENTS
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/event/kmem.h"
#include "formats/trace/reader.h"
#include "formats/trace/writer.h"

struct entry {
	struct kmem_record record;
	unsigned int vcpu;
};

struct entries {
	struct entry *all;
	size_t n, room;
};

static int add(struct entries *entries, const struct event *event)
{
	struct kmem_record record;
	void *bigger;

	if (!kmem_record_of(event, &record))
		return 0;
	if (entries->n == entries->room) {
		entries->room = entries->room ? 2 * entries->room : 4096;
		bigger = reallocarray(entries->all, entries->room, sizeof(*entries->all));
		if (!bigger)
			return -ENOMEM;
		entries->all = bigger;
	}
	entries->all[entries->n++] = (struct entry){record, event->vcpu};
	return 0;
}

static int load(struct trace_reader *reader, struct entries *entries, struct error *err)
{
	struct event event;
	int ret;

	while ((ret = trace_reader_next(reader, &event, err)) > 0)
		if (add(entries, &event))
			return error_set(err, ENOMEM, "out of memory");
	if (!ret && !entries->n)
		ret = error_set(err, ENOENT, "no allocations and frees");
	return ret;
}

static int put_all(struct trace_writer *writer, const struct entries *entries, uint64_t wanted,
		   struct error *err)
{
	const int64_t begin = entries->all[0].record.timestamp;
	const int64_t round = entries->all[entries->n - 1].record.timestamp - begin + 1000;

	for (uint64_t i = 0; i < wanted; i++) {
		const struct entry *entry = &entries->all[i % entries->n];
		struct kmem_record record = entry->record;
		int ret;

		record.timestamp += round * (int64_t)(i / entries->n);
		ret = trace_writer_append(writer, entry->vcpu, &record);
		if (ret)
			return error_set(err, -ret, "%s", strerror(-ret));
	}
	return 0;
}

static int write_trace(const char *dir, struct trace_reader *reader, const struct entries *entries,
		       uint64_t wanted, struct error *err)
{
	const struct sidecar *sidecar = trace_reader_sidecar(reader);
	struct trace_info info = sidecar ? sidecar->info : (struct trace_info){0};
	struct trace_writer *writer;
	int ret;

	memset(&info.counters, 0, sizeof(info.counters));
	ret = trace_writer_create(dir, trace_reader_vcpu_end(reader), 0, &info, &writer, err);
	if (ret)
		return ret;
	for (size_t i = 0; !ret && sidecar && i < sidecar->nr_caches; i++)
		ret = trace_writer_adopt_cache(writer, &sidecar->caches[i]);
	if (!ret)
		ret = put_all(writer, entries, wanted, err);
	if (!ret)
		ret = trace_writer_finish(writer, &info, site_function_again, (void *)(uintptr_t)sidecar,
					  err);
	trace_writer_destroy(writer);
	return ret;
}

int main(int argc, char **argv)
{
	struct entries entries = {0};
	struct trace_reader *reader;
	struct error err;
	uint64_t wanted;
	int ret;

	if (argc != 4 || text_parse_u64(argv[3], INT64_MAX, &wanted)) {
		fputs("usage: trace-repeat DIR OUT EVENTS\n", stderr);
		return 2;
	}
	ret = trace_reader_open(argv[1], &reader, &err);
	if (!ret) {
		ret = load(reader, &entries, &err);
		if (!ret)
			ret = write_trace(argv[2], reader, &entries, wanted, &err);
		trace_reader_close(reader);
	}
	free(entries.all);
	if (ret)
		fprintf(stderr, "trace-repeat: %s\n", err.text);
	return ret != 0;
}
