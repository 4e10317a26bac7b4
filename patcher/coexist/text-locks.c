/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/coexist/text-locks.h"

#include <errno.h>
#include "formats/base/clock.h"

enum {
	AWAIT_TRIES = 3000, /* of a millisecond */
	STOP_TRIES = 100,   /* for each that stops the guest in any case */
};

static const struct {
	const char *name, *held;
} locks[TEXT_LOCKS] = {
	[LOCK_FTRACE] = {"ftrace_lock", "the guest's own ftrace is changing its sites"},
	[LOCK_KPROBES] = {"kprobe_mutex", "the guest is changing its kprobes"},
	[LOCK_TEXT] = {"text_mutex", "the guest is changing its text"},
	[LOCK_TRANSITION] = {"system_transition_mutex", "the guest is about to leave its kernel"},
};

bool text_lock_is_held(const struct kernel *kernel, enum text_lock lock)
{
	uint64_t gva = kernel_symbol(kernel, locks[lock].name);
	uint64_t owner;

	return gva &&
	       !kernel_read(kernel, gva + kernel->known.mutex_owner, &owner, sizeof(owner), NULL) &&
	       owner;
}

/* One that is held, or TEXT_LOCKS. */
static enum text_lock find_held(const struct kernel *kernel)
{
	enum text_lock lock = LOCK_FTRACE;

	while (lock < TEXT_LOCKS && !text_lock_is_held(kernel, lock))
		lock++;
	return lock;
}

static int stop_unless_held(const struct kernel *kernel, enum text_lock *held, struct error *err)
{
	struct guest *guest = kernel->guest;
	int ret = guest->control->stop(guest, err);

	if (ret)
		return ret;
	*held = find_held(kernel);
	if (*held != TEXT_LOCKS)
		guest->control->resume(guest, NULL);
	return 0;
}

/* A stop may be announced to others: mostly the guest is only looked at. */
int text_locks_stop(const struct kernel *kernel, struct error *err)
{
	enum text_lock held = TEXT_LOCKS;

	for (int i = 0; i < AWAIT_TRIES; i++) {
		int ret = 0;

		if (i)
			clock_wait_ms(1);
		held = i % STOP_TRIES ? find_held(kernel) : TEXT_LOCKS;
		if (held == TEXT_LOCKS)
			ret = stop_unless_held(kernel, &held, err);
		if (ret || held == TEXT_LOCKS)
			return ret;
	}
	return error_set(err, EAGAIN, "%s", locks[held].held);
}
