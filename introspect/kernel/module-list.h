/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_KERNEL_MODULE_LIST_H
#define SONDE_INTROSPECT_KERNEL_MODULE_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/trace/sidecar.h"
#include "introspect/kernel/address-list.h"
#include "introspect/kernel/kernel.h"

/* The loaded modules of a running kernel, from the guest's own list. They are what the guest says:
 * any address may be among them. */
enum {
	MODULE_NAME_SIZE = 56, /* MODULE_NAME_LEN on 64-bit */
	MODULE_TEXTS = 2,      /* its text, and init text while it has some */
};

struct module_view {
	uint64_t gva; /* of its struct module */
	char name[MODULE_NAME_SIZE];
	uint64_t text[MODULE_TEXTS], text_end[MODULE_TEXTS];
	uint64_t symtab, strtab; /* of its kallsyms: Elf64_Sym and names */
	uint32_t nr_symbols;
	uint64_t orc_ips, orc_entries; /* its ORC tables (orc-table.h); 0: it has none, or BTF does
					* not describe them */
	uint32_t nr_orc;
};

/*
 * Call `fn` for each module of the list. If that is corrupt, or changes meanwhile, for those that
 * were readable. Stops at the first error that `fn` returns, and returns that. A kernel whose BTF
 * does not describe its modules has none here.
 */
typedef int module_fn(void *arg, const struct kernel *kernel, const struct module_view *module);
int modules_for_each(const struct kernel *kernel, module_fn *fn, void *arg);

/* The end of the text that an address is in; 0: in none. */
uint64_t module_text_end(const struct module_view *module, uint64_t gva);

/* --- module-sections.c ----------------------------------------------------------------------- */

/*
 * Where a module's sections are, which the kernel keeps for /sys/module/NAME/sections
 * (kernel/module/sysfs.c). Offsets, out of BTF.
 */
struct section_layout {
	uint32_t sect_attrs, bin_attrs, name, address;
};

/* False: BTF does not describe them. */
bool module_sections_layout(const struct btf_types *btf, struct section_layout *out);
/* Where the pointers to a module's sections are; 0: that is not known yet. */
uint64_t module_sections_find(const struct kernel *kernel, const struct section_layout *layout,
			      uint64_t module);
/* The next section's address, and that of its name; false: there is none. *link goes on. */
bool module_sections_next(const struct kernel *kernel, const struct section_layout *layout,
			  uint64_t *link, uint64_t *address, uint64_t *name);
/* Whether a section has this name. */
bool module_section_is(const struct kernel *kernel, uint64_t name, const char *expected);

/* Read a module's build id, out of its section .note.gnu.build-id. False: it has none. */
bool module_read_build_id(const struct kernel *kernel, const struct section_layout *layout,
			  uint64_t module, struct sidecar_build_id *out);

/* --- module-returns.c ------------------------------------------------------------------------ */

/*
 * The return slots of the loaded modules of a running kernel, from each module's own list, its
 * section .return_sites: 32-bit distances from the entry itself, as in the kernel image. The
 * section stays in memory with the module. How long it is, the kernel does not keep: the list
 * ends where another section begins, or with the zeros that fill its page.
 *
 * slots: sorted gvas, for address_list_deinit(), whose memory is of the guest's budget. They are
 * what the guest says: the caller compares what stands there with what a return slot may be. None
 * in kernels without return thunks, or whose BTF does not describe these lists. -ENOMEM.
 */
struct module_returns {
	struct address_list slots;
	/* A module that is being loaded may have mcount sites before the kernel has noted where its
	 * sections are, which it has done when it calls do_init_module(). */
	bool complete;
};
int module_returns_read(const struct kernel *kernel, struct module_returns *out, struct error *err);

#endif
