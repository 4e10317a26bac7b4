/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_PLAN_SITE_TABLE_H
#define SONDE_PATCHER_PLAN_SITE_TABLE_H

#include "formats/base/error.h"
#include "introspect/kernel/identify.h"
#include "introspect/kernel/kernel.h"
#include "introspect/kernel/modules.h"
#include "patcher/plan/patch-plan.h"
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
	struct ftrace_census census; /* of when it was read */
	char **names;                /* that v points to; those of the image are the image's */
	size_t nr_names;
	struct budget *budget; /* what the guest makes it hold; or NULL */
	size_t room;           /* sites that there is memory for */
	size_t names_room;
	bool no_image; /* only sites outside of the kernel's image */
};

/*
 * A snapshot of the running guest. `names` are the guest's modules' now. Errors as
 * ftrace_sites_read_all(), -EFAULT if the text at a site of the kernel itself cannot be read, and
 * -ENOMEM also beyond the guest's budget, which must outlive the table.
 */
int site_table_read(struct site_table *table, const struct kernel *kernel,
		    struct kernel_names *names, struct error *err);
/* Likewise of the sites outside of the image only. The census is the whole one. */
int site_table_read_modules(struct site_table *table, const struct kernel *kernel,
			    struct kernel_names *names, struct error *err);
/* Whether the guest still has these sites and no others. Reads few bytes. Errors as above. */
int site_table_is_current(const struct site_table *table, const struct kernel *kernel,
			  bool *current, struct error *err);
/* Leaves an empty table; also of one that is zeroed. */
void site_table_deinit(struct site_table *table);

/* Index of the first site that is not below `gva`. */
size_t site_table_find(const struct site_table *table, uint64_t gva);

/*
 * `modules`, which has no sites of the image, becomes a table that has those of `whole`, too: so
 * many of its sites come first, then `kept` ones of `whole` from `first` on, then the others.
 * -ENOMEM: nothing has changed.
 */
struct site_join {
	size_t below, first, kept;
};
int site_table_join(struct site_table *modules, const struct site_table *whole,
		    const struct kernel *kernel, struct site_join *join, struct error *err);

/* Why a site cannot be patched, one line; NULL: it can. */
const char *site_table_refusal(const struct site *site);

/* --- what may be done with them (shared-sites.c) ---------------------------------------------- */

/*
 * What the direct lane may do with each site of a table, and which tracers want it. A site that a
 * probe holds is recorded by the probe's own trampoline.
 */
#define SHARED_NO_ENTRY SIZE_MAX

struct shared_site {
	struct patch patch;  /* without new bytes; its old bytes are the guest's */
	size_t entry;        /* index in the plan's entries of the probe there, also of one that is
			      * off; or SHARED_NO_ENTRY */
	uint32_t mask;       /* who wants it: bits of the caller's choice, at first 0 */
	const char *refusal; /* why it cannot be recorded; NULL: it can */
};

struct shared_sites {
	struct budget *budget; /* of the guest: `v` is part of it */
	struct shared_site *v; /* by index of the table's sites */
	size_t n;
	/* The plan's shared sites that still are what the plan made of them: a module may be gone,
	 * or may have been loaded again. */
	struct patch_set present;
};

/* `table` is what stands in the guest now, with the plan's patches in it. -ENOMEM. */
int shared_sites_make(struct shared_sites *sites, const struct site_table *table,
		      const struct patch_plan *plan, bool ftrace_handoff, struct error *err);
/* Also of one that is zeroed. */
void shared_sites_deinit(struct shared_sites *sites);

#endif
