/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_INTROSPECT_IDENTITY_FACTS_H
#define SONDE_TESTS_INTROSPECT_IDENTITY_FACTS_H

#include "introspect/kernel/kernel.h"

/*
 * Find the kernel of known->guest once more, with nothing but memory and one vCPU's registers, and
 * print how what was read there compares with known->image, which comes from the kernel's file:
 * "identity WHAT N compared, N different".
 */
void print_identity(const struct kernel *known, unsigned int vcpu);

#endif
