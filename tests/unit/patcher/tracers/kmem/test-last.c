/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is recorded and counted of calls that free a page if they drop its last reference. */
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/kmem/allocators.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

enum { PFN = 1000, REFERENCES = 52 };

static struct fake_session fs;

/* As if free_unref_page(page, order) dropped a reference. */
static void drop_references(void)
{
	const struct alloc_points *points;

	if (alloc_points_of(&fs.fg.base.image, &points, NULL))
		abort();
	for (size_t i = 0; i < points->n; i++)
		if (!strcmp(points->v[i].entry.name, "free_unref_page"))
			points->v[i].entry.action = ALLOC_ACTION_FREE_LAST;
}

static void call(uint64_t page, uint32_t references)
{
	fake_put32(&fs.fg.base, fake_page_gpa(PFN) + REFERENCES, references);
	fake_session_call(&fs, 0, FAKE_FREE_PAGE, page);
}

static void is_counted(uint64_t records, uint64_t others, uint64_t lost, const char *label)
{
	bool good = fake_session_recorded(&fs) == records &&
		    fake_session_count(&fs, COUNTER_NESTED) == others &&
		    fake_session_count(&fs, COUNTER_LOST) == lost;

	if (!ok(good, "%s", label))
		tap_diag("%zu records, %llu others, %llu lost", fake_session_recorded(&fs),
			 (unsigned long long)fake_session_count(&fs, COUNTER_NESTED),
			 (unsigned long long)fake_session_count(&fs, COUNTER_LOST));
}

int main(void)
{
	fake_session_create(&fs);
	drop_references();
	if (trace_session_start(fs.session, NULL, NULL))
		abort();
	call(fake_page(PFN), 1);
	is_counted(1, 0, 0, "the last reference to a page is a free");
	call(fake_page(PFN), 2);
	is_counted(1, 1, 0, "another one is counted: who drops the last one has the record");
	call(fake_page(PFN), 0);
	is_counted(1, 2, 0, "so is one too many");
	call(8, 1);
	is_counted(1, 2, 1, "what cannot be read is lost, and nothing else");
	fake_session_end(&fs);
	return tap_done();
}
