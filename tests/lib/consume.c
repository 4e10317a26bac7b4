/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/consume.h"

#include <stdlib.h>
#include "formats/analysis/analysis.h"

enum { MAX_ANALYSES = 16 };

void consume_trace(struct trace_reader *reader)
{
	const struct analysis_config config = {.reader = reader, .choice = {1, 3, -1}, .top = 10};
	struct analysis *analyses[MAX_ANALYSES];
	size_t n = 0;
	FILE *out = fopen("/dev/null", "w");

	for (; analysis_table[n] && n < MAX_ANALYSES; n++) {
		if (analysis_create(analysis_table[n], &config, &analyses[n], NULL))
			abort();
	}
	if (!out || analysis_run(reader, analyses, n, NULL))
		abort();
	for (size_t i = 0; i < n; i++) {
		analyses[i]->ops->print_text(analyses[i], out);
		json_decref(analyses[i]->ops->print_json(analyses[i]));
		analysis_destroy(analyses[i]);
	}
	fclose(out);
}
