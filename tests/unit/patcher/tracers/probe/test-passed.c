/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Structures that are passed in registers, as parameters and as results. */
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/image/kernel-image.h"
#include "patcher/tracers/probe/probe.h"
#include "tests/lib/fake-btf.h"
#include "tests/lib/tap.h"

static const struct fake_struct structs[] = {
	{"kuid", 4, {{"val", 0, 4, 0, 0}}},
	{"bits", 4, {{"mode", 0, 4, 3, 5}, {"kind", 0, 4, 8, 12}}},
	{"pair", 8, {{"low", 0, 4, 0, 0}, {"high", 4, 4, 0, 0}, {"top", 4, 4, 28, 4}}},
	{"odd", 3, {{"first", 0, 1, 0, 0}, {"last", 2, 1, 0, 0}}},
	{"wide", 16, {{"seconds", 0, 8, 0, 0}, {"rest", 8, 4, 0, 0}, {"last", 12, 4, 0, 0}}},
	{"packed", 5, {{"first", 0, 1, 0, 0}, {"last", 1, 4, 0, 0}}},
	{"large", 24, {{"x", 0, 8, 0, 0}, {"y", 8, 8, 0, 0}}},
	{NULL, 0, {{NULL, 0, 0, 0, 0}}},
};
static const char *const prototypes[] = {
	"int f(struct kuid u, struct bits b, struct pair p, struct odd o, long e, const struct "
	"pair *s, struct pair on_stack)",
	"int large(long first, struct large l, long behind)",
	"struct pair returns_pair(long a)",
	"int packed(struct packed p, long behind)",
	"struct packed returns_packed(long a)",
	"struct wide returns_wide(long a)",
	"struct large returns_large(long a)",
	NULL};

static struct btf_types *btf;

static bool resolve(const char *text, struct fetch_probe *probe, struct error *err)
{
	const struct kernel_image image = {.btf = btf};
	const struct kernel kernel = {.image = &image};

	*err = (struct error){0};
	if (fetch_parse(text, probe, err))
		abort();
	return !probe_resolve(probe, probe->symbol, btf, &kernel, err);
}

/* One argument of one step. */
static bool is_passed(const char *text, enum fetch_register reg, int64_t shift, uint8_t size,
		      enum fetch_show show)
{
	struct fetch_probe probe;
	struct error err;
	const struct fetch_arg *arg = &probe.args[0];
	const bool good = resolve(text, &probe, &err) && arg->nr_ops == 1 &&
			  arg->ops[0].kind == FETCH_REGISTER && arg->ops[0].reg == reg &&
			  arg->ops[0].at == shift && arg->size == size && arg->show == show &&
			  !arg->bit_width;

	if (err.code)
		tap_diag("%s", err.text);
	return good;
}

static void test_whole(void)
{
	struct fetch_probe probe;
	struct error err;

	ok(resolve("p f $arg*", &probe, &err) && probe.nr_args == 7, "all parameters: %s",
	   err.text);
	ok(probe.args[0].ops[0].reg == FETCH_DI && probe.args[0].size == 4 &&
		   probe.args[0].show == FETCH_HEX && probe.args[2].size == 8 &&
		   probe.args[3].size == 8,
	   "structures among them are numbers in hexadecimal");
	ok(probe.args[6].nr_ops == 2 && probe.args[6].ops[1].kind == FETCH_MEMORY &&
		   probe.args[6].ops[1].at == 8 && probe.args[6].size == 8,
	   "also on the stack");
	ok(is_passed("p f u", FETCH_DI, 0, 4, FETCH_HEX), "one by its name");
	ok(is_passed("p f u:u32", FETCH_DI, 0, 4, FETCH_UNSIGNED), "with a type");
	ok(is_passed("p f $arg4:x16", FETCH_CX, 0, 2, FETCH_HEX), "by its number");
}

static void test_members(void)
{
	struct fetch_probe probe;
	struct error err;
	const struct fetch_arg *arg = &probe.args[0];

	ok(is_passed("p f u.val", FETCH_DI, 0, 4, FETCH_UNSIGNED), "the first member");
	ok(is_passed("p f p.high", FETCH_DX, 32, 4, FETCH_UNSIGNED), "one behind it is shifted");
	ok(is_passed("p f $arg4.last:s8", FETCH_CX, 16, 1, FETCH_SIGNED), "by its number");
	ok(resolve("p f b.kind", &probe, &err) && !arg->ops[0].at && arg->size == 4 &&
		   arg->bit_offset == 8 && arg->bit_width == 12 && !strcmp(arg->name, "kind"),
	   "a bit-field: %s", err.text);
	ok(resolve("p f p.top", &probe, &err) && arg->ops[0].at == 32 && arg->size == 4 &&
		   arg->bit_offset == 28 && arg->bit_width == 4,
	   "a bit-field that is shifted: %s", err.text);
	ok(resolve("p f on_stack.high", &probe, &err) && arg->nr_ops == 2 &&
		   arg->ops[1].kind == FETCH_MEMORY && arg->ops[1].at == 12 && arg->size == 4,
	   "one on the stack: %s", err.text);
	ok(is_passed("r returns_pair $retval.high", FETCH_AX, 32, 4, FETCH_UNSIGNED),
	   "one of a result");
	ok(is_passed("r returns_wide $retval.seconds", FETCH_AX, 0, 8, FETCH_UNSIGNED) &&
		   is_passed("r returns_wide $retval.rest", FETCH_DX, 0, 4, FETCH_UNSIGNED) &&
		   is_passed("r returns_wide $retval.last", FETCH_DX, 32, 4, FETCH_UNSIGNED),
	   "of one that fills two registers");
}

static const struct {
	const char *text, *says;
	unsigned int column;
} wrong[] = {
	{"p f x=u->val", "'->' follows a struct: write '.'", 8},
	{"p f x=s.low", "'.' follows a pointer: write '->'", 8},
	{"p f x=e.low", "no struct is in front of 'low'", 9},
	{"p f x=u.vall", "struct kuid has no member 'vall': did you mean 'val'?", 9},
	{"p f x=u.val:x8[4]", "an array lies in memory, and this is in a register", 5},
	{"p f x=u.val:string", "a string lies in memory, and this is no pointer", 5},
	{"p large $arg*",
	 "parameter 2 has 24 bytes, and no register of its own: name the registers", 9},
	{"p packed behind", "parameter 1 has 5 bytes, and no register of its own", 10},
	{"r returns_packed $retval.first", "the struct is not passed in registers", 18},
	{"p large behind", "parameter 2 has 24 bytes", 9},
	{"r returns_large $retval.x", "the struct is not passed in registers", 17},
};

static void test_wrong(void)
{
	struct fetch_probe probe;
	struct error err;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		ok(!resolve(wrong[i].text, &probe, &err) && strstr(err.text, wrong[i].says) &&
			   err.column == wrong[i].column,
		   "'%s' is refused at character %u: %s", wrong[i].text, err.column, err.text);
}

int main(void)
{
	static const char *const none[] = {NULL};
	struct btf_types *base = fake_btf_of(none);
	uint8_t bytes[8192];
	const size_t size = fake_btf_split(base, structs, prototypes, bytes, sizeof(bytes));

	if (!size || btf_parse_split(base, bytes, size, &btf, NULL))
		abort();
	test_whole();
	test_members();
	test_wrong();
	btf_destroy(btf);
	btf_destroy(base);
	return tap_done();
}
