/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of functions beside the sidecar of a trace that is being recorded: read into a sidecar,
 * looked up, read once more, and written again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/trace/sidecar.h"

static struct sidecar *empty_sidecar(void)
{
	static const char text[] = "{\"version\":1}";
	struct sidecar *sidecar;

	if (sidecar_parse(text, strlen(text), &sidecar, NULL))
		abort();
	return sidecar;
}

/* All are in order, and each address can be shown. */
static void look_up(const struct sidecar *sidecar)
{
	for (size_t i = 0; i < sidecar->nr_symbols; i++) {
		const struct sidecar_symbol *symbol = &sidecar->symbols[i];

		if (i && symbol->start < symbol[-1].start)
			abort();
		sidecar_symbol_text(sidecar, symbol->address);
		sidecar_function_text(sidecar, symbol->start + symbol->size);
	}
}

/* What is printed has the same symbols. */
static void read_again(const struct sidecar *sidecar)
{
	struct sidecar *copy = empty_sidecar();
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		abort();
	for (size_t i = 0; i < sidecar->nr_symbols; i++) {
		if (sidecar_print_symbol(out, &sidecar->symbols[i]))
			abort();
	}
	fclose(out);
	if (sidecar_add_names(copy, text, size) != (int64_t)size ||
	    copy->nr_symbols != sidecar->nr_symbols)
		abort();
	free(text);
	sidecar_destroy(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	const char *last = size ? memrchr(text, '\n', size) : NULL;
	const int64_t whole = last ? last + 1 - text : 0;
	struct sidecar *sidecar = empty_sidecar();
	size_t n;

	/* The recorder is not done with the last line. */
	if (sidecar_add_names(sidecar, text, size) != whole)
		abort();
	look_up(sidecar);
	n = sidecar->nr_symbols;
	if (sidecar_add_names(sidecar, text, size) != whole || sidecar->nr_symbols != n)
		abort();
	read_again(sidecar);
	sidecar_destroy(sidecar);
	return 0;
}
