/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Histograms that code makes, compared with a model: random programs on random events; tables that
 * are full, and NMIs between any two instructions; and what an event costs in instructions.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "patcher/fetch/fetch.h"
#include "patcher/probe/gate.h"
#include "patcher/ring/hist.h"
#include "patcher/text/site.h"
#include "patcher/trampoline/code.h"
#include "tests/lib/fake-site.h"
#include "tests/lib/tap.h"

enum {
	RAX = 0,
	RCX = 1,
	RDX,
	RSP = 4,
	RDI = 7,
	CPUS = 2,
	CPU = 1,
	PROGRAMS = 400,
	EVENTS = 40,
	KMALLOC_CACHES = 14
};
enum { MODEL_ROWS = 256, ROW_WORDS = 1 + HIST_MAX_VALUES + 8 };

struct model {
	uint64_t rows[MODEL_ROWS][ROW_WORDS];
	size_t n;
};

struct bench {
	struct fake_site site;
	struct hist_config config;
	struct hist_program program;
	struct hist_spec spec;
	struct hist *hist;
	struct model model;
};

static uint64_t below(uint64_t n)
{
	return fake_random() % n;
}

/* --- programs -------------------------------------------------------------------------------- */

static const uint64_t constants[] = {0, 1, 2, 3, 4, 5, 1ull << 40, UINT64_MAX};

/* The register that events have their small values in. */
static uint8_t event_reg(const struct bench *b)
{
	return fake_site_is_return(&b->site) ? RAX : RDI;
}

/* Also one that the code changes. */
static uint8_t other_reg(const struct bench *b)
{
	static const uint8_t regs[] = {RAX, RCX, 10, 11, 12, 15}, at_return[] = {RDX, 12, 13, 15};

	return fake_site_is_return(&b->site) ? at_return[below(4)] : regs[below(6)];
}

static struct hist_operand some_operand(const struct bench *b)
{
	static const uint8_t sizes[] = {1, 2, 4, 8};
	struct hist_operand o = {.source = HIST_REGISTER, .reg = event_reg(b)};

	if (b->site.kind <= FAKE_PRIVATE && !below(8))
		o.source = HIST_KMALLOC;
	switch (o.source == HIST_KMALLOC ? 8 : below(8)) {
	case 0:
		o.source = b->site.kind == FAKE_INSIDE ? HIST_IP : HIST_PARENT;
		break;
	case 1:
		o.source = fake_site_is_return(&b->site) ? HIST_CPU : HIST_IP;
		break;
	case 2:
		o.source = below(2) ? HIST_PID : below(2) ? HIST_TGID : HIST_CGROUP;
		break;
	case 3:
		o.source = HIST_CONSTANT;
		o.at = (int64_t)constants[below(8)];
		break;
	case 4:
		o.reg = other_reg(b);
		o.at = (int64_t)(below(2) ? below(64) : 0);
		break;
	case 5:
		o.reg = (uint8_t)(below(2) ? FETCH_SP : FETCH_FLAGS + below(5));
		break;
	case 6:
		if (!fake_site_is_return(&b->site))
			break;
		o.source = HIST_POINTED;
		o.reg = FETCH_USER_REGS;
		o.at = (int64_t)(8 * below(21));
		break;
	}
	o.size = sizes[below(4)];
	o.is_signed = below(2);
	if (!below(4)) {
		o.bit_offset = (uint8_t)below(8 * o.size);
		o.bit_width = (uint8_t)(1 + below(8u * o.size - o.bit_offset));
	}
	o.step = (enum hist_step)below(3);
	o.bucket = (uint32_t)(1 + below(below(2) ? 10 : INT32_MAX - 1));
	return o;
}

/* Caches of a kmalloc(), by their numbers; the first one is none, the largest does not exist yet.
 */
static struct fake_cache {
	uint64_t pad[3];
	uint32_t size;
} caches[KMALLOC_CACHES];

static int64_t make_caches(void)
{
	static uint64_t *pointers;

	if (pointers)
		return (int64_t)(uintptr_t)pointers;
	pointers = fake_cpu_map_low(4096, PROT_READ | PROT_WRITE);
	for (unsigned int i = 1; i + 1 < KMALLOC_CACHES; i++) {
		caches[i].size = (i == 1 ? 96u : i == 2 ? 192u : 1u << i) + 16;
		pointers[i] = (uint64_t)(uintptr_t)&caches[i];
	}
	return (int64_t)(uintptr_t)pointers;
}

/* As the kernel's kmalloc_index() and get_order(). */
static uint64_t kmalloc_bytes(uint64_t request)
{
	unsigned int i = 3;
	uint64_t pages = 4096;

	if (!request)
		return 0;
	if (request > 8192) {
		while (pages && pages < request)
			pages *= 2;
		return pages;
	}
	if (request > 64 && request <= 96)
		return caches[1].size;
	if (request > 128 && request <= 192)
		return caches[2].size;
	while (request > (uint64_t)1 << i)
		i++;
	return caches[i].size;
}

static void make_program(struct bench *b)
{
	static const struct hist_operand name = {.source = HIST_COMM, .size = DIRECT_COMM_SIZE};
	struct hist_program *p = &b->program;

	memset(p, 0, sizeof(*p));
	p->nr_keys = 1 + below(3);
	p->nr_values = below(4);
	for (size_t i = 0; i < p->nr_keys; i++) {
		p->keys[i] = below(6) ? some_operand(b) : name;
		b->config.words[i] = (uint8_t)hist_operand_words(&p->keys[i]);
	}
	for (size_t i = 0; i < p->nr_values; i++)
		p->values[i] = some_operand(b);
	b->config.nr_keys = p->nr_keys;
	b->config.nr_sums = p->nr_values;
	p->kmalloc = (struct hist_kmalloc){make_caches(), offsetof(struct fake_cache, size)};
}

static void init(struct bench *b, enum fake_site_kind kind)
{
	memset(b, 0, sizeof(*b));
	fake_site_init(&b->site, kind);
	fake_site_add(&b->site, 0, 0, TRAMPOLINE_BLOCK, NULL);
}

static void generate(struct bench *b)
{
	uint8_t *memory = b->site.groups[0].memory.memory;
	const struct hist_memory m = {memory + RING_HEADER_BYTES, FAKE_DATA, ring_stride(FAKE_DATA),
				      CPUS};

	if (hist_create(&b->config, NULL, &b->hist, NULL) || hist_attach(b->hist, &m, NULL))
		abort();
	b->spec = (struct hist_spec){&b->program, hist_layout_of(b->hist)};
	b->site.records[0].hist = &b->spec;
	if (!fake_site_generate(&b->site))
		abort();
}

static void deinit(struct bench *b)
{
	hist_put(b->hist);
	fake_site_deinit(&b->site);
}

/* --- the model ------------------------------------------------------------------------------- */

static uint64_t source_value(const struct bench *b, const struct hist_operand *o, unsigned int word)
{
	const struct fake_cpu *cpu = b->site.cpu;
	uint64_t comm[2];

	switch (o->source) {
	case HIST_POINTED:
		return *(uint64_t *)(uintptr_t)(fake_site_register(&b->site, FETCH_USER_REGS) +
						(uint64_t)o->at);
	case HIST_IP:
		return b->site.kind == FAKE_INSIDE
			       ? (uint64_t)(uintptr_t)b->site.function.code + SITE_SIZE
			       : b->site.function.site_end;
	case HIST_PARENT:
		return (uint64_t)(uintptr_t)fake_cpu_return_address;
	case HIST_REGISTER:
		return fake_site_register(&b->site, (enum fetch_register)o->reg) >> o->at;
	case HIST_KMALLOC:
		return kmalloc_bytes(cpu->in.reg[o->reg]);
	case HIST_CONSTANT:
		return (uint64_t)o->at;
	case HIST_PID:
		return *fake_site_pid;
	case HIST_TGID:
		return *fake_site_tgid;
	case HIST_CGROUP:
		return *fake_site_cgroup;
	case HIST_CPU:
		return CPU;
	case HIST_COMM:
		memcpy(comm, (const char *)(uintptr_t)cpu->current_task + b->site.kernel.task_comm,
		       sizeof(comm));
		return comm[word];
	default:
		abort();
	}
}

static uint64_t cut(uint64_t v, const struct hist_operand *o)
{
	const unsigned int unused = 64 - 8 * o->size;

	if (o->bit_width)
		return v << (64 - o->bit_offset - o->bit_width) >> (64 - o->bit_width);
	if (o->size >= 8)
		return v;
	v <<= unused;
	return o->is_signed ? (uint64_t)((int64_t)v >> unused) : v >> unused;
}

static uint64_t value_of(const struct bench *b, const struct hist_operand *o, unsigned int word)
{
	uint64_t v = cut(source_value(b, o, word), o), log = 0;

	if (o->step == HIST_BUCKETS)
		return v / o->bucket * o->bucket;
	if (o->step != HIST_LOG2)
		return v;
	while (log < 64 && (uint64_t)1 << log < v)
		log++;
	return log;
}

static void see_event(struct bench *b)
{
	const struct hist_program *p = &b->program;
	uint64_t row[ROW_WORDS] = {1};
	const size_t sums = 1 + p->nr_values;
	size_t n = sums, i = 0;

	for (size_t k = 0; k < p->nr_keys; k++)
		for (unsigned int w = 0; w < hist_operand_words(&p->keys[k]); w++)
			row[n++] = value_of(b, &p->keys[k], w);
	for (size_t k = 0; k < p->nr_values; k++)
		row[1 + k] = value_of(b, &p->values[k], 0);
	while (i < b->model.n &&
	       memcmp(b->model.rows[i] + sums, row + sums, (n - sums) * sizeof(uint64_t)))
		i++;
	if (i == b->model.n)
		memcpy(b->model.rows[b->model.n++], row, sizeof(row));
	else
		for (size_t k = 0; k < sums; k++)
			b->model.rows[i][k] += row[k];
}

static bool has_row(const struct bench *b, const struct hist_sum *sum)
{
	const struct hist_program *p = &b->program;
	const size_t sums = 1 + p->nr_values;

	for (size_t i = 0; i < b->model.n; i++) {
		const uint64_t *row = b->model.rows[i];

		if (!memcmp(row + sums, sum->key, hist_key_words(p) * sizeof(uint64_t)))
			return row[0] == sum->hits &&
			       !memcmp(row + 1, sum->sums, p->nr_values * sizeof(uint64_t));
	}
	return false;
}

static bool is_like_model(const struct bench *b)
{
	struct hist_sums sums;
	bool good = !hist_read(b->hist, &sums, NULL);

	good &= sums.n == b->model.n && !sums.dropped;
	for (size_t i = 0; good && i < sums.n; i++)
		good = has_row(b, &sums.v[i]);
	hist_sums_deinit(&sums);
	return good;
}

/* --- events ---------------------------------------------------------------------------------- */

static void prepare(struct bench *b, uint64_t value)
{
	static uint64_t user_regs[FAKE_USER_REGS / 8]; /* at the end of the task's stack */

	fake_site_ring(&b->site.own)->reserve = 0;
	fake_site_prepare(&b->site);
	*fake_site_stack = (uint64_t)(uintptr_t)user_regs - b->site.kernel.user_regs;
	for (size_t i = 0; i < sizeof(user_regs) / sizeof(user_regs[0]); i++)
		user_regs[i] = constants[below(8)];
	b->site.cpu->in.reg[event_reg(b)] = value;
	for (int i = 12; i < 16; i++)
		b->site.cpu->in.reg[i] = constants[below(8)];
	for (int i = 10; b->site.kind == FAKE_INSIDE && i < 12; i++)
		b->site.cpu->in.reg[i] = below(3);
	*fake_site_pid = (uint32_t)below(3);
}

static bool call(struct bench *b)
{
	fake_site_call(&b->site);
	return fake_site_preserved(&b->site) && !fake_site_ring(&b->site.groups[0])->reserve;
}

static void test_programs(enum fake_site_kind kind)
{
	struct bench b;
	bool good = true;

	for (int i = 0; good && i < PROGRAMS; i++) {
		init(&b, kind);
		make_program(&b);
		generate(&b);
		for (int k = 0; good && k < EVENTS; k++) {
			prepare(&b, below(2)   ? below(200)
				    : below(2) ? below(20000)
					       : constants[below(8)]);
			see_event(&b);
			good = call(&b);
		}
		good &= is_like_model(&b);
		deinit(&b);
	}
	ok(good, "%s: %d programs give what the model does", fake_site_kinds[kind], PROGRAMS);
}

static void init_simple(struct bench *b, enum fake_site_kind kind, uint32_t size)
{
	const struct hist_operand o = {
		.source = HIST_REGISTER, .reg = kind == FAKE_SHARED_RETURN ? RAX : RDI, .size = 8};

	init(b, kind);
	b->program =
		(struct hist_program){.keys = {o}, .nr_keys = 1, .values = {o}, .nr_values = 1};
	b->config = (struct hist_config){.words = {1}, .nr_keys = 1, .nr_sums = 1, .size = size};
	generate(b);
}

static void test_full(enum fake_site_kind kind)
{
	struct hist_sums sums;
	struct bench b;
	bool good = true;

	init_simple(&b, kind, 16);
	for (uint64_t i = 0; i < 100; i++) {
		prepare(&b, i % 25);
		good &= call(&b);
	}
	good &= !hist_read(b.hist, &sums, NULL);
	ok(good && sums.n == 16 && sums.dropped == 36 && sums.size == 16,
	   "%s: events for which there is no room are dropped", fake_site_kinds[kind]);
	good = true;
	for (size_t i = 0; i < sums.n; i++)
		good &= sums.v[i].hits == 4 && sums.v[i].sums[0] == 4 * sums.v[i].key[0];
	ok(good, "%s: those of keys that have room are not", fake_site_kinds[kind]);
	hist_sums_deinit(&sums);
	deinit(&b);
}

/* --- NMIs ------------------------------------------------------------------------------------ */

/* What an NMI does that adds an event of its own, with this key, by the same protocol. */
struct nmi {
	struct bench *b;
	uint64_t key;
	int at, steps; /* the instruction in front of which it comes */
	bool dropped;
};

static void add_as_nmi(struct nmi *n)
{
	const struct hist_layout l = n->b->spec.layout;
	uint8_t *data =
		n->b->site.groups[0].memory.memory + ring_stride(FAKE_DATA) + RING_HEADER_BYTES;
	struct hist_head *head = (void *)data;
	uint32_t i = hist_begin(&l, &n->key);

	for (; i < l.places; i++) {
		struct hist_place *place = (void *)(data + sizeof(*head) + (size_t)i * l.size);

		if (!place->state) {
			head->used++;
			place->words[1] = n->key;
			place->state = HIST_READY;
		}
		if (place->state != HIST_READY || place->words[1] != n->key)
			continue;
		place->hits++;
		place->words[0] += n->key;
		return;
	}
	n->dropped = true;
}

static void on_step(void *arg, uint64_t rip)
{
	struct nmi *n = arg;

	if (fake_function_contains(&n->b->site.function, rip) && n->steps++ == n->at)
		add_as_nmi(n);
}

/* Both of the same key, which is new: hits, sums and keys are whole, wherever the NMI comes. */
static bool nested(enum fake_site_kind kind, int at, bool *inside)
{
	struct hist_sums sums;
	struct bench b;
	struct nmi n = {.b = &b, .key = 77, .at = at};
	bool good;

	init_simple(&b, kind, 16);
	prepare(&b, 77);
	fake_host_install(NULL, on_step, &n);
	b.site.cpu->in.flags |= FAKE_FLAG_TRAP;
	good = call(&b);
	*inside = n.steps > at;
	good &= !hist_read(b.hist, &sums, NULL);
	good &= sums.n == 1 && sums.v[0].hits == 1u + *inside &&
		sums.v[0].sums[0] == sums.v[0].hits * 77 && sums.v[0].key[0] == 77 && !n.dropped;
	if (!good)
		tap_diag("an NMI at instruction %d: %zu keys, %llu hits", at, sums.n,
			 sums.n ? (unsigned long long)sums.v[0].hits : 0);
	hist_sums_deinit(&sums);
	deinit(&b);
	return good;
}

static void test_nmis(enum fake_site_kind kind)
{
	bool good = true, inside = true;
	int at = 0;

	for (; good && inside; at++)
		good = nested(kind, at, &inside);
	ok(good && at > 30, "%s: an NMI may come at each of %d instructions", fake_site_kinds[kind],
	   at - 1);
}

/* --- the rest -------------------------------------------------------------------------------- */

static void test_gate(void)
{
	struct gate gate = {.terms = {gate_term(GATE_ARG0, GATE_EQ, 5)}, .n = 1};
	struct hist_sums sums;
	struct bench b;
	bool good;

	gate.terms[0].yes = GATE_YES;
	gate.terms[0].no = GATE_NO;
	init(&b, FAKE_SHARED);
	b.site.records[0].gate = &gate;
	b.program = (struct hist_program){
		.keys = {{.source = HIST_REGISTER, .reg = RDI, .size = 8}}, .nr_keys = 1};
	b.config = (struct hist_config){.words = {1}, .nr_keys = 1};
	generate(&b);
	prepare(&b, 4);
	good = call(&b);
	prepare(&b, 5);
	good &= call(&b) && !hist_read(b.hist, &sums, NULL);
	ok(good && sums.n == 1 && sums.v[0].key[0] == 5, "what a gate refuses is not counted");
	hist_sums_deinit(&sums);
	deinit(&b);
}

static bool refuses(struct hist_operand o, enum fake_site_kind kind)
{
	struct hist_program program = {.keys = {o}, .nr_keys = 1};
	struct hist_spec spec = {.program = &program};
	struct error err = {0};

	hist_layout_make(FAKE_DATA, 16, 0, 1, &spec.layout);
	return hist_check(&spec, NULL,
			  kind == FAKE_INSIDE   ? POINT_INSIDE
			  : kind == FAKE_SHARED ? POINT_ENTRY
						: POINT_RETURN,
			  &err) == -EINVAL;
}

static void test_refusals(void)
{
	const struct hist_operand user = {
		.source = HIST_POINTED, .reg = FETCH_USER_REGS, .size = 8};

	ok(refuses((struct hist_operand){.source = HIST_REGISTER, .reg = RDI, .size = 8},
		   FAKE_SHARED_RETURN) &&
		   refuses((struct hist_operand){.source = HIST_IP, .size = 8}, FAKE_SHARED_RETURN),
	   "a return has no arguments, and no site");
	ok(!refuses(user, FAKE_SHARED_RETURN) && refuses(user, FAKE_SHARED),
	   "but what user mode has called the kernel with");
	ok(refuses((struct hist_operand){.source = HIST_PARENT, .size = 8}, FAKE_INSIDE) &&
		   refuses((struct hist_operand){.source = HIST_POINTED, .reg = RDI, .size = 8},
			   FAKE_INSIDE) &&
		   !refuses((struct hist_operand){.source = HIST_REGISTER, .reg = 10, .size = 8},
			    FAKE_INSIDE),
	   "in the middle of a function nothing says who called it");
	ok(refuses((struct hist_operand){.source = HIST_REGISTER, .reg = 10, .size = 8},
		   FAKE_SHARED_RETURN) &&
		   refuses((struct hist_operand){.source = HIST_POINTED, .reg = 10, .size = 8},
			   FAKE_SHARED) &&
		   refuses((struct hist_operand){.source = HIST_REGISTER, .reg = RDI, .size = 3},
			   FAKE_SHARED) &&
		   refuses((struct hist_operand){.source = HIST_FETCHED, .size = 8}, FAKE_SHARED) &&
		   refuses((struct hist_operand){.source = HIST_POINTED, .reg = RSP, .size = 8},
			   FAKE_SHARED) &&
		   refuses((struct hist_operand){.source = HIST_REGISTER, .reg = 21, .size = 8},
			   FAKE_INSIDE) &&
		   refuses((struct hist_operand){.source = HIST_REGISTER,
						 .reg = RDI,
						 .size = 8,
						 .step = HIST_BUCKETS},
			   FAKE_SHARED),
	   "impossible operands are refused");
}

static int cost(enum fake_site_kind kind, bool again)
{
	struct bench b;
	int count;

	init_simple(&b, kind, 16);
	prepare(&b, 7);
	if (again) {
		call(&b);
		prepare(&b, 7);
	}
	count = fake_site_count(&b.site);
	deinit(&b);
	return count;
}

static void test_cost(void)
{
	const int known = cost(FAKE_SHARED, true), new = cost(FAKE_SHARED, false);
	const int result = cost(FAKE_SHARED_RETURN, true);

	tap_diag(
		"instructions with call or jump: an event of a known key %d, of a new one %d; at a "
		"return %d",
		known, new, result);
	ok(known <= 25, "an event with one key and one value takes at most 25 instructions");
	ok(new <= 38, "the first of a key takes at most 38");
	ok(result <= 25, "at a return it is no more");
}

int main(void)
{
	static const enum fake_site_kind kinds[] = {FAKE_SHARED, FAKE_SHARED_RETURN, FAKE_INSIDE};

	for (enum fake_site_kind kind = FAKE_SHARED; kind <= FAKE_INSIDE; kind++)
		test_programs(kind);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		test_full(kinds[i]);
		test_nmis(kinds[i]);
	}
	test_gate();
	test_refusals();
	test_cost();
	return tap_done();
}
