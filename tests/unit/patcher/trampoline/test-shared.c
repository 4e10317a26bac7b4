/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Direct records: by code that many sites share, and by a private trampoline behind its own record.
 * What they hold, that the function's registers and stack are preserved, full rings, and what they
 * cost in instructions.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/probe/gate.h"
#include "tests/lib/fake-site.h"
#include "tests/lib/tap.h"

enum { START = 3 * 2 * FAKE_DATA - 8, LAPS = 300 };

static uint32_t size_of(const struct fake_site *s, unsigned int i)
{
	return direct_layout(s->records[i].fields).size;
}

/* All records of a call; those of one ring lie one behind the other. */
static bool all_recorded(const struct fake_site *s, uint64_t start)
{
	uint64_t at[FAKE_GROUPS] = {start, start, start, start};

	for (unsigned int i = 0; i < s->nr_records; i++) {
		size_t group = (size_t)(fake_site_group(s, i) - s->groups);

		if (!fake_site_recorded(s, i, at[group]))
			return false;
		at[group] += size_of(s, i);
	}
	for (unsigned int g = 0; g < FAKE_GROUPS; g++)
		if (fake_site_ring(&s->groups[g])->reserve != at[g] ||
		    fake_site_ring(&s->groups[g])->lost)
			return false;
	return true;
}

/* The private trampoline's own record. */
static bool own_good(const struct fake_site *s, uint64_t start)
{
	const uint8_t *at = fake_site_data(&s->own) + (start & (FAKE_DATA - 1));
	uint32_t size = s->function.trampoline.layout.size;

	if (fake_site_is_shared(s))
		return fake_site_ring(&s->own)->reserve == start;
	return fake_site_ring(&s->own)->reserve == start + size &&
	       ((const struct ring_record *)(const void *)at)->commit == ring_commit(FAKE_OWN_ID);
}

/* At positions all around the rings. */
static bool calls_good(struct fake_site *s)
{
	for (uint64_t i = 0; i < LAPS; i++) {
		uint64_t start = 8 * (i * 37);

		fake_site_clear(s, start, FAKE_DATA - RING_SLACK);
		fake_site_prepare(s);
		fake_site_call(s);
		if (!fake_site_preserved(s) || !all_recorded(s, start) || !own_good(s, start))
			return false;
	}
	return true;
}

static void test_fields(enum fake_site_kind kind)
{
	for (uint32_t fields = 0; fields <= (DIRECT_ENTRY_FIELDS | DIRECT_RETURN_FIELDS);
	     fields++) {
		struct fake_site s;

		fake_site_init(&s, kind);
		if (fields & ~fake_site_fields(&s)) {
			fake_site_deinit(&s);
			continue;
		}
		fake_site_add(&s, 0, fields, TRAMPOLINE_BLOCK, NULL);
		ok(fake_site_generate(&s) && calls_good(&s), "%s: a record has the fields %#x",
		   fake_site_kinds[kind], fields);
		fake_site_deinit(&s);
	}
}

static bool without_pointer(enum fake_site_kind kind, void **pointer)
{
	void *before = *pointer;
	struct fake_site s;
	bool good;

	*pointer = NULL;
	fake_site_init(&s, kind);
	fake_site_add(&s, 0, DIRECT_TGID | DIRECT_CGROUP, TRAMPOLINE_BLOCK, NULL);
	good = fake_site_generate(&s) && calls_good(&s);
	fake_site_deinit(&s);
	*pointer = before;
	return good;
}

static void test_no_cgroup(enum fake_site_kind kind)
{
	for (size_t i = 0; i < FAKE_CGROUP_STEPS; i++)
		ok(without_pointer(kind, fake_site_cgroup_path[i]),
		   "%s: without pointer %zu to a cgroup it is 0", fake_site_kinds[kind], i);
}

/* The code for more stacks than that may be too large. */
enum { STACKS = 2 };

static void test_several(enum fake_site_kind kind)
{
	bool good = true;

	for (unsigned int n = 2; n <= DIRECT_MAX_RECORDS && good; n++) {
		struct fake_site s;

		fake_site_init(&s, kind);
		for (unsigned int i = 0; i < n; i++)
			fake_site_add(&s, (unsigned int)(fake_random() % FAKE_GROUPS),
				      (uint32_t)fake_random() & fake_site_fields(&s) &
					      (i < STACKS ? UINT32_MAX : ~(uint32_t)DIRECT_STACK),
				      fake_random() % 3, NULL);
		good = fake_site_generate(&s) && calls_good(&s);
		fake_site_deinit(&s);
	}
	ok(good, "%s: up to %d records go into rings of several groups and sizes",
	   fake_site_kinds[kind], DIRECT_MAX_RECORDS);
}

/* --- full rings ------------------------------------------------------------------------------ */

struct host {
	struct fake_site *site;
	enum { HOST_RETRY, HOST_SKIP, HOST_NOTHING } answer;
	unsigned int rings;
	int record; /* whose OUT it was; -1 = of none */
};

static uint64_t on_out(void *arg, uint64_t rip)
{
	struct host *h = arg;
	struct fake_site *s = h->site;
	const struct slow_path *slow = NULL;

	h->rings++;
	h->record = -1;
	for (unsigned int i = 0; i < s->nr_records; i++)
		if (rip == s->code_gva + s->slow[i].trap) {
			slow = &s->slow[i];
			h->record = (int)i;
		}
	if (!slow || h->answer == HOST_NOTHING)
		return rip + 2;
	if (h->answer == HOST_SKIP)
		return s->code_gva + slow->skip;
	fake_site_ring(fake_site_group(s, (unsigned int)h->record))->limit += FAKE_DATA;
	return s->code_gva + slow->retry;
}

/* Three records; the ring of the second one is full. */
static void call_with_full_ring(struct fake_site *s)
{
	fake_site_clear(s, START, FAKE_DATA - RING_SLACK);
	fake_site_ring(&s->groups[2])->limit = START;
	fake_site_prepare(s);
	fake_site_call(s);
}

static bool others_good(const struct fake_site *s)
{
	return fake_site_preserved(s) && fake_site_recorded(s, 0, START) &&
	       fake_site_recorded(s, 2, START) && own_good(s, START) &&
	       !fake_site_ring(&s->groups[0])->lost && !fake_site_ring(&s->groups[1])->lost;
}

static void full_init(struct fake_site *s, struct host *host, enum fake_site_kind kind,
		      enum trampoline_full full)
{
	fake_site_init(s, kind);
	fake_site_add(s, 0, DIRECT_FRAME, TRAMPOLINE_BLOCK, NULL);
	fake_site_add(s, 2, DIRECT_PID, full, NULL);
	fake_site_add(s, 1, 0, TRAMPOLINE_BLOCK, NULL);
	if (!fake_site_generate(s))
		abort();
	*host = (struct host){.site = s};
	fake_host_install(on_out, NULL, host);
}

static void test_block(enum fake_site_kind kind)
{
	struct ring_header *ring;
	struct fake_site s;
	struct host host;

	full_init(&s, &host, kind, TRAMPOLINE_BLOCK);
	ring = fake_site_ring(&s.groups[2]);
	call_with_full_ring(&s);
	ok(others_good(&s) && host.rings == 1 && host.record == 1 && !ring->lost &&
		   fake_site_recorded(&s, 1, START),
	   "%s, block: the record whose ring is full is written once there is room",
	   fake_site_kinds[kind]);
	host.answer = HOST_SKIP;
	call_with_full_ring(&s);
	ok(others_good(&s) && host.rings == 2 && ring->reserve == START && !ring->lost,
	   "%s, block: a record that the host skips is not written, the others are",
	   fake_site_kinds[kind]);
	host.answer = HOST_NOTHING;
	call_with_full_ring(&s);
	ok(others_good(&s) && host.rings == 3 && ring->reserve == START && ring->lost == 1,
	   "%s, block: a record whose OUT is not served is counted as lost", fake_site_kinds[kind]);
	fake_site_deinit(&s);
}

static void test_drop(enum fake_site_kind kind)
{
	struct fake_site s;
	struct host host;

	full_init(&s, &host, kind, TRAMPOLINE_DROP);
	call_with_full_ring(&s);
	ok(others_good(&s) && !host.rings && fake_site_ring(&s.groups[2])->lost == 1 &&
		   fake_site_ring(&s.groups[2])->reserve == START,
	   "%s, drop: the record whose ring is full is counted as lost, the others are written",
	   fake_site_kinds[kind]);
	fake_site_deinit(&s);
}

static void test_spin(enum fake_site_kind kind)
{
	struct fake_site s;
	struct host host;

	full_init(&s, &host, kind, TRAMPOLINE_SPIN);
	call_with_full_ring(&s);
	ok(others_good(&s) && !host.rings && fake_site_ring(&s.groups[2])->lost == 1 &&
		   s.tsc_after - s.tsc_before >= FAKE_PATIENCE,
	   "%s, spin: the record whose ring stays full is counted as lost after the patience",
	   fake_site_kinds[kind]);
	fake_site_deinit(&s);
}

/* Two records of one call, in rings that stay full. */
static void test_one_deadline(enum fake_site_kind kind)
{
	struct fake_site s;
	struct host host;

	fake_site_init(&s, kind);
	fake_site_add(&s, 0, DIRECT_FRAME, TRAMPOLINE_SPIN, NULL);
	fake_site_add(&s, 2, DIRECT_PID, TRAMPOLINE_SPIN, NULL);
	if (!fake_site_generate(&s))
		abort();
	host = (struct host){.site = &s};
	fake_host_install(on_out, NULL, &host);
	fake_site_clear(&s, START, FAKE_DATA - RING_SLACK);
	fake_site_ring(&s.groups[0])->limit = START;
	fake_site_ring(&s.groups[2])->limit = START;
	fake_site_prepare(&s);
	fake_site_call(&s);
	ok(fake_site_preserved(&s) && fake_site_ring(&s.groups[0])->lost == 1 &&
		   fake_site_ring(&s.groups[2])->lost == 1 &&
		   s.tsc_after - s.tsc_before >= FAKE_PATIENCE &&
		   s.tsc_after - s.tsc_before < 2 * (uint64_t)FAKE_PATIENCE,
	   "%s, spin: a call waits for room once, in whichever ring", fake_site_kinds[kind]);
	fake_site_deinit(&s);
}

/* --- cost ------------------------------------------------------------------------------------ */

/* Of one call, with the patched call or jump. */
static int instructions(struct fake_site *s)
{
	int count;

	if (!fake_site_generate(s))
		abort();
	fake_site_prepare(s);
	count = fake_site_count(s);
	fake_site_deinit(s);
	return count;
}

/* n records, whose rings have two sizes by turns if `mixed`. */
static int cost(enum fake_site_kind kind, unsigned int n, uint32_t fields, bool mixed)
{
	struct fake_site s;

	fake_site_init(&s, kind);
	for (unsigned int i = 0; i < n; i++)
		fake_site_add(&s, mixed ? 2 * (i & 1) : 0, fields, TRAMPOLINE_BLOCK, NULL);
	return instructions(&s);
}

static void test_cost(void)
{
	int one = cost(FAKE_SHARED, 1, 0, false), two = cost(FAKE_SHARED, 2, 0, false);
	int mixed = cost(FAKE_SHARED, 2, 0, true), own = cost(FAKE_PRIVATE, 0, 0, false);
	int extra = cost(FAKE_PRIVATE, 1, 0, false);

	tap_diag("instructions with call and ret: one record %d, two %d, in rings of two sizes %d; "
		 "private %d, with an extra record %d",
		 one, two, mixed, own, extra);
	ok(one > 15 && one <= 25, "one record takes at most 25 instructions with call and ret");
	ok(two > one && two - one <= 15, "one more record takes at most 15 instructions");
	ok(mixed - one <= 15, "so it does in a ring of another size");
	ok(cost(FAKE_SHARED_RETURN, 1, DIRECT_FRAME, false) <= 25,
	   "the record of a return, with its frame, takes at most 25 instructions with the jump");
	is_u64((uint64_t)(cost(FAKE_SHARED_RETURN, 1, DIRECT_RESULT, false) -
			  cost(FAKE_SHARED_RETURN, 1, 0, false)),
	       1, "the result takes one more instruction");
	ok(extra > own && extra - own <= 15,
	   "an extra record of a private trampoline takes at most 15 instructions");
	is_u64((uint64_t)(cost(FAKE_SHARED, 1, DIRECT_PARENT, false) - one), 2,
	       "the caller's address takes two more instructions");
	is_u64((uint64_t)(cost(FAKE_SHARED, 1, DIRECT_PID, false) - one), 3,
	       "the pid takes three more");
	is_u64((uint64_t)(cost(FAKE_SHARED, 1, DIRECT_COMM, false) - one), 6,
	       "the task's name takes six more");
	is_u64((uint64_t)(cost(FAKE_SHARED, 1, DIRECT_TGID, false) - one), 3,
	       "the pid of its process takes three more");
	is_u64((uint64_t)(cost(FAKE_SHARED, 1, DIRECT_CGROUP, false) - one), 12,
	       "the id of its cgroup takes twelve more");
	is_u64((uint64_t)(cost(FAKE_SHARED, 1, DIRECT_FRAME, false) - one), 2,
	       "the frame takes two more");
	is_u64((uint64_t)(cost(FAKE_SHARED, 1, DIRECT_SYSCALL, false) - one), 12,
	       "the arguments of a system call take twelve more");
}

/* --- refusals -------------------------------------------------------------------------------- */

static int refusal_at(enum probe_point point, struct direct_spec record, size_t n, uint32_t comm_at)
{
	struct trampoline_kernel kernel = {.task_comm = comm_at};
	struct direct_spec records[DIRECT_MAX_RECORDS + 1];
	const struct shared_spec spec = {.gva = UINT64_C(0xffffffffb8200000),
					 .records = records,
					 .nr_records = n,
					 .kernel = &kernel,
					 .point = point};
	struct decoder *decoder;
	struct shared_code code;
	int ret;

	for (size_t i = 0; i <= DIRECT_MAX_RECORDS; i++)
		records[i] = record;
	if (decoder_create(&decoder, NULL))
		abort();
	ret = shared_generate(&spec, decoder, &code, NULL);
	decoder_destroy(decoder);
	return ret;
}

static int refusal(struct direct_spec record, size_t n, uint32_t comm_at)
{
	return refusal_at(POINT_ENTRY, record, n, comm_at);
}

static void test_refusals(void)
{
	const struct direct_spec good = {.id = 1,
					 .fields = DIRECT_ENTRY_FIELDS &
						   ~(DIRECT_SYSCALL | DIRECT_STACK),
					 .rings = {UINT64_C(0xffffffffb8000000), 65536, 8, 0}};
	struct direct_spec bad = good;

	ok(!refusal(good, 1, 100), "one record for a kernel's addresses is accepted");
	ok(!refusal(good, DIRECT_MAX_RECORDS, 100), "%d records are accepted", DIRECT_MAX_RECORDS);
	ok(refusal(good, 0, 100) == -EINVAL, "code without records is refused");
	ok(refusal(good, DIRECT_MAX_RECORDS + 1, 100) == -EINVAL, "too many records are refused");
	ok(refusal(good, 1, 0x7fffffff) == -EINVAL, "an offset that is too large is refused");
	bad.fields |= DIRECT_SYSCALL_IA32 << 1;
	ok(refusal(bad, 1, 100) == -EINVAL, "an unknown field is refused");
	bad = good;
	bad.id = RING_COMMITTED;
	ok(refusal(bad, 1, 100) == -EINVAL, "an id that is too large is refused");
	bad = good;
	bad.rings.data_bytes = 65535;
	ok(refusal(bad, 1, 100) == -EINVAL, "a ring that is no power of two is refused");
	bad = good;
	bad.rings.gva = UINT64_C(0xffff888000000000);
	ok(refusal(bad, 1, 100) == -ERANGE, "rings out of reach are refused");
}

static void test_return_refusals(void)
{
	const struct trampoline_rings rings = {UINT64_C(0xffffffffb8000000), 65536, 8, 0, 0};
	struct direct_spec record = {.id = 1, .fields = DIRECT_RETURN_FIELDS, .rings = rings};
	struct gate gate = {0};

	ok(!refusal_at(POINT_RETURN, record, 1, 100), "a return's record is accepted");
	record.gate = &gate;
	gate_append(&gate, gate_term(GATE_PID, GATE_EQ, 1), NULL);
	ok(!refusal_at(POINT_RETURN, record, 1, 100), "so is one with a gate on the pid");
	gate_append(&gate, gate_term(GATE_CALL_SITE, GATE_GE, 4096), NULL);
	gate_and(&gate, 0, 1);
	ok(!refusal_at(POINT_RETURN, record, 1, 100), "and on where it returns to");
	gate_append(&gate, gate_term(GATE_RESULT, GATE_EQ, 1), NULL);
	gate_and(&gate, 0, 2);
	ok(!refusal_at(POINT_RETURN, record, 1, 100), "and on the result");
	gate_append(&gate, gate_term(GATE_ARG0, GATE_EQ, 1), NULL);
	gate_and(&gate, 0, 3);
	ok(refusal_at(POINT_RETURN, record, 1, 100) == -EINVAL,
	   "a return's gate on an argument is refused: its register holds another");
	record.gate = NULL;
	record.fields = DIRECT_RESULT;
	ok(refusal(record, 1, 100) == -EINVAL, "an entry's record with a result is refused");
}

int main(void)
{
	for (enum fake_site_kind kind = FAKE_SHARED; kind < FAKE_SITE_KINDS; kind++) {
		test_fields(kind);
		test_no_cgroup(kind);
		test_several(kind);
		test_block(kind);
		test_drop(kind);
		test_spin(kind);
		test_one_deadline(kind);
	}
	test_cost();
	test_refusals();
	test_return_refusals();
	return tap_done();
}
