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

int main(void)
{
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
