/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/fake-session.h"
#include "tests/lib/fake-reserved.h"
#include "tests/lib/fake-tasks.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <string.h>
#include "formats/base/clock.h"
#include "formats/trace/reader.h"
#include "patcher/engine/ring-internal.h"
#include "patcher/session/internal.h"

enum { JMP = 0xe9, CALL = 0xe8, SITE = 5, CACHE_NAME = 0x100, RT_QUEUES = 100, LEAVE_MS = 60000 };

const uint64_t fake_functions[FAKE_NR_PROBES] = {
	FAKE_KMALLOC,    FAKE_OUTER,     FAKE_CACHE_ALLOC, FAKE_TAIL,
	FAKE_MAYBE_TAIL, FAKE_KFREE,     FAKE_FREE_SHEAF,  FAKE_ALLOC_BULK,
	FAKE_CACHE_FREE, FAKE_FREE_BULK, FAKE_ALLOC_PAGES, FAKE_FREE_PAGE};

static const struct fake_symbol symbols[] = {
	{"fake_caller", FAKE_CALLER},
	{"__kmalloc", FAKE_KMALLOC},
	{"kmalloc_large", FAKE_OUTER},
	{"kmem_cache_alloc", FAKE_CACHE_ALLOC},
	{"kmem_cache_alloc_lru", FAKE_TAIL},
	{"kmem_cache_alloc_node", FAKE_MAYBE_TAIL},
	{"kfree", FAKE_KFREE},
	{"ftrace_init", FAKE_FTRACE_INIT},
	{"alternative_instructions", FAKE_ALTERNATIVES},
	{"__fentry__", FAKE_FENTRY},
	{"ftrace_arch_code_modify_prepare", FAKE_PREPARE},
	{"ftrace_arch_code_modify_post_process", FAKE_POST_PROCESS},
	{"ftrace_run_update_code", FAKE_UPDATE},
	{"arch_prepare_kprobe", FAKE_PREPARE_KPROBE},
	{"ftrace_lock", FAKE_FTRACE_LOCK},
	{"__x86_return_thunk", FAKE_RETURN_THUNK},
	{"rest_init", FAKE_REST_INIT},
	{"msleep", FAKE_MSLEEP},
	{"hibernate_preallocate_memory", FAKE_HIBERNATE},
	{"suspend_devices_and_enter", FAKE_SUSPEND},
	{"kernel_kexec", FAKE_KEXEC},
	{"rcu_free_sheaf", FAKE_FREE_SHEAF},
	{"kmem_cache_alloc_bulk", FAKE_ALLOC_BULK},
	{"__kmem_cache_free_bulk", FAKE_UNDO_BULK},
	{"kmem_cache_free", FAKE_CACHE_FREE},
	{"kmem_cache_free_bulk", FAKE_FREE_BULK},
	{"__alloc_pages", FAKE_ALLOC_PAGES},
	{"free_unref_page", FAKE_FREE_PAGE},
	{"fake_text_end", FAKE_TEXT_END},
	{"__per_cpu_offset", FAKE_PER_CPU_OFFSET},
	{"cpu_number", FAKE_CPU_NUMBER},
	{"this_cpu_off", FAKE_THIS_CPU_OFF},
	{"current_task", FAKE_CURRENT_TASK},
	{"rcu_data", FAKE_RCU_DATA},
	{"runqueues", FAKE_RUNQUEUES},
	{"init_task", FAKE_INIT_TASK},
	{"__cpu_online_mask", FAKE_CPU_ONLINE_MASK},
	{"tsc_unstable", FAKE_TSC_UNSTABLE},
	{"system_state", FAKE_SYSTEM_STATE},
	{"panic_cpu", FAKE_PANIC_CPU},
	{"kexec_crash_image", FAKE_KEXEC_CRASH_IMAGE},
	{"slab_state", FAKE_SLAB_STATE},
	{"ftrace_pages_start", FAKE_FTRACE_PAGES},
	{"alternatives_patched", FAKE_ALTERNATIVES_PATCHED},
	{"kprobe_table", FAKE_KPROBE_TABLE},
	{NULL, 0},
};

uint64_t fake_object(void)
{
	return fake_direct(FAKE_OBJECT_GPA);
}

uint64_t fake_cache(void)
{
	return fake_direct(FAKE_CACHE_GPA);
}

uint64_t fake_session_pmd(const struct fake_session *fs)
{
	enum { PMD = 2 /* level of the table */ };
	uint64_t table;

	if (kernel_page_table(&fs->fg.kernel, fake_gva(0), PMD, &table, NULL))
		abort();
	return table;
}

uint64_t fake_tasks(void)
{
	return fake_gva(FAKE_INIT_TASK + FAKE_TASK_TASKS);
}

uint64_t fake_runqueue(unsigned int cpu)
{
	return fake_direct(FAKE_PER_CPU_GPA + cpu * 0x1000 + FAKE_RUNQUEUES - FAKE_PER_CPU);
}

static uint64_t put(struct fake_guest *fg, uint64_t at, const char *bytes, size_t size)
{
	fake_code(fg, at, bytes, size);
	return at + size;
}

static uint64_t put_site(struct fake_guest *fg, uint64_t function)
{
	return put(fg, function, "\x0f\x1f\x44\0\0", SITE);
}

static void put_kmalloc(struct fake_guest *fg)
{
	uint64_t at = put_site(fg, FAKE_KMALLOC);

	at = put(fg, at, "\x48\x85\xff\x74\x0f", 5); /* test %rdi,%rdi; jz over the next two */
	at = fake_load_rax(fg, at, fake_object());
	at = fake_branch(fg, at, JMP, FAKE_RETURN_THUNK);
	at = put(fg, at, "\x48\x89\xf8", 3); /* mov %rdi,%rax */
	put(fg, at, "\xc3", 1);
}

static void put_bulk(struct fake_guest *fg)
{
	uint64_t at = put(fg, put_site(fg, FAKE_ALLOC_BULK), "\x0f\x1f\x44\0\0", SITE);

	put(fg, fake_load_rax(fg, at, 0), "\xc3", 1);
	at = fake_branch(fg, FAKE_UNDO_BULK, CALL, FAKE_CACHE_FREE);
	put(fg, at, "\xc3", 1);
	put(fg, put_site(fg, FAKE_CACHE_FREE), "\xc3", 1);
	put(fg, put_site(fg, FAKE_FREE_BULK), "\xc3", 1);
	put(fg, put_site(fg, FAKE_FREE_SHEAF), "\xc3", 1);
}

static void put_pages(struct fake_guest *fg)
{
	put(fg, fake_load_rax(fg, put_site(fg, FAKE_ALLOC_PAGES), fake_page(FAKE_OBJECT_GPA >> 12)),
	    "\xc3", 1);
	put(fg, put_site(fg, FAKE_FREE_PAGE), "\xc3", 1);
}

static void put_ftrace(struct fake_guest *fg)
{
	put(fg, fake_branch(fg, FAKE_UPDATE, CALL, FAKE_PREPARE), "\x90\x90\x90\x90\x90", 5);
	put(fg, fake_branch(fg, FAKE_DURING_UPDATE + 5, CALL, FAKE_POST_PROCESS), "\x90\xc3", 2);
	put(fg, FAKE_PREPARE, "\x90\x90\x0f\x1f\x00\xc3", 6);
	put(fg, FAKE_POST_PROCESS, "\x90\x90\xc3", 3);
	put(fg, FAKE_PREPARE_KPROBE, "\x90\x90\x0f\x1f\x00\xc3", 6);
	put(fg, FAKE_HIBERNATE, "\x0f\x1f\x00\x90\x90\xc3", 6);
	put(fg, FAKE_SUSPEND, "\x0f\x1f\x00\x90\x90\xc3", 6);
	put(fg, FAKE_KEXEC, "\x0f\x1f\x00\x90\x90\xc3", 6);
	put(fg, FAKE_MSLEEP, "\xc3", 1);
}

static void put_code(struct fake_guest *fg)
{
	uint8_t int3[FAKE_TEXT_END];
	uint64_t at;

	memset(int3, 0xcc, sizeof(int3));
	fake_code(fg, 0, int3, sizeof(int3));
	put_kmalloc(fg);
	put_bulk(fg);
	put_pages(fg);
	put_ftrace(fg);
	at = fake_branch(fg, put_site(fg, FAKE_OUTER), CALL, FAKE_KMALLOC);
	put(fg, at, "\xc3", 1);
	at = fake_load_rax(fg, put_site(fg, FAKE_CACHE_ALLOC), fake_object());
	fake_branch(fg, at, JMP, FAKE_RETURN_THUNK);
	fake_branch(fg, put_site(fg, FAKE_TAIL), JMP, FAKE_CACHE_ALLOC);
	at = put(fg, put_site(fg, FAKE_MAYBE_TAIL), "\x48\x85\xff\x0f", 4); /* test; jz rel32 */
	at = fake_branch(fg, at, 0x84, FAKE_CACHE_ALLOC);
	at = fake_load_rax(fg, at, fake_object());
	put(fg, at, "\xc3", 1);
	put(fg, put_site(fg, FAKE_KFREE), "\xc3", 1);
	put(fg, put_site(fg, FAKE_FTRACE_INIT),
	    "\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\xc3", 14);
	put(fg, put_site(fg, FAKE_ALTERNATIVES),
	    "\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\xc3", 14);
	put(fg, FAKE_FENTRY, "\xc3", 1);
	put(fg, FAKE_REST_INIT, "\x90\x90\xc3", 3);
	put(fg, FAKE_RETURN_THUNK, "\xc3", 1);
}

static void put_heap(struct fake_kernel *base)
{
	uint64_t page = fake_page_gpa(FAKE_OBJECT_GPA >> 12);

	fake_put32(base, FAKE_CACHE_GPA + 8, FAKE_CACHE_SIZE);
	fake_put32(base, FAKE_CACHE_GPA + 12, FAKE_CACHE_OBJECT_SIZE);
	fake_put64(base, FAKE_CACHE_GPA + 16, fake_cache() + CACHE_NAME);
	strcpy((char *)base->ram + FAKE_CACHE_GPA + CACHE_NAME, "fake-cache");
	fake_put64(base, page + 8, fake_cache());
	fake_put32(base, page + 48, 0xf5000000); /* PGTY_slab */
	fake_put32(base, FAKE_PHYS_TEXT + FAKE_SYSTEM_STATE, 3);
	fake_put32(base, FAKE_PHYS_TEXT + FAKE_PANIC_CPU, UINT32_MAX);
	fake_put32(base, FAKE_PHYS_TEXT + FAKE_SLAB_STATE, 3);
	fake_put64(base, FAKE_PHYS_TEXT + FAKE_CPU_ONLINE_MASK, (1u << FAKE_VCPUS) - 1);
	fake_put64(base, FAKE_PHYS_TEXT + FAKE_FTRACE_PAGES, fake_direct(FAKE_FTRACE_LIST_GPA));
	fake_put32(base, FAKE_PHYS_TEXT + FAKE_ALTERNATIVES_PATCHED, 1);
}

/* As a kernel whose variables are not linked at 0: GS has the distance to the CPU's copy. */
static void put_runqueue(struct fake_kernel *fake, unsigned int cpu)
{
	uint64_t rq = fake_runqueue(cpu);

	fake_list_init(fake, rq + FAKE_RQ_FAIR);
	for (uint64_t i = 0; i < RT_QUEUES; i++)
		fake_list_init(fake, rq + FAKE_RQ_RT + i * 16);
	fake_list_init(fake, rq + FAKE_RQ_EXT);
}

static void put_task(struct fake_kernel *fake, unsigned int cpu)
{
	uint64_t gpa = FAKE_TASK_GPA + cpu * 0x100;

	fake_put32(fake, gpa + FAKE_TASK_PID, 100 + cpu);
	memcpy(fake->ram + gpa + FAKE_TASK_COMM, "task", 4);
	fake_put32(fake, gpa + FAKE_TASK_ON_CPU, 1);
}

static void put_per_cpu(struct fake_guest *fg)
{
	for (unsigned int i = 0; i < FAKE_VCPUS; i++) {
		uint64_t gpa = FAKE_PER_CPU_GPA + i * 0x1000;
		uint64_t base = fake_direct(gpa) - fake_gva(FAKE_PER_CPU);

		fake_put64(&fg->base, FAKE_PHYS_TEXT + FAKE_PER_CPU_OFFSET + i * 8, base);
		fake_put32(&fg->base, gpa + FAKE_CPU_NUMBER - FAKE_PER_CPU, i);
		fake_put64(&fg->base, gpa + FAKE_THIS_CPU_OFF - FAKE_PER_CPU, base);
		fake_put64(&fg->base, gpa + FAKE_CURRENT_TASK - FAKE_PER_CPU,
			   fake_direct(FAKE_TASK_GPA + i * 0x100));
		put_task(&fg->base, i);
		fg->vcpus[i].sregs.gs_base = base;
		put_runqueue(&fg->base, i);
	}
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The image's list, and the one of the running kernel. */
static void set_sites(struct fake_kernel *base)
{
	static uint64_t sites[FAKE_NR_SITES];
	struct kernel_image *image = &base->image;

	for (size_t i = 0; i < FAKE_NR_PROBES; i++)
		sites[i] = FAKE_LINK_TEXT + fake_functions[i];
	sites[FAKE_NR_PROBES] = FAKE_LINK_TEXT + FAKE_FTRACE_INIT;
	sites[FAKE_NR_PROBES + 1] = FAKE_LINK_TEXT + FAKE_ALTERNATIVES;
	qsort(sites, FAKE_NR_SITES, sizeof(sites[0]), compare);
	image->mcount_sites = sites;
	image->nr_mcount_sites = FAKE_NR_SITES;
	fake_put64(base, FAKE_FTRACE_LIST_GPA + 8, fake_direct(FAKE_SITES_GPA));
	fake_put32(base, FAKE_FTRACE_LIST_GPA + 16, FAKE_NR_SITES);
	for (uint64_t i = 0; i < FAKE_NR_SITES; i++)
		fake_put64(base, FAKE_SITES_GPA + i * 16, sites[i] + FAKE_SLIDE);
}

void fake_session_list_return_sites(struct fake_session *fs)
{
	enum { JMP_BYTES = 5 };
	struct kernel_image *image = &fs->fg.base.image;

	image->return_sites = fs->return_sites;
	image->nr_return_sites = 0;
	for (uint64_t at = FAKE_KMALLOC; at < FAKE_TEXT_END; at++) {
		int32_t distance;

		memcpy(&distance, image->init_bytes + at + 1, sizeof(distance));
		if (image->init_bytes[at] != JMP ||
		    at + JMP_BYTES + (uint64_t)(int64_t)distance != FAKE_RETURN_THUNK)
			continue;
		if (image->nr_return_sites == FAKE_MAX_SLOTS)
			abort();
		fs->return_sites[image->nr_return_sites++] = image->text + at;
	}
}

void fake_session_list_reserved(struct fake_session *fs)
{
	const uint64_t to[FAKE_NR_RESERVED] = {FAKE_LABEL, FAKE_UPDATE, FAKE_UPDATE, FAKE_UPDATE,
					       FAKE_UPDATE};

	fake_reserved_add(&fs->fg, to);
}

void fake_session_hold_site(struct fake_session *fs, uint64_t gva, uint8_t *bytes, bool held)
{
	static const uint8_t call[SITE] = {CALL, 0, 0x10, 0, 0};
	struct patch *patch = (struct patch *)patch_set_at(&fs->session->plan.shared, gva);

	if (!patch)
		abort();
	atomic_store(&patch->holder, (uint8_t)(held ? SITE_CALL_OTHER : SITE_NOP));
	patch->yielded = held;
	memcpy(bytes, held ? call : patch->new_bytes, SITE);
}

void fake_session_put_kprobe_at(struct fake_session *fs, uint64_t gva, const uint8_t *text,
				uint32_t flags)
{
	const uint64_t list = FAKE_PHYS_TEXT + FAKE_KPROBE_TABLE + 8 * 63;
	const uint64_t copied = FAKE_KPROBE_GPA + FAKE_KPROBE_OPTINSN + FAKE_KPROBE_COPIED;
	struct fake_kernel *base = &fs->fg.base;

	fake_put64(base, FAKE_KPROBE_GPA + FAKE_KPROBE_ADDR, gva);
	fake_put32(base, FAKE_KPROBE_GPA + FAKE_KPROBE_FLAGS, flags);
	base->ram[FAKE_KPROBE_GPA + FAKE_KPROBE_OPCODE] = text[0];
	memcpy(base->ram + copied, text + 1, SITE - 1);
	fake_put64(base, list, gva ? fake_direct(FAKE_KPROBE_GPA) : 0);
}

void fake_session_put_kprobe(struct fake_session *fs, uint64_t offset, uint32_t flags)
{
	static const uint8_t none[SITE];

	fake_session_put_kprobe_at(fs, offset ? fake_gva(offset) : 0,
				   offset ? fake_text(&fs->fg, offset) : none, offset ? flags : 0);
}

void fake_session_create(struct fake_session *fs)
{
	struct trace_info info = {0};

	memset(fs, 0, sizeof(*fs));
	if (fake_guest_create(&fs->fg) || fake_guest_add_symbols(&fs->fg, symbols))
		abort();
	put_code(&fs->fg);
	put_heap(&fs->fg.base);
	put_per_cpu(&fs->fg);
	fake_list_init(&fs->fg.base, fake_tasks());
	set_sites(&fs->fg.base);
	fs->dir = scratch_make();
	if (trace_writer_create(fs->dir.path, FAKE_VCPUS, 0, &info, &fs->writer, NULL) ||
	    trace_session_create(&fs->fg.guest, &fs->fg.base.image, fs->writer, &fs->session, NULL))
		abort();
	trace_session_kernel_at(fs->session, FAKE_SLIDE, FAKE_PHYS_TEXT);
	for (unsigned int i = 0; i < FAKE_VCPUS; i++)
		fs->fg.vcpus[i].regs.rsi = fake_cache();
	fake_session_keep_text(fs);
}

void fake_session_destroy(struct fake_session *fs)
{
	trace_session_destroy(fs->session);
	trace_writer_destroy(fs->writer);
	scratch_remove(&fs->dir);
	fake_guest_destroy(&fs->fg);
}

void fake_session_start(struct fake_session *fs)
{
	if (trace_session_start(fs->session, NULL, NULL))
		abort();
}

void fake_session_begin(struct fake_session *fs)
{
	fake_session_create(fs);
	fake_session_start(fs);
}

void fake_session_end(struct fake_session *fs)
{
	ok(!trace_session_failure(fs->session), "nothing has failed while tracing");
	ok(!trace_session_stop(fs->session, NULL) && fake_session_text_same(fs),
	   "after a stop the text is what it was");
	fake_session_destroy(fs);
}

int fake_session_call(struct fake_session *fs, unsigned int vcpu, uint64_t fn, uint64_t argument)
{
	fs->fg.vcpus[vcpu].regs.rdi = argument;
	return fake_guest_call(&fs->fg, vcpu, FAKE_CALLER, fn);
}

uint64_t fake_session_call_site(void)
{
	return fake_gva(FAKE_CALLER + SITE);
}

/* FAKE_CALLER belongs to the tests. */
bool fake_session_text_same(const struct fake_session *fs)
{
	const uint8_t *text = fs->fg.base.ram + FAKE_PHYS_TEXT;

	return !memcmp(text + FAKE_KMALLOC, fs->text + FAKE_KMALLOC, FAKE_TEXT_END - FAKE_KMALLOC);
}

void fake_session_keep_text(struct fake_session *fs)
{
	memcpy(fs->text, fake_text(&fs->fg, 0), FAKE_TEXT_END);
}

void fake_session_set_sites(struct fake_session *fs, const char *bytes)
{
	for (size_t i = 0; i < FAKE_NR_PROBES; i++)
		if (bytes)
			put(&fs->fg, fake_functions[i], bytes, SITE);
		else
			fake_branch(&fs->fg, fake_functions[i], CALL, FAKE_FENTRY);
}

const struct probe_ref *fake_session_ref(const struct fake_session *fs, uint64_t function)
{
	const struct tracer_set *set = &fs->session->tracers;

	for (size_t i = 0; i < set->nr_refs; i++)
		if (set->refs[i].probe->site == FAKE_LINK_TEXT + function)
			return &set->refs[i];
	return NULL;
}

/* What the place captures; of returns, where the place is not known, what any of them does. */
static uint32_t captured_by(const struct fake_session *fs, const struct probe_ref *ref,
			    enum probe_point point)
{
	const struct tracer_set *set = &fs->session->tracers;
	uint32_t fields = 0;

	if (point == POINT_ENTRY)
		return ref->probe->entry.fields;
	for (size_t i = 0; i < set->nr_refs; i++)
		fields |= set->refs[i].probe->ret.fields;
	return fields;
}

void fake_session_emit(struct fake_session *fs, const struct probe_ref *ref, enum probe_point point,
		       const struct probe_hit *hit)
{
	struct probe_hit whole = *hit;

	if (!whole.fields)
		whole.fields = captured_by(fs, ref, point);
	session_emit(fs->session, ref, point, &whole);
	session_emitted(fs->session);
}

struct trace_reader *fake_session_open_trace(const struct fake_session *fs)
{
	struct trace_reader *reader;

	if (trace_writer_flush(fs->writer, NULL) || trace_reader_open(fs->dir.path, &reader, NULL))
		abort();
	return reader;
}

size_t fake_session_recorded(struct fake_session *fs)
{
	struct trace_reader *reader = fake_session_open_trace(fs);
	size_t n = 0;

	while (n < FAKE_MAX_EVENTS && read_record(reader, &fs->events[n], NULL) == 1)
		n++;
	trace_reader_close(reader);
	return n;
}

struct trace_status fake_session_status(const struct fake_session *fs)
{
	struct trace_status status;

	trace_session_status(fs->session, &status);
	return status;
}

uint64_t fake_session_count(const struct fake_session *fs, enum counter_id id)
{
	return fake_session_status(fs).counters.v[id];
}

const struct trace_instance_status *fake_session_instance(const struct fake_session *fs,
							  const char *name)
{
	static struct trace_status status;

	status = fake_session_status(fs);
	for (unsigned int i = 0; i < status.nr_specs; i++)
		if (!strcmp(status.instances[i].name, name))
			return &status.instances[i];
	return NULL;
}

static bool is_done(int ret, const struct error *err)
{
	if (ret)
		tap_diag("%s", err->text);
	return !ret;
}

bool fake_session_start_with(struct fake_session *fs, const char *spec)
{
	const char *const specs[] = {spec, NULL};
	struct error err = {0};

	return is_done(trace_session_start(fs->session, specs, &err), &err);
}

bool fake_session_add(struct fake_session *fs, const char *spec)
{
	struct error err = {0};

	return is_done(trace_session_add_instance(fs->session, spec, &err), &err);
}

bool fake_session_tick(struct fake_session *fs)
{
	struct error err = {0};

	return is_done(trace_session_tick(fs->session, &err), &err);
}

struct ring_record *fake_session_reserve(struct fake_session *fs, struct ring_writer *writer,
					 uint32_t size)
{
	struct ring_record *record;

	while (!(record = ring_writer_reserve(writer, size))) {
		ring_engine_wake(ring_engine_of(fs->session->ring_engine));
		clock_wait_ms(1);
	}
	return record;
}

bool fake_session_has_left(struct fake_session *fs)
{
	struct ring_engine *x;
	bool leaving;

	if (!fs->session->ring_engine)
		return true;
	x = ring_engine_of(fs->session->ring_engine);
	pthread_mutex_lock(&x->lock);
	leaving = x->leaving;
	pthread_mutex_unlock(&x->lock);
	return !leaving || ring_engine_has_left(x, LEAVE_MS);
}

void fake_session_end_as(struct fake_session *fs, const void *ram)
{
	ok(!trace_session_failure(fs->session), "nothing has failed while tracing");
	ok(!trace_session_stop(fs->session, NULL) && fake_session_has_left(fs) &&
		   !memcmp(ram, fs->fg.base.ram, FAKE_RAM),
	   "after a stop guest memory is what it was");
	fake_session_destroy(fs);
}
