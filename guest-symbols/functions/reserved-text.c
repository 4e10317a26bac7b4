/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/functions/function-set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/u64-map.h"

/* An entry of a list: the address of the text is its first member. */
struct text_list {
	const char *begin, *end; /* symbols */
	const char *what;
	uint8_t entry;   /* bytes of one */
	uint8_t size;    /* bytes of text that it is about; 0: a function */
	uint8_t target;  /* of 32 bits in it that say where the kernel may go on; 0: none */
	bool relative;   /* 32 bits from the entry itself; else a pointer */
	bool may_be_off; /* entries that are 0 are none */
	bool freed;      /* by a kernel that runs, and does not need it any more */
	/* The function without which the kernel has no such list, nor needs one; NULL: each has.
	 * Where nothing is listed (CONFIG_SMP=n, CONFIG_JUMP_LABEL=n), both symbols have one
	 * address. */
	const char *by;
};

static const struct text_list lists[] = {
	{"__start___jump_table", "__stop___jump_table", "the kernel rewrites a jump label there",
	 16, 5, 4, true, false, false, NULL},
	{"__start_static_call_sites", "__stop_static_call_sites",
	 "the kernel rewrites a static call there", 8, 5, 0, true, false, false,
	 "__static_call_update"}, /* since 5.10 */
	{"__smp_locks", "__smp_locks_end", "the kernel rewrites a LOCK prefix there", 4, 1, 0, true,
	 true, true, "alternatives_enable_smp"}, /* gone in 7.3 */
	{"__start___ex_table", "__stop___ex_table",
	 "the instruction may fault, and the kernel knows it by its address", 12, 1, 4, true, false,
	 false, NULL},
	{"__start_kprobe_blacklist", "__stop_kprobe_blacklist",
	 "the kernel keeps kprobes away from the function", 8, 0, 0, false, false, true,
	 "register_kprobe"},
};

enum { NR_LISTS = sizeof(lists) / sizeof(lists[0]), JUMP_LABELS = 0 };

static const struct {
	const char *begin, *end, *what;
} sections[] = {
	{"__kprobes_text_start", "__kprobes_text_end",
	 "the kernel keeps kprobes away from the section"},
	{"__noinstr_text_start", "__noinstr_text_end", "the section is not to be instrumented"},
	{"__entry_text_start", "__entry_text_end", "it is the kernel's entry code"},
};

enum { NR_SECTIONS = sizeof(sections) / sizeof(sections[0]) };

struct reserved {
	uint64_t address, size;
	const char *what;
};

struct reserved_text {
	struct reserved *v; /* by address */
	size_t n;
	uint64_t most; /* bytes of the largest */
	struct text_lead *leads; /* by `to` */
	size_t nr_leads;
};

static void destroy(void *fact)
{
	struct reserved_text *text = fact;

	free(text->leads);
	free(text->v);
	free(text);
}

static void add(struct reserved_text *text, uint64_t address, uint64_t size, const char *what)
{
	text->v[text->n++] = (struct reserved){address, size, what};
	text->most = size > text->most ? size : text->most;
}

/* Since 5.15 one may have two bytes: a short jump, or a NOP of that size. */
static uint64_t label_size(const struct kernel_image *image, uint64_t address)
{
	static const uint8_t nop[] = {0x66, 0x90};
	enum { SHORT_JMP = 0xeb };
	const uint8_t *bytes = kernel_image_bytes(image, address, sizeof(nop));

	return bytes && (bytes[0] == SHORT_JMP || !memcmp(bytes, nop, sizeof(nop)))
		       ? sizeof(nop)
		       : lists[JUMP_LABELS].size;
}

static uint64_t size_of(const struct kernel_image *image, const struct text_list *list,
			uint64_t address)
{
	const struct symbol *symbol;

	if (list == &lists[JUMP_LABELS])
		return label_size(image, address);
	if (list->size)
		return list->size;
	symbol = symbols_covering(image->symbols, address);
	return symbol && symbol->size ? symbol->address + symbol->size - address : 1;
}

/* The text that an entry names; 0: none. */
static uint64_t text_of(const struct kernel_image *image, const struct text_list *list,
			uint64_t entry, const uint8_t *bytes)
{
	uint64_t pointer;
	int32_t distance;

	if (list->relative) {
		memcpy(&distance, bytes, sizeof(distance));
		return distance || !list->may_be_off ? entry + (uint64_t)(int64_t)distance : 0;
	}
	memcpy(&pointer, bytes, sizeof(pointer));
	return pointer - image->bytes_slide;
}

static void add_lead(struct reserved_text *text, const struct text_list *list, uint64_t from,
		     uint64_t entry, const uint8_t *bytes)
{
	int32_t distance;

	if (!list->target)
		return;
	memcpy(&distance, bytes + list->target, sizeof(distance));
	text->leads[text->nr_leads++] =
		(struct text_lead){.from = from,
				   .to = entry + list->target + (uint64_t)(int64_t)distance,
				   .behind_fault = list != &lists[JUMP_LABELS]};
}

static bool is_needed(const struct kernel_image *image, const struct text_list *list)
{
	return !list->by || symbols_find(image->symbols, list->by) ||
	       symbols_find(image->symbols, list->begin);
}

static int damaged(const struct text_list *list, uint64_t address, struct error *err)
{
	return error_set_at(err, EBADMSG, address, "the kernel's list %s is damaged", list->begin);
}

static int add_list(struct reserved_text *text, const struct kernel_image *image,
		    const struct text_list *list, struct error *err)
{
	const uint64_t begin = symbols_address(image->symbols, list->begin);
	const uint64_t end = symbols_address(image->symbols, list->end);
	const size_t before = text->n;

	if (!is_needed(image, list) || begin == end)
		return 0;
	for (uint64_t at = begin; at + list->entry <= end; at += list->entry) {
		const uint8_t *bytes = kernel_image_bytes(image, at, list->entry);
		const uint64_t address = text_of(image, list, at, bytes);

		if (!address)
			continue;
		if (address < image->text || address >= image->end)
			return damaged(list, at, err);
		add(text, address, size_of(image, list, address), list->what);
		add_lead(text, list, address, at, bytes);
	}
	return text->n > before ? 0 : damaged(list, begin, err);
}

/* *n grows by its entries. */
static int check_list(const struct kernel_image *image, const struct text_list *list, size_t *n,
		      struct error *err)
{
	const uint64_t begin = symbols_address(image->symbols, list->begin);
	const uint64_t end = symbols_address(image->symbols, list->end);

	if (!is_needed(image, list))
		return 0;
	if (!begin || !end)
		return error_set(err, ENOTSUP, "the kernel has no list %s", list->begin);
	if (begin > end || !kernel_image_bytes(image, begin, end - begin))
		return damaged(list, begin, err);
	*n += (end - begin) / list->entry;
	return 0;
}

static int by_address(const void *a, const void *b)
{
	const struct reserved *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static int by_target(const void *a, const void *b)
{
	const struct text_lead *x = a, *y = b;

	return x->to < y->to ? -1 : x->to > y->to;
}

static void add_sections(struct reserved_text *text, const struct kernel_image *image)
{
	for (size_t i = 0; i < NR_SECTIONS; i++) {
		const uint64_t begin = symbols_address(image->symbols, sections[i].begin);
		const uint64_t end = symbols_address(image->symbols, sections[i].end);

		if (begin && begin < end)
			add(text, begin, end - begin, sections[i].what);
	}
}

static int make_room(struct reserved_text *text, size_t room, struct error *err)
{
	text->v = calloc(room, sizeof(*text->v));
	text->leads = calloc(room, sizeof(*text->leads));
	return text->v && text->leads ? 0 : error_set(err, ENOMEM, "out of memory");
}

/* What was in the memory of a list that is freed is anything. */
static int add_unless_freed(struct reserved_text *text, const struct kernel_image *image,
			    const struct text_list *list, struct error *err)
{
	const size_t n = text->n, nr_leads = text->nr_leads;
	int ret = add_list(text, image, list, err);

	if (!ret || !list->freed)
		return ret;
	text->n = n;
	text->nr_leads = nr_leads;
	return 0;
}

/* `changing`: without what kprobes keep away from; lists that are freed may be missing. */
static int fill(struct reserved_text *text, const struct kernel_image *image, bool changing,
		struct error *err)
{
	const struct text_list *wanted[NR_LISTS];
	size_t room = NR_SECTIONS, n = 0;
	int ret = 0;

	for (size_t i = 0; !ret && i < NR_LISTS; i++) {
		if (changing && !lists[i].size)
			continue;
		ret = check_list(image, &lists[i], &room, err);
		if (!ret)
			wanted[n++] = &lists[i];
		else if (changing && lists[i].freed)
			ret = 0;
	}
	if (!ret)
		ret = make_room(text, room, err);
	for (size_t i = 0; !ret && i < n; i++)
		ret = changing ? add_unless_freed(text, image, wanted[i], err)
			       : add_list(text, image, wanted[i], err);
	if (ret)
		return ret;
	if (!changing)
		add_sections(text, image);
	qsort(text->v, text->n, sizeof(*text->v), by_address);
	qsort(text->leads, text->nr_leads, sizeof(*text->leads), by_target);
	return 0;
}

static int derive(const struct kernel_image *image, bool changing, void **out, struct error *err)
{
	struct reserved_text *text = calloc(1, sizeof(*text));
	int ret;

	if (!text)
		return error_set(err, ENOMEM, "out of memory");
	ret = fill(text, image, changing, err);
	if (ret)
		destroy(text);
	else
		*out = text;
	return ret;
}

static int derive_all(const struct kernel_image *image, void **out, struct error *err)
{
	return derive(image, false, out, err);
}

static int derive_changing(const struct kernel_image *image, void **out, struct error *err)
{
	return derive(image, true, out, err);
}

static int find_derived(const struct kernel_image *image, const struct image_fact *fact,
			const struct reserved_text **out, struct error *err)
{
	const void *text;
	int ret = kernel_image_derive(image, fact, &text, err);

	if (!ret)
		*out = text;
	return ret;
}

int reserved_text_of(const struct kernel_image *image, const struct reserved_text **out,
		     struct error *err)
{
	static const struct image_fact fact = {derive_all, destroy};

	return find_derived(image, &fact, out, err);
}

int reserved_text_changing_of(const struct kernel_image *image, const struct reserved_text **out,
			      struct error *err)
{
	static const struct image_fact fact = {derive_changing, destroy};

	return find_derived(image, &fact, out, err);
}

static uint64_t address_at(const void *reserved, size_t i)
{
	return ((const struct reserved *)reserved)[i].address;
}

const char *reserved_text_find(const struct reserved_text *text, uint64_t address, uint64_t size)
{
	const uint64_t from = address > text->most ? address - text->most : 0;

	for (size_t i = search_from(text->n, from, address_at, text->v); i < text->n; i++) {
		const struct reserved *r = &text->v[i];

		if (r->address >= address + size)
			break;
		if (address < r->address + r->size)
			return r->what;
	}
	return NULL;
}

const struct text_lead *reserved_text_next_lead(const struct reserved_text *text, size_t *i,
						uint64_t address, uint64_t size)
{
	while (*i < text->nr_leads) {
		const struct text_lead *lead = &text->leads[(*i)++];

		if (lead->from - address < size)
			return lead;
	}
	return NULL;
}

static uint64_t target_at(const void *leads, size_t i)
{
	return ((const struct text_lead *)leads)[i].to;
}

bool reserved_text_is_target(const struct reserved_text *text, uint64_t address, uint64_t size)
{
	const size_t i = search_from(text->nr_leads, address, target_at, text->leads);

	return i < text->nr_leads && text->leads[i].to < address + size;
}
