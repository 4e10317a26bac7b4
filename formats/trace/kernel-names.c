/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names and places for a trace, from the kernel that was traced. */
#include <errno.h>
#include <stdlib.h>
#include "formats/trace/reader.h"

static kernel_functions_fn *read_kernel;
static source_lines_open_fn *open_lines;

void trace_reader_set_kernel_source(kernel_functions_fn *fn)
{
	read_kernel = fn;
}

int trace_reader_name_functions(struct trace_reader *reader, const char *kernel, struct error *err)
{
	const struct sidecar *sidecar = trace_reader_sidecar(reader);
	struct sidecar_symbol *symbols;
	size_t n;
	int ret;

	if (!read_kernel)
		return error_set(err, ENOTSUP, "%s: this program reads no kernel images", kernel);
	if (!sidecar)
		return error_set(err, ENOENT,
				 "-k needs to know where the kernel was, which only the sidecar "
				 "says: %s",
				 trace_reader_sidecar_error(reader)->text);
	ret = read_kernel(kernel, &sidecar->info, &symbols, &n, err);
	if (ret)
		return ret;
	ret = trace_reader_add_symbols(reader, symbols, n);
	for (size_t i = 0; i < n; i++)
		free(symbols[i].name);
	free(symbols);
	return ret ? error_set(err, -ret, "out of memory") : 0;
}

void trace_reader_set_lines_source(source_lines_open_fn *fn)
{
	open_lines = fn;
}

int trace_reader_add_lines(struct trace_reader *reader, const char *path, struct error *err)
{
	const struct sidecar *sidecar = trace_reader_sidecar(reader);
	struct source_lines *lines;
	int ret;

	if (!open_lines)
		return error_set(err, ENOTSUP, "this program reads no debug information");
	if (!sidecar)
		return error_set(err, ENOENT,
				 "--lines needs to know which kernel was traced, which only the "
				 "sidecar says: %s",
				 trace_reader_sidecar_error(reader)->text);
	ret = open_lines(path, &sidecar->info, &lines, err);
	if (!ret)
		trace_reader_take_lines(reader, lines);
	return ret;
}
