/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/trace/convert.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct conversion {
	struct trace_reader *reader;
	struct trace_writer *writer;
	uint8_t adopted[(UINT16_MAX + 1) / 8]; /* bit set of cache ids */
};

static unsigned int count_vcpus(const struct trace_reader *reader)
{
	const struct sidecar *sidecar = trace_reader_sidecar(reader);
	unsigned int n = sidecar ? (unsigned int)sidecar->nr_vcpus : 0;

	for (size_t i = 0; i < trace_reader_nr_streams(reader); i++) {
		struct trace_stream_info info;

		trace_reader_stream_info(reader, i, &info);
		if (info.vcpu >= n)
			n = info.vcpu + 1;
	}
	return n;
}

static int adopt(struct conversion *c, const struct sidecar_cache *cache)
{
	uint8_t bit = (uint8_t)(1u << cache->id % 8);

	if (c->adopted[cache->id / 8] & bit)
		return 0;
	c->adopted[cache->id / 8] |= bit;
	return trace_writer_adopt_cache(c->writer, cache);
}

/* Caches that the sidecar does not know yet come with the events. */
static int adopt_one(struct conversion *c, uint16_t id)
{
	const struct sidecar_cache *cache = NULL;

	if (id && !(c->adopted[id / 8] & 1u << id % 8))
		cache = sidecar_cache(trace_reader_sidecar(c->reader), id);
	return cache ? adopt(c, cache) : 0;
}

static int adopt_all(struct conversion *c)
{
	const struct sidecar *sidecar = trace_reader_sidecar(c->reader);
	int ret = 0;

	for (size_t i = 0; !ret && sidecar && i < sidecar->nr_caches; i++)
		ret = adopt(c, &sidecar->caches[i]);
	return ret;
}

static int copy_records(struct conversion *c, struct convert_result *result, struct error *err)
{
	struct trace_event event;
	int ret;

	while ((ret = trace_reader_next(c->reader, &event, err)) > 0) {
		if (adopt_one(c, event.record.cache))
			return error_set(err, ENOMEM, "out of memory");
		ret = trace_writer_append(c->writer, event.vcpu, &event.record);
		if (ret)
			return error_set(err, -ret, "cpu%u: cannot write: %s", event.vcpu,
					 strerror(-ret));
		result->records++;
	}
	return ret;
}

/* By vCPU as far as the source tells it; the rest, which it has only as a sum, goes to vCPU 0. */
static void copy_overruns(struct conversion *c, uint64_t total)
{
	const struct sidecar *sidecar = trace_reader_sidecar(c->reader);
	uint64_t sum = 0;

	for (size_t i = 0; i < trace_reader_nr_streams(c->reader); i++) {
		struct trace_stream_info info;
		uint64_t n;

		trace_reader_stream_info(c->reader, i, &info);
		n = info.discarded;
		if (sidecar && info.vcpu < sidecar->nr_vcpus &&
		    sidecar->vcpus[info.vcpu].overruns > n)
			n = sidecar->vcpus[info.vcpu].overruns;
		if (n > total - sum)
			n = total - sum;
		trace_writer_add_overruns(c->writer, info.vcpu, n);
		sum += n;
	}
	trace_writer_add_overruns(c->writer, 0, total - sum);
}

static int symbolize(void *arg, uint64_t address, char *name, size_t name_size, uint64_t *start,
		     uint64_t *size)
{
	const struct sidecar_symbol *symbol = sidecar_symbol(arg, address);

	if (!symbol)
		return -ENOENT;
	snprintf(name, name_size, "%s", symbol->name);
	*start = symbol->start;
	*size = symbol->size;
	return 0;
}

static struct trace_info info_of(const struct trace_reader *reader)
{
	const struct sidecar *sidecar = trace_reader_sidecar(reader);

	return sidecar ? sidecar->info : (struct trace_info){0};
}

static int copy(struct conversion *c, struct convert_result *result, struct error *err)
{
	struct trace_info info = info_of(c->reader);
	int ret = adopt_all(c);

	if (ret)
		return error_set(err, ENOMEM, "out of memory");
	ret = copy_records(c, result, err);
	if (ret)
		return ret;
	trace_reader_losses(c->reader, &result->losses);
	result->cut = trace_reader_cut(c->reader);
	copy_overruns(c, result->losses.counters.v[COUNTER_OVERRUNS]);
	info.cut = result->cut || result->losses.unfinished;
	return trace_writer_finish(c->writer, &info, symbolize,
				   (void *)(uintptr_t)trace_reader_sidecar(c->reader), err);
}

int convert_trace(struct trace_reader *reader, const char *dir, enum trace_encoding encoding,
		  struct convert_result *result, struct error *err)
{
	struct conversion c = {.reader = reader};
	struct trace_info info = info_of(reader);
	int ret;

	*result = (struct convert_result){0};
	ret = trace_writer_create(dir, count_vcpus(reader), encoding, &info, &c.writer, err);
	if (ret)
		return ret;
	ret = copy(&c, result, err);
	trace_writer_destroy(c.writer);
	return ret;
}
