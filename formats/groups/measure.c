/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/groups/measure.h"

#include <stdio.h>
#include "formats/base/json.h"

const char *const dimension_names[] = {
	[BY_CALLSITE] = "callsite", [BY_CACHE] = "cache",	  [BY_TYPE] = "type",
	[BY_OBJECT] = "object",     [BY_SIZE] = "size",		  [BY_SIZECLASS] = "sizeclass",
	[BY_FUNCTION] = "function", [BY_MODULE] = "module",       [BY_NODE] = "node",
	[BY_VCPU] = "vcpu",         [BY_TASK] = "task",		  [BY_POINTER] = "pointer",
	[NR_DIMENSIONS] = NULL};

const char *const dimension_titles[] = {[BY_CALLSITE] = "CALL SITE",
					[BY_CACHE] = "CACHE",
					[BY_TYPE] = "TYPE",
					[BY_OBJECT] = "OBJECT",
					[BY_SIZE] = "BYTES REQUESTED",
					[BY_SIZECLASS] = "SIZE CLASS",
					[BY_FUNCTION] = "FUNCTION",
					[BY_MODULE] = "MODULE",
					[BY_NODE] = "NODE",
					[BY_VCPU] = "VCPU",
					[BY_TASK] = "TASK",
					[BY_POINTER] = "POINTER",
					[NR_DIMENSIONS] = NULL};

const char *const measure_names[] = {[MEASURE_HITS] = "hits",
				     [MEASURE_BYTES] = "bytes",
				     [MEASURE_REQUESTED] = "requested",
				     [MEASURE_FRAGMENTATION] = "fragmentation",
				     [MEASURE_CROSS_CPU] = "cross-cpu",
				     [MEASURE_CROSS_NODE] = "cross-node",
				     [MEASURE_OBJECTS] = "objects",
				     [MEASURE_WASTED] = "wasted",
				     [MEASURE_RATE] = "rate",
				     [MEASURE_LIFETIME] = "lifetime",
				     [MEASURE_PEAK] = "peak",
				     [MEASURE_SLABS] = "slabs",
				     [MEASURE_LIVE] = "live",
				     [NR_MEASURES] = NULL};

const char *const measure_titles[] = {[MEASURE_HITS] = "ALLOCS",
				      [MEASURE_BYTES] = "ALLOCATED",
				      [MEASURE_REQUESTED] = "REQUESTED",
				      [MEASURE_FRAGMENTATION] = "FRAG %",
				      [MEASURE_CROSS_CPU] = "CROSS-CPU",
				      [MEASURE_CROSS_NODE] = "CROSS-NODE",
				      [MEASURE_OBJECTS] = "OBJECTS",
				      [MEASURE_WASTED] = "WASTED",
				      [MEASURE_RATE] = "ALLOCS/S",
				      [MEASURE_LIFETIME] = "LIFETIME",
				      [MEASURE_PEAK] = "PEAK",
				      [MEASURE_SLABS] = "SLABS",
				      [MEASURE_LIVE] = "LIVE",
				      [NR_MEASURES] = NULL};

double group_fragmentation(const struct group *group)
{
	if (group->allocated <= group->requested)
		return 0;
	return 100.0 * (double)(group->allocated - group->requested) / (double)group->allocated;
}

static uint64_t wasted(const struct group *group)
{
	uint64_t unrequested = group->live_bytes > group->live_requested
				       ? group->live_bytes - group->live_requested
				       : 0;

	return group->room_bytes + unrequested;
}

static double lifetime_ns(const struct group *group)
{
	return group->frees ? (double)group->lives_ns / (double)group->frees : 0;
}

double measure_value(enum measure measure, const struct group *group, uint64_t ns)
{
	switch (measure) {
	case MEASURE_HITS:
		return (double)group->hits;
	case MEASURE_BYTES:
		return (double)group->allocated;
	case MEASURE_REQUESTED:
		return (double)group->requested;
	case MEASURE_FRAGMENTATION:
		return group_fragmentation(group);
	case MEASURE_CROSS_CPU:
		return (double)group->cross_cpu;
	case MEASURE_CROSS_NODE:
		return (double)group->cross_node;
	case MEASURE_OBJECTS:
		return (double)group->live_objects;
	case MEASURE_WASTED:
		return (double)wasted(group);
	case MEASURE_RATE:
		return ns ? (double)group->hits * 1e9 / (double)ns : 0;
	case MEASURE_LIFETIME:
		return lifetime_ns(group);
	case MEASURE_PEAK:
		return (double)group->peak_bytes;
	case MEASURE_SLABS:
		return (double)group->slab_bytes;
	case MEASURE_LIVE:
		return (double)group->live_bytes;
	case NR_MEASURES:
		break;
	}
	return 0;
}

struct text measure_duration(double ns)
{
	static const char *const units[] = {"ns", "us", "ms", "s"};
	struct text out;
	size_t unit = 0;

	while (ns >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		ns /= 1000;
		unit++;
	}
	snprintf(out.s, sizeof(out.s), ns >= 99.95 || !unit ? "%.0f %s" : "%.1f %s", ns,
		 units[unit]);
	return out;
}

struct text measure_text(enum measure measure, const struct group *group, uint64_t ns)
{
	double value = measure_value(measure, group, ns);
	struct text out;

	switch (measure) {
	case MEASURE_BYTES:
		return text_bytes(group->allocated);
	case MEASURE_REQUESTED:
		return text_bytes(group->requested);
	case MEASURE_WASTED:
		return text_bytes(wasted(group));
	case MEASURE_PEAK:
		return text_bytes(group->peak_bytes);
	case MEASURE_SLABS:
		return text_bytes(group->slab_bytes);
	case MEASURE_LIVE:
		return text_bytes(group->live_bytes);
	case MEASURE_HITS:
		return text_count(group->hits);
	case MEASURE_CROSS_CPU:
		return text_count(group->cross_cpu);
	case MEASURE_CROSS_NODE:
		return text_count(group->cross_node);
	case MEASURE_OBJECTS:
		return text_count(group->live_objects);
	case MEASURE_LIFETIME:
		if (group->frees)
			return measure_duration(value);
		return (struct text){"-"};
	case MEASURE_RATE:
	case MEASURE_FRAGMENTATION:
	case NR_MEASURES:
		break;
	}
	snprintf(out.s, sizeof(out.s), "%.1f", value);
	return out;
}

int group_put_sums(json_t *object, const struct group *group)
{
	/* Two decimals; more would be noise. */
	double percent = (double)(int)(group_fragmentation(group) * 100 + 0.5) / 100;
	const struct {
		const char *key;
		uint64_t value;
	} sums[] = {
		{"bytes_requested", group->requested},
		{"bytes_allocated", group->allocated},
		{"frees", group->frees},
		{"cross_cpu_frees", group->cross_cpu},
		{"cross_node_frees", group->cross_node},
		{"live_objects", group->live_objects},
		{"live_bytes", group->live_bytes},
		{"wasted_bytes", wasted(group)},
		{"lifetime_ns", whole_number(lifetime_ns(group))},
	};
	int failed = json_object_set_new(object, "fragmentation_percent", json_real(percent));

	for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++)
		failed |= json_object_set_new(object, sums[i].key, json_from_count(sums[i].value));
	return failed;
}
