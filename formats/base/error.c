/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int fill(struct error *err, int code, const char *fmt, va_list ap)
{
	if (!err)
		return -code;
	err->code = code;
	err->has_address = false;
	err->address = 0;
	err->column = 0;
	err->parsed = NULL;
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	return -code;
}

int error_set(struct error *err, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fill(err, code, fmt, ap);
	va_end(ap);
	return -code;
}

int error_set_at(struct error *err, int code, uint64_t address, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fill(err, code, fmt, ap);
	va_end(ap);
	if (err) {
		err->has_address = true;
		err->address = address;
	}
	return -code;
}

int error_set_column(struct error *err, int code, unsigned int column, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fill(err, code, fmt, ap);
	va_end(ap);
	if (err)
		err->column = column;
	return -code;
}

int error_prefix(struct error *err, const char *fmt, ...)
{
	char text[sizeof(err->text)];
	va_list ap;
	size_t used;

	if (!err)
		return -1;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	used = strlen(text);
	snprintf(text + used, sizeof(text) - used, "%s", err->text);
	memcpy(err->text, text, sizeof(text));
	return -err->code;
}
