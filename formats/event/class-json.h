/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EVENT_CLASS_JSON_H
#define SONDE_FORMATS_EVENT_CLASS_JSON_H

#include <jansson.h>
#include "formats/base/error.h"
#include "formats/event/event.h"

/*
 * Event classes as JSON, as the metadata of a trace and its sidecar have them:
 *
 *	{"system": "kmem", "name": "kfree", "fields": [
 *	 {"name": "call_site", "type": "code", "size": 8, "bits": [13, 13, 64]}, ...]}
 *
 * "implied" is the value of a field that a form does not write; "argument" is true of what the user
 * of a dynamic probe has named.
 */

/* A new value; NULL without memory. */
json_t *event_class_to_json(const struct event_class *class);

/*
 * Parse a class that is not trusted, and lay out its fields: a class of this program with the same
 * name (event_class_known()) keeps its places, other fields follow. Returns 0 and a class for
 * event_class_deinit(); -EINVAL and what is wrong; -ENOMEM.
 */
int event_class_parse(const json_t *json, struct event_class *out, struct error *err);

/* For a parsed class, or one that is zeroed. */
void event_class_deinit(struct event_class *class);

/* The class of this program with this name, with all fields that it can have; NULL: none. */
const struct event_class *event_class_known(const char *system, const char *name);

#endif
