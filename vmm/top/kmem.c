/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Allocations of a trace while it is recorded, by call site and by cache. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "formats/base/clock.h"
#include "formats/groups/groups.h"
#include "vmm/top/part.h"

enum { NR_GROUPS = 2 };

struct kmem {
	struct top_part part;
	struct groups *groups[NR_GROUPS];
};

static const enum dimension dimensions[NR_GROUPS] = {BY_CALLSITE, BY_CACHE};
static const enum top_view views[NR_GROUPS] = {TOP_SITES, TOP_CACHES};

/* The heap is there from the first change on. */
static int make_groups(struct kmem *k)
{
	const struct replay *replay = k->part.analysis.replay;

	for (int i = 0; i < NR_GROUPS; i++) {
		const struct grouping by = {.by = {dimensions[i]}, .n = 1};

		if (!k->groups[i])
			k->groups[i] = groups_create(&by, replay->heap,
						     trace_reader_sidecar(replay->reader));
		if (!k->groups[i])
			return -ENOMEM;
	}
	return 0;
}

static int take_change(struct analysis *analysis, const struct heap_change *change)
{
	struct kmem *k = (struct kmem *)analysis;
	int ret = make_groups(k);

	for (int i = 0; !ret && change->object && i < NR_GROUPS; i++)
		ret = groups_add(k->groups[i], change, true);
	return ret;
}

static void deinit(struct analysis *analysis)
{
	struct kmem *k = (struct kmem *)analysis;

	for (int i = 0; i < NR_GROUPS; i++)
		groups_destroy(k->groups[i]);
}

/* Pages of slabs are counted as the objects in them. */
static size_t list(const struct groups *groups, struct top_sample *out)
{
	size_t n = 0;

	for (size_t i = 0; groups && i < groups_count(groups) && n < TOP_MAX_ROWS; i++) {
		const struct group *g = groups_get(groups, i);
		struct top_sample *sample = &out[n];

		if (g->role != HEAP_PLAIN)
			continue;
		*sample = (struct top_sample){.key = g->keys[0],
					      .total = g->hits,
					      .flow = g->allocated,
					      .live = g->live_bytes,
					      .count = g->live_objects};
		snprintf(sample->name, sizeof(sample->name), "%.*s", TOP_NAME_SIZE - 1,
			 groups_text(groups, g).s);
		n++;
	}
	return n;
}

static int put_table(struct top_table *table, const struct groups *groups, struct error *err)
{
	const size_t room = groups ? groups_count(groups) : 0;
	struct top_sample *samples = calloc(room + 1, sizeof(*samples));
	int ret;

	if (!samples)
		return error_set(err, ENOMEM, "out of memory");
	ret = top_table_put(table, samples, list(groups, samples), clock_monotonic_ns(), err);
	free(samples);
	return ret;
}

static int put(struct top_part *part, struct top_model *model, struct error *err)
{
	struct kmem *k = (struct kmem *)part;
	int ret = 0;

	for (int i = 0; !ret && i < NR_GROUPS; i++) {
		struct top_table *table = &model->tables[views[i]];

		if (part->analysis.replay->instance)
			ret = put_table(table, k->groups[i], err);
		else
			top_table_miss(table, "no allocations are traced: sonde ctl SOCKET trace "
					      "add kmem");
	}
	return ret;
}

static const struct analysis_ops ops = {.change = take_change, .deinit = deinit};

int top_kmem_create(const struct replay *replay, struct top_part **out, struct error *err)
{
	struct kmem *k = calloc(1, sizeof(*k));

	if (!k)
		return error_set(err, ENOMEM, "out of memory");
	k->part = (struct top_part){.analysis = {.ops = &ops, .replay = replay}, .put = put};
	*out = &k->part;
	return 0;
}
