/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sessions on a guest whose traps are breakpoints beside its text, and samples of what they see. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

static const uint64_t second = 1000000000;

static struct fake_session fs;

static void begin(uint64_t max_rate)
{
	const struct trace_options options = {.max_rate = max_rate};

	fake_session_create(&fs);
	fs.fg.guest.caps = GUEST_CAP_WRITE | GUEST_CAP_BREAK;
	trace_session_set_options(fs.session, &options);
	if (trace_session_start(fs.session, NULL, NULL))
		abort();
}

static void end(void)
{
	fake_session_end(&fs);
}

static unsigned int breaks(void)
{
	return fake_breaks_count(&fs.fg.breaks);
}

static int call(uint64_t function, uint64_t argument)
{
	return fake_session_call(&fs, 0, function, argument);
}

static void test_calls(void)
{
	begin(0);
	ok(fake_session_text_same(&fs), "the text is not touched");
	ok(breaks() >= FAKE_NR_PROBES + FAKE_NR_EXITS, "there are breaks instead");
	is_u64((uint64_t)call(FAKE_KMALLOC, 33), 2, "an allocation: two traps");
	is_u64(fs.fg.vcpus[0].regs.rax, fake_object(), "the guest gets its result");
	is_u64(fs.fg.vcpus[0].regs.rsp, fake_stack_top(0), "and its stack pointer");
	is_u64((uint64_t)call(FAKE_KFREE, fake_object()), 1, "a free: one trap");
	is_u64(fake_session_recorded(&fs), 2, "two records");
	is_u64(fs.events[0].record.bytes_req, 33, "of the size asked for");
	is_u64(fs.events[0].record.call_site, fake_session_call_site(), "and its call site");
	ok(!trace_session_stop(fs.session, NULL) && !breaks(), "after stop there are none");
	is_u64(fake_session_status(&fs).restored.restored, FAKE_NR_PROBES + FAKE_NR_EXITS,
	       "each taken back once");
	ok(!trace_session_start(fs.session, NULL, NULL), "and start again");
	end();
	is_u64(breaks(), 0, "and stop again");
}

/* What the guest's own ftrace changes it gets without a break, as it gets it without a trap. */
static void test_yield(void)
{
	unsigned int before;

	begin(0);
	before = breaks();
	ok(call(FAKE_UPDATE, 0) > 0, "the guest's ftrace changes its sites");
	is_u64(fake_session_count(&fs, COUNTER_YIELDS), 1, "which is a gap");
	is_u64(breaks(), before, "with all breaks back after it");
	is_u64((uint64_t)call(FAKE_KMALLOC, 33), 2, "and tracing goes on");
	end();
}

static void test_booting(void)
{
	uint32_t booting = 0;

	fake_session_create(&fs);
	fs.fg.guest.caps = GUEST_CAP_WRITE | GUEST_CAP_BREAK;
	memcpy(fake_text(&fs.fg, FAKE_SYSTEM_STATE), &booting, sizeof(booting));
	ok(trace_session_start(fs.session, NULL, NULL) == -EAGAIN && !breaks(),
	   "a guest that still boots is waited for");
	fake_session_destroy(&fs);
}

static void test_sample(void)
{
	struct trace_status status;
	unsigned int hooks;

	begin(2);
	is_u64((uint64_t)(call(FAKE_KMALLOC, 1) + call(FAKE_KFREE, fake_object())), 3, "two calls");
	hooks = breaks();
	ok(hooks && hooks < FAKE_NR_PROBES, "are the second's last: only hooks are left");
	is_u64((uint64_t)call(FAKE_KMALLOC, 2), 0, "the third is not seen");
	ok(!trace_session_tick(fs.session, NULL) && breaks() == hooks,
	   "not before the second ends");
	fs.fg.clock += second;
	ok(!trace_session_tick(fs.session, NULL), "the next second");
	is_u64((uint64_t)call(FAKE_KMALLOC, 3), 2, "is traced again");
	is_u64(fake_session_recorded(&fs), 3, "three records");
	status = fake_session_status(&fs);
	is_u64(status.counters.v[COUNTER_SAMPLINGS], 1, "told: one gap");
	ok(status.counters.v[COUNTER_UNSAMPLED_NS] >= second &&
		   status.counters.v[COUNTER_UNSAMPLED_NS] <
			   status.counters.v[COUNTER_TRACING_NS] &&
		   status.counters.v[COUNTER_TRACING_NS] < 2 * second,
	   "of that second");
	end();
}

/* A call that is open when the bound is reached is seen to its end, its calls included. */
static void test_open_call(void)
{
	begin(2);
	is_u64((uint64_t)call(FAKE_KMALLOC, 5), 2, "one call");
	is_u64((uint64_t)call(FAKE_OUTER, 7), 4, "a call within the last one");
	is_u64(fake_session_recorded(&fs), 2, "is one record more");
	is_u64(fake_session_count(&fs, COUNTER_SAMPLINGS), 1, "then the traps go");
	is_u64(fake_session_count(&fs, COUNTER_IN_FLIGHT), 0, "and no call is cut");
	end();
}

/* Somebody else had stopped the guest: the breaks were away, and are back. */
static void test_gap(void)
{
	struct guest_trap gap = {.gap_ns = 5000}, entry = {.regs = {.rip = fake_gva(FAKE_KMALLOC)}};
	struct trace_status status;

	begin(0);
	entry.regs.rsp = fake_stack_top(0) - sizeof(uint64_t);
	ok(fs.fg.trap_fn(fs.fg.trap_arg, &entry), "a call begins");
	ok(fs.fg.trap_fn(fs.fg.trap_arg, &gap), "a gap is told");
	is_u64(fake_session_count(&fs, COUNTER_IN_FLIGHT), 1,
	       "the call will not be paired any more");
	is_u64((uint64_t)call(FAKE_KMALLOC, 10), 2, "the next one");
	is_u64(fake_session_recorded(&fs), 1, "is a record");
	status = fake_session_status(&fs);
	ok(status.counters.v[COUNTER_SAMPLINGS] == 1 &&
		   status.counters.v[COUNTER_UNSAMPLED_NS] == 5000,
	   "the gap is part of the status");
	end();
}

int main(void)
{
	test_calls();
	test_yield();
	test_booting();
	test_sample();
	test_open_call();
	test_gap();
	return tap_done();
}
