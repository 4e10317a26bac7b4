/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_BASE_OUTPUT_DIR_H
#define SONDE_FORMATS_BASE_OUTPUT_DIR_H

#include "formats/base/error.h"

/*
 * Make a directory for a trace, or take one that is there, empty and writable. Returns a file
 * descriptor of it, or -errno.
 */
int output_dir_open(const char *dir, struct error *err);

#endif
