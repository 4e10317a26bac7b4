/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/tracers/registry.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "formats/cli/cli.h"
#include "patcher/tracers/kmem/kmem.h"

static const struct tracer_ops *const tracers[] = {&tracer_kmem, NULL};

enum { WORD_SIZE = 64, MAX_TRACERS = sizeof(tracers) / sizeof(tracers[0]) };

static int unknown(const char *what, const char *word, const char *const *known, struct error *err)
{
	const char *nearest = cli_nearest(word, known);
	char list[160] = "";
	size_t used = 0;

	if (nearest)
		return error_set(err, EINVAL, "unknown %s '%s': did you mean '%s'?", what, word,
				 nearest);
	for (; *known && used < sizeof(list); known++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "",
					 *known);
	return error_set(err, EINVAL, "unknown %s '%s': known are %s", what, word, list);
}

static int find_tracer(const char *word, const struct tracer_ops **out, struct error *err)
{
	const char *names[MAX_TRACERS] = {0};

	for (size_t i = 0; tracers[i]; i++) {
		names[i] = tracers[i]->name;
		if (!strcmp(word, tracers[i]->name)) {
			*out = tracers[i];
			return 0;
		}
	}
	return unknown("tracer", word, names, err);
}

static int find_filter(const struct tracer_ops *ops, const char *word, uint32_t *out,
		       struct error *err)
{
	for (size_t i = 0; ops->filters[i]; i++)
		if (!strcmp(word, ops->filters[i])) {
			*out |= 1u << i;
			return 0;
		}
	return unknown("filter", word, ops->filters, err);
}

/* Copy the word up to one of `ends`; advances *text past the end character. */
static int next_word(const char **text, const char *ends, char word[WORD_SIZE], struct error *err)
{
	size_t n = strcspn(*text, ends);

	if (n == 0 || n >= WORD_SIZE)
		return error_set(err, EINVAL, "trace spec has %s: use NAME[:FILTER,...]",
				 n ? "a word too long" : "an empty word");
	memcpy(word, *text, n);
	word[n] = '\0';
	*text += n;
	return 0;
}

int trace_spec_parse(const char *text, struct trace_spec *out, struct error *err)
{
	char word[WORD_SIZE];
	int ret = next_word(&text, ":", word, err);

	*out = (struct trace_spec){0};
	if (!ret)
		ret = find_tracer(word, &out->ops, err);
	while (!ret && *text) {
		text++;
		ret = next_word(&text, ",", word, err);
		if (!ret)
			ret = find_filter(out->ops, word, &out->filters, err);
	}
	return ret;
}
