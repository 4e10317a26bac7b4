/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Histograms of allocations on real Debian kernels: where their functions have what they are asked
 * for, and which calls of them count. Needs tests/testbed/fetch-kernel to have run; $KERNELS_DIR
 * names another directory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/event/kmem.h"
#include "guest-symbols/kmem/allocators.h"
#include "patcher/tracers/hist/hist.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

enum { SOME_SIZE = 100, SOME_PID = 7 };

static const uint8_t argument_regs[] = {7, 6, 2, 1, 8, 9}; /* in instructions */

static bool counts(const struct hist_part *part, uint64_t call_site, uint64_t size, uint64_t pid)
{
	struct gate_values values = {0};

	for (int i = GATE_ARG0; i <= GATE_ARG5; i++)
		values.source[i] = size;
	values.source[GATE_CALL_SITE] = call_site;
	values.source[GATE_PID] = pid;
	return gate_eval(&part->gate, &values);
}

static const struct hist_part *part_of(const struct hist_allocs *allocs, uint64_t site)
{
	for (size_t i = 0; i < allocs->nr_sites; i++)
		if (allocs->sites[i].gva == site)
			return &allocs->parts[allocs->sites[i].part];
	return NULL;
}

/* What the function is told, or finds itself. */
static bool has_cache(const struct hist_program *p, const struct hist_operand *o,
		      const struct alloc_entry *entry, const struct kernel_image *image)
{
	const uint8_t cache = entry->argument[ALLOC_ROLE_CACHE];
	struct btf_field size;

	if (btf_field(image->btf, "kmem_cache", "size", &size, NULL))
		return false;
	if (cache)
		return o->source == HIST_POINTED && o->reg == argument_regs[cache - 1] &&
		       o->at == size.offset;
	return o->source == HIST_KMALLOC && p->kmalloc.caches &&
	       p->kmalloc.size_at == size.offset &&
	       o->reg == argument_regs[entry->argument[ALLOC_ROLE_SIZE] - 1];
}

/* Keys are the call site, then the size; the values are the size, and that of the cache. */
static bool has_registers(const struct hist_part *part, const struct alloc_entry *entry,
			  const struct kernel_image *image)
{
	const struct hist_program *p = &part->program;
	const uint8_t caller = entry->argument[ALLOC_ROLE_CALLER];
	const uint8_t size = argument_regs[entry->argument[ALLOC_ROLE_SIZE] - 1];

	if (p->nr_keys != 2 || p->nr_values != 2 || p->keys[1].reg != size ||
	    p->values[0].reg != size || p->values[0].size != 8 ||
	    !has_cache(p, &p->values[1], entry, image))
		return false;
	return caller ? p->keys[0].source == HIST_REGISTER &&
				p->keys[0].reg == argument_regs[caller - 1]
		      : p->keys[0].source == HIST_PARENT;
}

static bool test_calls(const struct hist_part *part, const struct alloc_points *points)
{
	bool good = counts(part, 0xffffffff81000005, SOME_SIZE, SOME_PID) &&
		    !counts(part, 0xffffffff81000005, 0, SOME_PID) &&
		    !counts(part, 0xffffffff81000005, SOME_SIZE, SOME_PID + 1);

	for (size_t i = 0; good && i < points->n; i++) {
		const struct alloc_point *p = &points->v[i];

		if (p->entry.type != KMEM_TYPE_KMALLOC || p->entry.action != ALLOC_ACTION_ALLOC)
			continue;
		good = !counts(part, p->address + 20, SOME_SIZE, SOME_PID) &&
		       !counts(part, p->address + p->size, SOME_SIZE, SOME_PID);
		if (!good)
			tap_diag("a call from %s", p->entry.name);
	}
	return good;
}

static void test_image(const struct kernel_image *image, const char *version)
{
	const struct kernel kernel = {.image = image};
	const struct alloc_points *points;
	struct hist_config config;
	struct hist_allocs allocs;
	struct trace_spec spec;
	struct error err = {0};
	size_t n = 0;

	if (tracer_parse_spec("kmem:kmalloc,hist:keys=call_site,bytes_req:vals=bytes_req,bytes_"
			      "alloc if pid == 7",
			      &spec, NULL) ||
	    alloc_points_of(image, &points, NULL))
		abort();
	if (!ok(!hist_allocs_create(&spec, &kernel, &allocs, &config, &err),
		"%s: kmalloc can be counted: %s", version, err.text))
		return;
	for (size_t i = 0; i < points->n; i++) {
		const struct alloc_point *p = &points->v[i];
		const struct hist_part *part = part_of(&allocs, p->site);

		if (!part)
			continue;
		n++;
		ok(has_registers(part, &p->entry, image) && !gate_check(&part->gate, NULL) &&
			   test_calls(part, points),
		   "%s: calls of %s, by %u terms", version, p->entry.name, part->gate.n);
	}
	ok(n == allocs.nr_sites && n >= 4 && allocs.nr_parts <= n, "%s: %zu functions in %zu parts",
	   version, n, allocs.nr_parts);
	hist_allocs_deinit(&allocs);
	trace_spec_deinit(&spec);
}

/* --- caches and pages ------------------------------------------------------------------------ */

/* What a cache knows of its objects lies in it, everything else is in registers. */
static bool is_right(const struct hist_operand *o, const char *name,
		     const struct alloc_entry *entry, const struct kernel_image *image)
{
	const enum alloc_role role = !strcmp(name, "order") ? ALLOC_ROLE_ORDER : ALLOC_ROLE_GFP;
	struct btf_field member;

	if (!strcmp(name, "call_site"))
		return o->source == HIST_PARENT;
	if (role == ALLOC_ROLE_GFP && !entry->argument[role] && !strcmp(name, "gfp_flags"))
		return o->source == HIST_CONSTANT && !o->at;
	if (!strcmp(name, "order") || !strcmp(name, "gfp_flags"))
		return o->source == HIST_REGISTER && o->size == 4 &&
		       o->reg == argument_regs[entry->argument[role] - 1];
	return !btf_field(image->btf, "kmem_cache",
			  !strcmp(name, "bytes_req") ? "object_size" : "size", &member, NULL) &&
	       o->source == HIST_POINTED && o->size == 4 && o->at == member.offset &&
	       o->reg == argument_regs[entry->argument[ALLOC_ROLE_CACHE] - 1];
}

static bool has_fields(const struct hist_part *part, const struct trace_spec *spec,
		       const struct alloc_entry *entry, const struct kernel_image *image)
{
	const struct hist_program *p = &part->program;
	bool good = p->nr_keys == spec->hist->nr_keys && p->nr_values == spec->hist->nr_values;

	for (size_t i = 0; good && i < p->nr_keys; i++)
		good = is_right(&p->keys[i], spec->hist->keys[i].name, entry, image);
	for (size_t i = 0; good && i < p->nr_values; i++)
		good = is_right(&p->values[i], spec->hist->values[i].name, entry, image);
	return good;
}

static void test_others(const struct kernel_image *image, const char *version, const char *text,
			enum kmem_type_id type)
{
	const struct kernel kernel = {.image = image};
	const struct alloc_points *points;
	struct hist_config config;
	struct hist_allocs allocs;
	struct trace_spec spec;
	struct error err = {0};
	size_t n = 0;
	bool good = true;

	if (tracer_parse_spec(text, &spec, NULL) || alloc_points_of(image, &points, NULL))
		abort();
	if (!ok(!hist_allocs_create(&spec, &kernel, &allocs, &config, &err), "%s: %s: %s", version,
		text, err.text))
		return;
	for (size_t i = 0; i < points->n; i++) {
		const struct alloc_point *p = &points->v[i];
		const struct hist_part *part = part_of(&allocs, p->site);

		if ((p->entry.type == type && p->entry.action == ALLOC_ACTION_ALLOC) != !!part)
			good = false;
		if (!part)
			continue;
		n++;
		good &= has_fields(part, &spec, &p->entry, image) &&
			counts(part, 0xffffffff81000005, 0, SOME_PID) &&
			!counts(part, p->address + 20, 0, SOME_PID);
	}
	ok(good && n && n == allocs.nr_sites, "%s: all %zu functions, with what they know", version,
	   n);
	hist_allocs_deinit(&allocs);
	trace_spec_deinit(&spec);
}

/* --- conditions ------------------------------------------------------------------------------ */

/* Whether all functions count a call with these flags. */
static bool all_count(const struct hist_allocs *allocs, uint64_t flags)
{
	bool all = allocs->nr_parts;

	for (size_t i = 0; i < allocs->nr_parts; i++)
		all &= counts(&allocs->parts[i], 0xffffffff81000005, flags, SOME_PID);
	return all;
}

static bool none_counts(const struct hist_allocs *allocs, uint64_t flags)
{
	bool any = false;

	for (size_t i = 0; i < allocs->nr_parts; i++)
		any |= counts(&allocs->parts[i], 0xffffffff81000005, flags, SOME_PID);
	return !any;
}

/* By the kernel's own names. */
static void test_flags(const struct kernel_image *image, const char *version)
{
	static const char text[] = "kmem:kmalloc,hist:keys=gfp_flags if gfp_flags & __GFP_ZERO && "
				   "gfp_flags != 'GFP_KERNEL|__GFP_ZERO'";
	const struct kernel kernel = {.image = image};
	struct trace_info info;
	uint64_t zero = 0, normal = 0;
	struct hist_config config;
	struct hist_allocs allocs;
	struct trace_spec spec;
	struct error err = {0};

	gfp_names_read(image, &info);
	gfp_name_mask(info.gfp_names, info.nr_gfp_names, "__GFP_ZERO", &zero);
	gfp_name_mask(info.gfp_names, info.nr_gfp_names, "GFP_KERNEL", &normal);
	if (tracer_parse_spec(text, &spec, NULL) || !zero || !normal)
		abort();
	if (!ok(!hist_allocs_create(&spec, &kernel, &allocs, &config, &err), "%s: %s: %s", version,
		text, err.text))
		return;
	ok(all_count(&allocs, zero) && all_count(&allocs, zero | 0x400000) &&
		   none_counts(&allocs, normal) && none_counts(&allocs, normal | zero),
	   "%s: calls with these flags count", version);
	hist_allocs_deinit(&allocs);
	trace_spec_deinit(&spec);
}

/* The caller by name: what the function returns to, or is told. */
static void test_callers(const struct kernel_image *image, const char *version)
{
	static const char text[] = "kmem:kmalloc,hist:keys=bytes_req if call_site.function == "
				   "load_elf_binary";
	const struct kernel kernel = {.image = image, .virt_slide = 0x12600000};
	const uint64_t caller =
		kernel_gva(&kernel, symbols_address(image->symbols, "load_elf_binary"));
	struct hist_config config;
	struct hist_allocs allocs;
	struct trace_spec spec;
	struct error err = {0};
	bool good;

	if (tracer_parse_spec(text, &spec, NULL))
		abort();
	good = !hist_allocs_create(&spec, &kernel, &allocs, &config, &err);
	for (size_t i = 0; good && i < allocs.nr_parts; i++)
		good = counts(&allocs.parts[i], caller, caller, SOME_PID) &&
		       counts(&allocs.parts[i], caller + 40, caller + 40, SOME_PID) &&
		       !counts(&allocs.parts[i], caller - 1, caller - 1, SOME_PID) &&
		       !counts(&allocs.parts[i], 0xffffffff81000005, 1, SOME_PID);
	if (ok(good && allocs.nr_parts, "%s: calls by one function count%s", version, err.text))
		hist_allocs_deinit(&allocs);
	trace_spec_deinit(&spec);
}

static void test_kernel(const struct kernel_image *image, const char *version)
{
	test_image(image, version);
	test_others(image, version,
		    "kmem:cache,hist:keys=call_site,gfp_flags:vals=bytes_req,bytes_alloc",
		    KMEM_TYPE_CACHE);
	test_others(image, version, "kmem:pages,hist:keys=order,gfp_flags", KMEM_TYPE_PAGES);
	test_flags(image, version);
	test_callers(image, version);
}

int main(void)
{
	static const char *const versions[] = {"5.10", "6.1", "6.12", "6.17", "7.0", "7.2", NULL};

	return fetched_kernels_test(versions, test_kernel);
}
