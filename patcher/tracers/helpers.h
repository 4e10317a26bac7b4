/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRACERS_HELPERS_H
#define SONDE_PATCHER_TRACERS_HELPERS_H

#include "introspect/kernel/kernel.h"
#include "patcher/fetch/fetch.h"

/* Functions of the guest that the tracer's code calls to read memory. */
enum { HELPER_SITE_OFFSET = 4 /* most bytes in front of an mcount site: those of an ENDBR */ };

/* Whether one of them begins there. */
bool helper_is(const struct kernel *kernel, uint64_t gva);

/* The link address of the mcount site of the function that begins there; 0: it has none. */
uint64_t helper_site_of(const struct kernel_image *image, uint64_t function);

/* What the guest's kernel has of them. */
struct fetch_helpers helpers_of(const struct kernel *kernel);

#endif
