/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FAKE_MODULE_BTF_H
#define SONDE_TESTS_LIB_FAKE_MODULE_BTF_H

#include "tests/lib/fake-kernel.h"

enum {
	/* in fake-kernel.c's struct btf_module and struct btf */
	FAKE_LISTED_LIST = 8,
	FAKE_LISTED_MODULE = 24,
	FAKE_LISTED_BTF = 32,
	FAKE_BTF_DATA = 8,
	FAKE_BTF_SIZE = 64,
	FAKE_BTF_START_ID = 120,
	FAKE_BTF_START_STRING = 124,

	/* behind the gpa of fake_put_module_btf(): the struct btf_module, the struct btf, and the
	 * bytes */
	FAKE_STRUCT_BTF = 0x100,
	FAKE_BTF_BYTES = 0x200,
	FAKE_MODULE_BTF_ROOM = 0x2000,
};

/*
 * The kernel's list of modules with types is the module whose struct module is at `module_gpa`:
 * with these structures and functions (fake_btf_split()). Takes FAKE_MODULE_BTF_ROOM bytes at
 * `gpa`. Returns how many bytes the types have.
 */
uint32_t fake_put_module_btf(struct fake_kernel *fake, uint64_t module_gpa, uint64_t gpa,
			     const struct fake_struct *structs, const char *const *prototypes);
/* It is empty. */
void fake_clear_module_btf(struct fake_kernel *fake);

#endif
