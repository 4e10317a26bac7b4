/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>
#include "tests/lib/fetch-oracle.h"

uint64_t fetch_draw_below(struct fetch_draw *draw, uint64_t n)
{
	size_t size = n <= 256 ? 1 : sizeof(uint64_t);
	uint64_t number = 0;

	if (!draw->data)
		return fake_random() % n;
	size = size < draw->left ? size : draw->left;
	memcpy(&number, draw->data, size);
	draw->data += size;
	draw->left -= size;
	return number % n;
}

uint64_t fetch_draw_address(struct fetch_draw *draw)
{
	const uint64_t offset = fetch_draw_below(draw, 8)
					? fetch_draw_below(draw, FETCH_POOL)
					: FETCH_POOL - 20 + fetch_draw_below(draw, 40);

	return fetch_draw_below(draw, 10)
		       ? (fetch_draw_below(draw, 3) ? FETCH_KERNEL_POOL : FETCH_USER_POOL) + offset
		       : fetch_draw_below(draw, UINT64_MAX);
}

static enum fetch_register some_register(struct fetch_draw *draw, enum fake_site_kind kind)
{
	static const enum fetch_register ret[] = {FETCH_AX, FETCH_BX,  FETCH_BP, FETCH_SP,
						  FETCH_DX, FETCH_R13, FETCH_R14};

	if (!fetch_draw_below(draw, 5))
		return (enum fetch_register)(FETCH_FLAGS + fetch_draw_below(draw, 5));
	if (kind == FAKE_SHARED_RETURN || kind == FAKE_PRIVATE_RETURN)
		return ret[fetch_draw_below(draw, sizeof(ret) / sizeof(ret[0]))];
	return (enum fetch_register)fetch_draw_below(draw, FETCH_R15 + 1);
}

static void add_steps(struct fetch_draw *draw, struct fetch_arg *arg)
{
	const size_t derefs = fetch_draw_below(draw, 3);

	for (size_t i = 0; i < derefs; i++)
		arg->ops[arg->nr_ops++] =
			(struct fetch_op){.kind = FETCH_DEREF,
					  .user = !fetch_draw_below(draw, 4),
					  .at = (int64_t)fetch_draw_below(draw, 64) - 32};
	arg->ops[arg->nr_ops] = (struct fetch_op){.kind = FETCH_MEMORY,
						  .user = !fetch_draw_below(draw, 4),
						  .at = (int64_t)fetch_draw_below(draw, 64) - 32};
	if (!fetch_draw_below(draw, 3)) {
		arg->ops[arg->nr_ops].kind = FETCH_TEXT;
		arg->show = FETCH_STRING;
		arg->size = fetch_draw_below(draw, 4) ? FETCH_LENGTH_SIZE : FETCH_STRING_SIZE;
	} else if (!fetch_draw_below(draw, 3)) {
		arg->count = (uint8_t)(1 + fetch_draw_below(draw, 64));
	}
	arg->nr_ops++;
}

static struct fetch_arg some_argument(struct fetch_draw *draw, enum fake_site_kind kind)
{
	struct fetch_arg arg = {
		.name = "a", .size = (uint8_t)(1 << fetch_draw_below(draw, 4)), .count = 1};

	arg.nr_ops = 1;
	if (!fetch_draw_below(draw, 8)) {
		arg.ops[0].kind = fetch_draw_below(draw, 2) ? FETCH_COMM : FETCH_LITERAL;
		memset(arg.symbol, 'l', fetch_draw_below(draw, FETCH_STRING_SIZE + 1));
		arg.show = FETCH_STRING;
		arg.size = FETCH_STRING_SIZE;
		return arg;
	}
	if (fetch_draw_below(draw, 4))
		arg.ops[0] = (struct fetch_op){.reg = some_register(draw, kind)};
	else
		arg.ops[0] = (struct fetch_op){.kind = FETCH_CONSTANT,
					       .at = (int64_t)fetch_draw_address(draw)};
	if (fetch_draw_below(draw, 3))
		add_steps(draw, &arg);
	else if (arg.ops[0].kind == FETCH_REGISTER && fetch_draw_below(draw, 2))
		arg.ops[0].at = (int64_t)fetch_draw_below(draw, 64);
	if (!fetch_draw_below(draw, 4) && arg.show != FETCH_STRING) {
		arg.bit_offset = (uint8_t)fetch_draw_below(draw, 8u * arg.size);
		arg.bit_width =
			(uint8_t)(1 + fetch_draw_below(draw, 8u * arg.size - arg.bit_offset));
	}
	return arg;
}

void fetch_draw_probe(struct fetch_draw *draw, enum fake_site_kind kind, struct fetch_probe *probe)
{
	const size_t n = 1 + fetch_draw_below(draw, 8);

	*probe = (struct fetch_probe){0};
	for (size_t i = 0; i < n; i++) {
		struct fetch_arg arg = some_argument(draw, kind);

		if (probe->bytes + fetch_room(&arg) > FETCH_MAX_BYTES ||
		    probe->nr_fields + fetch_nr_fields(&arg) > FETCH_MAX_FIELDS ||
		    probe->nr_long_strings + fetch_is_long(&arg) + probe->nr_long_texts +
				    fetch_is_long_text(&arg) >
			    FETCH_MAX_LONG_STRINGS ||
		    probe->bytes + fetch_room(&arg) +
				    (probe->nr_long_strings + fetch_is_long(&arg)) *
					    FETCH_LONG_STRING >
			    FETCH_MAX_KEPT)
			break;
		fetch_add_room(probe, &arg, NULL);
		probe->args[probe->nr_args++] = arg;
	}
}
