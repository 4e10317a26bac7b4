/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/monitor/framer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_FIRST = 1024, ROOM_KEPT = 64 * 1024 };

/* --- where a message ends --------------------------------------------------------------------- */

enum syntax_result {
	SYNTAX_MORE,
	SYNTAX_DONE, /* the byte is the last of a message */
	SYNTAX_BAD,  /* no JSON goes on with this byte */
	SYNTAX_TOO_DEEP,
};

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_word(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '-' || c == '+' || c == '.';
}

static enum syntax_result open_level(struct qmp_syntax *s, bool array)
{
	uint64_t bit;

	if (s->depth == QMP_SYNTAX_MAX_DEPTH)
		return SYNTAX_TOO_DEEP;
	bit = UINT64_C(1) << s->depth++;
	s->arrays = array ? s->arrays | bit : s->arrays & ~bit;
	s->state = array ? QMP_SYNTAX_VALUE_OR_END : QMP_SYNTAX_KEY_OR_END;
	return SYNTAX_MORE;
}

static bool in_array(const struct qmp_syntax *s)
{
	return s->arrays >> (s->depth - 1) & 1;
}

static enum syntax_result close_level(struct qmp_syntax *s, char c)
{
	if (c != (in_array(s) ? ']' : '}'))
		return SYNTAX_BAD;
	s->state = QMP_SYNTAX_NEXT;
	return --s->depth ? SYNTAX_MORE : SYNTAX_DONE;
}

static enum syntax_result open_string(struct qmp_syntax *s, char c, bool key)
{
	if (c != '"')
		return SYNTAX_BAD;
	s->state = QMP_SYNTAX_STRING;
	s->key = key;
	return SYNTAX_MORE;
}

static void word_byte(struct qmp_syntax *s, char c)
{
	if (s->word_len < sizeof(s->word))
		s->word[s->word_len++] = c;
}

static bool word_is_sane(const struct qmp_syntax *s)
{
	char first = s->word[0];

	if (first == '-' || (first >= '0' && first <= '9'))
		return true;
	return (s->word_len == 4 && !memcmp(s->word, "true", 4)) ||
	       (s->word_len == 4 && !memcmp(s->word, "null", 4)) ||
	       (s->word_len == 5 && !memcmp(s->word, "false", 5));
}

static enum syntax_result open_value(struct qmp_syntax *s, char c)
{
	if (c == '{' || c == '[')
		return open_level(s, c == '[');
	if (!is_word(c))
		return open_string(s, c, false);
	s->state = QMP_SYNTAX_WORD;
	s->word_len = 0;
	word_byte(s, c);
	return SYNTAX_MORE;
}

static enum syntax_result string_byte(struct qmp_syntax *s, char c)
{
	if ((unsigned char)c < 0x20)
		return SYNTAX_BAD;
	if (s->escaped)
		s->escaped = false;
	else if (c == '\\')
		s->escaped = true;
	else if (c == '"')
		s->state = s->key ? QMP_SYNTAX_COLON : QMP_SYNTAX_NEXT;
	return SYNTAX_MORE;
}

static enum syntax_result next_byte(struct qmp_syntax *s, char c)
{
	if (c != ',')
		return close_level(s, c);
	s->state = in_array(s) ? QMP_SYNTAX_VALUE : QMP_SYNTAX_KEY;
	return SYNTAX_MORE;
}

static enum syntax_result token(struct qmp_syntax *s, char c)
{
	switch (s->state) {
	case QMP_SYNTAX_START:
		return c == '{' || c == '[' ? open_level(s, c == '[') : SYNTAX_BAD;
	case QMP_SYNTAX_VALUE_OR_END:
		return c == ']' ? close_level(s, c) : open_value(s, c);
	case QMP_SYNTAX_VALUE:
		return open_value(s, c);
	case QMP_SYNTAX_KEY_OR_END:
		return c == '}' ? close_level(s, c) : open_string(s, c, true);
	case QMP_SYNTAX_KEY:
		return open_string(s, c, true);
	case QMP_SYNTAX_COLON:
		s->state = QMP_SYNTAX_VALUE;
		return c == ':' ? SYNTAX_MORE : SYNTAX_BAD;
	default:
		return next_byte(s, c);
	}
}

/* Take one byte. After anything but MORE, *s is to be zeroed before the next. */
static enum syntax_result syntax_byte(struct qmp_syntax *s, char c)
{
	if (s->state == QMP_SYNTAX_STRING)
		return string_byte(s, c);
	if (s->state == QMP_SYNTAX_WORD) {
		if (is_word(c)) {
			word_byte(s, c);
			return SYNTAX_MORE;
		}
		if (!word_is_sane(s))
			return SYNTAX_BAD;
		s->state = QMP_SYNTAX_NEXT;
	}
	return is_space(c) ? SYNTAX_MORE : token(s, c);
}

/* --- messages ----------------------------------------------------------------------------------
 */

void qmp_framer_init(struct qmp_framer *framer, size_t limit)
{
	*framer = (struct qmp_framer){.limit = limit};
}

void qmp_framer_deinit(struct qmp_framer *framer)
{
	free(framer->text);
	framer->text = NULL;
}

/* Ready for the next message; one long message must not pin its memory for the connection's life.
 */
static void start_over(struct qmp_framer *framer)
{
	framer->syntax = (struct qmp_syntax){0};
	framer->len = 0;
	if (framer->room > ROOM_KEPT) {
		free(framer->text);
		framer->text = NULL;
		framer->room = 0;
	}
}

static int append(struct qmp_framer *framer, char c, struct error *err)
{
	if (framer->len == framer->limit)
		return error_set(err, EMSGSIZE, "message longer than %zu bytes", framer->limit);
	if (framer->len == framer->room) {
		size_t room = framer->room ? framer->room * 2 : ROOM_FIRST;
		char *text = realloc(framer->text, room);

		if (!text)
			return error_set(err, ENOMEM, "out of memory for a message");
		framer->text = text;
		framer->room = room;
	}
	framer->text[framer->len++] = c;
	return 0;
}

static int parse(struct qmp_framer *framer, json_t **out, struct error *err)
{
	json_error_t where;

	*out = json_loadb(framer->text, framer->len, JSON_REJECT_DUPLICATES, &where);
	if (!*out)
		return error_set(err, EBADMSG, "invalid JSON: %s", where.text);
	return 1;
}

static int malformed(const struct qmp_framer *framer, bool too_deep, struct error *err)
{
	if (too_deep)
		return error_set(err, EBADMSG, "JSON nested deeper than %d levels",
				 QMP_SYNTAX_MAX_DEPTH);
	return error_set(err, EBADMSG, "invalid JSON: unexpected character after %zu bytes",
			 framer->len);
}

static int take(struct qmp_framer *framer, char c, json_t **out, struct error *err)
{
	enum syntax_result result = syntax_byte(&framer->syntax, c);
	int ret = 0;

	if (result == SYNTAX_BAD || result == SYNTAX_TOO_DEEP)
		ret = malformed(framer, result == SYNTAX_TOO_DEEP, err);
	else if (framer->syntax.state != QMP_SYNTAX_START)
		ret = append(framer, c, err);
	if (ret < 0)
		framer->skipping = c != '\n';
	else if (result == SYNTAX_DONE)
		ret = parse(framer, out, err);
	if (ret < 0 || result == SYNTAX_DONE)
		start_over(framer);
	return ret;
}

int qmp_framer_feed(struct qmp_framer *framer, const char *data, size_t size, size_t *used,
		    json_t **out, struct error *err)
{
	for (size_t i = 0; i < size; i++) {
		int ret = 0;

		if (framer->skipping)
			framer->skipping = data[i] != '\n';
		else
			ret = take(framer, data[i], out, err);
		if (ret) {
			*used = i + 1;
			return ret;
		}
	}
	*used = size;
	return 0;
}
