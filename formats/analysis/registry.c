/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The analyses. This file alone knows them; to add one, add a row. */
#include "formats/analysis/analysis.h"

/* NAME is what users call an analysis; NAME_analysis are its operations. The first is the default.
 */
#define ANALYSES(ROW)                                                                \
	ROW(kmem)                                                                    \
	ROW(overview) ROW(leaks) ROW(timeline) ROW(history) ROW(check) ROW(syscalls) \
		ROW(functions) ROW(events) ROW(allocators)

#define DECLARE(name) extern const struct analysis_ops name##_analysis;
#define NAME(name) #name,
#define ANALYSIS(name) &name##_analysis,

ANALYSES(DECLARE)

const char *const analysis_names[] = {ANALYSES(NAME) NULL};
const struct analysis_ops *const analysis_table[] = {ANALYSES(ANALYSIS) NULL};

_Static_assert(sizeof(analysis_table) / sizeof(analysis_table[0]) == NR_ANALYSES + 1,
	       "analysis.h has the number of rows");
