/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_BASE_TEXT_H
#define SONDE_FORMATS_BASE_TEXT_H

#include <stdint.h>

/* Numbers as users read them. All functions return a struct by value, for use within printf(). */
struct text {
	char s[640];
};

/* "1,234,567" */
struct text text_count(uint64_t number);

/* "1 object", "2,000 objects" */
struct text text_number(uint64_t number, const char *noun);

/* "999 B", "1.2 MiB": three digits or four, binary prefixes. */
struct text text_bytes(uint64_t bytes);

/* "12.345678901 s" from the trace clock's zero. */
struct text text_time(int64_t ns);

/* "1,234 ms", below 10 ms "1.234 ms" */
struct text text_ms(uint64_t ns);

#endif
