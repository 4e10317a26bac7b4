/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MONITOR_METRICS_H
#define SONDE_VMM_MONITOR_METRICS_H

#include <jansson.h>
#include <stdio.h>

/* Print the reply to query-trace as metrics, in the text format of Prometheus. The peer may have
 * sent anything. */
void metrics_print(FILE *out, const json_t *trace);

#endif
