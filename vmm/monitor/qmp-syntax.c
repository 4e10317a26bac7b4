/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/monitor/qmp-syntax.h"

#include <string.h>

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_word(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '-' || c == '+' || c == '.';
}

static enum qmp_syntax_result open_level(struct qmp_syntax *s, bool array)
{
	uint64_t bit;

	if (s->depth == QMP_SYNTAX_MAX_DEPTH)
		return QMP_SYNTAX_TOO_DEEP;
	bit = UINT64_C(1) << s->depth++;
	s->arrays = array ? s->arrays | bit : s->arrays & ~bit;
	s->state = array ? QMP_SYNTAX_VALUE_OR_END : QMP_SYNTAX_KEY_OR_END;
	return QMP_SYNTAX_MORE;
}

static bool in_array(const struct qmp_syntax *s)
{
	return s->arrays >> (s->depth - 1) & 1;
}

static enum qmp_syntax_result close_level(struct qmp_syntax *s, char c)
{
	if (c != (in_array(s) ? ']' : '}'))
		return QMP_SYNTAX_BAD;
	s->state = QMP_SYNTAX_NEXT;
	return --s->depth ? QMP_SYNTAX_MORE : QMP_SYNTAX_DONE;
}

static enum qmp_syntax_result open_string(struct qmp_syntax *s, char c, bool key)
{
	if (c != '"')
		return QMP_SYNTAX_BAD;
	s->state = QMP_SYNTAX_STRING;
	s->key = key;
	return QMP_SYNTAX_MORE;
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

static enum qmp_syntax_result open_value(struct qmp_syntax *s, char c)
{
	if (c == '{' || c == '[')
		return open_level(s, c == '[');
	if (!is_word(c))
		return open_string(s, c, false);
	s->state = QMP_SYNTAX_WORD;
	s->word_len = 0;
	word_byte(s, c);
	return QMP_SYNTAX_MORE;
}

static enum qmp_syntax_result string_byte(struct qmp_syntax *s, char c)
{
	if ((unsigned char)c < 0x20)
		return QMP_SYNTAX_BAD;
	if (s->escaped)
		s->escaped = false;
	else if (c == '\\')
		s->escaped = true;
	else if (c == '"')
		s->state = s->key ? QMP_SYNTAX_COLON : QMP_SYNTAX_NEXT;
	return QMP_SYNTAX_MORE;
}

static enum qmp_syntax_result next_byte(struct qmp_syntax *s, char c)
{
	if (c != ',')
		return close_level(s, c);
	s->state = in_array(s) ? QMP_SYNTAX_VALUE : QMP_SYNTAX_KEY;
	return QMP_SYNTAX_MORE;
}

static enum qmp_syntax_result token(struct qmp_syntax *s, char c)
{
	switch (s->state) {
	case QMP_SYNTAX_START:
		return c == '{' || c == '[' ? open_level(s, c == '[') : QMP_SYNTAX_BAD;
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
		return c == ':' ? QMP_SYNTAX_MORE : QMP_SYNTAX_BAD;
	default:
		return next_byte(s, c);
	}
}

enum qmp_syntax_result qmp_syntax_byte(struct qmp_syntax *s, char c)
{
	if (s->state == QMP_SYNTAX_STRING)
		return string_byte(s, c);
	if (s->state == QMP_SYNTAX_WORD) {
		if (is_word(c)) {
			word_byte(s, c);
			return QMP_SYNTAX_MORE;
		}
		if (!word_is_sane(s))
			return QMP_SYNTAX_BAD;
		s->state = QMP_SYNTAX_NEXT;
	}
	return is_space(c) ? QMP_SYNTAX_MORE : token(s, c);
}
