/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/monitor/message.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "formats/cli/cli.h"

int qmp_request_parse(json_t *message, struct qmp_request *out, struct error *err)
{
	const char *key;
	json_t *value;

	*out = (struct qmp_request){0};
	if (!json_is_object(message))
		return error_set(err, EINVAL, "a request is a JSON object with the key 'execute'");
	out->id = json_object_get(message, "id");
	json_object_foreach(message, key, value)
	{
		if (!strcmp(key, "execute"))
			out->execute = json_string_value(value);
		else if (!strcmp(key, "arguments"))
			out->arguments = value;
		else if (strcmp(key, "id"))
			return error_set(err, EINVAL, "a request has no key '%.64s'", key);
	}
	if (!out->execute)
		return error_set(err, EINVAL, "key 'execute' is missing or not a string");
	if (out->arguments && !json_is_object(out->arguments))
		return error_set(err, EINVAL, "'arguments' is not an object");
	return 0;
}

json_t *qmp_version(void)
{
	int major = 0, minor = 0, micro = 0;

	sscanf(SONDE_VERSION, "%d.%d.%d", &major, &minor, &micro);
	return json_pack("{s:{s:i,s:i,s:i},s:s}", "qemu", "major", major, "minor", minor, "micro",
			 micro, "package", "sonde-" SONDE_VERSION);
}

json_t *qmp_greeting(void)
{
	return json_pack("{s:{s:o,s:[]}}", "QMP", "version", qmp_version(), "capabilities");
}

static json_t *with_id(json_t *reply, json_t *id)
{
	if (reply && id)
		json_object_set(reply, "id", id);
	return reply;
}

json_t *qmp_return(json_t *result, json_t *id)
{
	return with_id(json_pack("{s:o}", "return", result ? result : json_object()), id);
}

/* Error texts quote input and are cut at a fixed size, so they may hold half a character. */
static json_t *any_string(const char *text)
{
	json_t *string = json_string(text);
	char plain[sizeof(((struct error *)0)->text) + 32];

	if (string)
		return string;
	snprintf(plain, sizeof(plain), "%s", text);
	for (char *c = plain; *c; c++) {
		if (*c & 0x80)
			*c = '?';
	}
	return json_string(plain);
}

json_t *qmp_error(const char *class, const char *desc, json_t *id)
{
	return with_id(
		json_pack("{s:{s:s,s:o}}", "error", "class", class, "desc", any_string(desc)), id);
}

/* Where in a text of the client's it is. */
static void add_place(json_t *reply, const struct error *err)
{
	json_t *error = json_object_get(reply, "error");

	json_object_set_new(error, "text", any_string(err->parsed));
	json_object_set_new(error, "column", json_integer(err->column));
}

json_t *qmp_error_from(const char *class, const struct error *err, json_t *id)
{
	char text[sizeof(err->text) + 32];
	json_t *reply;

	snprintf(text, sizeof(text), "%s", err->text);
	if (err->has_address)
		snprintf(text, sizeof(text), "%s (at 0x%" PRIx64 ")", err->text, err->address);
	reply = qmp_error(class, text, id);
	if (err->parsed && err->column)
		add_place(reply, err);
	return reply;
}

json_t *qmp_event(const char *name, json_t *data)
{
	struct timespec now;
	json_t *event;

	clock_gettime(CLOCK_REALTIME, &now);
	event = json_pack("{s:s,s:{s:I,s:I}}", "event", name, "timestamp", "seconds",
			  (json_int_t)now.tv_sec, "microseconds", (json_int_t)now.tv_nsec / 1000);
	if (event && data)
		json_object_set(event, "data", data);
	json_decref(data);
	return event;
}
