/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/output/output.h"

#include <errno.h>
#include <stdlib.h>
#include "formats/base/thread.h"
#include "formats/output/internal.h"

enum { LOOKS = 20 /* of a waiting thread, until the disk counts as dead */ };

/* --- the queue, with the lock held ----------------------------------------------------------- */

static void append(struct output_stream *stream, struct packet *packet)
{
	struct output *output = stream->output;

	packet->number = output->next_number++;
	packet_queue_append(&stream->queue, packet);
	output->queued += packet->size;
}

/* A flight recorder makes room for a packet. Those that are to be written stay. */
static void forget_oldest(struct output_stream *stream, size_t size)
{
	while (stream->queue.head && !is_head_released(stream) &&
	       stream->queue.bytes + size > stream->output->config.keep_bytes) {
		output_events_add(&stream->forgotten, &stream->queue.head->events);
		drop_head(stream);
	}
}

/* A queue that is empty takes a packet of any size. */
static bool has_room(const struct output_stream *stream, size_t size)
{
	const struct output *output = stream->output;
	const size_t share = output->config.queue_bytes / output->nr_streams;
	const size_t own = output->config.keep_bytes + share;

	if (!stream->queue.head || stream->queue.bytes + size <= own)
		return true;
	return !stream->failed && !is_flight_recorder(output) &&
	       output->queued + size <= output->config.queue_bytes;
}

static uint64_t look_ns(const struct output *output)
{
	return output->config.stall_ms * ns_per_ms / LOOKS;
}

/*
 * Count the time since the last look as silence of the disk, but no more than two looks: if it was
 * longer, this process may have been stopped, and the disk had no chance to show a sign of life.
 */
static void note_silence(struct output *output)
{
	const uint64_t now = clock_monotonic_ns(), passed = now - output->looked_ns;
	const uint64_t most = 2 * look_ns(output);

	output->silent_ns += passed < most ? passed : most;
	output->looked_ns = now;
}

static void note_full(struct output *output)
{
	if (output->full_since)
		return;
	output->full_since = clock_monotonic_ns();
	output->counts.waits++;
}

static void note_room(struct output *output)
{
	if (output->full_since)
		output->counts.wait_ns += clock_monotonic_ns() - output->full_since;
	output->full_since = 0;
}

/* --- life ------------------------------------------------------------------------------------ */

static void free_output(struct output *output)
{
	pthread_mutex_destroy(&output->lock);
	pthread_mutex_destroy(&output->disk);
	pthread_cond_destroy(&output->work);
	pthread_cond_destroy(&output->progress);
	free(output);
}

int output_create(const struct output_config *config, struct output **out)
{
	struct output *output = calloc(1, sizeof(*output));
	int ret;

	if (!output)
		return -ENOMEM;
	output->config = *config;
	if (!output->config.stall_ms)
		output->config.stall_ms = OUTPUT_STALL_MS;
	output->round_ns = clock_monotonic_ns();
	note_alive(output);
	pthread_mutex_init(&output->lock, NULL);
	pthread_mutex_init(&output->disk, NULL);
	thread_cond_init(&output->work);
	thread_cond_init(&output->progress);
	ret = -thread_start(&output->thread, "sonde-writer", output_write_all, output);
	if (ret)
		free_output(output);
	else
		*out = output;
	return ret;
}

void output_destroy(struct output *output)
{
	if (!output)
		return;
	pthread_mutex_lock(&output->lock);
	output->ending = true;
	pthread_cond_signal(&output->work);
	pthread_mutex_unlock(&output->lock);
	pthread_join(output->thread, NULL);
	while (output->streams) {
		struct output_stream *stream = output->streams;

		while (stream->queue.head)
			drop_head(stream);
		output->streams = stream->next;
		free(stream);
	}
	free_output(output);
}

int output_add(struct output *output, struct output_file *file, struct output_stream **out)
{
	struct output_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return -ENOMEM;
	stream->output = output;
	stream->file = file;
	packet_queue_init(&stream->queue);
	pthread_mutex_lock(&output->lock);
	stream->next = output->streams;
	output->streams = stream;
	output->nr_streams++;
	pthread_mutex_unlock(&output->lock);
	*out = stream;
	return 0;
}

/* --- for encoders ---------------------------------------------------------------------------- */

static int check_room(struct output_stream *stream, size_t size)
{
	struct output *output = stream->output;

	note_silence(output);
	if (is_flight_recorder(output))
		forget_oldest(stream, size);
	if (has_room(stream, size))
		return 0;
	if (stream->failed)
		return stream->failed;
	note_full(output);
	return -EAGAIN;
}

int output_room(struct output_stream *stream, size_t size)
{
	int ret;

	pthread_mutex_lock(&stream->output->lock);
	ret = check_room(stream, size);
	pthread_mutex_unlock(&stream->output->lock);
	return ret;
}

static int put_locked(struct output_stream *stream, struct packet *packet)
{
	struct output *output = stream->output;
	int ret = check_room(stream, packet->size);

	if (ret)
		return ret;
	note_room(output);
	if (!output->queued)
		note_alive(output);
	if (output_events_sum(&packet->events))
		stream->resting = false;
	append(stream, packet_shrink(packet));
	pthread_cond_signal(&output->work);
	return 0;
}

void output_rest(struct output_stream *stream)
{
	pthread_mutex_lock(&stream->output->lock);
	stream->resting = true;
	pthread_cond_signal(&stream->output->work);
	pthread_mutex_unlock(&stream->output->lock);
}

int output_put(struct output_stream *stream, void *bytes, size_t size,
	       const struct output_events *events)
{
	struct packet *packet = packet_of(bytes);
	int ret;

	packet->next = NULL;
	packet->size = size;
	packet->events = *events;
	pthread_mutex_lock(&stream->output->lock);
	ret = put_locked(stream, packet);
	pthread_mutex_unlock(&stream->output->lock);
	return ret;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Wait a moment for the disk. Returns 0, or -ETIMEDOUT if it has been silent for that long. */
static int wait_for_disk(struct output *output, uint64_t patience_ns)
{
	note_silence(output);
	if (output->silent_ns >= patience_ns)
		return -ETIMEDOUT;
	thread_wait_until(&output->progress, &output->lock,
			  clock_monotonic_ns() +
				  least(look_ns(output), patience_ns - output->silent_ns));
	return 0;
}

int output_wait_briefly(struct output_stream *stream, size_t size, unsigned int patience_ms)
{
	struct output *output = stream->output;
	const uint64_t patience_ns = least(patience_ms, output->config.stall_ms) * ns_per_ms;
	int ret = 0;

	pthread_mutex_lock(&output->lock);
	while (!ret && !stream->failed && !has_room(stream, size))
		ret = wait_for_disk(output, patience_ns);
	pthread_mutex_unlock(&output->lock);
	return ret;
}

int output_wait(struct output_stream *stream, size_t size)
{
	return output_wait_briefly(stream, size, stream->output->config.stall_ms);
}

/* --- for the trace as a whole ---------------------------------------------------------------- */

/* Whether the thread is done with a stream in this round. */
static bool is_settled(const struct output_stream *stream, uint64_t round, uint64_t below)
{
	const struct packet *head = stream->queue.head;

	if (!head || head->number >= below || !is_head_released(stream))
		return true;
	return stream->failed && stream->tried_round >= round && !stream->writing;
}

static bool all_settled(const struct output *output, uint64_t round, uint64_t below, int *failed)
{
	bool settled = true;

	*failed = 0;
	for (const struct output_stream *s = output->streams; settled && s; s = s->next) {
		settled = is_settled(s, round, below);
		if (s->queue.head && s->failed)
			*failed = s->failed;
	}
	return settled;
}

int output_sync_briefly(struct output *output, unsigned int patience_ms)
{
	const uint64_t patience_ns = least(patience_ms, output->config.stall_ms) * ns_per_ms;
	uint64_t round, below;
	int failed, ret = 0;

	pthread_mutex_lock(&output->lock);
	round = ++output->round;
	below = output->next_number;
	pthread_cond_signal(&output->work);
	while (!ret && !all_settled(output, round, below, &failed))
		ret = wait_for_disk(output, patience_ns);
	pthread_mutex_unlock(&output->lock);
	return ret ? ret : failed;
}

int output_sync(struct output *output)
{
	return output_sync_briefly(output, output->config.stall_ms);
}

void output_prepare(struct output *output)
{
	pthread_mutex_lock(&output->lock);
	output->asked = true;
	pthread_cond_signal(&output->work);
	pthread_mutex_unlock(&output->lock);
}

void output_keep(struct output *output, size_t bytes)
{
	pthread_mutex_lock(&output->lock);
	output->config.keep_bytes = bytes;
	note_alive(output);
	pthread_cond_signal(&output->work);
	pthread_mutex_unlock(&output->lock);
}

void output_release(struct output *output)
{
	pthread_mutex_lock(&output->lock);
	for (struct output_stream *s = output->streams; s; s = s->next) {
		s->released = output->next_number;
		s->failed = 0;
	}
	note_alive(output);
	pthread_cond_signal(&output->work);
	pthread_mutex_unlock(&output->lock);
}

void output_hold(struct output *output)
{
	pthread_mutex_lock(&output->disk);
}

void output_resume(struct output *output)
{
	pthread_mutex_unlock(&output->disk);
}

uint64_t output_discard(struct output_stream *stream, struct output_events *events)
{
	struct output *output = stream->output;
	uint64_t n = 0;

	pthread_mutex_lock(&output->lock);
	while (stream->writing)
		pthread_cond_wait(&output->progress, &output->lock);
	for (; stream->queue.head; n++) {
		output_events_add(events, &stream->queue.head->events);
		drop_head(stream);
	}
	stream->failed = 0;
	pthread_cond_broadcast(&output->progress);
	pthread_mutex_unlock(&output->lock);
	return n;
}

uint64_t output_writing_since(const struct output *output)
{
	return atomic_load(&output->writing_since);
}

int output_failed(const struct output_stream *stream)
{
	int failed;

	pthread_mutex_lock(&stream->output->lock);
	failed = stream->queue.head ? stream->failed : 0;
	pthread_mutex_unlock(&stream->output->lock);
	return failed;
}

struct output_events output_forgotten(const struct output_stream *stream)
{
	struct output_events forgotten;

	pthread_mutex_lock(&stream->output->lock);
	forgotten = stream->forgotten;
	pthread_mutex_unlock(&stream->output->lock);
	return forgotten;
}

struct output_counts output_counts(struct output *output)
{
	struct output_counts counts;

	pthread_mutex_lock(&output->lock);
	counts = output->counts;
	counts.queued_bytes = output->queued;
	counts.kept_bytes = is_flight_recorder(output) ? output->queued : 0;
	if (output->full_since)
		counts.wait_ns += clock_monotonic_ns() - output->full_since;
	pthread_mutex_unlock(&output->lock);
	return counts;
}
