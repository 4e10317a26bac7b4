/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where a probe's function is. */
#include "patcher/tracers/probe/probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "guest-symbols/functions/function-exits.h"
#include "patcher/text/displace.h"
#include "patcher/tracers/helpers.h"

enum {
	MAX_DIFFERENCE = 2, /* characters, of lengths of names that are near */
	FEW = 3,            /* functions of one name that a message lists */
};

struct finder {
	const struct kernel *kernel;
	struct fetch_probe *probe;
	struct probe_place *place;
};

static bool is_text(const struct symbol *symbol)
{
	return symbol->type == 't' || symbol->type == 'T';
}

/* Of nearly this length, which text_nearest() compares with all others; NULL-terminated, for
 * free(). */
static const char **list_alike(const struct kernel_image *image, const char *wanted, bool functions)
{
	const size_t all = symbols_count(image->symbols), length = strlen(wanted);
	const char **names = calloc(all + 1, sizeof(*names));
	size_t n = 0;

	for (size_t i = 0; names && i < all; i++) {
		const struct symbol *symbol = symbols_at(image->symbols, i);
		const size_t other = strlen(symbol->name);
		const size_t differs = length > other ? length - other : other - length;

		if (differs <= MAX_DIFFERENCE &&
		    (!functions || (is_text(symbol) && helper_site_of(image, symbol->address))))
			names[n++] = symbol->name;
	}
	return names;
}

const char *probe_nearest(const struct kernel_image *image, const char *wanted, bool functions)
{
	const char **names = list_alike(image, wanted, functions);
	const char *nearest = names ? text_nearest(wanted, names) : NULL;

	free(names);
	return nearest;
}

static int no_function(const struct finder *f, struct error *err)
{
	const char *wanted = f->probe->symbol;
	const char *near = probe_nearest(f->kernel->image, wanted, true);

	if (near)
		return error_set(err, ENOENT, "the kernel has no function '%s': did you mean '%s'?",
				 wanted, near);
	return error_set(err, ENOENT, "the kernel has no function '%s'", wanted);
}

/* Those of the name that can be probed, in the order of addresses. */
struct namesakes {
	uint64_t first[FEW]; /* link addresses */
	size_t n;
};

static struct namesakes find_namesakes(const struct finder *f, const char *name)
{
	const struct symbol_table *symbols = f->kernel->image->symbols;
	struct namesakes found = {.n = 0};

	for (size_t i = 0; i < symbols_count(symbols); i++) {
		const struct symbol *symbol = symbols_at(symbols, i);

		if (strcmp(symbol->name, name) != 0 ||
		    !helper_site_of(f->kernel->image, symbol->address))
			continue;
		if (found.n < FEW)
			found.first[found.n] = symbol->address;
		found.n++;
	}
	return found;
}

/* Where the kernel is to be is known only when it runs: addresses are said as they can be given
 * before. */
static int not_unique(const struct finder *f, const struct namesakes *found, struct error *err)
{
	const uint64_t text = symbols_address(f->kernel->image->symbols, "_text");
	char list[FEW * sizeof("_text+0x0123456789abcdef, ")] = "";
	size_t used = 0;

	for (size_t i = 0; i < found->n && i < FEW; i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s%#llx",
					 i ? ", " : "", text ? "_text+" : "",
					 (unsigned long long)(found->first[i] - text));
	return error_set(err, EADDRNOTAVAIL, "%zu functions have the name '%s': give one as %s%s",
			 found->n, f->probe->symbol, list, found->n > FEW ? " ..." : "");
}

/* The types know a function by its name only. */
static int check_types(const struct finder *f, const char *name, struct error *err)
{
	const struct namesakes found = find_namesakes(f, name);

	if (found.n < 2 || !fetch_needs_types(f->probe))
		return 0;
	return error_set(
		err, EADDRNOTAVAIL,
		"%zu functions have the name '%s': which one its types are of is not known; "
		"name registers, as in %%di",
		found.n, name);
}

/* A function, and an instruction of it, at an address of the image's text. */
static int find_covering(const struct finder *f, uint64_t link, struct error *err)
{
	const struct kernel *kernel = f->kernel;
	const struct symbol *symbol = symbols_covering(kernel->image->symbols, link);

	if (!symbol)
		return error_set_at(err, ENOENT, link, "no function of the kernel is there");
	if (!helper_site_of(kernel->image, symbol->address))
		return error_set_at(err, ENOTSUP, kernel_gva(kernel, link), "%s has no mcount site",
				    symbol->name);
	f->place->function = kernel_gva(kernel, symbol->address);
	f->place->name = symbol->name;
	f->probe->offset = link - symbol->address;
	return check_types(f, symbol->name, err);
}

static int find_named(const struct finder *f, struct error *err)
{
	const char *name = f->probe->symbol;
	const struct symbol *symbol = symbols_find(f->kernel->image->symbols, name);
	const struct namesakes found = find_namesakes(f, name);

	if (!symbol)
		return no_function(f, err);
	if (found.n > 1)
		return not_unique(f, &found, err);
	if (found.n)
		f->place->function = kernel_gva(f->kernel, found.first[0]);
	if (found.n)
		return 0;
	if (f->probe->offset && is_text(symbol))
		return find_covering(f, symbol->address + f->probe->offset, err);
	return error_set(err, ENOTSUP,
			 "'%s' cannot be probed: it is no function with an mcount site", name);
}

static int find_at(const struct finder *f, struct error *err)
{
	const uint64_t address = f->probe->address;

	if (!kernel_in_image(f->kernel, address))
		return error_set_at(err, ENOENT, address, "no function of the kernel is there");
	return find_covering(f, kernel_link(f->kernel, address), err);
}

/* --- an instruction behind the beginning -------------------------------------------------------
 */

/* By the image's bytes: the guest may not have booted. */
static int check_inside(const struct finder *f, const struct symbol *symbol, struct error *err)
{
	const struct kernel_image *image = f->kernel->image;
	struct displace_body body = {.kernel = f->kernel,
				     .name = f->place->name,
				     .gva = f->place->function,
				     .size = symbol->size};
	struct displaced_insn insn;
	struct decoder *decoder;
	int ret;

	body.bytes = kernel_image_bytes(image, symbol->address, symbol->size);
	if (!body.bytes)
		return error_set_at(err, ENOTSUP, body.gva, "the kernel image lacks the text of %s",
				    body.name);
	ret = decoder_create(&decoder, err);
	if (ret)
		return ret;
	ret = displace_find(&body, decoder, f->place->inside, &insn, err);
	decoder_destroy(decoder);
	return ret;
}

static bool is_init(const struct kernel_image *image, uint64_t address)
{
	const uint64_t begin = symbols_address(image->symbols, "_sinittext");

	return begin && address >= begin && address < symbols_address(image->symbols, "_einittext");
}

/* The mcount site is where the function begins, also behind an ENDBR. */
static int find_inside(const struct finder *f, struct error *err)
{
	const struct kernel_image *image = f->kernel->image;
	const uint64_t function = kernel_link(f->kernel, f->place->function);
	const struct symbol *symbol = symbols_covering(image->symbols, function);
	const uint64_t offset = f->probe->offset;

	if (!offset || function + offset == helper_site_of(image, function))
		return 0;
	f->place->inside = f->place->function + offset;
	if (f->probe->returns)
		return error_set_at(err, ENOTSUP, f->place->inside,
				    "a probe of returns has no offset: %s+%#llx", f->place->name,
				    (unsigned long long)offset);
	f->probe->inside = true;
	if (!symbol || offset >= symbol->size)
		return error_set_at(err, EINVAL, f->place->inside, "%s has %llu bytes only",
				    f->place->name,
				    (unsigned long long)(symbol ? symbol->size : 0));
	if (is_init(image, function))
		return error_set_at(err, ENOTSUP, f->place->inside,
				    "%s is freed when the kernel has booted: only its beginning "
				    "can be probed",
				    f->place->name);
	return check_inside(f, symbol, err);
}

/* Returns are seen only at slots of the function's own. Of a module's function that is checked
 * where it is loaded (session/direct.c). */
static int check_returns(const struct finder *f, struct error *err)
{
	const char *freed = kernel_image_freed_returns(f->kernel->image);
	const struct function_exits *exits;
	enum function_returns returns;
	int ret;

	if (!f->place->function)
		return 0;
	ret = function_exits_of(f->kernel->image, &exits, err);
	if (ret)
		return ret;
	returns = function_returns_of(exits, kernel_link(f->kernel, f->place->function));
	if (returns == FUNCTION_RETURNS_NONE && freed)
		return error_set_at(err, ENOTSUP, f->place->function,
				    "no return of '%s' can be recorded: %s", f->place->name, freed);
	if (returns == FUNCTION_RETURNS_NONE)
		return error_set_at(err, ENOTSUP, f->place->function,
				    "no return of '%.80s' can be recorded: it has none of its own; "
				    "if it leaves by a jump to another function, "
				    "'graph:%.80s,ret,tails' records that function's return",
				    f->place->name, f->place->name);
	if (returns == FUNCTION_RETURNS_SOME)
		return error_set_at(err, ENOTSUP, f->place->function,
				    "not all returns of '%.80s' can be recorded: it may leave by a "
				    "jump to another function, whose return "
				    "'graph:%.80s,ret,tails' records",
				    f->place->name, f->place->name);
	return 0;
}

/* The tracer's own calls would look like the guest's. They do not pass the beginning. */
static int check_helpers(const struct finder *f, struct error *err)
{
	const uint64_t function = f->place->function;

	if (!function || !(f->probe->inside || f->probe->returns))
		return 0;
	if (!helper_is(f->kernel, function))
		return 0;
	return error_set_at(err, ENOTSUP, function,
			    "the tracer itself calls '%s': only its beginning can be probed",
			    f->place->name);
}

static int find(const struct finder *f, struct error *err)
{
	int ret = 0;

	if (!f->probe->symbol[0])
		ret = find_at(f, err);
	else if (!f->probe->module[0])
		ret = find_named(f, err);
	if (!ret && f->place->function)
		ret = find_inside(f, err);
	if (!ret && f->probe->returns)
		ret = check_returns(f, err);
	return ret ? ret : check_helpers(f, err);
}

int probe_find_place(struct fetch_probe *probe, const struct kernel *kernel,
		     struct probe_place *out, struct error *err)
{
	const struct finder finder = {.kernel = kernel, .probe = probe, .place = out};
	int ret = kernel_image_check_sites(kernel->image, err);

	*out = (struct probe_place){.name = probe->symbol};
	if (ret)
		return ret;
	ret = find(&finder, err);
	if (ret && err)
		err->column = probe->place_column;
	return ret ? ret : fetch_check_place(probe, err);
}
