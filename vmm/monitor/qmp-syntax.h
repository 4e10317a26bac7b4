/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MONITOR_QMP_SYNTAX_H
#define SONDE_VMM_MONITOR_QMP_SYNTAX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A push automaton over the punctuation of JSON (RFC 8259). It finds where a top-level object or
 * array ends, because QMP messages need no separator, and it notices a wrong token at that byte, so
 * that one malformed line does not swallow the next. It takes more than JSON inside numbers and
 * escapes: the real parser judges those once the end is known.
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

enum qmp_syntax_result { QMP_SYNTAX_MORE, QMP_SYNTAX_DONE, QMP_SYNTAX_BAD, QMP_SYNTAX_TOO_DEEP };

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
 * Take one byte. DONE: it is the last of a message. BAD: no JSON can go on so. TOO_DEEP: it
 * nests deeper than QMP_SYNTAX_MAX_DEPTH. After each of these, set *s to zero before the next byte.
 */
enum qmp_syntax_result qmp_syntax_byte(struct qmp_syntax *s, char c);

#endif
