/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRACERS_KMEM_KMEM_H
#define SONDE_PATCHER_TRACERS_KMEM_KMEM_H

#include "patcher/tracer.h"

/*
 * "kmem": every allocation and free of slab memory and pages, as kmemtrace records. Filters:
 * kmalloc, cache, pages.
 */
extern const struct tracer_ops tracer_kmem;

#endif
