/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A site with several direct records, interrupted at every single instruction by another call of
 * it, as by an NMI whose handler is traced, too: no record is torn, lost or doubled.
 */
#include <stdlib.h>
#include <string.h>
#include "tests/lib/fake-site.h"
#include "tests/lib/tap.h"

enum { RDI = 7, RECORDS = 3, START = 3 * 2 * FAKE_DATA - 8 };

struct scene {
	struct fake_site site;
	/* written by signal handlers */
	volatile int interrupt_at, steps;
	volatile unsigned int inner_calls;
};

static void on_step(void *arg, uint64_t rip)
{
	struct scene *s = arg;

	if (!fake_function_contains(&s->site.function, rip) || rip == s->site.function.site_end)
		return;
	if (s->interrupt_at == s->steps) {
		s->inner_calls++;
		/* A system call's registers are read through its first argument. */
		((void (*)(uint64_t))(uintptr_t)s->site.function.code)(s->site.cpu->in.reg[RDI]);
	}
	s->steps++;
}

/* The host makes room for one record. */
static uint64_t on_out(void *arg, uint64_t rip)
{
	struct fake_site *s = &((struct scene *)arg)->site;

	for (unsigned int i = 0; i < s->nr_records; i++) {
		struct ring_header *ring = fake_site_ring(fake_site_group(s, i));

		if (rip != s->code_gva + s->slow[i].trap)
			continue;
		ring->limit = ring->reserve + 1;
		return s->code_gva + s->slow[i].retry;
	}
	fake_site_ring(&s->own)->limit = fake_site_ring(&s->own)->reserve + 1;
	return s->code_gva + s->function.trampoline.slow.retry;
}

/* Which of the site's records it is; -1 = torn. */
static int record_number(const struct fake_site *s, const struct direct_record *r)
{
	uint32_t number = r->commit - ring_commit(FAKE_SITE_ID);

	if (number >= s->nr_records || !r->tsc ||
	    r->ip != (fake_site_is_return(s) ? 0 : (uint32_t)s->function.site_end))
		return -1;
	return (int)number;
}

/* Walk all that was reserved in a group, and count by record. */
static bool count_records(const struct fake_site *s, const struct fake_group *group,
			  unsigned int counts[RECORDS])
{
	const struct ring_header *ring = fake_site_ring(group);
	uint64_t at = START;

	while (at < ring->reserve) {
		const uint8_t *bytes = fake_site_data(group) + (at & (group->rings.data_bytes - 1));
		int number = record_number(s, (const struct direct_record *)(const void *)bytes);

		if (number < 0)
			return false;
		counts[number]++;
		at += direct_layout(s->records[number].fields).size;
	}
	return at == ring->reserve;
}

/* Whatever was not written was counted. */
static bool accounted(const struct fake_site *s, unsigned int calls)
{
	unsigned int counts[RECORDS] = {0};
	uint64_t written = 0, lost = 0;

	for (unsigned int g = 0; g < FAKE_GROUPS; g++) {
		if (!count_records(s, &s->groups[g], counts))
			return false;
		lost += fake_site_ring(&s->groups[g])->lost;
	}
	for (unsigned int i = 0; i < RECORDS; i++) {
		if (counts[i] > calls)
			return false;
		written += counts[i];
	}
	return written + lost == (uint64_t)RECORDS * calls;
}

static bool run(struct scene *s, int interrupt_at, uint64_t room)
{
	fake_site_clear(&s->site, START, room);
	s->interrupt_at = interrupt_at;
	s->steps = 0;
	s->inner_calls = 0;
	fake_site_prepare(&s->site);
	s->site.cpu->in.flags |= FAKE_FLAG_TRAP;
	fake_site_call(&s->site);
	return fake_site_preserved(&s->site) && accounted(&s->site, 1 + s->inner_calls);
}

static void test_nested(enum fake_site_kind kind, enum trampoline_full full)
{
	const uint64_t rooms[] = {FAKE_DATA - RING_SLACK, 0, 1, 40};
	struct scene s = {0};

	fake_site_init(&s.site, kind);
	fake_site_add(&s.site, 0, DIRECT_FRAME, full, NULL);
	fake_site_add(&s.site, 2, fake_site_fields(&s.site), full, NULL);
	fake_site_add(&s.site, 0, DIRECT_PID, full, NULL);
	if (!fake_site_generate(&s.site))
		abort();
	fake_host_install(on_out, on_step, &s);
	for (unsigned int i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
		bool good = true;
		int at = 0;

		do
			good = run(&s, at++, rooms[i]);
		while (good && s.inner_calls);
		ok(good && at > 30 && at >= s.steps,
		   "%s, %s, %lu bytes left: interrupted at %d places, no record is torn",
		   fake_site_kinds[kind], full == TRAMPOLINE_BLOCK ? "block" : "drop", rooms[i],
		   at - 1);
	}
	fake_site_deinit(&s.site);
}

int main(void)
{
	for (enum fake_site_kind kind = FAKE_SHARED; kind < FAKE_SITE_KINDS; kind++) {
		test_nested(kind, TRAMPOLINE_BLOCK);
		test_nested(kind, TRAMPOLINE_DROP);
	}
	return tap_done();
}
