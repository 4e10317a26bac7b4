/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/fetch/fetch.h"

#include <string.h>

bool fetch_needs_types(const struct fetch_probe *probe)
{
	for (size_t i = 0; i < probe->nr_args; i++)
		if (probe->args[i].ops[0].kind == FETCH_PARAMETER)
			return true;
	return false;
}

static bool is_same_op(const struct fetch_op *a, const struct fetch_op *b)
{
	return a->kind == b->kind && a->reg == b->reg && a->user == b->user &&
	       a->member == b->member && a->at == b->at;
}

static bool is_same_arg(const struct fetch_arg *a, const struct fetch_arg *b)
{
	if (strcmp(a->name, b->name) != 0 || strcmp(a->symbol, b->symbol) != 0 ||
	    a->nr_ops != b->nr_ops || a->show != b->show || a->size != b->size ||
	    a->count != b->count || a->bit_offset != b->bit_offset || a->bit_width != b->bit_width)
		return false;
	for (size_t i = 0; i < a->nr_ops; i++)
		if (!is_same_op(&a->ops[i], &b->ops[i]))
			return false;
	return true;
}

bool fetch_is_same(const struct fetch_probe *a, const struct fetch_probe *b)
{
	if (a->nr_args != b->nr_args)
		return false;
	for (size_t i = 0; i < a->nr_args; i++)
		if (!is_same_arg(&a->args[i], &b->args[i]))
			return false;
	return true;
}

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
