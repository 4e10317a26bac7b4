/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events of the kmem tracer. */
#include "formats/ctf/put-inline.h"
#include "formats/event/kmem-fields.h"

/* 4- and 5-level paging */
PUT(put_alloc, kmem_alloc_fields, 0)
PUT(put_alloc_la57, kmem_alloc_fields, 1)
PUT(put_page_alloc, kmem_page_alloc_fields, 0)
PUT(put_page_alloc_la57, kmem_page_alloc_fields, 1)
PUT(put_free, kmem_free_fields, 0)
PUT(put_free_la57, kmem_free_fields, 1)
PUT(put_cache_free, kmem_cache_free_fields, 0)
PUT(put_cache_free_la57, kmem_cache_free_fields, 1)
PUT(put_page_free, kmem_page_free_fields, 0)
PUT(put_page_free_la57, kmem_page_free_fields, 1)

enum { KNOWN_FORMS = 2 };

static ctf_put_fn *const kmem[KMEM_NR_CLASSES][KNOWN_FORMS] = {
	[KMEM_CLASS_KMALLOC] = {put_alloc, put_alloc_la57},
	[KMEM_CLASS_CACHE_ALLOC] = {put_alloc, put_alloc_la57},
	[KMEM_CLASS_PAGE_ALLOC] = {put_page_alloc, put_page_alloc_la57},
	[KMEM_CLASS_KFREE] = {put_free, put_free_la57},
	[KMEM_CLASS_CACHE_FREE] = {put_cache_free, put_cache_free_la57},
	[KMEM_CLASS_PAGE_FREE] = {put_page_free, put_page_free_la57},
};

ctf_put_fn *ctf_put_kmem(const struct event_class *class, unsigned int form)
{
	return form < KNOWN_FORMS ? kmem[class - kmem_classes][form] : NULL;
}

/* --- of several classes behind each other ----------------------------------------------------- */

/* One in its first form, behind what is at `at`. Returns its bytes; 0: that form cannot express it.
 */
static INLINE size_t put_small(struct ctf_writer *w, struct ctf_values_search *code,
			       enum kmem_class class, uint64_t header, const uint8_t *bytes,
			       uint8_t *at)
{
#define ONE(fields)                                                    \
	(put_at(w, code, fields, LENGTH(fields), 0, header, bytes, at) \
		 ? size_of(fields, LENGTH(fields), 0)                  \
		 : 0)
	switch (class) {
	case KMEM_CLASS_KMALLOC:
	case KMEM_CLASS_CACHE_ALLOC:
		return ONE(kmem_alloc_fields);
	case KMEM_CLASS_PAGE_ALLOC:
		return ONE(kmem_page_alloc_fields);
	case KMEM_CLASS_KFREE:
		return ONE(kmem_free_fields);
	case KMEM_CLASS_CACHE_FREE:
		return ONE(kmem_cache_free_fields);
	case KMEM_CLASS_PAGE_FREE:
		return ONE(kmem_page_free_fields);
	default:
		return 0;
	}
#undef ONE
}

/* Likewise in the form of 5-level paging. Apart, for the loop's registers. */
static __attribute__((noinline)) size_t put_la57(struct ctf_writer *w, unsigned int class,
						 uint64_t ns, const uint8_t *bytes, uint8_t *at)
{
	const struct ctf_form *form = w->plan->first[class] + 1;
	ctf_put_fn *const fn = kmem[class][1];

	w->used = (size_t)(at - w->bytes);
	return fn && fn(w, form, ctf_compact_header(form->id, ns), bytes) ? form->size : 0;
}

static INLINE size_t put_known(struct ctf_writer *w, struct ctf_values_search *code,
			       unsigned int class, uint64_t id, uint64_t ns, const uint8_t *bytes,
			       uint8_t *at)
{
	size_t size = put_small(w, code, class, ctf_compact_header(id, ns), bytes, at);

	if (!size) {
		size = put_la57(w, class, ns, bytes, at);
		*code = ctf_values_search(&w->code);
	}
	return size;
}

size_t ctf_put_kmem_mix(struct ctf_writer *w, const struct event_mix *mix, size_t n)
{
	return put_each(w, mix, n, put_known);
}
