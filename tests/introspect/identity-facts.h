/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_INTROSPECT_IDENTITY_FACTS_H
#define SONDE_TESTS_INTROSPECT_IDENTITY_FACTS_H

#include "introspect/kernel/kernel.h"

/*
 * Finds the kernel of known->guest again, from memory and the registers of one vCPU only, and
 * compares the facts read there with known->image, which comes from the kernel's file. Prints
 * "identity WHAT N compared, N different" for each kind of fact.
 */
void print_identity(const struct kernel *known, unsigned int vcpu);

#endif
