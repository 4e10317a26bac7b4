/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MONITOR_VERB_H
#define SONDE_VMM_MONITOR_VERB_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"

/*
 * The monitor's verbs: a table that each vmm/monitor-verbs-*.c file adds to.
 *
 * To add a verb: describe it and its arguments in a static struct monitor_verb next to its handler,
 * and add it in the register function of its file. Arguments are checked against the description
 * before the handler runs, and query-commands lists them; nothing else needs to know the verb.
 */
enum monitor_arg_type {
	MONITOR_ARG_STRING,
	MONITOR_ARG_BOOL,
	MONITOR_ARG_SIZE,    /* integer, 0 and up */
	MONITOR_ARG_ADDRESS, /* integer (negative: two's complement, as in QEMU), or string "0x..."
			      */
	MONITOR_ARG_STRINGS, /* list of strings */
};

struct monitor_arg {
	const char *name;
	enum monitor_arg_type type;
	bool required;
};

struct monitor_verb {
	const char *name;
	const char *help;               /* one line, no full stop */
	const struct monitor_arg *args; /* ends with a NULL name; NULL if it takes none */

	/*
	 * Runs on the main thread. `args` is an object (empty if none were given) that has passed
	 * the check. *result is NULL on entry and may stay so (an empty object is returned), else a
	 * new reference. Returns 0, or -errno with *err saying what the client is told.
	 */
	int (*run)(void *ctx, json_t *args, json_t **result, struct error *err);
};

struct monitor_verbs;

/* NULL if memory is out. */
struct monitor_verbs *monitor_verbs_create(void);
/* NULL-safe. */
void monitor_verbs_destroy(struct monitor_verbs *verbs);

/*
 * Add a verb, which must live as long as the table; `ctx` is for its handler. -EEXIST if the name
 * is taken, -ENOMEM.
 */
int monitor_verbs_add(struct monitor_verbs *verbs, const struct monitor_verb *verb, void *ctx,
		      struct error *err);

/* Whether there is a verb of that name, which a client may have made up. */
bool monitor_verbs_has(const struct monitor_verbs *verbs, const char *name);

/*
 * Check `args` (NULL: none) against the verb's description, then run it. -ENOENT if there is no
 * such verb, -EINVAL if an argument is unknown, missing or of the wrong type, else what the verb
 * returns. *result is a new reference or NULL.
 */
int monitor_verbs_run(const struct monitor_verbs *verbs, const char *name, json_t *args,
		      json_t **result, struct error *err);

/* [{"name":..., "help":..., "args":[{"name":..., "type":..., "required":...}]}] sorted by name. */
json_t *monitor_verbs_describe(const struct monitor_verbs *verbs);

/* The value of a SIZE or ADDRESS argument that has passed the check; 0 if absent. */
uint64_t monitor_arg_u64(json_t *args, const char *name);

#endif
