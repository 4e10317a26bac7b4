/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The instances of a trace that is written: added, closed, counted. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/trace/writer-internal.h"

static void destroy_instance(struct trace_writer *writer, struct writer_instance *instance)
{
	for (unsigned int i = 0; i < writer->nr_vcpus; i++) {
		struct stream_writer *out = instance->sinks[i].out;

		if (out)
			out->ops->destroy(out);
		pthread_mutex_destroy(&instance->sinks[i].lock);
	}
	free((char *)(uintptr_t)instance->about.name);
	free((char *)(uintptr_t)instance->about.spec);
	free((char *)(uintptr_t)instance->about.prototypes);
	free(instance);
}

void writer_destroy_instances(struct trace_writer *writer)
{
	for (unsigned int i = 0; i < writer->nr_instances; i++)
		destroy_instance(writer, writer->instances[i]);
}

static bool is_instance_name(const char *name)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	static const char others[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

	return *name && strchr(letters, *name) && !name[strspn(name, others)] &&
	       strlen(name) <= TRACE_INSTANCE_NAME_MAX;
}

static struct writer_instance *new_instance(struct trace_writer *writer,
					    const struct trace_instance *about)
{
	size_t sinks = writer->nr_vcpus * sizeof(struct event_sink);
	struct writer_instance *instance = calloc(1, sizeof(*instance) + sinks);

	if (!instance)
		return NULL;
	instance->about = *about;
	instance->about.name = strdup(about->name);
	instance->about.spec = strdup(about->spec);
	if (about->prototypes)
		instance->about.prototypes = strdup(about->prototypes);
	for (unsigned int i = 0; i < writer->nr_vcpus; i++) {
		instance->sinks[i].writer = writer;
		instance->sinks[i].vcpu = i;
		instance->sinks[i].closed = true;
		pthread_mutex_init(&instance->sinks[i].lock, NULL);
	}
	if (!instance->about.name || !instance->about.spec ||
	    (about->prototypes && !instance->about.prototypes)) {
		destroy_instance(writer, instance);
		return NULL;
	}
	return instance;
}

static void set_closed(struct trace_writer *writer, struct writer_instance *instance, bool closed)
{
	for (unsigned int i = 0; i < writer->nr_vcpus; i++) {
		struct event_sink *sink = &instance->sinks[i];

		pthread_mutex_lock(&sink->lock);
		sink->closed = sink->rests = closed;
		pthread_mutex_unlock(&sink->lock);
	}
	instance->open = !closed;
}

/* What a flight recorder has forgotten was accepted, and is not in the trace. */
static void add_counts(const struct writer_instance *instance, struct event_sink *sink,
		       struct trace_writer_counts *sum)
{
	struct output_events forgotten = {{0}};

	pthread_mutex_lock(&sink->lock);
	if (sink->out)
		forgotten = output_forgotten(sink->out->output);
	sum->overwritten += output_events_sum(&forgotten);
	sum->overruns += sink->overruns;
	sum->disk_drops += sink->disk_drops;
	for (size_t i = 0; sink->out && i < instance->about.nr_classes; i++) {
		const struct event_class *class = &instance->about.classes[i];
		uint64_t n = sink->out->gathered.n[i] + sink->out->put.n[i] - forgotten.n[i];

		sum->events += n;
		if (kmem_class_is_alloc(class))
			sum->allocs += n;
		else if (kmem_class_is_known(class))
			sum->frees += n;
	}
	pthread_mutex_unlock(&sink->lock);
}

/* Whether it has, or has lost, events. */
static bool has_recorded(struct trace_writer *writer, struct writer_instance *instance)
{
	struct trace_writer_counts counts = {0};

	for (unsigned int i = 0; i < writer->nr_vcpus; i++)
		add_counts(instance, &instance->sinks[i], &counts);
	return counts.events || counts.overruns || counts.overwritten;
}

/* `changes`: what was recorded before and what is from now on are not the same. */
static int set_spec(struct trace_writer *writer, struct writer_instance *instance, const char *spec,
		    bool changes, struct error *err)
{
	const bool interrupts = changes && has_recorded(writer, instance);
	char *copy = strdup(spec);

	if (!copy)
		return error_set(err, ENOMEM, "out of memory");
	pthread_mutex_lock(&writer->state_lock);
	instance->about.interrupted |= interrupts;
	instance->about.late |= changes && !interrupts;
	instance->about.removed = false;
	free((char *)(uintptr_t)instance->about.spec);
	instance->about.spec = copy;
	pthread_mutex_unlock(&writer->state_lock);
	return 0;
}

static void set_out(struct event_sink *sink, struct stream_writer *out)
{
	pthread_mutex_lock(&sink->lock);
	sink->out = out;
	pthread_mutex_unlock(&sink->lock);
}

/* Those that there are not yet. */
static int add_streams(struct trace_writer *writer, unsigned int number, struct error *err)
{
	struct writer_instance *instance = writer->instances[number];
	int ret = 0;

	for (unsigned int i = 0; !ret && i < writer->nr_vcpus; i++) {
		struct stream_writer *out;

		if (instance->sinks[i].out)
			continue;
		ret = writer->encoder->ops->add_stream(writer->encoder, number, i, &out);
		if (!ret)
			set_out(&instance->sinks[i], out);
	}
	return ret ? error_set(err, -ret, "cannot create its streams: %s", strerror(-ret)) : 0;
}

/* The metadata describes the instance before it has files. */
static int create_streams(struct trace_writer *writer, unsigned int number, struct error *err)
{
	struct writer_instance *instance = writer->instances[number];
	int ret = add_streams(writer, number, err);

	if (ret)
		return ret;
	instance->wanted = true;
	ret = writer_ask(writer, true, err);
	if (ret)
		instance->wanted = false;
	return ret;
}

/* Take up an instance again that was closed, or whose files could not be made. */
static int reopen(struct trace_writer *writer, unsigned int number, const char *spec,
		  struct error *err)
{
	struct writer_instance *instance = writer->instances[number];
	int ret = set_spec(writer, instance, spec, instance->wanted, err);

	if (!ret && !instance->wanted)
		ret = create_streams(writer, number, err);
	if (!ret)
		set_closed(writer, instance, false);
	return ret;
}

/* The encoder numbers instances as the writer does, also those that fail later. */
static int create_instance(struct trace_writer *writer, const struct trace_instance *about,
			   struct error *err)
{
	unsigned int number = writer->nr_instances;
	struct writer_instance *instance = new_instance(writer, about);
	int ret;

	if (!instance)
		return error_set(err, ENOMEM, "out of memory");
	ret = writer->encoder->ops->add_instance(writer->encoder, about, err);
	if (ret) {
		destroy_instance(writer, instance);
		return ret;
	}
	pthread_mutex_lock(&writer->state_lock);
	writer->instances[number] = instance;
	writer->nr_instances = number + 1;
	pthread_mutex_unlock(&writer->state_lock);
	ret = create_streams(writer, number, err);
	if (!ret)
		set_closed(writer, instance, false);
	return ret;
}

/* The number of one that is open, or can be taken up again; -EEXIST; -ENOENT. */
static int find_instance(const struct trace_writer *writer, const struct trace_instance *about)
{
	int found = -ENOENT;

	for (unsigned int i = 0; i < writer->nr_instances; i++) {
		const struct writer_instance *old = writer->instances[i];

		if (strcmp(old->about.name, about->name))
			continue;
		if (old->about.classes != about->classes ||
		    old->about.nr_classes != about->nr_classes)
			continue;
		if (old->open)
			return -EEXIST;
		found = (int)i;
	}
	return found;
}

static int add_locked(struct trace_writer *writer, const struct trace_instance *about,
		      struct error *err)
{
	int ret, number = find_instance(writer, about);

	if (number == -EEXIST)
		return error_set(err, EEXIST, "there is an instance '%s' already", about->name);
	if (number >= 0) {
		ret = reopen(writer, (unsigned int)number, about->spec, err);
		return ret ? ret : number;
	}
	if (writer->nr_instances == TRACE_INSTANCES_MAX)
		return error_set(err, ENOSPC, "a trace has at most %d instances",
				 TRACE_INSTANCES_MAX);
	number = (int)writer->nr_instances;
	ret = create_instance(writer, about, err);
	return ret ? ret : number;
}

int trace_writer_add_instance(struct trace_writer *writer, const struct trace_instance *instance,
			      struct error *err)
{
	int ret;

	if (!is_instance_name(instance->name))
		return error_set(err, EINVAL,
				 "'%s' is no name of an instance: a letter, and up to %d letters, "
				 "digits, _ or -",
				 instance->name, TRACE_INSTANCE_NAME_MAX - 1);
	pthread_mutex_lock(&writer->instances_lock);
	ret = add_locked(writer, instance, err);
	pthread_mutex_unlock(&writer->instances_lock);
	return ret;
}

int trace_writer_set_spec(struct trace_writer *writer, unsigned int number, const char *spec,
			  struct error *err)
{
	struct writer_instance *instance = writer->instances[number];
	int ret;

	pthread_mutex_lock(&writer->instances_lock);
	ret = set_spec(writer, instance, spec, strcmp(instance->about.spec, spec) != 0, err);
	pthread_mutex_unlock(&writer->instances_lock);
	return ret;
}

void trace_writer_adopt_course(struct trace_writer *writer, unsigned int number,
			       const struct trace_instance *course)
{
	struct trace_instance *about = &writer->instances[number]->about;

	trace_writer_set_spec(writer, number, course->spec, NULL);
	pthread_mutex_lock(&writer->state_lock);
	about->late = course->late;
	about->interrupted = course->interrupted;
	about->removed = course->removed;
	pthread_mutex_unlock(&writer->state_lock);
}

void trace_writer_close_instance(struct trace_writer *writer, unsigned int number)
{
	struct writer_instance *instance = writer->instances[number];

	pthread_mutex_lock(&writer->instances_lock);
	set_closed(writer, instance, true);
	pthread_mutex_lock(&writer->state_lock);
	instance->about.removed = true;
	pthread_mutex_unlock(&writer->state_lock);
	for (unsigned int i = 0; i < writer->nr_vcpus; i++) {
		writer_flush_sink(&instance->sinks[i], false);
		writer_rest_sink(&instance->sinks[i]);
	}
	pthread_mutex_unlock(&writer->instances_lock);
}

/* --- kmem records ----------------------------------------------------------------------------- */

static int find_kmem(const struct trace_writer *writer)
{
	for (unsigned int i = 0; i < writer->nr_instances; i++) {
		const struct writer_instance *instance = writer->instances[i];

		if (instance->about.classes == kmem_classes && instance->open)
			return (int)i;
	}
	return -ENOENT;
}

/* The number of the instance that trace_writer_append() feeds, which is added if it is missing. */
static int kmem_number(struct trace_writer *writer)
{
	int number = find_kmem(writer);

	if (number >= 0)
		return number;
	pthread_mutex_lock(&writer->instances_lock);
	number = find_kmem(writer);
	if (number < 0)
		number = add_locked(writer, &kmem_instance, NULL);
	pthread_mutex_unlock(&writer->instances_lock);
	return number;
}

int trace_writer_append(struct trace_writer *writer, unsigned int vcpu,
			const struct kmem_record *record)
{
	enum kmem_class class = kmem_class_of(record);
	struct event_batch batch = {0};
	struct event_sink *sink;
	int ret;

	if (vcpu >= writer->nr_vcpus)
		return -EINVAL;
	ret = kmem_number(writer);
	if (ret < 0)
		return writer_keep_error(writer, ret, "cpu", vcpu);
	sink = trace_writer_sink(writer, (unsigned int)ret, vcpu);
	/* a sink is in one batch at a time */
	pthread_mutex_lock(&writer->append_lock);
	ret = event_batch_put(&batch, sink, class, record->timestamp, record);
	event_batch_end(&batch);
	pthread_mutex_unlock(&writer->append_lock);
	return ret;
}

/* --- counts ----------------------------------------------------------------------------------- */

void trace_writer_add_lost(struct trace_writer *writer, unsigned int number, uint64_t n)
{
	atomic_fetch_add(&writer->instances[number]->lost, n);
}

void trace_writer_instance_counts(const struct trace_writer *writer, unsigned int number,
				  unsigned int vcpu, struct trace_writer_counts *out)
{
	struct writer_instance *instance = writer->instances[number];

	*out = (struct trace_writer_counts){0};
	add_counts(instance, &instance->sinks[vcpu], out);
}

void trace_writer_counts(const struct trace_writer *writer, unsigned int vcpu,
			 struct trace_writer_counts *out)
{
	*out = (struct trace_writer_counts){0};
	for (unsigned int i = 0; i < writer->nr_instances; i++)
		add_counts(writer->instances[i], &writer->instances[i]->sinks[vcpu], out);
}

uint64_t writer_count_refused(const struct trace_writer *writer)
{
	return atomic_load(&writer->budget.refused) + atomic_load(&writer->names.lines.refused);
}

void trace_writer_counters(struct trace_writer *writer, struct trace_counters *counters)
{
	const struct output_counts counts = output_counts(writer->output);

	counters->v[COUNTER_OVERRUNS] = counters->v[COUNTER_DISK_DROPS] = 0;
	counters->v[COUNTER_OVERWRITTEN] = 0;
	for (unsigned int i = 0; i < writer->nr_vcpus; i++) {
		struct trace_writer_counts c;

		trace_writer_counts(writer, i, &c);
		counters->v[COUNTER_OVERRUNS] += c.overruns;
		counters->v[COUNTER_DISK_DROPS] += c.disk_drops;
		counters->v[COUNTER_OVERWRITTEN] += c.overwritten;
	}
	counters->v[COUNTER_DISK_BYTES] = counts.written_bytes;
	counters->v[COUNTER_OVER_BUDGET] = writer_count_refused(writer);
	counters->v[COUNTER_DISK_WAITS] = counts.waits;
	counters->v[COUNTER_DISK_WAIT_NS] = counts.wait_ns;
}
