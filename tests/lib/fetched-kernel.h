/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FETCHED_KERNEL_H
#define SONDE_TESTS_LIB_FETCHED_KERNEL_H

#include "guest-symbols/image/kernel-image.h"
#include "introspect/guest/dump.h"
#include "introspect/kernel/kernel.h"
#include "patcher/text/function.h"

/* Debian's kernels, which tests/testbed/fetch-kernel puts into $KERNELS_DIR, or build/kernels. */
enum {
	FETCHED_KERNEL_PATH = 512,
	FETCHED_PHYS_TEXT = 16 << 20, /* guest-physical address of _text, see below */
};

/* The path of a version's bzImage, whether or not it was fetched. Returns `path`. */
const char *fetched_kernel_path(char path[FETCHED_KERNEL_PATH], const char *version);

/* Its image, which the caller destroys; NULL if it was not fetched. Aborts, with the reason, if it
 * cannot be read or analysed. */
struct kernel_image *fetched_kernel_image(const char *version);

/*
 * A whole test: calls fn() with each of these versions (NULL behind the last), and skips those that
 * were not fetched. Returns main()'s exit status.
 */
typedef void fetched_kernel_fn(const struct kernel_image *image, const char *version);
int fetched_kernels_test(const char *const *versions, fetched_kernel_fn *fn);

/* A guest that has the kernel's bytes at FETCHED_PHYS_TEXT, without a slide, and no other memory;
 * and a decoder for them. */
struct fetched_guest {
	struct dump_guest *dump;
	struct kernel kernel;
	struct decoder *decoder;
};

/* The image must outlive the guest. Aborts on failure. */
void fetched_guest_init(struct fetched_guest *guest, const struct kernel_image *image);
void fetched_guest_deinit(struct fetched_guest *guest);

/* The link address behind the first CALL of a function, but for its mcount site's; 0: it has none.
 */
uint64_t fetched_kernel_behind_call(const struct kernel_image *image, const struct symbol *s);

#endif
