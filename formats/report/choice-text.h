/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_REPORT_CHOICE_TEXT_H
#define SONDE_FORMATS_REPORT_CHOICE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include "formats/base/text.h"
#include "formats/cli/options.h"
#include "formats/report/event-selection.h"

/* What a user chose of a trace: "from 5.000 s to before 10.000 s, events kmalloc or kfree"; "" if
 * it is the whole trace. */
struct text event_choice_text(const struct event_choice *choice, const struct cli_time_range *time);

struct option_given {
	bool given;
	const char *option;
};
/* "--event and --filter choose", of those that the user has given; "" if there are none. */
struct text options_choose_text(const struct option_given *options, size_t n);

#endif
