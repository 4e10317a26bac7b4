/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lines of a journal: a file in /dev/shm, a loan. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/tap.h"
#include "vmm/libvirt/journal/journal.h"

static int parse(const char *text, struct journal_contents *out)
{
	return journal_parse(text, strlen(text), out, NULL);
}

static void test_file(void)
{
	struct journal_contents c;

	ok(!parse("stop\n", &c) && !c.file[0], "a journal may have no file");
	ok(!parse("file ua-sonde-1\nfile ua-sonde-2\n", &c), "'file' is read");
	is_str(c.file, "ua-sonde-2", "the last one may be there");
	ok(!parse("file 0123456789012345678901234567890\n", &c) && strlen(c.file) == 31,
	   "one of the longest name is read");
}

/* It becomes part of a path. */
static void test_damaged_file(void)
{
	static const char *const bad[] = {
		"file\n",     "file \n",  "file ../x\n", "file a/b\n",
		"file a b\n", "file .\n", "file A\n",    "file 01234567890123456789012345678901\n",
	};
	struct journal_contents c;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(parse(bad[i], &c) == -EPROTO, "a damaged line is refused: '%.*s'",
		   (int)strlen(bad[i]) - 1, bad[i]);
}

static void test_loan(void)
{
	struct journal_contents c;

	ok(!parse("breaks\nlend 3 12345800 12344000\n", &c) && c.breaks && c.lent,
	   "'lend': a loan is in effect");
	ok(c.loan.vcpu == 3 && c.loan.cr3 == 0x12345800 && c.loan.lent == 0x12344000,
	   "'lend': vCPU, its own CR3 and the lent one are read");
	ok(!parse("lend 3 12345800 12344000\nlent\n", &c) && !c.lent,
	   "'lent': the loan is no longer in effect");
	ok(!parse("reset\n", &c) && c.reset, "'reset' is read");
}

static void test_tracer(void)
{
	static const char *const bad[] = {
		"tracer\n",       "tracer 1\n",          "tracer 0 1\n",
		"tracer 1 2 3\n", "tracer 80000000 1\n", "tracer -1 1\n",
	};
	struct journal_contents c;

	ok(!parse("tracer 2a b13f\n", &c) && c.tracer.pid == 42 && c.tracer.start == 0xb13f,
	   "'tracer' is read");
	ok(c.blank, "nothing is done then");
	ok(!parse("tracer 2a b13f\nstop\n", &c) && !c.blank, "a stop is something");
	ok(!parse("stop\n", &c) && !c.tracer.pid, "a journal of an older version has no tracer");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(parse(bad[i], &c) == -EPROTO, "a damaged line is refused: '%.*s'",
		   (int)strlen(bad[i]) - 1, bad[i]);
}

int main(void)
{
	test_tracer();
	test_loan();
	test_file();
	test_damaged_file();
	return tap_done();
}
