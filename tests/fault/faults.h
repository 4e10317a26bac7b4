/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_FAULT_FAULTS_H
#define SONDE_TESTS_FAULT_FAULTS_H

#include <stdbool.h>

/*
 * Fault injection. The objects of build/libsonde.a are copied with other names for the functions of
 * the system that can fail (tests/fault/calls): fault_malloc() for malloc() and so on. Each of them
 * is a fallible call; one of them fails, with the error that it has when the machine is at its end.
 * Calls that the test itself or another library makes do not count.
 *
 * A whole program has this from its environment: SONDE_FAULT, the number of the call that fails;
 * SONDE_FAULT_IN=watchdog, that it is one of the process that it forks, not of itself;
 * SONDE_FAULT_ONLY, that only calls count whose names begin so; and SONDE_FAULT_LOG, a file to
 * which each process appends a line: how many fallible calls it made, and which one failed.
 */

/* From now on, let the n-th fallible call of all threads fail, from 1; 0: none, count only. */
void faults_begin(unsigned long n);
/* No more faults. Returns the number of fallible calls since faults_begin(). */
unsigned long faults_end(void);
/* The call that failed, or NULL. */
const char *faults_failed(void);

/* In a new process, and before one ends without exit(). */
void faults_forked(void);
void faults_write_log(void);

/* A fallible call, of this name; whether it fails. For test code that plays the machine. */
bool fault_is_due(const char *name);

#endif
