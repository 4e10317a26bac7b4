/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The files that describe a trace as a whole. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "formats/base/clock.h"
#include "formats/base/fs.h"
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

/* The instances' streams are one array, which the first one owns. */
static bool init_instances(struct trace_writer *writer, struct sidecar *sidecar)
{
	size_t n = sidecar->nr_instances, nr_vcpus = writer->nr_vcpus;
	struct sidecar_instance *instances = calloc(n + 1, sizeof(*instances));
	struct sidecar_stream *streams = calloc(n * nr_vcpus + 1, sizeof(*streams));

	sidecar->instances = instances;
	if (!instances || !streams) {
		free(streams);
		return false;
	}
	instances[0].streams = streams;
	for (size_t i = 0; i < n; i++)
		instances[i] = (struct sidecar_instance){.about = writer->instances[i]->about,
							 .streams = streams + i * nr_vcpus,
							 .nr_streams = nr_vcpus};
	return true;
}

/* The names of symbols, caches and instances belong to others. */
static void deinit_sidecar(const struct trace_writer *writer, struct sidecar *sidecar)
{
	if (sidecar->instances)
		free(sidecar->instances[0].streams);
	free(sidecar->instances);
	free(sidecar->vcpus);
	free(sidecar->caches);
	site_names_free_copy(&writer->names, sidecar->symbols);
}

/* Fill in what the sidecar is to say. Returns false without memory; else deinit_sidecar(). */
static bool init_sidecar(struct trace_writer *writer, unsigned int what, struct sidecar *out)
{
	size_t nr_caches;
	struct sidecar_cache *caches = cache_table_copy(&writer->caches, &nr_caches);

	*out = (struct sidecar){
		.info = writer->info,
		.complete = what & WRITE_COMPLETE,
		.vcpus = calloc(writer->nr_vcpus, sizeof(*out->vcpus)),
		.nr_vcpus = writer->nr_vcpus,
		.nr_instances = writer->nr_instances,
		.caches = caches,
		.nr_caches = nr_caches,
	};
	if (what & WRITE_NAMES) {
		out->symbols = site_names_copy(&writer->names);
		out->nr_symbols = writer->names.count;
	}
	if (init_instances(writer, out) && out->vcpus && out->caches &&
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
