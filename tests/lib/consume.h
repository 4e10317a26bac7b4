/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_CONSUME_H
#define SONDE_TESTS_LIB_CONSUME_H

#include "formats/trace/reader.h"

/* Read all of a trace, through the analysis and the checks; for fuzz targets. Aborts without
 * memory. */
void consume_trace(struct trace_reader *reader);

#endif
