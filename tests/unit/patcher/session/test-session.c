// SPDX-License-Identifier: GPL-2.0-or-later
/* Whole sessions on a fake guest whose functions are executed instruction by instruction. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

enum { LARGE = 1 << 20 };

static struct fake_session fs;

static uint64_t result(void)
{
	return fs.fg.vcpus[0].regs.rax;
}

static bool is_alloc(size_t i, enum kmem_type_id type, uint64_t bytes_req)
{
	const struct kmem_record *r = &fs.events[i].record;

	return r->event_id == KMEM_EVENT_ALLOC && r->type_id == type && r->ptr == fake_object() &&
	       r->call_site == fake_session_call_site() && r->bytes_req == bytes_req &&
	       r->bytes_alloc == FAKE_CACHE_SIZE;
}

static void test_start(void)
{
	struct trace_status status;

	fake_session_create(&fs);
	ok(trace_session_stop(fs.session, NULL) == -EALREADY, "stop before start");
	ok(!trace_session_start(fs.session, NULL, NULL) && !fs.fg.stopped, "start");
	ok(trace_session_start(fs.session, NULL, NULL) == -EALREADY, "start twice");
	status = fake_session_status(&fs);
	ok(status.enabled && status.located && status.nr_specs == 1, "status: on");
	is_str(status.specs[0], "kmem", "the tracer is kmem if none is named");
	is_u64(status.entry_sites, FAKE_NR_PROBES, "entry sites");
	is_u64(status.return_sites, FAKE_NR_EXITS, "return slots, a shared one once");
	is_u64(status.nr_refused, 0, "none refused");
	ok(!fake_session_text_same(&fs), "the text is patched");
	fake_session_end(&fs);
}

/* What it tells is what a start then patches. */
static void test_plan(void)
{
	const struct patch_plan *plan;
	struct trace_status status;
	unsigned int wrong = 0;
	uint8_t now[PATCH_MAX_SIZE];

	fake_session_create(&fs);
	ok(trace_session_plan(fs.session, (const char *const[]){"nonsense", NULL}, &plan, NULL) ==
		   -EINVAL,
	   "no plan of nonsense");
	ok(!trace_session_plan(fs.session, NULL, &plan, NULL), "a plan");
	is_u64(plan->entries.n, FAKE_NR_PROBES, "has the entries");
	is_u64(plan->returns.n, FAKE_NR_EXITS, "and the returns");
	for (size_t i = 0; i < plan->entries.n; i++) {
		const struct patch *p = &plan->entries.v[i];

		wrong += kernel_read(&fs.fg.kernel, p->gva, now, p->size, NULL) ||
			 memcmp(now, p->old_bytes, p->size);
	}
	is_u64(wrong, 0, "with the bytes that are there");
	ok(fake_session_text_same(&fs) && !fs.fg.stopped, "nothing is changed");
	ok(!trace_session_start(fs.session, NULL, NULL), "a start after it");
	status = fake_session_status(&fs);
	ok(status.entry_sites == FAKE_NR_PROBES && status.return_sites == FAKE_NR_EXITS,
	   "patches as much");
	ok(trace_session_plan(fs.session, NULL, &plan, NULL) == -EALREADY,
	   "no plan while it is on");
	fake_session_end(&fs);
}

static void test_kmalloc(void)
{
	struct kmem_record *r = &fs.events[0].record;

	fake_session_begin(&fs);
	fs.fg.vcpus[0].regs.rsi = 0xcc0;
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_KMALLOC, 33), 2, "one call: two traps");
	is_u64(result(), fake_object(), "the guest gets its result");
	is_u64(fs.fg.vcpus[0].regs.rsp, fake_stack_top(0), "and its stack pointer");
	is_u64(fake_session_recorded(&fs), 1, "one record");
	ok(is_alloc(0, KMEM_TYPE_KMALLOC, 33), "of the allocation");
	is_u64(r->gfp_flags, 0xcc0, "gfp flags");
	is_u64((uint64_t)(int64_t)r->node, UINT64_MAX, "no node asked for");
	ok(r->cache != 0, "its cache");
	fake_session_end(&fs);
}

static void test_null(void)
{
	fake_session_begin(&fs);
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_KMALLOC, 0), 2, "kmalloc that fails");
	is_u64(result(), 0, "by its other exit, a `ret`");
	is_u64(fs.fg.vcpus[0].regs.rsp, fake_stack_top(0), "which pops the return address");
	is_u64(fake_session_recorded(&fs), 0, "is not recorded");
	is_u64(fake_session_count(&fs, COUNTER_NULL_ALLOCS), 1, "but counted");
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_KFREE, 0), 1, "kfree(NULL)");
	is_u64(fake_session_count(&fs, COUNTER_NULL_FREES), 1, "is counted");
	is_u64(fake_session_recorded(&fs), 0, "and not recorded");
	fake_session_end(&fs);
}

/* The guest's mitigation is not to be skipped. */
static void test_thunk(void)
{
	struct guest_trap trap = {
		.regs = {.rip = fake_gva(FAKE_CACHE_ALLOC + 15), .rsp = fake_stack_top(0)}};

	fake_session_begin(&fs);
	ok(fs.fg.trap_fn(fs.fg.trap_arg, &trap) && trap.regs.rip == fake_gva(FAKE_RETURN_THUNK) &&
		   trap.regs.rsp == fake_stack_top(0),
	   "a slot that jumped to the return thunk still goes there");
	fake_session_end(&fs);
}

static void test_free(void)
{
	fake_session_begin(&fs);
	is_u64((uint64_t)fake_session_call(&fs, 2, FAKE_KFREE, fake_object()), 1,
	       "kfree: one trap");
	is_u64(fake_session_recorded(&fs), 1, "one record");
	ok(fs.events[0].record.event_id == KMEM_EVENT_FREE &&
		   fs.events[0].record.ptr == fake_object() && fs.events[0].vcpu == 2 &&
		   fs.events[0].record.call_site == fake_session_call_site(),
	   "of the vCPU that freed");
	is_u64(fake_session_status(&fs).vcpus[2].v[COUNTER_TRAPS], 1, "whose trap is counted");
	fake_session_end(&fs);
}

static void test_nested(void)
{
	fake_session_begin(&fs);
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_OUTER, 33), 4, "a wrapper: four traps");
	is_u64(fake_session_recorded(&fs), 1, "but one record");
	is_u64(fs.events[0].record.bytes_req, 33, "of the inner call");
	is_u64(fake_session_count(&fs, COUNTER_NESTED), 1, "the outer one is counted as nested");
	fake_session_end(&fs);
}

/* Too large for a cache: whoever asked the outermost entry point is to blame. */
static void test_large_nested(void)
{
	fake_session_begin(&fs);
	ok(fake_session_call(&fs, 0, FAKE_OUTER, LARGE) > 0, "a wrapper of a large kmalloc");
	ok(fake_session_recorded(&fs) == 1 && is_alloc(0, KMEM_TYPE_KMALLOC, LARGE),
	   "is the one that is recorded");
	is_u64(fake_session_count(&fs, COUNTER_NESTED), 1, "the inner one is counted as nested");
	is_u64(fake_session_count(&fs, COUNTER_IN_FLIGHT) + fake_session_count(&fs, COUNTER_LOST),
	       0, "not lost");
	fake_session_end(&fs);
}

static void test_tail_calls(void)
{
	struct trace_status status;

	fake_session_begin(&fs);
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_TAIL, fake_cache()), 3, "tail call");
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_MAYBE_TAIL, 0), 3, "conditional tail call");
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_MAYBE_TAIL, fake_cache()), 2,
	       "the same, not taken");
	is_u64(fake_session_recorded(&fs), 3, "each is recorded once");
	for (size_t i = 0; i < 3; i++)
		ok(is_alloc(i, KMEM_TYPE_CACHE, FAKE_CACHE_OBJECT_SIZE),
		   "with the caller of the whole");
	status = fake_session_status(&fs);
	is_u64(status.counters.v[COUNTER_NESTED], 2, "two entries were superseded");
	is_u64(status.counters.v[COUNTER_LOST] + status.counters.v[COUNTER_UNPAIRED_RETURNS], 0,
	       "nothing is lost");
	fake_session_end(&fs);
}

/* Run a vCPU into the middle of kmalloc, as if it had been preempted there. */
static void enter_kmalloc(unsigned int vcpu)
{
	fs.fg.vcpus[vcpu].regs = (struct guest_regs){
		.rip = fake_gva(FAKE_KMALLOC), .rsp = fake_stack_top(vcpu) - 8, .rdi = 8};
	fake_put64(&fs.fg.base, fs.fg.vcpus[vcpu].regs.rsp - FAKE_PAGE_OFFSET,
		   fake_session_call_site());
}

static void trap_at_entry(unsigned int vcpu)
{
	struct guest_trap trap = {.vcpu = vcpu, .regs = fs.fg.vcpus[vcpu].regs};

	if (!fs.fg.trap_fn(fs.fg.trap_arg, &trap))
		abort();
	fs.fg.vcpus[vcpu].regs = trap.regs;
}

static void test_unpaired(void)
{
	fake_session_create(&fs);
	fake_code(&fs.fg, FAKE_CALLER, "\x90\x90\x90\x90\x90\xf4", 6);
	enter_kmalloc(1);
	fs.fg.vcpus[1].regs.rip += 5;
	ok(!trace_session_start(fs.session, NULL, NULL), "start while a task is in kmalloc");
	is_u64((uint64_t)fake_guest_run(&fs.fg, 1), 1, "which returns");
	is_u64(fake_session_count(&fs, COUNTER_UNPAIRED_RETURNS), 1, "counted as unpaired");
	is_u64(fake_session_recorded(&fs), 0, "not recorded");
	is_u64(fs.fg.vcpus[1].regs.rax, fake_object(), "and goes on");
	fake_session_end(&fs);
}

static void test_in_flight(void)
{
	fake_session_begin(&fs);
	fake_code(&fs.fg, FAKE_CALLER, "\x90\x90\x90\x90\x90\xf4", 6);
	enter_kmalloc(1);
	trap_at_entry(1);
	ok(!trace_session_stop(fs.session, NULL), "stop while a task is in kmalloc");
	is_u64(fake_session_count(&fs, COUNTER_IN_FLIGHT), 1, "which is counted");
	ok(fake_session_text_same(&fs), "the text is what it was");
	is_u64((uint64_t)fake_guest_run(&fs.fg, 1), 0, "and the task returns without a trap");
	ok(!trace_session_start(fs.session, NULL, NULL), "start again");
	is_u64((uint64_t)fake_session_call(&fs, 1, FAKE_KMALLOC, 8), 2, "the next call");
	is_u64(fake_session_recorded(&fs), 1, "is recorded");
	is_u64(fake_session_count(&fs, COUNTER_LOST), 0, "the forgotten one is not lost as well");
	fake_session_end(&fs);
}

static void test_foreign_port_write(void)
{
	fake_session_begin(&fs);
	fake_code(&fs.fg, FAKE_CALLER, "\xe6\xe4\xf4", 3);
	fs.fg.vcpus[0].regs.rip = fake_gva(FAKE_CALLER);
	is_u64((uint64_t)fake_guest_run(&fs.fg, 0), 0,
	       "an `out` of the guest's own is left to the backend");
	fake_session_end(&fs);
}

static void test_toggling(void)
{
	bool good = true;

	fake_session_create(&fs);
	for (int i = 0; i < 50; i++) {
		good &= !trace_session_start(fs.session, NULL, NULL);
		good &= fake_session_call(&fs, 0, FAKE_KMALLOC, 8) == 2;
		good &= !trace_session_stop(fs.session, NULL) && fake_session_text_same(&fs);
		good &= fake_session_call(&fs, 0, FAKE_KMALLOC, 8) == 0;
	}
	ok(good, "start and stop 50 times");
	is_u64(fake_session_recorded(&fs), 50, "one record each time it was on");
	is_u64(fake_session_status(&fs).restored.restored, FAKE_NR_PROBES + FAKE_NR_EXITS,
	       "each stop restored every place");
	fake_session_destroy(&fs);
}

static void test_filters(void)
{
	static const char *const pages[] = {"kmem:kmalloc", NULL}, *const bad[] = {"kmme", NULL};
	struct error err = {0};

	fake_session_create(&fs);
	ok(trace_session_start(fs.session, bad, &err) == -EINVAL && strstr(err.text, "'kmem'"),
	   "unknown spec: %s", err.text);
	ok(fake_session_text_same(&fs) && !fake_session_status(&fs).enabled, "nothing happened");
	ok(!trace_session_start(fs.session, pages, NULL), "only kmalloc");
	fake_session_call(&fs, 0, FAKE_CACHE_ALLOC, fake_cache());
	fake_session_call(&fs, 0, FAKE_KMALLOC, 5);
	ok(fake_session_recorded(&fs) == 1 && is_alloc(0, KMEM_TYPE_KMALLOC, 5),
	   "is what is recorded");
	fake_session_end(&fs);
}

static void test_refusal(void)
{
	struct trace_status status;

	fake_session_create(&fs);
	fake_code(&fs.fg, FAKE_CALLER - 0x100, "\xc3", 1); /* its trampoline */
	fake_branch(&fs.fg, FAKE_CACHE_ALLOC, 0xe8, FAKE_CALLER - 0x100);
	fake_session_keep_text(&fs);
	ok(!trace_session_start(fs.session, NULL, NULL), "a site that ftrace has taken");
	status = fake_session_status(&fs);
	ok(status.nr_refused == 1 && strstr(status.refused[0].reason, "ftrace") &&
		   status.refused[0].gva == fake_gva(FAKE_CACHE_ALLOC),
	   "is refused with its reason");
	is_u64(status.entry_sites, FAKE_NR_PROBES - 1, "the others are traced");
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_TAIL, fake_cache()), 2,
	       "a function that tail-calls the refused one");
	ok(fake_session_recorded(&fs) == 1 && is_alloc(0, KMEM_TYPE_CACHE, FAKE_CACHE_OBJECT_SIZE),
	   "is recorded all the same");
	fake_session_end(&fs);
}

static void test_all_or_nothing(void)
{
	struct error err = {0};

	fake_session_create(&fs);
	fs.fg.ignored_gpa = FAKE_PHYS_TEXT + FAKE_KFREE;
	ok(trace_session_start(fs.session, NULL, &err) == -EIO &&
		   err.address == fake_gva(FAKE_KFREE),
	   "the last patch fails: %s", err.text);
	ok(fake_session_text_same(&fs) && !fs.fg.stopped, "none is left, the guest runs");
	fs.fg.ignored_gpa = 0;
	ok(!trace_session_start(fs.session, NULL, NULL), "then it can be started");
	fake_session_end(&fs);
}

static void test_hostile_registers(void)
{
	static const uint64_t stacks[] = {
		0, 8, UINT64_MAX, UINT64_MAX - 7, 0x00007fff00000000, 0xffffffffffff0000};

	fake_session_begin(&fs);
	for (size_t i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++) {
		struct guest_trap trap = {
			.regs = {.rip = fake_gva(FAKE_KMALLOC), .rsp = stacks[i]}};

		ok(fs.fg.trap_fn(fs.fg.trap_arg, &trap) &&
			   trap.regs.rip == fake_gva(FAKE_KMALLOC + 5),
		   "entry with RSP %llx", (unsigned long long)stacks[i]);
		trap.regs.rip = fake_gva(FAKE_KMALLOC + 20);
		trap.regs.rax = UINT64_MAX;
		ok(fs.fg.trap_fn(fs.fg.trap_arg, &trap), "and its return");
	}
	is_u64(fake_session_recorded(&fs), 0, "objects that cannot be are not recorded");
	fake_session_end(&fs);
}

int main(void)
{
	test_start();
	test_plan();
	test_kmalloc();
	test_null();
	test_thunk();
	test_free();
	test_nested();
	test_large_nested();
	test_tail_calls();
	test_unpaired();
	test_in_flight();
	test_foreign_port_write();
	test_toggling();
	test_filters();
	test_refusal();
	test_all_or_nothing();
	test_hostile_registers();
	return tap_done();
}
