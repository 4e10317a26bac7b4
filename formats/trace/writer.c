/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/trace/writer-internal.h"

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
#include "formats/output/output.h"
#include "formats/trace/cache-table.h"
#include "formats/trace/encoder.h"
#include "formats/trace/sidecar.h"

enum { REFRESH_TRIES = 100 };

static const uint64_t flush_ns = 400000000;    /* between two flushes of short packets */
static const uint64_t refresh_ns = 1000000000; /* between two sidecars without news */

int writer_keep_error(struct trace_writer *writer, int ret, const char *what, unsigned int vcpu)
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

static void set_info(struct trace_writer *writer, const struct trace_info *info)
{
	pthread_mutex_lock(&writer->state_lock);
	writer->info = *info;
	writer->nr_infos++;
	pthread_mutex_unlock(&writer->state_lock);
}

/* --- while it is recorded -------------------------------------------------------------------- */

/* What changes how the records behind it are read. */
static bool is_news(const struct trace_info *old, const struct trace_info *new)
{
	for (enum counter_id id = 0; id < COUNTER_COUNT; id++) {
		if (counter_is_loss(id) && !old->counters.v[id] != !new->counters.v[id])
			return true;
	}
	return strcmp(old->mode, new->mode) || strcmp(old->tracers, new->tracers);
}

/* With state_lock. Whether the sidecar is to be written with it. */
static bool take_up(struct trace_writer *writer, const struct trace_info *info)
{
	uint64_t now = clock_monotonic_ns();

	if (!is_news(&writer->info, info) && (now - writer->refreshed_ns < refresh_ns ||
					      !memcmp(&writer->info, info, sizeof(*info))))
		return false;
	writer->refreshed_ns = now;
	writer->info = *info;
	return true;
}

static uint64_t count_infos(struct trace_writer *writer)
{
	uint64_t n;

	pthread_mutex_lock(&writer->state_lock);
	n = writer->nr_infos;
	pthread_mutex_unlock(&writer->state_lock);
	return n;
}

/* False: the source cannot say it now, or trace_writer_set_info() says something newer. */
static bool refresh(struct trace_writer *writer)
{
	const uint64_t nr_infos = count_infos(writer);
	struct trace_info info;
	bool newest, news;

	if (!writer->source(writer->source_arg, &info))
		return false;
	trace_writer_counters(writer, &info.counters);
	pthread_mutex_lock(&writer->state_lock);
	newest = writer->nr_infos == nr_infos;
	news = newest && take_up(writer, &info);
	pthread_mutex_unlock(&writer->state_lock);
	if (news)
		writer_describe(writer, WRITE_SIDECAR, NULL);
	return newest;
}

static int append_names(struct trace_writer *writer)
{
	int ret;

	output_hold(writer->output);
	atomic_store(&writer->describing_since, clock_monotonic_ns());
	ret = site_names_append(&writer->names);
	atomic_store(&writer->describing_since, 0);
	output_resume(writer->output);
	return ret;
}

/* For those who read the trace meanwhile. */
static void flush_at_times(struct trace_writer *writer)
{
	uint64_t now = clock_monotonic_ns();

	if (now - writer->flushed_ns < flush_ns)
		return;
	writer->flushed_ns = now;
	writer_put_gathered(writer);
}

/* Before the records that are to be written. On a full disk they are tried again the next time. */
static void name_sites(struct trace_writer *writer)
{
	site_names_update(&writer->names, writer->symbolize, writer->source_arg);
	append_names(writer);
}

/* The info's counters are read after the records that are to be written were appended. */
static int before_writing(void *arg)
{
	struct trace_writer *writer = arg;
	const int ret = writer_answer(writer);

	pthread_mutex_lock(&writer->source_lock);
	if (writer->source) {
		flush_at_times(writer);
		refresh(writer);
	}
	if (writer->symbolize)
		name_sites(writer);
	pthread_mutex_unlock(&writer->source_lock);
	return ret;
}

void trace_writer_set_source(struct trace_writer *writer, trace_info_fn *fn,
			     trace_symbolize_fn *symbolize, void *arg)
{
	pthread_mutex_lock(&writer->source_lock);
	writer->source = fn;
	writer->symbolize = symbolize;
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
	struct encoder_input input = {.dir_fd = writer->dir_fd,
				      .caches = &writer->caches,
				      .sites = &writer->sites,
				      .budget = &writer->budget};
	int ret = create_output(writer);

	input.output = writer->output;
	if (!ret)
		ret = trace_encoders[encoding]->create(&input, &writer->encoder);
	if (ret)
		return error_set(err, -ret, "cannot create its files: %s", strerror(-ret));
	site_names_init(&writer->names, &writer->sites, writer->dir_fd,
			writer->encoder->ops->sidecar_name);
	return writer_describe(writer, WRITE_FILES | WRITE_SIDECAR, err);
}

int trace_writer_set_info(struct trace_writer *writer, const struct trace_info *info,
			  struct error *err)
{
	set_info(writer, info);
	return writer_ask(writer, true, err);
}

int trace_writer_check(unsigned int encoding, const struct trace_instance *instances, size_t n,
		       struct error *err)
{
	const struct encoder_ops *ops = trace_encoders[encoding];

	return ops->check ? ops->check(instances, n, err) : 0;
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

	if (!writer) {
		close(dir_fd);
		return NULL;
	}
	writer->dir_fd = dir_fd;
	writer->info = *info;
	writer->nr_vcpus = nr_vcpus;
	pthread_mutex_init(&writer->source_lock, NULL);
	pthread_mutex_init(&writer->error_lock, NULL);
	pthread_mutex_init(&writer->describe_lock, NULL);
	writer_description_init(writer);
	pthread_mutex_init(&writer->instances_lock, NULL);
	pthread_mutex_init(&writer->append_lock, NULL);
	budget_init(&writer->budget, BUDGET_OF_A_GUEST);
	cache_table_init(&writer->caches, &writer->budget);
	call_sites_init(&writer->sites, &writer->budget);
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
	writer_destroy_instances(writer);
	if (writer->encoder)
		writer->encoder->ops->destroy(writer->encoder);
	site_names_deinit(&writer->names);
	cache_table_deinit(&writer->caches);
	call_sites_deinit(&writer->sites);
	pthread_mutex_destroy(&writer->source_lock);
	pthread_mutex_destroy(&writer->error_lock);
	pthread_mutex_destroy(&writer->describe_lock);
	writer_description_deinit(writer);
	pthread_mutex_destroy(&writer->instances_lock);
	pthread_mutex_destroy(&writer->append_lock);
	close(writer->dir_fd);
	free(writer);
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

bool trace_writer_cache_name(struct trace_writer *writer, uint16_t id, char *out, size_t size)
{
	struct sidecar_cache cache;

	if (!cache_table_find(&writer->caches, id, &cache))
		return false;
	snprintf(out, size, "%s", cache.name);
	return true;
}

int trace_writer_adopt_cache(struct trace_writer *writer, const struct sidecar_cache *cache)
{
	return cache_table_adopt(&writer->caches, cache);
}

void trace_writer_set_flight_recorder(struct trace_writer *writer, size_t bytes)
{
	output_keep(writer->output, bytes);
}

static bool try_refresh(struct trace_writer *writer)
{
	bool done;

	pthread_mutex_lock(&writer->source_lock);
	writer->refreshed_ns = 0;
	done = !writer->source || refresh(writer);
	pthread_mutex_unlock(&writer->source_lock);
	return done;
}

/* However long ago the last time was. Its source may be busy for a moment. */
static void refresh_now(struct trace_writer *writer)
{
	for (unsigned int i = 0; !try_refresh(writer) && i < REFRESH_TRIES; i++)
		clock_wait_ms(1);
}

/* The sidecar says how many events are not in it. */
int trace_writer_snapshot(struct trace_writer *writer, struct error *err)
{
	int ret;

	writer_put_gathered(writer);
	output_release(writer->output);
	ret = trace_writer_flush(writer, err);
	refresh_now(writer);
	return ret;
}

int trace_writer_flush(struct trace_writer *writer, struct error *err)
{
	int ret = writer_flush_streams(writer, err);
	int next = writer_describe(writer, WRITE_FILES, ret ? NULL : err);

	return ret ? ret : next;
}

void trace_writer_flush_briefly(struct trace_writer *writer)
{
	writer_put_gathered(writer);
	writer_ask(writer, false, NULL);
	output_sync_briefly(writer->output, TRACE_PATIENCE_MS);
}

const struct error *trace_writer_error(const struct trace_writer *writer)
{
	return writer->failed ? &writer->error : NULL;
}

uint64_t trace_writer_hangs_ns(const struct trace_writer *writer)
{
	const uint64_t since[] = {output_writing_since(writer->output),
				  atomic_load(&writer->describing_since)};
	const uint64_t now = clock_monotonic_ns();
	uint64_t longest = 0;

	for (size_t i = 0; i < sizeof(since) / sizeof(since[0]); i++)
		if (since[i] && now > since[i] && now - since[i] > longest)
			longest = now - since[i];
	return longest;
}

struct budget *trace_writer_budget(struct trace_writer *writer)
{
	return &writer->budget;
}

uint64_t trace_writer_bytes(const struct trace_writer *writer)
{
	const struct output_counts counts = output_counts(writer->output);

	return counts.written_bytes + counts.queued_bytes - counts.kept_bytes;
}

int trace_writer_put_document(struct trace_writer *writer, const char *name, const char *text,
			      struct error *err)
{
	char temp_name[64];
	int ret;

	snprintf(temp_name, sizeof(temp_name), "%s.tmp", name);
	pthread_mutex_lock(&writer->describe_lock);
	atomic_store(&writer->describing_since, clock_monotonic_ns());
	ret = file_replace(writer->dir_fd, name, temp_name, text, strlen(text), FILE_DURABLE);
	atomic_store(&writer->describing_since, 0);
	pthread_mutex_unlock(&writer->describe_lock);
	return ret ? error_set(err, -ret, "%s: %s", name, strerror(-ret)) : 0;
}

/* A sidecar with the names is written in place of the file of names, or without them if the disk is
 * too full for both, or it would be too large. */
static int describe_whole(struct trace_writer *writer, struct error *err)
{
	const unsigned int what = WRITE_FILES | WRITE_SIDECAR | WRITE_COMPLETE;
	int ret, next, without;

	ret = writer_describe_end(writer, what | WRITE_NAMES, err);
	if (!ret) {
		site_names_remove_file(&writer->names);
		return 0;
	}
	without = writer_describe_end(writer, what, err);
	next = append_names(writer);
	if (!without && next)
		error_set(err, -next, "%s: %s", writer->names.file_name, strerror(-next));
	return without ? without : next;
}

int trace_writer_finish(struct trace_writer *writer, const struct trace_info *info,
			trace_symbolize_fn *symbolize, void *arg, struct error *err)
{
	int ret, next;

	trace_writer_set_source(writer, NULL, NULL, NULL);
	if (symbolize)
		site_names_complete(&writer->names, symbolize, arg);
	/* for those who read the trace meanwhile; what the disk does not take is tried again */
	append_names(writer);
	output_keep(writer->output, 0);
	ret = writer_flush_streams(writer, err);
	writer_discard_unwritten(writer);
	output_sync(writer->output);
	set_info(writer, info);
	/* A failure does not keep the rest from being written. The first one is reported. */
	next = describe_whole(writer, ret ? NULL : err);
	return ret ? ret : next;
}
