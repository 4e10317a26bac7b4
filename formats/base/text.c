/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct text text_count(uint64_t number)
{
	struct text digits, out;
	size_t n, used = 0;

	snprintf(digits.s, sizeof(digits.s), "%" PRIu64, number);
	n = strlen(digits.s);
	for (size_t i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			out.s[used++] = ',';
		out.s[used++] = digits.s[i];
	}
	out.s[used] = '\0';
	return out;
}

struct text text_number(uint64_t number, const char *noun)
{
	struct text out;

	snprintf(out.s, sizeof(out.s), "%.32s %s%s", text_count(number).s, noun,
		 number == 1 ? "" : "s");
	return out;
}

struct text text_bytes(uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	struct text out;
	size_t unit = 0;

	while (value >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		value /= 1024;
		unit++;
	}
	if (unit)
		snprintf(out.s, sizeof(out.s), "%.1f %s", value, units[unit]);
	else
		snprintf(out.s, sizeof(out.s), "%" PRIu64 " B", bytes);
	return out;
}

struct text text_time(int64_t ns)
{
	uint64_t magnitude = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
	struct text out;

	snprintf(out.s, sizeof(out.s), "%s%" PRIu64 ".%09" PRIu64 " s", ns < 0 ? "-" : "",
		 magnitude / 1000000000, magnitude % 1000000000);
	return out;
}

struct text text_ms(uint64_t ns)
{
	const uint64_t ns_per_ms = 1000000;
	struct text out;

	if (ns >= 10 * ns_per_ms)
		snprintf(out.s, sizeof(out.s), "%.32s ms", text_count(ns / ns_per_ms).s);
	else
		snprintf(out.s, sizeof(out.s), "%.3f ms", (double)ns / (double)ns_per_ms);
	return out;
}
