/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_UNIT_VMM_RECORDER_TRACING_FIXTURE_H
#define SONDE_TESTS_UNIT_VMM_RECORDER_TRACING_FIXTURE_H

#include <stdlib.h>
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"
#include "vmm/loop/event-loop.h"
#include "vmm/recorder/internal.h"

/* A recorder that traces a fake guest. */
struct tracing {
	struct fake_session fs; /* its guest */
	struct event_loop *loop;
	struct recorder_options options;
	struct recorder *recorder;
	struct scratch dir;
	char trace[96], monitor[96], metrics[96];
	const char *awaited; /* a line of the metrics */
};

static inline void quit_loop(void *arg)
{
	event_loop_quit(((struct tracing *)arg)->loop, 1);
}

static const struct monitor_guest_ops ops = {.quit = quit_loop};

/* Traces by traps: the guest's functions are executed instruction by instruction. `caps`: further
 * ones of the guest. */
static inline void begin_tracing_with(struct tracing *t, uint64_t keep_bytes, uint32_t caps)
{
	struct recorder_config config = {.verb = "attach",
					 .domain = "web1",
					 .options = &t->options,
					 .nr_vcpus = FAKE_VCPUS,
					 .clock = "fake",
					 .memory = "fake"};
	struct error err;

	fake_session_create(&t->fs);
	t->fs.fg.guest.caps |= caps;
	t->dir = scratch_make();
	snprintf(t->trace, sizeof(t->trace), "%s/trace", t->dir.path);
	snprintf(t->monitor, sizeof(t->monitor), "%s/monitor", t->dir.path);
	snprintf(t->metrics, sizeof(t->metrics), "%s/metrics.prom", t->dir.path);
	recorder_options_init(&t->options);
	t->options.metrics = t->metrics;
	t->options.mode = RECORDER_TRAP;
	t->options.specs[0] = "kmem";
	t->options.nr_specs = 1;
	t->options.keep_bytes = keep_bytes;
	t->options.output = t->trace;
	t->options.monitor = t->monitor;
	if (event_loop_create(&t->loop, &err))
		exit(1);
	config.loop = t->loop;
	config.image = &t->fs.fg.base.image;
	if (recorder_create(&config, &t->recorder, &err))
		exit(1);
	recorder_kernel_at(t->recorder, FAKE_SLIDE, FAKE_PHYS_TEXT);
	if (!ok(!recorder_watch(t->recorder, &t->fs.fg.guest, &ops, t, &err) &&
			!recorder_begin(t->recorder, &t->fs.fg.guest, &err),
		"the recorder traces a fake guest"))
		tap_diag("%s", err.text);
}

static inline void begin_tracing(struct tracing *t, uint64_t keep_bytes)
{
	begin_tracing_with(t, keep_bytes, 0);
}

/* The image is the fake guest's. */
static inline void end_tracing(struct tracing *t)
{
	recorder_end(t->recorder, RECORDER_GUEST_RUNS, NULL);
	recorder_close(t->recorder);
	t->recorder->image = NULL;
	recorder_destroy(t->recorder);
	event_loop_destroy(t->loop);
	scratch_remove(&t->dir);
	fake_session_destroy(&t->fs);
}

static inline void switch_tracing(struct tracing *t, bool on)
{
	const struct monitor_target *target = &t->recorder->target;
	struct error err = {0};

	if (on)
		target->trace->start(target->trace_arg, NULL, 0, &err);
	else
		target->trace->stop(target->trace_arg, &err);
	ok(!err.code, "tracing is switched %s: %s", on ? "on" : "off", err.text);
}

static inline void allocate(struct tracing *t)
{
	fake_session_call(&t->fs, 0, FAKE_KMALLOC, 64);
}

#endif
