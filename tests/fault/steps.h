/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_FAULT_STEPS_H
#define SONDE_TESTS_FAULT_STEPS_H

#include <stdbool.h>
#include <stdio.h>

/*
 * A step is a fallible call by where it is made: its name, and the three innermost return addresses
 * in the program. As text it is NAME@ADDRESS,ADDRESS,ADDRESS, with hexadecimal addresses of the
 * program's file, as addr2line takes them.
 */

/* Let this step fail when it is made the n-th time, from 1. step: kept; NULL: none does. */
void steps_begin(const char *step, unsigned long n);
/* In a new process: forget what was made. */
void steps_forget(void);
/* A call of this name is made, by any thread, and will return to `caller`. Whether it fails. */
bool steps_make(const char *name, const void *caller);
/* A line for each step that was made: a tab, its text, and how often. */
void steps_write(FILE *out);

#endif
