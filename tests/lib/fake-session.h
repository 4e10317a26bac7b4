/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FAKE_SESSION_H
#define SONDE_TESTS_LIB_FAKE_SESSION_H

#include "formats/event/record-stream.h"
#include "formats/trace/writer.h"
#include "patcher/probe/probe.h"
#include "patcher/session/session.h"
#include "tests/lib/fake-guest.h"
#include "tests/lib/ring-writer.h"
#include "tests/lib/trace-make.h"

/*
 * A whole trace session of the kmem tracer on a fake guest, whose kernel has these functions (image
 * offsets). Each begins with an mcount site.
 *
 *   __kmalloc(size)         NULL if size is 0, else FAKE_OBJECT; one exit is a `ret`, the other a
 *                           jump to the return thunk (FAKE_KMALLOC)
 *   kmalloc_large(size)     calls __kmalloc(), returns what it returned (FAKE_OUTER)
 *   kmem_cache_alloc(., cache)   FAKE_OBJECT, by the return thunk (FAKE_CACHE_ALLOC)
 *   kmem_cache_alloc_lru(., cache)   tail-calls kmem_cache_alloc() (FAKE_TAIL)
 *   kmem_cache_alloc_node(x, cache)  tail-calls it by a conditional jump if x is 0, else as above
 *                           (FAKE_MAYBE_TAIL)
 *   kfree(object)
 *   rcu_free_sheaf(rcu_head)
 *   kmem_cache_alloc_bulk(cache, gfp, count, array)   goes through FAKE_DURING_BULK, where a test
 *                           may put a call, and returns the number at FAKE_BULK_RESULT, at first 0
 *   __kmem_cache_free_bulk()  calls kmem_cache_free() with the registers it got; no site
 *   kmem_cache_free(cache, ., ., ., object)
 *   kmem_cache_free_bulk(cache, ., count, array)
 *   __alloc_pages(gfp, order)    the struct page of FAKE_OBJECT
 *   free_unref_page(page, order)
 *   ftrace_init(), alternative_instructions()   each goes through FAKE_DURING_*, where a test may
 *                             put a call, and rewrites nothing: a test does that
 *   arch_prepare_kprobe(kprobe), hibernate_preallocate_memory(), suspend_devices_and_enter(),
 *                             kernel_kexec(), msleep()   do nothing
 *   ftrace_run_update_code()   calls ftrace_arch_code_modify_prepare(), goes through
 *                             FAKE_DURING_UPDATE likewise, calls
 * ftrace_arch_code_modify_post_process()
 */
enum {
	FAKE_CALLER = 0x0800, /* where fake_session_call() calls from */
	FAKE_KMALLOC = 0x1000,
	FAKE_OUTER = 0x1100,
	FAKE_CACHE_ALLOC = 0x1200,
	FAKE_TAIL = 0x1300,
	FAKE_MAYBE_TAIL = 0x1400,
	FAKE_KFREE = 0x1500,
	FAKE_FTRACE_INIT = 0x1600,
	FAKE_DURING_FTRACE = FAKE_FTRACE_INIT + 8, /* two calls fit here */
	FAKE_ALTERNATIVES = 0x1700,
	FAKE_DURING_ALTERNATIVES = FAKE_ALTERNATIVES + 8,
	FAKE_FENTRY = 0x1800,
	FAKE_PREPARE = 0x1880, /* ftrace_arch_code_modify_prepare() */
	FAKE_POST_PROCESS = 0x18c0,
	FAKE_PREPARE_KPROBE = 0x18e0, /* arch_prepare_kprobe() */
	FAKE_RETURN_THUNK = 0x1900,
	FAKE_UPDATE = 0x1980, /* ftrace_run_update_code() */
	FAKE_DURING_UPDATE = FAKE_UPDATE + 5,
	FAKE_REST_INIT = 0x1a00, /* called after alternative_instructions() */
	FAKE_MSLEEP = 0x1a40,
	FAKE_HIBERNATE = 0x1a80, /* hibernate_preallocate_memory() */
	FAKE_SUSPEND = 0x1aa0,   /* suspend_devices_and_enter() */
	FAKE_KEXEC = 0x1ac0,     /* kernel_kexec() */
	FAKE_FREE_SHEAF = 0x1b00,
	FAKE_ALLOC_BULK = 0x1c00,
	FAKE_DURING_BULK = FAKE_ALLOC_BULK + 5,
	FAKE_BULK_RESULT = FAKE_ALLOC_BULK + 10, /* fake_load_rax() */
	FAKE_UNDO_BULK = 0x1d00,
	FAKE_CACHE_FREE = 0x1e00,
	FAKE_FREE_BULK = 0x1f00,
	FAKE_ALLOC_PAGES = 0x2000,
	FAKE_FREE_PAGE = 0x2100,
	FAKE_TEXT_END = 0x2200,
	FAKE_LABEL = FAKE_ALLOC_PAGES + 5,
	FAKE_NR_PROBES = 12,
	FAKE_NR_EXITS = 7, /* of those that allocate */
	FAKE_MAX_SLOTS = 16,

	/* data */
	FAKE_SYSTEM_STATE = 0x30000, /* u32, 0 while booting */
	FAKE_SLAB_STATE = 0x30004,
	FAKE_FTRACE_PAGES = 0x30008, /* ftrace_pages_start */
	FAKE_ALTERNATIVES_PATCHED = 0x30010,
	FAKE_PANIC_CPU = 0x30014,         /* u32, -1: it has not panicked */
	FAKE_KEXEC_CRASH_IMAGE = 0x30028, /* u64, 0: no crash kernel is loaded */
	FAKE_PER_CPU_OFFSET = 0x31000,    /* u64 of each vCPU */
	FAKE_PER_CPU = 0x32000,           /* the template of the per-CPU data */
	FAKE_CPU_NUMBER = FAKE_PER_CPU,
	FAKE_THIS_CPU_OFF = FAKE_PER_CPU + 8,
	FAKE_CURRENT_TASK = FAKE_PER_CPU + 16,
	FAKE_RCU_DATA = FAKE_PER_CPU + 0x200,
	FAKE_RUNQUEUES = FAKE_PER_CPU + 0x400, /* a struct rq without tasks */
	FAKE_INIT_TASK = 0x33000, /* the only one of its list, unless a test adds some */
	FAKE_PER_CPU_GPA = FAKE_HEAP_GPA + 0x100000, /* a page of each vCPU */
	FAKE_FTRACE_LOCK = 0x30018,                  /* its owner */
	FAKE_CPU_ONLINE_MASK = 0x30020,              /* u64, all vCPUs */
	FAKE_TSC_UNSTABLE = 0x30028,                 /* u32 */
	FAKE_KPROBE_TABLE = 0x30800,                 /* empty; fake_session_put_kprobe() */

	FAKE_TASK_GPA = FAKE_HEAP_GPA + 0x190000, /* "task" of each vCPU, pid 100 on */

	FAKE_CACHE_GPA = FAKE_HEAP_GPA,
	FAKE_OBJECT_GPA = FAKE_HEAP_GPA + 0x1000,
	FAKE_ARRAY_GPA = FAKE_HEAP_GPA + 0x2000,         /* free for tests */
	FAKE_KPROBE_GPA = FAKE_HEAP_GPA + 0x1a0000,      /* a struct kprobe */
	FAKE_FTRACE_LIST_GPA = FAKE_HEAP_GPA + 0x180000, /* the struct ftrace_page of all sites */
	FAKE_SITES_GPA = FAKE_FTRACE_LIST_GPA + 0x1000,  /* its records, of 16 bytes */
	FAKE_NR_SITES = FAKE_NR_PROBES + 2,
	FAKE_CACHE_SIZE = 96,
	FAKE_CACHE_OBJECT_SIZE = 80,

	FAKE_MAX_EVENTS = 64,
};

enum { FAKE_KPROBE_DISABLED = 1 << 1, FAKE_KPROBE_OPTIMIZED = 1 << 2, FAKE_KPROBE_FTRACE = 1 << 3 };

/* Those with a probe, by their image offsets. */
extern const uint64_t fake_functions[FAKE_NR_PROBES];

struct fake_session {
	struct fake_guest fg;
	struct scratch dir;
	struct trace_writer *writer;
	struct trace_session *session;
	uint8_t text[FAKE_TEXT_END]; /* as it was before tracing */
	uint64_t return_sites[FAKE_MAX_SLOTS];
	struct record_event events[FAKE_MAX_EVENTS];
};

/* Aborts if the machine fails it. The kernel is booted; the session is not started. */
void fake_session_create(struct fake_session *fs);
void fake_session_destroy(struct fake_session *fs);

/* Give the image a list of return slots: all jumps to its return thunk. */
void fake_session_list_return_sites(struct fake_session *fs);

/* Give the image the kernel's lists of text that has to stay (struct
 * reserved_text): with a jump label at FAKE_LABEL. */
void fake_session_list_reserved(struct fake_session *fs);
/* The guest's own ftrace traces the function with this site, which has a patch and these bytes; or
 * no longer. */
void fake_session_hold_site(struct fake_session *fs, uint64_t gva, uint8_t *bytes, bool held);
/* The guest's only registered kprobe, at this image offset; 0: there is none. Or at `gva`, where
 * the text is. It is not armed. */
void fake_session_put_kprobe(struct fake_session *fs, uint64_t offset, uint32_t flags);
void fake_session_put_kprobe_at(struct fake_session *fs, uint64_t gva, const uint8_t *text,
				uint32_t flags);

/* Trace all; and create one that does. */
void fake_session_start(struct fake_session *fs);
void fake_session_begin(struct fake_session *fs);
/* Check that nothing has failed and that a stop restores the text; destroy it. */
void fake_session_end(struct fake_session *fs);

uint64_t fake_object(void);
/* The list of all processes; a CPU's struct rq. */
uint64_t fake_tasks(void);
uint64_t fake_runqueue(unsigned int cpu);
uint64_t fake_cache(void);
/* gpa of the page table whose entries map 2 MiB of the kernel image. */
uint64_t fake_session_pmd(const struct fake_session *fs);

/* Call fn(argument) on a vCPU, whose RSI is fake_cache() if no test has set it; returns as
 * fake_guest_run(). */
int fake_session_call(struct fake_session *fs, unsigned int vcpu, uint64_t fn, uint64_t argument);
/* The return address of that call, which records have as call site. */
uint64_t fake_session_call_site(void);

/* Whether guest text is what it was at creation, or at the last fake_session_keep_text(). */
bool fake_session_text_same(const struct fake_session *fs);
void fake_session_keep_text(struct fake_session *fs);

/* Replace every entry site by these 5 bytes, or by `call __fentry__` if NULL. */
void fake_session_set_sites(struct fake_session *fs, const char *bytes);

/* The probe of a function, an offset in the text; NULL: it has none. */
const struct probe_ref *fake_session_ref(const struct fake_session *fs, uint64_t function);
/* A hit, as an engine emits it. Without `fields` it has what the probes capture. */
void fake_session_emit(struct fake_session *fs, const struct probe_ref *ref, enum probe_point point,
		       const struct probe_hit *hit);

/* The trace so far, for trace_reader_close(). */
struct trace_reader *fake_session_open_trace(const struct fake_session *fs);
/* Read back what was recorded so far, to `events`; returns how many, at most FAKE_MAX_EVENTS. */
size_t fake_session_recorded(struct fake_session *fs);

struct trace_status fake_session_status(const struct fake_session *fs);
uint64_t fake_session_count(const struct fake_session *fs, enum counter_id id);
/* Start with this spec alone. False after an error, whose text is printed. */
bool fake_session_start_with(struct fake_session *fs, const char *spec);
/* Add an instance; let the session tick. False after an error, whose text is printed. */
bool fake_session_add(struct fake_session *fs, const char *spec);
bool fake_session_tick(struct fake_session *fs);
/* Reserve a record in a ring, as a vCPU does, which wakes the thread that drains: it may sleep, and
 * the ring says that it is full. */
struct ring_record *fake_session_reserve(struct fake_session *fs, struct ring_writer *writer,
					 uint32_t size);
/* After a stop: the guest has left the trampolines, and their memory is gone. A stop does not wait
 * for that as long as a busy machine may take. */
bool fake_session_has_left(struct fake_session *fs);
/* The end of a test: nothing has failed, and after a stop the memory is what it was, `ram`. */
void fake_session_end_as(struct fake_session *fs, const void *ram);
/* The status of the instance of this name, as of the last call; NULL: there is none. */
const struct trace_instance_status *fake_session_instance(const struct fake_session *fs,
							  const char *name);

#endif
