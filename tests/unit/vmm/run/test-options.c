// SPDX-License-Identifier: GPL-2.0-or-later
#include "vmm/run/options.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include "formats/cli/cli.h"
#include "tests/lib/tap.h"

enum { MAX_ARGS = 48 };

static struct run_options options;
static char message[512]; /* what was printed on stderr */

/* Split at single spaces and parse. */
static int parse(const char *text)
{
	static char words[8192];
	char *argv[MAX_ARGS] = {"run"};
	int argc = 1, fds[2], saved = dup(STDERR_FILENO), rc;
	ssize_t n;

	snprintf(words, sizeof(words), "%s", text);
	for (char *word = strtok(words, " "); word && argc < MAX_ARGS; word = strtok(NULL, " "))
		argv[argc++] = word;
	if (pipe(fds) < 0)
		return -1;
	dup2(fds[1], STDERR_FILENO);
	close(fds[1]);
	rc = run_options_parse(argc, argv, &options);
	fflush(stderr);
	dup2(saved, STDERR_FILENO);
	close(saved);
	n = read(fds[0], message, sizeof(message) - 1);
	message[n > 0 ? n : 0] = 0;
	close(fds[0]);
	return rc;
}

static void test_good(void)
{
	is_u64((uint64_t)parse("-k bz"), 0, "only a kernel");
	ok(options.vm.ram_mib == 512 && options.vm.nr_vcpus == 1 && options.vm.console_stdin &&
		   options.vm.boot.mode == BOOT_DIRECT,
	   "defaults");
	is_str(options.vm.boot.cmdline, "console=ttyS0 panic=-1", "default command line");
	is_u64((uint64_t)parse("-k bz --append quiet --append ro"), 0, "append");
	is_str(options.vm.boot.cmdline, "console=ttyS0 panic=-1 quiet ro", "adds");
	parse("-k bz -p a --append b");
	is_str(options.vm.boot.cmdline, "a b", "-p replaces");
	is_u64((uint64_t)parse("-k b -i i -m 64 -c 64 --trace kmem --trace x -o out --mode trap "
			       "--monitor s --boot bzimage "
			       "--kaslr-seed 18446744073709551615 --console f --force"),
	       0, "everything");
	ok(options.traces.n == 2 && options.vm.boot.mode == BOOT_BZIMAGE &&
		   options.vm.boot.kaslr_seed == UINT64_MAX && options.vm.boot.has_kaslr_seed &&
		   options.vm.force,
	   "all values arrive");
	parse("-k b --no-console");
	ok(options.vm.no_console && !options.vm.console_stdin, "--no-console means input too");
}

/* One line, exit status 2, and the message names the matter. */
static void bad(const char *text, const char *mention)
{
	int rc = parse(text);
	const char *newline = strchr(message, '\n');

	ok(rc == 1 + CLI_USAGE && newline && !newline[1] && strstr(message, mention),
	   "sonde run %s: %.*s", text, newline ? (int)(newline - message) : 0, message);
}

/* Their list has an end, however many there are. */
static void test_traces(void)
{
	char text[512] = "-k b -o out";

	for (size_t i = 0; i < TRACE_ARGS_MAX; i++)
		strcat(text, " --trace kmem");
	ok(!parse(text) && options.traces.n == TRACE_ARGS_MAX &&
		   !options.traces.specs[TRACE_ARGS_MAX],
	   "%d times --trace", TRACE_ARGS_MAX);
	strcat(text, " --trace kmem");
	bad(text, "more than 16 --trace");
}

static void test_rings(void)
{
	ok(!parse("-k b") && options.tracing.exitless && !options.tracing.drop &&
		   options.tracing.ring_bytes == 2 << 20,
	   "exitless, blocking, 1 MiB a vCPU by default");
	ok(!parse("-k b --mode trap --on-full drop --subbufs 2 --subbuf-size 4") &&
		   !options.tracing.exitless && options.tracing.drop &&
		   options.tracing.ring_bytes == 8192,
	   "and otherwise as asked for");
}

static void test_bad(void)
{
	bad("", "-k");
	bad("-k", "needs a value");
	bad("-k b -c 0", "1 to 64");
	bad("-k b -c 65", "1 to 64");
	bad("-k b -c x", "'x'");
	bad("-k b -m 63", "64");
	bad("-k b -m 1048577", "1048576");
	bad("-k b --boot uefi", "'uefi'");
	bad("-k b --mode fast", "'fast'");
	bad("-k b --on-full wait", "block or drop");
	bad("-k b --subbufs 3", "power of two");
	bad("-k b --subbuf-size 2", "4 to");
	bad("-k b --subbufs 1024 --subbuf-size 1024", "128 MiB");
	bad("-k b --kaslr-seed -1", "--kaslr-seed");
	bad("-k b --kernal b", "--kernel");
	bad("-k b -Z", "-Z");
	bad("-k b stray", "'stray'");
}

int main(void)
{
	test_good();
	test_traces();
	test_rings();
	test_bad();
	return tap_done();
}
