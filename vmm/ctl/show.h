/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_CTL_SHOW_H
#define SONDE_VMM_CTL_SHOW_H

#include <jansson.h>
#include <stdio.h>

/*
 * Print what a verb returned for people; an empty object prints nothing. The value comes from the
 * peer and may be anything: control characters are replaced, missing keys read as 0 or "?".
 */
void qmp_show(FILE *out, const char *verb, const json_t *result);

#endif
