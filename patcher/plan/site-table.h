/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_PLAN_SITE_TABLE_H
#define SONDE_PATCHER_PLAN_SITE_TABLE_H

#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"
#include "introspect/kernel/modules.h"
#include "patcher/text/patch-set.h"
#include "patcher/text/site.h"

/*
 * All mcount sites of the running kernel and its modules, from the kernel's own list, with the
 * names of their functions. No function is decoded: a site can be patched if its bytes are those
 * that the kernel itself puts there for a call that is off.
 */
struct site {
	uint64_t gva;
	const char *name;   /* the function's; NULL: no function begins here */
	const char *module; /* NULL: the kernel's own */
	uint8_t bytes[SITE_SIZE];
	uint8_t state;  /* enum site_state */
	bool transient; /* text of a module, or of the kernel's initialisation: it may be freed */
};

struct site_table {
	struct site *v; /* by gva; no two overlap */
	size_t n;
	char **names; /* that v points to; those of the image are the image's */
	size_t nr_names;
};

/*
 * A snapshot of the running guest. `names` are the guest's modules' now. Errors as
 * ftrace_sites_read_all(), and -EFAULT if the text at a site cannot be read.
 */
int site_table_read(struct site_table *table, const struct kernel *kernel,
		    struct kernel_names *names, struct error *err);
/* Leaves an empty table; also of one that is zeroed. */
void site_table_deinit(struct site_table *table);

/* Why a site cannot be patched, one line; NULL: it can. */
const char *site_table_refusal(const struct site *site);

#endif
