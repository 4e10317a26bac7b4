/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names for a trace that lacks them, from the kernel that was traced. */
#include <errno.h>
#include <stdlib.h>
#include "formats/trace/reader.h"

static kernel_functions_fn *read_kernel;

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
