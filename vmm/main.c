// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/cli/cli.h"
#include "formats/cmd.h"
#include "guest-symbols/cmd.h"
#include "vmm/cmd.h"

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} commands[] = {
	{"run", cmd_run, "boot a kernel on KVM and trace it"},
	{"attach", cmd_attach, "trace a running libvirt domain"},
	{"recover", cmd_recover, "undo what a killed attach has left in a domain"},
	{"ctl", cmd_ctl, "talk to a running sonde run"},
	{"events", cmd_events, "the events of a trace, as text"},
	{"report", cmd_report, "who allocated what, from a trace"},
	{"check", cmd_check, "verify a trace"},
	{"convert", cmd_convert, "write a trace in another format"},
	{"symbols", cmd_symbols, "what a kernel image tells about itself"},
	{"doctor", cmd_doctor, "whether this machine can run guests"},
};
enum { NR_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void print_help(FILE *to)
{
	fprintf(to, "usage: sonde COMMAND [ARGUMENT...]\n"
		    "A tracer for Linux guests that needs nothing inside the guest.\n\n");
	for (size_t i = 0; i < NR_COMMANDS; i++)
		fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].help);
	fprintf(to, "\n'sonde COMMAND --help' says more, and so does 'man sonde-COMMAND'.\n");
}

static int unknown_command(const char *word)
{
	const char *names[NR_COMMANDS + 1] = {NULL};
	const char *near;

	for (size_t i = 0; i < NR_COMMANDS; i++)
		names[i] = commands[i].name;
	near = text_nearest(word, names);
	if (near)
		fprintf(stderr, "sonde: unknown command '%s': did you mean '%s'?\n", word, near);
	else
		fprintf(stderr, "sonde: unknown command '%s'; see 'sonde --help'\n", word);
	return CLI_USAGE;
}

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : NULL;

	if (!word) {
		print_help(stderr);
		return CLI_USAGE;
	}
	if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")) {
		print_help(stdout);
		return CLI_OK;
	}
	if (!strcmp(word, "--version")) {
		puts("sonde " SONDE_VERSION);
		return CLI_OK;
	}
	for (size_t i = 0; i < NR_COMMANDS; i++) {
		if (!strcmp(word, commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	}
	return unknown_command(word);
}
