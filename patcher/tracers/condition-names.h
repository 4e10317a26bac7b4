/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRACERS_CONDITION_NAMES_H
#define SONDE_PATCHER_TRACERS_CONDITION_NAMES_H

#include "formats/event/trace-info.h"
#include "formats/filter/filter.h"
#include "guest-symbols/image/kernel-image.h"

/* What a condition may name in place of a number: flags of allocations, and functions of the kernel
 * image in place of code addresses. */
struct condition_names {
	struct event_names names; /* for event_filter_bind(); it refers to this struct */
	struct trace_info info;   /* has the names of the flags */
	const struct kernel_image *image;
	uint64_t slide;
};

/*
 * The names that the image has, which must outlive *names; its functions are moved by `slide`.
 * NULL: the kernel is not known yet, and any name may be right.
 */
void condition_names_init(struct condition_names *names, const struct kernel_image *image,
			  uint64_t slide);

/* The name of a function of the image that is like this one, which no function has; or NULL. */
const char *condition_names_nearest(const struct kernel_image *image, const char *name);

#endif
