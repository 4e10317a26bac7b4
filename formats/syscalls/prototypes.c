/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/syscalls/prototypes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PROTOTYPES = 4096 };

struct syscall_prototypes {
	struct syscall_prototype *v; /* by name */
	size_t n;
};

/* Arguments of a system call that is not declared. */
static const struct syscall_prototype unknown = {.args = {{"arg0", SYSCALL_SHOW_HEX},
							  {"arg1", SYSCALL_SHOW_HEX},
							  {"arg2", SYSCALL_SHOW_HEX},
							  {"arg3", SYSCALL_SHOW_HEX},
							  {"arg4", SYSCALL_SHOW_HEX},
							  {"arg5", SYSCALL_SHOW_HEX}},
						 .nr_args = SYSCALL_ARGS};

/* --- parsing --------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), k = strlen(end);

	return n >= k && !strcmp(text + n - k, end);
}

/* Types as the kernel's declarations of system calls have them. */
static enum syscall_show show_of(const char *type, const char *name)
{
	static const struct {
		const char *type;
		enum syscall_show show;
	} known[] = {
		{"int", SYSCALL_SHOW_INT_32},
		{"pid_t", SYSCALL_SHOW_INT_32},
		{"clockid_t", SYSCALL_SHOW_INT_32},
		{"key_t", SYSCALL_SHOW_INT_32},
		{"timer_t", SYSCALL_SHOW_INT_32},
		{"mqd_t", SYSCALL_SHOW_INT_32},
		{"__s32", SYSCALL_SHOW_INT_32},
		{"s32", SYSCALL_SHOW_INT_32},
		{"key_serial_t", SYSCALL_SHOW_INT_32},
		{"rwf_t", SYSCALL_SHOW_HEX_32},
		{"long", SYSCALL_SHOW_INT},
		{"off_t", SYSCALL_SHOW_INT},
		{"loff_t", SYSCALL_SHOW_INT},
		{"unsigned int", SYSCALL_SHOW_UINT_32},
		{"unsigned", SYSCALL_SHOW_UINT_32},
		{"u32", SYSCALL_SHOW_UINT_32},
		{"uid_t", SYSCALL_SHOW_UINT_32},
		{"gid_t", SYSCALL_SHOW_UINT_32},
		{"qid_t", SYSCALL_SHOW_UINT_32},
		{"size_t", SYSCALL_SHOW_UINT},
		{"umode_t", SYSCALL_SHOW_OCTAL},
	};
	enum syscall_show show = SYSCALL_SHOW_HEX;

	if (!strncmp(type, "const ", strlen("const ")))
		type += strlen("const ");
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(type, known[i].type))
			show = known[i].show;
	if (ends_with(name, "flags") && show != SYSCALL_SHOW_HEX)
		show = SYSCALL_SHOW_HEX_32;
	return show;
}

/* "const char * filename": the type is in front of the last blank. */
static bool parse_argument(char *text, struct syscall_argument *out)
{
	char *blank = strrchr(text, ' ');

	if (!blank || blank == text || !blank[1] || strlen(blank + 1) >= sizeof(out->name))
		return false;
	*blank = '\0';
	snprintf(out->name, sizeof(out->name), "%s", blank + 1);
	out->show = show_of(text, out->name);
	return true;
}

/* "openat(int dfd, ...)"; the line is changed. */
static bool parse_line(char *line, struct syscall_prototype *out)
{
	char *open = strchr(line, '('), *close = strrchr(line, ')'), *at;

	*out = (struct syscall_prototype){.nr_args = 0};
	if (!open || open == line || !close || close < open || close[1] ||
	    (size_t)(open - line) >= sizeof(out->name))
		return false;
	*open = *close = '\0';
	snprintf(out->name, sizeof(out->name), "%s", line);
	for (at = open + 1; at[0] || out->nr_args;) {
		char *end = strstr(at, ", ");

		if (end)
			*end = '\0';
		if (out->nr_args == SYSCALL_ARGS || !parse_argument(at, &out->args[out->nr_args++]))
			return false;
		if (!end)
			break;
		at = end + 2;
	}
	return true;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct syscall_prototype *)a)->name,
		      ((const struct syscall_prototype *)b)->name);
}

static size_t count_lines(const char *lines)
{
	size_t n = 1;

	for (; (lines = strchr(lines, '\n')); lines++)
		n++;
	return n < MAX_PROTOTYPES ? n : MAX_PROTOTYPES;
}

static int parse_lines(struct syscall_prototypes *prototypes, const char *lines)
{
	const size_t room = count_lines(lines);
	char *copy = strdup(lines), *rest = NULL;

	prototypes->v = calloc(room, sizeof(*prototypes->v));
	if (!copy || !prototypes->v) {
		free(copy);
		return -ENOMEM;
	}
	for (char *line = strtok_r(copy, "\n", &rest); line && prototypes->n < room;
	     line = strtok_r(NULL, "\n", &rest))
		prototypes->n += parse_line(line, &prototypes->v[prototypes->n]);
	qsort(prototypes->v, prototypes->n, sizeof(*prototypes->v), by_name);
	free(copy);
	return 0;
}

int syscall_prototypes_create(const char *lines, struct syscall_prototypes **out, struct error *err)
{
	struct syscall_prototypes *prototypes = calloc(1, sizeof(*prototypes));
	int ret = prototypes ? 0 : -ENOMEM;

	if (!ret && lines)
		ret = parse_lines(prototypes, lines);
	if (ret) {
		syscall_prototypes_destroy(prototypes);
		return error_set(err, ENOMEM, "out of memory");
	}
	*out = prototypes;
	return 0;
}

void syscall_prototypes_destroy(struct syscall_prototypes *prototypes)
{
	if (prototypes)
		free(prototypes->v);
	free(prototypes);
}

/* --- use ------------------------------------------------------------------------------------- */

static int is_named(const void *name, const void *prototype)
{
	return strcmp(name, ((const struct syscall_prototype *)prototype)->name);
}

const struct syscall_prototype *syscall_prototypes_find(const struct syscall_prototypes *prototypes,
							const char *name)
{
	const struct syscall_prototype *found = NULL;

	if (prototypes->n)
		found = bsearch(name, prototypes->v, prototypes->n, sizeof(*prototypes->v),
				is_named);
	return found ? found : &unknown;
}

void syscall_value_text(enum syscall_show show, uint64_t value, char out[SYSCALL_VALUE_SIZE])
{
	switch (show) {
	case SYSCALL_SHOW_HEX_32:
		snprintf(out, SYSCALL_VALUE_SIZE, "0x%" PRIx32, (uint32_t)value);
		return;
	case SYSCALL_SHOW_INT_32:
		snprintf(out, SYSCALL_VALUE_SIZE, "%" PRId32, (int32_t)value);
		return;
	case SYSCALL_SHOW_INT:
		snprintf(out, SYSCALL_VALUE_SIZE, "%" PRId64, (int64_t)value);
		return;
	case SYSCALL_SHOW_UINT_32:
		snprintf(out, SYSCALL_VALUE_SIZE, "%" PRIu32, (uint32_t)value);
		return;
	case SYSCALL_SHOW_UINT:
		snprintf(out, SYSCALL_VALUE_SIZE, "%" PRIu64, value);
		return;
	case SYSCALL_SHOW_OCTAL:
		snprintf(out, SYSCALL_VALUE_SIZE, (uint16_t)value ? "0%" PRIo16 : "%" PRIo16,
			 (uint16_t)value);
		return;
	case SYSCALL_SHOW_HEX:
		break;
	}
	snprintf(out, SYSCALL_VALUE_SIZE, "0x%" PRIx64, value);
}

const char *syscall_name_of(const char *function)
{
	const char *sys = strstr(function, "_sys_");

	return !strncmp(function, "__", 2) && sys ? sys + strlen("_sys_") : function;
}
