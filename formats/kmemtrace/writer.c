/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/fs.h"
#include "formats/kmemtrace/kmemtrace.h"

/* --- one vCPU: the files cpu<n> and caches<n> ------------------------------------------------- */

/* A packet has records, and behind them their cache ids, little-endian. */
enum {
	CACHE_SIZE = sizeof(uint16_t),
	RECORDS_MAX = 65536 / (KMEMTRACE_RECORD_SIZE + CACHE_SIZE),
	RECENT_SITES = 1024,
	FILE_NAME_SIZE = 32,
};

struct kmemtrace_file {
	struct output_file base;
	int records_fd, caches_fd;
	uint64_t written; /* records in the files */
};

struct kmemtrace_writer {
	struct stream_writer base;
	struct kmemtrace_file file;
	int dir_fd;
	unsigned int vcpu;
	struct call_sites *sites;
	uint64_t recent[RECENT_SITES]; /* some that `sites` was told of, by hash; 0: none */
	size_t nr_records;             /* gathered */
	uint8_t records[RECORDS_MAX * KMEMTRACE_RECORD_SIZE];
	uint16_t caches[RECORDS_MAX];
};

static void name_file(const struct kmemtrace_writer *stream, const char *prefix, char *name)
{
	snprintf(name, FILE_NAME_SIZE, "%s%u", prefix, stream->vcpu);
}

static int create_file(const struct kmemtrace_writer *stream, const char *prefix)
{
	char name[FILE_NAME_SIZE];

	name_file(stream, prefix, name);
	return output_file_create(stream->dir_fd, name);
}

static void remove_file(const struct kmemtrace_writer *stream, const char *prefix, int *fd)
{
	char name[FILE_NAME_SIZE];

	if (*fd < 0)
		return;
	close(*fd);
	*fd = -1;
	name_file(stream, prefix, name);
	unlinkat(stream->dir_fd, name, 0);
}

static void remove_files(struct stream_writer *base)
{
	struct kmemtrace_writer *stream = (struct kmemtrace_writer *)base;

	if (stream->file.written)
		return;
	remove_file(stream, "cpu", &stream->file.records_fd);
	remove_file(stream, "caches", &stream->file.caches_fd);
}

static int create_files(struct stream_writer *base)
{
	struct kmemtrace_writer *stream = (struct kmemtrace_writer *)base;
	struct kmemtrace_file *file = &stream->file;
	int ret = 0;

	if (file->records_fd >= 0)
		return 0;
	file->records_fd = create_file(stream, "cpu");
	if (file->records_fd >= 0)
		file->caches_fd = create_file(stream, "caches");
	if (file->records_fd < 0)
		ret = file->records_fd;
	else if (file->caches_fd < 0)
		ret = file->caches_fd;
	if (ret)
		remove_files(base);
	return ret;
}

static struct kmemtrace_writer *writer_of(struct output_file *file)
{
	return (struct kmemtrace_writer *)((char *)file -
					   offsetof(struct kmemtrace_writer, file.base));
}

static int cut_back(const struct kmemtrace_file *file)
{
	if (ftruncate(file->caches_fd, (off_t)(file->written * CACHE_SIZE)) ||
	    ftruncate(file->records_fd, (off_t)(file->written * KMEMTRACE_RECORD_SIZE)))
		return -errno;
	return 0;
}

/* The cache ids go first, so that no record lacks its own. */
static int write_packet(struct output_file *base, void *packet, size_t size)
{
	struct kmemtrace_writer *stream = writer_of(base);
	struct kmemtrace_file *file = &stream->file;
	const size_t n = size / (KMEMTRACE_RECORD_SIZE + CACHE_SIZE);
	const uint8_t *caches = (const uint8_t *)packet + n * KMEMTRACE_RECORD_SIZE;
	size_t done;
	int cut, ret = create_files(&stream->base);

	if (ret)
		return ret;
	ret = file_write_at(file->caches_fd, caches, n * CACHE_SIZE, file->written * CACHE_SIZE,
			    &done);
	if (!ret)
		ret = file_write_at(file->records_fd, packet, n * KMEMTRACE_RECORD_SIZE,
				    file->written * KMEMTRACE_RECORD_SIZE, &done);
	if (!ret) {
		file->written += n;
		return 0;
	}
	cut = cut_back(file);
	return cut ? cut : ret;
}

static int flush(struct stream_writer *base)
{
	struct kmemtrace_writer *stream = (struct kmemtrace_writer *)base;
	const size_t n = stream->nr_records, records = n * KMEMTRACE_RECORD_SIZE;
	const size_t caches = n * CACHE_SIZE;
	uint8_t *packet;
	int ret;

	if (!n)
		return 0;
	ret = output_room(base->output, records + caches);
	if (ret)
		return ret;
	packet = output_packet_new(records + caches);
	if (!packet)
		return -ENOMEM;
	memcpy(packet, stream->records, records);
	memcpy(packet + records, stream->caches, caches);
	ret = stream_writer_put(base, packet, records + caches);
	if (ret)
		output_packet_free(packet);
	else
		stream->nr_records = 0;
	return ret;
}

static int prepare(struct stream_writer *base, int64_t ns)
{
	int ret = flush(base);

	(void)ns;
	base->ready = !ret;
	return ret;
}

static void note_site(struct kmemtrace_writer *stream, uint64_t site)
{
	uint64_t *recent = &stream->recent[site * 0x9e3779b97f4a7c15 >> 32 & (RECENT_SITES - 1)];

	if (*recent == site && site)
		return;
	call_sites_note(stream->sites, site);
	*recent = site;
}

static int put(struct stream_writer *base, unsigned int class_index, int64_t ns, const void *bytes)
{
	struct kmemtrace_writer *stream = (struct kmemtrace_writer *)base;
	struct kmem_record record;
	size_t n;

	kmem_record_of(
		&(struct event){.class = &kmem_classes[class_index], .ns = ns, .bytes = bytes},
		&record);
	n = stream->nr_records++;
	kmemtrace_encode(&record, stream->records + n * KMEMTRACE_RECORD_SIZE);
	stream->caches[n] = htole16(record.cache);
	base->ready = stream->nr_records < RECORDS_MAX;
	base->gathered.n[class_index]++;
	note_site(stream, record.call_site);
	return 0;
}

static uint64_t discard(struct stream_writer *base)
{
	struct kmemtrace_writer *stream = (struct kmemtrace_writer *)base;
	uint64_t nr_packets;

	stream->nr_records = 0;
	return stream_writer_forget(base, &nr_packets);
}

static void destroy_stream(struct stream_writer *base)
{
	struct kmemtrace_writer *stream = (struct kmemtrace_writer *)base;

	if (stream->file.records_fd >= 0)
		close(stream->file.records_fd);
	if (stream->file.caches_fd >= 0)
		close(stream->file.caches_fd);
	free(stream);
}

static const struct stream_writer_ops stream_ops = {.prepare = prepare,
						    .put = put,
						    .flush = flush,
						    .discard = discard,
						    .create_files = create_files,
						    .remove_files = remove_files,
						    .destroy = destroy_stream};

/* --- the trace: abi_version and total_overruns ------------------------------------------------ */

struct kmemtrace_encoder {
	struct trace_encoder base;
	int dir_fd;
	struct call_sites *sites;
	struct output *output;
	bool has_instance;
};

/* In the order of kmem_classes. */
static bool has_records(const struct trace_instance *instance)
{
	bool has = instance->nr_classes == KMEM_NR_CLASSES;

	for (size_t i = 0; has && i < KMEM_NR_CLASSES; i++)
		has = kmem_known_class(&instance->classes[i]) == &kmem_classes[i];
	return has;
}

/* The ABI has one stream per vCPU, of these events only. */
static int check(const struct trace_instance *instances, size_t n, struct error *err)
{
	char more[64];

	for (size_t i = 0; i < n; i++) {
		if (!has_records(&instances[i]))
			return error_set(err, EINVAL,
					 "%s: the format kmemtrace has no events but those of "
					 "kmem; use ctf",
					 instances[i].name);
		kmem_print_more_fields(&instances[i], more, sizeof(more));
		if (*more)
			return error_set(err, EINVAL,
					 "%s: the format kmemtrace has no room for %s; use ctf",
					 instances[i].name, more);
	}
	if (n > 1)
		return error_set(err, EINVAL,
				 "%s: the format kmemtrace holds one instance; use ctf",
				 instances[1].name);
	return 0;
}

static int add_instance(struct trace_encoder *base, const struct trace_instance *instance,
			struct error *err)
{
	struct kmemtrace_encoder *encoder = (struct kmemtrace_encoder *)base;
	const struct trace_instance both[] = {*instance, *instance};
	int ret = check(both, encoder->has_instance ? 2 : 1, err);

	encoder->has_instance |= !ret;
	return ret;
}

static int add_stream(struct trace_encoder *base, unsigned int instance, unsigned int vcpu,
		      struct stream_writer **out)
{
	struct kmemtrace_encoder *encoder = (struct kmemtrace_encoder *)base;
	struct kmemtrace_writer *stream = calloc(1, sizeof(*stream));
	int ret;

	(void)instance;
	if (!stream)
		return -ENOMEM;
	stream->base.ops = &stream_ops;
	stream->sites = encoder->sites;
	stream->file.base.write = write_packet;
	stream->file.records_fd = stream->file.caches_fd = -1;
	stream->dir_fd = encoder->dir_fd;
	stream->vcpu = vcpu;
	ret = output_add(encoder->output, &stream->file.base, &stream->base.output);
	if (ret) {
		destroy_stream(&stream->base);
		return ret;
	}
	*out = &stream->base;
	return 0;
}

/*
 * Overwrites in place, without truncating: a full disk has room for that. The number only grows,
 * so nothing of a longer one is left behind it.
 */
static int write_number(int dir_fd, const char *name, uint64_t number, struct error *err)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%" PRIu64 "\n", number);
	int fd = output_file_open(dir_fd, name);
	size_t done;
	int ret;

	if (fd < 0)
		return error_set(err, -fd, "%s: %s", name, strerror(-fd));
	ret = file_write_at(fd, text, (size_t)n, 0, &done);
	if (close(fd) && !ret)
		ret = -errno;
	return ret ? error_set(err, -ret, "%s: %s", name, strerror(-ret)) : 0;
}

static int describe(struct trace_encoder *base, const struct sidecar *sidecar, struct error *err)
{
	const struct kmemtrace_encoder *encoder = (struct kmemtrace_encoder *)base;
	uint64_t overruns = 0;
	int ret = write_number(encoder->dir_fd, "abi_version", KMEMTRACE_ABI_VERSION, err);

	for (size_t i = 0; i < sidecar->nr_vcpus; i++)
		overruns += sidecar->vcpus[i].overruns;
	return ret ? ret
		   : write_number(encoder->dir_fd, "total_overruns",
				  overruns * KMEMTRACE_RECORD_SIZE, err);
}

static void destroy(struct trace_encoder *base)
{
	free(base);
}

static int create(const struct encoder_input *input, struct trace_encoder **out)
{
	struct kmemtrace_encoder *encoder = calloc(1, sizeof(*encoder));

	if (!encoder)
		return -ENOMEM;
	encoder->base.ops = &kmemtrace_encoder;
	encoder->dir_fd = input->dir_fd;
	encoder->sites = input->sites;
	encoder->output = input->output;
	*out = &encoder->base;
	return 0;
}

const struct encoder_ops kmemtrace_encoder = {.sidecar_name = SIDECAR_NAME,
					      .check = check,
					      .create = create,
					      .add_instance = add_instance,
					      .add_stream = add_stream,
					      .describe = describe,
					      .destroy = destroy};
