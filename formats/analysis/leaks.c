/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is still live at the end, and whether it looks like a leak. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/analysis/sites.h"
#include "formats/base/json.h"
#include "formats/report/table.h"
#include "formats/report/trace-text.h"

enum {
	LABEL = 14,
	PARTS = 16,     /* of the time, by which births of survivors are counted */
	FIRST_PART = 2, /* what was born before may be what the guest needs for good */
	LAST_PART = 13, /* what was born from here on may yet be freed */
	LEAST_OBJECTS = 8,
};

enum verdict {
	LEAK,    /* most are freed, but some of each time's stay */
	GROWS,   /* hardly anything is freed, and more comes all the time */
	RECLAIM, /* so does a cache that the guest can shrink, or user memory */
	SETTLED, /* it came early, and no more does */
	RECENT,  /* it came lately */
	UNCLEAR,
	NR_VERDICTS
};

static const char *const verdict_names[] = {
	[LEAK] = "leak",       [GROWS] = "only grows", [RECLAIM] = "reclaimable",
	[SETTLED] = "settled", [RECENT] = "recent",    [UNCLEAR] = "unclear",
};

/* The survivors of an origin. */
struct survivors {
	uint32_t origin;
	uint64_t objects, bytes;
	uint64_t old_objects, old_bytes; /* older than what is freed gets to be */
	int64_t first_ns;                /* birth of the oldest one in the window */
	uint64_t births[PARTS];          /* objects, by time of birth in the window */
	uint64_t judged[PARTS];          /* the same in the time that is judged */
	uint64_t before;                 /* objects that are older than the window */
	/* when judged: */
	enum verdict verdict;
	double per_s; /* bytes per second that stay */
	double confidence;
	double score;
};

struct leaks {
	struct analysis base;
	struct sites sites;
	struct survivors *all; /* by origin, then sorted */
	size_t n;
};

static int create(const struct replay *replay, const struct analysis_options *options,
		  struct analysis **out, struct error *err)
{
	struct leaks *l = calloc(1, sizeof(*l));

	(void)options;
	if (!l)
		return error_set(err, ENOMEM, "out of memory");
	sites_init(&l->sites, replay);
	*out = &l->base;
	return 0;
}

static void destroy(struct analysis *base)
{
	struct leaks *l = (struct leaks *)base;

	sites_deinit(&l->sites);
	free(l->all);
	free(l);
}

static int change(struct analysis *base, const struct heap_change *change)
{
	struct leaks *l = (struct leaks *)base;

	return change->object ? sites_add(&l->sites, change) : 0;
}

/* --- survivors ------------------------------------------------------------------------------- */

/* The age from which on an object of this site is not freed any more, but for 1 in 100. */
static double old_age_ns(const struct leaks *l, const struct site *site)
{
	const double part = (double)replay_duration_ns(l->base.replay) / PARTS;
	double usual = 4 * site_life_ns(site, 0.99);

	return usual > part ? usual : part;
}

/*
 * A leak that begins within the window, with its module or its load, is judged from its beginning
 * on, if that leaves half of the window: in the whole of it, its survivors would not look even.
 */
static int64_t judged_from_ns(const struct replay *replay, const struct survivors *s)
{
	const uint64_t all = replay_duration_ns(replay);
	const uint64_t rest = (uint64_t)replay->last_ns - (uint64_t)s->first_ns;

	return s->before || rest < all / 2 || rest > all ? replay->first_ns : s->first_ns;
}

static void count_birth(const struct replay *replay, uint64_t births[PARTS], int64_t from_ns,
			int64_t born_ns)
{
	uint64_t ns = ((uint64_t)replay->last_ns - (uint64_t)from_ns) / PARTS + 1;
	uint64_t part = ((uint64_t)born_ns - (uint64_t)from_ns) / ns;

	births[part < PARTS ? part : PARTS - 1]++;
}

static struct survivors *survivors_of(struct leaks *l, const struct heap_object *object)
{
	return object->selected && object->origin < l->n ? &l->all[object->origin] : NULL;
}

static void count_survivor(void *arg, uint64_t ptr, const struct heap_object *object)
{
	struct leaks *l = arg;
	const struct replay *replay = l->base.replay;
	struct survivors *s = survivors_of(l, object);
	double age = (double)replay->last_ns - (double)object->born_ns;

	(void)ptr;
	if (!s)
		return;
	s->objects++;
	s->bytes += object->bytes;
	if (object->born_ns < replay->first_ns)
		s->before++;
	else if (s->objects == s->before + 1 || object->born_ns < s->first_ns)
		s->first_ns = object->born_ns;
	if (age < old_age_ns(l, &l->sites.all[object->origin]))
		return;
	s->old_objects++;
	s->old_bytes += object->bytes;
}

static void sort_survivor(void *arg, uint64_t ptr, const struct heap_object *object)
{
	struct leaks *l = arg;
	const struct replay *replay = l->base.replay;
	struct survivors *s = survivors_of(l, object);

	(void)ptr;
	if (!s || object->born_ns < replay->first_ns)
		return;
	count_birth(replay, s->births, replay->first_ns, object->born_ns);
	count_birth(replay, s->judged, judged_from_ns(replay, s), object->born_ns);
}

/* --- verdicts -------------------------------------------------------------------------------- */

/* Caches that the kernel shrinks when memory is short, addresses of vmalloc(), which it gives back
 * when many have been freed, and memory that belongs to processes. */
static bool is_reclaimable(const struct leaks *l, const struct heap_origin *origin)
{
	static const char *const caches[] = {"dentry",      "inode",   "radix_tree_node",
					     "buffer_head", "xfs_buf", "kernfs_node",
					     "anon_vma",    "vm_area", "vmap_area"};
	static const char *const functions[] = {"fault",     "wp_page_copy", "page_cache",
						"filemap",   "shmem_alloc",  "anonymous_page",
						"anon_folio"};
	const struct sidecar *sidecar = trace_reader_sidecar(l->base.replay->reader);
	const struct sidecar_cache *cache = sidecar_cache(sidecar, origin->cache);
	struct text function = sidecar_function_text(sidecar, origin->call_site);

	for (size_t i = 0; cache && origin->cache && i < sizeof(caches) / sizeof(caches[0]); i++) {
		if (strstr(cache->name, caches[i]))
			return true;
	}
	for (size_t i = 0;
	     origin->type == KMEM_TYPE_PAGES && i < sizeof(functions) / sizeof(functions[0]); i++) {
		if (strstr(function.s, functions[i]))
			return true;
	}
	return false;
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

static enum verdict judge_uneven(const struct survivors *s)
{
	uint64_t early = s->before, late = 0;

	for (size_t i = 0; i < PARTS; i++) {
		early += i < PARTS / 2 ? s->judged[i] : 0;
		late += i >= LAST_PART ? s->judged[i] : 0;
	}
	if (late * 2 > s->objects)
		return RECENT;
	return early * 4 > s->objects * 3 ? SETTLED : UNCLEAR;
}

static enum verdict judge(const struct leaks *l, const struct survivors *s)
{
	const struct site *site = &l->sites.all[s->origin];
	const double even = 0.75;
	size_t parts, all = LAST_PART - FIRST_PART;
	uint64_t sum = middle(s, &parts);

	if (sum < LEAST_OBJECTS || parts * 4 < all * 3 || s->confidence < even ||
	    s->old_objects < LEAST_OBJECTS)
		return judge_uneven(s);
	if (is_reclaimable(l, heap_origin(l->base.replay->heap, s->origin)))
		return RECLAIM;
	return site->frees > site->hits / 2 ? LEAK : GROWS;
}

static void assess(const struct leaks *l, struct survivors *s)
{
	const struct replay *replay = l->base.replay;
	double seconds =
		(double)((uint64_t)replay->last_ns - (uint64_t)judged_from_ns(replay, s)) / 1e9;
	size_t parts;
	uint64_t sum = middle(s, &parts);

	if (sum && s->objects) {
		s->confidence = evenness(s, sum);
		s->per_s = (double)s->bytes * (double)sum / (double)s->objects /
			   (seconds * (LAST_PART - FIRST_PART) / PARTS);
	}
	s->verdict = judge(l, s);
	s->score = s->verdict <= GROWS ? s->per_s * s->confidence : (double)s->bytes;
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

static int finish(struct analysis *base)
{
	struct leaks *l = (struct leaks *)base;
	const struct heap *heap = base->replay->heap;
	size_t known = heap_nr_origins(heap), n = 0;

	free(l->all);
	l->n = l->sites.n < known ? l->sites.n : known;
	l->all = calloc(l->n + 1, sizeof(*l->all));
	if (!l->all)
		return -ENOMEM;
	heap_each(heap, count_survivor, l);
	heap_each(heap, sort_survivor, l);
	for (uint32_t i = 0; i < l->n; i++) {
		struct survivors s = l->all[i];

		s.origin = i;
		if (!s.objects || heap_is_backing(heap_origin(heap, i)))
			continue;
		assess(l, &s);
		l->all[n++] = s;
	}
	l->n = n;
	qsort(l->all, n, sizeof(*l->all), compare);
	return 0;
}

/* --- text ------------------------------------------------------------------------------------ */

/* In the middle of those that are freed, the share. */
static double freed_percent(const struct leaks *l, const struct survivors *s)
{
	const struct site *site = &l->sites.all[s->origin];

	return site->hits ? 100.0 * (double)site->frees / (double)site->hits : 0;
}

static void add_row(struct table *table, const struct leaks *l, const struct survivors *s)
{
	char cells[2][32];

	snprintf(cells[0], sizeof(cells[0]), "%.2f", s->confidence);
	snprintf(cells[1], sizeof(cells[1]), "%.2f", freed_percent(l, s));
	table_add_cell(table, text_bytes(s->bytes).s);
	table_add_cell(table, site_text(l->base.replay, s->origin).s);
	table_add_cell(table, verdict_names[s->verdict]);
	table_add_cell(table, text_bytes((uint64_t)s->per_s).s);
	table_add_cell(table, cells[0]);
	table_add_cell(table, text_count(s->objects).s);
	table_add_cell(table, text_count(s->old_objects).s);
	table_add_cell(table, cells[1]);
	table_add_cell(table, sparkline(s->births, PARTS).s);
}

static bool is_shown(const struct leaks *l, size_t i)
{
	size_t top = l->base.options.top;

	return (l->all[i].verdict <= GROWS || l->base.options.verbose) && (!top || i < top);
}

static void print_table(FILE *out, const struct leaks *l)
{
	static const struct {
		const char *title;
		bool is_name;
	} columns[] = {{"LIVE", false},    {"CALL SITE", true}, {"VERDICT", true},
		       {"STAYS/S", false}, {"EVEN", false},     {"OBJECTS", false},
		       {"OLD", false},     {"FREED %", false},  {"BORN", true}};
	struct table *table = table_create();

	if (!table)
		return;
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		table_add_column(table, columns[i].title, columns[i].is_name);
	for (size_t i = 0; i < l->n && is_shown(l, i); i++)
		add_row(table, l, &l->all[i]);
	if (l->n && is_shown(l, 0)) {
		fputc('\n', out);
		table_print(table, out);
	}
	table_destroy(table);
}

/* Sites and bytes of each verdict. */
static void print_verdicts(FILE *out, const struct leaks *l)
{
	static const char *const meanings[] = {
		[LEAK] = "most are freed, but some of any time stay",
		[GROWS] = "most stay, and more comes all the time",
		[RECLAIM] = "grows too, but the guest can shrink it",
		[SETTLED] = "came early, and no more does",
		[RECENT] = "came lately, and may yet be freed",
		[UNCLEAR] = "the rest",
	};

	for (enum verdict verdict = 0; verdict < NR_VERDICTS; verdict++) {
		uint64_t sites = 0, bytes = 0;

		for (size_t i = 0; i < l->n; i++) {
			sites += l->all[i].verdict == verdict;
			bytes += l->all[i].verdict == verdict ? l->all[i].bytes : 0;
		}
		fprintf(out, "  %-*s%6s, %11s  %s\n", LABEL - 2, verdict_names[verdict],
			text_count(sites).s, text_bytes(bytes).s, meanings[verdict]);
	}
}

/* Whether the window begins with the guest's boot, in which what leaks later does not grow. */
static bool has_boot(const struct replay *replay)
{
	const struct sidecar *sidecar = trace_reader_sidecar(replay->reader);

	return sidecar && sidecar->info.from_first_allocation && replay->from_ns == INT64_MIN;
}

static void print_text(const struct analysis *base, FILE *out)
{
	const struct leaks *l = (const struct leaks *)base;
	const struct replay *replay = base->replay;

	text_print_head(out, replay->reader, replay->records, replay_duration_ns(replay), LABEL);
	fprintf(out, "%-*s%s with live memory at the end\n", LABEL, "Call sites",
		text_count(l->n).s);
	print_verdicts(out, l);
	text_print_losses(out, replay->reader, LABEL);
	replay_print_bound(replay, out, LABEL);
	print_table(out, l);
	if (l->n && l->all[0].verdict <= GROWS)
		fprintf(out,
			"\nNext          sonde report --by pointer --older 1s --filter "
			"'call_site.function == \"%s\"' %s\n",
			sidecar_function_text(
				trace_reader_sidecar(replay->reader),
				heap_origin(replay->heap, l->all[0].origin)->call_site)
				.s,
			base->options.dir);
	else if (l->n && has_boot(replay))
		fprintf(out,
			"%-*snothing grows from boot on; sonde leaks --since init %s leaves the "
			"boot out\n",
			LABEL, "Next", base->options.dir);
	else if (l->n && !base->options.verbose)
		fprintf(out, "%-*snothing leaks; sonde leaks --verbose %s shows all\n", LABEL,
			"Next", base->options.dir);
}

/* --- JSON ------------------------------------------------------------------------------------ */

static json_t *site_of_json(const struct leaks *l, const struct survivors *s)
{
	json_t *item = site_json(l->base.replay, s->origin), *births = json_array();
	int failed = json_object_set_new(item, "verdict", json_string(verdict_names[s->verdict]));

	for (size_t i = 0; i < PARTS; i++)
		json_array_append_new(births, json_from_count(s->births[i]));
	failed |= json_object_set_new(item, "live_bytes", json_from_count(s->bytes));
	failed |= json_object_set_new(item, "live_objects", json_from_count(s->objects));
	failed |= json_object_set_new(item, "old_objects", json_from_count(s->old_objects));
	failed |= json_object_set_new(item, "old_bytes", json_from_count(s->old_bytes));
	failed |=
		json_object_set_new(item, "bytes_per_second", json_from_count((uint64_t)s->per_s));
	failed |= json_object_set_new(item, "evenness", json_real(s->confidence));
	failed |= json_object_set_new(item, "freed_percent", json_real(freed_percent(l, s)));
	if (!(failed | json_object_set_new(item, "births", births)))
		return item;
	json_decref(item);
	return NULL;
}

static int put_json(const struct analysis *base, json_t *root)
{
	const struct leaks *l = (const struct leaks *)base;
	json_t *array = json_array();
	size_t top = base->options.top;
	int failed = replay_put_json(base->replay, root);

	for (size_t i = 0; i < l->n && (!top || i < top); i++)
		failed |= json_array_append_new(array, site_of_json(l, &l->all[i]));
	failed |= json_object_set_new(root, "records", json_from_count(base->replay->records));
	failed |= json_object_set_new(root, "duration_ns",
				      json_from_count(replay_duration_ns(base->replay)));
	return failed | json_object_set_new(root, "call_sites", array);
}

const struct analysis_ops leaks_analysis = {
	.about = "what is live, and whether it looks like a leak",
	.create = create,
	.change = change,
	.finish = finish,
	.print_text = print_text,
	.put_json = put_json,
	.destroy = destroy,
};
