/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/top/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/clock.h"
#include "formats/base/text.h"
#include "formats/profile/profiles.h"
#include "vmm/ctl/connection.h"
#include "vmm/top/trace.h"

enum { TIMEOUT_MS = 30 * 1000 };

struct top_source {
	struct qmp_connection *conn;
	char *dir;               /* of the trace; NULL: not known */
	struct top_trace *trace; /* NULL: it cannot be read */
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
	top_trace_close(s->trace);
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
		 profile_mark(f));
	return sample;
}

static bool is_profiling(const struct profile_set *set)
{
	bool is = false;

	for (size_t i = 0; i < set->n; i++)
		is |= !set->v[i].ended;
	return is;
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

static int put_functions(struct top_model *model, const struct profile_set *set, struct error *err)
{
	struct top_table *table = &model->tables[TOP_FUNCTIONS];
	struct top_sample *samples;
	size_t n;
	int ret;

	model->profiled = is_profiling(set);
	if (!model->profiled) {
		top_table_miss(table, "no function is profiled: sonde ctl SOCKET trace add "
				      "'profile:FUNCTIONS' or 'graph:FUNCTIONS'");
		return 0;
	}
	ret = list_functions(set, &samples, &n, err);
	if (ret)
		return ret;
	ret = top_table_put(table, samples, n, clock_monotonic_ns(), err);
	free(samples);
	return ret;
}

static int sample_functions(struct top_source *s, struct top_model *model, struct error *err)
{
	struct profile_set set;
	json_t *reply;
	int ret = qmp_execute(s->conn, "query-profile", NULL, &reply, err);

	if (ret == -EREMOTEIO) {
		model->profiled = false;
		top_table_miss(&model->tables[TOP_FUNCTIONS], err->text);
		return 0;
	}
	if (ret)
		return ret;
	ret = profile_set_parse(reply, &set, err);
	json_decref(reply);
	if (ret)
		return ret;
	ret = put_functions(model, &set, err);
	profile_set_deinit(&set);
	return ret;
}

/* --- the trace ------------------------------------------------------------------------------- */

static void miss_trace(struct top_model *model, const char *why)
{
	for (enum top_view view = 0; view < TOP_VIEWS; view++)
		if (view != TOP_FUNCTIONS)
			top_table_miss(&model->tables[view], why);
}

static void sample_trace(struct top_source *s, struct top_model *model)
{
	struct error err = {0};
	int ret = s->trace ? 0 : top_trace_open(s->dir, &s->trace, &err);

	if (!ret)
		ret = top_trace_sample(s->trace, model, &err);
	if (!ret)
		return;
	miss_trace(model, err.text);
	top_trace_close(s->trace);
	s->trace = NULL;
}

int top_source_sample(struct top_source *s, struct top_model *model, struct error *err)
{
	int ret = sample_functions(s, model, err);

	sample_trace(s, model);
	return ret;
}

void top_source_put_chains(struct top_source *s, struct top_model *model)
{
	struct top_table *table = &model->tables[TOP_STACKS];
	struct error err = {0};

	if (!s->trace)
		top_table_miss(table, model->tables[TOP_SITES].missing);
	else if (top_trace_put_chains(s->trace, model, &err))
		top_table_miss(table, err.text);
}
