/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/machine/stop-gate.h"

#include <unistd.h>
#include "tests/lib/tap.h"

/* Threads that behave like vCPUs: count while running, stop others now and then. */
enum { NR = 4, STOPS = 300 };

static struct stop_gate gate;

struct worker {
	struct stop_member member;
	pthread_t thread;
	atomic_uint kicks;
	atomic_ulong work;
	unsigned int stop_every; /* 0 = never stops the others */
	atomic_uint stops;
};
static struct worker workers[NR];
static atomic_bool done;
static atomic_uint violations;

static void kick(void *arg)
{
	atomic_fetch_add(&((struct worker *)arg)->kicks, 1);
}

static unsigned long work_of_others(const struct worker *me)
{
	unsigned long sum = 0;

	for (int i = 0; i < NR; i++) {
		if (&workers[i] != me)
			sum += atomic_load(&workers[i].work);
	}
	return sum;
}

static void stop_others(const struct worker *me)
{
	unsigned long before;

	stop_gate_stop(&gate);
	before = work_of_others(me);
	stop_gate_stop(&gate); /* nests */
	usleep(50);
	stop_gate_resume(&gate);
	if (work_of_others(me) != before || !stop_gate_is_mine(&gate))
		atomic_fetch_add(&violations, 1);
	stop_gate_resume(&gate);
}

static void *run(void *arg)
{
	struct worker *me = arg;

	stop_gate_enter(&me->member);
	while (!atomic_load(&done)) {
		unsigned long work;

		if (stop_gate_requested(&gate)) {
			stop_gate_park(&me->member);
			continue;
		}
		work = atomic_fetch_add(&me->work, 1);
		if (me->stop_every && me->stops < STOPS && work % me->stop_every == 0) {
			me->stops++;
			stop_others(me);
		}
	}
	stop_gate_leave(&me->member);
	return NULL;
}

static void start_workers(void)
{
	for (int i = 0; i < NR; i++) {
		workers[i].member.kick = kick;
		workers[i].member.arg = &workers[i];
		stop_gate_add(&gate, &workers[i].member);
	}
	/* Two of them stop the others, at different rates, so that they collide. */
	workers[0].stop_every = 500;
	workers[1].stop_every = 700;
	stop_gate_stop(&gate);
	for (int i = 0; i < NR; i++)
		pthread_create(&workers[i].thread, NULL, run, &workers[i]);
	usleep(10000);
	is_u64(work_of_others(NULL), 0, "threads that start while the gate is owned wait");
	stop_gate_resume(&gate);
}

/* --- one step after the other ----------------------------------------------------------------- */

static struct worker alone, absent;

static void add(struct worker *worker, void (*kick_it)(void *arg))
{
	worker->member.kick = kick_it;
	worker->member.arg = worker;
	stop_gate_add(&gate, &worker->member);
}

/* This thread is a member. */
static void test_steps(void)
{
	stop_gate_init(&gate);
	add(&alone, kick);
	add(&absent, kick);
	stop_gate_enter(&alone.member);
	stop_gate_stop(&gate);
	ok(alone.member.parked, "a member that owns the gate counts as stopped");
	ok(!alone.kicks && !absent.kicks, "members that count as stopped are not kicked");
	stop_gate_stop(&gate);
	stop_gate_resume(&gate);
	ok(stop_gate_requested(&gate), "the resume of a nested stop lets nobody go on");
	stop_gate_resume(&gate);
	ok(!stop_gate_requested(&gate), "the last resume lets all go on");
	ok(!alone.member.parked, "a member counts as running when it owns the gate no more");
	stop_gate_leave(&alone.member);
	stop_gate_deinit(&gate);
}

static void *try_stop(void *stopped)
{
	*(bool *)stopped = stop_gate_try_stop(&gate);
	return NULL;
}

static void test_try(void)
{
	bool stopped = true;
	pthread_t thread;

	stop_gate_init(&gate);
	ok(stop_gate_try_stop(&gate) && stop_gate_is_mine(&gate), "an open gate is taken at once");
	ok(stop_gate_try_stop(&gate), "so is one's own gate");
	stop_gate_resume(&gate);
	ok(stop_gate_is_mine(&gate), "each stop of one's own gate needs a resume");
	pthread_create(&thread, NULL, try_stop, &stopped);
	pthread_join(thread, NULL);
	ok(!stopped, "a gate that another thread owns is not taken");
	stop_gate_resume(&gate);
	ok(!stop_gate_is_mine(&gate), "the last resume opens the gate");
	stop_gate_deinit(&gate);
}

static struct worker late;
static atomic_bool kicked, leaves_guest;

static void kick_late(void *arg)
{
	kick(arg);
	atomic_store(&kicked, true);
}

/* Takes long to leave the guest. */
static void *run_late(void *arg)
{
	stop_gate_enter(&late.member);
	atomic_store((atomic_bool *)arg, true);
	while (!atomic_load(&kicked))
		usleep(100);
	usleep(50000);
	atomic_store(&leaves_guest, true);
	stop_gate_park(&late.member);
	stop_gate_leave(&late.member);
	return NULL;
}

static void test_late(void)
{
	atomic_bool runs = false;
	pthread_t thread;

	stop_gate_init(&gate);
	add(&late, kick_late);
	pthread_create(&thread, NULL, run_late, &runs);
	while (!atomic_load(&runs))
		usleep(100);
	stop_gate_stop(&gate);
	ok(atomic_load(&leaves_guest), "a stop returns when the last member has parked");
	is_u64(late.kicks, 1, "a member that runs is kicked");
	stop_gate_resume(&gate);
	pthread_join(thread, NULL);
	stop_gate_deinit(&gate);
}

int main(void)
{
	test_steps();
	test_try();
	test_late();
	stop_gate_init(&gate);
	start_workers();
	ok(!stop_gate_is_mine(&gate), "after a resume the gate is not owned");
	for (int i = 0; i < STOPS; i++) {
		usleep(100);
		stop_others(NULL);
	}
	while (workers[0].stops < STOPS || workers[1].stops < STOPS)
		usleep(1000);
	is_u64(atomic_load(&violations), 0, "no thread runs during 900 stops by three threads");
	ok(atomic_load(&workers[2].kicks) > 0, "threads that run are kicked");
	atomic_store(&done, true);
	for (int i = 0; i < NR; i++)
		pthread_join(workers[i].thread, NULL);
	stop_gate_stop(&gate);
	ok(stop_gate_is_mine(&gate), "threads that have left count as stopped");
	stop_gate_resume(&gate);
	stop_gate_deinit(&gate);
	return tap_done();
}
