/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/run/options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include "formats/base/fs.h"
#include "formats/cli/cli.h"

enum { MIB = 1 << 20, DEFAULT_RAM_MIB = 512 };

static const char verb_name[] = "run";

/* The serial console, and a panic that ends the run instead of hanging. */
static const char default_cmdline[] = "console=ttyS0 panic=-1";

static int append_cmdline(const char *verb, char *cmdline, const char *text)
{
	size_t used = strlen(cmdline), room = RUN_CMDLINE_SIZE - used;
	int n = snprintf(cmdline + used, room, "%s%s", used ? " " : "", text);

	if (n < 0 || (size_t)n >= room)
		return cli_usage(verb, "the kernel command line is longer than %d bytes",
				 RUN_CMDLINE_SIZE - 1);
	return 0;
}

static int store_cmdline(const char *verb, const struct cli_option *option, const char *text,
			 void *field)
{
	char *cmdline = field;

	(void)option;
	*cmdline = '\0';
	return append_cmdline(verb, cmdline, text);
}

static int store_append(const char *verb, const struct cli_option *option, const char *text,
			void *field)
{
	(void)option;
	return append_cmdline(verb, field, text);
}

static int store_seed(const char *verb, const struct cli_option *option, const char *text,
		      void *field)
{
	struct boot_config *boot = field;

	boot->has_kaslr_seed = true;
	return cli_store_number(verb, option, text, &boot->kaslr_seed);
}

static const char *const boot_words[] = {
	[BOOT_DIRECT] = "direct", [BOOT_BZIMAGE] = "bzimage", NULL};

#define FIELD(name) .offset = offsetof(struct run_options, name)

static const struct cli_option machine_options[] = {
	{.name = "kernel",
	 .letter = 'k',
	 .value = "FILE",
	 .help = "bzImage or ELF vmlinux",
	 .store = cli_store_text,
	 FIELD(vm.boot.kernel)},
	{.name = "initrd",
	 .letter = 'i',
	 .value = "FILE",
	 .help = "initial RAM disk",
	 .store = cli_store_text,
	 FIELD(vm.boot.initrd)},
	{.name = "cmdline",
	 .letter = 'p',
	 .value = "TEXT",
	 .help = "kernel command line (console=ttyS0 panic=-1)",
	 .store = store_cmdline,
	 FIELD(cmdline)},
	{.name = "append",
	 .value = "TEXT",
	 .help = "add to the command line",
	 .store = store_append,
	 FIELD(cmdline)},
	{.name = "memory",
	 .letter = 'm',
	 .value = "SIZE",
	 .help = "RAM: 512M, 4G, or a number of MiB (512)",
	 .store = cli_store_size,
	 FIELD(ram_bytes),
	 .min = (uint64_t)VM_MIN_RAM_MIB * MIB,
	 .max = (uint64_t)VM_MAX_RAM_MIB * MIB,
	 .unit = MIB},
	{.name = "cpus",
	 .letter = 'c',
	 .value = "N",
	 .help = "vCPUs, 1 to 64 (1)",
	 .store = cli_store_number,
	 FIELD(nr_vcpus),
	 .min = 1,
	 .max = VM_MAX_VCPUS},
	{.name = "boot",
	 .value = "HOW",
	 .help = "direct (default), or bzimage: the guest decompresses it",
	 .store = cli_store_choice,
	 FIELD(vm.boot.mode),
	 .words = boot_words},
	{.name = "kaslr-seed",
	 .value = "N",
	 .help = "place the kernel always the same way",
	 .store = store_seed,
	 FIELD(vm.boot)},
	{.name = "console",
	 .value = "FILE",
	 .help = "the guest's serial output goes to FILE; -: standard output",
	 .store = cli_store_text,
	 FIELD(vm.console)},
	{.name = "no-console",
	 .help = "no serial input and output",
	 .store = cli_store_flag,
	 FIELD(vm.no_console)},
	{.name = "force",
	 .help = "go on even if KVM is not backed by hardware",
	 .store = cli_store_flag,
	 FIELD(vm.force)},
	{0},
};

static const struct cli_table tables[] = {
	{machine_options, 0},
	{recorder_option_table, offsetof(struct run_options, recorder)},
	{NULL, 0},
};

static const struct cli_verb verb = {
	.name = verb_name,
	.usage = "usage: sonde run -k KERNEL [-i INITRD] [options]\n"
		 "Boot a Linux kernel in a virtual machine on KVM and trace it from outside.\n",
	.tables = tables,
	.notes = "On a terminal: Ctrl-a x quits, Ctrl-a h shows the keys.\n"
		 "Exit status: 0 power-off, quit or limit reached, 3 reboot, 4 triple fault,\n"
		 "5 guest panic, 1 failure, 2 usage, 128+N signal N.\n",
};

/* Options that mean nothing without a trace. 0, or a usage error's status. */
static int check_traced(const struct recorder_options *o)
{
	const struct {
		const char *name;
		bool given;
	} options[] = {
		{"--trace", o->nr_specs},     {"--until-events", o->until_events},
		{"--max-size", o->max_bytes}, {"--flight-recorder", o->keep_bytes},
		{"--metrics", o->metrics},    {"--live-metrics", o->live_bytes},
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]) && !o->output; i++)
		if (options[i].given)
			return cli_usage(verb_name,
					 "%s needs a directory for the trace: add -o DIR",
					 options[i].name);
	if (o->output && !o->nr_specs && !o->monitor)
		return cli_usage(verb_name, "-o: nothing would be traced: add --trace kmem, or "
					    "--monitor SOCKET to begin later");
	return 0;
}

static int check_stdout(const struct run_options *o)
{
	const bool has_console =
		!o->vm.no_console && (!o->vm.console || path_is_stdout(o->vm.console));

	if (!o->recorder.metrics || !path_is_stdout(o->recorder.metrics) || !has_console)
		return 0;
	return cli_usage(verb_name, "--metrics -: standard output is the guest's console: add "
				    "--console FILE or --no-console");
}

static int check(const struct run_options *options)
{
	int ret;

	if (!options->vm.boot.kernel)
		return cli_usage(verb_name, "no kernel: give one with -k; see 'sonde run --help'");
	if (options->ram_bytes % MIB)
		return cli_usage(verb_name, "-m takes whole MiB");
	ret = recorder_options_check(&options->recorder, verb_name);
	if (!ret)
		ret = check_traced(&options->recorder);
	return ret ? ret : check_stdout(options);
}

int run_options_parse(int argc, char **argv, struct run_options *options)
{
	int ret;

	*options = (struct run_options){
		.ram_bytes = (uint64_t)DEFAULT_RAM_MIB * MIB,
		.nr_vcpus = 1,
	};
	recorder_options_init(&options->recorder);
	strcpy(options->cmdline, default_cmdline);
	ret = cli_parse(&verb, argc, argv, options);
	if (ret)
		return ret;
	if (optind < argc)
		return 1 + cli_usage(verb_name, "unexpected argument '%s'", argv[optind]);
	ret = check(options);
	if (ret)
		return 1 + ret;
	options->vm.boot.cmdline = options->cmdline;
	options->vm.ram_mib = options->ram_bytes / MIB;
	options->vm.nr_vcpus = (unsigned int)options->nr_vcpus;
	options->vm.console_stdin = !options->vm.no_console;
	return 0;
}
