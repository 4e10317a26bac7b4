/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/ctf/metadata.h"
#include "formats/ctf/ctf.h"

/*
 * No TSDL parser: the layout of packets and events must be, to the letter, the one that this
 * program writes, and the few things that differ stand in a line each, as ctf-metadata.c writes
 * them. Strings in the text have no line breaks, so that none can pass for such a line.
 */
enum { LINE_MAX = 160 };

/*
 * The value of the first line "<key> = <value>;", without quotes. Returns false if there is none
 * or it is too long.
 */
static bool find_value(const char *text, const char *key, char *value, size_t size)
{
	size_t length = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		const char *end;

		line += strspn(line, "\n\t ");
		if (strncmp(line, key, length) || strncmp(line + length, " = ", 3))
			continue;
		line += length + 3;
		line += *line == '"';
		end = line + strcspn(line, "\";\n");
		if ((size_t)(end - line) >= size)
			return false;
		memcpy(value, line, (size_t)(end - line));
		value[end - line] = '\0';
		return true;
	}
	return false;
}

static bool parse_uuid(const char *text, uint8_t uuid[CTF_UUID_SIZE])
{
	static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
	size_t n = 0;

	if (strlen(text) != strlen(form))
		return false;
	for (size_t i = 0; form[i]; i++) {
		char digits[3] = {text[i], form[i] == 'x' ? text[i + 1] : '\0'};

		if (form[i] == '-' && text[i] != '-')
			return false;
		if (form[i] == '-')
			continue;
		if (strspn(digits, "0123456789abcdefABCDEF") != 2)
			return false;
		uuid[n++] = (uint8_t)strtoul(digits, NULL, 16);
		i++;
	}
	return true;
}

static int refuse(struct error *err, const char *why)
{
	return error_set(err, EINVAL, "%s: %s", CTF_METADATA_NAME, why);
}

static int check_tracer(const char *text, struct error *err)
{
	char value[LINE_MAX], name[LINE_MAX];

	if (!find_value(text, "tracer_name", value, sizeof(value)))
		return refuse(err, "does not name the tracer, so it was not sonde; "
				   "babeltrace2 reads every CTF trace");
	clean_text(name, sizeof(name), value);
	if (strcmp(name, "sonde"))
		return error_set(err, EINVAL,
				 "%s: a CTF trace of '%s', not of sonde; babeltrace2 reads it",
				 CTF_METADATA_NAME, name);
	if (!find_value(text, "sonde_format", value, sizeof(value)))
		return refuse(err, "has no sonde_format");
	if (strtol(value, NULL, 10) != CTF_VERSION) {
		clean_text(name, sizeof(name), value);
		return error_set(err, EINVAL, "%s: sonde_format %s; this program reads %d",
				 CTF_METADATA_NAME, name, CTF_VERSION);
	}
	return 0;
}

static int check_layout(const char *text, struct error *err)
{
	char *layout = ctf_metadata_layout();
	size_t size = layout ? strlen(layout) : 0, text_size = strlen(text);
	bool same = layout && text_size >= size && !strcmp(text + text_size - size, layout);

	if (!layout)
		return error_set(err, ENOMEM, "out of memory");
	free(layout);
	return same ? 0 : refuse(err, "damaged, or changed: it does not describe sonde's events");
}

static int parse_text(const char *text, struct ctf_identity *identity, struct error *err)
{
	static const uint8_t packets[2][4] = {{0x57, 0x1d, 0xd1, 0x75}, {0x75, 0xd1, 0x1d, 0x57}};
	char value[LINE_MAX];
	int ret;

	if (!memcmp(text, packets[0], 4) || !memcmp(text, packets[1], 4))
		return refuse(err, "in packets, so it was not sonde that wrote it; "
				   "babeltrace2 reads it");
	if (strncmp(text, "/* CTF 1.8", strlen("/* CTF 1.8")))
		return refuse(err, "does not begin with /* CTF 1.8");
	ret = check_tracer(text, err);
	if (ret)
		return ret;
	if (!find_value(text, "uuid", value, sizeof(value)) || !parse_uuid(value, identity->uuid))
		return refuse(err, "has no valid uuid");
	if (!find_value(text, "byte_order", value, sizeof(value)) ||
	    (strcmp(value, "le") && strcmp(value, "be")))
		return refuse(err, "has no valid byte_order");
	identity->big_endian = !strcmp(value, "be");
	return check_layout(text, err);
}

int ctf_metadata_parse(const void *text, size_t size, struct ctf_identity *identity,
		       struct error *err)
{
	char *copy = calloc(1, size + 4);
	int ret;

	if (!copy)
		return error_set(err, ENOMEM, "out of memory");
	memcpy(copy, text, size);
	ret = parse_text(copy, identity, err);
	free(copy);
	return ret;
}
