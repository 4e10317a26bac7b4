/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FETCHED_KERNEL_H
#define SONDE_TESTS_LIB_FETCHED_KERNEL_H

#include "guest-symbols/image/kernel-image.h"

/* Debian's kernels, which tests/testbed/fetch-kernel puts into $KERNELS_DIR, or build/kernels. */
enum { FETCHED_KERNEL_PATH = 512 };

/* The path of a version's bzImage, whether or not it was fetched. Returns `path`. */
const char *fetched_kernel_path(char path[FETCHED_KERNEL_PATH], const char *version);

/* Its image, which the caller destroys; NULL if it was not fetched. Aborts if it cannot be
 * analysed. */
struct kernel_image *fetched_kernel_image(const char *version);

#endif
