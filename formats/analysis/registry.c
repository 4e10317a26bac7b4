/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The analyses and checks. This file alone knows them; to add one, add a row. */
#include "formats/analysis/analysis.h"
#include "formats/analysis/check.h"

/* NAME is what users call an analysis; NAME_analysis are its operations. The first is the default.
 */
#define ANALYSES(ROW) \
	ROW(kmem) ROW(overview) ROW(leaks) ROW(timeline) ROW(history) ROW(check) ROW(syscalls) ROW(functions)

/* check_NAME are a check's operations. In the order of output. */
#define CHECKS(ROW) ROW(kmem_records) ROW(time) ROW(kmem_lives) ROW(kmem_patterns) ROW(streams)

#define DECLARE_ANALYSIS(name) extern const struct analysis_ops name##_analysis;
#define DECLARE_CHECK(name) extern const struct check_ops check_##name;
#define NAME(name) #name,
#define ANALYSIS(name) &name##_analysis,
#define CHECK(name) &check_##name,

ANALYSES(DECLARE_ANALYSIS)
CHECKS(DECLARE_CHECK)

const char *const analysis_names[] = {ANALYSES(NAME) NULL};
const struct analysis_ops *const analysis_table[] = {ANALYSES(ANALYSIS) NULL};
const struct check_ops *const check_table[] = {CHECKS(CHECK) NULL};
