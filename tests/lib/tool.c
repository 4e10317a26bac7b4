/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/tool.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

static char *read_all(FILE *in)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	char buffer[4096];
	size_t n;

	if (!out)
		abort();
	while ((n = fread(buffer, 1, sizeof(buffer), in)) > 0)
		fwrite(buffer, 1, n, out);
	if (fclose(out))
		abort();
	return text;
}

int tool_run(char **output, const char *fmt, ...)
{
	char command[1024], *text;
	FILE *pipe;
	int status;
	va_list ap;

	va_start(ap, fmt);
	if (vsnprintf(command, sizeof(command), fmt, ap) >= (int)sizeof(command))
		abort();
	va_end(ap);
	pipe = popen(command, "r");
	if (!pipe)
		abort();
	text = read_all(pipe);
	status = pclose(pipe);
	if (output)
		*output = text;
	else
		free(text);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

void tool_write(const char *folder, const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	if (!file || fputs(text, file) < 0 || fclose(file))
		abort();
}

bool tool_exists(const char *name)
{
	return !tool_run(NULL, "command -v '%s'", name);
}
