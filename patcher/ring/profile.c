/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/ring/profile.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/u64-map.h"

/* The guest may load modules with ever other names. */
enum { MAX_FUNCTIONS = 1 << 18 };

struct function {
	uint64_t site, ip;
	char *name;
	bool returns;
	bool live; /* it has counts in the guest, at `offset` */
	uint32_t offset;
	struct call_totals past;                 /* of memory that is gone, since the last clear */
	struct call_totals before;               /* what the guest's memory had then */
	uint64_t *past_buckets, *before_buckets; /* likewise; NULL without a histogram */
};

struct profile {
	struct budget *budget;
	_Atomic unsigned int users;
	pthread_mutex_t lock;
	bool histogram, tails;
	struct function *v;
	size_t n, room;
	struct u64_map by_site; /* size_t: index */
	bool attached;
	struct call_counts counts;
	struct tsc_clock clock; /* the last one */
};

int profile_create(bool histogram, bool tails, struct budget *budget, struct profile **out,
		   struct error *err)
{
	struct profile *p = calloc(1, sizeof(*p));

	if (!p)
		return error_set(err, ENOMEM, "out of memory");
	pthread_mutex_init(&p->lock, NULL);
	p->users = 1;
	p->histogram = histogram;
	p->tails = tails;
	p->budget = budget;
	u64_map_init(&p->by_site, sizeof(size_t));
	u64_map_set_budget(&p->by_site, budget);
	*out = p;
	return 0;
}

struct profile *profile_get(struct profile *p)
{
	p->users++;
	return p;
}

bool profile_is_shared(const struct profile *p)
{
	return p->users > 1;
}

/* Those of the past, and those before. */
enum { BUCKETS_BYTES = 2 * CALL_COUNT_BUCKETS * sizeof(uint64_t) };

static void free_function(struct profile *p, struct function *f)
{
	budget_free_text(p->budget, f->name);
	budget_free(p->budget, f->past_buckets, BUCKETS_BYTES);
}

void profile_put(struct profile *p)
{
	if (!p || --p->users)
		return;
	for (size_t i = 0; i < p->n; i++)
		free_function(p, &p->v[i]);
	budget_free(p->budget, p->v, p->room * sizeof(*p->v));
	u64_map_deinit(&p->by_site);
	call_counts_deinit(&p->counts);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* --- functions ------------------------------------------------------------------------------- */

static int add_live(struct profile *p, struct function *f, struct error *err)
{
	int ret = call_counts_add(&p->counts, (uint32_t)f->ip, &f->offset, err);

	f->live = !ret;
	return ret;
}

/* A function whose place another one has taken is gone. */
static bool is_current(const struct profile *p, size_t i)
{
	const size_t *index = u64_map_find(&p->by_site, p->v[i].site);

	return index && *index == i;
}

static int add_all_live(struct profile *p, struct error *err)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < p->n; i++)
		if (is_current(p, i))
			ret = add_live(p, &p->v[i], err);
	return ret;
}

int profile_attach(struct profile *p, const struct profile_memory *m, struct error *err)
{
	const struct call_counts_layout layout =
		call_counts_layout(m->data_bytes, p->histogram, p->tails);
	int ret = 0;

	pthread_mutex_lock(&p->lock);
	if (!p->attached) {
		ret = call_counts_init(&p->counts, &layout, m->data, m->stride, m->nr_cpus, err);
		if (!ret)
			ret = add_all_live(p, err);
		if (ret)
			call_counts_deinit(&p->counts);
		p->attached = !ret;
		p->clock = m->clock;
	}
	pthread_mutex_unlock(&p->lock);
	return ret;
}

static int grow(struct profile *p, struct error *err)
{
	if (p->n >= MAX_FUNCTIONS)
		return error_set(err, ENOSPC, "more than %d functions", MAX_FUNCTIONS);
	if (!budget_grow(p->budget, &p->v, sizeof(*p->v), p->n, &p->room))
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}

struct call_counts_layout profile_layout(const struct profile *p)
{
	return p->counts.layout;
}

uint32_t profile_offset(struct profile *p, uint64_t site)
{
	const size_t *index;
	uint32_t offset;

	pthread_mutex_lock(&p->lock);
	index = u64_map_find(&p->by_site, site);
	offset = index ? p->v[*index].offset : 0;
	pthread_mutex_unlock(&p->lock);
	return offset;
}

/* --- counts ---------------------------------------------------------------------------------- */

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* What is in the guest now. */
static void read_live(const struct profile *p, const struct function *f, bool restart,
		      struct call_totals *out, uint64_t *buckets)
{
	*out = (struct call_totals){0};
	if (f->live)
		call_counts_read(&p->counts, f->offset, restart, out, buckets);
	else if (buckets)
		memset(buckets, 0, CALL_COUNT_BUCKETS * sizeof(*buckets));
}

/* All since the last clear; `buckets` is NULL without a histogram. */
static void read_all(const struct profile *p, const struct function *f, struct call_totals *out,
		     uint64_t *buckets)
{
	struct call_totals now;

	read_live(p, f, false, &now, buckets);
	out->hits = f->past.hits + less(now.hits, f->before.hits);
	out->timed = f->past.timed + less(now.timed, f->before.timed);
	out->ticks = f->past.ticks + less(now.ticks, f->before.ticks);
	out->longest = now.longest > f->past.longest ? now.longest : f->past.longest;
	for (int i = 0; buckets && i < CALL_COUNT_BUCKETS; i++)
		buckets[i] = f->past_buckets[i] + less(buckets[i], f->before_buckets[i]);
}

static void keep(const struct profile *p, struct function *f)
{
	uint64_t buckets[CALL_COUNT_BUCKETS];
	struct call_totals all;

	read_all(p, f, &all, p->histogram ? buckets : NULL);
	f->past = all;
	f->before = (struct call_totals){0};
	if (p->histogram) {
		memcpy(f->past_buckets, buckets, sizeof(buckets));
		memset(f->before_buckets, 0, sizeof(buckets));
	}
	f->live = false;
}

/* --- more functions -------------------------------------------------------------------------- */

/* A function of another module was at this place: its counts end, those of `f` begin. */
static void take_place(struct profile *p, struct function *f, struct function *former)
{
	keep(p, former);
	f->offset = former->offset;
	f->live = true;
	read_live(p, f, true, &f->before, f->before_buckets);
}

static int copy_function(struct profile *p, const struct function *like, const char *name,
			 struct function *out, struct error *err)
{
	*out = *like;
	out->name = budget_strdup(p->budget, name);
	if (p->histogram)
		out->past_buckets = budget_calloc(p->budget, 1, BUCKETS_BYTES);
	out->before_buckets = out->past_buckets ? out->past_buckets + CALL_COUNT_BUCKETS : NULL;
	if (out->name && (out->past_buckets || !p->histogram))
		return 0;
	free_function(p, out);
	return error_set(err, ENOMEM, "out of memory");
}

/* At a place that no function had. */
static int add_place(struct profile *p, struct function *f, struct error *err)
{
	int ret = add_live(p, f, err);
	size_t *index = ret ? NULL : u64_map_insert(&p->by_site, f->site, NULL);

	if (index)
		*index = p->n;
	return ret || index ? ret : error_set(err, ENOMEM, "out of memory");
}

static int add_function(struct profile *p, const struct function *like, const char *name,
			size_t *former, struct error *err)
{
	struct function f;
	int ret = grow(p, err);

	if (!ret)
		ret = copy_function(p, like, name, &f, err);
	if (ret)
		return ret;
	if (former) {
		take_place(p, &f, &p->v[*former]);
		*former = p->n;
	} else {
		ret = add_place(p, &f, err);
	}
	if (ret)
		free_function(p, &f);
	else
		p->v[p->n++] = f;
	return ret;
}

/* The index of a function that has been there before; p->n: none. */
static size_t find_former(const struct profile *p, uint64_t site, const char *name)
{
	size_t i = 0;

	while (i < p->n && (p->v[i].site != site || strcmp(p->v[i].name, name) != 0))
		i++;
	return i;
}

static int replace(struct profile *p, const struct function *like, const char *name, size_t *index,
		   struct error *err)
{
	const size_t before = find_former(p, like->site, name);

	if (before == p->n)
		return add_function(p, like, name, index, err);
	take_place(p, &p->v[before], &p->v[*index]);
	*index = before;
	return 0;
}

static int add(struct profile *p, const struct function *like, const char *name, struct error *err)
{
	size_t *index = u64_map_find(&p->by_site, like->site);

	if (!index)
		return add_function(p, like, name, NULL, err);
	if (!strcmp(p->v[*index].name, name)) {
		p->v[*index].returns = like->returns;
		return 0;
	}
	return replace(p, like, name, index, err);
}

int profile_add(struct profile *p, uint64_t ip, uint64_t site, const char *name, bool returns,
		struct error *err)
{
	const struct function f = {.site = site, .ip = ip, .returns = returns};
	int ret;

	pthread_mutex_lock(&p->lock);
	ret = add(p, &f, name ? name : "?", err);
	pthread_mutex_unlock(&p->lock);
	return ret;
}

void profile_detach(struct profile *p)
{
	pthread_mutex_lock(&p->lock);
	if (p->attached) {
		for (size_t i = 0; i < p->n; i++)
			keep(p, &p->v[i]);
		call_counts_deinit(&p->counts);
		p->attached = false;
	}
	pthread_mutex_unlock(&p->lock);
}

void profile_clear(struct profile *p)
{
	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < p->n; i++) {
		struct function *f = &p->v[i];

		f->past = (struct call_totals){0};
		if (p->histogram)
			memset(f->past_buckets, 0, CALL_COUNT_BUCKETS * sizeof(uint64_t));
		read_live(p, f, true, &f->before, f->before_buckets);
	}
	pthread_mutex_unlock(&p->lock);
}

/* --- results --------------------------------------------------------------------------------- */

static uint64_t to_ns(const struct profile *p, uint64_t ticks)
{
	const uint64_t largest = (uint64_t)1 << 62;
	const uint64_t shown = ticks < largest ? ticks : largest;

	return p->clock.mult ? tsc_clock_ns(&p->clock, p->clock.tsc0 + shown) - p->clock.ns0 : 0;
}

static void fill_row(const struct profile *p, const struct function *f, struct profile_row *row)
{
	struct call_totals all;

	read_all(p, f, &all, row->buckets);
	row->name = f->name;
	row->site = f->site;
	row->returns = f->returns;
	row->hits = all.hits;
	row->timed = all.timed;
	row->total_ns = to_ns(p, all.ticks);
	row->longest_ns = to_ns(p, all.longest);
}

static int read_rows(const struct profile *p, struct profile_rows *out, struct error *err)
{
	*out = (struct profile_rows){.n = p->n, .v = calloc(p->n + 1, sizeof(*out->v))};
	if (p->histogram)
		out->buckets = calloc(p->n + 1, CALL_COUNT_BUCKETS * sizeof(uint64_t));
	if (!out->v || (p->histogram && !out->buckets)) {
		profile_rows_deinit(out);
		return error_set(err, ENOMEM, "out of memory");
	}
	for (size_t i = 0; i < p->n; i++) {
		if (p->histogram)
			out->v[i].buckets = out->buckets + i * CALL_COUNT_BUCKETS;
		fill_row(p, &p->v[i], &out->v[i]);
	}
	for (int i = 0; i < CALL_COUNT_BUCKETS; i++)
		out->bucket_ns[i] = to_ns(p, (uint64_t)1 << i);
	return 0;
}

int profile_read(struct profile *p, struct profile_rows *out, struct error *err)
{
	int ret;

	pthread_mutex_lock(&p->lock);
	ret = read_rows(p, out, err);
	pthread_mutex_unlock(&p->lock);
	return ret;
}

void profile_rows_deinit(struct profile_rows *rows)
{
	free(rows->v);
	free(rows->buckets);
	*rows = (struct profile_rows){0};
}
