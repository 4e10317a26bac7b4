/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The files that describe a trace as a whole. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "formats/base/clock.h"
#include "formats/base/fs.h"
#include "formats/base/thread.h"
#include "formats/trace/encoder.h"
#include "formats/trace/writer-internal.h"

enum { RESERVED_BYTES = 256 << 10 /* at least */ };

/* The last names come after the info's counters. */
static void fill_counts(const struct trace_writer *writer, struct sidecar *sidecar)
{
	uint64_t *v = sidecar->info.counters.v, *overruns = &v[COUNTER_OVERRUNS];
	const uint64_t refused = writer_count_refused(writer);
	struct trace_writer_counts counts;

	if (refused > v[COUNTER_OVER_BUDGET])
		v[COUNTER_OVER_BUDGET] = refused;
	*overruns = 0;
	for (unsigned int vcpu = 0; vcpu < writer->nr_vcpus; vcpu++) {
		trace_writer_counts(writer, vcpu, &counts);
		sidecar->vcpus[vcpu] = (struct sidecar_vcpu){.allocs = counts.allocs,
							     .frees = counts.frees,
							     .overruns = counts.overruns};
		*overruns += counts.overruns;
	}
	for (unsigned int i = 0; i < sidecar->nr_instances; i++) {
		sidecar->instances[i].lost = atomic_load(&writer->instances[i]->lost);
		for (unsigned int vcpu = 0; vcpu < writer->nr_vcpus; vcpu++) {
			trace_writer_instance_counts(writer, i, vcpu, &counts);
			sidecar->instances[i].streams[vcpu] = (struct sidecar_stream){
				.events = counts.events, .overruns = counts.overruns};
			sidecar->instances[i].lost += counts.overruns;
		}
	}
}

static void free_specs(struct sidecar *sidecar)
{
	for (size_t i = 0; i < sidecar->nr_instances; i++)
		free((char *)(uintptr_t)sidecar->instances[i].about.spec);
}

/* With state_lock: specs change. */
static bool copy_specs(struct sidecar *sidecar)
{
	bool all = true;

	for (size_t i = 0; i < sidecar->nr_instances; i++) {
		const char **spec = &sidecar->instances[i].about.spec;

		*spec = strdup(*spec);
		all = all && *spec;
	}
	return all;
}

/* The instances' streams are one array, which the first one owns. */
static bool init_instances(struct trace_writer *writer, struct sidecar *sidecar)
{
	size_t n = sidecar->nr_instances, nr_vcpus = writer->nr_vcpus;
	struct sidecar_instance *instances = calloc(n + 1, sizeof(*instances));
	struct sidecar_stream *streams = calloc(n * nr_vcpus + 1, sizeof(*streams));

	sidecar->instances = instances;
	if (!instances || !streams) {
		free(streams);
		sidecar->nr_instances = 0;
		return false;
	}
	instances[0].streams = streams;
	for (size_t i = 0; i < n; i++)
		instances[i] = (struct sidecar_instance){.about = writer->instances[i]->about,
							 .streams = streams + i * nr_vcpus,
							 .nr_streams = nr_vcpus};
	return copy_specs(sidecar);
}

/* The names of symbols, caches and instances belong to others. */
static void deinit_sidecar(const struct trace_writer *writer, struct sidecar *sidecar)
{
	if (sidecar->instances) {
		free_specs(sidecar);
		free(sidecar->instances[0].streams);
	}
	free(sidecar->instances);
	free(sidecar->vcpus);
	free(sidecar->caches);
	site_names_free_copy(&writer->names, sidecar->symbols);
}

static bool copy_state(struct trace_writer *writer, struct sidecar *out)
{
	bool copied;

	pthread_mutex_lock(&writer->state_lock);
	out->info = writer->info;
	out->nr_instances = writer->nr_instances;
	copied = init_instances(writer, out);
	pthread_mutex_unlock(&writer->state_lock);
	return copied;
}

/* Fill in what the sidecar is to say. Returns false without memory; else deinit_sidecar(). */
static bool init_sidecar(struct trace_writer *writer, unsigned int what, struct sidecar *out)
{
	size_t nr_caches;
	struct sidecar_cache *caches = cache_table_copy(&writer->caches, &nr_caches);

	*out = (struct sidecar){
		.complete = what & WRITE_COMPLETE,
		.vcpus = calloc(writer->nr_vcpus, sizeof(*out->vcpus)),
		.nr_vcpus = writer->nr_vcpus,
		.caches = caches,
		.nr_caches = nr_caches,
	};
	if (what & WRITE_NAMES) {
		out->symbols = site_names_copy(&writer->names);
		out->nr_symbols = writer->names.count;
	}
	if (copy_state(writer, out) && out->vcpus && out->caches &&
	    (out->symbols || !(what & WRITE_NAMES))) {
		fill_counts(writer, out);
		return true;
	}
	deinit_sidecar(writer, out);
	return false;
}

/*
 * With describe_lock. Write what is asked for; one failure does not keep the other from being
 * written. The first one is reported.
 */
static int describe_locked(struct trace_writer *writer, unsigned int what, struct error *err)
{
	struct trace_encoder *encoder = writer->encoder;
	struct sidecar sidecar;
	int ret = 0, next;

	if (!init_sidecar(writer, what, &sidecar))
		return error_set(err, ENOMEM, "out of memory");
	atomic_store(&writer->describing_since, clock_monotonic_ns());
	if (what & WRITE_FILES)
		ret = encoder->ops->describe(encoder, &sidecar, err);
	if (what & WRITE_SIDECAR) {
		next = sidecar_write(writer->dir_fd, encoder->ops->sidecar_name, &sidecar,
				     ret ? NULL : err);
		ret = ret ? ret : next;
	}
	atomic_store(&writer->describing_since, 0);
	deinit_sidecar(writer, &sidecar);
	return ret;
}

int writer_describe_end(struct trace_writer *writer, unsigned int what, struct error *err)
{
	int ret;

	pthread_mutex_lock(&writer->describe_lock);
	ret = describe_locked(writer, what, err);
	pthread_mutex_unlock(&writer->describe_lock);
	return ret;
}

/*
 * For the last sidecar, which counts more than this one. With describe_lock, as each sidecar is
 * written into the file that is reserved here; and with the output held, as its packets would take
 * the room meanwhile.
 */
static void reserve(struct trace_writer *writer)
{
	const char *sidecar_name = writer->encoder->ops->sidecar_name;
	size_t bytes = RESERVED_BYTES;
	struct stat st;
	char name[64];

	atomic_store(&writer->describing_since, clock_monotonic_ns());
	snprintf(name, sizeof(name), "%s%s", sidecar_name, SIDECAR_TEMP_SUFFIX);
	if (!fstatat(writer->dir_fd, sidecar_name, &st, AT_SYMLINK_NOFOLLOW) &&
	    2 * (size_t)st.st_size > bytes)
		bytes = 2 * (size_t)st.st_size;
	file_reserve(writer->dir_fd, name, bytes);
	atomic_store(&writer->describing_since, 0);
}

int writer_describe(struct trace_writer *writer, unsigned int what, struct error *err)
{
	int ret;

	pthread_mutex_lock(&writer->describe_lock);
	output_hold(writer->output);
	ret = describe_locked(writer, what, err);
	if (what & WRITE_SIDECAR)
		reserve(writer);
	output_resume(writer->output);
	pthread_mutex_unlock(&writer->describe_lock);
	return ret;
}

/* --- on the output's thread ------------------------------------------------------------------ */

void writer_description_init(struct trace_writer *writer)
{
	pthread_mutex_init(&writer->state_lock, NULL);
	pthread_mutex_init(&writer->description.lock, NULL);
	thread_cond_init(&writer->description.changed);
}

void writer_description_deinit(struct trace_writer *writer)
{
	pthread_mutex_destroy(&writer->state_lock);
	pthread_mutex_destroy(&writer->description.lock);
	pthread_cond_destroy(&writer->description.changed);
}

/* All, or none. */
static int create_files(const struct trace_writer *writer, struct writer_instance *instance)
{
	int ret = 0;

	for (unsigned int i = 0; !ret && i < writer->nr_vcpus; i++) {
		struct stream_writer *out = instance->sinks[i].out;

		ret = out->ops->create_files(out);
	}
	for (unsigned int i = 0; ret && i < writer->nr_vcpus; i++) {
		struct stream_writer *out = instance->sinks[i].out;

		out->ops->remove_files(out);
	}
	return ret;
}

static int create_wanted(struct trace_writer *writer, struct error *err)
{
	const unsigned int n = writer->nr_instances;
	int ret = 0;

	atomic_store(&writer->describing_since, clock_monotonic_ns());
	for (unsigned int i = 0; !ret && i < n; i++)
		if (writer->instances[i]->wanted)
			ret = create_files(writer, writer->instances[i]);
	atomic_store(&writer->describing_since, 0);
	return ret ? error_set(err, -ret, "cannot create its files: %s", strerror(-ret)) : 0;
}

static bool is_owed(const struct description *d)
{
	return d->owed > d->done;
}

/* Files that could not be created do not hold up packets of other streams. */
static int try_request(struct trace_writer *writer, uint64_t number)
{
	struct description *d = &writer->description;
	struct error err = {0};
	int described = writer_describe(writer, WRITE_FILES | WRITE_SIDECAR, &err);
	int ret = described ? described : create_wanted(writer, &err);

	pthread_mutex_lock(&d->lock);
	d->tried = number;
	d->ret = ret;
	d->err = err;
	if (!described)
		d->done = number;
	ret = is_owed(d) ? described : 0;
	pthread_cond_broadcast(&d->changed);
	pthread_mutex_unlock(&d->lock);
	return ret;
}

int writer_answer(struct trace_writer *writer)
{
	struct description *d = &writer->description;
	uint64_t number;
	bool due;

	pthread_mutex_lock(&d->lock);
	number = d->asked;
	due = number > d->tried || is_owed(d);
	pthread_mutex_unlock(&d->lock);
	return due ? try_request(writer, number) : 0;
}

/* With the lock. A disk that has not answered for one request is not waited for with the next. */
static bool await_answer(struct description *d, uint64_t number)
{
	const uint64_t ns_per_ms = 1000000;
	const uint64_t until = clock_monotonic_ns() + TRACE_PATIENCE_MS * ns_per_ms;

	while (d->tried < number && !is_owed(d) && thread_wait_until(&d->changed, &d->lock, until))
		;
	return d->tried >= number;
}

int writer_ask(struct trace_writer *writer, bool owed, struct error *err)
{
	struct description *d = &writer->description;
	uint64_t number;
	int ret = 0;

	pthread_mutex_lock(&d->lock);
	number = ++d->asked;
	pthread_mutex_unlock(&d->lock);
	output_prepare(writer->output);
	pthread_mutex_lock(&d->lock);
	if (await_answer(d, number))
		ret = d->ret;
	else if (owed)
		d->owed = number > d->owed ? number : d->owed;
	if (ret && err)
		*err = d->err;
	pthread_mutex_unlock(&d->lock);
	return ret;
}
