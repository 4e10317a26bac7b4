/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/capture.h"

#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void redirect(struct capture *capture, int target, const char *content)
{
	char name[] = "/tmp/sonde-capture-XXXXXX";
	int fd = mkstemp(name);

	unlink(name);
	if (fd < 0 || write(fd, content, strlen(content)) < 0)
		abort();
	lseek(fd, 0, SEEK_SET);
	capture->saved[target] = dup(target);
	capture->fds[target] = fd;
	dup2(fd, target);
}

static void restore(struct capture *capture, int target, char *text)
{
	ssize_t n = text ? pread(capture->fds[target], text, CAPTURE_SIZE - 1, 0) : 0;

	if (text)
		text[n > 0 ? n : 0] = '\0';
	dup2(capture->saved[target], target);
	close(capture->saved[target]);
	close(capture->fds[target]);
}

void capture_begin(struct capture *capture, const char *input)
{
	fflush(stdout);
	__fpurge(stdin);
	clearerr(stdin);
	redirect(capture, STDIN_FILENO, input);
	redirect(capture, STDOUT_FILENO, "");
	redirect(capture, STDERR_FILENO, "");
}

void capture_end(struct capture *capture)
{
	fflush(stdout);
	fflush(stderr);
	restore(capture, STDERR_FILENO, capture->err);
	restore(capture, STDOUT_FILENO, capture->out);
	restore(capture, STDIN_FILENO, NULL);
}

void capture_split(struct capture_words *words, const char *verb, const char *text)
{
	char *rest;

	words->argv[0] = (char *)verb;
	words->argc = 1;
	snprintf(words->text, sizeof(words->text), "%s", text);
	for (char *word = strtok_r(words->text, " ", &rest);
	     word && words->argc < CAPTURE_MAX_WORDS; word = strtok_r(NULL, " ", &rest))
		words->argv[words->argc++] = word;
	words->argv[words->argc] = NULL;
}
