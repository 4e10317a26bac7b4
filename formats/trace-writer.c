/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/trace-writer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "formats/cache-table.h"
#include "formats/kmemtrace.h"
#include "formats/sidecar.h"
#include "formats/stream-writer.h"
#include "formats/trace-symbols.h"
#include "formats/u64-map.h"

enum {
	MAX_CALL_SITES = 1 << 18, /* per vCPU; a kernel has fewer: more is a guest's nonsense */
	RESERVED_BYTES = 256 << 10,
};

struct vcpu_stream {
	pthread_mutex_t lock;
	struct sidecar_vcpu counts;
	struct u64_map call_sites;
	struct stream_writer out;
};

struct trace_writer {
	int dir_fd;
	struct trace_info info;
	unsigned int nr_vcpus; /* initialised entries of streams */
	struct vcpu_stream *streams;

	pthread_mutex_t caches_lock;
	struct cache_table caches;

	pthread_mutex_t error_lock;
	atomic_bool failed; /* error is set, and constant from now on */
	struct error error;
};

/* Keep the first failure for trace_writer_error(). Returns ret. */
static int keep_error(struct trace_writer *writer, int ret, const char *what, unsigned int vcpu)
{
	pthread_mutex_lock(&writer->error_lock);
	if (ret && !writer->failed) {
		error_set(&writer->error, -ret, "%s%u: cannot write: %s", what, vcpu,
			  strerror(-ret));
		writer->failed = true;
	}
	pthread_mutex_unlock(&writer->error_lock);
	return ret;
}

static int check_empty(int dir_fd, const char *dir, struct error *err)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	bool empty = true;

	if (!entries) {
		int code = errno;

		if (fd >= 0)
			close(fd);
		return error_set(err, code, "%s: %s", dir, strerror(code));
	}
	while (empty && (entry = readdir(entries)))
		empty = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..");
	closedir(entries);
	if (!empty)
		return error_set(err, ENOTEMPTY, "%s: directory not empty; name a new one", dir);
	return 0;
}

static int open_directory(const char *dir, struct error *err)
{
	int fd, ret;

	if (mkdir(dir, 0777) && errno != EEXIST)
		return error_set(err, errno, "%s: cannot create directory: %s", dir,
				 strerror(errno));
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno, "%s: %s", dir, strerror(errno));
	ret = check_empty(fd, dir, err);
	if (!ret && faccessat(fd, ".", W_OK | X_OK, 0))
		ret = error_set(err, errno, "%s: cannot write there: %s", dir, strerror(errno));
	if (ret) {
		close(fd);
		return ret;
	}
	return fd;
}

/*
 * Overwrites in place, without truncating: a full disk has room for that. The number only grows,
 * so it has no remains of a longer one behind it.
 */
static int write_number(struct trace_writer *writer, const char *name, uint64_t number)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%" PRIu64 "\n", number);
	int fd = openat(writer->dir_fd, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
	ssize_t done;
	int ret = 0;

	if (fd < 0)
		return -errno;
	done = pwrite(fd, text, (size_t)n, 0);
	if (done != n)
		ret = done < 0 ? -errno : -ENOSPC;
	if (close(fd) && !ret)
		ret = -errno;
	return ret;
}

static uint64_t sum_overruns(const struct trace_writer *writer)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < writer->nr_vcpus; i++) {
		struct trace_writer_counts counts;

		trace_writer_counts(writer, i, &counts);
		sum += counts.overruns;
	}
	return sum;
}

static int write_overruns(struct trace_writer *writer)
{
	return write_number(writer, "total_overruns", sum_overruns(writer) * KMEMTRACE_RECORD_SIZE);
}

static int write_sidecar(struct trace_writer *writer, bool complete,
			 const struct trace_symbols *symbols, struct error *err)
{
	struct sidecar sidecar = {
		.info = writer->info,
		.complete = complete,
		.vcpus = calloc(writer->nr_vcpus, sizeof(*sidecar.vcpus)),
		.nr_vcpus = writer->nr_vcpus,
		.caches = writer->caches.items,
		.nr_caches = writer->caches.count,
		.symbols = symbols->items,
		.nr_symbols = symbols->count,
	};
	int ret;

	if (!sidecar.vcpus)
		return error_set(err, ENOMEM, "out of memory");
	for (unsigned int i = 0; i < writer->nr_vcpus; i++)
		sidecar.vcpus[i] = writer->streams[i].counts;
	ret = sidecar_write(writer->dir_fd, &sidecar, err);
	free(sidecar.vcpus);
	return ret;
}

static int write_first_sidecar(struct trace_writer *writer, struct error *err)
{
	const struct trace_symbols none = {0};
	int ret = write_sidecar(writer, false, &none, err);

	if (!ret)
		sidecar_reserve(writer->dir_fd, RESERVED_BYTES);
	return ret;
}

static int init_files(struct trace_writer *writer, unsigned int nr_vcpus, struct error *err)
{
	int ret = write_number(writer, "abi_version", KMEMTRACE_ABI_VERSION);

	ret = ret ? ret : write_overruns(writer);
	for (unsigned int i = 0; !ret && i < nr_vcpus; i++) {
		struct vcpu_stream *stream = &writer->streams[i];

		pthread_mutex_init(&stream->lock, NULL);
		u64_map_init(&stream->call_sites, 0);
		ret = stream_writer_init(&stream->out, writer->dir_fd, i);
		writer->nr_vcpus++;
	}
	if (ret)
		return error_set(err, -ret, "cannot create its files: %s", strerror(-ret));
	return write_first_sidecar(writer, err);
}

int trace_writer_set_info(struct trace_writer *writer, const struct trace_info *info,
			  struct error *err)
{
	writer->info = *info;
	return write_first_sidecar(writer, err);
}

int trace_writer_prepare(const char *dir, struct error *err)
{
	int fd = open_directory(dir, err);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

int trace_writer_create(const char *dir, unsigned int nr_vcpus, const struct trace_info *info,
			struct trace_writer **out, struct error *err)
{
	struct trace_writer *writer;
	int ret;

	if (!nr_vcpus || nr_vcpus > KMEMTRACE_MAX_VCPUS)
		return error_set(err, EINVAL, "%s: %u streams asked for, 1 to %d are possible", dir,
				 nr_vcpus, KMEMTRACE_MAX_VCPUS);
	ret = open_directory(dir, err);
	if (ret < 0)
		return ret;
	writer = calloc(1, sizeof(*writer));
	if (!writer) {
		close(ret);
		return error_set(err, ENOMEM, "%s: out of memory", dir);
	}
	writer->dir_fd = ret;
	writer->info = *info;
	pthread_mutex_init(&writer->caches_lock, NULL);
	pthread_mutex_init(&writer->error_lock, NULL);
	cache_table_init(&writer->caches);
	writer->streams = calloc(nr_vcpus, sizeof(*writer->streams));
	ret = writer->streams ? init_files(writer, nr_vcpus, err)
			      : error_set(err, ENOMEM, "out of memory");
	if (ret) {
		error_prefix(err, "%s: ", dir);
		trace_writer_destroy(writer);
		return ret;
	}
	*out = writer;
	return 0;
}

void trace_writer_destroy(struct trace_writer *writer)
{
	if (!writer)
		return;
	for (unsigned int i = 0; i < writer->nr_vcpus; i++) {
		stream_writer_deinit(&writer->streams[i].out);
		u64_map_deinit(&writer->streams[i].call_sites);
		pthread_mutex_destroy(&writer->streams[i].lock);
	}
	cache_table_deinit(&writer->caches);
	pthread_mutex_destroy(&writer->caches_lock);
	pthread_mutex_destroy(&writer->error_lock);
	free(writer->streams);
	close(writer->dir_fd);
	free(writer);
}

int trace_writer_append(struct trace_writer *writer, unsigned int vcpu,
			const struct kmem_record *record)
{
	struct vcpu_stream *stream;
	int ret;

	if (vcpu >= writer->nr_vcpus)
		return -EINVAL;
	stream = &writer->streams[vcpu];
	pthread_mutex_lock(&stream->lock);
	ret = stream_writer_append(&stream->out, record);
	if (ret)
		stream->counts.overruns++;
	else if (record->event_id == KMEM_EVENT_ALLOC)
		stream->counts.allocs++;
	else
		stream->counts.frees++;
	/* Without memory the call site merely stays without a name. */
	if (!ret && stream->call_sites.count < MAX_CALL_SITES)
		u64_map_insert(&stream->call_sites, record->call_site, NULL);
	pthread_mutex_unlock(&stream->lock);
	return ret ? keep_error(writer, ret, "cpu", vcpu) : 0;
}

uint16_t trace_writer_cache_id(struct trace_writer *writer, const char *name, uint64_t object_size,
			       uint64_t size)
{
	uint16_t id;

	pthread_mutex_lock(&writer->caches_lock);
	id = cache_table_id(&writer->caches, name, object_size, size);
	pthread_mutex_unlock(&writer->caches_lock);
	return id;
}

int trace_writer_flush(struct trace_writer *writer, struct error *err)
{
	int first = 0;

	for (unsigned int i = 0; i < writer->nr_vcpus; i++) {
		struct vcpu_stream *stream = &writer->streams[i];
		int ret;

		pthread_mutex_lock(&stream->lock);
		ret = stream_writer_flush(&stream->out);
		pthread_mutex_unlock(&stream->lock);
		if (ret)
			keep_error(writer, ret, "cpu", i);
		if (ret && !first)
			first = error_set(err, -ret, "cpu%u: cannot write: %s", i, strerror(-ret));
	}
	return first;
}

const struct error *trace_writer_error(const struct trace_writer *writer)
{
	return writer->failed ? &writer->error : NULL;
}

void trace_writer_counts(const struct trace_writer *writer, unsigned int vcpu,
			 struct trace_writer_counts *out)
{
	struct vcpu_stream *stream = &writer->streams[vcpu];

	pthread_mutex_lock(&stream->lock);
	out->allocs = stream->counts.allocs;
	out->frees = stream->counts.frees;
	out->overruns = stream->counts.overruns;
	pthread_mutex_unlock(&stream->lock);
}

/* What could not be written by now never will be: count it as dropped. */
static void drop_unwritten(struct vcpu_stream *stream)
{
	uint64_t allocs = 0, frees = 0;

	pthread_mutex_lock(&stream->lock);
	stream_writer_drop(&stream->out, &allocs, &frees);
	stream->counts.allocs -= allocs;
	stream->counts.frees -= frees;
	stream->counts.overruns += allocs + frees;
	pthread_mutex_unlock(&stream->lock);
}

static int collect_symbols(struct trace_writer *writer, trace_symbolize_fn *symbolize, void *arg,
			   struct trace_symbols *symbols)
{
	struct u64_map all;
	int ret = 0;

	u64_map_init(&all, 0);
	for (unsigned int i = 0; symbolize && i < writer->nr_vcpus; i++) {
		size_t pos = 0;
		uint64_t address;

		while (!ret && u64_map_next(&writer->streams[i].call_sites, &pos, &address))
			ret = u64_map_insert(&all, address, NULL) ? 0 : -ENOMEM;
	}
	if (!ret && symbolize)
		ret = trace_symbols_init(symbols, &all, symbolize, arg);
	u64_map_deinit(&all);
	return ret;
}

int trace_writer_finish(struct trace_writer *writer, const struct trace_info *info,
			trace_symbolize_fn *symbolize, void *arg, struct error *err)
{
	struct trace_symbols symbols = {0};
	int ret = trace_writer_flush(writer, err);
	int next;

	for (unsigned int i = 0; i < writer->nr_vcpus; i++)
		drop_unwritten(&writer->streams[i]);
	next = write_overruns(writer);
	if (next && !ret)
		ret = error_set(err, -next, "total_overruns: %s", strerror(-next));
	writer->info = *info;
	next = collect_symbols(writer, symbolize, arg, &symbols);
	if (next && !ret)
		ret = error_set(err, -next, "symbols: out of memory");
	/* The first failure is the one to tell, but all that can be written is. */
	next = write_sidecar(writer, true, &symbols, ret ? NULL : err);
	trace_symbols_deinit(&symbols);
	return ret ? ret : next;
}
