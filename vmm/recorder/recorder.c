/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/recorder/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "formats/cli/cli.h"
#include "patcher/tracers/tracer.h"

/* --- life ----------------------------------------------------------------------------------- */

static int load_image(const char *path, struct kernel_image **out, struct error *err)
{
	struct kernel_file *file;
	int ret = kernel_file_open(path, &file, err);

	if (ret)
		return ret;
	ret = kernel_image_load(file, out, err);
	kernel_file_close(file);
	return ret;
}

static int check_specs(const char *const *specs, struct error *err)
{
	int ret = 0;

	for (; !ret && *specs; specs++)
		ret = tracer_check_spec(*specs, err);
	return ret;
}

static void fill_info(const struct run_trace *t, struct trace_info *info)
{
	*info = (struct trace_info){.started_ns = t->started_ns,
				    .counters.v[COUNTER_PAUSES] = t->starts ? t->starts - 1 : 0,
				    .started_realtime_ns = t->started_realtime_ns};
	snprintf(info->tool_version, sizeof(info->tool_version), "%s", SONDE_VERSION);
	snprintf(info->memory, sizeof(info->memory), "%s",
		 t->memory ? t->memory : "mapped: the machine is our own");
	snprintf(info->clock, sizeof(info->clock), "%s", t->clock);
	snprintf(info->ended, sizeof(info->ended), "%s", t->ended ? t->ended : "");
	if (t->session)
		trace_session_info(t->session, info);
	else
		snprintf(info->banner, sizeof(info->banner), "%s", t->image->banner);
}

int run_trace_create(const struct run_trace_config *config, struct run_trace **out,
		     struct error *err)
{
	struct run_trace *t;
	int ret = check_specs(config->specs, err);

	if (!ret && config->dir)
		ret = trace_writer_prepare(config->dir, err);
	t = ret ? NULL : calloc(1, sizeof(*t));
	if (!t) {
		kernel_image_destroy(config->image);
		return ret ? ret : error_set(err, ENOMEM, "out of memory");
	}
	t->image = config->image;
	pthread_mutex_init(&t->lock, NULL);
	t->specs = config->specs;
	t->nr_vcpus = config->nr_vcpus;
	t->encoding = config->encoding;
	t->options = config->options;
	t->verb = config->verb;
	t->clock = config->clock;
	t->memory = config->memory;
	if (config->dir && !(t->dir = strdup(config->dir)))
		ret = error_set(err, ENOMEM, "out of memory");
	if (!ret && !t->image)
		ret = load_image(config->kernel, &t->image, err);
	if (ret)
		run_trace_destroy(t);
	else
		*out = t;
	return ret;
}

void run_trace_destroy(struct run_trace *t)
{
	if (!t)
		return;
	trace_session_destroy(t->session);
	trace_writer_destroy(t->writer);
	kernel_image_destroy(t->image);
	pthread_mutex_destroy(&t->lock);
	free(t->dir);
	free(t);
}

static void keep_failure(struct run_trace *t, const struct error *err)
{
	if (!t->failed.code)
		t->failed = *err;
}

/* --- start and stop ------------------------------------------------------------------------- */

static int64_t realtime_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

int run_trace_start_locked(struct run_trace *t, const char *const *specs, struct error *err)
{
	struct trace_info info;
	int ret = trace_session_start(t->session, specs, err);

	if (!ret)
		t->starts++;
	if (!ret && !t->started) {
		t->started = true;
		t->started_ns = (int64_t)t->guest->clock->now_ns(t->guest);
		t->started_realtime_ns = realtime_ns();
		fill_info(t, &info);
		ret = trace_writer_set_info(t->writer, &info, err);
	}
	return ret;
}

static int create_session(struct run_trace *t, struct guest *guest, struct error *err)
{
	struct trace_info info;
	int ret;

	t->guest = guest;
	fill_info(t, &info);
	ret = trace_writer_create(t->dir, t->nr_vcpus, t->encoding, &info, &t->writer, err);
	if (!ret)
		ret = trace_session_create(t->guest, t->image, t->writer, &t->session, err);
	if (!ret)
		trace_session_set_options(t->session, &t->options);
	if (!ret && t->placed)
		trace_session_kernel_at(t->session, t->virt_slide, t->phys_text);
	return ret;
}

static int observe_start(void *arg, struct vm *vm, const struct boot_info *boot, struct error *err)
{
	struct run_trace *t = arg;
	int ret = create_session(t, vm_guest(vm), err);

	if (ret)
		return ret;
	if (boot->slide_known)
		trace_session_kernel_at(t->session, boot->virt_slide, boot->phys_text);
	if (!t->specs[0] || !boot->slide_known)
		return 0;
	return run_trace_start_locked(t, t->specs, err);
}

void run_trace_kernel_at(struct run_trace *t, uint64_t virt_slide, uint64_t phys_text)
{
	t->placed = true;
	t->virt_slide = virt_slide;
	t->phys_text = phys_text;
}

int run_trace_begin(struct run_trace *t, struct guest *guest, struct error *err)
{
	int ret = create_session(t, guest, err);

	return ret || !t->specs[0] ? ret : run_trace_start_locked(t, t->specs, err);
}

/* -EBUSY while the lock is taken. */
static int try_locked(struct run_trace *t, int (*fn)(struct run_trace *t, struct error *err),
		      struct error *err)
{
	int ret;

	if (pthread_mutex_trylock(&t->lock))
		return -EBUSY;
	ret = t->started ? 0 : fn(t, err);
	if (ret && ret != -EAGAIN)
		keep_failure(t, err);
	pthread_mutex_unlock(&t->lock);
	return ret;
}

static int look_for_kernel(struct run_trace *t, struct error *err)
{
	return trace_session_locate(t->session, err);
}

static int start_as_asked(struct run_trace *t, struct error *err)
{
	return run_trace_start_locked(t, t->specs, err);
}

/*
 * Until the kernel can be found in a guest that placed it itself. The start stops the guest, which
 * on a vCPU waits while the guest is paused: so that is done before the lock is taken. Who has the
 * lock may be waiting for a stop in turn: it gets it between two tries, none of which lets the
 * guest run on, past its first allocation perhaps.
 */
static bool observe_look(void *arg)
{
	struct run_trace *t = arg;
	struct error err;
	int ret;

	if (!t->specs[0])
		return true;
	ret = try_locked(t, look_for_kernel, &err);
	while (!ret || ret == -EBUSY) {
		t->guest->control->stop(t->guest, NULL);
		ret = try_locked(t, start_as_asked, &err);
		t->guest->control->resume(t->guest, NULL);
		if (ret != -EBUSY)
			break;
		sched_yield();
	}
	return ret != -EAGAIN;
}

/* A clock that was not known at the start. */
static void find_start(struct run_trace *t)
{
	int64_t now = (int64_t)t->guest->clock->now_ns(t->guest);
	int64_t since = realtime_ns() - t->started_realtime_ns;

	if (t->started && !t->started_ns && now > since)
		t->started_ns = now - since;
}

static void finish(struct run_trace *t)
{
	struct trace_info info;
	struct error err;

	if (trace_session_end(t->session, &err))
		keep_failure(t, &err);
	if (trace_session_failure(t->session))
		keep_failure(t, trace_session_failure(t->session));
	fill_info(t, &info);
	if (trace_writer_finish(t->writer, &info, trace_session_symbolize, t->session, &err))
		keep_failure(t, &err);
	if (trace_writer_error(t->writer))
		keep_failure(t, trace_writer_error(t->writer));
	trace_session_status(t->session, &t->last);
}

static void observe_end(void *arg)
{
	struct run_trace *t = arg;

	if (!t->session)
		return;
	finish(t);
	trace_session_destroy(t->session);
	t->session = NULL;
}

void run_trace_end(struct run_trace *t)
{
	struct error err;
	int ret;

	if (!t->session)
		return;
	find_start(t);
	ret = trace_session_stop(t->session, &err);
	if (ret && ret != -EALREADY)
		keep_failure(t, &err);
	observe_end(t);
}

/* Nothing can be put back, and nobody waits for vCPUs: the session ends as that of a guest that
 * will not run again. */
void run_trace_abandon(struct run_trace *t)
{
	if (!t->session)
		return;
	find_start(t);
	observe_end(t);
}

void run_trace_note(struct run_trace *t, const char *ended)
{
	t->ended = ended;
}

void run_trace_tick(struct run_trace *t)
{
	struct error err;

	pthread_mutex_lock(&t->lock);
	if (trace_session_tick(t->session, &err))
		keep_failure(t, &err);
	pthread_mutex_unlock(&t->lock);
}

const struct kernel_image *run_trace_image(const struct run_trace *t)
{
	return t->image;
}

struct vm_observer run_trace_observer(struct run_trace *t)
{
	return (struct vm_observer){
		.start = observe_start, .look = observe_look, .end = observe_end, .arg = t};
}

struct trace_writer_counts run_trace_sum(const struct run_trace *t)
{
	struct trace_writer_counts sum = {0};

	for (unsigned int i = 0; t->writer && i < t->nr_vcpus; i++) {
		struct trace_writer_counts c;

		trace_writer_counts(t->writer, i, &c);
		sum.allocs += c.allocs;
		sum.frees += c.frees;
		sum.overruns += c.overruns;
	}
	return sum;
}

uint64_t run_trace_events(const struct run_trace *t)
{
	struct trace_writer_counts sum = run_trace_sum(t);

	return sum.allocs + sum.frees;
}

double run_trace_events_per_second(const struct run_trace *t, const struct trace_status *status)
{
	const double ns_per_s = 1e9;
	const uint64_t *counters = status->counters.v;
	uint64_t seen = counters[COUNTER_TRACING_NS] - counters[COUNTER_UNSAMPLED_NS];

	return seen ? (double)run_trace_events(t) * ns_per_s / (double)seen : 0;
}
