/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Definitions of dynamic probes. */
#include <stdlib.h>
#include <string.h>
#include "patcher/fetch/fetch.h"

static void check_ops(const struct fetch_arg *arg)
{
	for (size_t i = 0; i < arg->nr_ops; i++) {
		const enum fetch_op_kind kind = arg->ops[i].kind;

		if ((kind >= FETCH_DEREF) != (i > 0) ||
		    (kind > FETCH_DEREF && i + 1 != arg->nr_ops))
			abort();
	}
}

/* What a compiler of the program may rely on. */
static void check(const struct fetch_probe *probe)
{
	size_t bytes = 0, nr_long = 0, nr_texts = 0;

	if (!probe->name[0] || !probe->group[0] || probe->nr_args > FETCH_MAX_ARGS)
		abort();
	for (size_t i = 0; i < probe->nr_args; i++) {
		const struct fetch_arg *arg = &probe->args[i];
		const bool is_text = arg->show == FETCH_STRING;

		if (!arg->name[0] || !arg->nr_ops || arg->nr_ops > FETCH_MAX_OPS || !arg->count ||
		    arg->at != bytes || arg->bit_offset + arg->bit_width > 8 * arg->size)
			abort();
		const enum fetch_op_kind last = arg->ops[arg->nr_ops - 1].kind;

		if (is_text !=
			    (last == FETCH_COMM || last == FETCH_LITERAL || last == FETCH_TEXT) &&
		    !(is_text && last == FETCH_PARAMETER))
			abort();
		check_ops(arg);
		if (arg->field + fetch_nr_fields(arg) > FETCH_MAX_FIELDS)
			abort();
		bytes += fetch_room(arg);
		nr_long += fetch_is_long(arg);
		nr_texts += fetch_is_long_text(arg);
	}
	if (bytes + nr_long * FETCH_LONG_STRING > FETCH_MAX_KEPT)
		abort();
	if (bytes != probe->bytes || bytes > FETCH_MAX_BYTES || nr_long != probe->nr_long_strings ||
	    nr_texts != probe->nr_long_texts || nr_long + nr_texts > FETCH_MAX_LONG_STRINGS)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size);
	struct fetch_probe probe;
	struct error err = {0};

	if (text && !fetch_parse(text, &probe, &err))
		check(&probe);
	else if (text && (!err.column || err.column > strlen(text) + 1))
		abort(); /* each error has a place in the text */
	free(text);
	return 0;
}
