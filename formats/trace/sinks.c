/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The sinks of a trace that is written: events into them, in batches, and out to the disk. */
#include <errno.h>
#include <string.h>
#include "formats/trace/writer-internal.h"

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

void trace_writer_set_patience(struct trace_writer *writer, trace_patience_fn *patience, void *arg)
{
	writer->patience = patience;
	writer->patience_arg = arg;
}

static unsigned int patience_ms(const struct trace_writer *writer)
{
	return writer->patience ? writer->patience(writer->patience_arg) : OUTPUT_STALL_MS;
}

/* Waits without any lock: the thread that makes room takes that of each sink in turn. */
static int wait_for_room(const struct event_batch *batch, const struct event_sink *sink)
{
	int ret;

	unlock_all(batch);
	if (batch->lock)
		pthread_mutex_unlock(batch->lock);
	ret = output_wait_briefly(sink->out->output, OUTPUT_PACKET_MAX, patience_ms(sink->writer));
	if (batch->lock)
		pthread_mutex_lock(batch->lock);
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

void trace_writer_add_overruns(struct trace_writer *writer, unsigned int number, unsigned int vcpu,
			       uint64_t n)
{
	struct event_sink *sink = trace_writer_sink(writer, number, vcpu);

	pthread_mutex_lock(&sink->lock);
	count_overruns(sink, n);
	pthread_mutex_unlock(&sink->lock);
}

/* --- for encoders ----------------------------------------------------------------------------- */

int stream_writer_put(struct stream_writer *stream, void *packet, size_t size)
{
	int ret = output_put(stream->output, packet, size, &stream->gathered);

	if (ret)
		return ret;
	output_events_add(&stream->put, &stream->gathered);
	stream->gathered = (struct output_events){{0}};
	return 0;
}

uint64_t stream_writer_forget(struct stream_writer *stream, uint64_t *nr_packets)
{
	struct output_events put = {{0}};
	uint64_t n;

	*nr_packets = output_discard(stream->output, &put);
	for (unsigned int i = 0; i < OUTPUT_MAX_CLASSES; i++)
		stream->put.n[i] -= put.n[i];
	n = output_events_sum(&put) + output_events_sum(&stream->gathered);
	stream->gathered = (struct output_events){{0}};
	return n;
}

/* --- to the disk ------------------------------------------------------------------------------ */

int writer_flush_sink(struct event_sink *sink, bool waits)
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

typedef void sink_fn(struct event_sink *sink, void *arg);

static void each_sink(struct trace_writer *writer, sink_fn *fn, void *arg)
{
	for (unsigned int i = 0; i < writer->nr_instances; i++)
		for (unsigned int vcpu = 0; vcpu < writer->nr_vcpus; vcpu++)
			fn(&writer->instances[i]->sinks[vcpu], arg);
}

void writer_rest_sink(struct event_sink *sink)
{
	pthread_mutex_lock(&sink->lock);
	if (sink->rests && sink->out && sink->out->ops->rest)
		sink->out->ops->rest(sink->out);
	pthread_mutex_unlock(&sink->lock);
}

/* The queue may have been full when its instance was closed. */
static void put_gathered(struct event_sink *sink, void *arg)
{
	(void)arg;
	writer_flush_sink(sink, false);
	writer_rest_sink(sink);
}

void writer_put_gathered(struct trace_writer *writer)
{
	each_sink(writer, put_gathered, NULL);
}

/* How writing all streams went. */
struct outcome {
	int synced; /* what output_sync() returned */
	int first;  /* failure, and whose it was */
	unsigned int vcpu;
};

static void note_outcome(struct outcome *outcome, int ret, const struct event_sink *sink)
{
	if (outcome->first)
		return;
	outcome->first = ret;
	outcome->vcpu = sink->vcpu;
}

static void flush_and_wait(struct event_sink *sink, void *arg)
{
	note_outcome(arg, writer_flush_sink(sink, true), sink);
}

/* Why events of a stream are not written. */
static void find_failure(struct event_sink *sink, void *arg)
{
	struct outcome *outcome = arg;
	int failed = 0;

	pthread_mutex_lock(&sink->lock);
	if (sink->out) {
		failed = output_failed(sink->out->output);
		if (!failed && outcome->synced == -ETIMEDOUT)
			failed = outcome->synced;
	}
	pthread_mutex_unlock(&sink->lock);
	note_outcome(outcome, failed, sink);
}

/* One try to write all that was appended. */
static struct outcome try_flush(struct trace_writer *writer)
{
	struct outcome outcome = {0};

	each_sink(writer, flush_and_wait, &outcome);
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
