/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/trace/writer.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "formats/base/fs.h"
#include "formats/event/record-stream.h"
#include "formats/trace/cache-table.h"
#include "formats/trace/call-sites.h"
#include "formats/trace/encoder.h"
#include "formats/trace/output.h"
#include "formats/trace/sidecar.h"

enum { RESERVED_BYTES = 256 << 10 };

static const uint64_t flush_ns = 400000000;    /* between two flushes of short packets */
static const uint64_t refresh_ns = 1000000000; /* between two sidecars without news */

struct vcpu_stream {
	pthread_mutex_t lock;
	struct sidecar_vcpu counts;
	uint64_t disk_drops; /* of its overruns, those that the disk was too slow for */
	struct call_sites call_sites;
	struct stream_writer *out; /* of the encoding */
	int flushed;               /* how its last flush went */
};

struct trace_writer {
	int dir_fd;
	bool drop; /* records, rather than wait for a slow disk */
	struct output *output;
	pthread_mutex_t source_lock; /* outside of the others */
	trace_info_fn *source;       /* or NULL */
	void *source_arg;
	uint64_t flushed_ns, refreshed_ns;
	pthread_mutex_t describe_lock; /* info, and the files that describe the whole trace */
	struct trace_info info;
	unsigned int nr_vcpus;
	struct vcpu_stream *streams;
	struct cache_table caches;
	struct trace_encoder *encoder;

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

static void fill_counts(struct trace_writer *writer, struct sidecar *sidecar)
{
	uint64_t *overruns = &sidecar->info.counters.v[COUNTER_OVERRUNS];

	*overruns = 0;
	for (unsigned int i = 0; i < writer->nr_vcpus; i++) {
		struct vcpu_stream *stream = &writer->streams[i];

		pthread_mutex_lock(&stream->lock);
		sidecar->vcpus[i] = stream->counts;
		pthread_mutex_unlock(&stream->lock);
		*overruns += sidecar->vcpus[i].overruns;
	}
}

/* Fill in what the sidecar is to say. Returns false without memory; else deinit_sidecar(). */
static bool init_sidecar(struct trace_writer *writer, bool complete,
			 const struct trace_symbols *symbols, struct sidecar *out)
{
	size_t nr_caches;
	struct sidecar_cache *caches = cache_table_copy(&writer->caches, &nr_caches);

	*out = (struct sidecar){
		.info = writer->info,
		.complete = complete,
		.vcpus = calloc(writer->nr_vcpus, sizeof(*out->vcpus)),
		.nr_vcpus = writer->nr_vcpus,
		.caches = caches,
		.nr_caches = nr_caches,
		.symbols = symbols->items,
		.nr_symbols = symbols->count,
	};
	if (out->vcpus && out->caches) {
		fill_counts(writer, out);
		return true;
	}
	free(out->vcpus);
	free(out->caches);
	return false;
}

/* The symbols, and the caches' names, belong to others. */
static void deinit_sidecar(struct sidecar *sidecar)
{
	free(sidecar->vcpus);
	free(sidecar->caches);
}

enum what_to_write { WRITE_FILES = 1, WRITE_SIDECAR = 2 };

/*
 * Write what is asked for; one failure does not keep the other from being written. The first one
 * is reported.
 */
static int describe(struct trace_writer *writer, unsigned int what, bool complete,
		    const struct trace_symbols *symbols, struct error *err)
{
	struct trace_encoder *encoder = writer->encoder;
	struct sidecar sidecar;
	int ret = 0, next;

	pthread_mutex_lock(&writer->describe_lock);
	if (!init_sidecar(writer, complete, symbols, &sidecar)) {
		pthread_mutex_unlock(&writer->describe_lock);
		return error_set(err, ENOMEM, "out of memory");
	}
	if (what & WRITE_FILES)
		ret = encoder->ops->describe(encoder, &sidecar, err);
	if (what & WRITE_SIDECAR) {
		next = sidecar_write(writer->dir_fd, encoder->ops->sidecar_name, &sidecar,
				     ret ? NULL : err);
		ret = ret ? ret : next;
	}
	deinit_sidecar(&sidecar);
	pthread_mutex_unlock(&writer->describe_lock);
	return ret;
}

static void set_info(struct trace_writer *writer, const struct trace_info *info)
{
	pthread_mutex_lock(&writer->describe_lock);
	writer->info = *info;
	pthread_mutex_unlock(&writer->describe_lock);
}

static int describe_unfinished(struct trace_writer *writer, unsigned int what, struct error *err)
{
	const struct trace_symbols none = {0};
	char name[64];
	int ret = describe(writer, what, false, &none, err);

	if (ret || !(what & WRITE_SIDECAR))
		return ret;
	snprintf(name, sizeof(name), "%s%s", writer->encoder->ops->sidecar_name,
		 SIDECAR_TEMP_SUFFIX);
	file_reserve(writer->dir_fd, name, RESERVED_BYTES);
	return 0;
}

/* --- while it is recorded -------------------------------------------------------------------- */

/* `waits`: for room in a queue that is full. */
static int flush_stream(struct vcpu_stream *stream, bool waits)
{
	int ret, waited = 0;

	do {
		pthread_mutex_lock(&stream->lock);
		ret = stream->out->ops->flush(stream->out);
		pthread_mutex_unlock(&stream->lock);
		if (ret == -EAGAIN && waits)
			waited = output_wait(stream->out->output, OUTPUT_PACKET_MAX);
	} while (ret == -EAGAIN && waits && !waited);
	return waited ? waited : ret;
}

/* Why records of a stream are not written. */
static int failure_of(struct vcpu_stream *stream, int flushed, int synced)
{
	int failed = flushed ? flushed : output_failed(stream->out->output);

	return !failed && synced == -ETIMEDOUT ? synced : failed;
}

/* One try to write all that was appended. Returns the first failure. */
static int try_flush(struct trace_writer *writer, unsigned int *vcpu)
{
	int first = 0, synced;

	for (unsigned int i = 0; i < writer->nr_vcpus; i++)
		writer->streams[i].flushed = flush_stream(&writer->streams[i], true);
	synced = output_sync(writer->output);
	for (unsigned int i = 0; i < writer->nr_vcpus && !first; i++) {
		first = failure_of(&writer->streams[i], writer->streams[i].flushed, synced);
		*vcpu = i;
	}
	return first;
}

/*
 * Write all that was appended. A second try is for packets that found the queue full of those that
 * the disk had refused: the first one may have written these. Failures are kept.
 */
static int flush_streams(struct trace_writer *writer, struct error *err)
{
	unsigned int vcpu;
	int ret = try_flush(writer, &vcpu);

	if (ret)
		ret = try_flush(writer, &vcpu);
	if (!ret)
		return 0;
	keep_error(writer, ret, "cpu", vcpu);
	return error_set(err, -ret, "cpu%u: cannot write: %s", vcpu, strerror(-ret));
}

/* What changes how the records behind it are read. */
static bool is_news(const struct trace_info *old, const struct trace_info *new)
{
	for (enum counter_id id = 0; id < COUNTER_COUNT; id++) {
		if (counter_is_loss(id) && !old->counters.v[id] != !new->counters.v[id])
			return true;
	}
	return strcmp(old->mode, new->mode) || strcmp(old->tracers, new->tracers);
}

static void refresh(struct trace_writer *writer)
{
	struct trace_info info;
	uint64_t now = clock_monotonic_ns();

	if (!writer->source(writer->source_arg, &info))
		return;
	trace_writer_counters(writer, &info.counters);
	if (!is_news(&writer->info, &info) && (now - writer->refreshed_ns < refresh_ns ||
					       !memcmp(&writer->info, &info, sizeof(info))))
		return;
	writer->refreshed_ns = now;
	set_info(writer, &info);
	describe_unfinished(writer, WRITE_SIDECAR, NULL);
}

/* For those who read the trace meanwhile. */
static void flush_at_times(struct trace_writer *writer)
{
	uint64_t now = clock_monotonic_ns();

	if (now - writer->flushed_ns < flush_ns)
		return;
	writer->flushed_ns = now;
	for (unsigned int i = 0; i < writer->nr_vcpus; i++)
		flush_stream(&writer->streams[i], false);
}

/* The info's counters are read after the records that are to be written were appended. */
static void before_writing(void *arg)
{
	struct trace_writer *writer = arg;

	pthread_mutex_lock(&writer->source_lock);
	if (writer->source) {
		flush_at_times(writer);
		refresh(writer);
	}
	pthread_mutex_unlock(&writer->source_lock);
}

void trace_writer_set_source(struct trace_writer *writer, trace_info_fn *fn, void *arg)
{
	pthread_mutex_lock(&writer->source_lock);
	writer->source = fn;
	writer->source_arg = arg;
	pthread_mutex_unlock(&writer->source_lock);
}

/* --- life ------------------------------------------------------------------------------------ */

static int create_output(struct trace_writer *writer)
{
	const struct output_config config = {
		.queue_bytes = OUTPUT_QUEUE_BYTES, .before_writing = before_writing, .arg = writer};

	return output_create(&config, &writer->output);
}

static int create_files(struct trace_writer *writer, unsigned int encoding, struct error *err)
{
	int ret = create_output(writer);

	if (!ret)
		ret = trace_encoders[encoding]->create(writer->dir_fd, &writer->caches,
						       &writer->encoder);
	for (unsigned int i = 0; !ret && i < writer->nr_vcpus; i++)
		ret = writer->encoder->ops->add_stream(writer->encoder, writer->output, i,
						       &writer->streams[i].out);
	if (ret)
		return error_set(err, -ret, "cannot create its files: %s", strerror(-ret));
	return describe_unfinished(writer, WRITE_FILES | WRITE_SIDECAR, err);
}

int trace_writer_set_info(struct trace_writer *writer, const struct trace_info *info,
			  struct error *err)
{
	int ret;

	pthread_mutex_lock(&writer->source_lock);
	set_info(writer, info);
	ret = describe_unfinished(writer, WRITE_FILES | WRITE_SIDECAR, err);
	pthread_mutex_unlock(&writer->source_lock);
	return ret;
}

int trace_writer_prepare(const char *dir, struct error *err)
{
	int fd = output_dir_open(dir, err);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

/* A writer without files yet. It owns dir_fd from now on, also on failure. */
static struct trace_writer *new_writer(int dir_fd, unsigned int nr_vcpus,
				       const struct trace_info *info)
{
	struct trace_writer *writer = calloc(1, sizeof(*writer));
	struct vcpu_stream *streams = calloc(nr_vcpus, sizeof(*streams));

	if (!writer || !streams) {
		free(writer);
		free(streams);
		close(dir_fd);
		return NULL;
	}
	*writer = (struct trace_writer){
		.dir_fd = dir_fd, .info = *info, .nr_vcpus = nr_vcpus, .streams = streams};
	pthread_mutex_init(&writer->source_lock, NULL);
	pthread_mutex_init(&writer->error_lock, NULL);
	pthread_mutex_init(&writer->describe_lock, NULL);
	cache_table_init(&writer->caches);
	for (unsigned int i = 0; i < nr_vcpus; i++) {
		pthread_mutex_init(&streams[i].lock, NULL);
		call_sites_init(&streams[i].call_sites);
	}
	return writer;
}

/* Some file systems have no locks; then readers cannot tell that the writer lives. */
static int open_locked(const char *dir, struct error *err)
{
	int fd = output_dir_open(dir, err);

	if (fd < 0 || !flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK)
		return fd;
	close(fd);
	return error_set(err, EBUSY, "%s: another process is writing a trace there", dir);
}

int trace_writer_create(const char *dir, unsigned int nr_vcpus, unsigned int encoding,
			const struct trace_info *info, struct trace_writer **out, struct error *err)
{
	struct trace_writer *writer;
	int ret;

	if (!nr_vcpus || nr_vcpus > TRACE_MAX_STREAMS)
		return error_set(err, EINVAL, "%s: %u streams asked for, 1 to %d are possible", dir,
				 nr_vcpus, TRACE_MAX_STREAMS);
	ret = open_locked(dir, err);
	if (ret < 0)
		return ret;
	writer = new_writer(ret, nr_vcpus, info);
	if (!writer)
		return error_set(err, ENOMEM, "%s: out of memory", dir);
	ret = create_files(writer, encoding, err);
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
	output_destroy(writer->output);
	for (unsigned int i = 0; i < writer->nr_vcpus; i++) {
		struct stream_writer *out = writer->streams[i].out;

		if (out)
			out->ops->destroy(out);
		call_sites_deinit(&writer->streams[i].call_sites);
		pthread_mutex_destroy(&writer->streams[i].lock);
	}
	if (writer->encoder)
		writer->encoder->ops->destroy(writer->encoder);
	cache_table_deinit(&writer->caches);
	pthread_mutex_destroy(&writer->source_lock);
	pthread_mutex_destroy(&writer->error_lock);
	pthread_mutex_destroy(&writer->describe_lock);
	free(writer->streams);
	close(writer->dir_fd);
	free(writer);
}

static void count_overruns(struct vcpu_stream *stream, uint64_t n)
{
	stream->counts.overruns += n;
	stream->out->lost = stream->counts.overruns;
}

static void count_record(struct vcpu_stream *stream, const struct kmem_record *record)
{
	if (record->event_id == KMEM_EVENT_ALLOC)
		stream->counts.allocs++;
	else
		stream->counts.frees++;
	call_sites_note(&stream->call_sites, record->call_site);
}

/* `lost`: count the record as lost if there is no room for it. */
static int try_append(struct vcpu_stream *stream, const struct kmem_record *record, bool lost)
{
	int ret;

	pthread_mutex_lock(&stream->lock);
	ret = stream->out->ops->append(stream->out, record);
	if (!ret)
		count_record(stream, record);
	else if (lost || ret != -EAGAIN)
		count_overruns(stream, 1);
	if (ret == -EAGAIN && lost)
		stream->disk_drops++;
	pthread_mutex_unlock(&stream->lock);
	return ret;
}

/* Waits outside of the stream's lock, so that counts can be read meanwhile. */
static int append_or_wait(struct trace_writer *writer, struct vcpu_stream *stream,
			  const struct kmem_record *record)
{
	int ret = try_append(stream, record, writer->drop);

	while (ret == -EAGAIN && !writer->drop) {
		int waited = output_wait(stream->out->output, OUTPUT_PACKET_MAX);

		ret = try_append(stream, record, waited);
		if (ret == -EAGAIN && waited)
			return waited;
	}
	return ret;
}

int trace_writer_append(struct trace_writer *writer, unsigned int vcpu,
			const struct kmem_record *record)
{
	int ret;

	if (vcpu >= writer->nr_vcpus)
		return -EINVAL;
	ret = append_or_wait(writer, &writer->streams[vcpu], record);
	return ret && ret != -EAGAIN ? keep_error(writer, ret, "cpu", vcpu) : ret;
}

void trace_writer_set_drop(struct trace_writer *writer, bool drop)
{
	writer->drop = drop;
}

uint16_t trace_writer_cache_id(struct trace_writer *writer, const char *name, uint64_t object_size,
			       uint64_t size)
{
	return cache_table_id(&writer->caches, name, object_size, size);
}

int trace_writer_adopt_cache(struct trace_writer *writer, const struct sidecar_cache *cache)
{
	return cache_table_adopt(&writer->caches, cache);
}

void trace_writer_add_overruns(struct trace_writer *writer, unsigned int vcpu, uint64_t n)
{
	struct vcpu_stream *stream = &writer->streams[vcpu];

	pthread_mutex_lock(&stream->lock);
	count_overruns(stream, n);
	pthread_mutex_unlock(&stream->lock);
}

int trace_writer_flush(struct trace_writer *writer, struct error *err)
{
	int ret = flush_streams(writer, err);
	int next = describe_unfinished(writer, WRITE_FILES, ret ? NULL : err);

	return ret ? ret : next;
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
	out->disk_drops = stream->disk_drops;
	pthread_mutex_unlock(&stream->lock);
}

uint64_t trace_writer_bytes(const struct trace_writer *writer)
{
	const struct output_counts counts = output_counts(writer->output);

	return counts.written_bytes + counts.queued_bytes;
}

void trace_writer_counters(struct trace_writer *writer, struct trace_counters *counters)
{
	const struct output_counts counts = output_counts(writer->output);

	counters->v[COUNTER_OVERRUNS] = counters->v[COUNTER_DISK_DROPS] = 0;
	for (unsigned int i = 0; i < writer->nr_vcpus; i++) {
		struct trace_writer_counts c;

		trace_writer_counts(writer, i, &c);
		counters->v[COUNTER_OVERRUNS] += c.overruns;
		counters->v[COUNTER_DISK_DROPS] += c.disk_drops;
	}
	counters->v[COUNTER_DISK_BYTES] = counts.written_bytes;
	counters->v[COUNTER_DISK_WAITS] = counts.waits;
	counters->v[COUNTER_DISK_WAIT_NS] = counts.wait_ns;
}

/* What could not be written by now is lost. */
static void discard_unwritten(struct vcpu_stream *stream)
{
	uint64_t allocs = 0, frees = 0;

	pthread_mutex_lock(&stream->lock);
	stream->out->ops->discard(stream->out, &allocs, &frees);
	stream->counts.allocs -= allocs;
	stream->counts.frees -= frees;
	count_overruns(stream, allocs + frees);
	pthread_mutex_unlock(&stream->lock);
}

static int collect_symbols(struct trace_writer *writer, trace_symbolize_fn *symbolize, void *arg,
			   struct trace_symbols *symbols)
{
	struct u64_map all;
	int ret = 0;

	u64_map_init(&all, 0);
	for (unsigned int i = 0; symbolize && !ret && i < writer->nr_vcpus; i++)
		ret = call_sites_collect(&writer->streams[i].call_sites, &all);
	if (!ret && symbolize)
		ret = trace_symbols_init(symbols, &all, symbolize, arg);
	u64_map_deinit(&all);
	return ret;
}

int trace_writer_finish(struct trace_writer *writer, const struct trace_info *info,
			trace_symbolize_fn *symbolize, void *arg, struct error *err)
{
	struct trace_symbols symbols = {0};
	int ret, next;

	trace_writer_set_source(writer, NULL, NULL);
	ret = flush_streams(writer, err);
	for (unsigned int i = 0; i < writer->nr_vcpus; i++)
		discard_unwritten(&writer->streams[i]);
	output_sync(writer->output);
	set_info(writer, info);
	next = collect_symbols(writer, symbolize, arg, &symbols);
	if (next && !ret)
		ret = error_set(err, -next, "symbols: out of memory");
	/* A failure does not keep the rest from being written. The first one is reported. */
	next = describe(writer, WRITE_FILES | WRITE_SIDECAR, true, &symbols, ret ? NULL : err);
	trace_symbols_deinit(&symbols);
	return ret ? ret : next;
}
