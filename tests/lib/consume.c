/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/consume.h"

#include <errno.h>
#include <stdlib.h>
#include "formats/analysis/analysis.h"

enum { MAX_ANALYSES = 16 };

static void show(const struct analysis *analysis, FILE *out)
{
	json_t *root = json_object();

	analysis->ops->print_text(analysis, out);
	if (analysis->ops->put_json(analysis, root))
		abort();
	json_decref(root);
}

/* Those that the trace has something for; returns how many. */
static size_t create_all(const struct replay *replay, const struct analysis_options *options,
			 struct analysis *out[MAX_ANALYSES])
{
	size_t n = 0;

	for (size_t i = 0; analysis_table[i] && n < MAX_ANALYSES; i++) {
		const int ret = analysis_create(analysis_table[i], replay, options, &out[n], NULL);

		if (ret && ret != -EINVAL)
			abort();
		n += !ret;
	}
	return n;
}

void consume_trace(struct trace_reader *reader)
{
	const struct replay_view view = REPLAY_ALL;
	const struct analysis_options options = {.dir = "trace",
						 .by = {{BY_CACHE, BY_SIZE}, 2},
						 .sort = MEASURE_FRAGMENTATION,
						 .allocator = "slub-6.1",
						 .top = 10,
						 .verbose = true};
	struct analysis *analyses[MAX_ANALYSES];
	struct replay replay;
	size_t n;
	FILE *out = fopen("/dev/null", "w");

	if (!out || replay_begin(&replay, reader, &view, NULL) || replay_select(&replay, NULL))
		abort();
	n = create_all(&replay, &options, analyses);
	if (replay_run(&replay, analyses, n, NULL))
		abort();
	for (size_t i = 0; i < n; i++) {
		show(analyses[i], out);
		analysis_destroy(analyses[i]);
	}
	replay_close(&replay);
	fclose(out);
}
