/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/u64-map.h"
#include "formats/event/kmem.h"
#include "formats/report/event-text-internal.h"
#include "formats/report/trace-text.h"

enum { MAX_TEXTS = 1 << 20 }; /* of one sort; a trace of nonsense gets no more memory */

int event_texts_create(const struct sidecar *sidecar, struct event_texts **out, struct error *err)
{
	struct event_texts *texts = calloc(1, sizeof(*texts));

	if (!texts)
		return error_set(err, ENOMEM, "out of memory");
	texts->sidecar = sidecar;
	texts->has_source = sidecar && sidecar->lines;
	texts->names = (struct event_names){.arg = texts,
					    .text = event_texts_filter_text,
					    .flag = event_texts_flag,
					    .flag_name = event_texts_flag_name};
	for (size_t i = 0; i < EVENT_TEXT_SORTS; i++)
		u64_map_init(&texts->known[i], sizeof(struct piece_text *));
	texts->last = calloc(1, sizeof(*texts->last) + sizeof(struct text) + PIECE_BYTES);
	if (!texts->last) {
		event_texts_destroy(texts);
		return error_set(err, ENOMEM, "out of memory");
	}
	*out = texts;
	return 0;
}

static void free_texts(struct u64_map *map)
{
	size_t pos = 0;
	uint64_t key;
	struct piece_text **text;

	while ((text = u64_map_next(map, &pos, &key)))
		free(*text);
	u64_map_deinit(map);
}

void event_texts_destroy(struct event_texts *texts)
{
	if (!texts)
		return;
	for (size_t i = 0; i < EVENT_TEXT_SORTS; i++)
		free_texts(&texts->known[i]);
	free(texts->last);
	free(texts);
}

const struct event_names *event_texts_names(struct event_texts *texts)
{
	return &texts->names;
}

static struct text make_text(const struct event_texts *texts, enum event_text_sort sort,
			     uint64_t value)
{
	const struct sidecar *sidecar = texts->sidecar;
	struct text out;

	if (sort == EVENT_TEXT_CODE)
		return sidecar_symbol_text(sidecar, value);
	if (sort == EVENT_TEXT_SOURCE)
		return sidecar_source_text(sidecar, value);
	if (sort == EVENT_TEXT_FUNCTION)
		return sidecar_function_text(sidecar, value);
	if (sort == EVENT_TEXT_CACHE) {
		const struct sidecar_cache *cache = sidecar_cache(sidecar, (uint16_t)value);

		snprintf(out.s, sizeof(out.s), "%s", cache ? cache->name : "-");
		if (value && !cache)
			snprintf(out.s, sizeof(out.s), "%" PRIu64, value);
		return out;
	}
	if (sidecar)
		gfp_flags_text(sidecar->info.gfp_names, sidecar->info.nr_gfp_names, value, out.s,
			       sizeof(out.s));
	else
		snprintf(out.s, sizeof(out.s), "0x%" PRIx64, value);
	return out;
}

static void set_last(struct event_texts *texts, const struct text *text)
{
	texts->last->length = strlen(text->s);
	memcpy(texts->last->s, text->s, texts->last->length + 1);
}

/* NULL if there is no memory for it, or too many are kept already. */
static const struct piece_text *keep(struct u64_map *known, uint64_t value, const struct text *text)
{
	struct piece_text **place, *made = NULL;

	if (known->count < MAX_TEXTS)
		made = piece_text_make(text->s);
	place = made ? u64_map_insert(known, value, NULL) : NULL;
	if (!place) {
		free(made);
		return NULL;
	}
	return *place = made;
}

const struct piece_text *event_text_find(struct event_texts *texts, enum event_text_sort sort,
					 uint64_t value)
{
	uint64_t hash = event_text_hash(value);
	struct piece_text **place = u64_map_find(&texts->known[sort], value);
	const struct piece_text *text = place ? *place : NULL;

	if (!text) {
		const struct text made = make_text(texts, sort, value);

		text = keep(&texts->known[sort], value, &made);
		if (!text) {
			set_last(texts, &made);
			return texts->last;
		}
	}
	texts->recent[sort][hash].value = value;
	texts->recent[sort][hash].text = text;
	return text;
}

const char *event_texts_function(struct event_texts *texts, uint64_t ip)
{
	return event_text_of(texts, EVENT_TEXT_FUNCTION, ip)->s;
}

const enum event_text_sort event_text_sorts[EVENT_NR_TYPES] = {
	[EVENT_UINT] = EVENT_TEXT_DECIMAL,  [EVENT_INT] = EVENT_TEXT_SIGNED,
	[EVENT_HEX] = EVENT_TEXT_HEX,       [EVENT_POINTER] = EVENT_TEXT_HEX,
	[EVENT_CODE] = EVENT_TEXT_CODE,     [EVENT_FUNCTION] = EVENT_TEXT_FUNCTION,
	[EVENT_FLAGS] = EVENT_TEXT_FLAGS,   [EVENT_DICTIONARY] = EVENT_TEXT_CACHE,
	[EVENT_PAGES] = EVENT_TEXT_DECIMAL, [EVENT_STRING] = EVENT_TEXT_STRING,
	[EVENT_STACK] = EVENT_TEXT_STACK,   [EVENT_LONG_STRING] = EVENT_TEXT_STRING,
};

/* The value of a stack is its innermost frame. */
static enum event_text_sort sort_of_value(const struct event_field *field)
{
	return field->type == EVENT_STACK ? EVENT_TEXT_CODE : event_text_sorts[field->type];
}

const char *event_texts_of(struct event_texts *texts, const struct event_field *field,
			   uint64_t value)
{
	return event_text_of(texts, sort_of_value(field), value)->s;
}

/* Filters see "symbol+0x1f", without the function's size. */
void event_texts_filter_text(void *arg, const struct event_field *field, uint64_t value, char *out,
			     size_t size)
{
	enum event_text_sort sort = sort_of_value(field);
	char *slash;

	snprintf(out, size, "%s", event_text_of(arg, sort, value)->s);
	slash = sort == EVENT_TEXT_CODE ? strrchr(out, '/') : NULL;
	if (slash)
		*slash = '\0';
}

int event_texts_flag(void *arg, const struct event_field *field, const char *name, uint64_t *value)
{
	const struct event_texts *texts = arg;
	const struct trace_info *info = texts->sidecar ? &texts->sidecar->info : NULL;

	(void)field;
	return info ? gfp_name_mask(info->gfp_names, info->nr_gfp_names, name, value) : -ENOENT;
}

const char *event_texts_flag_name(void *arg, const struct event_field *field, size_t number)
{
	const struct event_texts *texts = arg;
	const struct trace_info *info = texts->sidecar ? &texts->sidecar->info : NULL;

	(void)field;
	return info && number < info->nr_gfp_names ? info->gfp_names[number].name : NULL;
}
