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
	ok(fake_session_text_same(&fs), "breakpoints do not change the text");
	ok(breaks() >= FAKE_NR_PROBES + FAKE_NR_EXITS, "each place has a breakpoint");
	is_u64((uint64_t)call(FAKE_KMALLOC, 33), 2, "an allocation is two traps");
	is_u64(fs.fg.vcpus[0].regs.rax, fake_object(), "the guest gets the allocation's result");
	is_u64(fs.fg.vcpus[0].regs.rsp, fake_stack_top(0), "the guest gets its stack pointer back");
	is_u64((uint64_t)call(FAKE_KFREE, fake_object()), 1, "a free is one trap");
	is_u64(fake_session_recorded(&fs), 2, "an allocation and a free are two records");
	is_u64(fs.events[0].record.bytes_req, 33, "the record has the size asked for");
	is_u64(fs.events[0].record.call_site, fake_session_call_site(),
	       "the record has the call site");
	ok(!trace_session_stop(fs.session, NULL) && !breaks(),
	   "after a stop there are no breakpoints");
	is_u64(fake_session_status(&fs).restored.restored, FAKE_NR_PROBES + FAKE_NR_EXITS,
	       "a stop counts each breakpoint once");
	ok(!trace_session_start(fs.session, NULL, NULL), "tracing starts again");
	end();
	is_u64(breaks(), 0, "after the second stop there are no breakpoints");
}

static int set(const char *spec)
{
	return trace_session_set_instances(fs.session, &spec, 1, NULL);
}

/* Breakpoints come and go with the instances that want them. */
static void test_change(void)
{
	unsigned int all;

	begin(0);
	all = breaks();
	ok(!set("kmem:pages") && breaks() < all, "fewer types need fewer breakpoints");
	is_u64((uint64_t)call(FAKE_KFREE, fake_object()), 0, "other functions have none");
	fs.fg.vcpus[0].regs.rsi = 0;
	is_u64((uint64_t)call(FAKE_ALLOC_PAGES, 0), 2, "those that stay are traced");
	ok(!set("kmem") && breaks() == all, "more types need more");
	is_u64((uint64_t)call(FAKE_KFREE, fake_object()), 1, "their functions are traced");
	is_u64(fake_session_recorded(&fs), 2, "what was wanted is recorded");
	end();
	is_u64(breaks(), 0, "after a stop there are no breakpoints");
}

/* The guest's own ftrace gets sites without breakpoints, as it gets them without traps. */
static void test_yield(void)
{
	unsigned int before;

	begin(0);
	before = breaks();
	ok(call(FAKE_UPDATE, 0) > 0, "the guest's ftrace meets traps when it changes its sites");
	is_u64(fake_session_count(&fs, COUNTER_YIELDS), 1,
	       "a change by the guest's ftrace is counted as a gap");
	is_u64(breaks(), before, "all breakpoints are back after the change");
	is_u64((uint64_t)call(FAKE_KMALLOC, 33), 2, "a call is traced after the change");
	end();
}

static void test_booting(void)
{
	uint32_t booting = 0;

	fake_session_create(&fs);
	fs.fg.guest.caps = GUEST_CAP_WRITE | GUEST_CAP_BREAK;
	memcpy(fake_text(&fs.fg, FAKE_SYSTEM_STATE), &booting, sizeof(booting));
	ok(trace_session_start(fs.session, NULL, NULL) == -EAGAIN && !breaks(),
	   "a guest that still boots gets no breakpoints");
	fake_session_destroy(&fs);
}

static void test_sample(void)
{
	struct trace_status status;
	unsigned int hooks;

	begin(2);
	is_u64((uint64_t)(call(FAKE_KMALLOC, 1) + call(FAKE_KFREE, fake_object())), 3,
	       "two calls are three traps");
	hooks = breaks();
	ok(hooks && hooks < FAKE_NR_PROBES,
	   "when the bound is reached, only one-shot breakpoints are left");
	is_u64((uint64_t)call(FAKE_KMALLOC, 2), 0, "a call after the bound is not seen");
	ok(!trace_session_tick(fs.session, NULL) && breaks() == hooks,
	   "breakpoints do not come back before the second ends");
	fs.fg.clock += second;
	ok(!trace_session_tick(fs.session, NULL), "a tick in the next second succeeds");
	is_u64((uint64_t)call(FAKE_KMALLOC, 3), 2, "a call in the next second is traced");
	is_u64(fake_session_recorded(&fs), 3, "the calls within the bound are recorded");
	status = fake_session_status(&fs);
	is_u64(status.counters.v[COUNTER_SAMPLINGS], 1,
	       "the time without breakpoints is counted as one gap");
	ok(status.counters.v[COUNTER_UNSAMPLED_NS] >= second &&
		   status.counters.v[COUNTER_UNSAMPLED_NS] <
			   status.counters.v[COUNTER_TRACING_NS] &&
		   status.counters.v[COUNTER_TRACING_NS] < 2 * second,
	   "the gap lasts to the end of the second");
	end();
}

/* ... with the calls that it makes. */
static void test_open_call(void)
{
	begin(2);
	is_u64((uint64_t)call(FAKE_KMALLOC, 5), 2, "a call is two traps");
	is_u64((uint64_t)call(FAKE_OUTER, 7), 4,
	       "a call that is open when the bound is reached is seen to its end");
	is_u64(fake_session_recorded(&fs), 2, "the two calls are two records");
	is_u64(fake_session_count(&fs, COUNTER_SAMPLINGS), 1,
	       "the traps are taken away after the open call");
	is_u64(fake_session_count(&fs, COUNTER_IN_FLIGHT), 0, "no call is cut off");
	end();
}

/* Another process had stopped the guest: the breakpoints were away, and are back. */
static void test_gap(void)
{
	struct guest_trap gap = {.gap_ns = 5000}, entry = {.regs = {.rip = fake_gva(FAKE_KMALLOC)}};
	struct trace_status status;

	begin(0);
	entry.regs.rsp = fake_stack_top(0) - sizeof(uint64_t);
	ok(fs.fg.trap_fn(fs.fg.trap_arg, &entry), "a call is entered");
	ok(fs.fg.trap_fn(fs.fg.trap_arg, &gap), "a gap notice is handled");
	is_u64(fake_session_count(&fs, COUNTER_IN_FLIGHT), 1,
	       "a call that is open in a gap is counted as unfinished");
	is_u64((uint64_t)call(FAKE_KMALLOC, 10), 2, "the next call is two traps");
	is_u64(fake_session_recorded(&fs), 1, "the next call is recorded");
	status = fake_session_status(&fs);
	ok(status.counters.v[COUNTER_SAMPLINGS] == 1 &&
		   status.counters.v[COUNTER_UNSAMPLED_NS] == 5000,
	   "the gap is counted with its length");
	end();
}

int main(void)
{
	test_calls();
	test_change();
	test_yield();
	test_booting();
	test_sample();
	test_open_call();
	test_gap();
	return tap_done();
}
