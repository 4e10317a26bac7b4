/* SPDX-License-Identifier: GPL-2.0-or-later */
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
	ok(trace_session_stop(fs.session, NULL) == -EALREADY,
	   "a stop before the first start is refused");
	ok(!trace_session_start(fs.session, NULL, NULL) && !fs.fg.stopped,
	   "tracing starts, and the guest runs");
	ok(trace_session_start(fs.session, NULL, NULL) == -EALREADY, "a second start is refused");
	status = fake_session_status(&fs);
	ok(status.enabled && status.located && status.nr_specs == 1,
	   "the status says that tracing is on");
	is_str(status.specs[0], "kmem", "the tracer is kmem if none is named");
	is_u64(status.entry_sites, FAKE_NR_PROBES, "all entry sites are counted");
	is_u64(status.return_sites, FAKE_NR_EXITS,
	       "a return slot that two functions share is counted once");
	is_u64(status.nr_refused, 0, "no function is refused");
	ok(status.nr_gaps == 1 && strstr(status.gaps[0].reason, "no jump table"),
	   "a kernel without a jump table is said not to be proven complete");
	ok(!fake_session_text_same(&fs), "the text is patched");
	fake_session_end(&fs);
}

/* The trace clock of a libvirt domain is known with the first event only. */
static void test_unknown_clock(void)
{
	fake_session_create(&fs);
	fs.fg.clock = UINT64_MAX; /* 0 at the next reading */
	ok(!trace_session_start(fs.session, NULL, NULL), "a session starts with an unknown clock");
	ok(fake_session_count(&fs, COUNTER_TRACING_NS) > 0,
	   "the time of tracing is counted meanwhile");
	fs.fg.clock = UINT64_C(1) << 60;
	ok(fake_session_count(&fs, COUNTER_TRACING_NS) < UINT64_C(1) << 40,
	   "it is no less true when the clock is known");
	fake_session_end(&fs);
}

/* A plan is what a start then patches. */
static void test_plan(void)
{
	const struct patch_plan *plan;
	struct trace_status status;
	unsigned int wrong = 0;
	uint8_t now[PATCH_MAX_SIZE];

	fake_session_create(&fs);
	ok(trace_session_plan(fs.session, (const char *const[]){"nonsense", NULL}, &plan, NULL) ==
		   -EINVAL,
	   "a plan for an unknown tracer is refused");
	ok(!trace_session_plan(fs.session, NULL, &plan, NULL), "a plan is made");
	is_u64(plan->entries.n, FAKE_NR_PROBES, "the plan has the entries");
	is_u64(plan->returns.n, FAKE_NR_EXITS, "the plan has the returns");
	for (size_t i = 0; i < plan->entries.n; i++) {
		const struct patch *p = &plan->entries.v[i];

		wrong += kernel_read(&fs.fg.kernel, p->gva, now, p->size, NULL) ||
			 memcmp(now, p->old_bytes, p->size);
	}
	is_u64(wrong, 0, "the plan has the bytes that are there");
	ok(fake_session_text_same(&fs) && !fs.fg.stopped, "a plan changes nothing");
	ok(!trace_session_start(fs.session, NULL, NULL), "tracing starts after a plan");
	status = fake_session_status(&fs);
	ok(status.entry_sites == FAKE_NR_PROBES && status.return_sites == FAKE_NR_EXITS,
	   "a start patches what the plan says");
	ok(trace_session_plan(fs.session, NULL, &plan, NULL) == -EALREADY,
	   "a plan is refused while tracing is on");
	fake_session_end(&fs);
}

static void test_kmalloc(void)
{
	struct kmem_record *r = &fs.events[0].record;

	fake_session_begin(&fs);
	fs.fg.vcpus[0].regs.rsi = 0xcc0;
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_KMALLOC, 33), 2,
	       "an allocation is two traps");
	is_u64(result(), fake_object(), "the guest gets the allocation's result");
	is_u64(fs.fg.vcpus[0].regs.rsp, fake_stack_top(0), "the guest gets its stack pointer back");
	is_u64(fake_session_recorded(&fs), 1, "a call is one record");
	ok(is_alloc(0, KMEM_TYPE_KMALLOC, 33), "the record is of the allocation");
	is_u64(r->gfp_flags, 0xcc0, "the record has the GFP flags");
	is_u64((uint64_t)(int64_t)r->node, UINT64_MAX,
	       "the record says that no node was asked for");
	ok(r->cache != 0, "the record has a cache");
	fake_session_end(&fs);
}

static void test_null(void)
{
	fake_session_begin(&fs);
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_KMALLOC, 0), 2,
	       "a kmalloc that fails is two traps");
	is_u64(result(), 0, "a kmalloc that fails returns NULL by its other exit");
	is_u64(fs.fg.vcpus[0].regs.rsp, fake_stack_top(0), "that exit pops the return address");
	is_u64(fake_session_recorded(&fs), 0, "a kmalloc that fails is not recorded");
	is_u64(fake_session_count(&fs, COUNTER_NULL_ALLOCS), 1, "a kmalloc that fails is counted");
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_KFREE, 0), 1, "kfree(NULL) is one trap");
	is_u64(fake_session_count(&fs, COUNTER_NULL_FREES), 1, "kfree(NULL) is counted");
	is_u64(fake_session_recorded(&fs), 0, "kfree(NULL) is not recorded");
	fake_session_end(&fs);
}

/* The guest's mitigation must not be skipped. */
static void test_thunk(void)
{
	struct guest_trap trap = {
		.regs = {.rip = fake_gva(FAKE_CACHE_ALLOC + 15), .rsp = fake_stack_top(0)}};

	fake_session_begin(&fs);
	ok(fs.fg.trap_fn(fs.fg.trap_arg, &trap) && trap.regs.rip == fake_gva(FAKE_RETURN_THUNK) &&
		   trap.regs.rsp == fake_stack_top(0),
	   "a trapped jump to the return thunk still goes there");
	fake_session_end(&fs);
}

static void test_free(void)
{
	fake_session_begin(&fs);
	is_u64((uint64_t)fake_session_call(&fs, 2, FAKE_KFREE, fake_object()), 1,
	       "kfree is one trap");
	is_u64(fake_session_recorded(&fs), 1, "a call is one record");
	ok(fs.events[0].record.event_id == KMEM_EVENT_FREE &&
		   fs.events[0].record.ptr == fake_object() && fs.events[0].vcpu == 2 &&
		   fs.events[0].record.call_site == fake_session_call_site(),
	   "a free is recorded on the freeing vCPU, with its call site");
	is_u64(fake_session_status(&fs).vcpus[2].v[COUNTER_TRAPS], 1,
	       "a trap is counted on its vCPU");
	fake_session_end(&fs);
}

static void test_nested(void)
{
	fake_session_begin(&fs);
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_OUTER, 33), 4,
	       "a wrapper and what it calls are four traps");
	is_u64(fake_session_recorded(&fs), 1, "a wrapper and what it calls are one record");
	is_u64(fs.events[0].record.bytes_req, 33, "that record is of the inner call");
	is_u64(fake_session_count(&fs, COUNTER_NESTED), 1, "the outer call is counted as nested");
	fake_session_end(&fs);
}

/* Too large for a cache: the caller of the outermost entry point is recorded. */
static void test_large_nested(void)
{
	fake_session_begin(&fs);
	ok(fake_session_call(&fs, 0, FAKE_OUTER, LARGE) > 0,
	   "a wrapper of a large kmalloc is traced");
	ok(fake_session_recorded(&fs) == 1 && is_alloc(0, KMEM_TYPE_KMALLOC, LARGE),
	   "of a large kmalloc the outer call is recorded");
	is_u64(fake_session_count(&fs, COUNTER_NESTED), 1,
	       "of a large kmalloc the inner call is counted as nested");
	is_u64(fake_session_count(&fs, COUNTER_IN_FLIGHT) + fake_session_count(&fs, COUNTER_LOST),
	       0, "no nested call is lost or unfinished");
	fake_session_end(&fs);
}

static void test_tail_calls(void)
{
	struct trace_status status;

	fake_session_begin(&fs);
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_TAIL, fake_cache()), 3,
	       "a tail call is three traps");
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_MAYBE_TAIL, 0), 3,
	       "a conditional tail call is three traps");
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_MAYBE_TAIL, fake_cache()), 2,
	       "a conditional tail call that is not taken is two traps");
	is_u64(fake_session_recorded(&fs), 3, "each call is recorded once");
	for (size_t i = 0; i < 3; i++)
		ok(is_alloc(i, KMEM_TYPE_CACHE, FAKE_CACHE_OBJECT_SIZE),
		   "a tail call's record has the outer caller");
	status = fake_session_status(&fs);
	is_u64(status.counters.v[COUNTER_NESTED], 2, "a superseded entry is counted as nested");
	is_u64(status.counters.v[COUNTER_LOST] + status.counters.v[COUNTER_UNPAIRED_RETURNS], 0,
	       "tail calls lose nothing");
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
	ok(!trace_session_start(fs.session, NULL, NULL),
	   "tracing starts while a task is in kmalloc");
	is_u64((uint64_t)fake_guest_run(&fs.fg, 1), 1, "that task's return is a trap");
	is_u64(fake_session_count(&fs, COUNTER_UNPAIRED_RETURNS), 1,
	       "a return without its entry is counted as unpaired");
	is_u64(fake_session_recorded(&fs), 0, "a return without its entry is not recorded");
	is_u64(fs.fg.vcpus[1].regs.rax, fake_object(), "that task gets its result");
	fake_session_end(&fs);
}

static void test_in_flight(void)
{
	fake_session_begin(&fs);
	fake_code(&fs.fg, FAKE_CALLER, "\x90\x90\x90\x90\x90\xf4", 6);
	enter_kmalloc(1);
	trap_at_entry(1);
	ok(!trace_session_stop(fs.session, NULL), "tracing stops while a task is in kmalloc");
	is_u64(fake_session_count(&fs, COUNTER_IN_FLIGHT), 1,
	       "a call without its return is counted as unfinished");
	ok(fake_session_text_same(&fs), "the text is what it was");
	is_u64((uint64_t)fake_guest_run(&fs.fg, 1), 0, "that task returns without a trap");
	ok(!trace_session_start(fs.session, NULL, NULL), "tracing starts again");
	is_u64((uint64_t)fake_session_call(&fs, 1, FAKE_KMALLOC, 8), 2,
	       "the next call is two traps");
	is_u64(fake_session_recorded(&fs), 1, "the next call is recorded");
	is_u64(fake_session_count(&fs, COUNTER_LOST), 0,
	       "an unfinished call is not counted as lost");
	fake_session_end(&fs);
}

static void test_foreign_port_write(void)
{
	fake_session_begin(&fs);
	fake_code(&fs.fg, FAKE_CALLER, "\xe6\xe4\xf4", 3);
	fs.fg.vcpus[0].regs.rip = fake_gva(FAKE_CALLER);
	is_u64((uint64_t)fake_guest_run(&fs.fg, 0), 0,
	       "an OUT of the guest's own is left to the backend");
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
	ok(good, "50 starts and stops each trace and restore the text");
	is_u64(fake_session_recorded(&fs), 50, "each of them recorded one call");
	is_u64(fake_session_status(&fs).restored.restored, FAKE_NR_PROBES + FAKE_NR_EXITS,
	       "the last stop restored every place");
	fake_session_destroy(&fs);
}

static void test_filters(void)
{
	static const char *const pages[] = {"kmem:kmalloc", NULL}, *const bad[] = {"kmme", NULL};
	struct error err = {0};

	fake_session_create(&fs);
	ok(trace_session_start(fs.session, bad, &err) == -EINVAL && strstr(err.text, "'kmem'"),
	   "an unknown tracer is refused with the nearest name: %s", err.text);
	ok(fake_session_text_same(&fs) && !fake_session_status(&fs).enabled,
	   "a refused start changes nothing");
	ok(!trace_session_start(fs.session, pages, NULL), "tracing starts with a filter");
	fake_session_call(&fs, 0, FAKE_CACHE_ALLOC, fake_cache());
	fake_session_call(&fs, 0, FAKE_KMALLOC, 5);
	ok(fake_session_recorded(&fs) == 1 && is_alloc(0, KMEM_TYPE_KMALLOC, 5),
	   "only what the filter names is recorded");
	fake_session_end(&fs);
}

/* Without traps each exit needs room for a jump to a trampoline. What follows it is other code. */
static void test_no_room(void)
{
	const struct trace_options options = {.exitless = true, .ring_bytes = 64 << 10};
	const uint64_t behind = FAKE_KMALLOC + 29; /* its `ret` */
	struct trace_status status;
	struct error err = {0};

	fake_session_create(&fs);
	fs.fg.guest.caps &= ~(unsigned int)(GUEST_CAP_PORT_TRAP | GUEST_CAP_BREAK);
	trace_session_set_options(fs.session, &options);
	fake_code(&fs.fg, behind, "\xcc\xcc\x48\x89\xf8\xc3",
		  6); /* int3 twice; mov %rdi,%rax; ret */
	fake_session_keep_text(&fs);
	trace_session_start(fs.session, NULL, &err);
	status = fake_session_status(&fs);
	ok(status.nr_refused == 1 && strstr(status.refused[0].reason, "no room for a jump"),
	   "without traps a function whose return has no room for a jump is refused: %s",
	   status.nr_refused ? status.refused[0].reason : err.text);
	fake_session_end(&fs);
}

static void test_refusal(void)
{
	struct trace_status status;

	fake_session_create(&fs);
	fake_code(&fs.fg, FAKE_CALLER - 0x100, "\xc3", 1); /* its trampoline */
	fake_branch(&fs.fg, FAKE_CACHE_ALLOC, 0xe8, FAKE_CALLER - 0x100);
	fake_session_keep_text(&fs);
	ok(!trace_session_start(fs.session, NULL, NULL),
	   "tracing starts while ftrace holds a site");
	status = fake_session_status(&fs);
	ok(status.nr_refused == 1 && strstr(status.refused[0].reason, "ftrace") &&
		   status.refused[0].gva == fake_gva(FAKE_CACHE_ALLOC),
	   "a site that ftrace holds is refused with its reason");
	is_u64(status.entry_sites, FAKE_NR_PROBES - 1, "all other sites are patched");
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_TAIL, fake_cache()), 2,
	       "a function that tail-calls the refused one is two traps");
	ok(fake_session_recorded(&fs) == 1 && is_alloc(0, KMEM_TYPE_CACHE, FAKE_CACHE_OBJECT_SIZE),
	   "a call that ends in the refused function is recorded");
	fake_session_end(&fs);
}

/* The end of a session says what it could not put back. */
static void test_end_fails(void)
{
	struct error err = {0};

	fake_session_create(&fs);
	trace_session_start(fs.session, NULL, NULL);
	fs.fg.failing_gpa = FAKE_PHYS_TEXT + FAKE_KFREE;
	ok(trace_session_end(fs.session, &err) == -EIO && err.code == EIO,
	   "an end that cannot put all text back is an error: %s", err.text);
	fs.fg.failing_gpa = 0;
	fake_session_destroy(&fs);
}

static void test_all_or_nothing(void)
{
	struct error err = {0};

	fake_session_create(&fs);
	fs.fg.ignored_gpa = FAKE_PHYS_TEXT + FAKE_KFREE;
	ok(trace_session_start(fs.session, NULL, &err) == -EIO &&
		   err.address == fake_gva(FAKE_KFREE),
	   "a start fails if one patch fails: %s", err.text);
	ok(fake_session_text_same(&fs) && !fs.fg.stopped,
	   "a failed start leaves no patch, and the guest runs");
	fs.fg.ignored_gpa = 0;
	ok(!trace_session_start(fs.session, NULL, NULL), "tracing starts when the patch succeeds");
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
		   "an entry with RSP %llx is handled", (unsigned long long)stacks[i]);
		trap.regs.rip = fake_gva(FAKE_KMALLOC + 20);
		trap.regs.rax = UINT64_MAX;
		ok(fs.fg.trap_fn(fs.fg.trap_arg, &trap), "a return with that RSP is handled");
	}
	is_u64(fake_session_recorded(&fs), 0, "impossible objects are not recorded");
	fake_session_end(&fs);
}

int main(void)
{
	test_start();
	test_unknown_clock();
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
	test_no_room();
	test_end_fails();
	test_all_or_nothing();
	test_hostile_registers();
	return tap_done();
}
