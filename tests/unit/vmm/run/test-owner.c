/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/lib/tap.h"
#include "tests/unit/vmm/monitor/monitor-peer.h"
#include "vmm/loop/event-loop.h"
#include "vmm/run/owner.h"
#include "vmm/ctl/connection.h"

/*
 * The machine as the recorder and the monitor's clients see it. No KVM here: the functions of
 * vmm/machine/vm.h that are called are defined below, with the behaviour which that header
 * promises, and take the library's place.
 */
struct vm {
	struct event_loop *loop;
	struct guest guest;
	enum vm_status status;
	enum vm_end end;
	bool panicked;
	vm_status_fn *fn;
	void *arg;
};

static void set_status(struct vm *vm, enum vm_status status)
{
	vm->status = status;
	vm->fn(vm->arg, status);
}

enum vm_status vm_status(const struct vm *vm)
{
	return vm->status;
}

const char *vm_status_name(enum vm_status status)
{
	return status == VM_STATUS_RUNNING ? "running" : "other";
}

int vm_pause(struct vm *vm, struct error *err)
{
	if (vm->status == VM_STATUS_PAUSED)
		return error_set(err, EALREADY, "paused already");
	set_status(vm, VM_STATUS_PAUSED);
	return 0;
}

int vm_resume(struct vm *vm, struct error *err)
{
	if (vm->status == VM_STATUS_RUNNING)
		return error_set(err, EALREADY, "running already");
	if (vm->status == VM_STATUS_GUEST_PANICKED)
		return error_set(err, EINVAL, "the run is over");
	set_status(vm, vm->panicked ? VM_STATUS_GUEST_PANICKED : VM_STATUS_RUNNING);
	return 0;
}

int vm_listen(struct vm *vm, vm_status_fn *fn, void *arg)
{
	vm->fn = fn;
	vm->arg = arg;
	return 0;
}

void vm_request_end(struct vm *vm, enum vm_end reason)
{
	vm->end = reason;
	event_loop_quit(vm->loop, (int)reason);
}

enum vm_end vm_end_reason(const struct vm *vm)
{
	return vm->end;
}

struct guest *vm_guest(struct vm *vm)
{
	return &vm->guest;
}

pid_t vm_vcpu_thread_id(const struct vm *vm, unsigned int vcpu)
{
	return vm->end == VM_END_NONE ? 40 + (pid_t)vcpu : 0;
}

static void hears(const struct peer *peer, const char *event, const char *data)
{
	const char *line = hear(peer);

	ok(strstr(line, event) && strstr(line, data), "clients get the event %s with %s", event,
	   data);
}

static void runs(struct qmp_connection *conn, const char *verb)
{
	json_t *result = NULL;

	ok(!qmp_execute(conn, verb, NULL, &result, NULL), "%s succeeds", verb);
	json_decref(result);
}

static void *run_loop(void *loop)
{
	event_loop_run(loop);
	return NULL;
}

static void talk(struct vm *vm, const char *path, const struct peer *watcher)
{
	struct qmp_connection *conn;
	struct error err = {0};
	json_t *result = NULL;

	if (!ok(!qmp_connect(path, 10000, &conn, &err), "a client connects"))
		return;
	runs(conn, "stop");
	hears(watcher, "\"event\":\"STOP\"", "timestamp");
	runs(conn, "stop");
	runs(conn, "cont");
	hears(watcher, "\"event\":\"RESUME\"", "timestamp");
	runs(conn, "stop");
	hears(watcher, "\"event\":\"STOP\"", "timestamp");
	vm->panicked = true;
	runs(conn, "cont");
	hears(watcher, "\"event\":\"RESUME\"", "timestamp");
	ok(qmp_execute(conn, "cont", NULL, &result, &err) == -EREMOTEIO,
	   "cont fails when the run is over");
	is_str(err.text, "the run is over", "cont says why it fails");
	ok(qmp_execute(conn, "query-trace", NULL, &result, &err) == -EREMOTEIO,
	   "query-trace fails without a trace");
	is_str(err.text, "tracing is not configured: start sonde run with --trace or -o",
	       "query-trace says how to have a trace");
	runs(conn, "quit");
	qmp_disconnect(conn);
}

/* A machine that runs, with a recorder that traces nothing. */
struct life {
	char dir[32], path[64];
	struct vm vm;
	struct recorder_options options;
	struct run_owner owner;
	pthread_t thread;
	struct peer watcher;
};

static void life_begin(struct life *life)
{
	struct recorder_config config = {.verb = "test", .options = &life->options};
	struct error err;

	*life = (struct life){.dir = "/tmp/sonde-monitor-XXXXXX", .vm = {.guest = {.nr_vcpus = 1}}};
	if (!mkdtemp(life->dir) || event_loop_create(&life->vm.loop, NULL))
		exit(1);
	snprintf(life->path, sizeof(life->path), "%s/s", life->dir);
	life->options.monitor = life->path;
	life->owner.vm = &life->vm;
	config.loop = life->vm.loop;
	if (!ok(!recorder_create(&config, &life->owner.recorder, &err) &&
			!recorder_watch(life->owner.recorder, &life->vm.guest, &run_owner_ops,
					&life->owner, &err) &&
			!run_owner_listen(&life->owner, &err),
		"a recorder serves the monitor of a machine"))
		exit(1);
	set_status(&life->vm, VM_STATUS_RUNNING);
	pthread_create(&life->thread, NULL, run_loop, life->vm.loop);
	life->watcher = peer_negotiated(life->path);
}

static void life_end(struct life *life, enum vm_status status, const char *data)
{
	pthread_join(life->thread, NULL);
	set_status(&life->vm, status);
	run_owner_shutdown(&life->owner);
	recorder_close(life->owner.recorder);
	if (status == VM_STATUS_GUEST_PANICKED)
		hears(&life->watcher, "\"event\":\"GUEST_PANICKED\"", "\"action\":\"run\"");
	hears(&life->watcher, "\"event\":\"SHUTDOWN\"", data);
	is_str(hear(&life->watcher), "", "SHUTDOWN is the last event");
	peer_close(&life->watcher);
	recorder_destroy(life->owner.recorder);
	event_loop_destroy(life->vm.loop);
	ok(!rmdir(life->dir), "the socket is removed");
}

static void test_life(void)
{
	struct life life;

	life_begin(&life);
	talk(&life.vm, life.path, &life.watcher);
	is_u64(life.vm.end, VM_END_QUIT, "quit ends the run");
	life_end(&life, VM_STATUS_SHUTDOWN, "{\"guest\":false,\"reason\":\"host-qmp-quit\"}");
}

static void ends_with(enum vm_end end, enum vm_status status, const char *data)
{
	struct life life;

	life_begin(&life);
	vm_request_end(&life.vm, end);
	life_end(&life, status, data);
}

int main(void)
{
	test_life();
	ends_with(VM_END_POWER_OFF, VM_STATUS_SHUTDOWN,
		  "{\"guest\":true,\"reason\":\"guest-shutdown\"}");
	ends_with(VM_END_TRIPLE_FAULT, VM_STATUS_SHUTDOWN,
		  "{\"guest\":true,\"reason\":\"guest-reset\"}");
	ends_with(VM_END_PANIC, VM_STATUS_GUEST_PANICKED,
		  "{\"guest\":true,\"reason\":\"guest-panic\"}");
	ends_with(VM_END_SIGNAL, VM_STATUS_SHUTDOWN,
		  "{\"guest\":false,\"reason\":\"host-signal\"}");
	ends_with(VM_END_FAILED, VM_STATUS_INTERNAL_ERROR,
		  "{\"guest\":false,\"reason\":\"host-error\"}");
	return tap_done();
}
