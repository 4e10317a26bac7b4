/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FAKE_SECTIONS_H
#define SONDE_TESTS_LIB_FAKE_SECTIONS_H

#include "tests/lib/fake-kernel.h"

/* The sections of a fake kernel's module, as the kernel keeps them for sysfs. */
struct fake_section {
	const char *name; /* NULL ends a list */
	uint64_t gva;
};

enum {
	FAKE_SECT_ATTRS = 208, /* in fake-kernel.c's struct module */
	FAKE_SECTIONS_MAX = 16,
};

/* Takes a page at `gpa`. `flavour` is the fake kernel's. */
void fake_put_sections(struct fake_kernel *fake, enum fake_flavour flavour, uint64_t module_gpa,
		       uint64_t gpa, const struct fake_section *sections);

/* Write the list of return slots at gpa, which is mapped at gva, with a 0 behind it. */
void fake_put_return_sites(struct fake_kernel *fake, uint64_t gpa, uint64_t gva,
			   const uint64_t *slots, size_t n);

#endif
