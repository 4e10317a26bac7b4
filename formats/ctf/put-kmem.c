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

/* --- with tasks ------------------------------------------------------------------------------- */

/* The task is the same for many events, and its fields are those that come first: an event is made
 * as one without, of which what follows the header then goes behind the task's bits. */

enum { HEADER_BITS = 8 * CTF_HEADER_BYTES };

static const struct event_task *task_of(const uint8_t *bytes)
{
	return &((const struct kmem_task_record *)(const void *)bytes)->task;
}

static bool is_last_task(const struct ctf_writer *w, const struct event_task *task)
{
	const struct event_task *last = &w->last_task.task;

	return w->last_task.packet == w->strings.packet && task->pid == last->pid &&
	       task->tgid == last->tgid && task->cgroup == last->cgroup &&
	       !memcmp(task->comm, last->comm, sizeof(task->comm));
}

/* `bits` are less than 64. */
static void add_bits(struct ctf_task *t, uint64_t value, unsigned int bits)
{
	const unsigned int at = t->nr_bits % 64;

	t->bits[t->nr_bits / 64] |= value << at;
	if (at + bits > 64)
		t->bits[1] |= value >> (64 - at);
	t->nr_bits += bits;
}

/* The bits of an event's task, in all forms but the last of each class; other records have no other
 * form than that. False: these cannot express it. */
static __attribute__((noinline)) bool learn_task(struct ctf_writer *w, const uint8_t *bytes)
{
	const struct event_class *class = w->plan->first[KMEM_CLASS_KMALLOC]->class;
	const size_t n = class->nr_fields - class->known->nr_fields;
	struct ctf_values_search code = ctf_values_search(&w->code);
	struct ctf_task t = {.task = *task_of(bytes)};

	for (size_t i = 0; i < n; i++) {
		const struct event_field *field = &class->fields[i];
		uint64_t value;

		if (!get_bits(w, &code, field, field->bits[0], bytes, &value))
			return false;
		add_bits(&t, value, field->bits[0]);
	}
	t.packet = w->strings.packet;
	w->last_task = t;
	return true;
}

/* The words of what is `above`, from bit `bits` of word i on, of which word i - 1 is `below`; there
 * are less than 64. */
static INLINE uint64_t shifted(uint64_t above, uint64_t below, unsigned int bits)
{
	return above << bits | below >> 1 >> (63 - bits);
}

/* The event of `n` words, a constant, as they are on disk, behind the task's bits. */
static INLINE void put_behind(const struct ctf_task *t, const uint64_t *words, unsigned int n,
			      uint8_t *at)
{
	enum { MOST = 3 };
	const unsigned int bits = t->nr_bits % 64;
	uint64_t body[MOST + 1] = {0}, out[MOST + 3] = {t->bits[0], t->bits[1]};

#pragma GCC unroll 3
	for (unsigned int i = 0; i < n; i++)
		body[i] = shifted(i + 1 < n ? le64toh(words[i + 1]) : 0, le64toh(words[i]),
				  HEADER_BITS);
	if (t->nr_bits < 64)
#pragma GCC unroll 4
		for (unsigned int i = 0; i <= n; i++)
			out[i] |= shifted(body[i], i ? body[i - 1] : 0, bits);
	else
#pragma GCC unroll 4
		for (unsigned int i = 0; i <= n; i++)
			out[i + 1] |= shifted(body[i], i ? body[i - 1] : 0, bits);
	ctf_store_word(at, (uint32_t)le64toh(words[0]) | out[0] << HEADER_BITS);
#pragma GCC unroll 5
	for (unsigned int i = 1; i < n + 2; i++)
		ctf_store_word(at + 8 * i, shifted(out[i], out[i - 1], HEADER_BITS));
}

/* One in a form of these fields, which is a constant. False: that form cannot express it. */
static INLINE bool put_fields(struct ctf_writer *w, struct ctf_values_search *code,
			      const struct event_field *fields, size_t n, unsigned int form,
			      uint64_t header, const uint8_t *bytes, uint8_t *at)
{
	uint64_t words[MAX_WORDS];

	if (!put_at(w, code, fields, n, form, header, bytes, (uint8_t *)words))
		return false;
	put_behind(&w->last_task, words, (unsigned int)(size_of(fields, n, form) + 7) / 8, at);
	return true;
}

/* `form` is a constant: 0, or that of 5-level paging. */
static INLINE bool put_form(struct ctf_writer *w, struct ctf_values_search *code,
			    enum kmem_class class, unsigned int form, uint64_t header,
			    const uint8_t *bytes, uint8_t *at)
{
#define ONE(fields) put_fields(w, code, fields, LENGTH(fields), form, header, bytes, at)
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
		return false;
	}
#undef ONE
}

/* Apart, for the loop's registers. */
static __attribute__((noinline)) bool put_form_la57(struct ctf_writer *w, unsigned int class,
						    uint64_t header, const uint8_t *bytes,
						    uint8_t *at)
{
	struct ctf_values_search code = ctf_values_search(&w->code);

	return put_form(w, &code, class, 1, header, bytes, at);
}

static INLINE size_t put_of_task(struct ctf_writer *w, struct ctf_values_search *code,
				 unsigned int class, uint64_t id, uint64_t ns, const uint8_t *bytes,
				 uint8_t *at)
{
	const struct ctf_form *form = w->plan->first[class];

	if (!is_last_task(w, task_of(bytes)) && !learn_task(w, bytes))
		return 0;
	if (put_form(w, code, class, 0, ctf_compact_header(id, ns), bytes, at))
		return form->size;
	form++;
	id++;
	if (class == KMEM_CLASS_OTHER ||
	    !put_form_la57(w, class, ctf_compact_header(id, ns), bytes, at))
		return 0;
	*code = ctf_values_search(&w->code);
	return form->size;
}

size_t ctf_put_kmem_task_mix(struct ctf_writer *w, const struct event_mix *mix, size_t n)
{
	return put_each(w, mix, n, put_of_task);
}
