/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events of classes that are constants of this program, and frequent. */
#include "formats/ctf/internal.h"
#include "formats/event/kmem-fields.h"

/* The compiler makes code from the fields, which are constants, as is `form`. */
static CTF_ALWAYS_INLINE bool get_known(const struct ctf_stream *s,
					const struct event_field *fields, size_t n,
					unsigned int form, const uint8_t *from, uint8_t *to)
{
	unsigned int pos = 0;

	memset(to, 0, sizeof(struct kmem_record));
#pragma GCC unroll 8
	for (size_t i = 0; i < n; i++) {
		const unsigned int bits = fields[i].bits[form];
		struct ctf_step step = ctf_step_of(&fields[i], ctf_op_of(&fields[i], bits), bits);

		step.bit = (uint8_t)(pos % 8);
		if (!ctf_get_usual(s, &step, from + pos / 8, false, to + step.at))
			return false;
		pos += bits;
	}
	return true;
}

/* Likewise, and most of what a brief might not have is known not to be there. */
static CTF_ALWAYS_INLINE bool get_brief(const struct ctf_stream *s,
					const struct event_field *fields, size_t n,
					unsigned int form, const uint8_t *from,
					struct kmem_brief *to)
{
	struct kmem_record record;

	if (!get_known(s, fields, n, form, from, (uint8_t *)&record))
		return false;
	/* as kmem_record_complete() */
	if (fields == kmem_page_alloc_fields || fields == kmem_page_free_fields)
		record.bytes_alloc = record.bytes_req;
	return kmem_brief_of(&record, to);
}

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* 4- and 5-level paging; of allocations the same with a NUMA node */
enum { KNOWN_FORMS = 4 };

#define GET_FORM(name, fields, form)                                              \
	static bool name(const struct ctf_stream *s, const struct ctf_form *f,    \
			 const uint8_t *from, uint8_t *to)                        \
	{                                                                         \
		(void)f;                                                          \
		return get_known(s, fields, LENGTH(fields), form, from, to);      \
	}                                                                         \
	static bool name##_brief(const struct ctf_stream *s, const uint8_t *from, \
				 struct kmem_brief *to)                           \
	{                                                                         \
		return get_brief(s, fields, LENGTH(fields), form, from, to);      \
	}

#define GET(name, fields)         \
	GET_FORM(name, fields, 0) \
	GET_FORM(name##_la57, fields, 1)

#define GET_NODES(name, fields)          \
	GET_FORM(name##_node, fields, 2) \
	GET_FORM(name##_node_la57, fields, 3)

GET(get_alloc, kmem_alloc_fields)
GET_NODES(get_alloc, kmem_alloc_fields)
GET(get_page_alloc, kmem_page_alloc_fields)
GET_NODES(get_page_alloc, kmem_page_alloc_fields)
GET(get_free, kmem_free_fields)
GET(get_cache_free, kmem_cache_free_fields)
GET(get_page_free, kmem_page_free_fields)

struct known_form {
	ctf_get_fn *get;
	ctf_get_brief_fn *get_brief;
};

static const struct {
	const struct event_field *fields;
	size_t n;
	bool is_pages;
	struct known_form forms[KNOWN_FORMS];
} known[] = {
#define FORM(name)                 \
	{                          \
		name, name##_brief \
	}
#define FORMS(name) FORM(name), FORM(name##_la57)
#define KNOWN(fields, is_pages, ...)              \
	{                                         \
		fields, LENGTH(fields), is_pages, \
		{                                 \
			__VA_ARGS__               \
		}                                 \
	}
	KNOWN(kmem_alloc_fields, false, FORMS(get_alloc), FORMS(get_alloc_node)),
	KNOWN(kmem_page_alloc_fields, true, FORMS(get_page_alloc), FORMS(get_page_alloc_node)),
	KNOWN(kmem_free_fields, false, FORMS(get_free)),
	KNOWN(kmem_cache_free_fields, false, FORMS(get_cache_free)),
	KNOWN(kmem_page_free_fields, true, FORMS(get_page_free)),
};

/* Whether fields lie in memory and on disk as those of a class in the trace do. */
static bool are_those_of(const struct event_class *class, const struct event_field *fields,
			 size_t n, unsigned int form)
{
	if (class->nr_fields != n || class->size != sizeof(struct kmem_record))
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct event_field *a = &class->fields[i], *b = &fields[i];

		if (a->type != b->type || a->size != b->size || a->at != b->at ||
		    a->bits[form] != b->bits[form] || a->implied != b->implied)
			return false;
	}
	return true;
}

/* Those of a form, in a little-endian trace; without functions if there are none. */
static struct known_form find_known(const struct ctf_form *form, bool *is_pages)
{
	for (size_t i = 0; i < LENGTH(known) && form->form < KNOWN_FORMS; i++) {
		if (are_those_of(form->class, known[i].fields, known[i].n, form->form)) {
			*is_pages = known[i].is_pages;
			return known[i].forms[form->form];
		}
	}
	return (struct known_form){NULL, NULL};
}

ctf_get_fn *ctf_get_known(const struct ctf_form *form)
{
	bool is_pages;

	return find_known(form, &is_pages).get;
}

/* What a record of pages has is that of its class, which a trace may give other fields. */
ctf_get_brief_fn *ctf_get_brief(const struct ctf_form *form)
{
	bool is_pages = false;
	const struct known_form found = find_known(form, &is_pages);

	if (form->kmem_class == KMEM_CLASS_OTHER ||
	    is_pages != (form->ids.type_id == KMEM_TYPE_PAGES))
		return NULL;
	return found.get_brief;
}
