/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>
#include "formats/base/text.h"
#include "formats/profile/profiles.h"

/* "412 ns", "1.23 us", "45.6 ms", "7.89 s": three digits. */
static struct text duration(uint64_t ns)
{
	static const char *const units[] = {"ns", "us", "ms", "s"};
	const double step = 1000, two = 99.95, one = 9.995;
	enum { UNITS = sizeof(units) / sizeof(units[0]) };
	double value = (double)ns;
	unsigned int unit = 0;
	struct text text;

	for (; unit + 1 < UNITS && value >= step; unit++)
		value /= step;
	snprintf(text.s, sizeof(text.s), "%.*f %s",
		 !unit || value >= two ? 0
		 : value >= one        ? 1
				       : 2,
		 value, units[unit]);
	return text;
}

static struct text or_dash(bool known, struct text text)
{
	return known ? text : (struct text){"-"};
}

/* A few calls, or one in a hundred, may be open, or have lost their place. */
static bool is_partly_timed(const struct profile_function *f)
{
	enum { FEW = 8, PART = 100 };
	const uint64_t others = f->hits > f->timed ? f->hits - f->timed : 0;

	return others > FEW && others > f->hits / PART;
}

const char *profile_mark(const struct profile_function *function)
{
	if (!function->returns)
		return " (hits only)";
	return is_partly_timed(function) ? " (partly timed)" : "";
}

static void print_histogram(FILE *out, const struct profile_function *f)
{
	enum { WIDTH = 40 };
	uint64_t most = 1;

	for (size_t i = 0; i < f->nr_buckets; i++)
		most = f->buckets[i].calls > most ? f->buckets[i].calls : most;
	for (size_t i = 0; i < f->nr_buckets; i++) {
		const struct profile_bucket *b = &f->buckets[i];
		const int bar = (int)((double)b->calls / (double)most * WIDTH + 0.5);

		if (b->calls)
			fprintf(out, "%12s %14s  %.*s\n", duration(b->from_ns).s,
				text_count(b->calls).s, bar,
				"########################################");
	}
}

static void print_function(FILE *out, const struct profile_function *f, bool histogram)
{
	fprintf(out, "%12s %12s %10s %10s %10s  %s%s\n", text_count(f->hits).s,
		or_dash(f->returns, text_count(f->timed)).s,
		or_dash(f->timed, duration(f->total_ns)).s,
		or_dash(f->timed, duration(profile_mean_ns(f))).s,
		or_dash(f->timed && !f->max_unknown, duration(f->max_ns)).s, f->name,
		profile_mark(f));
	if (histogram)
		print_histogram(out, f);
}

static void print_counts(FILE *out, const struct profile_counts *counts,
			 const struct profile_text_options *options)
{
	const size_t n = options->top && options->top < counts->n ? options->top : counts->n;

	fprintf(out, "%s: %s%s, %s of %s called\n", counts->name, counts->spec,
		counts->ended ? " (ended)" : "", text_count(counts->n).s,
		text_number(counts->nr_profiled, "function").s);
	if (n)
		fprintf(out, "%12s %12s %10s %10s %10s  %s\n", "HITS", "TIMED", "TOTAL", "MEAN",
			"MAX", "FUNCTION");
	for (size_t i = 0; i < n; i++)
		print_function(out, &counts->v[i], options->histogram);
	if (n < counts->n)
		fprintf(out, "%s more; --top 0 shows all\n", text_count(counts->n - n).s);
}

void profile_set_print(FILE *out, const struct profile_set *set,
		       const struct profile_text_options *options)
{
	if (!set->n)
		fputs("no profile\n", out);
	for (size_t i = 0; i < set->n; i++) {
		if (i)
			fputc('\n', out);
		print_counts(out, &set->v[i], options);
	}
}
