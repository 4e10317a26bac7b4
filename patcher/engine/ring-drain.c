/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The thread that empties the rings, and takes the memory away when the guest has left it. */
#include <errno.h>
#include <string.h>
#include "formats/base/thread.h"
#include "patcher/coexist/watchdogs.h"
#include "patcher/engine/host-record.h"
#include "patcher/engine/ring-internal.h"

enum {
	NS_PER_MS = 1000000,
	BUSY_MS = 2,   /* between passes, after one with records */
	QUIET_MS = 10, /* ... after one without */
	IDLE_MS = 100, /* without records, until the doorbells are armed */
	LEAVE_MS = 32, /* the most between two tries to leave */
	LEAVE_TRIES = 3,
};

/* The host may keep a vCPU off its CPU in the middle of a record for any time. A record that is
 * unfinished after this many polls, at each of which the guest ran, is given up. */
static const uint64_t stall_polls = 300;

/* How often the guest's watchdogs are asked while a record is unfinished. */
static const uint64_t patience_look_ns = 1000000000;

struct timespec ring_engine_deadline(uint64_t now_ns, uint64_t ns)
{
	uint64_t at = now_ns + ns;

	return (struct timespec){.tv_sec = (time_t)(at / 1000000000),
				 .tv_nsec = (long)(at % 1000000000)};
}

void ring_engine_wake(struct ring_engine *x)
{
	pthread_mutex_lock(&x->lock);
	x->rung = true;
	pthread_cond_signal(&x->wake);
	pthread_mutex_unlock(&x->lock);
}

struct pass {
	struct ring_engine *x;
	uint64_t records;
};

/* The words of a stack, and items, are read more than once: the guest must not change them. */
static const uint64_t *copy_fields(struct ring_engine *x, const struct ring_taken *taken)
{
	size_t size = x->set.shapes[taken->id].size - sizeof(struct ring_record);

	memcpy(x->copy, taken->fields, size + taken->items * sizeof(uint64_t));
	return x->copy;
}

__attribute__((noinline)) static void emit_trap(struct ring_engine *x, unsigned int vcpu,
						const struct ring_taken *taken)
{
	const struct probe_ref *ref;
	struct probe_hit hit;
	enum probe_point point;
	uint32_t id;

	trap_record_read(taken, &point, &id, &hit);
	hit.vcpu = vcpu;
	hit.batch = x->passes;
	hit.time_ns = tsc_quick_ns(&x->cpus[vcpu].clock, taken->tsc);
	ref = id == TRAP_RECORD_NO_REF ? NULL : &x->config.plan->refs[id];
	x->config.emit(x->config.arg, ref, point, &hit);
}

/* False: it is to be a hit. */
static bool take(struct ring_engine *x, unsigned int vcpu, const struct trampoline_place *place,
		 const struct ring_taken *taken)
{
	const struct probe_record record = {&x->cpus[vcpu], taken->tsc, taken->fields, place->index,
					    place->capture.fields};

	return place->take && place->take(x->config.arg, place->ref, &record);
}

__attribute__((noinline)) static void emit_hit(struct ring_engine *x, unsigned int vcpu,
					       struct trampoline_place *place,
					       const struct ring_taken *taken)
{
	struct ring_taken copy;
	struct probe_hit *hit;

	if (place->has_words) {
		copy = *taken;
		copy.fields = copy_fields(x, taken);
		taken = &copy;
	}
	hit = trampoline_read(place, taken);
	hit->vcpu = vcpu;
	hit->batch = x->passes;
	hit->time_ns = tsc_quick_ns(&x->cpus[vcpu].clock, taken->tsc);
	x->config.emit(x->config.arg, place->ref, place->capture.point, hit);
}

static void emit_record(struct ring_engine *x, unsigned int vcpu, const struct ring_taken *taken)
{
	struct trampoline_place *place = &x->set.places[taken->id];

	if (!take(x, vcpu, place, taken))
		emit_hit(x, vcpu, place, taken);
}

/* By itself. A call that has returned is two records again. */
static void emit_one(struct ring_engine *x, const struct ring_taken *taken)
{
	const struct ring_taken returned = {
		.tsc = taken->tsc, .fields = taken->returned, .id = taken->returned_id};

	if (taken->ring >= x->nr_vcpus) {
		emit_trap(x, taken->ring - x->nr_vcpus, taken);
		return;
	}
	emit_record(x, taken->ring, taken);
	if (taken->returned)
		emit_record(x, taken->ring, &returned);
}

static size_t take_run(struct ring_engine *x, const struct ring_taken *taken, size_t n)
{
	struct probe_run run = {.taken = taken, .n = n, .writers = x->set.writers};

	if (!taken->alone || !x->config.take_run)
		return 0;
	run.cpu = &x->cpus[taken->ring];
	return x->config.take_run(x->config.arg, &run);
}

static void emit_records(void *arg, const struct ring_taken *taken, size_t n)
{
	struct pass *pass = arg;

	pass->records += n;
	while (n) {
		size_t done = take_run(pass->x, taken, n);

		if (!done) {
			emit_one(pass->x, taken);
			done = 1;
		}
		taken += done;
		n -= done;
	}
}

static bool is_unfinished(struct ring_engine *x)
{
	bool waiting = false;

	for (unsigned int i = 0; i < 2 * x->nr_vcpus; i++)
		waiting |= ring_is_waiting(&x->rings[i]);
	return waiting | direct_is_waiting(x);
}

/* Half of the time that writers wait is left for what the thread does until it looks. */
uint64_t ring_engine_late_ns(const struct ring_engine *x)
{
	const uint64_t most = RING_LATE_POLLS * x->poll_ns, half = x->patience_ns / 2;

	return most < half ? most : half;
}

/*
 * The guest may change the times of its watchdogs. Writers that spin keep those that were read when
 * their code was made: so the shortest one counts.
 */
static void follow_patience(struct ring_engine *x, uint64_t now)
{
	if (now < x->next_patience)
		return;
	x->patience_ns = watchdogs_allow_ns(x->kernel, x->patience_ns);
	x->next_patience = now + patience_look_ns;
}

/*
 * The time that vCPUs had to finish a record: without the time in which the guest was held stopped.
 * Polling that may cost a call to another process, so it is done seldom, and only while a record is
 * unfinished. Time between two polls that are too far apart does not count, as the whole host may
 * have stood still.
 */
static uint64_t running_ns(struct ring_engine *x)
{
	uint64_t now = clock_monotonic_ns(), step;
	bool waiting = is_unfinished(x);

	if (waiting)
		follow_patience(x, now);
	step = ring_engine_late_ns(x) / RING_LATE_POLLS;
	if (waiting && now - x->polled_ns < step)
		return x->run_ns;
	if (waiting && !x->guest->control->is_stopped(x->guest))
		x->run_ns += step;
	x->polled_ns = now;
	return x->run_ns;
}

/* Another thread may read the clocks again at any time. */
static void begin_cpus(struct ring_engine *x)
{
	pthread_mutex_lock(&x->lock);
	for (unsigned int i = 0; i < x->nr_vcpus; i++)
		x->cpus[i] = (struct probe_cpu){i, x->passes, tsc_clock_quick(&x->vcpus[i].clock)};
	pthread_mutex_unlock(&x->lock);
}

/* A backend without a clock of its own learns the guest's time from the records. */
static void show_stamps(struct ring_engine *x)
{
	uint64_t tsc;

	if (!x->guest->clock->tsc_seen)
		return;
	for (unsigned int i = 0; i < x->nr_vcpus; i++)
		if (ring_newest_stamp(&x->rings[i], &tsc))
			x->guest->clock->tsc_seen(x->guest, tsc);
	direct_show_stamps(x);
}

/* For the writers of both lanes. The rings of traps are written by threads of the host, which see
 * whether a ring is dead; code of the guest does not. */
static void show_life(struct ring_engine *x)
{
	struct ring_stuck stuck = {false, false};

	ring_find_stuck(x->rings, 2 * x->nr_vcpus, &stuck);
	direct_find_stuck(x, &stuck);
	if (!stuck.any)
		ring_show_life(&x->rings[0]);
	pthread_mutex_lock(&x->lock);
	if (!stuck.alive)
		x->give_up_ns = 0;
	pthread_mutex_unlock(&x->lock);
}

static bool is_any_full(const struct ring_engine *x)
{
	for (unsigned int i = 0; i < 2 * x->nr_vcpus; i++)
		if (ring_room(&x->rings[i]) == RING_FULL)
			return true;
	return false;
}

/*
 * A clock that is learnt from records stands while none are written. Once it has stood for as long
 * as a reservation takes to become visible, no other record with an earlier stamp appears.
 */
static uint64_t margin_at(struct ring_engine *x, uint64_t tsc)
{
	const uint64_t now = clock_monotonic_ns();

	if (x->guest->clock->tsc_seen && tsc == x->stood_tsc &&
	    now - x->stood_since >= RING_MARGIN_NS)
		return 0;
	if (tsc != x->stood_tsc)
		x->stood_since = now;
	x->stood_tsc = tsc;
	return x->margin;
}

static uint64_t make_pass(struct ring_engine *x, bool to_the_end, uint64_t stall)
{
	struct ring_clock clock = {.stall_ns = stall};
	struct pass pass = {x, 0};

	x->passes++;
	show_stamps(x);
	clock.tsc = x->guest->clock->tsc(x->guest);
	clock.margin = to_the_end ? 0 : margin_at(x, clock.tsc);
	clock.now_ns = running_ns(x);
	clock.late_ns = is_any_full(x) && stall ? ring_engine_late_ns(x) : stall;
	begin_cpus(x);
	show_life(x);
	pass.records = direct_pass(x, &clock);
	ring_merge_pass(&x->merge, &clock, emit_records, &pass);
	if (x->config.emitted)
		x->config.emitted(x->config.arg);
	ring_engine_try_settle(x);
	ring_engine_note_losses(x);
	show_life(x);
	pthread_mutex_lock(&x->lock);
	for (unsigned int i = 0; i < x->nr_vcpus; i++)
		x->vcpus[i].seen = ring_engine_counts(x, i);
	if (x->waiting)
		pthread_cond_broadcast(&x->passed);
	pthread_mutex_unlock(&x->lock);
	return pass.records;
}

static bool is_drained(const struct ring_engine *x)
{
	bool drained = true;

	for (unsigned int i = 0; i < 2 * x->nr_vcpus; i++)
		drained &= ring_is_drained(&x->rings[i]);
	return drained & direct_is_drained(x);
}

/* Rings are closed first: a guest that could not be stopped may write as fast as this reads. */
void ring_engine_drain_all(struct ring_engine *x)
{
	for (unsigned int i = 0; i < 2 * x->nr_vcpus; i++)
		ring_close(&x->rings[i]);
	direct_close_rings(x);
	do
		make_pass(x, true, 0);
	while (!is_drained(x));
}

enum doze { DOZE_OVER, DOZE_RUNG, DOZE_QUIT };

/* Sleep until the thread is woken, at most `ns`; 0: without limit. */
static enum doze doze_ns(struct ring_engine *x, uint64_t ns)
{
	struct timespec until = ring_engine_deadline(clock_monotonic_ns(), ns);
	enum doze result;
	int ret = 0;

	pthread_mutex_lock(&x->lock);
	while (!x->rung && !x->quit && !ret)
		ret = ns ? pthread_cond_timedwait(&x->wake, &x->lock, &until)
			 : pthread_cond_wait(&x->wake, &x->lock);
	result = x->quit ? DOZE_QUIT : x->rung ? DOZE_RUNG : DOZE_OVER;
	x->rung = false;
	pthread_mutex_unlock(&x->lock);
	return result;
}

/* Between two passes. While a record is unfinished, not for so long that it is late before the next
 * one. */
static enum doze doze(struct ring_engine *x, unsigned int ms)
{
	const uint64_t most = ring_engine_late_ns(x) / (2 * RING_LATE_POLLS);
	const uint64_t ns = (uint64_t)ms * NS_PER_MS;

	return doze_ns(x, most < ns && is_unfinished(x) ? most : ns);
}

static bool arm_all(struct ring_engine *x)
{
	for (unsigned int i = 0; i < x->nr_vcpus; i++) {
		const struct ring *trap = trap_ring(x, i);

		if (!ring_arm(&x->rings[i]) ||
		    __atomic_load_n(&trap->header->reserve, __ATOMIC_SEQ_CST) != trap->consumed)
			return false;
	}
	return direct_arm(x);
}

/* Sleep until the guest rings a doorbell. A record that was on its way into a ring while that was
 * armed rings nothing, so all are armed twice. */
static enum doze sleep_until_rung(struct ring_engine *x)
{
	enum doze result = DOZE_OVER;

	atomic_store(&x->asleep, true);
	if (arm_all(x))
		result = doze_ns(x, NS_PER_MS);
	if (result == DOZE_OVER && arm_all(x))
		result = doze_ns(x, 0);
	atomic_store(&x->asleep, false);
	return result;
}

static bool is_leaving(struct ring_engine *x)
{
	bool leaving;

	pthread_mutex_lock(&x->lock);
	leaving = x->leaving;
	pthread_mutex_unlock(&x->lock);
	return leaving;
}

/* --- leaving ---------------------------------------------------------------------------------- */

/* What could not be taken away at first may go at the next try. */
static void leave(struct ring_engine *x)
{
	struct error err;
	int ret = -1;

	ring_engine_drain_all(x);
	for (int i = 0; ret && i < LEAVE_TRIES; i++) {
		ret = asks_restore(x, true, NULL, &err);
		if (!ret)
			asks_forget_boxes(x);
		if (!ret)
			ret = ring_engine_remove_memory(x, &err);
		if (ret)
			first_error_set(x->config.failure, &err);
	}
}

/* With the guest stopped. */
static bool is_copied(struct ring_engine *x)
{
	x->copied_by = kprobe_table_remaining(&x->copies, x->kernel);
	return x->copied_by;
}

static void note_inside(struct ring_engine *x, const struct error *why)
{
	pthread_mutex_lock(&x->lock);
	x->inside = *why;
	pthread_mutex_unlock(&x->lock);
}

/* With the guest stopped. */
static bool has_left(struct ring_engine *x, struct quiesce *quiesce)
{
	struct error why = {0};
	bool left = !quiesce_check(quiesce, &why);

	note_inside(x, &why);
	return left;
}

/* Stop the guest, and if it has left the code, and no copy of a jump leads there, call `then`. */
static bool try_quiesce(struct ring_engine *x, struct quiesce *quiesce,
			void (*then)(struct ring_engine *x))
{
	struct error why;
	bool left = false;

	if (!quiesce_is_promising(quiesce))
		return false;
	/* a vCPU that waits in its trap for the thread could not be stopped */
	atomic_store(&x->stopping, true);
	pthread_mutex_lock(&x->lock);
	pthread_cond_broadcast(&x->passed);
	pthread_mutex_unlock(&x->lock);
	if (!x->guest->control->try_stop(x->guest, &why)) {
		left = has_left(x, quiesce) && !is_copied(x);
		if (left)
			then(x);
		x->guest->control->resume(x->guest, NULL);
	} else {
		error_prefix(&why, "it cannot be stopped to look: ");
		note_inside(x, &why);
	}
	atomic_store(&x->stopping, false);
	return left;
}

bool ring_engine_has_left(struct ring_engine *x, unsigned int ms)
{
	struct timespec until = ring_engine_deadline(clock_monotonic_ns(), (uint64_t)ms * 1000000);
	bool left;
	int ret = 0;

	pthread_mutex_lock(&x->lock);
	while (!x->left && !ret)
		ret = pthread_cond_timedwait(&x->passed, &x->lock, &until);
	left = x->left;
	pthread_mutex_unlock(&x->lock);
	return left;
}

/* Until the guest has left the memory, or has ended. */
static void drain_and_leave(struct ring_engine *x)
{
	unsigned int ms = 1;
	bool left = false;

	/* not what a try to free code has found before */
	note_inside(x, &(struct error){0});
	/* each try stops the guest, which may be announced to others */
	for (;;) {
		make_pass(x, false, stall_polls * x->poll_ns);
		left = try_quiesce(x, &x->quiesce, leave);
		if (left || doze(x, ms) == DOZE_QUIT)
			break;
		ms = 2 * ms < LEAVE_MS ? 2 * ms : LEAVE_MS;
	}
	pthread_mutex_lock(&x->lock);
	x->left = left;
	pthread_cond_broadcast(&x->passed);
	pthread_mutex_unlock(&x->lock);
}

/* Code of the direct lane that is being left; false: there is none. Each try stops the guest. */
static bool retire(struct ring_engine *x, uint64_t now)
{
	if (!direct_is_retiring(x)) {
		x->retire_ms = 1;
		return false;
	}
	if (now < x->next_retire)
		return true;
	try_quiesce(x, &x->direct.quiesce, direct_retire);
	x->next_retire = now + (uint64_t)x->retire_ms * NS_PER_MS;
	x->retire_ms = 2 * x->retire_ms < LEAVE_MS ? 2 * x->retire_ms : LEAVE_MS;
	return true;
}

static void *drain(void *arg)
{
	struct ring_engine *x = arg;
	uint64_t busy_until = clock_monotonic_ns() + (uint64_t)IDLE_MS * NS_PER_MS;
	enum doze result = DOZE_OVER;

	while (result != DOZE_QUIT && !is_leaving(x)) {
		uint64_t records = make_pass(x, false, stall_polls * x->poll_ns);
		uint64_t now = clock_monotonic_ns();
		bool retiring = retire(x, now);

		if (records || retiring || ring_engine_is_settling(x))
			busy_until = now + (uint64_t)IDLE_MS * NS_PER_MS;
		if (now < busy_until || !(x->guest->caps & GUEST_CAP_PORT_TRAP)) {
			result = doze(x, records ? BUSY_MS : QUIET_MS);
			continue;
		}
		result = sleep_until_rung(x);
		busy_until = clock_monotonic_ns() + (uint64_t)IDLE_MS * NS_PER_MS;
	}
	if (result != DOZE_QUIT)
		drain_and_leave(x);
	return NULL;
}

int ring_engine_start_thread(struct ring_engine *x, struct error *err)
{
	int code;

	x->polled_ns = clock_monotonic_ns();
	x->running = true;
	code = thread_start(&x->thread, "sonde-drain", drain, x);
	if (!code)
		return 0;
	x->running = false;
	return error_set(err, code, "cannot start the thread that drains the rings");
}

void ring_engine_stop_thread(struct ring_engine *x)
{
	if (!x->running)
		return;
	pthread_mutex_lock(&x->lock);
	x->quit = true;
	pthread_cond_signal(&x->wake);
	pthread_mutex_unlock(&x->lock);
	pthread_join(x->thread, NULL);
	pthread_mutex_lock(&x->lock);
	x->running = x->quit = false;
	pthread_cond_broadcast(&x->passed);
	pthread_mutex_unlock(&x->lock);
}
