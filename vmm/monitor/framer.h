/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MONITOR_FRAMER_H
#define SONDE_VMM_MONITOR_FRAMER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"

/*
 * A push automaton over the punctuation of JSON (RFC 8259). It finds the end of a top-level object
 * or array, because QMP messages need no separator. It refuses a wrong token at that byte, so that
 * a malformed line does not swallow the next one. Inside numbers and escapes it accepts more than
 * JSON: the parser checks those when the message is complete.
 */
enum { QMP_SYNTAX_MAX_DEPTH = 64 };

enum qmp_syntax_state {
	QMP_SYNTAX_START, /* before the opening brace or bracket */
	QMP_SYNTAX_VALUE,
	QMP_SYNTAX_VALUE_OR_END,
	QMP_SYNTAX_KEY,
	QMP_SYNTAX_KEY_OR_END,
	QMP_SYNTAX_COLON,
	QMP_SYNTAX_NEXT, /* a comma or the end */
	QMP_SYNTAX_STRING,
	QMP_SYNTAX_WORD, /* number, true, false, null */
};

/* All zero is the state before a message. */
struct qmp_syntax {
	enum qmp_syntax_state state;
	unsigned int depth;
	uint64_t arrays; /* bit n: level n is an array, not an object */
	bool key;        /* the string is an object's key */
	bool escaped;    /* the string's next byte follows a backslash */
	char word[6];    /* first letters of a word, to tell true, false and null from others */
	size_t word_len;
};

/*
 * Cuts a stream of untrusted bytes into QMP messages and parses them, for both ends of a
 * connection. White space between messages is skipped. After malformed input, the rest of the line
 * is skipped.
 */
struct qmp_framer {
	struct qmp_syntax syntax;
	size_t limit; /* longest message, bytes */
	char *text;   /* the message so far */
	size_t len, room;
	bool skipping; /* until the end of a malformed line */
};

/* For messages of up to `limit` bytes. */
void qmp_framer_init(struct qmp_framer *framer, size_t limit);
void qmp_framer_deinit(struct qmp_framer *framer);

/*
 * Take bytes up to the end of the first message in them; *used says how many. Call again with the
 * rest, also after an error. Returns
 *  1          *out is a new reference to an object or array
 *  0          all bytes were taken, and the message is not complete
 *  -EBADMSG   not JSON, or nested too deep
 *  -EMSGSIZE  longer than the limit
 *  -ENOMEM
 */
int qmp_framer_feed(struct qmp_framer *framer, const char *data, size_t size, size_t *used,
		    json_t **out, struct error *err);

#endif
