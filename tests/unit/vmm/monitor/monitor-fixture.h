/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_UNIT_VMM_MONITOR_MONITOR_FIXTURE_H
#define SONDE_TESTS_UNIT_VMM_MONITOR_MONITOR_FIXTURE_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "tests/lib/tap.h"
#include "vmm/loop/event-loop.h"
#include "vmm/machine/stop-gate.h"
#include "vmm/monitor/monitor.h"

/* A monitor with all verbs on a machine that only pretends, its event loop on a thread. */
enum { FIXTURE_RAM = 64 * 1024, FIXTURE_FLOOD = 4000, FIXTURE_GVA_OFFSET = 0x10000000 };

struct fixture {
	char dir[32], path[64];
	struct event_loop *loop;
	struct monitor *monitor;
	pthread_t thread;

	struct monitor_target target;
	struct monitor_guest_ops guest_ops;
	struct monitor_trace_ops trace_ops;
	struct guest guest;
	struct guest_region region;
	uint8_t ram[FIXTURE_RAM];
	uint64_t cr3, cr4;
	struct stop_gate stop_gate; /* held by the monitor's thread while the guest is paused */
	_Atomic int stops;          /* of the guest, less resumes; not for that */
	/* While a test holds it, reads of the guest's memory wait, and so do snapshots. */
	pthread_mutex_t gate;
	_Atomic int reads;   /* of these that have begun */
	_Atomic int at_gate; /* of these that have not ended */
	bool paused, tracing;
	char specs[64];
};

static struct fixture *fixture_of(struct guest *guest)
{
	return (struct fixture *)((char *)guest - offsetof(struct fixture, guest));
}

static void pass_gate(struct fixture *f)
{
	f->at_gate++;
	f->reads++;
	pthread_mutex_lock(&f->gate);
	pthread_mutex_unlock(&f->gate);
	f->at_gate--;
}

static int fixture_regions(struct guest *guest, const struct guest_region **out, size_t *n,
			   struct error *err)
{
	struct fixture *f = fixture_of(guest);

	(void)err;
	pass_gate(f);
	*out = &f->region;
	*n = 1;
	return 0;
}

static int fixture_sregs(struct guest *guest, unsigned int vcpu, struct guest_sregs *out,
			 struct error *err)
{
	struct fixture *f = fixture_of(guest);

	if (!f->stops || vcpu != 1)
		return error_set(err, EBUSY, "vcpu %u, stops %d", vcpu, f->stops);
	*out = (struct guest_sregs){.cr3 = f->cr3, .cr4 = f->cr4};
	return 0;
}

static int fixture_guest_stop(struct guest *guest, struct error *err)
{
	(void)err;
	stop_gate_stop(&fixture_of(guest)->stop_gate);
	fixture_of(guest)->stops++;
	return 0;
}

static int fixture_guest_resume(struct guest *guest, struct error *err)
{
	(void)err;
	fixture_of(guest)->stops--;
	stop_gate_resume(&fixture_of(guest)->stop_gate);
	return 0;
}

static const char *fixture_status(void *arg)
{
	return ((struct fixture *)arg)->paused ? "paused" : "running";
}

static int fixture_set_paused(struct fixture *f, bool paused, struct error *err)
{
	if (f->paused == paused)
		return error_set(err, EALREADY, "nothing to do");
	f->paused = paused;
	if (paused)
		stop_gate_stop(&f->stop_gate);
	else
		stop_gate_resume(&f->stop_gate);
	monitor_event(f->monitor, paused ? "STOP" : "RESUME", NULL);
	return 0;
}

static int fixture_pause(void *arg, struct error *err)
{
	return fixture_set_paused(arg, true, err);
}

static int fixture_resume(void *arg, struct error *err)
{
	return fixture_set_paused(arg, false, err);
}

static void fixture_quit(void *arg)
{
	event_loop_quit(((struct fixture *)arg)->loop, 1);
}

static pid_t fixture_thread_id(void *arg, unsigned int vcpu)
{
	(void)arg;
	return 100 + (pid_t)vcpu;
}

static int fixture_translate(void *arg, uint64_t gva, uint64_t *gpa, struct error *err)
{
	(void)arg;
	if (gva >= FIXTURE_GVA_OFFSET + FIXTURE_RAM)
		return error_set_at(err, EFAULT, gva, "not mapped");
	*gpa = gva - FIXTURE_GVA_OFFSET;
	return 0;
}

static int fixture_trace_start(void *arg, const char *const *specs, size_t n, struct error *err)
{
	struct fixture *f = arg;

	if (f->tracing)
		return error_set(err, EALREADY, "tracing is on already");
	f->tracing = true;
	f->specs[0] = 0;
	for (size_t i = 0; i < n; i++) {
		strncat(f->specs, specs[i], 16);
		strcat(f->specs, ";");
	}
	return 0;
}

static int fixture_trace_stop(void *arg, struct error *err)
{
	struct fixture *f = arg;

	if (!f->tracing)
		return error_set(err, EALREADY, "tracing is off already");
	f->tracing = false;
	return 0;
}

static int fixture_snapshot(void *arg, void **snapshot, struct error *err)
{
	struct fixture *f = arg;

	*snapshot = f;
	return f->tracing ? 0 : error_set(err, ENOSPC, "no space");
}

static int fixture_await_snapshot(void *snapshot, struct error *err)
{
	struct fixture *f = snapshot;

	(void)err;
	pass_gate(f);
	return 0;
}

static json_t *fixture_trace_query(void *arg)
{
	struct fixture *f = arg;

	return json_pack("{s:b,s:s,s:[s],s:s,s:i,s:i,s:{s:i,s:[n]}}", "enabled", (int)f->tracing,
			 "mode", f->specs, "tracers", "kmem", "trace_dir", "out", "events", 1234,
			 "lost", 7, "sites", "entry", 1013, "refused");
}

/* One instance, named by the first character of its spec. Replacing it switches sites. */
static int fixture_trace_change(void *arg, enum monitor_change change, const char *text,
				json_t **reply, struct error *err)
{
	struct fixture *f = arg;
	bool same = f->specs[0] && f->specs[0] == text[0];

	if (strstr(text, "kmen"))
		return error_set_column(err, EINVAL, 3, "unknown tracer 'kmen'");
	if (change == MONITOR_ADD && same)
		return error_set(err, EEXIST, "there is an instance '%c' already", text[0]);
	if (change != MONITOR_ADD && !same)
		return error_set(err, ENOENT, "there is no instance '%c'", text[0]);
	snprintf(f->specs, sizeof(f->specs), "%s", change == MONITOR_REMOVE ? "" : text);
	if (change == MONITOR_REPLACE)
		*reply = json_pack("{s:i,s:i}", "switched_sites", 1500, "switch_ns", 2500000);
	return 0;
}

static json_t *fixture_trace_instances(void *arg)
{
	struct fixture *f = arg;

	if (!f->specs[0])
		return json_array();
	return json_pack("[{s:s%,s:s,s:b,s:i,s:i}]", "name", f->specs, (size_t)1, "spec", f->specs,
			 "active", 1, "sites", 12, "refused", 1);
}

/* More events than any socket buffer holds. */
static int fixture_flood(struct monitor_call *call, struct error *err)
{
	char filler[1024];

	(void)err;
	memset(filler, 'x', sizeof(filler) - 1);
	filler[sizeof(filler) - 1] = 0;
	for (int i = 0; i < FIXTURE_FLOOD; i++)
		monitor_event(call->monitor, "FLOOD", json_pack("{s:s}", "filler", filler));
	return 0;
}

/* The guest ends, for the verbs that are at work. */
static int fixture_end_jobs(struct monitor_call *call, struct error *err)
{
	(void)err;
	monitor_end_jobs(call->monitor);
	return 0;
}

static const struct monitor_verb fixture_flood_verbs[] = {
	{.name = "x-flood", .help = "send events", .run = fixture_flood},
	{.name = "x-end", .help = "end jobs", .run = fixture_end_jobs},
	{0}};

static void *fixture_run(void *arg)
{
	event_loop_run(((struct fixture *)arg)->loop);
	return NULL;
}

static void fixture_fill(struct fixture *f)
{
	static const struct guest_memory_ops memory_ops = {.regions = fixture_regions};
	static const struct guest_control_ops control_ops = {
		.stop = fixture_guest_stop,
		.resume = fixture_guest_resume,
		.get_sregs = fixture_sregs,
	};

	for (size_t i = 0; i < FIXTURE_RAM; i++)
		f->ram[i] = (uint8_t)(i * 7 + i / 251);
	f->region = (struct guest_region){.size = FIXTURE_RAM, .hva = f->ram};
	f->guest = (struct guest){
		.name = "fixture", .memory = &memory_ops, .control = &control_ops, .nr_vcpus = 2};
	f->guest_ops = (struct monitor_guest_ops){
		.status = fixture_status,
		.pause = fixture_pause,
		.resume = fixture_resume,
		.pauses = true,
		.quit = fixture_quit,
		.thread_id = fixture_thread_id,
	};
	f->trace_ops = (struct monitor_trace_ops){
		.start = fixture_trace_start,
		.stop = fixture_trace_stop,
		.query = fixture_trace_query,
		.snapshot = fixture_snapshot,
		.await_snapshot = fixture_await_snapshot,
		.change = fixture_trace_change,
		.instances = fixture_trace_instances,
		.translate = fixture_translate,
	};
	f->target = (struct monitor_target){.guest = &f->guest,
					    .ops = &f->guest_ops,
					    .arg = f,
					    .trace = &f->trace_ops,
					    .trace_arg = f};
}

/* `change`, which may be NULL, makes it another guest before the monitor's thread runs. NULL, and
 * the reason printed, if it cannot be set up. */
static struct fixture *fixture_create(void (*change)(struct fixture *f))
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct error err = {0};

	pthread_mutex_init(&f->gate, NULL);
	stop_gate_init(&f->stop_gate);
	strcpy(f->dir, "/tmp/sonde-monitor-XXXXXX");
	if (!mkdtemp(f->dir) || event_loop_create(&f->loop, &err))
		return NULL;
	snprintf(f->path, sizeof(f->path), "%s/monitor", f->dir);
	fixture_fill(f);
	if (change)
		change(f);
	if (monitor_create(f->loop, f->path, &f->target, &f->monitor, &err)) {
		tap_diag("%s", err.text);
		return NULL;
	}
	if (monitor_register(f->monitor, fixture_flood_verbs, &err) ||
	    pthread_create(&f->thread, NULL, fixture_run, f))
		return NULL;
	return f;
}

static void fixture_destroy(struct fixture *f)
{
	event_loop_quit(f->loop, 1);
	pthread_join(f->thread, NULL);
	monitor_destroy(f->monitor);
	/* a snapshot outlives its client */
	while (f->at_gate)
		clock_wait_ms(1);
	event_loop_destroy(f->loop);
	stop_gate_deinit(&f->stop_gate);
	rmdir(f->dir);
	free(f);
}

#endif
