/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "formats/base/text.h"

enum { MAX_TEXT = 512 };

json_t *json_from_text(const char *text)
{
	char clean[MAX_TEXT];

	clean_text(clean, sizeof(clean), text);
	return json_string_nocheck(clean);
}

json_t *json_from_count(uint64_t number)
{
	return json_integer(number > INT64_MAX ? INT64_MAX : (json_int_t)number);
}

json_t *json_from_address(uint64_t address)
{
	return json_sprintf("0x%" PRIx64, address);
}

json_t *json_if_whole(json_t *value, int failed)
{
	if (!failed)
		return value;
	json_decref(value);
	return NULL;
}

int json_read_text(const json_t *object, const char *key, char *out, size_t size)
{
	const json_t *value = json_object_get(object, key);

	if (!value)
		return 0;
	if (!json_is_string(value))
		return -EINVAL;
	clean_text(out, size, json_string_value(value));
	return 0;
}

int json_read_signed(const json_t *object, const char *key, int64_t *out)
{
	const json_t *value = json_object_get(object, key);

	if (!value)
		return 0;
	if (!json_is_integer(value))
		return -EINVAL;
	*out = json_integer_value(value);
	return 0;
}

int json_read_count(const json_t *object, const char *key, uint64_t *out)
{
	int64_t value = 0;

	if (!json_object_get(object, key))
		return 0;
	if (json_read_signed(object, key, &value) || value < 0)
		return -EINVAL;
	*out = (uint64_t)value;
	return 0;
}

int json_read_bool(const json_t *object, const char *key, bool *out)
{
	const json_t *value = json_object_get(object, key);

	if (!value)
		return 0;
	if (!json_is_boolean(value))
		return -EINVAL;
	*out = json_is_true(value);
	return 0;
}

int json_read_address(const json_t *object, const char *key, uint64_t *out)
{
	const json_t *value = json_object_get(object, key);
	const char *text = json_string_value(value);
	size_t length;

	if (!value)
		return 0;
	if (!text || strncmp(text, "0x", 2))
		return -EINVAL;
	length = strlen(text + 2);
	if (!length || length > 16 || strspn(text + 2, "0123456789abcdefABCDEF") != length)
		return -EINVAL;
	*out = strtoull(text + 2, NULL, 16);
	return 0;
}

static int parse(const char *text, size_t size, const char *path, json_t **out, struct error *err)
{
	json_error_t where;
	json_t *value = json_loadb(text, size, 0, &where);

	if (!value) {
		clean_line(where.text);
		return error_set(err, EINVAL, "%s: line %d: %s", path, where.line, where.text);
	}
	if (!json_take_checksum(value, text, size)) {
		json_decref(value);
		return error_set(err, EINVAL, "%s is damaged: its checksum is wrong", path);
	}
	*out = value;
	return 0;
}

static int load(FILE *file, const char *path, size_t max, json_t **out, struct error *err)
{
	struct stat st;
	char *text;
	int ret;

	if (fstat(fileno(file), &st) || !S_ISREG(st.st_mode))
		return error_set(err, EINVAL, "%s: no regular file", path);
	if ((uintmax_t)st.st_size > max)
		return error_set(err, EFBIG, "%s: larger than %zu MiB", path, max >> 20);
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return error_set(err, ENOMEM, "%s: out of memory", path);
	ret = parse(text, fread(text, 1, (size_t)st.st_size, file), path, out, err);
	free(text);
	return ret;
}

int json_read_file(const char *path, size_t max, json_t **out, struct error *err)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	int ret;

	if (!file) {
		ret = error_set(err, errno, "%s: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return ret;
	}
	ret = load(file, path, max, out, err);
	fclose(file);
	return ret;
}
