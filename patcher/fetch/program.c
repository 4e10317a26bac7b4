/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/fetch/fetch.h"

struct fetch_program fetch_program_of(const struct fetch_probe *probe,
				      const struct fetch_helpers *helpers)
{
	struct fetch_program program = {.args = probe->args,
					.nr_args = probe->nr_args,
					.bytes = probe->bytes,
					.nr_long_strings = probe->nr_long_strings,
					.nr_long_texts = probe->nr_long_texts,
					.helpers = *helpers};

	for (size_t i = 0; i < probe->nr_args; i++)
		program.has_faults |= fetch_reads_memory(&probe->args[i]);
	if (program.has_faults)
		program.head = probe->nr_fields > 32 ? FETCH_LARGE_HEAD : FETCH_HEAD;
	program.bytes = (uint16_t)(program.bytes + program.head);
	return program;
}
