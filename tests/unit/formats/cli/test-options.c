/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/cli/options.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/cli/cli.h"
#include "tests/lib/capture.h"
#include "tests/lib/tap.h"

struct shared {
	uint64_t time_ms;
};

struct target {
	const char *file;
	bool flag;
	unsigned int choice;
	uint64_t number, any, size;
	struct shared shared;
};

static const char *const words[] = {"red", "green", "blue", NULL};

static const struct cli_option own[] = {
	{.name = "file",
	 .letter = 'f',
	 .value = "FILE",
	 .help = "a file\nto read",
	 .store = cli_store_text,
	 .offset = offsetof(struct target, file)},
	{.name = "flag",
	 .help = "a flag",
	 .store = cli_store_flag,
	 .offset = offsetof(struct target, flag)},
	{.name = "choice",
	 .value = "COLOUR",
	 .help = "a colour",
	 .store = cli_store_choice,
	 .offset = offsetof(struct target, choice),
	 .words = words},
	{.name = "number",
	 .letter = 'n',
	 .value = "N",
	 .help = "a number",
	 .store = cli_store_number,
	 .offset = offsetof(struct target, number),
	 .min = 1,
	 .max = 10},
	{.name = "any",
	 .value = "N",
	 .help = "any number",
	 .store = cli_store_number,
	 .offset = offsetof(struct target, any)},
	{.name = "a-size-with-a-long-name",
	 .letter = 's',
	 .value = "SIZE",
	 .help = "a size",
	 .store = cli_store_size,
	 .offset = offsetof(struct target, size),
	 .min = 4096,
	 .max = UINT64_C(1) << 40,
	 .unit = 1 << 20},
	{0},
};

static const struct cli_option shared[] = {
	{.name = "time",
	 .value = "TIME",
	 .help = "a time",
	 .store = cli_store_time,
	 .offset = offsetof(struct shared, time_ms),
	 .min = 1,
	 .max = 3600000},
	{0},
};

static const struct cli_table tables[] = {
	{own, 0}, {shared, offsetof(struct target, shared)}, {NULL, 0}};

static const struct cli_verb verb = {.name = "verb",
				     .usage = "usage: sonde verb\n",
				     .tables = tables,
				     .notes = "That is all.\n"};

static struct target target;
static struct capture capture;

static int parse(const char *text)
{
	static struct capture_words line; /* the target points into it */
	int ret;

	capture_split(&line, "verb", text);
	target = (struct target){0};
	capture_begin(&capture, "");
	ret = cli_parse(&verb, line.argc, line.argv, &target);
	capture_end(&capture);
	return ret;
}

static void test_values(void)
{
	is_u64((uint64_t)parse("-f a --flag --choice blue -n 10 -s 2 --time 2 b"), 0,
	       "options of every kind are accepted");
	is_str(target.file, "a", "a text is stored");
	ok(target.flag, "a flag is stored");
	is_u64(target.choice, 2, "a choice is stored as the index of its word");
	is_u64(target.number, 10, "a number is stored");
	is_u64(target.size, 2 << 20, "a size without a unit counts in the option's unit");
	is_u64(target.shared.time_ms, 2000, "a time without a unit counts in seconds");
	is_u64((uint64_t)optind, 12, "the operand is behind the options");
	is_u64((uint64_t)parse("--flag -- --file"), 0, "-- ends the options");
	ok(!target.file, "what is behind -- is no option");
}

static void size_is(const char *text, uint64_t want)
{
	char line[64], name[64];

	snprintf(line, sizeof(line), "-s %s", text);
	snprintf(name, sizeof(name), "%s is a size", text);
	is_u64(parse(line) ? 0 : target.size, want, name);
}

static void time_is(const char *text, uint64_t want)
{
	char line[64], name[64];

	snprintf(line, sizeof(line), "--time %s", text);
	snprintf(name, sizeof(name), "%s is a time", text);
	is_u64(parse(line) ? 0 : target.shared.time_ms, want, name);
}

static void test_units(void)
{
	size_is("4096B", 4096);
	size_is("4K", 4096);
	size_is("256k", 256 << 10);
	size_is("512M", 512 << 20);
	size_is("4G", UINT64_C(4) << 30);
	size_is("4GiB", UINT64_C(4) << 30);
	size_is("1.5G", UINT64_C(3) << 29);
	size_is("1T", UINT64_C(1) << 40);
	time_is("0.5", 500);
	time_is("500ms", 500);
	time_is("2s", 2000);
	time_is("1m", 60000);
	time_is("1.5m", 90000);
	time_is("1h", 3600000);
	time_is("0.001", 1);
}

/* One line, exit status 2. */
static void refuses(const char *text, const char *want)
{
	char line[256];

	snprintf(line, sizeof(line), "sonde verb: %s\n", want);
	ok(parse(text) == 1 + CLI_USAGE, "'%s' is a usage error", text);
	is_str(capture.err, line, "its message is one line that says why");
	is_str(capture.out, "", "nothing is printed on standard output");
}

static void refuses_value(const char *option, const char *value)
{
	char *argv[] = {"verb", (char *)option, (char *)value, NULL};
	int ret;

	capture_begin(&capture, "");
	ret = cli_parse(&verb, 3, argv, &target);
	capture_end(&capture);
	ok(ret == 1 + CLI_USAGE, "%s does not take '%s'", option, value);
}

static void test_refusals(void)
{
	static const char *const sizes[] = {"4095B", "2T",  "1e3",   "-4K", "4KK",
					    "K",     ".5G", "1.2.3", "4 K", "0x10000"};
	static const char *const times[] = {"0", "0.0001", "2h", "1d", "-1", "1,5", "s", ""};

	refuses("-n 0", "-n takes a number from 1 to 10, not '0'");
	refuses("-n 11", "-n takes a number from 1 to 10, not '11'");
	refuses("--number 11", "--number takes a number from 1 to 10, not '11'");
	refuses("-n 99999999999999999999", "-n takes a number from 1 to 10, not "
					   "'99999999999999999999'");
	refuses("--any x", "--any takes a number from 0 on, not 'x'");
	refuses("--any 18446744073709551616",
		"--any takes a number from 0 on, not '18446744073709551616'");
	refuses("--choice pink", "--choice takes red, green or blue, not 'pink'");
	refuses("--choice greem", "--choice takes red, green or blue, not 'greem'; did you mean "
				  "'green'?");
	refuses("-s 3K", "-s takes a size from 4K to 1T, not '3K'");
	refuses("--time 2h",
		"--time takes a time from 1ms to 1h, such as 0.5, 10s or 2m, not '2h'");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		refuses_value("-s", sizes[i]);
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		refuses_value("--time", times[i]);
}

static void test_unknown(void)
{
	refuses("--flat", "unknown option --flat: did you mean --flag?");
	refuses("--xyzzyxyzzy", "unknown option --xyzzyxyzzy; see 'sonde verb --help'");
	refuses("-z", "unknown option -z; see 'sonde verb --help'");
	refuses("--flag=1", "--flag takes no value");
	refuses("--help=1", "--help takes no value");
	refuses("-n", "-n needs a value; see 'sonde verb --help'");
}

static void test_help(void)
{
	is_u64((uint64_t)parse("--flag --help"), 1 + CLI_OK, "--help ends the verb successfully");
	is_str(capture.out,
	       "usage: sonde verb\n"
	       "\n"
	       "  -f, --file FILE        a file\n"
	       "                         to read\n"
	       "      --flag             a flag\n"
	       "      --choice COLOUR    a colour\n"
	       "  -n, --number N         a number\n"
	       "      --any N            any number\n"
	       "  -s, --a-size-with-a-long-name SIZE\n"
	       "                         a size\n"
	       "      --time TIME        a time\n"
	       "  -h, --help             print this\n"
	       "\n"
	       "That is all.\n",
	       "--help lists the options of all tables");
}

/* What is left in the buffer is tried again, which has the reason. */
static void test_full(void)
{
	int out, ret;

	capture_begin(&capture, "");
	out = dup(STDOUT_FILENO);
	if (!freopen("/dev/full", "w", stdout))
		abort();
	for (int i = 0; i < 10000; i++)
		puts("0123456789");
	ret = cli_flush("try");
	clearerr(stdout);
	__fpurge(stdout);
	dup2(out, STDOUT_FILENO);
	close(out);
	capture_end(&capture);
	is_u64((uint64_t)ret, CLI_FAILED, "standard output that is full is a failure");
	is_str(capture.err, "sonde try: cannot write to standard output: No space left on device\n",
	       "which has the reason");
}

int main(void)
{
	test_full();
	test_values();
	test_units();
	test_refusals();
	test_unknown();
	test_help();
	return tap_done();
}
