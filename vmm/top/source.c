/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/top/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/clock.h"
#include "formats/base/text.h"
#include "formats/profile/profiles.h"
#include "vmm/ctl/connection.h"
#include "vmm/top/kmem.h"

enum { TIMEOUT_MS = 30 * 1000 };

struct top_source {
	struct qmp_connection *conn;
	char *dir; /* of the trace; NULL: not known */
	struct top_kmem *kmem;
};

/* --- opening --------------------------------------------------------------------------------- */

static int find_dir(struct top_source *s, struct error *err)
{
	const char *dir;
	json_t *trace;
	int ret = qmp_execute(s->conn, "query-trace", NULL, &trace, err);

	if (ret)
		return ret;
	dir = json_string_value(json_object_get(trace, "trace_dir"));
	s->dir = dir ? strdup(dir) : NULL;
	json_decref(trace);
	return s->dir ? 0 : error_set(err, ENOENT, "the monitor names no trace");
}

int top_source_open(const char *socket, const char *dir, struct top_source **out, struct error *err)
{
	struct top_source *s = calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return error_set(err, ENOMEM, "out of memory");
	ret = qmp_connect(socket, TIMEOUT_MS, &s->conn, err);
	if (!ret && dir) {
		s->dir = strdup(dir);
		ret = s->dir ? 0 : error_set(err, ENOMEM, "out of memory");
	} else if (!ret) {
		ret = find_dir(s, err);
	}
	if (ret)
		top_source_close(s);
	else
		*out = s;
	return ret;
}

void top_source_close(struct top_source *s)
{
	if (!s)
		return;
	top_kmem_close(s->kmem);
	qmp_disconnect(s->conn);
	free(s->dir);
	free(s);
}

/* --- functions ------------------------------------------------------------------------------- */

static struct top_sample sample_of(const struct profile_counts *counts, size_t instance,
				   const struct profile_function *f, bool several)
{
	struct top_sample sample = {.key = f->address ^ (uint64_t)instance << 52,
				    .total = f->hits,
				    .flow = f->total_ns,
				    .live = profile_mean_ns(f),
				    .count = f->max_ns};

	if (!f->timed)
		sample.live = sample.count = TOP_UNKNOWN;
	snprintf(sample.name, sizeof(sample.name), "%.100s%s%.40s%s%s", f->name,
		 several ? " (" : "", several ? counts->name : "", several ? ")" : "",
		 f->returns ? "" : " (hits only)");
	return sample;
}

static int list_functions(const struct profile_set *set, struct top_sample **out, size_t *n,
			  struct error *err)
{
	size_t room = 0, active = 0;

	for (size_t i = 0; i < set->n; i++) {
		active += !set->v[i].ended;
		room += set->v[i].n;
	}
	*n = 0;
	*out = calloc(room + 1, sizeof(**out));
	if (!*out)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < set->n; i++)
		for (size_t k = 0; !set->v[i].ended && k < set->v[i].n; k++)
			(*out)[(*n)++] = sample_of(&set->v[i], i, &set->v[i].v[k], active > 1);
	return 0;
}

static int put_functions(struct top_table *table, const struct profile_set *set, struct error *err)
{
	struct top_sample *samples;
	size_t n;
	int ret = list_functions(set, &samples, &n, err);

	if (ret)
		return ret;
	ret = top_table_put(table, samples, n, clock_monotonic_ns(), err);
	free(samples);
	if (!set->n)
		top_table_miss(table, "no function is profiled: sonde ctl SOCKET trace add "
				      "'profile:FUNCTIONS'");
	return ret;
}

static int sample_functions(struct top_source *s, struct top_table *table, struct error *err)
{
	struct profile_set set;
	json_t *reply;
	int ret = qmp_execute(s->conn, "query-profile", NULL, &reply, err);

	if (ret == -EREMOTEIO) {
		top_table_miss(table, err->text);
		return 0;
	}
	if (ret)
		return ret;
	ret = profile_set_parse(reply, &set, err);
	json_decref(reply);
	if (ret)
		return ret;
	ret = put_functions(table, &set, err);
	profile_set_deinit(&set);
	return ret;
}

/* --- allocations ----------------------------------------------------------------------------- */

static void miss_allocations(struct top_model *model, const char *why)
{
	top_table_miss(&model->tables[TOP_SITES], why);
	top_table_miss(&model->tables[TOP_CACHES], why);
}

/* Streams that come later are not followed: until there are allocations the trace is opened anew.
 */
static void sample_allocations(struct top_source *s, struct top_model *model)
{
	struct error err = {0};
	int ret = s->kmem ? 0 : top_kmem_open(s->dir, &s->kmem, &err);

	if (!ret)
		ret = top_kmem_sample(s->kmem, model, &err);
	if (!ret)
		return;
	miss_allocations(model, err.text);
	top_kmem_close(s->kmem);
	s->kmem = NULL;
}

int top_source_sample(struct top_source *s, struct top_model *model, struct error *err)
{
	sample_allocations(s, model);
	return sample_functions(s, &model->tables[TOP_FUNCTIONS], err);
}
