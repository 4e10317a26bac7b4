/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/fs.h"
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
	{"ctl", cmd_ctl, "control a running sonde run or attach"},
	{"profile", cmd_profile, "how often functions were called, and how long they took"},
	{"hist", cmd_hist, "histograms of events, summed up in the guest"},
	{"top", cmd_top, "what a traced guest does, live"},
	{"events", cmd_events, "the events of a trace, as text"},
	{"report", cmd_report, "where the memory of a traced guest is"},
	{"leaks", cmd_leaks, "what stays live, and whether it looks like a leak"},
	{"timeline", cmd_timeline, "live memory over time, and what made its peak"},
	{"diff", cmd_diff, "what changed between two traces, or parts of one"},
	{"replay", cmd_replay, "what another slab allocator would have held"},
	{"check", cmd_check, "verify a trace"},
	{"convert", cmd_convert, "write a trace in another format"},
	{"symbols", cmd_symbols, "what a kernel image says about itself"},
	{"probes", cmd_probes, "what dynamic probes can record of a kernel's functions"},
	{"doctor", cmd_doctor, "whether this machine can run guests"},
};
enum { NR_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void print_help(FILE *to)
{
	fprintf(to, "usage: sonde COMMAND [ARGUMENT...]\n"
		    "A tracer for Linux guests that needs nothing inside the guest.\n\n");
	for (size_t i = 0; i < NR_COMMANDS; i++)
		fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].help);
	fprintf(to, "\n'sonde help COMMAND' lists its options; 'man sonde-COMMAND' says more.\n");
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

static const struct command *find_command(const char *word)
{
	for (size_t i = 0; i < NR_COMMANDS; i++) {
		if (!strcmp(word, commands[i].name))
			return &commands[i];
	}
	return NULL;
}

/* The list of commands, or the --help of one of them. */
static int help(const char *word)
{
	const struct command *command = word ? find_command(word) : NULL;
	char *argv[] = {(char *)word, "--help", NULL};

	if (command)
		return command->run(2, argv);
	if (word)
		return unknown_command(word);
	print_help(stdout);
	return CLI_OK;
}

/*
 * The next file that is opened would take the place of a closed standard descriptor, and get what
 * is printed. What takes it here fails as a closed one does: input cannot be read, output not
 * written.
 */
static bool fill_standard_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		const int mode = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;

		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", mode) != fd)
			return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : NULL;
	const struct command *command;

	if (!fill_standard_descriptors())
		return CLI_FAILED;
	files_allow_all();
	files_survive_limit();
	trace_reader_set_kernel_source(kernel_functions);
	trace_reader_set_lines_source(kernel_lines);
	if (!word) {
		print_help(stderr);
		return CLI_USAGE;
	}
	if (!strcmp(word, "--help") || !strcmp(word, "-h"))
		return help(NULL);
	if (!strcmp(word, "help"))
		return help(argv[2]);
	if (!strcmp(word, "--version") || !strcmp(word, "-V")) {
		puts("sonde " SONDE_VERSION);
		return CLI_OK;
	}
	command = find_command(word);
	return command ? command->run(argc - 1, argv + 1) : unknown_command(word);
}
