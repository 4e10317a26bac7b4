/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the reader takes from the file `metadata`. This is no TSDL parser: see ctf.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/crc32c.h"
#include "formats/base/json.h"
#include "formats/base/text.h"
#include "formats/ctf/ctf.h"
#include "formats/ctf/internal.h"
#include "formats/event/class-json.h"

enum { LINE_MAX = 160 };

int ctf_metadata_refuse(struct error *err, const char *why)
{
	return error_set(err, EINVAL, "%s: %s", CTF_METADATA_NAME, why);
}

/* --- identity and version -------------------------------------------------------------------- */

/*
 * The value of the first line "<key> = <value>;", without quotes. Returns false if there is none
 * or it is too long. Strings in the text have no line breaks, so that none can pass for such a
 * line.
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

int ctf_metadata_version(const char *text, long *version, struct error *err)
{
	static const uint8_t packets[2][4] = {{0x57, 0x1d, 0xd1, 0x75}, {0x75, 0xd1, 0x1d, 0x57}};
	char value[LINE_MAX], name[LINE_MAX];

	if (!strncmp(text, (const char *)packets[0], 4) ||
	    !strncmp(text, (const char *)packets[1], 4))
		return ctf_metadata_refuse(
			err, "is in packets, so sonde did not write it; babeltrace2 reads it");
	if (strncmp(text, "/* CTF 1.8", strlen("/* CTF 1.8")))
		return ctf_metadata_refuse(err, "does not begin with /* CTF 1.8");
	if (!find_value(text, "tracer_name", value, sizeof(value)))
		return ctf_metadata_refuse(
			err, "names no tracer, so sonde did not write it; babeltrace2 reads it");
	clean_text(name, sizeof(name), value);
	if (strcmp(name, "sonde"))
		return error_set(err, EINVAL,
				 "%s: a CTF trace of '%s', not of sonde; babeltrace2 reads it",
				 CTF_METADATA_NAME, name);
	if (!find_value(text, "sonde_format", value, sizeof(value)))
		return ctf_metadata_refuse(err, "has no sonde_format");
	*version = strtol(value, NULL, 10);
	if (*version == CTF_VERSION || *version == CTF_VERSION_2)
		return 0;
	clean_text(name, sizeof(name), value);
	return error_set(err, EINVAL, "%s: sonde_format %s; this program reads %d and %d",
			 CTF_METADATA_NAME, name, CTF_VERSION_2, CTF_VERSION);
}

int ctf_metadata_identity(const char *text, struct ctf_identity *identity, struct error *err)
{
	char value[LINE_MAX];

	if (!find_value(text, "uuid", value, sizeof(value)) || !parse_uuid(value, identity->uuid))
		return ctf_metadata_refuse(err, "has no valid uuid");
	if (!find_value(text, "byte_order", value, sizeof(value)) ||
	    (strcmp(value, "le") && strcmp(value, "be")))
		return ctf_metadata_refuse(err, "has no valid byte_order");
	identity->big_endian = !strcmp(value, "be");
	return 0;
}

/* --- instances ------------------------------------------------------------------------------- */

static int parse_classes(const json_t *array, struct trace_instance *instance, struct error *err)
{
	size_t n = json_array_size(array);
	struct event_class *classes;
	int ret = 0;

	if (!n || n > CTF_MAX_CLASSES)
		return ctf_metadata_refuse(err, "an instance without classes, or with too many");
	classes = calloc(n, sizeof(*classes));
	if (!classes)
		return error_set(err, ENOMEM, "out of memory");
	instance->classes = classes;
	for (; !ret && instance->nr_classes < n; instance->nr_classes++)
		ret = event_class_parse(json_array_get(array, instance->nr_classes),
					&classes[instance->nr_classes], err);
	if (ret)
		error_prefix(err, "%s: ", CTF_METADATA_NAME);
	return ret;
}

/* A part of a file's name: no way out of the directory. */
static bool is_suffix(const char *suffix)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_-.";

	return !*suffix || (suffix[0] == '.' && !suffix[strspn(suffix, allowed)]);
}

static int parse_instance(const json_t *json, struct trace_instance *instance, struct error *err)
{
	char name[TRACE_INSTANCE_NAME_MAX + 1] = "", suffix[CTF_SUFFIX_SIZE] = "";
	char spec[LINE_MAX * 8] = "";

	if (json_read_text(json, "name", name, sizeof(name)) ||
	    json_read_text(json, "spec", spec, sizeof(spec)) ||
	    json_read_text(json, "suffix", suffix, sizeof(suffix)) || !is_suffix(suffix))
		return ctf_metadata_refuse(err, "an instance has no valid name, spec or suffix");
	instance->name = strdup(name);
	instance->spec = strdup(spec);
	instance->suffix = strdup(suffix);
	if (!instance->name || !instance->spec || !instance->suffix)
		return error_set(err, ENOMEM, "out of memory");
	return parse_classes(json_object_get(json, "classes"), instance, err);
}

static int parse_instances(const json_t *root, struct ctf_described *out, struct error *err)
{
	const json_t *array = json_object_get(root, "instances");
	size_t n = json_array_size(array);
	int ret = 0;

	if (!json_is_array(array) || n > TRACE_INSTANCES_MAX)
		return ctf_metadata_refuse(err, "has no list of instances, or too long a one");
	out->instances = calloc(n + 1, sizeof(*out->instances));
	if (!out->instances)
		return error_set(err, ENOMEM, "out of memory");
	for (; !ret && out->nr_instances < n; out->nr_instances++)
		ret = parse_instance(json_array_get(array, out->nr_instances),
				     &out->instances[out->nr_instances], err);
	return ret;
}

static int parse_block(const char *text, struct ctf_described *out, struct error *err)
{
	const char *begin = strstr(text, CTF_BLOCK_BEGIN);
	const char *end = begin ? strstr(begin, CTF_BLOCK_END) : NULL;
	json_t *root;
	int ret;

	if (!end)
		return ctf_metadata_refuse(err, "damaged: it does not describe sonde's events");
	begin += strlen(CTF_BLOCK_BEGIN);
	root = json_loadb(begin, (size_t)(end - begin), JSON_REJECT_DUPLICATES, NULL);
	ret = root ? parse_instances(root, out, err)
		   : ctf_metadata_refuse(err, "damaged: the description of events is not JSON");
	json_decref(root);
	return ret;
}

/* Whether the last line is the checksum of what is before it. */
static bool is_whole(const char *text)
{
	const char *last = NULL, *next = text;
	char want[sizeof(CTF_CRC_BEGIN CTF_CRC_END) + 8];

	while ((next = strstr(next, CTF_CRC_BEGIN)))
		last = next++;
	if (!last)
		return false;
	snprintf(want, sizeof(want), CTF_CRC_BEGIN "%08x" CTF_CRC_END,
		 crc32c(0, text, (size_t)(last - text)));
	return !strcmp(last, want);
}

static int parse_text(const char *text, struct ctf_described *out, struct error *err)
{
	long version;
	int ret = ctf_metadata_version(text, &version, err);

	if (ret)
		return ret;
	if (version == CTF_VERSION_2)
		return 1;
	out->damaged = !is_whole(text);
	ret = ctf_metadata_identity(text, &out->identity, err);
	return ret ? ret : parse_block(text, out, err);
}

int ctf_metadata_parse(const void *text, size_t size, struct ctf_described *out, struct error *err)
{
	char *copy = calloc(1, size + 4);
	int ret;

	*out = (struct ctf_described){0};
	if (!copy)
		return error_set(err, ENOMEM, "out of memory");
	memcpy(copy, text, size);
	ret = parse_text(copy, out, err);
	free(copy);
	if (ret)
		ctf_described_deinit(out);
	return ret;
}

void ctf_described_deinit(struct ctf_described *described)
{
	for (size_t i = 0; i < described->nr_instances; i++) {
		struct trace_instance *about = &described->instances[i];

		for (size_t c = 0; c < about->nr_classes; c++)
			event_class_deinit(&((struct event_class *)(uintptr_t)about->classes)[c]);
		free((void *)(uintptr_t)about->classes);
		free((char *)(uintptr_t)about->name);
		free((char *)(uintptr_t)about->spec);
		free((char *)(uintptr_t)about->suffix);
	}
	free(described->instances);
	*described = (struct ctf_described){0};
}
