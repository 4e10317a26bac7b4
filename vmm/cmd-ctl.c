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
#include "vmm/ctl/ctl.h"
#include "vmm/ctl/connection.h"

enum { TIMEOUT_DEFAULT_S = 30, TIMEOUT_MAX_S = 24 * 3600 };

static const char help_text[] =
	"usage: sonde ctl [--json] [--timeout SECONDS] SOCKET [COMMAND...]\n"
	"\n"
	"Control a running sonde run --monitor SOCKET. Without a command: a prompt, or\n"
	"commands line by line from standard input.\n"
	"\n"
	"  status                     whether the guest runs\n"
	"  stop, cont                 pause the guest, let it go on\n"
	"  quit                       end the run\n"
	"  trace on [SPEC...]         begin tracing\n"
	"  trace off                  end tracing\n"
	"  trace status               counts, losses, patched sites\n"
	"  commands                   list the monitor's commands with their arguments\n"
	"  NAME [KEY=VALUE...]        any of these commands\n"
	"  help, exit                 at the prompt: this text, leave (the guest runs on)\n"
	"\n"
	"  --json                     print what the monitor returned, as JSON\n"
	"  --timeout SECONDS          how long to wait for each answer (default 30)\n";

struct ctl {
	struct qmp_connection *conn;
	bool json;
};

static void print_json(const json_t *result)
{
	json_dumpf(result, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY);
	putchar('\n');
}

/* Returns an enum cli_status; *fatal says whether the connection is lost. */
static int run_words(const struct ctl *ctl, char *const *words, size_t n, bool *fatal)
{
	struct qmp_command command;
	struct error err = {0};
	json_t *result;
	int ret;

	if (qmp_command_parse(words, n, &command, &err))
		return cli_usage("ctl", "%s", err.text);
	ret = qmp_execute(ctl->conn, command.verb, command.args, &result, &err);
	*fatal = ret && ret != -EREMOTEIO;
	if (ret)
		return cli_error("ctl", &err);
	if (ctl->json)
		print_json(result);
	else
		qmp_show(stdout, command.verb, result);
	json_decref(result);
	if (fflush(stdout)) {
		error_set(&err, errno, "cannot write the answer: %s", strerror(errno));
		return cli_error("ctl", &err);
	}
	return CLI_OK;
}

static int run_line(const struct ctl *ctl, char *line, bool *leave)
{
	char *words[QMP_COMMAND_MAX_WORDS];
	struct error err = {0};
	int n = qmp_command_split(line, words, &err);
	int status;

	if (n < 0)
		return cli_usage("ctl", "%s", err.text);
	if (!n || words[0][0] == '#')
		return CLI_OK;
	if (n == 1 && !strcmp(words[0], "exit")) {
		*leave = true;
		return CLI_OK;
	}
	if (n == 1 && !strcmp(words[0], "help")) {
		fputs(help_text, stdout);
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
		return cli_error("ctl", &err);
	status = n ? run_words(&ctl, words, n, &fatal) : run_input(&ctl);
	qmp_disconnect(ctl.conn);
	return status;
}

struct options {
	bool json;
	uint64_t timeout_s;
};

static const struct option long_options[] = {
	{"help", no_argument, NULL, 'h'},
	{"json", no_argument, NULL, 'j'},
	{"timeout", required_argument, NULL, 't'},
	{NULL, 0, NULL, 0},
};

static int apply_option(void *arg, int option, const char *value)
{
	struct options *options = arg;

	if (option == 'j')
		options->json = true;
	else if (cli_parse_u64(value, 1, TIMEOUT_MAX_S, &options->timeout_s))
		return cli_usage("ctl", "--timeout takes 1 to %d seconds, not '%s'", TIMEOUT_MAX_S,
				 value);
	return CLI_OK;
}

static const struct cli_syntax syntax = {"ctl", help_text, ":h", long_options, apply_option};

int cmd_ctl(int argc, char **argv)
{
	struct options options = {.timeout_s = TIMEOUT_DEFAULT_S};
	int ret = cli_parse_options(&syntax, argc, argv, &options);

	if (ret)
		return ret - 1;
	if (optind == argc)
		return cli_usage("ctl", "which SOCKET? usage: sonde ctl SOCKET [COMMAND...]");
	return run(argv[optind], (unsigned int)options.timeout_s * 1000, options.json,
		   argv + optind + 1, (size_t)(argc - optind - 1));
}
