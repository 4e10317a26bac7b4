/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_FAULT_LIBVIRT_CALLS_H
#define SONDE_TESTS_FAULT_LIBVIRT_CALLS_H

/* The fallible call that stands for a function of libvirt that was found; `found` itself for what
 * never fails. */
void *fault_libvirt_call(const char *name, void *found);

#endif
