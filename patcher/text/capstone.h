/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TEXT_CAPSTONE_H
#define SONDE_PATCHER_TEXT_CAPSTONE_H

#include <capstone/capstone.h>
#include "formats/base/error.h"

/* The functions of libcapstone, as its headers declare them (capstone/capstone.h). */
struct capstone {
	typeof(cs_open) *open;
	typeof(cs_close) *close;
	typeof(cs_option) *option;
	typeof(cs_malloc) *malloc;
	typeof(cs_free) *free;
	typeof(cs_disasm_iter) *disasm_iter;
	typeof(cs_insn_group) *insn_group;
};

/*
 * Load the library, at the first call, for the rest of the process's life. From any thread. *out is
 * not to be freed. -ENOENT if the library or a function of it is missing.
 *
 * Not linked: its tables, for all processors, take over 3 MiB of relocated and touched pages, which
 * a run that does not trace must not pay for.
 */
int capstone_load(const struct capstone **out, struct error *err);

#endif
