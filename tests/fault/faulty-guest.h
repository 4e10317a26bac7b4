/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_FAULT_FAULTY_GUEST_H
#define SONDE_TESTS_FAULT_FAULTY_GUEST_H

#include "tests/lib/fake-guest.h"

/*
 * Make the operations of a fake guest fallible calls (faults.h): reading and writing its memory,
 * stopping it, reading and setting registers, adding and removing scratch memory, setting
 * breakpoints. One guest at a time.
 */
void faulty_guest_init(struct fake_guest *fg);

#endif
