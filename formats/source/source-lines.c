/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/source/source-lines.h"

#include <stdarg.h>
#include <stdio.h>

void source_lines_destroy(struct source_lines *lines)
{
	if (lines)
		lines->destroy(lines);
}

/* What does not fit is cut. */
static void append(struct text *text, size_t *used, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void append(struct text *text, size_t *used, const char *fmt, ...)
{
	const size_t room = sizeof(text->s) - *used;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(text->s + *used, room, fmt, args);
	va_end(args);
	*used += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

struct text source_text(const struct source_frame *frames, size_t n)
{
	struct text text = {""};
	size_t used = 0;

	for (size_t i = 0; i < n; i++) {
		const struct source_frame *frame = &frames[i];

		if (i)
			append(&text, &used, " > %s ", *frame->function ? frame->function : "?");
		append(&text, &used, "%s:%u", *frame->file ? frame->file : "?", frame->line);
	}
	return text;
}

json_t *source_json(const struct source_frame *frames, size_t n)
{
	json_t *array = json_array();

	for (size_t i = 0; i < n; i++) {
		json_t *frame = json_pack("{ss ss sI}", "function", frames[i].function, "file",
					  frames[i].file, "line", (json_int_t)frames[i].line);

		if (json_array_append_new(array, frame)) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}
