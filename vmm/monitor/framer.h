/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MONITOR_FRAMER_H
#define SONDE_VMM_MONITOR_FRAMER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include "formats/base/error.h"
#include "vmm/monitor/qmp-syntax.h"

/*
 * Cuts a stream of untrusted bytes into QMP messages and parses them; used by both ends, and by the
 * fuzzer. Messages need not be separated; between them, white space is skipped. After malformed
 * input, the rest of that line is skipped.
 */
struct qmp_framer {
	struct qmp_syntax syntax;
	size_t limit; /* longest message, bytes */
	char *text;   /* the message so far */
	size_t len, room;
	bool skipping; /* until the end of a malformed line */
};

/* For messages of up to `limit` bytes; memory comes with them and goes with qmp_framer_deinit(). */
void qmp_framer_init(struct qmp_framer *framer, size_t limit);
void qmp_framer_deinit(struct qmp_framer *framer);

/*
 * Take bytes up to the end of the first message in them; *used says how many, so call again with
 * the rest. Returns 1 with *out a new reference to an object or array, 0 when all bytes were taken
 * and no message has ended, -EBADMSG (not JSON, or nested too deep), -EMSGSIZE (longer than the
 * limit) or -ENOMEM. It may go on after each error.
 */
int qmp_framer_feed(struct qmp_framer *framer, const char *data, size_t size, size_t *used,
		    json_t **out, struct error *err);

#endif
