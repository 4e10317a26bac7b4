/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Instances of the kmem tracer record what their filters and vCPUs let through. */
#include <errno.h>
#include <string.h>
#include "patcher/session/internal.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

enum {
	KMALLOC_33 = 1 << 0, /* by fake_caller() on vCPU 0, GFP flags 0xcc0 */
	KMALLOC_80 = 1 << 1, /* likewise, on vCPU 1 */
	ALLOC = 1 << 2,      /* kmem_cache_alloc() on vCPU 2 */
	FREE = 1 << 3,       /* kfree() on vCPU 0 */
	ALL = (1 << 4) - 1,
};

static struct fake_session fs;

static unsigned int sort_of(const struct kmem_record *r)
{
	if (r->event_id == KMEM_EVENT_FREE)
		return FREE;
	if (r->type_id != KMEM_TYPE_KMALLOC)
		return ALLOC;
	return r->bytes_req == 33 ? KMALLOC_33 : KMALLOC_80;
}

static unsigned int recorded(void)
{
	unsigned int sorts = 0;
	size_t n = fake_session_recorded(&fs);

	for (size_t i = 0; i < n; i++)
		sorts |= sort_of(&fs.events[i].record);
	return sorts;
}

/* Each is called once, traced by `spec`. */
static void test_spec(const char *spec, unsigned int expected)
{
	fake_session_create(&fs);
	if (trace_session_start(fs.session, (const char *const[]){spec, NULL}, NULL))
		abort();
	fs.fg.vcpus[0].regs.rsi = fs.fg.vcpus[1].regs.rsi = 0xcc0;
	fake_session_call(&fs, 0, FAKE_KMALLOC, 33);
	fake_session_call(&fs, 1, FAKE_KMALLOC, 80);
	fake_session_call(&fs, 2, FAKE_CACHE_ALLOC, 0);
	fake_session_call(&fs, 0, FAKE_KFREE, fake_object());
	is_u64(recorded(), expected, spec);
	fake_session_end(&fs);
}

/* How often a free by this call site reads the guest's memory. */
static uint64_t nr_reads(const char *spec, unsigned int caps, uint64_t call_site)
{
	struct probe_hit hit = {
		.args = {fake_object()}, .call_site = call_site, .time_ns = 1, .batch = 1};
	uint64_t reads = 0;

	fake_session_create(&fs);
	fs.fg.guest.caps |= caps;
	if (trace_session_start(fs.session, (const char *const[]){spec, NULL}, NULL))
		abort();
	for (size_t i = 0; i < fs.session->tracers.nr_refs; i++) {
		const struct probe_ref *ref = &fs.session->tracers.refs[i];

		if (strcmp(ref->probe->name, "kfree"))
			continue;
		reads = fs.fg.reads;
		fake_session_emit(&fs, ref, POINT_ENTRY, &hit);
		reads = fs.fg.reads - reads;
	}
	fake_session_end(&fs);
	return reads;
}

/* Names of modules' functions are read from the guest, by thousands of reads in a large one. */
static void test_names(void)
{
	static const char text[] = "kmem if call_site ~ \"x*\"",
			  number[] = "kmem if call_site == 1";
	const uint64_t module = UINT64_C(0xffffffffc0000000), image = fake_gva(FAKE_CALLER);

	ok(nr_reads(text, 0, module) > nr_reads(number, 0, module),
	   "a filter by name reads the modules' names");
	is_u64(nr_reads(text, 0, image), nr_reads(number, 0, image),
	       "for a function of the kernel image it does not");
	is_u64(nr_reads(text, GUEST_STOPS_TO_READ, module),
	       nr_reads(number, GUEST_STOPS_TO_READ, module),
	       "nor does it in a guest that is stopped for each read");
}

/* How often the user is told something with this text; that functions of modules have no names. */
static unsigned int nr_notes_with(const char *spec, unsigned int caps, const char *text)
{
	unsigned int n = 0;

	fake_session_create(&fs);
	fs.fg.guest.caps |= caps;
	if (trace_session_start(fs.session, (const char *const[]){spec, NULL}, NULL))
		abort();
	for (size_t i = 0; i < fake_session_instance(&fs, "kmem")->nr_notes; i++)
		n += !!strstr(fake_session_instance(&fs, "kmem")->notes[i], text);
	fake_session_end(&fs);
	return n;
}

static unsigned int nr_notes(const char *spec, unsigned int caps)
{
	return nr_notes_with(spec, caps, "by name");
}

static void test_notes(void)
{
	const unsigned int stops = GUEST_STOPS_TO_READ;

	is_u64(nr_notes("kmem if call_site ~ \"ext4_*\"", stops), 1,
	       "a pattern that functions of modules may match: the user is told once");
	is_u64(nr_notes("kmem if bytes_req > 3 && !(call_site.function == brd_read)", stops), 1,
	       "so it is with a name that the image lacks");
	is_u64(nr_notes("kmem if call_site == \"fake_caller+0x5\" || cache ~ \"x*\"", stops), 0,
	       "not with one that it has, and not of caches");
	is_u64(nr_notes("kmem if call_site == 1", stops), 0, "nor with a number");
	is_u64(nr_notes_with("kmem if call_site == fake_callr || call_site == fake_caller", 0,
			     "no function 'fake_callr' (did you mean 'fake_caller'?)"),
	       1, "a name that the image lacks has the nearest one beside it");
	is_u64(nr_notes_with("kmem if call_site == fake_caller", 0, "no function"), 0,
	       "not so one that it has");
	is_u64(nr_notes("kmem if call_site ~ \"ext4_*\"", 0), 0, "nor where the names are read");
}

/* `column`: in the spec. */
static void test_refused(const char *spec, int code, unsigned int column, const char *text)
{
	struct error err = {0};
	int ret;

	fake_session_create(&fs);
	ret = trace_session_start(fs.session, (const char *const[]){spec, NULL}, &err);
	ok(ret == -code && err.column == column && strstr(err.text, text), "%s is refused", spec);
	fake_session_destroy(&fs);
}

/* Before there is a guest. */
static void test_places(void)
{
	static const struct {
		const char *spec;
		unsigned int column;
	} rows[] = {
		{"kmem if byte_req > 3", 9},
		{"kmem:filter=\"call_site ~ \\\"x\\\" && byte_req > 3\"", 35},
		{"k=kmem:pid if comm == \"x\"", 15},
		{"kmem:kmalloc,hist:keys=pid if byte_req > 3", 31},
		{"function:vfs_* if order == 1", 19},
		{"function:vfs_*,hist:keys=ip if order == 1", 32},
	};
	struct error err = {0};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int ret = tracer_check_specs(&rows[i].spec, 1, &err);

		ok(ret < 0 && err.column == rows[i].column, "%s: wrong at character %u: %s",
		   rows[i].spec, err.column, err.text);
	}
	ok(!tracer_check_specs((const char *const[]){"kmem if gfp_flags & GFP_ANY"}, 1, NULL),
	   "flags may have any names");
}

int main(void)
{
	test_spec("kmem", ALL);
	test_spec("kmem if bytes_req > 33", KMALLOC_80 | ALLOC);
	test_spec("kmem if bytes_req <= 33 || cpu == 2", KMALLOC_33 | ALLOC);
	test_spec("kmem:kmalloc if !(bytes_req > 33)", KMALLOC_33);
	test_spec("kmem if ptr != 0", ALL);
	test_spec("kmem if ptr == 0", 0);
	test_spec("kmem if gfp_flags & 0x80", KMALLOC_33 | KMALLOC_80);
	test_spec("kmem if gfp_flags == \"0xcc0\"", KMALLOC_33 | KMALLOC_80);
	test_spec("kmem if gfp_flags ~ \"0xcc1*\"", 0);
	test_spec("kmem:vcpu=0", KMALLOC_33 | FREE);
	test_spec("kmem:pid=100", KMALLOC_33 | FREE);
	test_spec("kmem:pid=101+102,vcpu=0-1,comm", KMALLOC_80);
	test_spec("kmem:vcpu=1-2,filter=bytes_req>0", KMALLOC_80 | ALLOC);
	test_spec("kmem if call_site ~ \"fake_c*\"", ALL);
	test_spec("kmem if call_site.function == fake_caller", ALL);
	test_spec("kmem if call_site ~ \"kmalloc*\"", 0);
	test_spec("kmem if cache == \"fake-cache\"", KMALLOC_33 | KMALLOC_80 | ALLOC);
	test_spec("kmem if cache ~ \"other*\"", 0);
	test_names();
	test_notes();
	test_refused("kmem if bytes > 3", ENOENT, 9, "bytes_req");
	test_refused("kmem if gfp_flags & NO_FLAG", EINVAL, 21,
		     "character 13: 'NO_FLAG' is not a number, and");
	test_refused("kmem:pages if bytes_alloc > 1", ENOENT, 15, "no event has a field");
	test_refused("kmem:pages if cache == dentry", ENOENT, 15, "no event has a field 'cache'");
	test_spec("kmem:cache,pages if bytes_alloc > 1", ALLOC);
	test_places();
	return tap_done();
}
