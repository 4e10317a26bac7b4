/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_ANALYSIS_COMMAND_H
#define SONDE_FORMATS_ANALYSIS_COMMAND_H

#include <stdint.h>
#include <stdio.h>
#include "formats/analysis/replay.h"

/* Commands that go on from what was shown: about the same part of the trace. */
struct command {
	const char *verb;   /* with options of its own: "report --by cache" */
	const char *filter; /* of allocations, beside the user's; NULL: none */
	int64_t older_ns;   /* for --older, in whole ms; less than one: left out */
};

/* Print the command as a user can paste it into a shell, with the options that chose what is
 * replayed and the trace `dir`. */
void command_print(FILE *out, const struct replay *replay, const struct command *command,
		   const char *dir);

/* The same of sonde events, which knows fewer of these options: --since init becomes a time. */
void command_print_events(FILE *out, const struct replay *replay, const char *options,
			  const char *dir);

/* The same of `sonde report --analysis NAME`, of calls or events: what chose allocations is left
 * out.
 */
void command_print_report(FILE *out, const struct replay *replay, const char *analysis,
			  const char *dir);

#endif
