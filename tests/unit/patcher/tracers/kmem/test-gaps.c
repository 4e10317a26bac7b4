/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the kmem tracer cannot see of a kernel: it says so, and traces the rest. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/kmem/allocators.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

static struct fake_session fs;

/* The session's kernel, with another kernel's BTF or none. */
static void begin(const struct fake_kernel *other, struct btf_types **own)
{
	fake_session_create(&fs);
	*own = fs.fg.base.image.btf;
	fs.fg.base.image.btf = other ? other->image.btf : NULL;
}

static void end(struct btf_types *own)
{
	fs.fg.base.image.btf = own;
	fake_session_destroy(&fs);
}

static const char *reason_of(const struct trace_status *status, const char *function)
{
	for (size_t i = 0; i < status->nr_gaps; i++)
		if (!strcmp(status->gaps[i].function, function))
			return status->gaps[i].reason;
	return NULL;
}

/* BTF of 6.12 has no struct slab_sheaf. */
static void test_layout(void)
{
	struct fake_kernel other;
	struct trace_status status;
	struct trace_info info = {0};
	struct btf_types *own;

	if (fake_kernel_create(&other, FAKE_6_12, 4))
		abort();
	begin(&other, &own);
	ok(!trace_session_start(fs.session, NULL, NULL),
	   "tracing starts without a struct's layout");
	status = fake_session_status(&fs);
	is_str(reason_of(&status, "rcu_free_sheaf"), "BTF has no struct slab_sheaf",
	       "the function that needs the layout is a gap");
	is_u64(status.entry_sites, FAKE_NR_PROBES - 1, "all other functions are traced");
	trace_session_info(fs.session, &info);
	is_u64(info.nr_gaps, status.nr_gaps, "the trace has the gaps");
	is_str(info.gaps[0].function, status.gaps[0].function,
	       "a gap in the trace has its function");
	is_str(info.gaps[0].reason, status.gaps[0].reason, "a gap in the trace has its reason");
	ok(!trace_session_stop(fs.session, NULL), "tracing stops");
	end(own);
	fake_kernel_destroy(&other);
}

static void test_types(void)
{
	static const char *const pages[] = {"kmem:pages", NULL};
	struct fake_kernel other;
	struct trace_status status;
	struct btf_types *own;

	if (fake_kernel_create(&other, FAKE_6_12, 4))
		abort();
	begin(&other, &own);
	ok(!trace_session_start(fs.session, pages, NULL), "tracing of pages alone starts");
	status = fake_session_status(&fs);
	is_u64(status.entry_sites, 2, "the page functions are traced");
	ok(!reason_of(&status, "rcu_free_sheaf"), "a function of another type is no gap");
	ok(!trace_session_stop(fs.session, NULL), "tracing of pages stops");
	end(own);
	fake_kernel_destroy(&other);
}

/* What is not known of pages costs only the events of pages. */
static void test_odd_pages(void)
{
	static const char *const pages[] = {"kmem:pages", NULL};
	static const char *const all[] = {"kmem", NULL};
	static const char reason[] = "struct page has 60 bytes: not a multiple of 8 up to 256";
	struct fake_kernel other;
	struct trace_status status;
	struct btf_types *own;
	struct error err = {0};

	if (fake_kernel_create(&other, FAKE_ODD_PAGES, 4))
		abort();
	begin(&other, &own);
	ok(trace_session_start(fs.session, pages, &err) == -ENOENT,
	   "with a struct page of no known layout, tracing of pages alone is refused: %s",
	   err.text);
	ok(!trace_session_start(fs.session, all, &err), "tracing of all starts: %s", err.text);
	status = fake_session_status(&fs);
	is_str(reason_of(&status, "__alloc_pages"), reason, "allocations of pages are a gap");
	ok(status.entry_sites && status.entry_sites < FAKE_NR_PROBES,
	   "and other functions are traced");
	fake_session_call(&fs, 0, FAKE_KMALLOC, 100);
	is_u64(fake_session_recorded(&fs), 1, "kmalloc() is recorded nevertheless");
	ok(!trace_session_stop(fs.session, NULL), "tracing of all stops");
	end(own);
	fake_kernel_destroy(&other);
}

static void test_no_btf(void)
{
	struct error err = {0};
	struct btf_types *own;

	begin(NULL, &own);
	ok(trace_session_start(fs.session, NULL, &err) == -ENOENT,
	   "without BTF tracing does not start");
	ok(strstr(err.text, "the kernel image has no BTF"), "the error says so: %s", err.text);
	end(own);
}

/* A kernel with other structures: begins to trace, kmalloc(100) and what is known of it. */
static void trace_kmalloc(enum fake_flavour flavour, struct trace_status *status)
{
	struct fake_kernel other;
	struct btf_types *own;

	if (fake_kernel_create(&other, flavour, 4))
		abort();
	begin(&other, &own);
	ok(!trace_session_start(fs.session, NULL, NULL), "tracing starts");
	*status = fake_session_status(&fs);
	fake_session_call(&fs, 0, FAKE_KMALLOC, 100);
	is_u64(fake_session_recorded(&fs), 1, "kmalloc() is recorded");
	is_u64(fs.events[0].record.bytes_req, 100, "with what was requested");
	is_u64(fs.events[0].record.bytes_alloc, 100, "for want of what was allocated");
	is_u64(fs.events[0].record.cache, 0, "and without a cache");
	is_u64(fake_session_count(&fs, COUNTER_LOST), 0, "nothing is lost");
	is_str(reason_of(status, "__alloc_pages"),
	       flavour == FAKE_BARE ? "BTF has no usable struct page" : NULL,
	       "pages are a gap only if struct page is not known");
	is_str(reason_of(status, "caches and allocated sizes of kmalloc()"),
	       flavour == FAKE_BARE
		       ? "BTF has no member size in struct kmem_cache"
		       : "BTF has no member compound_head or compound_info in struct page",
	       "what is missing of a kmalloc() is a gap");
	ok(!trace_session_stop(fs.session, NULL), "tracing stops");
	end(own);
	fake_kernel_destroy(&other);
}

static void test_members(void)
{
	struct trace_status status;

	trace_kmalloc(FAKE_NEXT, &status);
	is_u64(status.entry_sites, FAKE_NR_PROBES,
	       "a kernel whose compound pages are not known has all its functions traced");
	trace_kmalloc(FAKE_BARE, &status);
	ok(status.entry_sites && status.entry_sites < FAKE_NR_PROBES - 2,
	   "a kernel whose structures are not known has the others traced");
}

/* A kernel without return thunks: what stands behind a `ret` is code. */
static void test_returns(void)
{
	enum { KMALLOC_RET = FAKE_KMALLOC + 28 };
	static const char *const frees[] = {"kmem:kmalloc", NULL};
	struct trace_status status;
	struct trace_info info = {0};

	fake_session_create(&fs);
	ok(*fake_text(&fs.fg, KMALLOC_RET) == 0xc3, "__kmalloc() returns there");
	fake_code(&fs.fg, KMALLOC_RET + 1, "\x90", 1);
	ok(!trace_session_start(fs.session, frees, NULL),
	   "tracing starts without a function whose return cannot be trapped");
	status = fake_session_status(&fs);
	is_str(reason_of(&status, "__kmalloc"),
	       "its result cannot be recorded: a `ret` has no room for a patch",
	       "the function is a gap, with the reason");
	ok(reason_of(&status, "other functions"), "what the tracer cannot see is one beside it");
	trace_session_info(fs.session, &info);
	is_u64(info.nr_gaps, status.nr_gaps, "the trace has both");
	fake_session_call(&fs, 0, FAKE_KMALLOC, 100);
	is_u64(fake_session_recorded(&fs), 0, "calls of the function are not recorded");
	fake_session_call(&fs, 0, FAKE_KFREE, fake_object());
	is_u64(fake_session_recorded(&fs), 1, "frees are, nevertheless");
	ok(!trace_session_stop(fs.session, NULL), "tracing stops");
	fake_session_destroy(&fs);
}

/* Unless no instance wants it. */
static void test_returns_unwanted(void)
{
	static const char *const pages[] = {"kmem:pages", NULL};
	struct trace_status status;

	fake_session_create(&fs);
	fake_code(&fs.fg, FAKE_KMALLOC + 29, "\x90", 1);
	ok(!trace_session_start(fs.session, pages, NULL), "tracing of pages starts");
	status = fake_session_status(&fs);
	ok(!reason_of(&status, "__kmalloc"), "a function that pages do not need is no gap");
	ok(!trace_session_stop(fs.session, NULL), "tracing of pages stops");
	fake_session_destroy(&fs);
}

/* What the proof says of two functions that emit events: it is in the kernel's image. */
static void prove(const struct kernel_image *image)
{
	const struct alloc_points *of_image;
	struct alloc_points *points;

	if (alloc_points_of(image, &of_image, NULL))
		abort();
	points = (struct alloc_points *)(uintptr_t)of_image;
	free(points->emitters);
	points->emitters = calloc(2, sizeof(*points->emitters));
	if (!points->emitters)
		abort();
	points->emitters[0] = (struct alloc_emitter){.function = "free_pages_prepare",
						     .event = "kmem:mm_page_free",
						     .type = KMEM_TYPE_PAGES,
						     .cover = ALLOC_COVER_NESTED};
	points->emitters[1] = (struct alloc_emitter){
		.function = "__free_pages_ok",
		.event = "kmem:mm_page_free",
		.address = FAKE_LINK_TEXT,
		.type = KMEM_TYPE_PAGES,
		.cover = ALLOC_COVER_NONE,
		.reason = "called by make_alloc_exact, which is not traced",
	};
	points->nr_emitters = 2;
	points->unproven[0] = 0;
}

/* Which functions may free or allocate unseen is said, in the trace, too. */
static void test_uncovered(void)
{
	struct trace_status status;
	struct trace_info info = {0};

	fake_session_create(&fs);
	prove(&fs.fg.base.image);
	ok(!trace_session_start(fs.session, NULL, NULL), "tracing starts beside such a function");
	status = fake_session_status(&fs);
	is_str(reason_of(&status, "__free_pages_ok"),
	       "called by make_alloc_exact, which is not traced",
	       "a function that emits events and is not covered is a gap");
	ok(!reason_of(&status, "free_pages_prepare") && !reason_of(&status, "other functions"),
	   "one that is nested is none, nor are others");
	trace_session_info(fs.session, &info);
	ok(info.nr_gaps == 1 && !strcmp(info.gaps[0].function, "__free_pages_ok") &&
		   !strcmp(info.gaps[0].reason, "called by make_alloc_exact, which is not traced"),
	   "the trace says so");
	ok(!trace_session_stop(fs.session, NULL), "tracing stops");
	fake_session_destroy(&fs);
}

int main(void)
{
	test_uncovered();
	test_returns();
	test_returns_unwanted();
	test_layout();
	test_types();
	test_odd_pages();
	test_no_btf();
	test_members();
	return tap_done();
}
