/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/tracers/kmem/kmem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "introspect/kernel/kernel.h"
#include "patcher/text/function.h"

/* The deepest chain is get_zeroed_page -> __get_free_pages -> alloc_pages -> ..._mpol -> __alloc.
 */
enum { MAX_DEPTH = 8 };

/* Wrappers of the page allocator over the kernel's history; those a kernel lacks do not matter. */
static const char *const wrapper_names[] = {
	"__alloc_pages",
	"__alloc_pages_noprof",
	"__alloc_frozen_pages_noprof",
	"alloc_pages",
	"alloc_pages_noprof",
	"alloc_pages_current",
	"alloc_pages_vma",
	"alloc_pages_mpol",
	"alloc_pages_mpol_noprof",
	"alloc_frozen_pages_noprof",
	"alloc_page_interleave",
	"alloc_pages_preferred_many",
	"alloc_pages_node_noprof",
	"make_alloc_exact",
	"alloc_pages_exact",
	"alloc_pages_exact_noprof",
	"alloc_pages_exact_nid",
	"alloc_pages_bulk_array_mempolicy",
	"alloc_pages_bulk_mempolicy_noprof",
	"__alloc_pages_bulk",
	"alloc_pages_bulk_noprof",
	"__get_free_pages",
	"get_free_pages_noprof",
	"get_zeroed_page",
	"get_zeroed_page_noprof",
	"__folio_alloc",
	"__folio_alloc_noprof",
	"folio_alloc",
	"folio_alloc_noprof",
	"folio_alloc_mpol_noprof",
	"vma_alloc_folio",
	"vma_alloc_folio_noprof",
	"filemap_alloc_folio",
	"filemap_alloc_folio_noprof",
	"__page_cache_alloc",
	"free_pages",
	"__free_pages",
	"free_pages_exact",
	"free_the_page",
	"free_unref_page",
	"free_unref_page_list",
	"free_unref_folios",
	"__free_pages_ok",
	"free_frozen_pages",
	"__free_frozen_pages",
	"___free_pages",
	"__put_page",
	"__put_single_page",
	"__put_compound_page",
	"__page_cache_release",
	"__folio_put",
	"__folio_put_small",
	"__folio_put_large",
	"free_compound_page",
	"free_transhuge_page",
	"free_large_folio",
	"free_pages_prepare",
	"__free_contig_range_common",
	"__free_contig_range",
	"free_contig_range",
	"free_contig_frozen_range",
	"free_prepared_contig_range",
	"free_pages_bulk",
	"destroy_large_folio",
	"release_pages",
	"folios_put_refs",
	"__pagevec_release",
	"__folio_batch_release",
	NULL,
};
enum {
	NR_WRAPPERS = sizeof(wrapper_names) / sizeof(wrapper_names[0]) - 1,
	MAX_RANGES = 4 * NR_WRAPPERS, /* with parts of them */
};

struct range {
	uint64_t start, end;
	uint64_t frame; /* bytes; 0: unknown, or ORC knows */
};

struct page_callers {
	const struct kernel *kernel;
	struct range wrappers[MAX_RANGES]; /* sorted */
	size_t n;
};

static int by_start(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* `decoder`: of a kernel without ORC tables; else NULL. */
static void add_wrapper(struct page_callers *c, struct decoder *decoder, const struct symbol *s)
{
	if (c->n == MAX_RANGES)
		return;
	c->wrappers[c->n++] = (struct range){
		.start = kernel_gva(c->kernel, s->address),
		.end = kernel_gva(c->kernel, s->address + s->size),
		.frame = decoder ? function_frame(c->kernel->image, decoder, s->address, s->size)
				 : 0,
	};
}

/* Whether it is a part of a wrapper, as compilers name them: "__page_cache_alloc.part.0". */
static bool is_part(const char *name)
{
	const size_t length = strcspn(name, ".");

	return name[length] && text_begins_as(name, length, wrapper_names);
}

static void add_wrappers(struct page_callers *c, struct decoder *decoder)
{
	const struct symbol_table *symbols = c->kernel->image->symbols;

	for (size_t i = 0; i < NR_WRAPPERS; i++) {
		const struct symbol *s = symbols_find(symbols, wrapper_names[i]);

		if (s)
			add_wrapper(c, decoder, s);
	}
	for (size_t i = 0; i < symbols_count(symbols); i++)
		if (is_part(symbols_at(symbols, i)->name))
			add_wrapper(c, decoder, symbols_at(symbols, i));
}

int page_callers_create(const struct kernel *kernel, struct page_callers **out, struct error *err)
{
	struct page_callers *c = calloc(1, sizeof(*c));
	struct decoder *decoder = NULL;
	int ret = 0;

	if (!c)
		return error_set(err, ENOMEM, "out of memory");
	c->kernel = kernel;
	if (!kernel->known.orc.n)
		ret = decoder_create(&decoder, err);
	if (ret) {
		free(c);
		return ret;
	}
	add_wrappers(c, decoder);
	decoder_destroy(decoder);
	qsort(c->wrappers, c->n, sizeof(c->wrappers[0]), by_start);
	*out = c;
	return 0;
}

void page_callers_destroy(struct page_callers *c)
{
	free(c);
}

static const struct range *find_wrapper(const struct page_callers *c, uint64_t ip)
{
	size_t low = 0, high = c->n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (ip < c->wrappers[mid].start)
			high = mid;
		else if (ip >= c->wrappers[mid].end)
			low = mid + 1;
		else
			return &c->wrappers[mid];
	}
	return NULL;
}

/* Words of the frame that the call site's function has. 0: unknown. */
static uint64_t frame_words(const struct page_callers *c, const struct range *wrapper,
			    uint64_t call_site)
{
	uint64_t frame = wrapper->frame;

	if (!frame && orc_frame(c->kernel, call_site, &frame, NULL))
		return 0;
	return frame % sizeof(uint64_t) ? 0 : frame / sizeof(uint64_t);
}

uint64_t page_callers_resolve(const struct page_callers *c, uint64_t call_site,
			      const uint64_t *stack, size_t n)
{
	const struct range *wrapper;
	uint64_t used = 0, frame;

	for (int depth = 0; depth < MAX_DEPTH; depth++) {
		wrapper = find_wrapper(c, call_site);
		frame = wrapper ? frame_words(c, wrapper, call_site) : 0;
		used += frame;
		if (!frame || used > n)
			break;
		call_site = __atomic_load_n(&stack[used - 1], __ATOMIC_RELAXED);
	}
	return call_site;
}
