// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/text/traps.h"
#include "tests/lib/fake-guest.h"
#include "tests/lib/tap.h"

enum { AT = 0x1000, OTHER = 0x1100, PLACES = 0x40000 };

static struct fake_guest fg;
static struct trap_table traps;
static struct oneshots oneshots;
static unsigned int fired;
static uint64_t fired_at;
static unsigned int stopped_when_fired;

static void on_hook(void *arg, const struct guest_trap *trap)
{
	(void)arg;
	fired++;
	fired_at = trap->regs.rip;
	stopped_when_fired = fg.stopped;
}

static bool on_trap(void *arg, struct guest_trap *trap)
{
	const struct trap *t = trap_table_find(&traps, trap->regs.rip);

	(void)arg;
	if (t)
		oneshot_fire(&oneshots, t, trap);
	return t;
}

static void begin(void)
{
	if (fake_guest_create(&fg))
		abort();
	trap_table_init(&traps);
	oneshot_init(&oneshots, &fg.kernel, &traps);
	fg.trap_fn = on_trap;
	fired = 0;
	fake_code(&fg, AT, "\x48\x89\xf8\x90\xf4", 5); /* mov %rdi,%rax; nop; hlt */
	fake_code(&fg, OTHER, "\x90\x90\xf4", 3);
}

static void end(void)
{
	oneshot_deinit(&oneshots);
	trap_table_deinit(&traps);
	fake_guest_destroy(&fg);
}

static int run_from(uint64_t offset)
{
	fg.vcpus[0].regs = (struct guest_regs){.rip = fake_gva(offset), .rdi = 42};
	return fake_guest_run(&fg, 0);
}

static bool restored(void)
{
	return !memcmp(fake_text(&fg, AT), "\x48\x89\xf8\x90\xf4", 5);
}

static void test_one_shot(void)
{
	begin();
	ok(!oneshot_arm(&oneshots, fake_gva(AT), on_hook, NULL, NULL), "arm");
	ok(!memcmp(fake_text(&fg, AT), "\xe6\xe4\xf8", 3), "two bytes are ours");
	ok(!oneshot_arm(&oneshots, fake_gva(AT), on_hook, NULL, NULL), "arming twice is once");
	is_u64((uint64_t)run_from(AT), 1, "a vCPU gets there: one trap");
	ok(fired == 1 && fired_at == fake_gva(AT), "the hook is called");
	is_u64(stopped_when_fired, 1, "with the guest stopped");
	is_u64(fg.vcpus[0].regs.rax, 42, "then the vCPU executes what stood there");
	ok(restored() && !trap_table_find(&traps, fake_gva(AT)), "the bytes are back");
	is_u64((uint64_t)run_from(AT), 0, "the next one is not trapped");
	ok(fired == 1 && !fg.stopped, "nor the hook called");
	end();
}

static void test_disarm(void)
{
	begin();
	oneshot_arm(&oneshots, fake_gva(AT), on_hook, NULL, NULL);
	oneshot_arm(&oneshots, fake_gva(OTHER), on_hook, NULL, NULL);
	oneshot_disarm(&oneshots, fake_gva(AT));
	ok(restored() && !memcmp(fake_text(&fg, OTHER), "\xe6\xe4", 2), "disarm one");
	oneshot_disarm(&oneshots, fake_gva(AT));
	memcpy(fake_text(&fg, OTHER), "\xcc\xcc", 2);
	oneshot_disarm_all(&oneshots);
	ok(!memcmp(fake_text(&fg, OTHER), "\xcc\xcc", 2), "bytes that are no longer ours stay");
	ok(!trap_table_find(&traps, fake_gva(OTHER)), "but the trap is forgotten");
	end();
}

/* The session is stopped by another thread while the vCPU waits for its turn to stop the guest. */
static void disarm_meanwhile(struct fake_guest *guest)
{
	guest->on_stop = NULL;
	oneshot_disarm_all(&oneshots);
}

static void test_race_with_stop(void)
{
	begin();
	oneshot_arm(&oneshots, fake_gva(AT), on_hook, NULL, NULL);
	fg.on_stop = disarm_meanwhile;
	is_u64((uint64_t)run_from(AT), 1, "a hook is taken away while its vCPU waits");
	is_u64(fired, 0, "it is not called any more");
	ok(restored() && fg.vcpus[0].regs.rax == 42, "the vCPU goes on with the guest's own bytes");
	end();
}

static void test_refusals(void)
{
	struct trap trap = {.gva = fake_gva(AT), .kind = TRAP_ENTRY};
	struct error err = {0};
	bool good = true;

	begin();
	trap_table_put(&traps, &trap, NULL);
	ok(oneshot_arm(&oneshots, fake_gva(AT), on_hook, NULL, &err) == -EBUSY && restored(),
	   "where another kind of trap is");
	ok(trap_table_find(&traps, fake_gva(AT))->kind == TRAP_ENTRY, "which stays");
	ok(oneshot_arm(&oneshots, 0xffffffffc0000000ull, on_hook, NULL, &err) == -EFAULT,
	   "where nothing is mapped");
	fg.failing_gpa = FAKE_PHYS_TEXT + OTHER;
	ok(oneshot_arm(&oneshots, fake_gva(OTHER), on_hook, NULL, &err) == -EIO &&
		   !trap_table_find(&traps, fake_gva(OTHER)),
	   "where it cannot be written");
	for (uint64_t i = 0; i < ONESHOTS_MAX; i++)
		good &= !oneshot_arm(&oneshots, fake_gva(PLACES + 4 * i), on_hook, NULL, NULL);
	ok(good && oneshot_arm(&oneshots, fake_gva(0x2000), on_hook, NULL, &err) == -ENOSPC,
	   "one more than there may be");
	oneshot_disarm(&oneshots, fake_gva(PLACES));
	ok(!oneshot_arm(&oneshots, fake_gva(0x2000), on_hook, NULL, NULL),
	   "a place that is free again");
	oneshot_disarm_all(&oneshots);
	is_u64(traps.by_gva.count, 1, "only the other trap is left");
	end();
}

int main(void)
{
	test_one_shot();
	test_disarm();
	test_race_with_stop();
	test_refusals();
	return tap_done();
}
