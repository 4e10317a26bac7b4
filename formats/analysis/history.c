/* SPDX-License-Identifier: GPL-2.0-or-later */
/* All that happened at one address: the objects and blocks that had it, one after the other. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/base/budget.h"
#include "formats/base/json.h"
#include "formats/report/table.h"
#include "formats/report/trace-text.h"

enum { LABEL = 9, LISTED = 3 /* objects in the head */ };

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

static void deinit(struct analysis *base)
{
	struct history *h = (struct history *)base;

	free(h->moments);
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
	if (!array_grow(&h->moments, sizeof(*h->moments), h->n, &h->room))
		return -ENOMEM;
	h->moments[h->n++] = (struct moment){
		.kind = change->kind,
		.vcpu = change->vcpu,
		.type = record->type_id,
		.cache = change->object ? change->object->cache : record->cache,
		.ns = record->timestamp,
		.born_ns = change->object ? change->object->born_ns : record->timestamp,
		.ptr = change->ptr,
		.bytes = change->object ? change->object->bytes : 0,
		.requested = change->object ? change->object->requested : 0,
		.call_site = change->call_site,
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
	table_add_cell(table, m->bytes ? text_count(m->bytes).s : "");
	table_add_cell(table, life_text(m).s);
	table_add_cell(table, cache_name(h, m));
	table_add_cell(table, vcpu);
	table_add_cell(table, sidecar_symbol_text(NULL, m->ptr).s);
}

/* Events have the address at which an object begins. */
static void print_addresses(FILE *out, const struct history *h)
{
	uint64_t seen[LISTED];
	size_t n = 0;

	text_print_search(out, "Address", h->base.options.pointer, LABEL);
	for (size_t i = 0; i < h->n && n < LISTED; i++) {
		bool is_new = h->moments[i].ptr != h->base.options.pointer;

		for (size_t k = 0; k < n; k++)
			is_new &= seen[k] != h->moments[i].ptr;
		if (!is_new)
			continue;
		text_print_search(out, n ? "" : "In", h->moments[i].ptr, LABEL);
		seen[n++] = h->moments[i].ptr;
	}
}

static void print_head(FILE *out, const struct history *h)
{
	print_addresses(out, h);
	fprintf(out, "%-*s%s", LABEL, "Events", text_count(h->n).s);
	if (h->before)
		fprintf(out, "; %s before, which --time and --since leave out",
			text_count(h->before).s);
	fputc('\n', out);
	replay_print_losses(h->base.replay, out, LABEL);
	text_print_missing(out, h->base.replay->reader, "the history", LABEL);
}

static void print_text(const struct analysis *base, FILE *out)
{
	const struct history *h = (const struct history *)base;
	static const struct {
		const char *title;
		bool is_name;
	} columns[] = {{"SECONDS", false}, {"CALL SITE", true}, {"WHAT", true},  {"BYTES", false},
		       {"LIVED", false},   {"CACHE", true},     {"VCPU", false}, {"OBJECT", false}};
	struct table *table = table_create();

	if (!table)
		return;
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		table_add_column(table, columns[i].title, columns[i].is_name);
	for (size_t i = 0; i < h->n; i++)
		add_row(table, h, &h->moments[i]);
	print_head(out, h);
	if (h->n) {
		fputc('\n', out);
		table_print(table, out);
	}
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
	.size = sizeof(struct history),
	.change = change,
	.print_text = print_text,
	.put_json = put_json,
	.deinit = deinit,
};
