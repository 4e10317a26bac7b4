/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/report/parts.h"

#include <stdarg.h>
#include <string.h>
#include "formats/report/table.h"

void parts_add(struct parts *parts, const char *fmt, ...)
{
	va_list ap;

	if (parts->n == PARTS_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(parts->all[parts->n].s, sizeof(parts->all[parts->n].s), fmt, ap);
	va_end(ap);
	parts->n++;
}

void parts_print(const struct parts *parts, FILE *out, const char *label, int indent)
{
	const size_t width = terminal_width(out);
	size_t used = (size_t)indent;

	fprintf(out, "%-*s", indent, label);
	for (size_t i = 0; i < parts->n; i++) {
		const char *part = parts->all[i].s, *comma = i + 1 < parts->n ? "," : "";
		const size_t size = strlen(part) + strlen(comma);

		if (i && width && used + 1 + size > width) {
			fprintf(out, "\n%*s", indent, "");
			used = (size_t)indent;
		} else if (i) {
			fputc(' ', out);
			used++;
		}
		fprintf(out, "%s%s", part, comma);
		used += size;
	}
	fputc('\n', out);
}
