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
 * A whole program has this from its environment: SONDE_FAULT, the step that fails (steps.h), or
 * `none`; SONDE_FAULT_TIME, that it fails the n-th time; SONDE_FAULT_IN=watchdog, that it is one of
 * the process that it forks, not of itself; SONDE_FAULT_ONLY, that only calls count whose names
 * begin so; and SONDE_FAULT_LOG, a file to which each process appends a line: how many fallible
 * calls it made, and the name of the one that failed or `-`; and behind that a line for each of its
 * steps.
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

/* A fallible call, of this name; whether it fails. In the function that plays the machine. */
#define fault_is_due(name) fault_is_due_at(name, __builtin_return_address(0))
bool fault_is_due_at(const char *name, const void *caller);

#endif
