// SPDX-License-Identifier: GPL-2.0-or-later
#include "vmm/run/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "formats/cli/cli.h"

enum {
	OPT_APPEND = 256,
	OPT_BOOT,
	OPT_CONSOLE,
	OPT_FORCE,
	OPT_FORMAT,
	OPT_KASLR_SEED,
	OPT_MODE,
	OPT_MONITOR,
	OPT_NO_CONSOLE,
	OPT_ON_FULL,
	OPT_SUBBUFS,
	OPT_SUBBUF_SIZE,
	OPT_TRACE,

	DEFAULT_RAM_MIB = 512,

	KIB = 1024,
	DEFAULT_SUBBUFS = 8,
	MAX_SUBBUFS = 1024,
	DEFAULT_SUBBUF_KIB = 256,
	MIN_SUBBUF_KIB = 4,
	MAX_SUBBUF_KIB = 64 * 1024,
	MAX_RING_BYTES = 128 << 20,
};

static const char verb[] = "run";

/* The serial console, and a panic that ends the run instead of hanging. */
static const char default_cmdline[] = "console=ttyS0 panic=-1";

static const struct option long_options[] = {
	{"append", required_argument, NULL, OPT_APPEND},
	{"boot", required_argument, NULL, OPT_BOOT},
	{"cmdline", required_argument, NULL, 'p'},
	{"console", required_argument, NULL, OPT_CONSOLE},
	{"cpus", required_argument, NULL, 'c'},
	{"force", no_argument, NULL, OPT_FORCE},
	{"format", required_argument, NULL, OPT_FORMAT},
	{"help", no_argument, NULL, 'h'},
	{"initrd", required_argument, NULL, 'i'},
	{"kaslr-seed", required_argument, NULL, OPT_KASLR_SEED},
	{"kernel", required_argument, NULL, 'k'},
	{"memory", required_argument, NULL, 'm'},
	{"mode", required_argument, NULL, OPT_MODE},
	{"monitor", required_argument, NULL, OPT_MONITOR},
	{"no-console", no_argument, NULL, OPT_NO_CONSOLE},
	{"on-full", required_argument, NULL, OPT_ON_FULL},
	{"output", required_argument, NULL, 'o'},
	{"subbuf-size", required_argument, NULL, OPT_SUBBUF_SIZE},
	{"subbufs", required_argument, NULL, OPT_SUBBUFS},
	{"trace", required_argument, NULL, OPT_TRACE},
	{NULL, 0, NULL, 0},
};

static const char help[] =
	"usage: sonde run -k KERNEL [-i INITRD] [options]\n"
	"Boot a Linux kernel in a virtual machine on KVM and trace it from outside.\n"
	"\n"
	"  -k, --kernel FILE     bzImage or ELF vmlinux\n"
	"  -i, --initrd FILE     initial RAM disk\n"
	"  -p, --cmdline TEXT    kernel command line (default: console=ttyS0 panic=-1)\n"
	"      --append TEXT     add to the command line\n"
	"  -m, --memory MIB      RAM (512)\n"
	"  -c, --cpus N          vCPUs, 1 to 64 (1)\n"
	"      --boot HOW        direct (default) or bzimage: the guest decompresses itself\n"
	"      --kaslr-seed N    place the kernel always the same way\n"
	"      --trace SPEC      what to trace, e.g. kmem; may be repeated\n"
	"  -o, --output DIR      write the trace there\n"
	"      --format FORMAT   of the trace: ctf (default) or kmemtrace\n"
	"      --mode MODE       exitless: the guest's own vCPUs write the records (default,\n"
	"                        where possible), or trap: an exit to the host for each event\n"
	"      --on-full WHAT    exitless: block (default), the vCPU waits, or drop, and count\n"
	"      --subbufs N       exitless: parts of each vCPU's buffer, a power of two (8)\n"
	"      --subbuf-size KIB their size, a power of two (256)\n"
	"      --monitor SOCKET  listen there for 'sonde ctl' and QMP clients\n"
	"      --console FILE    the guest's serial output goes to FILE\n"
	"      --no-console      no serial input and output\n"
	"      --force           go on even if KVM is not backed by hardware\n"
	"\n"
	"On a terminal: Ctrl-a x quits, Ctrl-a h shows the keys.\n"
	"Exit status: 0 power-off or quit, 3 reboot, 4 triple fault, 5 guest panic, 1 failure,\n"
	"2 usage, 128+N signal N.\n";

static int parse_number(const char *option, const char *text, uint64_t min, uint64_t max,
			uint64_t *out)
{
	if (!cli_parse_u64(text, min, max, out))
		return 0;
	return cli_usage(verb, "%s takes a number from %llu to %llu, not '%s'", option,
			 (unsigned long long)min, (unsigned long long)max, text);
}

static int set_cmdline(struct run_options *options, const char *text, bool append)
{
	size_t used = append ? strlen(options->cmdline) : 0;
	int n = snprintf(options->cmdline + used, sizeof(options->cmdline) - used, "%s%s",
			 used ? " " : "", text);

	if (n < 0 || (size_t)n >= sizeof(options->cmdline) - used)
		return cli_usage(verb, "the kernel command line is longer than %d bytes",
				 RUN_CMDLINE_SIZE - 1);
	return 0;
}

/* A power of two. */
static int parse_power(const char *option, const char *text, uint64_t min, uint64_t max,
		       uint32_t *out)
{
	uint64_t number = 0;
	int rc = parse_number(option, text, min, max, &number);

	if (!rc && number & (number - 1))
		return cli_usage(verb, "%s takes a power of two, not '%s'", option, text);
	*out = (uint32_t)number;
	return rc;
}

static int parse_tracing(struct run_options *options, int option, const char *text)
{
	bool second;
	int rc;

	switch (option) {
	case OPT_MODE:
		rc = cli_parse_choice(verb, "--mode", text, "exitless", "trap", &second);
		options->tracing.exitless = !second;
		return rc;
	case OPT_ON_FULL:
		return cli_parse_choice(verb, "--on-full", text, "block", "drop",
					&options->tracing.drop);
	case OPT_SUBBUFS:
		return parse_power("--subbufs", text, 1, MAX_SUBBUFS, &options->subbufs);
	default:
		return parse_power("--subbuf-size", text, MIN_SUBBUF_KIB, MAX_SUBBUF_KIB,
				   &options->subbuf_kib);
	}
}

/* Trampolines see one ring; that it comes in parts is what the user counts in. */
static int set_ring_size(struct run_options *options)
{
	uint64_t bytes = (uint64_t)options->subbufs * options->subbuf_kib * KIB;

	if (bytes > MAX_RING_BYTES)
		return cli_usage(verb, "--subbufs times --subbuf-size is more than %d MiB",
				 MAX_RING_BYTES >> 20);
	options->tracing.ring_bytes = (uint32_t)bytes;
	return 0;
}

static int parse_value(struct run_options *options, int option, const char *text)
{
	uint64_t number;
	bool second;
	int rc;

	switch (option) {
	case 'm':
		return parse_number("-m", text, VM_MIN_RAM_MIB, VM_MAX_RAM_MIB,
				    &options->vm.ram_mib);
	case 'c':
		rc = parse_number("-c", text, 1, VM_MAX_VCPUS, &number);
		if (!rc)
			options->vm.nr_vcpus = (unsigned int)number;
		return rc;
	case OPT_KASLR_SEED:
		options->vm.boot.has_kaslr_seed = true;
		return parse_number("--kaslr-seed", text, 0, UINT64_MAX,
				    &options->vm.boot.kaslr_seed);
	case OPT_BOOT:
		rc = cli_parse_choice(verb, "--boot", text, "direct", "bzimage", &second);
		options->vm.boot.mode = second ? BOOT_BZIMAGE : BOOT_DIRECT;
		return rc;
	case OPT_FORMAT:
		rc = cli_parse_choice(verb, "--format", text, trace_encoding_names[0],
				      trace_encoding_names[1], &second);
		options->encoding = second;
		return rc;
	default:
		return parse_tracing(options, option, text);
	}
}

static int apply_option(void *arg, int option, const char *value)
{
	struct run_options *options = arg;

	switch (option) {
	case 'k':
		options->vm.boot.kernel = value;
		return 0;
	case 'i':
		options->vm.boot.initrd = value;
		return 0;
	case 'o':
		options->output = value;
		return 0;
	case 'p':
		return set_cmdline(options, value, false);
	case OPT_APPEND:
		return set_cmdline(options, value, true);
	case OPT_TRACE:
		return trace_args_add(&options->traces, verb, value);
	case OPT_MONITOR:
		options->monitor = value;
		return 0;
	case OPT_CONSOLE:
		options->vm.console = value;
		return 0;
	case OPT_NO_CONSOLE:
		options->vm.no_console = true;
		options->vm.console_stdin = false;
		return 0;
	case OPT_FORCE:
		options->vm.force = true;
		return 0;
	default:
		return parse_value(options, option, value);
	}
}

static const struct cli_syntax syntax = {verb, help, "+:k:i:p:m:c:o:h", long_options, apply_option};

int run_options_parse(int argc, char **argv, struct run_options *options)
{
	int rc;

	*options = (struct run_options){
		.vm = {.ram_mib = DEFAULT_RAM_MIB, .nr_vcpus = 1, .console_stdin = true},
		.tracing = {.exitless = true},
		.subbufs = DEFAULT_SUBBUFS,
		.subbuf_kib = DEFAULT_SUBBUF_KIB,
	};
	strcpy(options->cmdline, default_cmdline);
	rc = cli_parse_options(&syntax, argc, argv, options);
	if (rc)
		return rc;
	options->vm.boot.cmdline = options->cmdline;
	if (optind < argc)
		return 1 + cli_usage(verb, "unexpected argument '%s'", argv[optind]);
	if (!options->vm.boot.kernel)
		return 1 + cli_usage(verb, "no kernel: give one with -k; see 'sonde run --help'");
	if (options->traces.n && !options->output)
		return 1 + cli_usage(verb, "--trace needs a directory for the trace: add -o DIR");
	rc = set_ring_size(options);
	return rc ? 1 + rc : 0;
}
