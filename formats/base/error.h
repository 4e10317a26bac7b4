/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_BASE_ERROR_H
#define SONDE_FORMATS_BASE_ERROR_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The error object every library function of Sonde reports through.
 *
 * Libraries never print and never exit: they return a negative errno and describe the cause here,
 * in one line without a trailing full stop or newline. The command line (formats/cli/cli.h) is the
 * one place that turns it into text. A caller that does not care may pass NULL.
 */
struct error {
	int code;         /* positive errno; 0 = no error */
	bool has_address; /* whether `address` says where (guest address or file offset) */
	uint64_t address;
	unsigned int column; /* from 1, in the text that was parsed; 0: it is no error of a text */
	/* That text, which outlives the error; NULL: whoever has it shows it. error_set() and its
	 * like set NULL. */
	const char *parsed;
	char text[400];
};

/* Fill *err (which may be NULL) and return -code, so that `return error_set(...)` reads well. */
int error_set(struct error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* As error_set(), and also say at which guest address or file offset it went wrong. */
int error_set_at(struct error *err, int code, uint64_t address, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* As error_set(), and also say at which character of a text that was parsed, from 1. */
int error_set_column(struct error *err, int code, unsigned int column, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/*
 * Put context in front of an error that is already set ("vmlinuz: " + "truncated"). Returns
 * -code, or -1 if err is NULL: a caller that tells codes apart keeps its own.
 */
int error_prefix(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
