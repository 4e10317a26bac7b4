/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The exports. This file alone knows them; to add one, add a row. */
#include "formats/export/export.h"

/* What users call an export, and NAME of its operations, NAME_exporter. */
#define EXPORTERS(ROW)                                                          \
	ROW("trace.dat", trace_dat)                                             \
	ROW("perfetto", perfetto)                                               \
	ROW("jsonl", jsonl)                                                     \
	ROW("csv", csv)                                                         \
	ROW("folded", folded) ROW("flamegraph", flamegraph) ROW("pprof", pprof) \
		ROW("parquet", parquet) ROW("parquet-sites", parquet_sites)     \
			ROW("rowbinary", rowbinary) ROW("rowbinary-sites", rowbinary_sites)

#define DECLARE(name, id) extern const struct exporter_ops id##_exporter;
#define NAME(name, id) name,
#define EXPORTER(name, id) &id##_exporter,

EXPORTERS(DECLARE)

const char *const exporter_names[] = {EXPORTERS(NAME) NULL};
const struct exporter_ops *const exporters[] = {EXPORTERS(EXPORTER) NULL};
