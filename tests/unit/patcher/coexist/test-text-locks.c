/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether a mutex of the guest is held, in kernels with both kinds of struct mutex. */
#include <errno.h>
#include <stdlib.h>
#include "patcher/coexist/text-locks.h"
#include "tests/lib/fake-guest.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

enum {
	LOCK = 0x30018,
	TEXT_LOCK = 0x30058,
	OWNER = 0, /* in a kernel without PREEMPT_RT */
	RT_OWNER = 24,
	RT_WAITERS = 8,
	MUTEX_BYTES = 32,
};

static struct fake_guest fg;

static void put(unsigned int member, uint64_t value)
{
	fake_put64(&fg.base, FAKE_PHYS_TEXT + LOCK + member, value);
}

/* Of a kernel whose BTF has these structures. */
static void begin(const struct fake_struct *structs)
{
	static const struct fake_symbol symbols[] = {
		{"ftrace_lock", LOCK}, {"text_mutex", TEXT_LOCK}, {NULL, 0}};

	if (fake_guest_create(&fg) || fake_guest_add_symbols(&fg, symbols) ||
	    fake_kernel_set_structs(&fg.base, structs))
		abort();
	kernel_at(&fg.kernel, &fg.guest, &fg.base.image, FAKE_SLIDE, FAKE_PHYS_TEXT);
	for (unsigned int i = 0; i < MUTEX_BYTES; i += sizeof(uint64_t)) {
		put(i, 0);
		put(TEXT_LOCK - LOCK + i, 0);
	}
}

static bool is_held(void)
{
	return text_lock_is_held(&fg.kernel, LOCK_FTRACE);
}

static void test_mutex(void)
{
	static const struct fake_struct structs[] = {
		{"mutex", MUTEX_BYTES, {{.name = "owner", .offset = OWNER, .size = 8}}},
		{.name = NULL},
	};

	struct error err = {0};

	begin(structs);
	ok(!is_held(), "a mutex without an owner is free");
	put(OWNER, fake_gva(0));
	ok(is_held(), "one with an owner is held");
	ok(!text_lock_is_held(&fg.kernel, LOCK_KPROBES), "one that the kernel lacks is free");
	put(OWNER, 0);
	put(TEXT_LOCK - LOCK + OWNER, fake_gva(0));
	ok(text_locks_stop(&fg.kernel, &err) == -EAGAIN && !fg.stopped,
	   "while an instruction is being written, the guest is not stopped: %s", err.text);
	put(TEXT_LOCK - LOCK + OWNER, 0);
	ok(!text_locks_stop(&fg.kernel, &err) && fg.stopped, "it is when all are free");
	fg.guest.control->resume(&fg.guest, NULL);
	fake_guest_destroy(&fg);
}

static void test_rt_mutex(void)
{
	static const struct fake_struct structs[] = {
		{"mutex", MUTEX_BYTES, {{.name = "rtmutex"}}},
		{"rt_mutex_base", MUTEX_BYTES, {{.name = "owner", .offset = RT_OWNER, .size = 8}}},
		{.name = NULL},
	};

	begin(structs);
	ok(!is_held(), "PREEMPT_RT: a mutex without an owner is free");
	put(RT_WAITERS, fake_gva(0));
	ok(!is_held(), "PREEMPT_RT: waiters are no owner");
	put(RT_WAITERS, 0);
	put(RT_OWNER, fake_gva(0));
	ok(is_held(), "PREEMPT_RT: one with an owner is held, though its first word is 0");
	fake_guest_destroy(&fg);
}

static void test_version(const char *version, unsigned int owner)
{
	struct kernel_image *image = fetched_kernel_image(version);
	struct kernel kernel;

	if (!image) {
		tap_skip(version, "not fetched");
		return;
	}
	if (fake_guest_create(&fg))
		abort();
	kernel_at(&kernel, &fg.guest, image, 0, FAKE_PHYS_TEXT);
	is_u64(kernel.known.mutex_owner, owner, version);
	fake_guest_destroy(&fg);
	kernel_image_destroy(image);
}

int main(void)
{
	test_mutex();
	test_rt_mutex();
	test_version("6.12", OWNER);
	test_version("6.12-rt", RT_OWNER);
	return tap_done();
}
