/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/bench/drain-mix-internal.h"

#include <stdlib.h>
#include <string.h>
#include "patcher/session/internal.h"

static const uint64_t functions[MIXES] = {FAKE_KMALLOC, FAKE_CACHE_ALLOC, FAKE_ALLOC_PAGES,
					  FAKE_KFREE,   FAKE_CACHE_FREE,  FAKE_FREE_PAGE};

/* --- the guest ------------------------------------------------------------------------------- */

/* Number i of n comes up as often as 1 / (1 + i). */
static void make_lots(uint16_t *lots, unsigned int first, unsigned int n)
{
	double sum = 0, until = 0;
	unsigned int at = 0;

	for (unsigned int i = 0; i < n; i++)
		sum += 1.0 / (1 + i);
	for (unsigned int i = 0; i < n; i++) {
		until += LOTS / (1.0 + i) / sum;
		while (at < until && at < LOTS)
			lots[at++] = (uint16_t)(first + i);
	}
	while (at < LOTS)
		lots[at++] = (uint16_t)first;
}

static void make_caches(struct drain_mix *m)
{
	static const uint16_t kmalloc_sizes[KMALLOC_CACHES] = {8,   16,  32,   64,   96,   128, 192,
							       256, 512, 1024, 2048, 4096, 8192};
	struct fake_kernel *base = &m->fs->fg.base;

	for (unsigned int i = 0; i < CACHES; i++) {
		uint64_t gpa = CACHES_GPA + (uint64_t)i * CACHE_BYTES;
		struct mix_cache *cache = &m->caches[i];
		bool is_kmalloc = i < KMALLOC_CACHES;

		cache->gva = fake_direct(gpa);
		cache->bytes = is_kmalloc ? kmalloc_sizes[i] : 32 + 40 * mix_draw_below(m, 40);
		cache->fresh = fake_direct(0x40000000 + (uint64_t)i * 0x4000000);
		fake_put32(base, gpa + 8, (uint32_t)cache->bytes);
		fake_put32(base, gpa + 12, (uint32_t)cache->bytes - (is_kmalloc ? 0 : 8));
		fake_put64(base, gpa + 16, cache->gva + CACHE_NAME);
		fake_put32(base, gpa + FAKE_CACHE_FLAGS, is_kmalloc ? 1u << FAKE_KMALLOC_BIT : 0);
		snprintf((char *)base->ram + gpa + CACHE_NAME, CACHE_BYTES - CACHE_NAME,
			 is_kmalloc ? "kmalloc-%u" : "cache_%u",
			 is_kmalloc ? (unsigned int)cache->bytes : i);
	}
}

static void make_site(struct drain_mix *m, unsigned int i)
{
	static const uint32_t gfps[] = {0xcc0, 0xdc0, 0x400cc0, 0xa20, 0x820, 0x1100cca};
	struct mix_site *s = &m->sites[i];
	const struct mix_cache *cache;

	s->address = fake_gva(0x1000 + mix_draw_below(m, TEXT_BYTES));
	s->gfp = gfps[mix_draw_below(m, sizeof(gfps) / sizeof(gfps[0]))];
	if (i >= SLAB_SITES) {
		s->function = MIX_PAGES;
		return;
	}
	s->function = mix_draw_below(m, 4) ? MIX_ALLOC : MIX_KMALLOC;
	s->cache =
		s->function == MIX_KMALLOC
			? (unsigned int)mix_draw_below(m, KMALLOC_CACHES)
			: KMALLOC_CACHES + (unsigned int)mix_draw_below(m, CACHES - KMALLOC_CACHES);
	cache = &m->caches[s->cache];
	s->bytes = cache->bytes - mix_draw_below(m, cache->bytes / 4);
	s->varies = s->function == MIX_KMALLOC && !mix_draw_below(m, 3);
}

/* Functions that come up often are in many paths. */
static void make_path(struct drain_mix *m, struct mix_path *path)
{
	path->n = 4 + (unsigned int)mix_draw_below(m, PATH_MAX - 4);
	for (unsigned int i = 0; i < path->n; i++) {
		uint64_t range = FUNCTIONS >> mix_draw_below(m, 12);

		path->functions[i] = (uint16_t)mix_draw_below(m, range + 1);
	}
}

/* Functions behind each other, at multiples of 16 bytes: mostly of less than 256, some longer. */
static void make_functions(struct drain_mix *m)
{
	uint64_t offset = 0x1000;

	for (unsigned int i = 0; i < FUNCTIONS; i++) {
		m->ips[i] = (uint32_t)fake_gva(offset);
		offset += 16 * (1 + mix_draw_below(m, mix_draw_below(m, 4) ? 16 : 96));
	}
}

/* A slot of 5 bytes in place of one: the jump to the return thunk. */
static void make_page_return(struct fake_session *fs)
{
	fake_branch(&fs->fg, FAKE_ALLOC_PAGES + 15, 0xe9, FAKE_RETURN_THUNK);
}

/* Some functions are those of system calls. */
static void make_syscalls(struct fake_session *fs)
{
	static const struct fake_symbol calls[] = {{"__x64_sys_tail", FAKE_TAIL},
						   {"__x64_sys_exit", FAKE_KFREE},
						   {"do_syscall_64", FAKE_CALLER},
						   {NULL, 0}};

	if (fake_guest_add_symbols(&fs->fg, calls))
		abort();
}

struct drain_mix *drain_mix_create(struct fake_session *fs)
{
	struct drain_mix *m = calloc(1, sizeof(*m));

	if (!m)
		abort();
	m->fs = fs;
	m->random = 0x9e3779b97f4a7c15;
	make_caches(m);
	for (unsigned int i = 0; i < SITES; i++)
		make_site(m, i);
	for (unsigned int i = 0; i < PATHS; i++)
		make_path(m, &m->paths[i]);
	make_lots(m->slab_lots, 0, SLAB_SITES);
	make_lots(m->page_lots, SLAB_SITES, PAGE_SITES);
	make_lots(m->path_lots, 0, PATHS);
	make_functions(m);
	make_page_return(fs);
	make_syscalls(fs);
	fake_session_list_return_sites(fs);
	fake_session_keep_text(fs);
	return m;
}

void drain_mix_destroy(struct drain_mix *m)
{
	free(m);
}

/* --- where records go ------------------------------------------------------------------------ */

static uint32_t find_place(const struct ring_engine *x, const struct patch_set *set, uint32_t first,
			   uint64_t function)
{
	const uint64_t begin = fake_gva(function), size = 0x100;

	for (uint32_t i = 0; i < set->n; i++)
		if (set->v[i].gva - begin < size && !set->v[i].off && x->set.places[first + i].made)
			return first + i;
	return UINT32_MAX;
}

static bool is_traced(const struct drain_mix *m, const struct mix_site *site)
{
	return m->entry[site->function] != UINT32_MAX;
}

/* Of these `n` sites, those that are not traced give their lots to the next one that is. Returns
 * false if none is. */
static bool choose_traced(const struct drain_mix *m, uint16_t *lots, unsigned int first,
			  unsigned int n)
{
	unsigned int traced = 0;

	for (unsigned int i = first; i < first + n; i++)
		traced += is_traced(m, &m->sites[i]);
	for (unsigned int i = 0; traced && i < LOTS; i++)
		while (!is_traced(m, &m->sites[lots[i]]))
			lots[i] = (uint16_t)(first + (lots[i] + 1 - first) % n);
	return traced;
}

bool drain_mix_begin(struct drain_mix *m, unsigned int vcpus)
{
	const struct patch_plan *plan = &m->fs->session->plan;

	m->x = ring_engine_of(m->fs->session->ring_engine);
	m->nr_vcpus = vcpus;
	if (!m->x || !m->x->installed)
		return false;
	for (unsigned int i = 0; i < MIXES; i++) {
		m->entry[i] = find_place(m->x, &plan->entries, 0, functions[i]);
		m->ret[i] =
			find_place(m->x, &plan->returns, (uint32_t)plan->entries.n, functions[i]);
	}
	m->has_slab = choose_traced(m, m->slab_lots, 0, SLAB_SITES);
	m->has_pages = choose_traced(m, m->page_lots, SLAB_SITES, PAGE_SITES);
	m->next_page = FAKE_HEAP_GPA >> 12;
	return true;
}
