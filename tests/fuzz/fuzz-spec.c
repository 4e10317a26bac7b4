/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Trace specs. Those that name a file are left out: fuzz-patterns has the text of files. */
#include <stdlib.h>
#include <string.h>
#include "patcher/tracers/spec.h"

static const char *const words[] = {"kmalloc", "return", "pages", NULL};
static const struct trace_alias aliases[] = {{"kfree", "kmalloc", "kfree"}, {NULL, NULL, NULL}};
static const struct trace_grammar grammars[] = {
	{"k", words, 0, NULL, aliases},
	{"f", words,
	 TRACE_TAKES_FUNCTIONS | TRACE_TAKES_PIDS | TRACE_TAKES_VCPUS | TRACE_TAKES_FILTER |
		 TRACE_TAKES_HIST,
	 NULL, NULL},
	{"p", NULL, TRACE_TAKES_PROBE | TRACE_TAKES_FILTER | TRACE_TAKES_HIST, NULL, NULL},
};

static void check_hist(const struct hist_action *h)
{
	if (!h->nr_keys || h->nr_keys > HIST_COLUMNS || h->nr_values > HIST_COLUMNS ||
	    h->size & (h->size - 1) || h->order.n > HIST_SORTS)
		abort();
	for (size_t i = 0; i < h->nr_keys; i++)
		if (!h->keys[i].name[0] ||
		    (h->keys[i].modifier == HIST_MOD_BUCKETS) != (h->keys[i].bucket > 0))
			abort();
	for (size_t i = 0; i < h->order.n; i++)
		if (h->order.by[i].column > h->nr_keys + h->nr_values)
			abort();
}

static void check_words(const struct trace_spec *spec)
{
	for (unsigned int i = 0; spec->words >> i; i++) {
		const unsigned int column = spec->word_columns[i];

		if (spec->words >> i & 1 &&
		    (!column || column > strlen(spec->text) ||
		     strncmp(spec->text + column - 1, words[i], strlen(words[i])) != 0))
			abort();
	}
}

/* What a caller may rely on. */
static void check(const struct trace_spec *spec, const char *text)
{
	if (strcmp(spec->text, text) != 0 || !spec->name[0] || spec->tracer > 2 || !spec->vcpus ||
	    spec->words > 7 || !spec->filter != !spec->filter_text)
		abort();
	check_words(spec);
	if (spec->hist)
		check_hist(spec->hist);
	for (size_t i = 1; i < spec->nr_pids; i++)
		if (spec->pids[i - 1] >= spec->pids[i])
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size);
	struct error err = {0};
	struct trace_spec spec;

	if (text && !strchr(text, '@')) {
		if (!trace_spec_parse(text, grammars, 3, &spec, &err)) {
			check(&spec, text);
			trace_spec_deinit(&spec);
		} else if (!err.column || err.column > strlen(text) + 1) {
			abort(); /* each error has a place in the text */
		}
	}
	free(text);
	return 0;
}
