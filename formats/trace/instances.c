/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The instances of a trace that is written: their sinks, events and counts. */
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

/* `waits`: for room in a queue that is full. */
static int flush_sink(struct event_sink *sink, bool waits)
{
	int ret, waited = 0;

	do {
		pthread_mutex_lock(&sink->lock);
		ret = sink->out ? sink->out->ops->flush(sink->out) : 0;
		pthread_mutex_unlock(&sink->lock);
		if (ret == -EAGAIN && waits)
			waited = output_wait(sink->out->output, OUTPUT_PACKET_MAX);
	} while (ret == -EAGAIN && waits && !waited);
	return waited ? waited : ret;
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
		sink->closed = closed;
		pthread_mutex_unlock(&sink->lock);
	}
	instance->open = !closed;
}

static int set_spec(struct trace_writer *writer, struct writer_instance *instance, const char *spec,
		    struct error *err)
{
	char *copy = strdup(spec);

	if (!copy)
		return error_set(err, ENOMEM, "out of memory");
	pthread_mutex_lock(&writer->describe_lock);
	free((char *)(uintptr_t)instance->about.spec);
	instance->about.spec = copy;
	pthread_mutex_unlock(&writer->describe_lock);
	return 0;
}

/* Take up an instance again that was closed. */
static int reopen(struct trace_writer *writer, struct writer_instance *instance, const char *spec,
		  struct error *err)
{
	int ret = set_spec(writer, instance, spec, err);

	if (!ret)
		set_closed(writer, instance, false);
	return ret;
}

/* The metadata describes the instance before it has files. */
static int create_streams(struct trace_writer *writer, unsigned int number, struct error *err)
{
	struct writer_instance *instance = writer->instances[number];
	int ret = writer_describe(writer, WRITE_FILES | WRITE_SIDECAR, err);

	for (unsigned int i = 0; !ret && i < writer->nr_vcpus; i++) {
		struct stream_writer *out = NULL;

		ret = writer->encoder->ops->add_stream(writer->encoder, number, i, &out);
		pthread_mutex_lock(&instance->sinks[i].lock);
		instance->sinks[i].out = out;
		pthread_mutex_unlock(&instance->sinks[i].lock);
		if (ret)
			return error_set(err, -ret, "cannot create its files: %s", strerror(-ret));
	}
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
	pthread_mutex_lock(&writer->describe_lock);
	writer->instances[number] = instance;
	writer->nr_instances = number + 1;
	pthread_mutex_unlock(&writer->describe_lock);
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
		if (old->sinks[writer->nr_vcpus - 1].out)
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
		ret = reopen(writer, writer->instances[number], about->spec, err);
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
	int ret;

	pthread_mutex_lock(&writer->instances_lock);
	ret = set_spec(writer, writer->instances[number], spec, err);
	pthread_mutex_unlock(&writer->instances_lock);
	return ret;
}

void trace_writer_close_instance(struct trace_writer *writer, unsigned int number)
{
	struct writer_instance *instance = writer->instances[number];

	pthread_mutex_lock(&writer->instances_lock);
	set_closed(writer, instance, true);
	for (unsigned int i = 0; i < writer->nr_vcpus; i++) {
		struct event_sink *sink = &instance->sinks[i];

		flush_sink(sink, true);
		pthread_mutex_lock(&sink->lock);
		if (sink->out && sink->out->ops->rest)
			sink->out->ops->rest(sink->out);
		pthread_mutex_unlock(&sink->lock);
	}
	pthread_mutex_unlock(&writer->instances_lock);
}

/* --- events ---------------------------------------------------------------------------------- */

struct event_sink *trace_writer_sink(const struct trace_writer *writer, unsigned int number,
				     unsigned int vcpu)
{
	return &writer->instances[number]->sinks[vcpu];
}

static void count_overruns(struct event_sink *sink, uint64_t n)
{
	sink->overruns += n;
	if (sink->out)
		sink->out->lost = sink->overruns;
}

static void unlock_all(const struct event_batch *batch)
{
	for (struct event_sink *sink = batch->first; sink; sink = sink->next)
		pthread_mutex_unlock(&sink->lock);
}

/* In the order of their addresses. */
static void lock_all(const struct event_batch *batch)
{
	for (struct event_sink *sink = batch->first; sink; sink = sink->next)
		pthread_mutex_lock(&sink->lock);
}

/* Waits without any lock: the thread that makes room takes that of each sink in turn. */
static int wait_for_room(const struct event_batch *batch, const struct event_sink *sink)
{
	int ret;

	unlock_all(batch);
	ret = output_wait(sink->out->output, OUTPUT_PACKET_MAX);
	lock_all(batch);
	return ret;
}

/* Make room for an event, and wait for it where that may help. */
static int prepare(struct event_sink *sink, int64_t ns)
{
	int ret = 0, waited = 0;

	while (!ret && !sink->closed && !sink->out->ready) {
		ret = sink->out->ops->prepare(sink->out, ns);
		if (ret != -EAGAIN || sink->writer->drop)
			continue;
		ret = waited;
		if (!ret)
			waited = wait_for_room(sink->batch, sink);
	}
	return sink->closed ? -EPIPE : ret;
}

/* An event was not taken, for this reason. */
static int lose_event(struct event_sink *sink, int ret)
{
	count_overruns(sink, 1);
	if (ret == -EAGAIN)
		sink->disk_drops++;
	if (ret == -EAGAIN || ret == -EPIPE)
		return ret;
	return writer_keep_error(sink->writer, ret, "cpu", sink->vcpu);
}

/* Who waits for a lock has none, or those of sinks with lower addresses: so no two wait for each
 * other. */
static void add_sink(struct event_batch *batch, struct event_sink *sink)
{
	const bool locked = !pthread_mutex_trylock(&sink->lock);
	struct event_sink **link = &batch->first;

	if (!locked)
		unlock_all(batch);
	while (*link && *link < sink)
		link = &(*link)->next;
	sink->next = *link;
	*link = sink;
	if (!locked)
		lock_all(batch);
	sink->batch = batch;
}

__attribute__((cold, noinline)) static int put_first(struct event_batch *batch,
						     struct event_sink *sink,
						     unsigned int class_index, int64_t ns,
						     const void *bytes)
{
	int ret;

	if (sink->batch != batch)
		add_sink(batch, sink);
	ret = prepare(sink, ns);
	return ret ? lose_event(sink, ret) : sink->out->ops->put(sink->out, class_index, ns, bytes);
}

/* Whether there is nothing to do before the next event. */
static inline bool is_ready(const struct event_batch *batch, const struct event_sink *sink)
{
	return sink->batch == batch && !sink->closed && sink->out->ready;
}

int event_batch_put(struct event_batch *batch, struct event_sink *sink, unsigned int class_index,
		    int64_t ns, const void *bytes)
{
	struct stream_writer *out = sink->out;

	if (!is_ready(batch, sink))
		return put_first(batch, sink, class_index, ns, bytes);
	return out->ops->put(out, class_index, ns, bytes);
}

/* How many of the first events the encoder takes at once. */
static size_t try_run(struct event_batch *batch, struct event_sink *sink, unsigned int class_index,
		      const struct event_run *run)
{
	struct stream_writer *out = sink->out;

	if (!is_ready(batch, sink) || !out->ops->put_run)
		return 0;
	return out->ops->put_run(out, class_index, run);
}

static size_t try_mix(struct event_batch *batch, struct event_sink *sink,
		      const struct event_mix *mix)
{
	struct stream_writer *out = sink->out;

	return is_ready(batch, sink) && out->ops->put_mix ? out->ops->put_mix(out, mix) : 0;
}

void event_batch_put_run(struct event_batch *batch, struct event_sink *sink,
			 unsigned int class_index, const struct event_run *run)
{
	size_t done = 0;

	while (done < run->n) {
		const struct event_run rest = event_run_rest(run, done);
		const size_t taken = try_run(batch, sink, class_index, &rest);

		if (!taken)
			event_batch_put(batch, sink, class_index, *rest.ns, rest.bytes);
		done += taken ? taken : 1;
	}
}

void event_batch_put_mix(struct event_batch *batch, struct event_sink *sink,
			 const struct event_mix *mix)
{
	size_t done = 0;

	while (done < mix->n) {
		const struct event_mix rest = event_mix_rest(mix, done);
		const size_t taken = try_mix(batch, sink, &rest);

		if (!taken)
			event_batch_put(batch, sink, *rest.classes, *rest.ns, rest.bytes);
		done += taken ? taken : 1;
	}
}

void event_batch_end(struct event_batch *batch)
{
	while (batch->first) {
		struct event_sink *sink = batch->first;

		batch->first = sink->next;
		sink->batch = NULL;
		pthread_mutex_unlock(&sink->lock);
	}
}

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

void trace_writer_add_lost(struct trace_writer *writer, unsigned int number, uint64_t n)
{
	atomic_fetch_add(&writer->instances[number]->lost, n);
}

void trace_writer_add_overruns(struct trace_writer *writer, unsigned int number, unsigned int vcpu,
			       uint64_t n)
{
	struct event_sink *sink = trace_writer_sink(writer, number, vcpu);

	pthread_mutex_lock(&sink->lock);
	count_overruns(sink, n);
	pthread_mutex_unlock(&sink->lock);
}

typedef void sink_fn(struct event_sink *sink, void *arg);

static void each_sink(struct trace_writer *writer, sink_fn *fn, void *arg)
{
	for (unsigned int i = 0; i < writer->nr_instances; i++)
		for (unsigned int vcpu = 0; vcpu < writer->nr_vcpus; vcpu++)
			fn(&writer->instances[i]->sinks[vcpu], arg);
}

static void put_gathered(struct event_sink *sink, void *arg)
{
	(void)arg;
	flush_sink(sink, false);
}

void writer_put_gathered(struct trace_writer *writer)
{
	each_sink(writer, put_gathered, NULL);
}

static void flush_and_wait(struct event_sink *sink, void *arg)
{
	(void)arg;
	sink->flushed = flush_sink(sink, true);
}

/* How writing all streams went. */
struct outcome {
	int synced; /* what output_sync() returned */
	int first;  /* failure, and whose it was */
	unsigned int vcpu;
};

/* Why events of a stream are not written. */
static void find_failure(struct event_sink *sink, void *arg)
{
	struct outcome *outcome = arg;
	int failed = sink->flushed;

	if (outcome->first || !sink->out)
		return;
	if (!failed)
		failed = output_failed(sink->out->output);
	outcome->first = !failed && outcome->synced == -ETIMEDOUT ? outcome->synced : failed;
	outcome->vcpu = sink->vcpu;
}

/* One try to write all that was appended. */
static struct outcome try_flush(struct trace_writer *writer)
{
	struct outcome outcome = {0};

	each_sink(writer, flush_and_wait, NULL);
	outcome.synced = output_sync(writer->output);
	each_sink(writer, find_failure, &outcome);
	return outcome;
}

/*
 * A second try is for packets that found the queue full of those that the disk had refused: the
 * first one may have written these.
 */
int writer_flush_streams(struct trace_writer *writer, struct error *err)
{
	struct outcome outcome = try_flush(writer);

	if (outcome.first)
		outcome = try_flush(writer);
	if (!outcome.first)
		return 0;
	writer_keep_error(writer, outcome.first, "cpu", outcome.vcpu);
	return error_set(err, -outcome.first, "cpu%u: cannot write: %s", outcome.vcpu,
			 strerror(-outcome.first));
}

/* What could not be written by now is lost. */
static void discard_unwritten(struct event_sink *sink, void *arg)
{
	(void)arg;
	pthread_mutex_lock(&sink->lock);
	if (sink->out)
		count_overruns(sink, sink->out->ops->discard(sink->out));
	pthread_mutex_unlock(&sink->lock);
}

void writer_discard_unwritten(struct trace_writer *writer)
{
	each_sink(writer, discard_unwritten, NULL);
}

/* --- counts ----------------------------------------------------------------------------------- */

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
