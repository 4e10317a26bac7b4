/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/recorder/recorder.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/clock.h"
#include "formats/cli/cli.h"
#include "patcher/tracers/tracer.h"
#include "vmm/loop/event-loop.h"
#include "vmm/recorder/internal.h"

enum { DISK_PATIENCE_MS = 10000 };

/* --- life ----------------------------------------------------------------------------------- */

static int load_image(struct recorder *r, struct error *err)
{
	struct kernel_given given;
	int ret = kernel_given_open(r->options->system_map, r->options->btf, &given, err);

	if (!ret)
		ret = kernel_image_open(r->config.kernel, &given, &r->image, err);
	kernel_given_close(&given);
	return ret;
}

/* The image that is not there yet; and what it shows to be wrong, before anything is made. */
static int prepare_image(struct recorder *r, struct error *err)
{
	int ret = 0;

	if (!r->image && r->config.kernel)
		ret = load_image(r, err);
	for (size_t i = 0; !ret && r->image && i < r->options->nr_specs; i++)
		ret = tracer_check_image(r->options->specs[i], r->image, r->config.boots, err);
	return ret;
}

int recorder_create(const struct recorder_config *config, struct recorder **out, struct error *err)
{
	struct recorder *r = calloc(1, sizeof(*r));
	int ret;

	if (!r) {
		kernel_image_destroy(config->image);
		return error_set(err, ENOMEM, "out of memory");
	}
	r->config = *config;
	r->options = config->options;
	r->image = config->image;
	r->dir = config->no_trace ? NULL : config->options->output;
	r->signal_fd = -1;
	r->patience_ms = DISK_PATIENCE_MS;
	pthread_mutex_init(&r->lock, NULL);
	r->messages = messages_create(config->verb);
	ret = r->messages ? prepare_image(r, err) : error_set(err, ENOMEM, "out of memory");
	if (!ret && r->dir)
		ret = trace_writer_prepare(r->dir, err);
	if (!ret && r->dir && r->options->metrics)
		ret = metrics_file_create(r->options->metrics, &r->metrics, err);
	if (!ret && r->dir && r->options->live_bytes)
		ret = live_memory_create(r->dir, r->options->live_bytes, &r->live, err);
	if (ret)
		recorder_destroy(r);
	else
		*out = r;
	return ret;
}

void recorder_destroy(struct recorder *r)
{
	if (!r)
		return;
	recorder_close(r);
	snapshots_end(r->snapshots);
	snapshot_forget(r->snapshot);
	if (r->writer)
		trace_writer_set_source(r->writer, NULL, NULL, NULL);
	trace_session_destroy(r->session);
	trace_writer_destroy(r->writer);
	live_memory_destroy(r->live);
	metrics_file_destroy(r->metrics);
	kernel_image_destroy(r->image);
	messages_destroy(r->messages);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

const struct kernel_image *recorder_image(const struct recorder *r)
{
	return r->image;
}

void recorder_kernel_at(struct recorder *r, uint64_t virt_slide, uint64_t text_gpa)
{
	r->located = true;
	r->virt_slide = virt_slide;
	r->text_gpa = text_gpa;
}

void recorder_fail(struct recorder *r, const struct error *err)
{
	if (!r->failed.code)
		r->failed = *err;
}

void recorder_fail_meanwhile(struct recorder *r, const struct error *err)
{
	if (!r->failed.code)
		recorder_say(r, "%s", err->text);
	recorder_fail(r, err);
}

/* --- start ----------------------------------------------------------------------------------- */

static int64_t realtime_ns(void)
{
	return (int64_t)clock_ns_of(CLOCK_REALTIME);
}

static void fill_info(const struct recorder *r, struct trace_info *info)
{
	*info = (struct trace_info){.started_ns = r->started_ns,
				    .counters.v[COUNTER_PAUSES] = r->starts ? r->starts - 1 : 0,
				    .started_realtime_ns = r->started_realtime_ns};
	snprintf(info->tool_version, sizeof(info->tool_version), "%s", SONDE_VERSION);
	snprintf(info->writer, sizeof(info->writer), "%s", r->config.verb);
	snprintf(info->memory, sizeof(info->memory), "%s", r->config.memory);
	snprintf(info->clock, sizeof(info->clock), "%s", r->config.clock);
	snprintf(info->ended, sizeof(info->ended), "%s", r->ended ? r->ended : "");
	if (r->writer)
		trace_writer_counters(r->writer, &info->counters);
	if (r->session)
		trace_session_info(r->session, info);
	else
		snprintf(info->banner, sizeof(info->banner), "%s", r->image->banner);
}

static int describe(struct recorder *r, struct error *err)
{
	struct trace_info info;

	fill_info(r, &info);
	return trace_writer_set_info(r->writer, &info, err);
}

static bool current_info(void *arg, struct trace_info *info)
{
	struct recorder *r = arg;

	if (pthread_mutex_trylock(&r->lock))
		return false;
	fill_info(r, info);
	pthread_mutex_unlock(&r->lock);
	return true;
}

/* A trace_symbolize_fn. */
static int name_site(void *arg, uint64_t gva, struct site_function *out)
{
	struct recorder *r = arg;
	int ret = trace_session_symbolize_image(r->session, gva, out);

	if (ret != -EAGAIN || pthread_mutex_trylock(&r->lock))
		return ret;
	ret = trace_session_symbolize(r->session, gva, out);
	pthread_mutex_unlock(&r->lock);
	return ret;
}

/* The trace tells of the pause before it has records from behind it. */
static int start_again(struct recorder *r, const char *const *specs, struct error *err)
{
	int ret;

	r->starts++;
	ret = describe(r, err);
	if (!ret)
		ret = trace_session_start(r->session, specs, err);
	if (!ret)
		return 0;
	r->starts--;
	describe(r, NULL);
	return ret;
}

int recorder_start_locked(struct recorder *r, const char *const *specs, struct error *err)
{
	int ret;

	if (r->starts)
		return start_again(r, specs, err);
	ret = trace_session_start(r->session, specs, err);
	if (ret)
		return ret;
	r->starts++;
	r->started_ns = (int64_t)r->guest->clock->now_ns(r->guest);
	r->started_realtime_ns = realtime_ns();
	return describe(r, err);
}

static int create_session(struct recorder *r, struct error *err)
{
	const struct recorder_options *o = r->options;
	const struct trace_options options = {
		.exitless = o->mode == RECORDER_EXITLESS,
		.drop = o->on_full == RECORDER_DROP,
		.ring_bytes = (uint32_t)recorder_ring_bytes(o),
		.max_rate = o->mode == RECORDER_TRAP ? o->max_rate : 0,
		.wake = recorder_wake,
		.wake_arg = r,
	};
	struct trace_info info;
	int ret = recorder_add_wake(r, err);

	fill_info(r, &info);
	if (!ret)
		ret = trace_writer_create(r->dir, r->config.nr_vcpus, o->encoding, &info,
					  &r->writer, err);
	if (!ret)
		ret = snapshots_create(r->writer, &r->snapshots, err);
	if (!ret)
		ret = trace_session_create(r->guest, r->image, r->writer, &r->session, err);
	if (ret)
		return ret;
	trace_writer_set_drop(r->writer, options.drop);
	if (o->keep_bytes)
		trace_writer_set_flight_recorder(r->writer, o->keep_bytes);
	trace_session_set_options(r->session, &options);
	if (r->located)
		trace_session_kernel_at(r->session, r->virt_slide, r->text_gpa);
	trace_writer_set_source(r->writer, current_info, name_site, r);
	return 0;
}

int recorder_begin(struct recorder *r, struct guest *guest, struct error *err)
{
	int ret;

	r->guest = guest;
	if (!r->dir)
		return 0;
	ret = create_session(r, err);
	if (ret || !r->options->specs[0] || !r->located)
		return ret;
	/* the writer asks for the state of the session from now on */
	pthread_mutex_lock(&r->lock);
	ret = recorder_start_locked(r, r->options->specs, err);
	pthread_mutex_unlock(&r->lock);
	return ret;
}

/* -EBUSY while the lock is taken. */
static int try_locked(struct recorder *r, int (*fn)(struct recorder *r, struct error *err),
		      struct error *err)
{
	int ret;

	if (pthread_mutex_trylock(&r->lock))
		return -EBUSY;
	ret = r->starts ? 0 : fn(r, err);
	if (ret && ret != -EAGAIN)
		recorder_fail_meanwhile(r, err);
	pthread_mutex_unlock(&r->lock);
	return ret;
}

static int locate_kernel(struct recorder *r, struct error *err)
{
	return trace_session_locate(r->session, err);
}

static int start_as_asked(struct recorder *r, struct error *err)
{
	return recorder_start_locked(r, r->options->specs, err);
}

/*
 * The start stops the guest, for which a vCPU waits while the guest is paused: so the guest is
 * stopped before the lock is taken. The thread that has the lock may be waiting to stop the guest
 * in turn. It gets its turn between two tries, and neither lets the guest run on, past its first
 * allocation perhaps.
 */
bool recorder_poll(struct recorder *r)
{
	struct error err;
	int ret;

	if (!r->session || !r->options->specs[0])
		return true;
	ret = try_locked(r, locate_kernel, &err);
	while (!ret || ret == -EBUSY) {
		r->guest->control->stop(r->guest, NULL);
		ret = try_locked(r, start_as_asked, &err);
		r->guest->control->resume(r->guest, NULL);
		if (ret != -EBUSY)
			break;
		sched_yield();
	}
	return ret != -EAGAIN;
}

/* --- end ------------------------------------------------------------------------------------- */

/* The guest's clock may not have been known at the start. */
static void find_start(struct recorder *r)
{
	int64_t now = (int64_t)r->guest->clock->now_ns(r->guest);
	int64_t since = realtime_ns() - r->started_realtime_ns;

	if (r->starts && !r->started_ns && now > since)
		r->started_ns = now - since;
}

/* Of those that tracing was on for. The first is what the run ends with, unless something else
 * failed before, which may be the reason; the others are said here. */
static void fail_unbegun(struct recorder *r)
{
	const bool failed = r->failed.code;
	struct error err;

	for (unsigned int i = 0; r->starts && i < r->last.nr_specs; i++) {
		const struct trace_instance_status *instance = &r->last.instances[i];

		if (instance->begun || !instance->asked)
			continue;
		error_set(&err, ENOENT, "instance '%s' recorded nothing%s", instance->name,
			  failed ? "" : ": the trace ended before its functions could be patched");
		if (r->failed.code)
			recorder_say(r, "%s", err.text);
		recorder_fail(r, &err);
	}
}

/* Those that are being written. */
static void end_snapshots(struct recorder *r)
{
	snapshots_end(r->snapshots);
	r->snapshots = NULL;
	recorder_look_at_snapshot(r);
}

static void finish(struct recorder *r)
{
	struct trace_info info;
	struct error err;

	end_snapshots(r);
	/* The last records appear while the session ends: what can be named then is. */
	trace_writer_set_source(r->writer, NULL, trace_session_symbolize_image, r->session);
	if (trace_session_end(r->session, &err))
		recorder_fail(r, &err);
	if (trace_session_failure(r->session))
		recorder_fail(r, trace_session_failure(r->session));
	if (recorder_write_profiles(r->session, r->writer, &r->has_profiles, &err))
		recorder_fail(r, &err);
	/* So that the counters know of it. Its failures are those of finishing. */
	trace_writer_flush(r->writer, NULL);
	fill_info(r, &info);
	trace_session_modules_changed(r->session);
	if (recorder_write_hists(r->session, r->writer, &r->has_hists, &err))
		recorder_fail(r, &err);
	if (trace_writer_finish(r->writer, &info, trace_session_symbolize, r->session, &err))
		recorder_fail(r, &err);
	if (trace_writer_error(r->writer))
		recorder_fail(r, trace_writer_error(r->writer));
	trace_session_status(r->session, &r->last);
	fail_unbegun(r);
}

/* The guest gets its text back first: a file system that hangs holds up all that follows. */
static void stop(struct recorder *r, enum recorder_leave leave, const char *why)
{
	struct error err;
	int ret;

	pthread_mutex_lock(&r->lock);
	if (why || !r->ended)
		r->ended = why ? why : r->limit_reached;
	find_start(r);
	if (leave == RECORDER_GUEST_RUNS) {
		ret = trace_session_stop(r->session, &err);
		if (ret && ret != -EALREADY)
			recorder_fail(r, &err);
	}
	pthread_mutex_unlock(&r->lock);
}

void recorder_end(struct recorder *r, enum recorder_leave leave, const char *why)
{
	monitor_end_jobs(r->monitor);
	if (!r->session)
		return;
	stop(r, leave, why);
	recorder_use_disk(r, finish);
	recorder_put_metrics(r);
	recorder_print_switched(r);
	trace_session_destroy(r->session);
	event_source_remove(r->early_tick);
	r->session = NULL;
	r->early_tick = NULL;
}

void recorder_snapshot(struct recorder *r)
{
	struct error err;

	if (!r->snapshots)
		return;
	snapshot_forget(r->snapshot);
	r->snapshot = NULL;
	if (snapshots_ask(r->snapshots, &r->snapshot, &err))
		recorder_say(r, "%s", err.text);
}

void recorder_look_at_snapshot(struct recorder *r)
{
	struct error err;

	if (!r->snapshot || !snapshot_is_over(r->snapshot))
		return;
	if (snapshot_await(r->snapshot, &err))
		recorder_say(r, "%s", err.text);
	r->snapshot = NULL;
}

int recorder_guest_panicked(struct recorder *r)
{
	int ret;

	if (!r->session)
		return -ENOENT;
	pthread_mutex_lock(&r->lock);
	ret = trace_session_guest_panicked(r->session);
	pthread_mutex_unlock(&r->lock);
	return ret;
}

/* --- counts ---------------------------------------------------------------------------------- */

struct trace_writer_counts recorder_sum(const struct recorder *r)
{
	struct trace_writer_counts sum = {0};

	for (unsigned int i = 0; r->writer && i < r->config.nr_vcpus; i++) {
		struct trace_writer_counts c;

		trace_writer_counts(r->writer, i, &c);
		sum.events += c.events;
		sum.allocs += c.allocs;
		sum.frees += c.frees;
		sum.overruns += c.overruns;
	}
	return sum;
}

struct trace_counters recorder_counters(const struct recorder *r, const struct trace_status *status)
{
	struct trace_counters counters = status->counters;

	if (r->writer)
		trace_writer_counters(r->writer, &counters);
	counters.v[COUNTER_PAUSES] = r->starts ? r->starts - 1 : 0;
	return counters;
}

double recorder_rate(const struct recorder *r, const struct trace_status *status)
{
	const struct trace_writer_counts sum = recorder_sum(r);
	const uint64_t *counters = status->counters.v;
	uint64_t seen = counters[COUNTER_TRACING_NS] - counters[COUNTER_UNSAMPLED_NS];
	const double ns_per_s = 1e9;

	return seen ? (double)sum.events * ns_per_s / (double)seen : 0;
}
