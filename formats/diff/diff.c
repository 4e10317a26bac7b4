/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reading both sides, and comparing them. */
#include "formats/diff/diff-internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/budget.h"
#include "formats/cli/cli.h"

/* --- one side -------------------------------------------------------------------------------- */

static int change(struct analysis *base, const struct heap_change *change)
{
	struct side *side = (struct side *)base;

	if (!side->groups)
		side->groups = groups_create(&side->base.options.by, side->replay.heap,
					     trace_reader_sidecar(side->replay.reader));
	if (!side->groups)
		return -ENOMEM;
	return change->object ? groups_add(side->groups, change, side->replay.in_window) : 0;
}

static uint64_t selected_bytes(const struct side *side)
{
	uint64_t sum = 0;

	for (size_t i = 0; side->groups && i < groups_count(side->groups); i++) {
		const struct group *group = groups_get(side->groups, i);

		if (group->role == HEAP_PLAIN)
			sum_add(&sum, group->live_bytes);
	}
	return sum;
}

/* Of a part of the allocations, nothing says what pages the slabs take for them. */
static int finish(struct analysis *base)
{
	struct side *side = (struct side *)base;

	side->live_bytes =
		side->replay.selects ? selected_bytes(side) : heap_live_bytes(side->replay.heap);
	return 0;
}

static const struct analysis_ops side_ops = {.change = change, .finish = finish};

/* Returns an exit status plus one, or 0; likewise below. */
static int open_side(const char *verb, struct side *side, const char *dir,
		     const struct replay_view *view)
{
	struct error err;

	side->base.ops = &side_ops;
	side->base.replay = &side->replay;
	if (replay_open(&side->replay, dir, view, &err))
		return 1 + cli_error(verb, &err);
	if (replay_select(&side->replay, &err))
		return 1 + cli_usage_error(verb, &err);
	if (!analysis_check(&side_ops, &side->replay, &err))
		return 0;
	error_prefix(&err, "%s: ", dir);
	return 1 + cli_error(verb, &err);
}

static int read_side(const char *verb, struct side *side, const char *dir)
{
	struct analysis *analyses[] = {&side->base};
	struct error err;

	if (!replay_run(&side->replay, analyses, 1, &err))
		return 0;
	error_prefix(&err, "%s: ", dir);
	return 1 + cli_error(verb, &err);
}

/* --- both ------------------------------------------------------------------------------------ */

/* Of a call site "symbol+0x1f", without the size of the function, which may differ between builds.
 */
static void drop_size(struct text *key)
{
	char *slash = strchr(key->s, '/');
	size_t size = slash ? strcspn(slash, " ") : 0;

	if (slash)
		memmove(slash, slash + size, strlen(slash + size) + 1);
}

/* Of a function, what another build may name otherwise: the number of a clone
 * (try_to_unmap.constprop.0), and _noprof, which allocators have since 6.10. */
static void drop_build(struct text *key)
{
	static const char noprof[] = "_noprof";
	const size_t end = strcspn(key->s, " ");
	size_t length = strcspn(key->s, ". ");

	if (length >= sizeof(noprof) &&
	    !strncmp(key->s + length - (sizeof(noprof) - 1), noprof, sizeof(noprof) - 1))
		length -= sizeof(noprof) - 1;
	if (length)
		memmove(key->s + length, key->s + end, strlen(key->s + end) + 1);
}

bool diff_has_two_kernels(const struct diff *diff)
{
	const struct sidecar *a = trace_reader_sidecar(diff->sides[0].replay.reader),
			     *b = trace_reader_sidecar(diff->sides[1].replay.reader);

	return a && b && *a->info.banner && *b->info.banner &&
	       (strcmp(a->info.banner, b->info.banner) ||
		strcmp(a->info.build_id, b->info.build_id));
}

/* What is compared: "dentry, d_alloc+0x1f". */
static struct text key_of(const struct diff *diff, enum dimension by, struct text key)
{
	if (by == BY_CALLSITE)
		drop_size(&key);
	else if (by == BY_FUNCTION && diff_has_two_kernels(diff))
		drop_build(&key);
	return key;
}

/* `diff`: as it is compared; NULL: whole, with the size of the function. */
static struct text name_of(const struct side *side, const struct group *group,
			   const struct diff *diff)
{
	const struct grouping *by = &side->base.options.by;
	struct text name = {""};
	size_t used = 0;

	for (size_t i = 0; i < by->n; i++) {
		struct text key = groups_key_text(side->groups, group, i);

		if (diff)
			key = key_of(diff, by->by[i], key);
		used += (size_t)snprintf(name.s + used, sizeof(name.s) - used, "%s%s",
					 i ? ", " : "", key.s);
		used = used < sizeof(name.s) ? used : sizeof(name.s) - 1;
	}
	snprintf(name.s + used, sizeof(name.s) - used, "%s", group->is_wrapper ? " *" : "");
	return name;
}

static struct pair *add_pair(struct diff *diff, const char *name, const char *full)
{
	struct pair *pair;

	if (!array_grow(&diff->pairs, sizeof(*diff->pairs), diff->n, &diff->room))
		return NULL;
	pair = &diff->pairs[diff->n++];
	*pair = (struct pair){.name = strdup(name), .full = strdup(full)};
	return pair->name && pair->full ? pair : NULL;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct pair *)a)->name, ((const struct pair *)b)->name);
}

static int note_source(struct pair *pair, const struct groups *groups, const struct group *group)
{
	const struct text source = groups_source_text(groups, group);

	if (!*source.s)
		return 0;
	pair->source = strdup(source.s);
	return pair->source ? 0 : -ENOMEM;
}

static int add_side(struct diff *diff, int index)
{
	const struct side *side = &diff->sides[index];

	for (size_t i = 0; side->groups && i < groups_count(side->groups); i++) {
		const struct group *group = groups_get(side->groups, i);
		struct pair *pair;

		if (group->role != HEAP_PLAIN)
			continue;
		pair = add_pair(diff, name_of(side, group, diff).s, name_of(side, group, NULL).s);
		if (!pair)
			return -ENOMEM;
		if (note_source(pair, side->groups, group))
			return -ENOMEM;
		pair->hits[index] = group->hits;
		pair->live[index] = group->live_bytes;
		pair->allocated[index] = group->allocated;
	}
	return 0;
}

/* Its texts are gone afterwards. What only one of them has in the source is kept. */
static void merge(struct pair *to, struct pair *from)
{
	for (int side = 0; side < 2; side++) {
		to->hits[side] += from->hits[side];
		to->live[side] += from->live[side];
		to->allocated[side] += from->allocated[side];
	}
	if (!to->source) {
		to->source = from->source;
		from->source = NULL;
	}
	if (to->full && (!from->full || strcmp(to->full, from->full) != 0)) {
		free(to->full);
		to->full = NULL;
	}
	free(from->name);
	free(from->full);
	free(from->source);
}

/* Those with the same name become one. */
static void merge_pairs(struct diff *diff)
{
	size_t kept = 0;

	if (diff->n)
		qsort(diff->pairs, diff->n, sizeof(*diff->pairs), compare_names);
	for (size_t i = 0; i < diff->n; i++) {
		struct pair *from = &diff->pairs[i], *to = kept ? &diff->pairs[kept - 1] : NULL;

		if (!to || strcmp(to->name, from->name))
			diff->pairs[kept++] = *from;
		else
			merge(to, from);
	}
	diff->n = kept;
}

double diff_seconds(const struct diff *diff, int side)
{
	return (double)replay_duration_ns(&diff->sides[side].replay) / 1e9;
}

/*
 * What lost events can have made of a difference of live bytes. Lost frees make the side that has
 * more too high, lost allocations the other one too low: nothing says how large these were, so they
 * count like those that the pair has.
 */
static double missing_bytes(const struct diff *diff, const struct pair *pair)
{
	const int more = pair->live[1] > pair->live[0];
	const double hits = (double)pair->hits[0] + (double)pair->hits[1];
	const double allocated = (double)pair->allocated[0] + (double)pair->allocated[1];
	const double too_high = (double)diff->bounds[more].bytes;
	const double lost = (double)diff->bounds[!more].objects;

	if (lost > 0 && !(hits > 0))
		return HUGE_VAL;
	return lost > 0 ? too_high + lost * allocated / hits : too_high;
}

/* A difference of rates is significant beyond three standard deviations of counts at random, one of
 * live bytes from a part of all on. What lost events may have made of either does not count. */
static void weigh(const struct diff *diff, struct pair *pair)
{
	const double least_sigmas = 3, least_share = 0.01, least_ratio = 0.1;
	double variance = 0, greater, all = 1, missing_rate = 0, live, rate;

	for (int side = 0; side < 2; side++) {
		double seconds = diff_seconds(diff, side);

		if (seconds > 0) {
			pair->rates[side] = (double)pair->hits[side] / seconds;
			variance += (double)(pair->hits[side] + 1) / (seconds * seconds);
			missing_rate += (double)diff->bounds[side].objects / seconds;
		}
		all += (double)diff->sides[side].live_bytes / 2;
	}
	pair->live_diff = (double)pair->live[1] - (double)pair->live[0];
	pair->sigmas = variance > 0 ? (pair->rates[1] - pair->rates[0]) / sqrt(variance) : 0;
	greater = pair->rates[0] > pair->rates[1] ? pair->rates[0] : pair->rates[1];
	live = fabs(pair->live_diff) - missing_bytes(diff, pair);
	rate = fabs(pair->rates[1] - pair->rates[0]) - missing_rate;
	pair->is_significant = live > least_share * all || (rate > least_sigmas * sqrt(variance) &&
							    rate > least_ratio * greater);
}

static int compare_weights(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;
	double dx = fabs(x->live_diff), dy = fabs(y->live_diff);

	if (x->is_significant != y->is_significant)
		return x->is_significant ? -1 : 1;
	if (dx != dy)
		return dx < dy ? 1 : -1;
	dx = fabs(x->sigmas);
	dy = fabs(y->sigmas);
	return dx != dy ? (dx < dy ? 1 : -1) : strcmp(x->name, y->name);
}

static int compare_sides(struct diff *diff)
{
	for (int i = 0; i < 2; i++) {
		if (add_side(diff, i))
			return -ENOMEM;
	}
	merge_pairs(diff);
	for (int i = 0; i < 2; i++)
		diff->bounds[i] = replay_bound(&diff->sides[i].replay);
	for (size_t i = 0; i < diff->n; i++)
		weigh(diff, &diff->pairs[i]);
	if (diff->n)
		qsort(diff->pairs, diff->n, sizeof(*diff->pairs), compare_weights);
	return 0;
}

void diff_destroy(struct diff *diff)
{
	for (int i = 0; i < 2; i++) {
		groups_destroy(diff->sides[i].groups);
		replay_close(&diff->sides[i].replay);
	}
	for (size_t i = 0; i < diff->n; i++) {
		free(diff->pairs[i].name);
		free(diff->pairs[i].full);
		free(diff->pairs[i].source);
	}
	free(diff->pairs);
}

/* Sides that are charged differently would have other rows for the same calls. */
static void choose_chains(struct diff *diff)
{
	bool has[2];

	for (int i = 0; i < 2; i++) {
		const struct trace_instance *instance = diff->sides[i].replay.instance;

		has[i] = instance && kmem_has_chains(instance);
	}
	diff->without_chains = has[0] == has[1] ? -1 : has[0];
	for (int i = 0; i < 2; i++)
		diff->sides[i].replay.ignores_chains = has[0] != has[1];
}

static int read_sides(const char *verb, struct diff *diff, const struct replay_view views[2],
		      const struct diff_options *options)
{
	int ret = 0;

	for (int i = 0; !ret && i < 2; i++) {
		diff->sides[i].base.options.by = options->by;
		ret = open_side(verb, &diff->sides[i], options->dirs[i], &views[i]);
	}
	if (!ret)
		choose_chains(diff);
	for (int i = 0; !ret && i < 2; i++)
		ret = read_side(verb, &diff->sides[i], options->dirs[i]);
	return ret;
}

int diff_compare(const char *verb, struct diff *diff, const struct replay_view views[2],
		 const struct diff_options *options)
{
	const int ret = read_sides(verb, diff, views, options);
	struct error err;

	if (ret)
		return ret - 1;
	for (int i = 0; i < 2; i++)
		analysis_print_notes(verb, i ? "B: " : "A: ", i ? "--time-b" : "--time-a",
				     &diff->sides[i].replay, &diff->sides[i].base.options);
	if (!compare_sides(diff))
		return CLI_OK;
	error_set(&err, ENOMEM, "out of memory");
	return cli_error(verb, &err);
}
