/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_IMAGE_GIVEN_H
#define SONDE_GUEST_SYMBOLS_IMAGE_GIVEN_H

#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "guest-symbols/btf/btf.h"
#include "guest-symbols/symbols/symbols.h"

/*
 * What a kernel does not have in itself, and its user gives in files: symbols in a System.map,
 * types in a file that is BTF (pahole --btf_encode_detached, /sys/kernel/btf/vmlinux) or an ELF
 * with a section .BTF (pahole -J). They are used instead of the kernel's own. Paths are for errors,
 * borrowed; NULL: the file is not given.
 */
struct kernel_given {
	struct {
		const char *path;
		const uint8_t *bytes;
		size_t size;
	} system_map;
	struct {
		const char *path;
		struct btf_types *types;
	} btf;
};

/* How much is read of a file, or of an ELF's section. */
enum { GIVEN_MAX = 64 << 20 };

/*
 * Copy what the files have: they may change, or go, afterwards. Each path may be NULL. Errors of
 * open() and read(), -E2BIG, and those of given_types_parse(); with the path.
 */
int kernel_given_open(const char *system_map, const char *btf, struct kernel_given *out,
		      struct error *err);
/* Also of one that is zeroed. */
void kernel_given_close(struct kernel_given *given);

/* Errors as symbols_from_system_map(), with the path. */
int kernel_given_symbols(const struct kernel_given *given, struct symbol_table **out,
			 struct error *err);

/* Of a file's bytes. Errors as btf_parse(); -ENOENT: an ELF without BTF; -E2BIG; -ENOEXEC: an ELF
 * of another kind of machine. */
int given_types_parse(const uint8_t *bytes, size_t size, struct btf_types **out, struct error *err);

#endif
