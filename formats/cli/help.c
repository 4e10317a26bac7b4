/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/cli/help.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

struct flow {
	size_t width, at;
};

static size_t width_of_output(void)
{
	struct winsize size;

	if (ioctl(fileno(stdout), TIOCGWINSZ, &size) || !size.ws_col || size.ws_col >= HELP_WIDTH)
		return SIZE_MAX;
	return size.ws_col;
}

static void begin_line(struct flow *flow, size_t indent)
{
	printf("\n%*s", (int)indent, "");
	flow->at = indent;
}

/* One line of a text, behind `gap` blanks. */
static void put_line(struct flow *flow, const char *line, size_t size, size_t gap, size_t indent)
{
	for (const char *end = line + size; line < end;) {
		const size_t blanks = strspn(line, " ");
		const size_t word = strcspn(line + blanks, " \n");

		gap += blanks;
		if (flow->at > indent && flow->at + gap + word > flow->width) {
			begin_line(flow, indent);
			gap = 0;
		}
		printf("%*s%.*s", (int)gap, "", (int)word, line + blanks);
		flow->at += gap + word;
		line += blanks + word;
		gap = 0;
	}
}

void help_print(const char *text, size_t column)
{
	struct flow flow = {width_of_output(), column};
	bool goes_on = false;

	for (const char *line = text; *line;) {
		const size_t size = strcspn(line, "\n");
		const bool is_plain = size && *line != ' ';
		const bool joins = goes_on && is_plain && flow.width != SIZE_MAX;

		if (line > text && !joins)
			begin_line(&flow, size ? column : 0);
		put_line(&flow, line, size, joins, column + strspn(line, " "));
		goes_on = is_plain;
		line += size + (line[size] == '\n');
	}
	putchar('\n');
}
