/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EXPORT_FLAME_SVG_H
#define SONDE_FORMATS_EXPORT_FLAME_SVG_H

#include "formats/export/file.h"
#include "formats/export/stacks.h"

/*
 * A flame graph as SVG 1.1, without scripts, fonts or links: a box for each frame, as wide as the
 * values of the stacks that have it at this place, with a title that browsers show. What is
 * narrower than a tenth of a pixel is left out.
 */
void flame_svg_put(struct export_file *file, const struct stack_line *lines, size_t n,
		   const char *unit, const char *subtitle);

#endif
