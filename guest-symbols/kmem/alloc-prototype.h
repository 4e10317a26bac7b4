/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_KMEM_ALLOC_PROTOTYPE_H
#define SONDE_GUEST_SYMBOLS_KMEM_ALLOC_PROTOTYPE_H

#include "formats/base/error.h"
#include "guest-symbols/kmem/alloc-entry.h"
#include "guest-symbols/btf/btf.h"

/* 0 if the prototype has a parameter of a fitting type for each role of the entry, and no gfp_t
 * without a role; else -EPROTO, naming the parameter. */
int alloc_prototype_check(const struct alloc_entry *entry, const struct btf_prototype *prototype,
			  struct error *err);

#endif
