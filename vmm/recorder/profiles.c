/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the session's profiles have counted, as documents. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/profile/profiles.h"
#include "vmm/recorder/internal.h"

static int set_buckets(struct profile_function *f, const struct profile_row *row,
		       const struct profile_rows *rows)
{
	if (!row->buckets)
		return 0;
	f->buckets = calloc(CALL_COUNT_BUCKETS, sizeof(*f->buckets));
	if (!f->buckets)
		return -ENOMEM;
	for (int i = 0; i < CALL_COUNT_BUCKETS; i++)
		if (row->buckets[i])
			f->buckets[f->nr_buckets++] =
				(struct profile_bucket){rows->bucket_ns[i], row->buckets[i]};
	return 0;
}

/* Functions that have been called. */
static int set_functions(struct profile_counts *counts, const struct profile_rows *rows)
{
	int ret = 0;

	counts->nr_profiled = rows->n;
	counts->v = calloc(rows->n + 1, sizeof(*counts->v));
	if (!counts->v)
		return -ENOMEM;
	for (size_t i = 0; !ret && i < rows->n; i++) {
		const struct profile_row *row = &rows->v[i];
		struct profile_function *f = &counts->v[counts->n];

		if (!row->hits && !row->timed)
			continue;
		*f = (struct profile_function){.address = row->site,
					       .hits = row->hits,
					       .returns = row->returns,
					       .timed = row->timed,
					       .total_ns = row->total_ns,
					       .max_ns = row->longest_ns};
		clean_text(f->name, sizeof(f->name), row->name);
		counts->n++;
		ret = set_buckets(f, row, rows);
	}
	return ret;
}

static int set_counts(struct profile_counts *counts, const struct trace_profile *profile,
		      struct error *err)
{
	struct profile_rows rows;
	int ret = profile_read(profile->profile, &rows, err);

	if (ret)
		return ret;
	clean_text(counts->name, sizeof(counts->name), profile->name);
	counts->ended = profile->ended;
	counts->spec = strdup(profile->spec);
	ret = counts->spec ? set_functions(counts, &rows) : -ENOMEM;
	profile_rows_deinit(&rows);
	return ret ? error_set(err, ENOMEM, "out of memory") : 0;
}

int recorder_read_profiles(const struct trace_session *session, struct profile_set *out,
			   struct error *err)
{
	struct trace_profile list[TRACE_MAX_PROFILES];
	const size_t n = trace_session_profiles(session, list);
	int ret = 0;

	*out = (struct profile_set){.v = calloc(n + 1, sizeof(*out->v))};
	if (!out->v)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; !ret && i < n; i++)
		ret = set_counts(&out->v[out->n++], &list[i], err);
	if (ret)
		profile_set_deinit(out);
	return ret;
}

int recorder_clear_profiles(const struct trace_session *session, const char *name,
			    struct error *err)
{
	struct trace_profile list[TRACE_MAX_PROFILES];
	const size_t n = trace_session_profiles(session, list);
	size_t cleared = 0;

	for (size_t i = 0; i < n; i++)
		if (!name || !strcmp(name, list[i].name)) {
			profile_clear(list[i].profile);
			cleared++;
		}
	if (name && !cleared)
		return error_set(err, ENOENT, "no profile has the name '%s'", name);
	return 0;
}

int recorder_write_profiles(const struct trace_session *session, struct trace_writer *writer,
			    bool *any, struct error *err)
{
	struct profile_set set;
	int ret = recorder_read_profiles(session, &set, err);

	*any = false;
	if (ret)
		return ret;
	*any = set.n;
	if (set.n)
		ret = recorder_write_document(writer, PROFILE_FILE, profile_set_json(&set), err);
	profile_set_deinit(&set);
	return ret;
}
