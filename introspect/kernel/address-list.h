/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_KERNEL_ADDRESS_LIST_H
#define SONDE_INTROSPECT_KERNEL_ADDRESS_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/budget.h"

/* Addresses that a guest lists: its memory comes out of the guest's budget. */
struct address_list {
	struct budget *budget; /* or NULL; outlives the list */
	uint64_t *v;
	size_t n, room;
};

/* Append one. 0 or -ENOMEM: no memory or no budget, and the list is as before. */
int address_list_add(struct address_list *list, uint64_t address);
/* Sort it, and keep each address once. */
void address_list_sort(struct address_list *list);
bool address_list_is_same(const struct address_list *a, const struct address_list *b);
/* Also of one that is zeroed, which it is afterwards, too. */
void address_list_deinit(struct address_list *list);

#endif
