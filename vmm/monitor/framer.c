/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/monitor/framer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_FIRST = 1024, ROOM_KEPT = 64 * 1024 };

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
	enum qmp_syntax_result result = qmp_syntax_byte(&framer->syntax, c);
	int ret = 0;

	if (result == QMP_SYNTAX_BAD || result == QMP_SYNTAX_TOO_DEEP)
		ret = malformed(framer, result == QMP_SYNTAX_TOO_DEEP, err);
	else if (framer->syntax.state != QMP_SYNTAX_START)
		ret = append(framer, c, err);
	if (ret < 0)
		framer->skipping = c != '\n';
	else if (result == QMP_SYNTAX_DONE)
		ret = parse(framer, out, err);
	if (ret < 0 || result == QMP_SYNTAX_DONE)
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
