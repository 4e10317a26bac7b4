/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MONITOR_MESSAGE_H
#define SONDE_VMM_MONITOR_MESSAGE_H

#include <jansson.h>
#include "formats/base/error.h"

/*
 * The messages of the QEMU Machine Protocol (QEMU, docs/interop/qmp-spec.rst, "Protocol
 * Specification"). Functions that return json_t return a new reference, or NULL without memory.
 */

#define QMP_CLASS_GENERIC "GenericError"
#define QMP_CLASS_NOT_FOUND "CommandNotFound"

/* Borrowed from the message; arguments and id are NULL if absent. */
struct qmp_request {
	const char *execute;
	json_t *arguments;
	json_t *id;
};

/* -EINVAL if it is no request. out->id is set even then, for the error reply. */
int qmp_request_parse(json_t *message, struct qmp_request *out, struct error *err);

/* The reply to query-version, and the greeting that contains it. */
json_t *qmp_version(void);
json_t *qmp_greeting(void);

/* `result` is taken over; NULL gives {}. `id` may be NULL. */
json_t *qmp_return(json_t *result, json_t *id);
json_t *qmp_error(const char *class, const char *desc, json_t *id);

/* An event with the present time; `data` is taken over and may be NULL. */
json_t *qmp_event(const char *name, json_t *data);

/* An error with its address, and with the text that it is in ("text", "column" from 1), if it has
 * one; bytes that are not UTF-8 become question marks. */
json_t *qmp_error_from(const char *class, const struct error *err, json_t *id);

#endif
