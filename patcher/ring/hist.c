/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/ring/hist.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(1 + HIST_COLUMNS + HIST_COLUMNS * HIST_FRAMES + 1 <= HIST_ROW_WORDS,
	       "hits, sums, keys and faults");

/* Rows of hits, sums and key words; modulo 2^64, so that what is to be left out can be added. */
struct rows {
	struct budget *budget; /* or NULL */
	uint64_t *words;
	size_t n, room;
	uint64_t dropped;
};

struct hist {
	_Atomic unsigned int users;
	pthread_mutex_t lock;
	struct hist_config config;
	uint32_t key_words;
	size_t row_words;
	bool attached;
	struct hist_layout layout; /* the last one */
	struct hist_memory memory;
	struct rows past; /* of memory that is gone, minus what was there at the last clear */
	void *host;       /* the memory is the host's, of the budget; or NULL */
	_Atomic uint64_t lost;
};

int hist_create(const struct hist_config *config, struct budget *budget, struct hist **out,
		struct error *err)
{
	struct hist *h = calloc(1, sizeof(*h));

	if (!h)
		return error_set(err, ENOMEM, "out of memory");
	pthread_mutex_init(&h->lock, NULL);
	h->users = 1;
	h->config = *config;
	h->past.budget = budget;
	h->key_words = config->has_faults;
	for (size_t i = 0; i < config->nr_keys; i++)
		h->key_words += config->words[i];
	h->row_words = 1 + config->nr_sums + h->key_words;
	*out = h;
	return 0;
}

struct hist *hist_get(struct hist *h)
{
	h->users++;
	return h;
}

bool hist_is_shared(const struct hist *h)
{
	return h->users > 1;
}

const struct hist_config *hist_config_of(const struct hist *h)
{
	return &h->config;
}

static uint8_t *data_of(const struct hist *h, uint32_t cpu)
{
	return (uint8_t *)h->memory.data + (size_t)cpu * h->memory.stride;
}

static void zero(const struct hist *h)
{
	const size_t bytes = sizeof(struct hist_head) + (size_t)h->layout.places * h->layout.size;

	for (uint32_t cpu = 0; h->attached && cpu < h->memory.nr_cpus; cpu++)
		memset(data_of(h, cpu), 0, bytes);
}

static void free_rows(const struct hist *h, struct rows *rows)
{
	budget_free(rows->budget, rows->words, rows->room * h->row_words * sizeof(*rows->words));
	*rows = (struct rows){.budget = rows->budget};
}

void hist_put(struct hist *h)
{
	if (!h || --h->users)
		return;
	if (h->host)
		budget_free(h->past.budget, h->host, h->memory.data_bytes);
	else
		zero(h);
	free_rows(h, &h->past);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

/* --- memory ---------------------------------------------------------------------------------- */

static bool fits(const struct hist *h, uint32_t data_bytes, uint32_t size, struct hist_layout *out)
{
	return hist_layout_make(data_bytes, size, (uint32_t)h->config.nr_sums, h->key_words, out);
}

static int choose_layout(struct hist *h, uint32_t data_bytes, struct error *err)
{
	uint32_t size = h->config.size ? h->config.size : HIST_DEFAULT_SIZE;

	while (size > HIST_MIN_SIZE && !fits(h, data_bytes, size, &h->layout))
		size /= 2;
	if (!fits(h, data_bytes, size, &h->layout))
		return error_set(err, ENOSPC,
				 "no room for a histogram in %u KiB of each vCPU: give it larger "
				 "rings",
				 data_bytes >> 10);
	if (h->config.size && size < h->config.size)
		return error_set(
			err, ENOSPC,
			"no room for a histogram of size=%u in %u KiB of each vCPU: size=%u "
			"fits, or give it larger rings",
			h->config.size, data_bytes >> 10, size);
	return 0;
}

int hist_attach(struct hist *h, const struct hist_memory *memory, struct error *err)
{
	int ret = 0;

	pthread_mutex_lock(&h->lock);
	if (!h->attached) {
		ret = choose_layout(h, memory->data_bytes, err);
		h->memory = *memory;
		h->attached = !ret;
		zero(h);
	}
	pthread_mutex_unlock(&h->lock);
	return ret;
}

struct hist_layout hist_layout_of(const struct hist *h)
{
	return h->layout;
}

/* --- rows ------------------------------------------------------------------------------------ */

/* `negative`: take it away. */
static int add_row(const struct hist *h, struct rows *rows, const uint64_t *from, bool negative)
{
	const size_t sums = 1 + h->config.nr_sums;
	uint64_t *to;

	if (!budget_grow(rows->budget, &rows->words, h->row_words * sizeof(*rows->words), rows->n,
			 &rows->room))
		return -ENOMEM;
	to = rows->words + rows->n++ * h->row_words;
	for (size_t i = 0; i < h->row_words; i++)
		to[i] = i < sums && negative ? -from[i] : from[i];
	return 0;
}

static uint64_t load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/* A place of the guest's memory, of which each word is read once. */
static int add_place(const struct hist *h, struct rows *rows, const struct hist_place *place,
		     bool negative)
{
	uint64_t row[HIST_ROW_WORDS];

	if (__atomic_load_n(&place->state, __ATOMIC_ACQUIRE) != HIST_READY)
		return 0;
	row[0] = load(&place->hits);
	for (size_t i = 1; i < h->row_words; i++)
		row[i] = load(&place->words[i - 1]);
	return add_row(h, rows, row, negative);
}

/* What is in the guest now. */
static int add_live(const struct hist *h, struct rows *rows, bool negative)
{
	const uint64_t lost = atomic_load(&h->lost);
	int ret = 0;

	rows->dropped += negative ? -lost : lost;
	for (uint32_t cpu = 0; h->attached && cpu < h->memory.nr_cpus; cpu++) {
		const struct hist_head *head = (const void *)data_of(h, cpu);
		const uint8_t *places = (const uint8_t *)(head + 1);
		const uint64_t dropped = load(&head->dropped);

		rows->dropped += negative ? -dropped : dropped;
		for (uint32_t i = 0; !ret && i < h->layout.places; i++)
			ret = add_place(h, rows,
					(const void *)(places + (size_t)i * h->layout.size),
					negative);
	}
	return ret;
}

struct order {
	size_t first, n; /* words of keys */
	uint64_t labels; /* those that do not tell keys apart */
};

/* The name of a task with a number is one: it may change. */
static uint64_t label_words(const struct hist_config *config)
{
	uint64_t labels = 0;
	unsigned int at = 0;

	for (size_t i = 0; i < config->nr_keys; at += config->words[i++])
		for (unsigned int k = 1;
		     config->keys[i].show == HIST_EXECNAME && k < config->words[i]; k++)
			labels |= UINT64_C(1) << (at + k);
	return labels;
}

static int compare_rows(const void *a, const void *b, void *arg)
{
	const uint64_t *x = a, *y = b;
	const struct order *order = arg;

	for (size_t i = 0; i < order->n; i++) {
		const uint64_t a_word = x[order->first + i], b_word = y[order->first + i];

		if (a_word != b_word && !(order->labels >> i & 1))
			return a_word < b_word ? -1 : 1;
	}
	return 0;
}

/* Of equal keys the one with the most hits comes first. */
static int compare_hits_too(const void *a, const void *b, void *arg)
{
	const uint64_t *x = a, *y = b;
	const int keys = compare_rows(a, b, arg);

	return keys ? keys : (*x < *y) - (*x > *y);
}

/* One row for each key, with the labels of most hits. Those that nothing was counted of since the
 * last clear go. */
static void merge_by(const struct hist *h, uint64_t labels, struct rows *rows)
{
	struct order order = {1 + h->config.nr_sums, h->key_words, labels};
	size_t n = 0;

	if (rows->n)
		qsort_r(rows->words, rows->n, h->row_words * sizeof(uint64_t), compare_hits_too,
			&order);
	for (size_t i = 0; i < rows->n; i++) {
		const uint64_t *from = rows->words + i * h->row_words;
		uint64_t *last = n ? rows->words + (n - 1) * h->row_words : NULL;

		if (last && !compare_rows(last, from, &order)) {
			for (size_t k = 0; k < order.first; k++)
				last[k] += from[k];
			continue;
		}
		if (last && !last[0])
			n--;
		memmove(rows->words + n++ * h->row_words, from, h->row_words * sizeof(uint64_t));
	}
	if (n && !rows->words[(n - 1) * h->row_words])
		n--;
	rows->n = n;
}

/* First those with the same labels: of several CPUs, and what a clear takes off. */
static void merge(const struct hist *h, struct rows *rows)
{
	const uint64_t labels = label_words(&h->config);

	merge_by(h, 0, rows);
	if (labels)
		merge_by(h, labels, rows);
}

static int copy_rows(const struct hist *h, const struct rows *from, struct rows *to)
{
	int ret = 0;

	to->dropped = from->dropped;
	for (size_t i = 0; !ret && i < from->n; i++)
		ret = add_row(h, to, from->words + i * h->row_words, false);
	return ret;
}

/* Under the lock. `out` is empty. */
static int read_all(const struct hist *h, struct rows *out)
{
	int ret = copy_rows(h, &h->past, out);

	if (!ret)
		ret = add_live(h, out, false);
	if (ret) {
		free_rows(h, out);
		return ret;
	}
	merge(h, out);
	return 0;
}

static void replace_past(struct hist *h, const struct rows *rows)
{
	free_rows(h, &h->past);
	h->past = *rows;
}

/* Without memory to keep the sums, their events are dropped ones. */
static void drop_live(struct hist *h)
{
	for (uint32_t cpu = 0; cpu < h->memory.nr_cpus; cpu++) {
		const struct hist_head *head = (const void *)data_of(h, cpu);
		const uint8_t *places = (const uint8_t *)(head + 1);

		h->past.dropped += load(&head->dropped);
		for (uint32_t i = 0; i < h->layout.places; i++) {
			const struct hist_place *place =
				(const void *)(places + (size_t)i * h->layout.size);

			h->past.dropped += load(&place->hits);
		}
	}
}

void hist_detach(struct hist *h)
{
	struct rows all = {.budget = h->past.budget};

	pthread_mutex_lock(&h->lock);
	if (h->attached) {
		if (read_all(h, &all))
			drop_live(h);
		else
			replace_past(h, &all);
		zero(h);
		h->attached = false;
	}
	pthread_mutex_unlock(&h->lock);
}

int hist_clear(struct hist *h, struct error *err)
{
	struct rows none = {.budget = h->past.budget};
	int ret;

	pthread_mutex_lock(&h->lock);
	ret = add_live(h, &none, true);
	if (ret)
		free_rows(h, &none);
	else
		replace_past(h, &none);
	pthread_mutex_unlock(&h->lock);
	return ret ? error_set(err, ENOMEM, "out of memory") : 0;
}

/* --- the host's table ------------------------------------------------------------------------- */

int hist_keep_on_host(struct hist *h, struct error *err)
{
	const uint32_t size = h->config.size ? h->config.size : HIST_DEFAULT_SIZE;
	size_t bytes;

	fits(h, UINT32_MAX, size, &h->layout);
	bytes = sizeof(struct hist_head) + (size_t)h->layout.places * h->layout.size;
	h->host = budget_calloc(h->past.budget, 1, bytes);
	if (!h->host)
		return error_set(err, ENOMEM,
				 "no memory for a histogram of size=%u: give it a smaller one",
				 size);
	h->memory = (struct hist_memory){h->host, (uint32_t)bytes, (uint32_t)bytes, 1};
	h->attached = true;
	return 0;
}

/* As code in the guest does it. NULL: there is no place. */
static struct hist_place *find_place(struct hist *h, const uint64_t *key)
{
	const struct hist_layout *l = &h->layout;
	const size_t key_bytes = l->key_words * sizeof(*key);
	struct hist_head *head = h->memory.data;

	for (uint32_t i = hist_begin(l, key); i < l->places; i++) {
		struct hist_place *place = (void *)((uint8_t *)(head + 1) + (size_t)i * l->size);
		uint64_t *words = place->words + l->nr_values;

		if (place->state == HIST_READY && !memcmp(words, key, key_bytes))
			return place;
		if (place->state)
			continue;
		if (head->used >= l->limit)
			return NULL;
		head->used++;
		memcpy(words, key, key_bytes);
		place->state = HIST_READY;
		return place;
	}
	return NULL;
}

void hist_add(struct hist *h, const uint64_t *key, const uint64_t *values)
{
	struct hist_place *place;

	pthread_mutex_lock(&h->lock);
	place = find_place(h, key);
	if (place) {
		place->hits++;
		for (uint32_t i = 0; i < h->layout.nr_values; i++)
			place->words[i] += values[i];
	} else {
		((struct hist_head *)h->memory.data)->dropped++;
	}
	pthread_mutex_unlock(&h->lock);
}

_Atomic uint64_t *hist_lost(struct hist *h)
{
	return &h->lost;
}

/* --- results --------------------------------------------------------------------------------- */

int hist_read(struct hist *h, struct hist_sums *out, struct error *err)
{
	struct rows all = {0}; /* for the user, not for the guest */
	int ret;

	pthread_mutex_lock(&h->lock);
	ret = read_all(h, &all);
	*out = (struct hist_sums){.size = h->layout.limit};
	pthread_mutex_unlock(&h->lock);
	if (!ret)
		out->v = calloc(all.n + 1, sizeof(*out->v));
	if (ret || !out->v) {
		if (!ret)
			free(all.words);
		return error_set(err, ENOMEM, "out of memory");
	}
	out->words = all.words;
	out->n = all.n;
	out->dropped = all.dropped;
	for (size_t i = 0; i < all.n; i++) {
		const uint64_t *row = all.words + i * h->row_words;

		out->v[i] = (struct hist_sum){
			.hits = row[0], .sums = row + 1, .key = row + 1 + h->config.nr_sums};
	}
	return 0;
}

void hist_sums_deinit(struct hist_sums *sums)
{
	free(sums->v);
	free(sums->words);
	*sums = (struct hist_sums){0};
}
