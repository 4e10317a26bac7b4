/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/profile/profiles.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/json.h"
#include "formats/base/text.h"

enum { MAX_INSTANCES = 1024 };

const char *const profile_keys[] = {"total", "hits", "mean", "max", "name", NULL};

/* --- reading --------------------------------------------------------------------------------- */

static int parse_buckets(const json_t *list, struct profile_function *f)
{
	const json_t *bucket;
	size_t i;

	if (!list)
		return 0;
	if (!json_is_array(list) || json_array_size(list) > PROFILE_MAX_BUCKETS)
		return -EINVAL;
	f->buckets = calloc(json_array_size(list) + 1, sizeof(*f->buckets));
	if (!f->buckets)
		return -ENOMEM;
	f->nr_buckets = json_array_size(list);
	json_array_foreach(list, i, bucket)
	{
		if (json_read_count(bucket, "from_ns", &f->buckets[i].from_ns) ||
		    json_read_count(bucket, "calls", &f->buckets[i].calls))
			return -EINVAL;
	}
	return 0;
}

static int parse_function(const json_t *object, struct profile_function *f)
{
	const json_t *max = json_object_get(object, "max_ns");

	if (!json_is_object(object) ||
	    json_read_text(object, "function", f->name, sizeof(f->name)) ||
	    json_read_address(object, "address", &f->address) ||
	    json_read_count(object, "hits", &f->hits) ||
	    json_read_bool(object, "returns", &f->returns) ||
	    json_read_count(object, "timed", &f->timed) ||
	    json_read_count(object, "total_ns", &f->total_ns))
		return -EINVAL;
	f->max_unknown = json_is_null(max);
	if (!f->max_unknown && json_read_count(object, "max_ns", &f->max_ns))
		return -EINVAL;
	return parse_buckets(json_object_get(object, "buckets"), f);
}

/* *left: functions that the document may still have. */
static int parse_functions(const json_t *list, struct profile_counts *counts, size_t *left)
{
	const json_t *object;
	int ret = 0;
	size_t i;

	if (!json_is_array(list) || json_array_size(list) > *left)
		return -EINVAL;
	*left -= json_array_size(list);
	counts->v = calloc(json_array_size(list) + 1, sizeof(*counts->v));
	if (!counts->v)
		return -ENOMEM;
	counts->n = json_array_size(list);
	json_array_foreach(list, i, object)
	{
		ret = parse_function(object, &counts->v[i]);
		if (ret)
			break;
	}
	return ret;
}

static int parse_instance(const json_t *object, struct profile_counts *counts, size_t *left)
{
	const char *spec = json_string_value(json_object_get(object, "spec"));

	if (!spec || json_read_text(object, "name", counts->name, sizeof(counts->name)) ||
	    json_read_bool(object, "ended", &counts->ended) ||
	    json_read_count(object, "profiled", &counts->nr_profiled))
		return -EINVAL;
	counts->spec = strdup(spec);
	if (!counts->spec)
		return -ENOMEM;
	clean_line(counts->spec);
	return parse_functions(json_object_get(object, "functions"), counts, left);
}

int profile_set_parse(const json_t *document, struct profile_set *out, struct error *err)
{
	const json_t *list = json_object_get(document, "profiles"), *object;
	size_t left = PROFILE_MAX_FUNCTIONS, i;
	int ret = 0;

	*out = (struct profile_set){0};
	if (!json_is_array(list) || json_array_size(list) > MAX_INSTANCES)
		return error_set(err, EINVAL, "this is no profile: it has no list 'profiles'");
	out->v = calloc(json_array_size(list) + 1, sizeof(*out->v));
	if (!out->v)
		return error_set(err, ENOMEM, "out of memory");
	out->n = json_array_size(list);
	json_array_foreach(list, i, object)
	{
		ret = parse_instance(object, &out->v[i], &left);
		if (ret)
			break;
	}
	if (!ret)
		return 0;
	profile_set_deinit(out);
	if (ret == -ENOMEM)
		return error_set(err, ENOMEM, "out of memory");
	return error_set(err, EINVAL, "this is no profile: entry %zu of 'profiles' is wrong", i);
}

static void cut_counts(struct profile_counts *counts, size_t top)
{
	for (; counts->n > top; counts->n--)
		free(counts->v[counts->n - 1].buckets);
}

void profile_set_cut(struct profile_set *set, size_t top)
{
	for (size_t i = 0; top && i < set->n; i++)
		cut_counts(&set->v[i], top);
}

static void deinit_counts(void *arg)
{
	struct profile_counts *counts = arg;

	cut_counts(counts, 0);
	free(counts->v);
	free(counts->spec);
}

void profile_set_deinit(struct profile_set *set)
{
	for (size_t i = 0; i < set->n; i++)
		deinit_counts(&set->v[i]);
	free(set->v);
	*set = (struct profile_set){0};
}

/* --- writing --------------------------------------------------------------------------------- */

static json_t *buckets_json(const struct profile_function *f)
{
	json_t *list = json_array();
	int failed = 0;

	for (size_t i = 0; i < f->nr_buckets; i++)
		failed |= json_array_append_new(
			list,
			json_pack("{s:o, s:o}", "from_ns", json_from_count(f->buckets[i].from_ns),
				  "calls", json_from_count(f->buckets[i].calls)));
	return json_if_whole(list, failed);
}

static json_t *function_json(const struct profile_function *f)
{
	json_t *object =
		json_pack("{s:o, s:o, s:o, s:b, s:o, s:o, s:o}", "function",
			  json_from_text(f->name), "address", json_from_address(f->address), "hits",
			  json_from_count(f->hits), "returns", (int)f->returns, "timed",
			  json_from_count(f->timed), "total_ns", json_from_count(f->total_ns),
			  "max_ns", f->max_unknown ? json_null() : json_from_count(f->max_ns));
	int failed = 0;

	if (f->nr_buckets)
		failed = json_object_set_new(object, "buckets", buckets_json(f));
	return json_if_whole(object, failed);
}

static json_t *counts_json(const struct profile_counts *counts)
{
	json_t *list = json_array();
	int failed = 0;

	for (size_t i = 0; i < counts->n; i++)
		failed |= json_array_append_new(list, function_json(&counts->v[i]));
	return json_pack("{s:o, s:s, s:b, s:o, s:o}", "name", json_from_text(counts->name), "spec",
			 counts->spec, "ended", (int)counts->ended, "profiled",
			 json_from_count(counts->nr_profiled), "functions",
			 json_if_whole(list, failed));
}

json_t *profile_set_json(const struct profile_set *set)
{
	json_t *list = json_array();
	int failed = 0;

	for (size_t i = 0; i < set->n; i++)
		failed |= json_array_append_new(list, counts_json(&set->v[i]));
	return json_pack("{s:o}", "profiles", json_if_whole(list, failed));
}

/* --- selection ------------------------------------------------------------------------------- */

int profile_set_keep(struct profile_set *set, const char *name, struct error *err)
{
	return named_keep(set->v, &set->n, sizeof(*set->v), deinit_counts, name, err);
}

static int by_address(const void *a, const void *b)
{
	const struct profile_function *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return strcmp(x->name, y->name);
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static void subtract_buckets(struct profile_function *f, const struct profile_function *before)
{
	for (size_t i = 0; i < f->nr_buckets; i++)
		for (size_t k = 0; k < before->nr_buckets; k++)
			if (f->buckets[i].from_ns == before->buckets[k].from_ns)
				f->buckets[i].calls =
					less(f->buckets[i].calls, before->buckets[k].calls);
}

/* A maximum that has not grown may be that of an earlier call. */
static int subtract_function(struct profile_function *f, const struct profile_function *before,
			     struct error *err)
{
	if (f->hits < before->hits)
		return error_set(err, EINVAL,
				 "%s has %" PRIu64 " hits, and had %" PRIu64
				 " before: it was cleared, or this is another recording",
				 f->name, f->hits, before->hits);
	f->hits -= before->hits;
	f->timed = less(f->timed, before->timed);
	f->total_ns = less(f->total_ns, before->total_ns);
	f->max_unknown = f->timed && f->max_ns <= before->max_ns;
	if (!f->timed)
		f->max_ns = 0;
	subtract_buckets(f, before);
	return 0;
}

/* Both are sorted by address. Functions without calls since then go. */
static int subtract_counts(struct profile_counts *counts, const struct profile_counts *before,
			   struct error *err)
{
	size_t n = 0, k = 0;
	int ret = 0;

	for (size_t i = 0; i < counts->n; i++) {
		struct profile_function f = counts->v[i];

		while (k < before->n && by_address(&before->v[k], &f) < 0)
			k++;
		if (!ret && k < before->n && !by_address(&before->v[k], &f))
			ret = subtract_function(&f, &before->v[k], err);
		if (f.hits || f.timed || ret)
			counts->v[n++] = f;
		else
			free(f.buckets);
	}
	counts->n = n;
	return ret;
}

static void sort_by_address(struct profile_counts *counts)
{
	if (counts->n)
		qsort(counts->v, counts->n, sizeof(*counts->v), by_address);
}

static int sorted_copy(const struct profile_counts *counts, struct profile_counts *out,
		       struct error *err)
{
	*out = *counts;
	out->v = calloc(counts->n + 1, sizeof(*out->v));
	if (!out->v)
		return error_set(err, ENOMEM, "out of memory");
	if (counts->n)
		memcpy(out->v, counts->v, counts->n * sizeof(*out->v));
	sort_by_address(out);
	return 0;
}

/* One that had ended is not the one that goes on now. */
static bool may_be_same(const struct profile_counts *counts, const struct profile_counts *before)
{
	return !strcmp(before->name, counts->name) && !strcmp(before->spec, counts->spec) &&
	       (counts->ended || !before->ended);
}

/* Instances with the same name and spec follow each other, in both: the first one that is left in
 * `before` is the same one. */
static const struct profile_counts *take_same(const struct profile_counts *counts,
					      const struct profile_set *before, bool *taken)
{
	for (size_t i = 0; i < before->n; i++) {
		if (taken[i] || !may_be_same(counts, &before->v[i]))
			continue;
		taken[i] = true;
		return &before->v[i];
	}
	return NULL;
}

static int subtract_instance(struct profile_counts *counts, const struct profile_counts *before,
			     struct error *err)
{
	struct profile_counts copy;
	int ret = sorted_copy(before, &copy, err);

	sort_by_address(counts);
	if (!ret)
		ret = subtract_counts(counts, &copy, err);
	free(copy.v);
	return ret;
}

int profile_set_subtract(struct profile_set *set, const struct profile_set *before,
			 struct error *err)
{
	bool *taken = calloc(before->n + 1, sizeof(*taken));
	int ret = taken ? 0 : error_set(err, ENOMEM, "out of memory");

	for (size_t i = 0; !ret && i < set->n; i++) {
		const struct profile_counts *same = take_same(&set->v[i], before, taken);

		if (same)
			ret = subtract_instance(&set->v[i], same, err);
	}
	free(taken);
	return ret;
}

/* --- order ----------------------------------------------------------------------------------- */

uint64_t profile_mean_ns(const struct profile_function *f)
{
	return f->timed ? f->total_ns / f->timed : 0;
}

static uint64_t value_of(const struct profile_function *f, enum profile_key key)
{
	switch (key) {
	case PROFILE_BY_TOTAL:
		return f->total_ns;
	case PROFILE_BY_HITS:
		return f->hits;
	case PROFILE_BY_MEAN:
		return profile_mean_ns(f);
	case PROFILE_BY_MAX:
		return f->max_unknown ? 0 : f->max_ns;
	case PROFILE_BY_NAME:
		break;
	}
	return 0;
}

static int compare(const void *a, const void *b, void *arg)
{
	const enum profile_key key = *(const enum profile_key *)arg;
	const struct profile_function *x = a, *y = b;
	const uint64_t left = value_of(x, key), right = value_of(y, key);
	int order;

	if (left != right)
		return left > right ? -1 : 1;
	if (key != PROFILE_BY_NAME && x->hits != y->hits)
		return x->hits > y->hits ? -1 : 1;
	order = strcmp(x->name, y->name);
	return order ? order : by_address(a, b);
}

void profile_set_sort(struct profile_set *set, enum profile_key key)
{
	for (size_t i = 0; i < set->n; i++)
		if (set->v[i].n)
			qsort_r(set->v[i].v, set->v[i].n, sizeof(*set->v[i].v), compare, &key);
}
