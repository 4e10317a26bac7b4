/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Histograms: memory that a guest has written, and documents, which begin with '{'; printed,
 * ordered, and read again. */
#include <stdlib.h>
#include <string.h>
#include "formats/hist/hists.h"
#include "patcher/ring/hist.h"

enum { CPUS = 2, BYTES = 16 << 10 };

/* Nothing is left. */
static void clear(struct hist *hist)
{
	struct hist_sums sums;

	if (hist_clear(hist, NULL) || hist_read(hist, &sums, NULL) || sums.n)
		abort();
	hist_sums_deinit(&sums);
}

static void read_memory(const uint8_t *data, size_t size)
{
	static _Alignas(64) uint8_t memory[CPUS * BYTES];
	const struct hist_memory m = {memory, BYTES, BYTES, CPUS};
	const struct hist_config config = {.words = {1, 2}, .nr_keys = 2, .nr_sums = 2};
	struct hist_sums sums;
	struct hist *hist;

	if (hist_create(&config, NULL, &hist, NULL) || hist_attach(hist, &m, NULL))
		abort();
	for (int i = 0; i < 3; i++) {
		const size_t n = size < sizeof(memory) ? size : sizeof(memory);

		memcpy(memory, data, n);
		if (hist_read(hist, &sums, NULL))
			abort();
		if (sums.n > (size_t)CPUS * hist_layout_of(hist).places)
			abort();
		hist_sums_deinit(&sums);
		if (i == 1)
			clear(hist);
		data += size / 2;
		size -= size / 2;
	}
	hist_put(hist);
}

static void use(struct hist_set *set)
{
	const struct hist_text_options options = {.top = 3};
	json_t *document = hist_set_json(set);
	struct hist_set again;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!document || hist_set_parse(document, &again, NULL))
		abort();
	hist_set_deinit(&again);
	json_decref(document);
	hist_set_sort(set, NULL, NULL);
	hist_set_sort(set, "hitcount.descending", NULL);
	if (out) {
		hist_set_print(out, set, &options);
		fclose(out);
	}
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *document = json_loadb((const char *)data, size, 0, NULL);
	struct hist_set set;

	if (document && !hist_set_parse(document, &set, NULL)) {
		use(&set);
		hist_set_deinit(&set);
	} else if (!document && (!size || data[0] != '{')) {
		read_memory(data, size);
	}
	json_decref(document);
	return 0;
}
