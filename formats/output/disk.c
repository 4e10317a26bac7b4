/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The thread of an output, which alone meets the disk. */
#include "formats/base/thread.h"
#include "formats/output/internal.h"

enum {
	ROUND_MS = 500, /* between two calls of before_writing() at most */
	RETRY_MS = 200, /* between two tries to write what was refused */
};

static bool is_due(const struct output_stream *stream, uint64_t now)
{
	const struct output *output = stream->output;
	const struct packet *head = stream->queue.head;

	if (!head || head->number >= output->prepared || !is_head_released(stream))
		return false;
	return !stream->failed || stream->tried_round < output->round ||
	       now - stream->tried_ns >= RETRY_MS * ns_per_ms;
}

static bool has_passed(uint64_t since_ns, unsigned int ms)
{
	return clock_monotonic_ns() - since_ns >= ms * ns_per_ms;
}

static bool is_round_over(const struct output *output)
{
	return output->asked || has_passed(output->round_ns, ROUND_MS);
}

/* What was refused is tried again, but not at once. */
static bool may_prepare(const struct output *output)
{
	return !output->refused || output->refused_round < output->round ||
	       has_passed(output->round_ns, RETRY_MS);
}

/* The try to write a stream's oldest packet has ended so. */
static void note_tried(struct output_stream *stream, int ret, uint64_t round)
{
	stream->failed = ret;
	stream->tried_round = round;
	stream->tried_ns = clock_monotonic_ns();
	if (ret)
		stream->released = 0;
}

static bool is_unprepared(const struct output_stream *stream)
{
	const struct packet *head = stream->queue.head;

	return head && head->number >= stream->output->prepared && is_head_released(stream);
}

static void refuse_unprepared(struct output *output, int ret, uint64_t round)
{
	for (struct output_stream *s = output->streams; s; s = s->next)
		if (is_unprepared(s))
			note_tried(s, ret, round);
	note_alive(output);
	pthread_cond_broadcast(&output->progress);
}

static void prepare(struct output *output)
{
	const uint64_t prepared = output->next_number, round = output->round;
	int ret = 0;

	output->asked = false;
	if (output->config.before_writing) {
		pthread_mutex_unlock(&output->lock);
		ret = output->config.before_writing(output->config.arg);
		pthread_mutex_lock(&output->lock);
	}
	output->refused = ret;
	output->refused_round = round;
	output->round_ns = clock_monotonic_ns();
	if (ret)
		refuse_unprepared(output, ret, round);
	else
		output->prepared = prepared;
}

static void write_head(struct output_stream *stream)
{
	struct output *output = stream->output;
	struct packet *head = stream->queue.head;
	const uint64_t round = output->round;
	int ret;

	stream->writing = true;
	pthread_mutex_unlock(&output->lock);
	pthread_mutex_lock(&output->disk);
	atomic_store(&output->writing_since, clock_monotonic_ns());
	ret = stream->file->write(stream->file, head->bytes, head->size);
	pthread_mutex_unlock(&output->disk);
	pthread_mutex_lock(&output->lock);
	atomic_store(&output->writing_since, 0);
	stream->writing = stream->rested = false;
	note_tried(stream, ret, round);
	note_alive(output);
	if (!ret) {
		output->counts.written_bytes += head->size;
		drop_head(stream);
	}
	pthread_cond_broadcast(&output->progress);
}

/* Whether packets wait for before_writing() to be called. */
static bool has_unprepared(const struct output *output)
{
	for (const struct output_stream *s = output->streams; s; s = s->next)
		if (is_unprepared(s))
			return true;
	return false;
}

/* One packet of each stream that has one. Returns whether there was any. */
static bool write_some(struct output *output)
{
	bool any = false;

	for (struct output_stream *s = output->streams; s; s = s->next) {
		if (output->ending || !is_due(s, clock_monotonic_ns()))
			continue;
		write_head(s);
		any = true;
	}
	return any;
}

static void rest_file(struct output_stream *stream)
{
	struct output *output = stream->output;

	stream->writing = stream->rested = true;
	pthread_mutex_unlock(&output->lock);
	if (stream->file->rest)
		stream->file->rest(stream->file);
	pthread_mutex_lock(&output->lock);
	stream->writing = false;
	pthread_cond_broadcast(&output->progress);
}

/* A file of those that may rest. Returns whether there was any. */
static bool rest_one(struct output *output)
{
	struct output_stream *s = output->streams;

	while (s && (!s->resting || s->rested || s->queue.head))
		s = s->next;
	if (s)
		rest_file(s);
	return s;
}

/* Prepared packets are written before others are prepared, so that neither waits for ever. */
void *output_write_all(void *arg)
{
	struct output *output = arg;

	pthread_mutex_lock(&output->lock);
	while (!output->ending) {
		if (is_round_over(output)) {
			prepare(output);
			write_some(output);
		} else if (write_some(output) || rest_one(output))
			continue;
		else if (has_unprepared(output) && may_prepare(output))
			prepare(output);
		else if (!output->ending)
			thread_wait_until(&output->work, &output->lock,
					  clock_monotonic_ns() + RETRY_MS * ns_per_ms);
	}
	pthread_mutex_unlock(&output->lock);
	return NULL;
}
