/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_TAP_H
#define SONDE_TESTS_LIB_TAP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * TAP for unit tests. main() calls checks and returns tap_done(), which prints the plan. Each check
 * prints one line "ok N - name"; a failed one adds "# file:line" and the values.
 */
bool tap_ok(bool pass, const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
bool tap_is_u64(uint64_t got, uint64_t want, const char *file, int line, const char *name);
bool tap_is_str(const char *got, const char *want, const char *file, int line, const char *name);
void tap_diag(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void tap_skip(const char *name, const char *reason);
/* Skip the whole file ("1..0 # SKIP reason"); returns main()'s exit status. */
int tap_skip_all(const char *reason);
int tap_done(void);

#define ok(pass, ...) tap_ok((pass), __FILE__, __LINE__, __VA_ARGS__)
#define is_u64(got, want, name) tap_is_u64((got), (want), __FILE__, __LINE__, (name))
#define is_str(got, want, name) tap_is_str((got), (want), __FILE__, __LINE__, (name))

#endif
