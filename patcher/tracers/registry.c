/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The tracers by name, and those that a session's specs ask for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/cli/cli.h"
#include "patcher/tracers/tracer.h"

/* One row for each tracer: its name. */
#define TRACERS(ROW) ROW(kmem)

#define DECLARATION(name) extern const struct tracer_ops tracer_##name;
#define ADDRESS(name) &tracer_##name,

TRACERS(DECLARATION)
static const struct tracer_ops *const tracers[] = {TRACERS(ADDRESS)};

enum { WORD_SIZE = 64, NR_TRACERS = sizeof(tracers) / sizeof(tracers[0]) };

static int unknown(const char *what, const char *word, const char *const *known, struct error *err)
{
	const char *nearest = text_nearest(word, known);
	char list[160] = "";
	size_t used = 0;

	if (nearest)
		return error_set(err, EINVAL, "unknown %s '%s': did you mean '%s'?", what, word,
				 nearest);
	for (; *known && used < sizeof(list); known++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "",
					 *known);
	return error_set(err, EINVAL, "unknown %s '%s'; known: %s", what, word, list);
}

/* Copy the word up to `end`; advances *text past the word. */
static int next_word(const char **text, char end, char word[WORD_SIZE], struct error *err)
{
	size_t n = strcspn(*text, (const char[]){end, '\0'});

	if (n == 0 || n >= WORD_SIZE)
		return error_set(err, EINVAL, "trace spec has %s: use NAME[:FILTER,...]",
				 n ? "a word too long" : "an empty word");
	memcpy(word, *text, n);
	word[n] = '\0';
	*text += n;
	return 0;
}

static int find_tracer(const char *word, size_t *out, struct error *err)
{
	const char *names[NR_TRACERS + 1] = {0};

	for (*out = 0; *out < NR_TRACERS; (*out)++) {
		names[*out] = tracers[*out]->name;
		if (!strcmp(word, tracers[*out]->name))
			return 0;
	}
	return unknown("tracer", word, names, err);
}

/* Which tracer a spec names, and its arguments, which are NULL without a colon. */
static int parse_spec(const char *spec, size_t *tracer, const char **args, struct error *err)
{
	char word[WORD_SIZE];
	int ret = next_word(&spec, ':', word, err);

	if (!ret)
		ret = find_tracer(word, tracer, err);
	if (ret)
		return ret;
	*args = *spec ? spec + 1 : NULL;
	return tracers[*tracer]->check(*args, err);
}

int tracer_check_spec(const char *spec, struct error *err)
{
	const char *args;
	size_t tracer;

	return parse_spec(spec, &tracer, &args, err);
}

int tracer_parse_words(const char *args, const char *const *words, uint32_t *out, struct error *err)
{
	char word[WORD_SIZE];

	*out = 0;
	while (args) {
		size_t i = 0;
		int ret = next_word(&args, ',', word, err);

		if (ret)
			return ret;
		while (words[i] && strcmp(word, words[i]))
			i++;
		if (!words[i])
			return unknown("filter", word, words, err);
		*out |= UINT32_C(1) << i;
		args = *args ? args + 1 : NULL;
	}
	return 0;
}

/* Create tracer number `tracer` if any spec names it. */
static int create_tracer(struct tracer_set *set, size_t tracer, const char *const *specs,
			 size_t nr_specs, const struct tracer_context *context, struct error *err)
{
	const char **args = calloc(nr_specs + 1, sizeof(*args)), *own;
	size_t n = 0, named;
	int ret = args ? 0 : error_set(err, ENOMEM, "out of memory");

	for (size_t i = 0; !ret && i < nr_specs; i++) {
		ret = parse_spec(specs[i], &named, &own, err);
		if (!ret && named == tracer)
			args[n++] = own;
	}
	if (!ret && n) {
		ret = tracers[tracer]->create(context, args, n, &set->v[set->n], err);
		set->n += !ret;
	}
	free(args);
	return ret;
}

static int list_probes(struct tracer_set *set, struct error *err)
{
	size_t total = 0, n;

	for (size_t t = 0; t < set->n; t++) {
		set->v[t]->ops->probes(set->v[t], &n);
		total += n;
	}
	set->refs = calloc(total + 1, sizeof(*set->refs));
	if (!set->refs)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t t = 0; t < set->n; t++) {
		const struct probe *probes = set->v[t]->ops->probes(set->v[t], &n);

		for (size_t i = 0; i < n; i++, set->nr_refs++)
			set->refs[set->nr_refs] =
				(struct probe_ref){set->v[t], &probes[i], (uint32_t)set->nr_refs};
	}
	return 0;
}

static int list_gaps(struct tracer_set *set, struct error *err)
{
	for (size_t t = 0; t < set->n; t++) {
		const struct tracer_ops *ops = set->v[t]->ops;
		const struct probe_gap *gaps;
		struct probe_gap *all;
		size_t n;

		if (!ops->gaps)
			continue;
		gaps = ops->gaps(set->v[t], &n);
		all = reallocarray(set->gaps, set->nr_gaps + n + 1, sizeof(*all));
		if (!all)
			return error_set(err, ENOMEM, "out of memory");
		set->gaps = all;
		memcpy(all + set->nr_gaps, gaps, n * sizeof(*all));
		set->nr_gaps += n;
	}
	return 0;
}

int tracer_set_create(struct tracer_set *set, const char *const *specs, size_t nr_specs,
		      const struct tracer_context *context, struct error *err)
{
	int ret = 0;

	*set = (struct tracer_set){.v = calloc(NR_TRACERS, sizeof(struct tracer *))};
	if (!set->v)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; !ret && i < NR_TRACERS; i++)
		ret = create_tracer(set, i, specs, nr_specs, context, err);
	if (!ret)
		ret = list_probes(set, err);
	if (!ret)
		ret = list_gaps(set, err);
	if (ret)
		tracer_set_destroy(set);
	return ret;
}

void tracer_set_destroy(struct tracer_set *set)
{
	for (size_t i = 0; i < set->n; i++)
		set->v[i]->ops->destroy(set->v[i]);
	free(set->gaps);
	free(set->refs);
	free(set->v);
	*set = (struct tracer_set){0};
}
