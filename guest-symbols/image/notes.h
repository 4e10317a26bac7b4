/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_IMAGE_NOTES_H
#define SONDE_GUEST_SYMBOLS_IMAGE_NOTES_H

#include "formats/base/error.h"
#include "guest-symbols/file/elf-view.h"
#include "guest-symbols/image/kernel-image.h"

/* Fill in what tells one kernel from another: banner, release, and the build id if there is one.
 * The image has its symbols and bytes by then. -ENOENT without a banner. */
int image_notes_load(struct kernel_image *image, const struct elf_view *view, struct error *err);

#endif
