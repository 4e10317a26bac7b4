/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/tap.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

static unsigned int tests_run, tests_failed;

bool tap_ok(bool pass, const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	printf("%sok %u - ", pass ? "" : "not ", ++tests_run);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	if (!pass) {
		tests_failed++;
		tap_diag("failed at %s:%d", file, line);
	}
	fflush(stdout);
	return pass;
}

bool tap_is_u64(uint64_t got, uint64_t want, const char *file, int line, const char *name)
{
	if (!tap_ok(got == want, file, line, "%s", name))
		tap_diag("got 0x%" PRIx64 " (%" PRIu64 "), want 0x%" PRIx64 " (%" PRIu64 ")", got,
			 got, want, want);
	return got == want;
}

bool tap_is_str(const char *got, const char *want, const char *file, int line, const char *name)
{
	bool same = got && want ? !strcmp(got, want) : got == want;

	if (!tap_ok(same, file, line, "%s", name))
		tap_diag("got \"%s\", want \"%s\"", got ? got : "(null)", want ? want : "(null)");
	return same;
}

void tap_diag(const char *fmt, ...)
{
	va_list ap;

	printf("# ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
}

void tap_skip(const char *name, const char *reason)
{
	printf("ok %u - %s # SKIP %s\n", ++tests_run, name, reason);
	fflush(stdout);
}

int tap_skip_all(const char *reason)
{
	printf("1..0 # SKIP %s\n", reason);
	return 0;
}

int tap_done(void)
{
	printf("1..%u\n", tests_run);
	return tests_failed ? 1 : 0;
}
