/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The session's histograms, as documents. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/event/event.h"
#include "formats/hist/hists.h"
#include "vmm/recorder/internal.h"

enum { TEXT_SIZE = 256 };

/* --- keys ------------------------------------------------------------------------------------ */

/* Bytes that the guest wrote. */
static char *text_of(const uint64_t *words, unsigned int n)
{
	char bytes[HIST_KEY_WORDS * sizeof(uint64_t) + 1] = "", clean[sizeof(bytes)];

	memcpy(bytes, words, n * sizeof(uint64_t));
	clean_text(clean, sizeof(clean), bytes);
	return strdup(clean);
}

static char *symbol_of(struct trace_session *session, uint64_t gva, bool offset)
{
	struct site_function function = {0};
	char text[TEXT_SIZE];

	if (trace_session_symbolize(session, gva, &function))
		snprintf(text, sizeof(text), "0x%" PRIx64, gva);
	else if (offset)
		snprintf(text, sizeof(text), "%.*s+0x%" PRIx64 "/0x%" PRIx64, TEXT_SIZE - 40,
			 function.name, gva - function.start, function.size);
	else
		snprintf(text, sizeof(text), "%.*s", TEXT_SIZE - 1, function.name);
	return strdup(text);
}

static char *syscall_of(const struct trace_session *session, uint64_t number)
{
	const char *name = trace_session_syscall(session, number);
	char text[TEXT_SIZE];

	snprintf(text, sizeof(text), "%s%s", name ? "sys_" : "unknown_syscall", name ? name : "");
	return strdup(text);
}

/* The text that goes with a key. *has: there is one. */
static char *key_text(struct trace_session *session, const struct hist_column *column,
		      const uint64_t *words, unsigned int n, uint64_t number, bool *has)
{
	*has = true;
	switch (column->show) {
	case HIST_SYMBOL:
	case HIST_SYM_OFFSET:
		return symbol_of(session, number, column->show == HIST_SYM_OFFSET);
	case HIST_EXECNAME: /* each vCPU has an idle task, with a name of its own */
		return number ? text_of(words + 1, n - 1) : strdup("<idle>");
	case HIST_SYSCALL:
		return syscall_of(session, number);
	case HIST_TEXT:
		return text_of(words, n);
	default:
		*has = false;
		return NULL;
	}
}

/* From the innermost frame on. */
static int set_frames(struct trace_session *session, const uint64_t *words, struct hist_value *key)
{
	key->frames = calloc(HIST_FRAMES, sizeof(*key->frames));
	if (!key->frames)
		return -ENOMEM;
	for (size_t i = 0; i < HIST_FRAMES && words[i]; i++) {
		struct hist_frame *frame = &key->frames[key->nr_frames];

		key->cut = words[i] == EVENT_STACK_CUT;
		if (key->cut)
			break;
		frame->address = words[i];
		frame->text = symbol_of(session, words[i], true);
		if (!frame->text)
			return -ENOMEM;
		key->nr_frames++;
	}
	key->number = key->nr_frames ? words[0] : 0;
	return 0;
}

/* --- rows ------------------------------------------------------------------------------------ */

static int set_keys(struct trace_session *session, const struct hist_config *config,
		    const uint64_t *words, struct hist_row *row)
{
	unsigned int all = 0;
	uint64_t faults;
	bool has;

	for (size_t i = 0; i < config->nr_keys; i++)
		all += config->words[i];
	faults = config->has_faults ? words[all] : 0;
	for (size_t i = 0; i < config->nr_keys; i++) {
		struct hist_value *key = &row->keys[i];

		key->number = words[0] + (uint64_t)config->bias[i];
		key->fault = faults & config->faults[i];
		key->text = key_text(session, &config->keys[i], words, config->words[i],
				     key->number, &has);
		if (has && !key->text)
			return -ENOMEM;
		if (config->keys[i].show == HIST_TEXT)
			key->number = 0;
		if (config->keys[i].show == HIST_STACKTRACE && set_frames(session, words, key))
			return -ENOMEM;
		words += config->words[i];
	}
	return 0;
}

static int set_rows(struct trace_session *session, const struct hist_config *config,
		    const struct hist_sums *sums, struct hist_table *table)
{
	int ret = 0;

	table->v = calloc(sums->n + 1, sizeof(*table->v));
	if (!table->v)
		return -ENOMEM;
	for (; !ret && table->n < sums->n; table->n++) {
		struct hist_row *row = &table->v[table->n];
		const struct hist_sum *sum = &sums->v[table->n];

		row->hits = sum->hits;
		for (size_t i = 0; i < config->nr_values; i++)
			row->values[i] = config->sum_of[i] == HIST_HITS
						 ? sum->hits
						 : sum->sums[config->sum_of[i]];
		ret = set_keys(session, config, sum->key, row);
	}
	return ret;
}

static int set_table(struct trace_session *session, const struct trace_hist *hist,
		     struct hist_table *table, struct error *err)
{
	const struct hist_config *config = hist_config_of(hist->hist);
	struct hist_sums sums;
	int ret = hist_read(hist->hist, &sums, err);

	if (ret)
		return ret;
	clean_text(table->name, sizeof(table->name), hist->name);
	table->ended = hist->ended;
	memcpy(table->keys, config->keys, sizeof(table->keys));
	memcpy(table->values, config->values, sizeof(table->values));
	table->nr_keys = config->nr_keys;
	table->nr_values = config->nr_values;
	table->order = config->order;
	table->nohitcount = config->nohitcount;
	table->size = sums.size;
	table->dropped = sums.dropped;
	table->spec = strdup(hist->spec);
	ret = table->spec ? set_rows(session, config, &sums, table) : -ENOMEM;
	hist_sums_deinit(&sums);
	return ret ? error_set(err, ENOMEM, "out of memory") : 0;
}

/* --- documents ------------------------------------------------------------------------------- */

int recorder_read_hists(struct trace_session *session, struct hist_set *out, struct error *err)
{
	struct trace_hist list[TRACE_MAX_PROFILES];
	const size_t n = trace_session_hists(session, list);
	int ret = 0;

	*out = (struct hist_set){.v = calloc(n + 1, sizeof(*out->v))};
	if (!out->v)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; !ret && i < n; i++)
		ret = set_table(session, &list[i], &out->v[out->n++], err);
	if (ret)
		hist_set_deinit(out);
	return ret ? ret : hist_set_sort(out, NULL, err);
}

int recorder_clear_hists(const struct trace_session *session, const char *name, struct error *err)
{
	struct trace_hist list[TRACE_MAX_PROFILES];
	const size_t n = trace_session_hists(session, list);
	size_t cleared = 0;
	int ret = 0;

	for (size_t i = 0; !ret && i < n; i++)
		if (!name || !strcmp(name, list[i].name)) {
			ret = hist_clear(list[i].hist, err);
			cleared++;
		}
	if (!ret && name && !cleared)
		return error_set(err, ENOENT, "no histogram has the name '%s'", name);
	return ret;
}

int recorder_write_hists(struct trace_session *session, struct trace_writer *writer, bool *any,
			 struct error *err)
{
	struct hist_set set;
	int ret = recorder_read_hists(session, &set, err);

	*any = false;
	if (ret)
		return ret;
	*any = set.n;
	if (set.n)
		ret = recorder_write_document(writer, HIST_FILE, hist_set_json(&set), err);
	hist_set_deinit(&set);
	return ret;
}
