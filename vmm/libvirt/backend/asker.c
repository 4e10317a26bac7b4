/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A thread that asks libvirt for the domain's state on behalf of the one that serves breakpoints.
 * libvirt may answer no sooner than a save or a migration is over, and before that it stops the
 * domain, whose breakpoints have to leave its memory at once.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "formats/base/thread.h"
#include "vmm/libvirt/backend/internal.h"

/* Breakpoints may be parked for hours: without QEMU's monitor, which others need meanwhile. */
static struct libvirt_answer ask_parked(struct libvirt_guest *g)
{
	enum libvirt_run_state state;
	const bool known = !libvirt_domain_state(g->domain, &state, NULL);

	return (struct libvirt_answer){known, known && state == LIBVIRT_RUNS
						      ? LIBVIRT_STATUS_RUNNING
						      : LIBVIRT_STATUS_PAUSED};
}

static struct libvirt_answer ask_qemu(struct libvirt_guest *g)
{
	struct libvirt_answer answer;

	answer.known = !libvirt_guest_status(g, &answer.status, NULL);
	return answer;
}

static void *ask(void *arg)
{
	struct libvirt_guest *g = arg;
	struct libvirt_asker *a = &g->traps.asker;
	struct libvirt_answer answer;
	bool parked;

	pthread_mutex_lock(&a->lock);
	while (!a->ending) {
		if (!a->asked) {
			pthread_cond_wait(&a->wake, &a->lock);
			continue;
		}
		parked = a->parked;
		pthread_mutex_unlock(&a->lock);
		answer = parked ? ask_parked(g) : ask_qemu(g);
		pthread_mutex_lock(&a->lock);
		a->asked = false;
		a->answer = answer;
		eventfd_write(a->answered, 1);
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

int libvirt_asker_start(struct libvirt_guest *g, struct error *err)
{
	struct libvirt_asker *a = &g->traps.asker;

	pthread_mutex_init(&a->lock, NULL);
	thread_cond_init(&a->wake);
	a->answered = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	a->running = a->answered >= 0 && !thread_start(&a->thread, "sonde-asker", ask, g);
	return a->running ? 0 : error_set(err, EAGAIN, "cannot start the thread that asks libvirt");
}

void libvirt_asker_stop(struct libvirt_guest *g)
{
	struct libvirt_asker *a = &g->traps.asker;

	if (a->running) {
		pthread_mutex_lock(&a->lock);
		a->ending = true;
		pthread_cond_signal(&a->wake);
		pthread_mutex_unlock(&a->lock);
		pthread_join(a->thread, NULL);
	}
	if (a->answered >= 0)
		close(a->answered);
}

void libvirt_asker_ask(struct libvirt_guest *g, bool parked)
{
	struct libvirt_asker *a = &g->traps.asker;

	pthread_mutex_lock(&a->lock);
	a->asked = true;
	a->parked = parked;
	pthread_cond_signal(&a->wake);
	pthread_mutex_unlock(&a->lock);
}

bool libvirt_asker_has_answer(struct libvirt_guest *g, struct libvirt_answer *out)
{
	struct libvirt_asker *a = &g->traps.asker;
	eventfd_t count;

	if (eventfd_read(a->answered, &count))
		return false;
	pthread_mutex_lock(&a->lock);
	*out = a->answer;
	pthread_mutex_unlock(&a->lock);
	return true;
}
