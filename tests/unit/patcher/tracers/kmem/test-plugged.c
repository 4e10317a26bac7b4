/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Results in memory that the guest did not have when tracing started, and in no memory at all: each
 * is recorded or counted. */
#include <stdlib.h>
#include <string.h>
#include "patcher/session/internal.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

#define VMALLOC 0xffffc90000000000ull
#define PLUGGED fake_direct(FAKE_RAM + 0x5000)
enum { KEY = 0x1000 };

static struct fake_session fs;

static const struct probe_ref *find(const char *name)
{
	for (size_t i = 0; i < fs.session->tracers.nr_refs; i++)
		if (!strcmp(fs.session->tracers.refs[i].probe->name, name))
			return &fs.session->tracers.refs[i];
	abort();
}

static void call(const char *function, uint64_t arg0, uint64_t arg1, struct probe_hit ret)
{
	const struct probe_hit entry = {.key = KEY, .args = {arg0, arg1}};

	ret.key = KEY;
	fake_session_emit(&fs, find(function), POINT_ENTRY, &entry);
	fake_session_emit(&fs, find(function), POINT_RETURN, &ret);
}

static void is_counted(uint64_t records, uint64_t unreadable, uint64_t vmalloc, const char *label)
{
	bool good = fake_session_recorded(&fs) == records &&
		    fake_session_count(&fs, COUNTER_UNREADABLE) == unreadable &&
		    fake_session_count(&fs, COUNTER_LOST) == unreadable &&
		    fake_session_count(&fs, COUNTER_VMALLOC_ALLOCS) == vmalloc;

	if (!ok(good, "%s", label))
		tap_diag("%zu records, %llu unreadable, %llu lost", fake_session_recorded(&fs),
			 (unsigned long long)fake_session_count(&fs, COUNTER_UNREADABLE),
			 (unsigned long long)fake_session_count(&fs, COUNTER_LOST));
}

static void test_kmalloc(void)
{
	fake_session_begin(&fs);
	call("__kmalloc", 100, 0, (struct probe_hit){.result = VMALLOC + 0x1000});
	is_counted(0, 0, 1, "memory from vmalloc is counted");
	call("__kmalloc", 16384, 0, (struct probe_hit){.result = PLUGGED});
	is_counted(1, 0, 1, "whole pages in plugged memory are recorded");
	is_u64(fs.events[0].record.bytes_alloc, 16384, "with their size");
	call("__kmalloc", 100, 0,
	     (struct probe_hit){.result = PLUGGED, .slab_cache = fake_cache()});
	is_counted(2, 0, 1, "so is an object whose cache is known");
	call("__kmalloc", 100, 0, (struct probe_hit){.result = PLUGGED});
	is_counted(2, 1, 1, "one whose cache is not known is lost");
	call("__kmalloc", 100, 0, (struct probe_hit){.result = PLUGGED, .slab_cache = PLUGGED});
	is_counted(2, 2, 1, "so is one whose cache cannot be read");
	fake_session_end(&fs);
}

static void test_pages(void)
{
	fake_session_begin(&fs);
	call("__alloc_pages", 0, 1, (struct probe_hit){.result = fake_page(FAKE_RAM >> 12)});
	is_counted(1, 0, 0, "plugged pages are recorded");
	is_u64(fs.events[0].record.ptr, fake_direct(FAKE_RAM), "with their address");
	call("__alloc_pages", 0, 1, (struct probe_hit){.result = VMALLOC});
	is_counted(1, 1, 0, "what is no struct page is lost");
	call("__alloc_pages", 0, 21, (struct probe_hit){.result = fake_page(1)});
	is_counted(1, 2, 0, "so are pages of an impossible order");
	fake_session_end(&fs);
}

int main(void)
{
	test_kmalloc();
	test_pages();
	return tap_done();
}
