/* SPDX-License-Identifier: GPL-2.0-or-later */
/* All that happened at one address: the objects and blocks that had it, one after the other. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/base/json.h"
#include "formats/report/table.h"
#include "formats/report/trace-text.h"

enum { LABEL = 6 };

struct moment {
	enum heap_change_kind kind;
	unsigned int vcpu;
	uint8_t type;
	uint16_t cache;
	int64_t ns, born_ns;
	uint64_t ptr, bytes, requested, call_site;
};

struct history {
	struct analysis base;
	struct moment *moments;
	size_t n, room;
	uint64_t before; /* moments before the window, which are not kept */
};

static const char *const words[] = {[HEAP_ALLOC] = "alloc",
				    [HEAP_FREE] = "free",
				    [HEAP_MISSED_FREE] = "lost free",
				    [HEAP_SPLIT] = "split",
				    [HEAP_UNKNOWN_FREE] = "free of unknown"};

static int create(const struct replay *replay, const struct analysis_options *options,
		  struct analysis **out, struct error *err)
{
	struct history *h = calloc(1, sizeof(*h));

	(void)replay;
	(void)options;
	if (!h)
		return error_set(err, ENOMEM, "out of memory");
	*out = &h->base;
	return 0;
}

static void destroy(struct analysis *base)
{
	struct history *h = (struct history *)base;

	free(h->moments);
	free(h);
}

/* Whether the address is one of the object's bytes. */
static bool concerns(const struct history *h, const struct heap_change *change)
{
	uint64_t offset = h->base.options.pointer - change->ptr;

	if (change->kind == HEAP_INVALID)
		return false;
	return change->object ? offset < change->object->bytes : !offset;
}

static int change(struct analysis *base, const struct heap_change *change)
{
	struct history *h = (struct history *)base;
	const struct kmem_record *record = change->record;

	if (!concerns(h, change))
		return 0;
	if (!base->replay->in_window) {
		h->before++;
		return 0;
	}
	if (h->n == h->room) {
		size_t room = h->room ? 2 * h->room : 64;
		struct moment *bigger = reallocarray(h->moments, room, sizeof(*bigger));

		if (!bigger)
			return -ENOMEM;
		h->moments = bigger;
		h->room = room;
	}
	h->moments[h->n++] = (struct moment){
		.kind = change->kind,
		.vcpu = change->vcpu,
		.type = record->type_id,
		.cache = change->origin ? change->origin->cache : record->cache,
		.ns = record->timestamp,
		.born_ns = change->object ? change->object->born_ns : record->timestamp,
		.ptr = change->ptr,
		.bytes = change->object ? change->object->bytes : 0,
		.requested = change->object ? change->object->requested : 0,
		.call_site = record->call_site,
	};
	return 0;
}

/* --- output ---------------------------------------------------------------------------------- */

static const char *cache_name(const struct history *h, const struct moment *m)
{
	const struct sidecar_cache *cache =
		sidecar_cache(trace_reader_sidecar(h->base.replay->reader), m->cache);

	return cache && m->cache ? cache->name : kmem_type_name(m->type);
}

static struct text life_text(const struct moment *m)
{
	if (m->kind == HEAP_ALLOC || m->kind == HEAP_UNKNOWN_FREE || m->ns < m->born_ns)
		return (struct text){""};
	return measure_duration((double)((uint64_t)m->ns - (uint64_t)m->born_ns));
}

static void add_row(struct table *table, const struct history *h, const struct moment *m)
{
	const struct sidecar *sidecar = trace_reader_sidecar(h->base.replay->reader);
	char vcpu[16], ns[40];

	snprintf(ns, sizeof(ns), "%.9f", (double)m->ns / 1e9);
	snprintf(vcpu, sizeof(vcpu), "%u", m->vcpu);
	table_add_cell(table, ns);
	table_add_cell(table, sidecar_call_text(sidecar, m->call_site).s);
	table_add_cell(table, words[m->kind]);
	table_add_cell(table, vcpu);
	table_add_cell(table, sidecar_symbol_text(NULL, m->ptr).s);
	table_add_cell(table, m->bytes ? text_count(m->bytes).s : "");
	table_add_cell(table, life_text(m).s);
	table_add_cell(table, cache_name(h, m));
}

static void print_text(const struct analysis *base, FILE *out)
{
	const struct history *h = (const struct history *)base;
	static const struct {
		const char *title;
		bool is_name;
	} columns[] = {{"SECONDS", false}, {"CALL SITE", true}, {"WHAT", true},   {"VCPU", false},
		       {"OBJECT", false},  {"BYTES", false},    {"LIVED", false}, {"CACHE", true}};
	struct table *table = table_create();

	if (!table)
		return;
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		table_add_column(table, columns[i].title, columns[i].is_name);
	for (size_t i = 0; i < h->n; i++)
		add_row(table, h, &h->moments[i]);
	if (h->n)
		table_print(table, out);
	else
		fprintf(out, "0x%" PRIx64 ": no event %sis about this address\n",
			base->options.pointer, h->before ? "in this part of the trace " : "");
	if (h->before)
		fprintf(out, "%s before this part of the trace; leave out --time and --since\n",
			text_number(h->before, "event").s);
	text_print_losses(out, base->replay->reader, LABEL);
	text_print_missing(out, base->replay->reader, "the history", LABEL);
	table_destroy(table);
}

static json_t *moment_json(const struct history *h, const struct moment *m)
{
	const struct sidecar *sidecar = trace_reader_sidecar(h->base.replay->reader);

	json_t *moment = json_pack(
		"{so ss so so so ss so ss}", "time_ns", json_integer(m->ns), "what", words[m->kind],
		"vcpu", json_from_count(m->vcpu), "address", json_from_address(m->ptr), "bytes",
		json_from_count(m->bytes), "symbol", sidecar_symbol_text(sidecar, m->call_site).s,
		"call_site", json_from_address(m->call_site), "cache", cache_name(h, m));

	if (!sidecar_put_source(moment, sidecar, m->call_site))
		return moment;
	json_decref(moment);
	return NULL;
}

static int put_json(const struct analysis *base, json_t *root)
{
	const struct history *h = (const struct history *)base;
	json_t *array = json_array();

	for (size_t i = 0; i < h->n; i++)
		json_array_append_new(array, moment_json(h, &h->moments[i]));
	return replay_put_bound(base->replay, root) |
	       json_object_set_new(root, "events_before", json_from_count(h->before)) |
	       json_object_set_new(root, "history", array);
}

const struct analysis_ops history_analysis = {
	.about = "what happened at one address",
	.create = create,
	.change = change,
	.print_text = print_text,
	.put_json = put_json,
	.destroy = destroy,
};
