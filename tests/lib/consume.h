/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_CONSUME_H
#define SONDE_TESTS_LIB_CONSUME_H

#include "formats/trace/reader.h"

/* Read all of a trace, through all analyses, and print what they found nowhere; for fuzz targets.
 * Aborts without memory. */
void consume_trace(struct trace_reader *reader);

#endif
