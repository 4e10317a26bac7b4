/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/run/options.h"

#include <stdio.h>
#include <string.h>
#include "formats/cli/cli.h"
#include "formats/trace/writer.h"
#include "tests/lib/capture.h"
#include "tests/lib/tap.h"

static struct run_options options;
static struct capture capture;

static int parse(const char *text)
{
	static struct capture_words line; /* options has strings of it */
	int ret;

	capture_split(&line, "run", text);
	capture_begin(&capture, "");
	ret = run_options_parse(line.argc, line.argv, &options);
	capture_end(&capture);
	return ret;
}

static void test_defaults(void)
{
	is_u64((uint64_t)parse("-k bz"), 0, "a kernel is all that is needed");
	ok(options.vm.ram_mib == 512 && options.vm.nr_vcpus == 1 && options.vm.console_stdin &&
		   options.vm.boot.mode == BOOT_DIRECT,
	   "the machine has 512 MiB, one vCPU and a console by default");
	is_str(options.vm.boot.cmdline, "console=ttyS0 panic=-1",
	       "the default command line has a console, and ends at a panic");
	ok(options.recorder.mode == RECORDER_EXITLESS &&
		   options.recorder.on_full == RECORDER_BLOCK &&
		   recorder_ring_bytes(&options.recorder) == 2 << 20,
	   "tracing is exitless and blocking by default, with rings of 2 MiB");
	ok(!options.recorder.max_rate && !options.recorder.duration_ms &&
		   !options.recorder.until_events && !options.recorder.nr_specs,
	   "there are no limits and no tracers by default");
}

static void test_machine(void)
{
	is_u64((uint64_t)parse("-k bz --append quiet --append ro"), 0, "--append may be repeated");
	is_str(options.vm.boot.cmdline, "console=ttyS0 panic=-1 quiet ro",
	       "--append adds to the command line");
	parse("-k bz -p a --append b");
	is_str(options.vm.boot.cmdline, "a b", "-p replaces the command line");
	is_u64((uint64_t)parse("-k b -i i -m 64 -c 64 --boot bzimage --console f --force "
			       "--kaslr-seed 18446744073709551615"),
	       0, "all options of the machine are accepted");
	ok(options.vm.boot.mode == BOOT_BZIMAGE && options.vm.boot.kaslr_seed == UINT64_MAX &&
		   options.vm.boot.has_kaslr_seed && options.vm.force && options.vm.ram_mib == 64 &&
		   options.vm.nr_vcpus == 64,
	   "all values of the machine arrive");
	parse("-k b -m 4G");
	is_u64(options.vm.ram_mib, 4096, "-m 4G is 4096 MiB");
	parse("-k b --no-console");
	ok(options.vm.no_console && !options.vm.console_stdin, "--no-console means input, too");
}

static void test_recorder(void)
{
	const struct recorder_options *r = &options.recorder;

	is_u64((uint64_t)parse(
		       "-k b --trace kmem --trace c=kmem:cache -o out --mode trap --monitor s "
		       "--format ctf --on-full drop --subbufs 2 --subbuf-size 4 "
		       "--max-rate 50 --duration 0.5 --until-events 1000 -v"),
	       0, "all options of tracing are accepted");
	ok(r->nr_specs == 2 && !strcmp(r->specs[1], "c=kmem:cache") && !r->specs[2],
	   "the specs arrive in order");
	ok(r->mode == RECORDER_TRAP && r->on_full == RECORDER_DROP &&
		   !strcmp(trace_encoding_names[r->encoding], "ctf") && r->verbose,
	   "the choices arrive");
	ok(r->subbufs == 2 && r->subbuf_bytes == 4096 && r->max_rate == 50 &&
		   r->duration_ms == 500 && r->until_events == 1000,
	   "the numbers arrive");
	is_u64((uint64_t)parse("-k b --trace kmem -o out --metrics - --console f"), 0,
	       "metrics may go to standard output, if the console does not");
	is_u64((uint64_t)parse("-k b --trace k=kmem:cache -o out --format kmemtrace"), 0,
	       "the format of kmem's events is accepted for one instance of it");
	ok(!strcmp(trace_encoding_names[r->encoding], "kmemtrace"), "it arrives");
	is_u64((uint64_t)parse("-k b -o out --monitor s --format kmemtrace"), 0,
	       "and without one, which may come later");
	parse("-k b --trace kmem --trace all=profile:vfs_*");
	ok(recorder_ring_bytes(r) == 4 << 20, "counts of all functions have larger rings");
	parse("-k b --trace profile --subbufs 8");
	ok(recorder_ring_bytes(r) == 2 << 20, "unless their size is said");
	parse("-k b --subbuf-size 256K --duration 1m");
	ok(r->subbuf_bytes == 256 << 10 && r->duration_ms == 60000, "units are understood");
}

/* One line, exit status 2, and the message names the matter. */
static void refuses(const char *text, const char *mention)
{
	const char *newline;
	int ret = parse(text);

	newline = strchr(capture.err, '\n');
	/* Below the line a caret may show where. */
	ok(ret == 1 + CLI_USAGE && newline && (!newline[1] || strchr(newline, '^')) &&
		   strstr(capture.err, mention),
	   "'sonde run %.60s' is refused with '%s'", text, mention);
}

static void test_many_specs(void)
{
	char text[1024] = "-k b -o out";

	for (size_t i = 0; i < RECORDER_MAX_SPECS; i++)
		sprintf(text + strlen(text), " --trace k%zu=kmem", i);
	ok(!parse(text) && options.recorder.nr_specs == RECORDER_MAX_SPECS &&
		   !options.recorder.specs[RECORDER_MAX_SPECS],
	   "%d times --trace are accepted", RECORDER_MAX_SPECS);
	strcat(text, " --trace kmem");
	refuses(text, "more than 32 --trace");
}

static void test_refusals(void)
{
	refuses("", "-k");
	refuses("-k", "needs a value");
	refuses("-k b --trace kmem -o -", "a trace is a directory");
	refuses("-k b --trace kmem -o out --metrics -", "the guest's console: add --console FILE");
	refuses("-k b --trace kmem -o out --metrics - --console -", "--no-console");
	refuses("-k b -c 0", "1 to 64");
	refuses("-k b -c 65", "1 to 64");
	refuses("-k b -c x", "'x'");
	refuses("-k b -m 63", "from 64M to 1T");
	refuses("-k b -m 1048577", "from 64M to 1T");
	refuses("-k b -m 100000K", "whole MiB");
	refuses("-k b --boot uefi", "'uefi'");
	refuses("-k b --mode fast", "'fast'");
	refuses("-k b --on-full wait", "block or drop");
	refuses("-k b --subbuf-size 64M", "128 MiB");
	refuses("-k b --subbufs 3", "power of two");
	refuses("-k b --subbuf-size 12K", "power of two");
	refuses("-k b --subbuf-size 2", "from 4K to 64M");
	refuses("-k b --subbufs 1024 --subbuf-size 1024", "128 MiB");
	refuses("-k b --kaslr-seed -1", "--kaslr-seed");
	refuses("-k b --trace bogus -o out", "unknown tracer 'bogus'; known: kmem");
	refuses("-k b --trace kmem", "--trace needs a directory for the trace: add -o DIR");
	refuses("-k b --until-events 9", "--until-events needs a directory");
	refuses("-k b --trace k=kmem:cache,pid,stack -o out --format kmemtrace",
		"--format: k: the format kmemtrace has no room for pid, stack; use ctf");
	refuses("-k b --max-size 64M", "--max-size needs a directory");
	refuses("-k b --flight-recorder 64M", "--flight-recorder needs a directory");
	refuses("-k b --metrics f", "--metrics needs a directory");
	refuses("-k b -o out --max-size 64M", "nothing would be traced: add --trace kmem");
	refuses("-k b --trace kmem --trace kmem:cache -o out", "NAME=kmem:cache");
	refuses("-k b --until-events 5", "add -o DIR");
	refuses("-k b --kernal b", "--kernel");
	refuses("-k b -Z", "-Z");
	refuses("-k b stray", "'stray'");
}

int main(void)
{
	test_defaults();
	test_machine();
	test_recorder();
	test_many_specs();
	test_refusals();
	return tap_done();
}
