/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The options with which users say what part of a trace they ask about, and by what. */
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/analysis/replay.h"
#include "formats/cli/cli.h"

int grouping_parse(const char *verb, const struct cli_option *option, const char *text,
		   const char *other, struct grouping *out)
{
	const char *words[NR_DIMENSIONS + 2] = {NULL};

	memcpy(words, dimension_names, NR_DIMENSIONS * sizeof(*words));
	words[NR_DIMENSIONS] = other;
	for (out->n = 0;; text++) {
		const char *end = strchrnul(text, ',');
		int word = cli_find_word(verb, option, text, end, words);

		if (word < 0)
			return CLI_USAGE;
		if (word == NR_DIMENSIONS)
			return cli_usage(verb,
					 "--%s %s stands alone: there are no other groups of %ss",
					 option->name, other, other);
		if (out->n == GROUPING_MAX)
			return cli_usage(verb, "--%s takes at most %d words", option->name,
					 GROUPING_MAX);
		for (size_t i = 0; i < out->n; i++)
			if (out->by[i] == (enum dimension)word)
				return cli_usage(verb, "--%s names %s twice", option->name,
						 words[word]);
		out->by[out->n++] = (enum dimension)word;
		if (!*end)
			return CLI_OK;
		text = end;
	}
}

const struct cli_option replay_view_options[] = {
	{.name = "type",
	 .letter = 't',
	 .value = "TYPE",
	 .help = "only objects of kmalloc, cache or pages",
	 .store = cli_store_choice,
	 .words = kmem_type_names,
	 .offset = offsetof(struct replay_view, type)},
	CLI_SINCE_OPTION(struct replay_view, since_init),
	CLI_KERNEL_OPTION(struct replay_view),
	CLI_LINES_OPTIONS(struct replay_view, lines, debug_file),
	{.name = NULL},
};

const char replay_view_notes[] =
	"Of memory, --event, --filter and --vcpu choose allocations, whatever frees them. Memory\n"
	"is that of one instance of the kmem tracer, the first if --instance is not given.\n";

const struct cli_option replay_time_options[] = {
	{.name = "time",
	 .value = "FROM,TO",
	 .help = "what happened from FROM to before TO seconds of the trace clock,\n"
		 "and what was live then; either may be left out",
	 .store = cli_store_time_range,
	 .offset = offsetof(struct replay_view, time)},
	{.name = "follow",
	 .letter = 'F',
	 .help = "go on while the trace is being recorded; on a terminal, show the\n"
		 "state each second",
	 .store = cli_store_flag,
	 .offset = offsetof(struct replay_view, follow)},
	{.name = NULL},
};
