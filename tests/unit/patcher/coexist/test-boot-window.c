/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A session that begins before the guest's ftrace_init() and alternative_instructions(): what these
 * find, and that no event inside them is lost.
 */
#include <stdlib.h>
#include <string.h>
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

enum { CALL = 0xe8, JMP = 0xe9 };

static struct fake_session fs;

static void set_state(uint64_t offset, uint32_t value)
{
	fake_put32(&fs.fg.base, FAKE_PHYS_TEXT + offset, value);
}

/* A kernel as it was loaded: no allocation yet, sites call __fentry__. */
static void begin(void)
{
	fake_session_create(&fs);
	set_state(FAKE_SYSTEM_STATE, 0);
	set_state(FAKE_SLAB_STATE, 0);
	set_state(FAKE_FTRACE_PAGES, 0);
	set_state(FAKE_ALTERNATIVES_PATCHED, 0);
	fake_session_set_sites(&fs, NULL);
	fake_session_keep_text(&fs);
}

static void start(void)
{
	if (trace_session_start(fs.session, NULL, NULL))
		abort();
}

static bool calls_fentry(uint64_t function)
{
	int32_t displacement;

	memcpy(&displacement, fake_text(&fs.fg, function) + 1, sizeof(displacement));
	return *fake_text(&fs.fg, function) == CALL &&
	       function + 5 + (uint64_t)displacement == FAKE_FENTRY;
}

/*
 * Stop a vCPU in the middle of ftrace_init() or alternative_instructions() by a HLT there, so that
 * the test can be the function's inside; go_on() lets it finish.
 */
static int run_until(uint64_t function, uint64_t middle)
{
	fake_text(&fs.fg, middle)[0] = 0xf4;
	return fake_session_call(&fs, 0, function, 0);
}

static int go_on(uint64_t middle)
{
	fake_text(&fs.fg, middle)[0] = 0x90;
	return fake_guest_run(&fs.fg, 0);
}

static void test_before(void)
{
	struct trace_info info = {0};

	begin();
	start();
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_KMALLOC, 8), 2,
	       "a call before ftrace_init() hits two traps");
	is_u64(fake_session_recorded(&fs), 1, "a call before ftrace_init() is recorded");
	trace_session_info(fs.session, &info);
	ok(info.from_first_allocation,
	   "the trace's info says that it begins with the first allocation");
	is_str(info.slab_allocator, "slub", "and which slab allocator the guest has");
	is_str(info.btf_source, "kernel", "and that its types are its own");
	fs.fg.base.image.btf_is_given = true;
	trace_session_info(fs.session, &info);
	is_str(info.btf_source, "given", "or those of a file");
	fake_session_end(&fs);
}

static void test_ftrace_init(void)
{
	bool original = true;

	begin();
	start();
	is_u64((uint64_t)run_until(FAKE_FTRACE_INIT, FAKE_DURING_FTRACE), 1,
	       "a vCPU hits one trap when it enters ftrace_init()");
	for (size_t i = 0; i < FAKE_NR_PROBES; i++)
		original &= calls_fentry(fake_functions[i]);
	ok(original, "ftrace_init() finds every site as it was linked");
	fake_session_set_sites(&fs, "\x0f\x1f\x44\0\0");
	is_u64((uint64_t)go_on(FAKE_DURING_FTRACE), 1,
	       "a vCPU hits one trap when ftrace_init() returns");
	ok(*fake_text(&fs.fg, FAKE_KMALLOC) == 0xe6,
	   "after ftrace_init() the sites are trapped again");
	ok(!memcmp(fake_text(&fs.fg, FAKE_KMALLOC + 5), "\x48\x85\xff", 3),
	   "after ftrace_init() no trap is behind the sites");
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_KMALLOC, 8), 2,
	       "a call after the moment hits two traps");
	is_u64(fake_session_recorded(&fs), 1,
	       "a call after ftrace_init(), or before the function that ends alternatives, is "
	       "recorded");
	for (size_t i = 0; i < FAKE_NR_PROBES; i++)
		memcpy(fs.text + fake_functions[i], "\x0f\x1f\x44\0\0", 5);
	fake_session_end(&fs);
}

static void test_inside_ftrace_init(void)
{
	begin();
	start();
	fake_branch(&fs.fg, FAKE_DURING_FTRACE, CALL, FAKE_KMALLOC);
	fake_branch(&fs.fg, FAKE_DURING_FTRACE + 5, CALL, FAKE_KMALLOC);
	memcpy(fs.text + FAKE_DURING_FTRACE, fake_text(&fs.fg, FAKE_DURING_FTRACE), 10);
	ok(fake_session_call(&fs, 0, FAKE_FTRACE_INIT, 24) > 0,
	   "calls inside ftrace_init() hit traps");
	is_u64(fake_session_recorded(&fs), 2, "both calls inside are recorded");
	ok(fs.events[0].record.call_site == fake_gva(FAKE_DURING_FTRACE + 5) &&
		   fs.events[1].record.call_site == fake_gva(FAKE_DURING_FTRACE + 10),
	   "both calls inside are recorded with their call sites");
	is_u64(fake_session_count(&fs, COUNTER_LOST) +
		       fake_session_count(&fs, COUNTER_UNPAIRED_RETURNS),
	       0, "no event inside is lost");
	fake_session_end(&fs);
}

static void test_alternatives(void)
{
	uint64_t slot = FAKE_KMALLOC + 20; /* jmp __x86_return_thunk */

	begin();
	start();
	is_u64((uint64_t)run_until(FAKE_ALTERNATIVES, FAKE_DURING_ALTERNATIVES), 1,
	       "a vCPU hits one trap when it enters alternative_instructions()");
	ok(!memcmp(fake_text(&fs.fg, slot), fs.text + slot, 5),
	   "alternative_instructions() finds every return slot as it was linked");
	ok(*fake_text(&fs.fg, FAKE_KMALLOC) == 0xe6,
	   "inside alternative_instructions() entries are trapped");
	fake_code(&fs.fg, slot, "\xc3\xcc\xcc\xcc\xcc", 5);
	memcpy(fs.text + slot, "\xc3\xcc\xcc\xcc\xcc", 5);
	is_u64((uint64_t)go_on(FAKE_DURING_ALTERNATIVES), 0,
	       "a vCPU hits no trap when alternative_instructions() returns");
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_KMALLOC, 8), 2,
	       "a call before the next function of start_kernel() hits two traps");
	is_u64(fake_session_recorded(&fs), 1,
	       "a call after ftrace_init(), or before the function that ends alternatives, is "
	       "recorded");
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_REST_INIT, 0), 1,
	       "a vCPU hits one trap when it enters the next function");
	ok(*fake_text(&fs.fg, slot) == 0xe6,
	   "after the next function's entry the slots are trapped again");
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_KMALLOC, 8), 2,
	       "a call after the moment hits two traps");
	ok(fake_session_recorded(&fs) == 2 && fs.fg.vcpus[0].regs.rsp == fake_stack_top(0),
	   "a call after alternatives is recorded, and returns without the thunk");
	fake_session_end(&fs);
}

/* The text of functions that are entered once is freed after boot, with the traps that nothing hit.
 */
static void test_after_alternatives(void)
{
	static const struct fake_symbol more[] = {{"pid_idr_init", FAKE_POST_PROCESS}, {NULL, 0}};

	begin();
	if (fake_guest_add_symbols(&fs.fg, more))
		abort();
	start();
	run_until(FAKE_ALTERNATIVES, FAKE_DURING_ALTERNATIVES);
	go_on(FAKE_DURING_ALTERNATIVES);
	ok(memcmp(fake_text(&fs.fg, FAKE_REST_INIT), fs.text + FAKE_REST_INIT, 3) != 0,
	   "each function that may come next has a trap");
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_POST_PROCESS, 0), 1,
	       "a vCPU hits the trap of the first one");
	ok(*fake_text(&fs.fg, FAKE_KMALLOC + 20) == 0xe6, "the slots are trapped again");
	ok(!memcmp(fake_text(&fs.fg, FAKE_REST_INIT), fs.text + FAKE_REST_INIT, 3),
	   "and no trap is left in the others");
	fake_session_end(&fs);
}

/* As clang links it; what the kernel writes there has no prefix. */
static void test_prefix(void)
{
	static const char rewritten[] = "\xc3\xcc\xcc\xcc\xcc\xcc";
	const uint64_t slot = FAKE_CACHE_ALLOC + 15;

	begin();
	fake_code(&fs.fg, slot, "\x2e", 1);
	fake_branch(&fs.fg, slot + 1, JMP, FAKE_RETURN_THUNK);
	fake_session_keep_text(&fs);
	start();
	ok(*fake_text(&fs.fg, slot) == 0xe6, "a return with a prefix is trapped");
	run_until(FAKE_ALTERNATIVES, FAKE_DURING_ALTERNATIVES);
	ok(!memcmp(fake_text(&fs.fg, slot), fs.text + slot, 6),
	   "alternative_instructions() finds it as it was linked");
	fake_code(&fs.fg, slot, rewritten, 6);
	memcpy(fs.text + slot, rewritten, 6);
	go_on(FAKE_DURING_ALTERNATIVES);
	fake_session_call(&fs, 0, FAKE_REST_INIT, 0);
	ok(*fake_text(&fs.fg, slot) == 0xe6, "rewritten to a ret it is trapped again");
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_CACHE_ALLOC, fake_cache()), 2,
	       "a call then hits two traps");
	ok(fs.fg.vcpus[0].regs.rsp == fake_stack_top(0), "and returns");
	fake_session_end(&fs);
}

static void test_inside_alternatives(void)
{
	begin();
	start();
	fake_branch(&fs.fg, FAKE_DURING_ALTERNATIVES, CALL, FAKE_KMALLOC);
	fake_branch(&fs.fg, FAKE_DURING_ALTERNATIVES + 5, CALL, FAKE_TAIL);
	memcpy(fs.text + FAKE_DURING_ALTERNATIVES, fake_text(&fs.fg, FAKE_DURING_ALTERNATIVES), 10);
	ok(fake_session_call(&fs, 0, FAKE_ALTERNATIVES, fake_cache()) > 0,
	   "calls inside alternative_instructions() hit traps");
	is_u64(fake_session_recorded(&fs), 2, "both calls inside are recorded");
	ok(fs.events[0].record.call_site == fake_gva(FAKE_DURING_ALTERNATIVES + 5) &&
		   fs.events[1].record.call_site == fake_gva(FAKE_DURING_ALTERNATIVES + 10),
	   "both calls inside are recorded with their call sites");
	is_u64(fake_session_count(&fs, COUNTER_LOST), 0, "no event inside is lost");
	fake_session_end(&fs);
}

/* Tracing is switched on while the guest boots, but after one or both of them. */
static void test_late(void)
{
	begin();
	set_state(FAKE_FTRACE_PAGES, 1);
	fake_session_set_sites(&fs, "\x0f\x1f\x44\0\0");
	fake_session_keep_text(&fs);
	start();
	ok(!memcmp(fake_text(&fs.fg, FAKE_FTRACE_INIT), fs.text + FAKE_FTRACE_INIT, 0x40),
	   "ftrace_init() gets no one-shot trap once it has run");
	ok(memcmp(fake_text(&fs.fg, FAKE_ALTERNATIVES), fs.text + FAKE_ALTERNATIVES, 0x40) != 0,
	   "alternative_instructions() gets a one-shot trap until it has run");
	fake_session_end(&fs);

	begin();
	set_state(FAKE_FTRACE_PAGES, 1);
	set_state(FAKE_ALTERNATIVES_PATCHED, 1);
	start();
	ok(!memcmp(fake_text(&fs.fg, FAKE_ALTERNATIVES), fs.text + FAKE_ALTERNATIVES, 0x40),
	   "alternative_instructions() gets no one-shot trap once it has run");
	fake_session_end(&fs);
}

static void test_stop_inside(void)
{
	begin();
	start();
	run_until(FAKE_FTRACE_INIT, FAKE_DURING_FTRACE);
	ok(!trace_session_stop(fs.session, NULL), "a session stops inside ftrace_init()");
	is_u64((uint64_t)go_on(FAKE_DURING_FTRACE), 0,
	       "ftrace_init() ends without a trap after the stop");
	ok(fake_session_text_same(&fs),
	   "after a stop inside ftrace_init() the text is the guest's own");
	fake_session_destroy(&fs);
}

/* A one-shot's function has no caller to return an error to: the session keeps it. */
static void test_failure(void)
{
	const struct error *failure;

	begin();
	start();
	run_until(FAKE_FTRACE_INIT, FAKE_DURING_FTRACE);
	fs.fg.failing_gpa = FAKE_PHYS_TEXT + FAKE_KFREE;
	go_on(FAKE_DURING_FTRACE);
	failure = trace_session_failure(fs.session);
	ok(failure && failure->code,
	   "traps that cannot be put back are a failure of the session: %s", failure->text);
	fs.fg.failing_gpa = 0;
	ok(!trace_session_stop(fs.session, NULL) && fake_session_text_same(&fs),
	   "a stop after that failure leaves the guest's text");
	start();
	ok(trace_session_failure(fs.session) == failure && failure->code,
	   "another start keeps the failure: the trace stays incomplete");
	trace_session_stop(fs.session, NULL);
	fake_session_destroy(&fs);
}

int main(void)
{
	test_before();
	test_ftrace_init();
	test_inside_ftrace_init();
	test_alternatives();
	test_after_alternatives();
	test_prefix();
	test_inside_alternatives();
	test_late();
	test_stop_inside();
	test_failure();
	return tap_done();
}
