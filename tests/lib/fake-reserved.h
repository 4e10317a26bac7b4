/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FAKE_RESERVED_H
#define SONDE_TESTS_LIB_FAKE_RESERVED_H

#include "tests/lib/fake-guest.h"

/* The lists of text that has to stay (struct reserved_text), with one entry each. */
enum fake_reserved {
	FAKE_RESERVED_LABEL,
	FAKE_RESERVED_STATIC_CALL,
	FAKE_RESERVED_LOCK,
	FAKE_RESERVED_FAULT,
	FAKE_RESERVED_BLACKLIST,
	FAKE_NR_RESERVED
};

/* Give the image these lists at FAKE_RESERVED, a place of the image that is free; to[i] is the
 * image offset that the entry of list i names; 0: there is no such list. Aborts if the machine
 * fails it. */
enum { FAKE_RESERVED = 0x34000 };
void fake_reserved_add(struct fake_guest *fg, const uint64_t to[FAKE_NR_RESERVED]);
/* The entry of a list that was added says that the kernel may go on at this image offset. */
void fake_reserved_lead(struct fake_guest *fg, enum fake_reserved list, uint64_t to);

#endif
