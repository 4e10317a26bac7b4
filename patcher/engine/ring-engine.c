/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The ring engine comes into a guest, and leaves it again. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include "formats/base/thread.h"
#include "introspect/tasks/percpu.h"
#include "patcher/engine/ring-internal.h"

enum {
	POLL_NS = 100000000, /* between two polls whether a guest with an unfinished record runs */
	LEAVE_MS = 10000,    /* how long finish() waits for the guest to leave ... */
	PAUSED_MS = 200,     /* ... and for a guest that is held stopped */
	SLICE_MS = 10,
};

/* --- coming ---------------------------------------------------------------------------------- */

static void reset(struct ring_engine *x)
{
	x->rung = x->leaving = x->left = false;
	kprobe_table_deinit(&x->copies);
	x->copied_by = 0;
	x->run_ns = 0;
	x->patience_ns = RING_SPIN_PATIENCE_NS;
	x->next_patience = 0;
	for (unsigned int i = 0; i < x->nr_vcpus; i++)
		x->vcpus[i].cut_off = 0;
}

/* The jumps and patches of an installation that has failed with *why. */
static int take_out(struct ring_engine *x, const struct error *why, struct error *err)
{
	struct error undo;
	int ret = asks_restore(x, true, NULL, &undo);
	int plan = patch_plan_revert(x->config.plan, x->kernel, NULL, ret ? NULL : &undo);

	if (!ret && !plan)
		return 0;
	return error_set(err, ENOTRECOVERABLE, "%s; what was written cannot be taken back: %s",
			 why->text, undo.text);
}

static int install(struct engine *engine, struct error *err)
{
	struct ring_engine *x = ring_engine_of(engine);
	struct error why;
	int ret;

	reset(x);
	ret = ring_engine_make_memory(x, err);
	if (ret)
		goto remove;
	ret = ring_engine_start_thread(x, err);
	if (ret)
		goto use_traps;
	x->installed = true;
	ret = patch_plan_apply(x->config.plan, x->kernel, &why);
	if (!ret)
		ret = asks_begin(x, &why);
	if (!ret)
		return 0;
	if (take_out(x, &why, err))
		return -ENOTRECOVERABLE;
	if (err)
		*err = why;
	x->installed = false;
	asks_stop_thread(x);
	ring_engine_stop_thread(x);
use_traps:
	patch_plan_use_traps(x->config.plan);
remove:
	ring_engine_remove_memory(x, NULL);
	ring_engine_free_memory(x);
	return ret;
}

/* SYSTEM_BOOTING 0, SYSTEM_SCHEDULING 1 while other CPUs are started (include/linux/kernel.h) */
static bool has_started_cpus(const struct kernel *kernel)
{
	uint32_t state;

	return kernel_read_u32(kernel, "system_state", &state, NULL) || state > 1;
}

static bool refresh(struct engine *engine)
{
	struct ring_engine *x = ring_engine_of(engine);

	ring_engine_read_clocks(x, NULL);
	return !has_started_cpus(x->kernel);
}

static int check_cpus(struct engine *engine, struct error *err)
{
	struct ring_engine *x = ring_engine_of(engine);
	int32_t number;
	int ret = percpu_cpu_number(x->kernel, &number, err);

	return ret ? ret : ring_engine_read_clocks(x, err);
}

/* --- going ----------------------------------------------------------------------------------- */

/* The thread takes the memory away when the guest has left it. */
static int withdraw(struct engine *engine, struct patch_outcome *outcome, struct error *err)
{
	struct ring_engine *x = ring_engine_of(engine);
	struct quiesce_policy policy = {
		.tasks = &x->tasks, .gva = x->mapping.gva, .size = x->code_bytes};
	int ret = 0;

	if (!x->leaving) {
		kprobe_table_deinit(&x->copies);
		ret = kprobe_table_find_copies(x->config.plan, x->kernel, &x->copies, err);
	}
	if (!ret)
		ret = patch_plan_revert(x->config.plan, x->kernel, outcome, err);
	if (!ret)
		ret = asks_restore(x, false, outcome, err);
	if (ret || x->leaving)
		return ret;
	policy.may_enter = asks_keep_jumps(x);
	pthread_mutex_lock(&x->lock);
	/* cannot fail: a merge takes fewer rings than this has room for */
	quiesce_begin(&x->quiesce, x->guest, &policy, NULL);
	x->leaving = true;
	x->rung = true;
	pthread_cond_signal(&x->wake);
	pthread_mutex_unlock(&x->lock);
	return 0;
}

/* 0, or as finish(). The thread itself stops the guest for moments: only a longer stop is a pause. */
static int wait_until_left(struct ring_engine *x)
{
	unsigned int paused = 0;

	for (unsigned int ms = 0; ms < LEAVE_MS && paused < PAUSED_MS; ms += SLICE_MS) {
		if (ring_engine_has_left(x, SLICE_MS))
			return 0;
		paused = x->guest->control->is_stopped(x->guest) ? paused + SLICE_MS : 0;
	}
	return paused < PAUSED_MS ? -EBUSY : -EINPROGRESS;
}

static void add_counts(struct ring_counts *to, const struct ring_counts *from)
{
	to->records += from->records;
	to->lost += from->lost;
	to->clamped += from->clamped;
	to->stalled += from->stalled;
	to->malformed += from->malformed;
	to->skipped_bytes += from->skipped_bytes;
}

struct ring_counts ring_engine_counts(struct ring_engine *x, unsigned int vcpu)
{
	struct ring_counts sum = x->rings[vcpu].counts;

	pthread_mutex_lock(&x->direct.lock);
	for (unsigned int i = vcpu; i < x->direct.nr_rings; i += x->nr_vcpus)
		add_counts(&sum, &x->direct.rings[i].counts);
	pthread_mutex_unlock(&x->direct.lock);
	return sum;
}

static uint64_t ordered_losses(const struct ring_engine *x)
{
	uint64_t lost = 0;

	for (unsigned int i = 0; i < 2 * x->nr_vcpus; i++)
		lost += ring_losses(&x->rings[i].counts);
	return lost;
}

void ring_engine_note_losses(struct ring_engine *x)
{
	if (x->ending)
		return;
	atomic_store(&x->ring_losses, x->past_losses + ordered_losses(x));
}

static uint64_t lost(struct engine *engine)
{
	struct ring_engine *x = ring_engine_of(engine);

	return atomic_load(&x->ring_losses) + atomic_load(&x->skipped[0]);
}

static void keep_counts(struct ring_engine *x)
{
	x->past_losses = atomic_load(&x->ring_losses);
	pthread_mutex_lock(&x->lock);
	for (unsigned int i = 0; i < x->nr_vcpus; i++) {
		struct ring_engine_vcpu *v = &x->vcpus[i];

		add_counts(&v->past, &v->seen);
		v->past.stalled -= v->cut_off;
		v->seen = (struct ring_counts){0};
	}
	pthread_mutex_unlock(&x->lock);
}

/* After the thread has ended. The guest is stopped, as any OUT of its own makes a vCPU search the
 * trampolines. */
static void tear_down(struct ring_engine *x)
{
	const bool traps = x->guest->caps & GUEST_CAP_PORT_TRAP;

	ring_engine_settle_now(x);
	keep_counts(x);
	if (traps)
		x->guest->control->stop(x->guest, NULL);
	ring_engine_free_memory(x);
	x->installed = false;
	if (traps)
		x->guest->control->resume(x->guest, NULL);
}

static int still_inside(struct ring_engine *x, int code, struct error *err)
{
	struct error why;

	pthread_mutex_lock(&x->lock);
	why = x->inside;
	pthread_mutex_unlock(&x->lock);
	return error_set(err, code, "the guest is still inside the trampolines%s%s",
			 why.text[0] ? ": " : "", why.text);
}

static int finish(struct engine *engine, struct error *err)
{
	struct ring_engine *x = ring_engine_of(engine);
	int ret;

	if (!x->installed)
		return 0;
	ret = wait_until_left(x);
	if (ret && x->copied_by)
		return error_set(err, -ret,
				 "a kprobe of the guest at 0x%" PRIx64
				 " has copied a jump into the trampolines: remove it in the guest",
				 x->copied_by);
	if (ret)
		return still_inside(x, -ret, err);
	ring_engine_stop_thread(x);
	asks_stop_thread(x);
	tear_down(x);
	return 0;
}

static int end(struct engine *engine, struct patch_outcome *outcome, struct error *err)
{
	struct ring_engine *x = ring_engine_of(engine);
	int ret, asks;

	/* the guest may run: the thread could put sites back that have been reverted */
	asks_stop_thread(x);
	ret = patch_plan_revert(x->config.plan, x->kernel, outcome, err);
	if (!x->installed)
		return ret;
	asks = asks_restore(x, true, outcome, ret ? NULL : err);
	ret = ret ? ret : asks;
	ring_engine_stop_thread(x);
	if (!x->left) {
		for (unsigned int i = 0; i < x->nr_vcpus; i++)
			x->vcpus[i].cut_off = ring_engine_counts(x, i).stalled;
		x->ending = true;
		ring_engine_drain_all(x);
		x->ending = false;
		/* records that the guest's end has cut off are neither damage nor events */
		for (unsigned int i = 0; i < x->nr_vcpus; i++)
			x->vcpus[i].cut_off =
				ring_engine_counts(x, i).stalled - x->vcpus[i].cut_off;
	}
	tear_down(x);
	return ret;
}

static void count(struct engine *engine, unsigned int vcpu, struct trace_counters *sum)
{
	struct ring_engine *x = ring_engine_of(engine);
	struct ring_engine_vcpu *v = &x->vcpus[vcpu];
	struct ring_counts ring;

	pthread_mutex_lock(&x->lock);
	ring = v->past;
	add_counts(&ring, &v->seen);
	pthread_mutex_unlock(&x->lock);
	sum->v[COUNTER_RING_RECORDS] += ring.records;
	sum->v[COUNTER_RING_DROPS] += ring.lost + atomic_load(&v->lost);
	sum->v[COUNTER_RING_DAMAGED] += ring.stalled + ring.malformed;
	sum->v[COUNTER_RING_RESTAMPED] += ring.clamped;
	sum->v[COUNTER_RING_WAITS] += atomic_load(&v->waits);
	sum->v[COUNTER_RING_WAIT_NS] += atomic_load(&v->wait_ns);
	sum->v[COUNTER_DOORBELLS] += atomic_load(&v->doorbells);
}

/* --- life ------------------------------------------------------------------------------------ */

static void destroy(struct engine *engine)
{
	struct ring_engine *x = ring_engine_of(engine);

	ring_engine_stop_thread(x);
	asks_stop_thread(x);
	ring_engine_free_memory(x);
	asks_deinit(x);
	direct_deinit(x);
	kprobe_table_deinit(&x->copies);
	pthread_cond_destroy(&x->passed);
	pthread_cond_destroy(&x->wake);
	pthread_mutex_destroy(&x->lock);
	free(x->settle.marks);
	free(x->vcpus);
	free(x->cpus);
	free(x);
}

static int ask_many(struct engine *engine, struct error *err)
{
	return asks_begin_many(ring_engine_of(engine), err);
}

static const struct engine_ops ring_ops = {
	.name = "exitless",
	.install = install,
	.on_trap = ring_engine_on_trap,
	.submit = ring_engine_submit,
	.settle = ring_engine_settle,
	.take_saved_array = ring_engine_take_saved_array,
	.refresh = refresh,
	.check_cpus = check_cpus,
	.withdraw = withdraw,
	.finish = finish,
	.end = end,
	.direct_prepare = direct_prepare,
	.direct_commit = direct_commit,
	.direct_discard = direct_discard,
	.direct_uses = direct_uses,
	.ask_many = ask_many,
	.pass_pids = ring_engine_pass_pids,
	.lost = lost,
	.counts = count,
	.destroy = destroy,
};

static void init_sync(struct ring_engine *x)
{
	pthread_mutex_init(&x->lock, NULL);
	thread_cond_init(&x->wake);
	thread_cond_init(&x->passed);
}

int ring_engine_create(const struct engine_config *config, struct engine **out, struct error *err)
{
	struct ring_engine *x = calloc(1, sizeof(*x));

	if (!x)
		return error_set(err, ENOMEM, "out of memory");
	x->engine.ops = &ring_ops;
	x->config = *config;
	x->kernel = config->kernel;
	x->guest = config->kernel->guest;
	x->nr_vcpus = x->guest->nr_vcpus;
	x->poll_ns = POLL_NS;
	init_sync(x);
	direct_init(x);
	asks_init(x);
	x->vcpus = calloc(x->nr_vcpus, sizeof(*x->vcpus));
	x->cpus = calloc(x->nr_vcpus, sizeof(*x->cpus));
	x->settle.marks = calloc(2 * (size_t)x->nr_vcpus, sizeof(*x->settle.marks));
	if (!x->vcpus || !x->cpus || !x->settle.marks) {
		destroy(&x->engine);
		return error_set(err, ENOMEM, "out of memory");
	}
	*out = &x->engine;
	return 0;
}
