/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Judging what is still live at the end: when it was born, and what else its call site frees. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/analysis/survivors.h"

enum {
	FIRST_PART = 2, /* what was born before may be what the guest needs for good */
	LAST_PART = 13, /* what was born from here on may yet be freed */
	LEAST_OBJECTS = 8,
	/* What grows has so many births, or such a part of all live memory is of them. */
	LEAST_BIRTHS = 64,
	LEAST_PART = 1000,
	/* So many frees were missed for each object that is live, at least, if it is not known what
	 * of these was freed: one for four. */
	LEAST_SHARE = 4,
};

/* While the heap is walked. */
struct judge {
	const struct sites *sites;
	struct survivors *all; /* by origin */
	double *old_ages_ns;   /* likewise: old_age_ns() */
	size_t n;
	int64_t older_ns;
	uint64_t used_bytes; /* of all sites */
};

/* --- when they were born --------------------------------------------------------------------- */

/* The age from which on an object of this site is not freed any more, but for 1 in 100. */
static double old_age_ns(const struct judge *j, const struct site *site)
{
	const double part = (double)sites_duration_ns(j->sites) / SURVIVOR_PARTS;
	double usual = 4 * site_life_ns(site, 0.99);

	return usual > part ? usual : part;
}

/* A kernel that boots makes what it keeps for good, all the time. */
static bool has_of_boot(const struct sites *sites, const struct survivors *s)
{
	return s->objects > s->before && s->first_ns < sites->init.ns;
}

/*
 * A leak that begins within the window, with its module or its load, is judged from its beginning
 * on, if that leaves half of the window: in the whole of it, its survivors would not look even.
 * What began while the kernel booted is judged from init on.
 */
static int64_t judged_from_ns(const struct sites *sites, const struct survivors *s)
{
	const uint64_t all = sites_duration_ns(sites);
	const uint64_t rest = (uint64_t)*sites->of.last_ns - (uint64_t)s->first_ns;

	if (has_of_boot(sites, s))
		return sites->init.ns;
	return s->before || rest < all / 2 || rest > all ? *sites->of.first_ns : s->first_ns;
}

static void count_birth(const struct sites *sites, uint64_t births[SURVIVOR_PARTS], int64_t from_ns,
			int64_t born_ns)
{
	uint64_t ns = ((uint64_t)*sites->of.last_ns - (uint64_t)from_ns) / SURVIVOR_PARTS + 1;
	uint64_t part = ((uint64_t)born_ns - (uint64_t)from_ns) / ns;

	births[part < SURVIVOR_PARTS ? part : SURVIVOR_PARTS - 1]++;
}

static struct survivors *survivors_of(struct judge *j, const struct heap_object *object)
{
	return object->selected && object->origin < j->n ? &j->all[object->origin] : NULL;
}

static double age_ns(const struct sites *sites, const struct heap_object *object)
{
	const double age = (double)*sites->of.last_ns - (double)object->born_ns;

	return age > 0 ? age : 0;
}

static void count_aged(struct survivors *s, const struct heap_object *object, double age)
{
	s->aged_objects++;
	s->aged_bytes += object->bytes;
	s->ages_ns += age;
}

static void count_old(struct survivors *s, const struct heap_object *object)
{
	s->old_objects++;
	s->old_bytes += object->bytes;
}

static void count_survivor(void *arg, uint64_t ptr, const struct heap_object *object)
{
	struct judge *j = arg;
	const struct sites *sites = j->sites;
	struct survivors *s = survivors_of(j, object);
	double age = age_ns(sites, object);

	(void)ptr;
	if (!s)
		return;
	s->objects++;
	s->bytes += object->bytes;
	if (age >= (double)j->older_ns)
		count_aged(s, object, age);
	if (object->born_ns < *sites->of.first_ns)
		s->before++;
	else if (s->objects == s->before + 1 || object->born_ns < s->first_ns)
		s->first_ns = object->born_ns;
	if (age < j->old_ages_ns[object->origin])
		return;
	s->old_since_init += object->born_ns >= sites->init.ns;
	if (age >= (double)j->older_ns)
		count_old(s, object);
}

static void sort_survivor(void *arg, uint64_t ptr, const struct heap_object *object)
{
	struct judge *j = arg;
	const struct sites *sites = j->sites;
	struct survivors *s = survivors_of(j, object);
	int64_t from_ns;

	(void)ptr;
	if (!s || object->born_ns < *sites->of.first_ns)
		return;
	from_ns = judged_from_ns(sites, s);
	count_birth(sites, s->births, *sites->of.first_ns, object->born_ns);
	if (object->born_ns >= from_ns)
		count_birth(sites, s->judged, from_ns, object->born_ns);
}

/* --- verdicts -------------------------------------------------------------------------------- */

/* Whether a name, "do_anonymous_page", has these words, such as "anonymous_page", in a row. */
static bool has_words(const char *name, const char *words)
{
	const size_t length = strlen(words);
	const char *at = name;

	for (; (at = strstr(at, words)); at++)
		if ((at == name || at[-1] == '_') && !isalnum((unsigned char)at[length]))
			return true;
	return false;
}

static bool has_any_words(const char *name, const char *const *all)
{
	for (; *all; all++)
		if (has_words(name, *all))
			return true;
	return false;
}

/* Caches that the kernel shrinks when memory is short, addresses of vmalloc(), which it gives back
 * when many have been freed, and memory that belongs to processes. */
static bool is_reclaimable(const struct judge *j, const struct heap_origin *origin)
{
	static const char *const caches[] = {
		"dentry", "inode", "radix_tree_node", "buffer_head", "xfs_buf", "vmap_area", NULL};
	static const char *const functions[] = {"fault",      "wp_page",     "page_cache",
						"filemap",    "shmem_alloc", "anonymous_page",
						"anon_folio", NULL};
	const struct sidecar *sidecar = j->sites->of.sidecar;
	const struct sidecar_cache *cache = sidecar_cache(sidecar, origin->cache);

	if (cache && origin->cache && has_any_words(cache->name, caches))
		return true;
	return origin->type == KMEM_TYPE_PAGES &&
	       has_any_words(sidecar_function_text(sidecar, origin->call_site).s, functions);
}

/* Survivors of the middle parts, and in how many of these there are any. */
static uint64_t middle(const struct survivors *s, size_t *parts)
{
	uint64_t sum = 0;

	*parts = 0;
	for (size_t i = FIRST_PART; i < LAST_PART; i++) {
		sum += s->judged[i];
		*parts += s->judged[i] > 0;
	}
	return sum;
}

/* How near the sums of survivors are to a straight line, from 0 to 1: how evenly they were born. */
static double evenness(const struct survivors *s, uint64_t sum)
{
	const double n = LAST_PART - FIRST_PART;
	double most = 0, so_far = 0;

	for (size_t i = FIRST_PART; i < LAST_PART; i++) {
		double line = (double)(i + 1 - FIRST_PART) / n, off;

		so_far += (double)s->judged[i];
		off = so_far / (double)sum - line;
		off = off < 0 ? -off : off;
		most = off > most ? off : most;
	}
	return 1 - most;
}

static enum verdict judge_uneven(const struct judge *j, const struct survivors *s)
{
	const uint64_t *births = has_of_boot(j->sites, s) ? s->births : s->judged;
	uint64_t early = s->before, late = 0;

	for (size_t i = 0; i < SURVIVOR_PARTS; i++) {
		early += i < SURVIVOR_PARTS / 2 ? births[i] : 0;
		late += i >= LAST_PART ? births[i] : 0;
	}
	if (late * 2 > s->objects)
		return VERDICT_RECENT;
	return early * 4 > s->objects * 3 ? VERDICT_SETTLED : VERDICT_UNCLEAR;
}

static uint64_t judged_ns(const struct sites *sites, const struct survivors *s)
{
	return (uint64_t)*sites->of.last_ns - (uint64_t)judged_from_ns(sites, s);
}

/* Of a site that frees little, nothing says how long its objects live. That some came all the time
 * means something once the time is long, and once they are many or large. */
static bool is_growth(const struct judge *j, const struct survivors *s)
{
	uint64_t births = 0;
	double bytes;

	for (size_t i = 0; i < SURVIVOR_PARTS; i++)
		births += s->judged[i];
	bytes = (double)s->bytes * (double)births / (double)s->objects;
	return judged_ns(j->sites, s) >= SURVIVORS_LEAST_NS &&
	       (births >= LEAST_BIRTHS || bytes * LEAST_PART >= (double)j->used_bytes);
}

/*
 * A missed free shows only where its address is allocated again. Where that is seen often enough,
 * what is live is likely to have other objects that were freed.
 */
static bool lacks_frees(const struct judge *j, const struct survivors *s)
{
	const uint64_t missed = j->sites->all[s->origin].missed_frees;

	return j->sites->of.lacks_frees || (missed && missed >= s->objects / LEAST_SHARE);
}

static enum verdict judge_survivors(const struct judge *j, const struct survivors *s)
{
	const struct site *site = &j->sites->all[s->origin];
	const double even = 0.75;
	size_t parts, all = LAST_PART - FIRST_PART;
	uint64_t sum = middle(s, &parts);

	if (lacks_frees(j, s))
		return VERDICT_UNKNOWN;
	if (!*j->sites->of.records) /* nothing happened in the window */
		return VERDICT_UNCLEAR;
	if (sum < LEAST_OBJECTS || parts * 4 < all * 3 || s->evenness < even ||
	    s->old_since_init < LEAST_OBJECTS)
		return judge_uneven(j, s);
	if (is_reclaimable(j, heap_origin(j->sites->of.heap, s->origin)))
		return is_growth(j, s) ? VERDICT_RECLAIM : judge_uneven(j, s);
	if (site->new_frees > site->sums.hits / 2)
		return VERDICT_LEAK;
	return is_growth(j, s) ? VERDICT_GROWS : judge_uneven(j, s);
}

static void assess(const struct judge *j, struct survivors *s)
{
	double seconds = (double)judged_ns(j->sites, s) / 1e9;
	size_t parts;
	uint64_t sum = middle(s, &parts);

	if (sum && s->objects) {
		s->evenness = evenness(s, sum);
		s->per_s = (double)s->bytes * (double)sum / (double)s->objects /
			   (seconds * (LAST_PART - FIRST_PART) / SURVIVOR_PARTS);
	}
	s->verdict = judge_survivors(j, s);
	s->score = s->verdict <= VERDICT_GROWS ? s->per_s * s->evenness : (double)s->bytes;
}

static int compare(const void *a, const void *b)
{
	const struct survivors *x = a, *y = b;

	if (x->verdict != y->verdict)
		return x->verdict < y->verdict ? -1 : 1;
	if (x->score != y->score)
		return x->score < y->score ? 1 : -1;
	return (x->origin > y->origin) - (x->origin < y->origin);
}

static int make_room(struct judge *j)
{
	j->all = calloc(j->n + 1, sizeof(*j->all));
	j->old_ages_ns = calloc(j->n + 1, sizeof(*j->old_ages_ns));
	if (j->all && j->old_ages_ns)
		return 0;
	free(j->all);
	free(j->old_ages_ns);
	return -ENOMEM;
}

int survivors_find(const struct sites *sites, int64_t older_ns, struct survivors **out,
		   size_t *count)
{
	const struct heap *heap = sites->of.heap;
	size_t known = heap_nr_origins(heap), n = 0;
	struct judge j = {
		.sites = sites, .n = sites->n < known ? sites->n : known, .older_ns = older_ns};

	if (make_room(&j))
		return -ENOMEM;
	j.used_bytes = sites_used_bytes(sites);
	for (size_t i = 0; i < j.n; i++)
		j.old_ages_ns[i] = old_age_ns(&j, &sites->all[i]);
	heap_each(heap, count_survivor, &j);
	heap_each(heap, sort_survivor, &j);
	for (uint32_t i = 0; i < j.n; i++) {
		struct survivors s = j.all[i];

		s.origin = i;
		s.old_age_ns = (int64_t)j.old_ages_ns[i];
		if (!s.aged_objects || heap_is_backing(heap_origin(heap, i)))
			continue;
		assess(&j, &s);
		j.all[n++] = s;
	}
	free(j.old_ages_ns);
	qsort(j.all, n, sizeof(*j.all), compare);
	*out = j.all;
	*count = n;
	return 0;
}

static bool begins_in_boot(const struct sites *sites)
{
	return *sites->of.first_ns < sites->init.ns;
}

bool survivors_are_short(const struct sites *sites)
{
	const int64_t begin_ns = begins_in_boot(sites) ? sites->init.ns : *sites->of.first_ns;

	return !*sites->of.records ||
	       (uint64_t)*sites->of.last_ns - (uint64_t)begin_ns < SURVIVORS_LEAST_NS;
}

const char *survivors_time_text(const struct sites *sites)
{
	return begins_in_boot(sites) ? "10 s from init on" : "10 s";
}

bool survivors_lack_init(const struct sites *sites)
{
	return sites->of.from_first && sites->init.ns == INT64_MIN;
}

/* --- in words -------------------------------------------------------------------------------- */

const char *verdict_name(enum verdict verdict)
{
	static const char *const names[] = {
		[VERDICT_LEAK] = "leak",           [VERDICT_GROWS] = "only grows",
		[VERDICT_RECLAIM] = "reclaimable", [VERDICT_SETTLED] = "settled",
		[VERDICT_RECENT] = "recent",       [VERDICT_UNCLEAR] = "unclear",
		[VERDICT_UNKNOWN] = "unknown",
	};

	return names[verdict];
}

double site_freed_percent(const struct site *site)
{
	return site->sums.hits ? 100.0 * (double)site->new_frees / (double)site->sums.hits : 0;
}
