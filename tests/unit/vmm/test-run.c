/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sonde run with guests of a few instructions: how each end is reported. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "formats/cli/cli.h"
#include "tests/lib/capture.h"
#include "tests/lib/tap.h"
#include "tests/unit/vmm/machine/toy.h"
#include "vmm/cmd.h"

static struct capture output;

static int run(const char *words)
{
	struct capture_words command;
	int status;

	capture_split(&command, "run", words);
	optind = 0;
	capture_begin(&output, "");
	status = cmd_run(command.argc, command.argv);
	capture_end(&output);
	return status;
}

static int run_code(const uint8_t *code, const uint8_t *end, const char *options)
{
	const struct tiny_kernel kernel = {.code = code, .size = (size_t)(end - code)};
	char path[64], words[256];
	int status;

	if (tiny_kernel_write(&kernel, path) < 0)
		return -1;
	snprintf(words, sizeof(words), "--force -m 64 -k %s %s", path, options);
	status = run(words);
	unlink(path);
	return status;
}

/* `status` and the words of the last line. */
static void ends(const uint8_t *code, const uint8_t *end, int status, const char *text,
		 const char *name)
{
	is_u64((uint64_t)run_code(code, end, ""), (uint64_t)status, name);
	if (!ok(strstr(output.err, text), "standard error says \"%s\"", text))
		tap_diag("%s", output.err);
}

static void test_ends(void)
{
	ends(mmio_code, mmio_end, CLI_OK, "guest powered off after", "a power-off is status 0");
	ends(reboot_code, reboot_end, 3, "guest asked for a reboot after", "a reboot is status 3");
	ends(fault_code, fault_end, 4, "guest ended in a triple fault after",
	     "a triple fault is status 4");
	ends(panic_code, panic_end, 5, "guest panicked, by a line on its console (toy) after", "a panic is status 5");
	is_str(output.out, "Kernel panic - not syncing: toy\r\n",
	       "the guest's console is standard output");
}

static void test_console(void)
{
	is_u64((uint64_t)run_code(panic_code, panic_end, "--no-console"), 5,
	       "without a console a panic is status 5, too");
	is_str(output.out, "", "without a console nothing is printed");
}

static void test_refusals(void)
{
	is_u64((uint64_t)run(""), CLI_USAGE, "a run without a kernel is a usage error");
	is_u64((uint64_t)run("--force -k /nonexistent"), CLI_FAILED,
	       "a kernel that does not exist is status 1");
	ok(strstr(output.err, "/nonexistent"), "the missing kernel is named");
}

static void on_alarm(int number)
{
	(void)number;
	kill(getpid(), SIGTERM);
}

static void test_signal(void)
{
	signal(SIGALRM, on_alarm);
	alarm(1);
	is_u64((uint64_t)run_code(loop_code, loop_end, ""), 128 + SIGTERM,
	       "a run that SIGTERM ends has status 128 and the signal's number");
	ok(strstr(output.err, "ended by signal 15"), "standard error names the signal");
}

int main(void)
{
	if (!toy_has_kvm())
		return tap_skip_all("no /dev/kvm");
	test_refusals();
	test_ends();
	test_console();
	test_signal();
	return tap_done();
}
