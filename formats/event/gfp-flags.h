/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EVENT_GFP_FLAGS_H
#define SONDE_FORMATS_EVENT_GFP_FLAGS_H

#include <stddef.h>
#include <stdint.h>
#include "formats/event/trace-info.h"

/*
 * GFP flags as the guest's own trace events print them, by the names in info->gfp_names, each
 * whose bits are all set and not yet named: "GFP_KERNEL|__GFP_ZERO"; bits without a name in hex;
 * "none" for none.
 */
void gfp_flags_text(const struct trace_info *info, uint64_t flags, char *out, size_t size);

#endif
