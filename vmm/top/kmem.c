/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/top/kmem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "formats/analysis/analysis.h"
#include "formats/analysis/replay.h"
#include "formats/base/clock.h"
#include "formats/groups/groups.h"

enum { NR_GROUPS = 2 };

/* An analysis of the trace that is only shown here. */
struct top_kmem {
	struct analysis analysis;
	struct replay_view view;
	struct replay replay;
	struct groups *groups[NR_GROUPS];
};

static const enum dimension dimensions[NR_GROUPS] = {BY_CALLSITE, BY_CACHE};
static const enum top_view views[NR_GROUPS] = {TOP_SITES, TOP_CACHES};

/* The heap is there from the first change on. */
static int make_groups(struct top_kmem *k)
{
	for (int i = 0; i < NR_GROUPS; i++) {
		const struct grouping by = {.by = {dimensions[i]}, .n = 1};

		if (!k->groups[i])
			k->groups[i] = groups_create(&by, k->replay.heap,
						     trace_reader_sidecar(k->replay.reader));
		if (!k->groups[i])
			return -ENOMEM;
	}
	return 0;
}

static int take_change(struct analysis *analysis, const struct heap_change *change)
{
	struct top_kmem *k = (struct top_kmem *)analysis;
	int ret = make_groups(k);

	for (int i = 0; !ret && change->object && i < NR_GROUPS; i++)
		ret = groups_add(k->groups[i], change, true);
	return ret;
}

static const struct analysis_ops ops = {.about = "what sonde top shows", .change = take_change};

int top_kmem_open(const char *dir, struct top_kmem **out, struct error *err)
{
	struct top_kmem *k = calloc(1, sizeof(*k));
	int ret;

	if (!k)
		return error_set(err, ENOMEM, "out of memory");
	k->view = REPLAY_ALL;
	k->view.follow = true;
	k->analysis = (struct analysis){.ops = &ops, .replay = &k->replay};
	ret = replay_open(&k->replay, dir, &k->view, err);
	if (!ret)
		ret = replay_select(&k->replay, err);
	if (!ret && !k->replay.instance)
		ret = error_set(err, ENOENT,
				"no allocations are traced: sonde ctl SOCKET trace add kmem");
	if (ret)
		top_kmem_close(k);
	else
		*out = k;
	return ret;
}

void top_kmem_close(struct top_kmem *k)
{
	if (!k)
		return;
	for (int i = 0; i < NR_GROUPS; i++)
		groups_destroy(k->groups[i]);
	replay_close(&k->replay);
	free(k);
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
		snprintf(sample->name, sizeof(sample->name), "%.*s%s", TOP_NAME_SIZE - 3,
			 groups_text(groups, g).s, g->is_wrapper ? " *" : "");
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

int top_kmem_sample(struct top_kmem *k, struct top_model *model, struct error *err)
{
	struct analysis *analyses[] = {&k->analysis};
	int ret = replay_follow(&k->replay, analyses, 1, err);

	ret = ret < 0 ? ret : 0;
	for (int i = 0; !ret && i < NR_GROUPS; i++)
		ret = put_table(&model->tables[views[i]], k->groups[i], err);
	return ret;
}
