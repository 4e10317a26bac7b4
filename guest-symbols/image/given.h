/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_IMAGE_GIVEN_H
#define SONDE_GUEST_SYMBOLS_IMAGE_GIVEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "guest-symbols/btf/btf.h"
#include "guest-symbols/symbols/symbols.h"

/*
 * What a kernel does not have in itself, and its user gives in files: symbols in a System.map,
 * types in a file that is BTF (pahole --btf_encode_detached, /sys/kernel/btf/vmlinux) or an ELF
 * with a section .BTF (pahole -J). They are used instead of the kernel's own.
 */
struct given_file {
	const char *path; /* for errors, borrowed; NULL: the file is not given */
	const uint8_t *bytes;
	size_t size;
	bool is_mapped; /* else allocated; or another's, who does not close it */
};

struct kernel_given {
	struct given_file system_map, btf;
};

/*
 * Each path may be NULL. Errors of open() and read(), -E2BIG, and, as the types are parsed once to
 * see whether they can be, those of kernel_given_types(); with the path.
 */
int kernel_given_open(const char *system_map, const char *btf, struct kernel_given *out,
		      struct error *err);
/* Also of one that is zeroed. */
void kernel_given_close(struct kernel_given *given);

/* Errors as symbols_from_system_map() and btf_parse(), with the path; -ENOENT: an ELF without BTF.
 */
int kernel_given_symbols(const struct kernel_given *given, struct symbol_table **out,
			 struct error *err);
int kernel_given_types(const struct kernel_given *given, struct btf_types **out, struct error *err);

#endif
