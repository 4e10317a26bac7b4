/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/cmd.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/cli/cli.h"
#include "formats/cli/options.h"
#include "vmm/ctl/ctl.h"
#include "vmm/ctl/connection.h"
#include "vmm/monitor/metrics.h"

static const char verb_name[] = "ctl";

struct ctl {
	struct qmp_connection *conn;
	bool json;
};

static void print_json(const json_t *result)
{
	json_dumpf(result, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY);
	putchar('\n');
}

/* What `trace on` and `trace off` have done, as far as the monitor still answers. */
static void show_switch(const struct ctl *ctl)
{
	json_t *trace;

	if (qmp_execute(ctl->conn, "query-trace", NULL, &trace, NULL))
		return;
	qmp_show_switch(stdout, trace);
	json_decref(trace);
}

/* What there is after `trace add`, `remove` and `set`, and what that took. */
static void show_change(const struct ctl *ctl, const json_t *result)
{
	json_t *instances;

	if (qmp_execute(ctl->conn, "query-instances", NULL, &instances, NULL))
		return;
	qmp_show(stdout, "query-instances", instances);
	qmp_show_change(stdout, result);
	json_decref(instances);
}

static bool is_change(const char *verb)
{
	return !strcmp(verb, "trace-add") || !strcmp(verb, "trace-remove") ||
	       !strcmp(verb, "trace-set");
}

static void show(const struct ctl *ctl, const struct qmp_command *command, const json_t *result)
{
	if (ctl->json)
		print_json(result);
	else if (!strcmp(command->verb, "trace-start") || !strcmp(command->verb, "trace-stop"))
		show_switch(ctl);
	else if (is_change(command->verb))
		show_change(ctl, result);
	else
		qmp_show(stdout, command->verb, result);
}

/* Returns an enum cli_status. */
static int flush(void)
{
	struct error err;

	if (!fflush(stdout))
		return CLI_OK;
	error_set(&err, errno, "cannot write the answer: %s", strerror(errno));
	return cli_error(verb_name, &err);
}

/* A scraper's view of the trace. */
static int run_metrics(const struct ctl *ctl, bool *fatal)
{
	struct error err = {0};
	json_t *trace;
	int ret = qmp_execute(ctl->conn, "query-trace", NULL, &trace, &err);

	*fatal = ret && ret != -EREMOTEIO;
	if (ret)
		return cli_error(verb_name, &err);
	metrics_print(stdout, trace);
	json_decref(trace);
	return flush();
}

/* Returns an enum cli_status; *fatal says whether the connection is lost. */
static int run_command(const struct ctl *ctl, const struct qmp_command *command, bool *fatal)
{
	struct error err = {0};
	json_t *result;
	int ret = qmp_execute(ctl->conn, command->verb, command->args, &result, &err);

	*fatal = ret && ret != -EREMOTEIO;
	if (ret)
		return cli_error(verb_name, &err);
	show(ctl, command, result);
	json_decref(result);
	return flush();
}

/* The commands of this monitor: those of a domain are fewer than those of a machine. */
static int run_help(const struct ctl *ctl, bool *fatal)
{
	struct error err = {0};
	json_t *commands;
	int ret = qmp_execute(ctl->conn, "query-commands", NULL, &commands, &err);

	*fatal = ret && ret != -EREMOTEIO;
	if (ret)
		return cli_error(verb_name, &err);
	qmp_show_help(stdout, commands);
	json_decref(commands);
	return flush();
}

static int run_words(const struct ctl *ctl, char *const *words, size_t n, bool *fatal)
{
	struct qmp_command command;
	struct error err = {0};

	if (n == 1 && !strcmp(words[0], "help"))
		return run_help(ctl, fatal);
	if (n == 1 && !strcmp(words[0], "metrics"))
		return run_metrics(ctl, fatal);
	if (qmp_command_parse(words, n, &command, &err))
		return cli_usage(verb_name, "%s", err.text);
	return run_command(ctl, &command, fatal);
}

static int run_line(const struct ctl *ctl, char *line, bool *leave)
{
	char *words[QMP_COMMAND_MAX_WORDS];
	struct error err = {0};
	int n = qmp_command_split(line, words, &err);
	int status;

	if (n < 0)
		return cli_usage(verb_name, "%s", err.text);
	if (!n || words[0][0] == '#')
		return CLI_OK;
	if (n == 1 && !strcmp(words[0], "exit")) {
		*leave = true;
		return CLI_OK;
	}
	status = run_words(ctl, words, (size_t)n, leave);
	if (status == CLI_OK && !strcmp(words[0], "quit"))
		*leave = true;
	return status;
}

static int run_input(const struct ctl *ctl)
{
	bool interactive = isatty(STDIN_FILENO);
	bool leave = false;
	char *line = NULL;
	size_t room = 0;
	int status = CLI_OK;

	while (!leave) {
		if (interactive) {
			fputs("sonde> ", stdout);
			fflush(stdout);
		}
		if (getline(&line, &room, stdin) < 0)
			break;
		status = run_line(ctl, line, &leave);
		if (status != CLI_OK && !interactive)
			break;
	}
	if (interactive && !leave)
		putchar('\n');
	free(line);
	/* A person has seen what failed; what counts is how the session ended. */
	if (interactive && !leave)
		return CLI_OK;
	return status == CLI_OK ? CLI_OK : CLI_FAILED;
}

static int run(const char *path, unsigned int timeout_ms, bool json, char *const *words, size_t n)
{
	struct ctl ctl = {.json = json};
	struct error err = {0};
	bool fatal = false;
	int status;

	if (qmp_connect(path, timeout_ms, &ctl.conn, &err))
		return cli_error(verb_name, &err);
	status = n ? run_words(&ctl, words, n, &fatal) : run_input(&ctl);
	qmp_disconnect(ctl.conn);
	return status;
}

struct options {
	bool json;
	uint64_t timeout_ms;
};

enum { TIMEOUT_DEFAULT_MS = 30 * 1000, TIMEOUT_MAX_MS = 24 * 3600 * 1000 };

static const struct cli_option options_table[] = {
	{.name = "json",
	 .help = "print the monitor's answer as JSON",
	 .store = cli_store_flag,
	 .offset = offsetof(struct options, json)},
	{.name = "timeout",
	 .value = "TIME",
	 .help = "how long to wait for each answer (30s)",
	 .store = cli_store_time,
	 .offset = offsetof(struct options, timeout_ms),
	 .min = 1,
	 .max = TIMEOUT_MAX_MS},
	{0},
};

static const struct cli_table tables[] = {{options_table, 0}, {NULL, 0}};

static const struct cli_verb verb = {
	.name = verb_name,
	.usage = "usage: sonde ctl [options] SOCKET [COMMAND...]\n"
		 "Control a 'sonde run' or 'sonde attach' that was started with --monitor SOCKET.\n"
		 "Without a command: a prompt, or commands line by line from standard input.\n"
		 "\n"
		 "  help                   list the commands of this monitor\n"
		 "  status                 whether the guest runs\n"
		 "  stop, cont             pause the guest, let it go on (run only; a domain is\n"
		 "                         libvirt's: virsh suspend, virsh resume)\n"
		 "  trace on [SPEC...]     begin tracing\n"
		 "  trace off              end tracing\n"
		 "  trace status           counts, losses, patched sites\n"
		 "  metrics                those counts for Prometheus\n"
		 "  trace list             the tracers at work, and what they trace\n"
		 "  trace add [NAME=]SPEC  trace this, too\n"
		 "  trace set NAME=SPEC    let this tracer trace something else\n"
		 "  trace remove NAME      end this tracer only\n"
		 "  snapshot               write what a flight recorder keeps\n"
		 "  profile [NAME]         what profile tracers have counted\n"
		 "  profile clear [NAME]   let them count from 0 again\n"
		 "  hist [NAME]            histograms of events\n"
		 "  hist clear [NAME]      let them begin from 0 again\n"
		 "  quit                   complete the trace, and end the run or detach\n"
		 "  commands               list the monitor's commands with their arguments\n"
		 "  NAME [KEY=VALUE...]    any of these commands\n"
		 "  exit                   at the prompt: leave; the guest runs on\n",
	.tables = tables,
};

int cmd_ctl(int argc, char **argv)
{
	struct options options = {.timeout_ms = TIMEOUT_DEFAULT_MS};
	int ret = cli_parse(&verb, argc, argv, &options);

	if (ret)
		return ret - 1;
	if (optind == argc)
		return cli_usage(verb_name, "which SOCKET? usage: sonde ctl SOCKET [COMMAND...]");
	return run(argv[optind], (unsigned int)options.timeout_ms, options.json, argv + optind + 1,
		   (size_t)(argc - optind - 1));
}
