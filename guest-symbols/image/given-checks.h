/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_IMAGE_GIVEN_CHECKS_H
#define SONDE_GUEST_SYMBOLS_IMAGE_GIVEN_CHECKS_H

#include "formats/base/error.h"
#include "guest-symbols/file/elf-view.h"
#include "guest-symbols/image/kernel-image.h"

/* Whether what is given (given.h) is of this kernel, and not of another build. -ESTALE: it is not,
 * with the difference in *err. */

/*
 * Symbols: each function of the kernel's own table that they name, too, is where the table has it.
 * Where `own` is NULL, or has none of these functions, the kernel's banner is where they have it.
 */
int given_check_symbols(const struct symbol_table *given, const struct symbol_table *own,
			const struct elf_view *view, struct error *err);

/* The image's types, which needs its symbols, its bytes and its release. Also -ENOMEM. */
int given_check_types(const struct kernel_image *image, struct error *err);

#endif
