/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One-shot traps on a fake guest. */
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

static void on_oneshot(void *arg, struct guest_trap *trap)
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
	ok(!oneshot_arm(&oneshots, fake_gva(AT), on_oneshot, NULL, NULL), "a one-shot is armed");
	ok(!memcmp(fake_text(&fg, AT), "\xe6\xe4\xf8", 3),
	   "an armed one-shot overwrites two bytes");
	ok(!oneshot_arm(&oneshots, fake_gva(AT), on_oneshot, NULL, NULL), "arming twice is once");
	is_u64((uint64_t)run_from(AT), 1, "a vCPU that gets there hits one trap");
	ok(fired == 1 && fired_at == fake_gva(AT), "the one-shot's function is called");
	is_u64(stopped_when_fired, 1, "the function is called with the guest stopped");
	is_u64(fg.vcpus[0].regs.rax, 42, "the vCPU executes the original instruction afterwards");
	ok(restored() && !trap_table_find(&traps, fake_gva(AT)),
	   "a one-shot that fired has put the bytes back");
	is_u64((uint64_t)run_from(AT), 0, "the next vCPU there hits no trap");
	ok(fired == 1 && !fg.stopped, "a one-shot fires once");
	end();
}

static void test_disarm(void)
{
	begin();
	oneshot_arm(&oneshots, fake_gva(AT), on_oneshot, NULL, NULL);
	oneshot_arm(&oneshots, fake_gva(OTHER), on_oneshot, NULL, NULL);
	oneshot_disarm(&oneshots, fake_gva(AT), NULL);
	ok(restored() && !memcmp(fake_text(&fg, OTHER), "\xe6\xe4", 2),
	   "disarming one leaves the other armed");
	oneshot_disarm(&oneshots, fake_gva(AT), NULL);
	memcpy(fake_text(&fg, OTHER), "\xcc\xcc", 2);
	oneshot_disarm_all(&oneshots, NULL);
	ok(!memcmp(fake_text(&fg, OTHER), "\xcc\xcc", 2),
	   "disarming leaves bytes that are not the trap's");
	ok(!trap_table_find(&traps, fake_gva(OTHER)),
	   "disarming removes the trap from the table in any case");
	end();
}

static void test_disarm_fails(void)
{
	struct error err = {0};

	begin();
	oneshot_arm(&oneshots, fake_gva(AT), on_oneshot, NULL, NULL);
	oneshot_arm(&oneshots, fake_gva(OTHER), on_oneshot, NULL, NULL);
	fg.failing_gpa = FAKE_PHYS_TEXT + AT;
	ok(oneshot_disarm(&oneshots, fake_gva(AT), &err) == -EIO && err.code,
	   "disarming reports that the bytes cannot be put back");
	err = (struct error){0};
	ok(oneshot_disarm_all(&oneshots, &err) == -EIO && !trap_table_find(&traps, fake_gva(OTHER)),
	   "disarming all disarms the others nevertheless");
	is_u64((uint64_t)err.code, EIO, "and reports the one that failed");
	ok(trap_table_find(&traps, fake_gva(AT)) != NULL,
	   "a one-shot whose bytes cannot be put back stays in the table");
	fg.failing_gpa = 0;
	ok(!oneshot_disarm_all(&oneshots, NULL) && restored(), "another try puts the bytes back");
	end();
}

/* The session is stopped by another thread while the vCPU waits for its turn to stop the guest. */
static void disarm_meanwhile(struct fake_guest *guest)
{
	guest->on_stop = NULL;
	oneshot_disarm_all(&oneshots, NULL);
}

static void test_race_with_stop(void)
{
	begin();
	oneshot_arm(&oneshots, fake_gva(AT), on_oneshot, NULL, NULL);
	fg.on_stop = disarm_meanwhile;
	is_u64((uint64_t)run_from(AT), 1,
	       "a vCPU hits a trap that is disarmed while it waits for its stop");
	is_u64(fired, 0, "the function of a disarmed one-shot is not called");
	ok(restored() && fg.vcpus[0].regs.rax == 42, "the vCPU executes the original bytes then");
	end();
}

static void test_refusals(void)
{
	struct trap trap = {.gva = fake_gva(AT), .kind = TRAP_ENTRY};
	struct error err = {0};
	bool good = true;

	begin();
	trap_table_put(&traps, &trap, NULL);
	ok(oneshot_arm(&oneshots, fake_gva(AT), on_oneshot, NULL, &err) == -EBUSY && restored(),
	   "a one-shot where another kind of trap is is refused");
	ok(trap_table_find(&traps, fake_gva(AT))->kind == TRAP_ENTRY, "the other trap stays");
	ok(oneshot_arm(&oneshots, 0xffffffffc0000000ull, on_oneshot, NULL, &err) == -EFAULT,
	   "a one-shot where nothing is mapped is refused");
	fg.failing_gpa = FAKE_PHYS_TEXT + OTHER;
	ok(oneshot_arm(&oneshots, fake_gva(OTHER), on_oneshot, NULL, &err) == -EIO &&
		   !trap_table_find(&traps, fake_gva(OTHER)),
	   "a one-shot that cannot be written is refused");
	for (uint64_t i = 0; i < ONESHOTS_MAX; i++)
		good &= !oneshot_arm(&oneshots, fake_gva(PLACES + 4 * i), on_oneshot, NULL, NULL);
	ok(good && oneshot_arm(&oneshots, fake_gva(0x2000), on_oneshot, NULL, &err) == -ENOSPC,
	   "one one-shot over the maximum is refused");
	oneshot_disarm(&oneshots, fake_gva(PLACES), NULL);
	ok(!oneshot_arm(&oneshots, fake_gva(0x2000), on_oneshot, NULL, NULL),
	   "after one is disarmed another one fits");
	oneshot_disarm_all(&oneshots, NULL);
	is_u64(traps.by_gva.count, 1, "disarming all leaves only traps of other kinds");
	end();
}

/* --- where in a function --------------------------------------------------------------------- */

/* With this at its beginning, and a site at this distance (0: none). */
static uint64_t place_in(const char *bytes, uint64_t site)
{
	static uint64_t sites[1];

	fake_code(&fg, AT, bytes, 9);
	sites[0] = FAKE_LINK_TEXT + AT + site;
	fg.base.image.mcount_sites = sites;
	fg.base.image.nr_mcount_sites = site || bytes[0] == '\xe8';
	return oneshot_place(&fg.kernel, "fn") - fake_gva(AT);
}

static void test_place(void)
{
	static const struct fake_symbol symbols[] = {{"fn", AT}, {"fn_end", OTHER}, {NULL, 0}};

	begin();
	if (fake_guest_add_symbols(&fg, symbols))
		abort();
	is_u64(oneshot_place(&fg.kernel, "no_such_function"), 0,
	       "a function that the kernel lacks has no place for a one-shot");
	is_u64(place_in("\xe8\0\0\0\0\x90\x90\x90\x90", 0), 5,
	       "the place for a one-shot is behind the mcount site");
	is_u64(place_in("\xf3\x0f\x1e\xfa\xe8\0\0\0\0", 4), 9, "also if that is behind an ENDBR");
	is_u64(place_in("\x90\x90\x90\x90\x90\xe8\0\0\0", 5), 0,
	       "a site behind the beginning is not the function's");
	is_u64(place_in("\x90\x90\x90\x90\x90\x90\x90\x90\x90", 0), 0,
	       "without a site it is the first instruction");
	is_u64(place_in("\xf3\x0f\x1e\xfa\x90\x90\x90\x90\x90", 0), 4, "behind an ENDBR");
	is_u64(place_in("\x66\x0f\x1f\x00\x90\x90\x90\x90\x90", 0), 4, "or a sealed one");
	is_u64(place_in("\x0f\x1f\x40\xd6\x90\x90\x90\x90\x90", 0), 4,
	       "or one that a kernel since 6.15 has sealed");
	end();
}

/* The last function of an image: no ENDBR fits behind its beginning. */
static void test_place_at_end(void)
{
	static const struct fake_symbol symbols[] = {{"fn", FAKE_IMAGE_SIZE - 2}, {NULL, 0}};

	begin();
	if (fake_guest_add_symbols(&fg, symbols))
		abort();
	is_u64(oneshot_place(&fg.kernel, "fn"), fake_gva(FAKE_IMAGE_SIZE - 2),
	       "the last bytes of an image may be a function");
	end();
}

static void test_first_error(void)
{
	static struct first_error first;
	struct error err;

	ok(!first_error_get(&first), "a zeroed first_error has no error");
	error_set(&err, EIO, "one");
	first_error_set(&first, &err);
	error_set(&err, ENOMEM, "two");
	first_error_set(&first, &err);
	is_str(first_error_get(&first)->text, "one",
	       "the first error stays when a second one comes");
}

int main(void)
{
	test_place();
	test_place_at_end();
	test_first_error();
	test_one_shot();
	test_disarm();
	test_disarm_fails();
	test_race_with_stop();
	test_refusals();
	return tap_done();
}
