/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_PROFILE_PROFILES_H
#define SONDE_FORMATS_PROFILE_PROFILES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "formats/base/error.h"

/*
 * What instances of the profile tracer have counted at some moment, as a document of JSON
 * (sonde-profile(1)): the reply to query-profile, and the file PROFILE_FILE of a trace. Documents
 * are not trusted.
 */
#define PROFILE_FILE ".profile.json" /* hidden from CTF readers */

enum {
	PROFILE_MAX_FUNCTIONS = 1 << 18, /* of a document */
	PROFILE_MAX_BUCKETS = 64,
	PROFILE_NAME_SIZE = 128,
};

struct profile_bucket {
	uint64_t from_ns; /* calls that took this time or longer, up to the next bucket */
	uint64_t calls;
};

struct profile_function {
	char name[PROFILE_NAME_SIZE];
	uint64_t address;
	uint64_t hits;
	bool returns;   /* calls of it are timed */
	uint64_t timed; /* how many were; of these: */
	uint64_t total_ns, max_ns;
	bool max_unknown; /* it is that of a call before the time that is looked at */
	struct profile_bucket *buckets;
	size_t nr_buckets;
};

/* Of one instance. */
struct profile_counts {
	char name[PROFILE_NAME_SIZE];
	char *spec;
	bool ended;
	uint64_t nr_profiled; /* functions, those that were never called included */
	struct profile_function *v;
	size_t n;
};

struct profile_set {
	struct profile_counts *v;
	size_t n;
};

/* -EINVAL: it is no such document; *err says where. -ENOMEM. */
int profile_set_parse(const json_t *document, struct profile_set *out, struct error *err);
/* Also of one that is zeroed. */
void profile_set_deinit(struct profile_set *set);

/* The document again. NULL: no memory. */
json_t *profile_set_json(const struct profile_set *set);

/* Keep the instances of this name. -ENOENT: there is none. */
int profile_set_keep(struct profile_set *set, const char *name, struct error *err);

/* Keep the first functions of each instance; 0: all. */
void profile_set_cut(struct profile_set *set, size_t top);

/* What was counted since `before`, an earlier moment of the same recording. -EINVAL: a function has
 * fewer hits than before. */
int profile_set_subtract(struct profile_set *set, const struct profile_set *before,
			 struct error *err);

enum profile_key {
	PROFILE_BY_TOTAL,
	PROFILE_BY_HITS,
	PROFILE_BY_MEAN,
	PROFILE_BY_MAX,
	PROFILE_BY_NAME,
};
extern const char *const profile_keys[]; /* their names, NULL-terminated */

/* Largest first, or by name; functions that tie by hits, and then by name. */
void profile_set_sort(struct profile_set *set, enum profile_key key);

uint64_t profile_mean_ns(const struct profile_function *function);

/* What its name is followed by, for users: whether its calls are timed, all of them or some. */
const char *profile_mark(const struct profile_function *function);

/* --- profile-text.c -------------------------------------------------------------------------- */

struct profile_text_options {
	size_t top;     /* functions of each instance; 0: all */
	bool histogram; /* below each function, if there is one */
};

void profile_set_print(FILE *out, const struct profile_set *set,
		       const struct profile_text_options *options);

#endif
