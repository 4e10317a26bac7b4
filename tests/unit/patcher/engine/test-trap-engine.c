/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The trap engine, and what both engines read of a vCPU in a trap. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/fake-exitless.h"
#include "tests/lib/tap.h"

enum { PATIENCE_MS = 20000 };

static struct fake_exitless f;
static struct engine *engine;

static bool on_trap(void *arg, struct guest_trap *trap)
{
	struct engine *e = *(struct engine **)arg;

	return e->ops->on_trap(e, trap) != ENGINE_TRAP_FOREIGN;
}

static void begin(void)
{
	fake_exitless_init(&f, TRAMPOLINE_BLOCK);
	memcpy(f.ram, f.fs.fg.base.ram, FAKE_RAM);
	if (trap_engine_create(&f.config, &engine, NULL))
		abort();
	f.fs.fg.guest.traps->set_handler(&f.fs.fg.guest, on_trap, &engine, NULL);
}

static void end(void)
{
	engine_destroy(engine);
	fake_exitless_deinit(&f);
}

static uint64_t traps_of(unsigned int vcpu)
{
	struct trace_counters counts = {0};

	engine->ops->counts(engine, vcpu, &counts);
	return counts.v[COUNTER_TRAPS];
}

static bool is_hit(size_t i, enum probe_point point, unsigned int vcpu)
{
	const struct fake_hit *hit = &f.hits[i];

	return hit->point == point && hit->vcpu == vcpu && (!hit->ref) == (point == POINT_RETURN);
}

static void test_call(void)
{
	struct patch_outcome outcome = {0};

	begin();
	is_str(engine->ops->name, "trap", "the engine's name is the mode of traces");
	ok(!engine->ops->install(engine, NULL), "the engine is installed");
	is_u64((uint64_t)fake_session_call(&f.fs, 2, FAKE_KMALLOC, 8), 2, "a call is two traps");
	ok(f.nr_hits == 2 && is_hit(0, POINT_ENTRY, 2) && is_hit(1, POINT_RETURN, 2),
	   "a call is the hits of its entry and its return");
	ok(f.hits[0].key == f.hits[1].key, "both hits have the same key");
	is_u64(traps_of(2) + traps_of(0), 2, "traps are counted on the vCPU that takes them");
	ok(!engine->ops->refresh(engine), "traps need no refresh");
	ok(!engine->ops->withdraw(engine, &outcome, NULL) && fake_session_text_same(&f.fs),
	   "after withdrawing the text is what it was");
	is_u64(outcome.restored, FAKE_NR_PROBES + FAKE_NR_EXITS, "each place was restored");
	ok(!engine->ops->finish(engine, NULL), "there is nothing to wait for");
	is_u64((uint64_t)fake_session_call(&f.fs, 2, FAKE_KMALLOC, 8), 0,
	       "after withdrawing a call is no trap");
	end();
}

static void test_kinds(void)
{
	struct guest_trap trap = {.regs = {.rip = fake_gva(FAKE_KFREE), .rsp = fake_stack_top(0)}};

	begin();
	engine->ops->install(engine, NULL);
	ok(engine->ops->on_trap(engine, &trap) == ENGINE_TRAP_CALL &&
		   trap.regs.rip == fake_gva(FAKE_KFREE + 5),
	   "an entry is a call, and the vCPU continues behind the site");
	trap.regs.rip = f.plan.returns.v[0].gva;
	ok(engine->ops->on_trap(engine, &trap) == ENGINE_TRAP_OTHER, "a return is no call");
	trap.regs.rip = fake_gva(FAKE_CALLER);
	ok(engine->ops->on_trap(engine, &trap) == ENGINE_TRAP_FOREIGN,
	   "a trap at no place of the plan is foreign");
	end();
}

static void test_install_fails(void)
{
	struct error err = {0};

	begin();
	f.fs.fg.failing_gpa = FAKE_PHYS_TEXT + FAKE_KFREE;
	ok(engine->ops->install(engine, &err) == -EIO && fake_exitless_is_gone(&f),
	   "an install that fails changes nothing: %s", err.text);
	end();
}

/* The entry is a trap, then rings are installed, and the return is a hit among their records. */
static void test_switch_in_call(void)
{
	struct engine *traps;
	struct guest_trap entry = {
		.vcpu = 1,
		.time_ns = 1,
		.regs = {.rip = fake_gva(FAKE_KMALLOC), .rsp = fake_stack_top(1)}};
	struct guest_trap ret = entry;

	begin();
	traps = engine;
	engine->ops->install(engine, NULL);
	engine->ops->on_trap(engine, &entry);
	ok(!engine->ops->withdraw(engine, NULL, NULL) && !fake_exitless_install(&f, NULL),
	   "rings are installed in the middle of a call");
	engine = f.engine;
	ret.regs.rip = f.plan.returns.v[0].gva;
	ok(on_trap(&engine, &ret) && fake_exitless_wait(&f, 2), "the rings emit the hit of a trap");
	ok(is_hit(0, POINT_ENTRY, 1) && is_hit(1, POINT_RETURN, 1) &&
		   f.hits[0].key == f.hits[1].key,
	   "it is the return of the call that began with a trap");
	ok(fake_exitless_leave(&f, PATIENCE_MS) && fake_exitless_is_gone(&f), "the rings leave");
	engine = traps;
	ok(!engine->ops->install(engine, NULL) &&
		   fake_session_call(&f.fs, 0, FAKE_KFREE, fake_object()) == 1,
	   "after rings, traps can be installed again");
	engine->ops->withdraw(engine, NULL, NULL);
	end();
}

int main(void)
{
	test_call();
	test_kinds();
	test_install_fails();
	test_switch_in_call();
	return tap_done();
}
