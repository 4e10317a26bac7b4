/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/report/report.h"

#include <inttypes.h>
#include "formats/report/trace-text.h"

static int put_count(json_t *object, const char *key, uint64_t value)
{
	return json_object_set_new(object, key, text_json_count(value));
}

static int put_sums(json_t *object, const struct analysis_group *group)
{
	/* Two decimals: what is behind them is noise. */
	double percent = (double)(int)(analysis_fragmentation(group) * 100 + 0.5) / 100;
	int failed = put_count(object, "bytes_requested", group->bytes_requested);

	failed |= put_count(object, "bytes_allocated", group->bytes_allocated);
	failed |= json_object_set_new(object, "fragmentation_percent", json_real(percent));
	failed |= put_count(object, "cross_cpu_frees", group->cross_cpu_frees);
	failed |= put_count(object, "live_objects", group->live_objects);
	return failed | put_count(object, "live_bytes", group->live_bytes);
}

static json_t *key_object(const struct report *report, uint64_t key)
{
	const struct sidecar *sidecar = trace_reader_sidecar(report->reader);
	const struct sidecar_cache *cache;

	switch (report->by) {
	case ANALYSIS_BY_CALLSITE:
		return json_pack("{so ss}", "address", text_json_address(key), "symbol",
				 sidecar_symbol_text(sidecar, key).s);
	case ANALYSIS_BY_CACHE:
		cache = key < ANALYSIS_NO_CACHE ? sidecar_cache(sidecar, (uint16_t)key) : NULL;
		return json_pack("{ss so so}", "name", text_cache(sidecar, key).s, "object_size",
				 text_json_count(cache ? cache->object_size : 0), "size",
				 text_json_count(cache ? cache->size : 0));
	case ANALYSIS_BY_SIZE:
		return json_pack("{so}", "bytes", text_json_count(key));
	case ANALYSIS_BY_POINTER:
		break;
	}
	return json_pack("{so}", "address", text_json_address(key));
}

static json_t *groups_json(const struct report *report)
{
	json_t *array = json_array();
	int failed = 0;

	for (size_t i = 0; !failed && i < report->nr_shown; i++) {
		const struct analysis_group *group = &report->groups[i];
		json_t *item = key_object(report, group->key);

		failed = put_count(item, "hits", group->hits);
		failed |= put_sums(item, group);
		failed |= json_array_append_new(array, item);
	}
	if (!failed)
		return array;
	json_decref(array);
	return NULL;
}

static int put_trace(json_t *root, const struct report *report)
{
	const struct analysis_totals *totals = report->totals;
	const struct sidecar *sidecar = trace_reader_sidecar(report->reader);
	struct trace_losses losses;
	int failed = 0;

	trace_reader_losses(report->reader, &losses);
	failed |= json_object_set_new(root, "losses_known", json_boolean(losses.known));
	failed |= json_object_set_new(
		root, "complete",
		json_boolean(!losses.unfinished && !trace_reader_cut(report->reader)));
	failed |= json_object_set_new(root, "cut", text_json_cuts(report->reader));
	failed |= put_count(root, "records", totals->records);
	failed |= put_count(root, "vcpus", trace_reader_nr_streams(report->reader));
	failed |= put_count(root, "duration_ns",
			    (uint64_t)totals->last_ns - (uint64_t)totals->first_ns);
	failed |= put_count(root, "unknown_frees", totals->unknown_frees);
	failed |= put_count(root, "missed_frees", totals->missed_frees);
	failed |= put_count(root, "invalid_records", totals->invalid);
	failed |= json_object_set_new(root, "guest",
				      json_string(sidecar ? sidecar->info.banner : ""));
	failed |=
		json_object_set_new(root, "ended", json_string(sidecar ? sidecar->info.ended : ""));
	return failed |
	       json_object_set_new(root, "mode", json_string(sidecar ? sidecar->info.mode : ""));
}

static json_t *families_json(const struct analysis_totals *totals)
{
	json_t *object = json_object();
	int failed = 0;

	for (uint8_t type = 0; type < KMEM_TYPE_COUNT; type++) {
		json_t *family = json_object();

		failed |= put_count(family, "hits", totals->by_type[type].hits);
		failed |= put_sums(family, &totals->by_type[type]);
		failed |= json_object_set_new(object, kmem_type_name(type), family);
	}
	if (!failed)
		return object;
	json_decref(object);
	return NULL;
}

json_t *report_json(const struct report *report)
{
	static const char *const lists[] = {
		[ANALYSIS_BY_CALLSITE] = "call_sites",
		[ANALYSIS_BY_CACHE] = "caches",
		[ANALYSIS_BY_SIZE] = "sizes",
		[ANALYSIS_BY_POINTER] = "pointers",
	};
	const struct analysis_totals *totals = report->totals;
	struct trace_losses losses;
	json_t *root = json_pack("{si}", "version", 1);
	int failed = put_count(root, "alloc_events", totals->sum.hits);

	trace_reader_losses(report->reader, &losses);
	failed |= put_count(root, "free_events", totals->free_events);
	failed |= counters_put(root, &losses.counters);
	failed |= put_sums(root, &totals->sum);
	failed |= put_trace(root, report);
	failed |= json_object_set_new(root, "types", families_json(totals));
	failed |= put_count(root, "groups", report->nr_groups);
	failed |= json_object_set_new(root, lists[report->by], groups_json(report));
	if (!failed)
		return root;
	json_decref(root);
	return NULL;
}
