/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/consume.h"

#include <stdlib.h>
#include "formats/analysis/analysis.h"
#include "formats/analysis/check.h"

void consume_trace(struct trace_reader *reader)
{
	struct analysis *analysis = analysis_create(ANALYSIS_BY_CACHE, ANALYSIS_ALL_TYPES);
	struct check *check = check_create(true, false);
	const struct analysis_group *groups;
	struct trace_event event;

	while (trace_reader_next(reader, &event, NULL) > 0) {
		if (analysis_add(analysis, &event) ||
		    check_add(check, &event, trace_reader_cut(reader)))
			abort();
	}
	check_streams(check, reader);
	analysis_sort(analysis, ANALYSIS_SORT_FRAGMENTATION, &groups);
	check_destroy(check);
	analysis_destroy(analysis);
}
