/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/functions/patterns.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "formats/base/fs.h"
#include "formats/base/glob.h"
#include "guest-symbols/symbols/symbols.h"

static const char scope[] = ":mod:";

static bool is_pattern_character(char c)
{
	return isalnum((unsigned char)c) || (c && strchr("_.$-*?[]!^\\", c));
}

/* Check the name or module `part`, which begins at text[from]. */
static int check_part(const char *text, size_t from, const char *part, struct error *err)
{
	const char *fault = glob_fault(part);
	size_t i = 0;

	while (is_pattern_character(part[i]))
		i++;
	if (part[i])
		return error_set_column(err, EINVAL, (unsigned int)(from + i) + 1,
					"a name has no '%c': '%s'",
					isprint((unsigned char)part[i]) ? part[i] : '?', text);
	if (!fault)
		return 0;
	return error_set_column(err, EINVAL, (unsigned int)(from + (size_t)(fault - part)) + 1,
				*fault == '[' ? "'[' has no ']': '%s'"
					      : "nothing follows the backslash: '%s'",
				text);
}

/* The kernel has _ in the name of module snd-hda. */
static void normalise_module(char *module)
{
	for (; *module && *module != '['; module++)
		if (*module == '-')
			*module = '_';
}

/* Split p->text into its parts, in place in p->name. */
static int split(struct function_pattern *p, struct error *err)
{
	size_t name_at = p->text[0] == '!', module_at;
	char *colon;
	int ret;

	p->negated = name_at;
	strcpy(p->name, p->text + name_at);
	if (*p->name == '!')
		return error_set_column(err, EINVAL, 2, "one '!' is enough");
	if (!strncmp(p->name, scope + 1, strlen(scope) - 1)) /* "mod:ext4", the colon forgotten */
		return error_set_column(err, EINVAL, (unsigned int)name_at + 1,
					"a module's functions are ':%s', not '%s'", p->name,
					p->name);
	colon = strchr(p->name, ':');
	if (colon && strncmp(colon, scope, strlen(scope)) != 0)
		return error_set_column(err, EINVAL,
					(unsigned int)(name_at + (size_t)(colon - p->name)) + 1,
					"only ':mod:MODULE' may follow a function's name");
	if (!colon && !*p->name)
		return error_set_column(err, EINVAL, (unsigned int)name_at + 1,
					"a function's name is missing");
	if (colon) {
		*colon = '\0';
		normalise_module(colon + strlen(scope));
		p->module = colon + strlen(scope);
		p->module_negated = *p->module == '!';
		p->module += p->module_negated;
		module_at = name_at + (size_t)(p->module - p->name);
		if (!*p->module)
			return error_set_column(err, EINVAL, (unsigned int)module_at + 1,
						"a module's name is missing");
		ret = check_part(p->text, module_at, p->module, err);
		if (ret)
			return ret;
	}
	ret = check_part(p->text, name_at, p->name, err);
	/* in a glob it may be no suffix: \.llvm. */
	if (glob_prefix(p->name) == strlen(p->name))
		symbol_clean_name(p->name);
	return ret;
}

static void pattern_deinit(struct function_pattern *p)
{
	free(p->text);
	free(p->name);
	free(p->where);
}

static int grow(struct function_patterns *patterns, struct error *err)
{
	size_t room = patterns->room ? 2 * patterns->room : 8;
	struct function_pattern *v;

	if (patterns->n < patterns->room)
		return 0;
	if (patterns->n == FUNCTION_PATTERNS_MAX)
		return error_set(err, E2BIG, "more than %d function patterns",
				 FUNCTION_PATTERNS_MAX);
	v = reallocarray(patterns->v, room, sizeof(*v));
	if (!v)
		return error_set(err, ENOMEM, "out of memory");
	patterns->v = v;
	patterns->room = room;
	return 0;
}

int function_patterns_add(struct function_patterns *patterns, const char *text, size_t length,
			  struct error *err)
{
	struct function_pattern p = {0};
	int ret = grow(patterns, err);

	if (ret)
		return ret;
	if (length > FUNCTION_PATTERN_MAX)
		return error_set_column(err, EINVAL, 1, "a function's name is longer than %d",
					FUNCTION_PATTERN_MAX);
	p.text = strndup(text, length);
	p.name = malloc(length + 2);
	ret = p.text && p.name ? split(&p, err) : error_set(err, ENOMEM, "out of memory");
	if (ret) {
		pattern_deinit(&p);
		return ret;
	}
	if (!*p.name)
		p.name = strcpy(p.name, "*");
	patterns->v[patterns->n++] = p;
	return 0;
}

void function_patterns_deinit(struct function_patterns *patterns)
{
	for (size_t i = 0; i < patterns->n; i++)
		pattern_deinit(&patterns->v[i]);
	free(patterns->v);
	*patterns = (struct function_patterns){0};
}

/* --- files ----------------------------------------------------------------------------------- */

/* "NAME [MODULE]" becomes "NAME:mod:MODULE". */
static void rewrite_listed(char *line)
{
	char *blank = strpbrk(line, " \t"), module[FUNCTION_PATTERN_MAX + 1];
	size_t skip = blank ? strspn(blank, " \t") : 0, length = strlen(line);

	if (!blank || blank[skip] != '[' || line[length - 1] != ']' ||
	    length >= FUNCTION_PATTERN_MAX)
		return;
	line[length - 1] = '\0';
	strcpy(module, blank + skip + 1);
	sprintf(blank, "%s%s", scope, module);
}

/* `line` has room for what rewrite_listed() adds. */
static int add_line(struct function_patterns *patterns, char *line, struct error *err)
{
	size_t length;

	line[strcspn(line, "#")] = '\0';
	line += strspn(line, " \t\r");
	for (length = strlen(line); length && isspace((unsigned char)line[length - 1]);)
		line[--length] = '\0';
	if (!length)
		return 0;
	rewrite_listed(line);
	return function_patterns_add(patterns, line, strlen(line), err);
}

/* "FILE:LINE" of what a line has added. */
static int name_place(struct function_patterns *patterns, size_t from, const char *name,
		      size_t line, struct error *err)
{
	for (size_t i = from; i < patterns->n; i++) {
		if (asprintf(&patterns->v[i].where, "%s:%zu", name, line) < 0) {
			patterns->v[i].where = NULL;
			return error_set(err, ENOMEM, "out of memory");
		}
	}
	return 0;
}

int function_patterns_add_lines(struct function_patterns *patterns, const char *name,
				const char *text, size_t size, struct error *err)
{
	const char *end = text + size;
	int ret = 0;

	for (size_t line = 1; !ret && text < end; line++) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t length = (size_t)((newline ? newline : end) - text), from = patterns->n;
		char copy[2 * FUNCTION_PATTERN_MAX];

		if (length > FUNCTION_PATTERN_MAX)
			ret = error_set(err, EINVAL, "the line is longer than %d characters",
					FUNCTION_PATTERN_MAX);
		else if (memchr(text, '\0', length))
			ret = error_set(err, EINVAL, "the line has a NUL character");
		else {
			memcpy(copy, text, length);
			copy[length] = '\0';
			ret = add_line(patterns, copy, err);
		}
		if (ret) {
			error_prefix(err, "%s:%zu: ", name, line);
			if (err)
				err->column = 0;
			return ret;
		}
		ret = name_place(patterns, from, name, line, err);
		text = newline ? newline + 1 : end;
	}
	return ret;
}

/* A list that has come out empty does not mean all functions, as no list does. */
static int check_added(const struct function_patterns *patterns, size_t before, const char *path,
		       struct error *err)
{
	return patterns->n > before ? 0 : error_set(err, EINVAL, "%s lists no functions", path);
}

static int add_opened(struct function_patterns *patterns, const char *path, int fd,
		      struct error *err)
{
	const size_t before = patterns->n;
	struct stat st;
	char *text;
	int ret;

	if (fstat(fd, &st))
		return error_set(err, errno, "cannot stat %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return error_set(err, EINVAL, "%s is not a file", path);
	if (st.st_size > FUNCTION_FILE_MAX)
		return error_set(err, E2BIG, "%s is too large for a list of functions", path);
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return error_set(err, ENOMEM, "out of memory");
	ret = file_read(fd, text, (size_t)st.st_size, err);
	if (ret)
		error_prefix(err, "%s: ", path);
	else
		ret = function_patterns_add_lines(patterns, path, text, (size_t)st.st_size, err);
	free(text);
	return ret ? ret : check_added(patterns, before, path, err);
}

int function_patterns_add_file(struct function_patterns *patterns, const char *path,
			       struct error *err)
{
	/* A FIFO must not hold the tracer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), ret;

	if (fd < 0)
		return error_set(err, errno, "cannot open %s: %s", path, strerror(errno));
	ret = add_opened(patterns, path, fd, err);
	close(fd);
	return ret;
}
