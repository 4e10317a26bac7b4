/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/addr2line.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/lib/tap.h"
#include "tests/lib/tool.h"

enum { TEXT = 4096, SHOWN = 10 };

/* "function file:line" for each frame, the innermost first, as addr2line -i has them. */
static void text_of(struct dwarf_lines *lines, uint64_t address, char out[TEXT], size_t *known)
{
	struct source_frame frames[SOURCE_MAX_FRAMES];
	size_t n = dwarf_lines_find(lines, address, frames), used = 0;

	*known += n > 0;
	out[0] = '\0';
	while (n-- > 0)
		used += (size_t)snprintf(out + used, TEXT - used, "%s %s:%u\n", frames[n].function,
					 frames[n].file, frames[n].line);
}

/* A line of addr2line: without the folder, and what follows the number. */
static void add_place(char *out, const char *place, const char *folder)
{
	const size_t n = strlen(folder);

	if (!strncmp(place, folder, n) && place[n] == '/')
		place += n + 1;
	if (!strncmp(place, "./", 2))
		place += 2;
	strncat(out, place, strcspn(place, " \n"));
	strcat(out, "\n");
}

/* What addr2line prints up to the next address: function and place in turn. Returns its end. */
static const char *theirs_of(const char *at, const char *folder, char out[TEXT])
{
	bool is_place = false;

	out[0] = '\0';
	for (at = strchr(at, '\n') + 1; *at && strncmp(at, "0x", 2) != 0;) {
		const char *end = strchr(at, '\n');

		if (strlen(out) + (size_t)(end - at) + 4 < TEXT && is_place)
			add_place(out, at, folder);
		else if (strlen(out) + (size_t)(end - at) + 4 < TEXT)
			strncat(strncat(out, at, (size_t)(end - at)), " ", 2);
		is_place = !is_place;
		at = end + 1;
	}
	return at;
}

/* Of a function that a macro in a header makes, it names the unit's file instead of the header. */
static bool is_same_in_header(const char *ours, const char *theirs)
{
	const char *number = strchr(ours, ':'), *their_number = strchr(theirs, ':');
	const size_t name = strcspn(ours, " ");

	return number && their_number && !strncmp(number - 2, ".h:", 3) &&
	       !strcmp(number, their_number) && !strncmp(ours, theirs, name + 1);
}

/* It names symbols, too, where there is no function, as between two of them; and says "??" of the
 * rest. */
static bool is_same(const char *ours, const char *theirs)
{
	const char *their_place = strchr(theirs, ' ');

	if (!strcmp(ours, theirs) || is_same_in_header(ours, theirs))
		return true;
	if (*ours == ' ' && their_place)
		return !strcmp(ours, their_place);
	return !*ours && (strstr(theirs, "??:") || strstr(theirs, ":?"));
}

static int compare_all(const char *at, const char *folder, struct dwarf_lines *lines, uint64_t bias,
		       const uint64_t *addresses, size_t n, size_t *known)
{
	char ours[TEXT], theirs[TEXT];
	int different = 0;

	for (size_t i = 0; i < n && *at; i++) {
		at = theirs_of(at, folder, theirs);
		text_of(lines, addresses[i] + bias, ours, known);
		if (is_same(ours, theirs))
			continue;
		if (different++ < SHOWN)
			tap_diag("0x%" PRIx64 "\nsonde:\n%saddr2line:\n%s", addresses[i], ours,
				 theirs);
	}
	return different;
}

int addr2line_compare(const char *path, const char *folder, struct dwarf_lines *lines,
		      uint64_t bias, const uint64_t *addresses, size_t n, size_t *known)
{
	char name[] = "/tmp/addresses-XXXXXX", *output;
	int fd = mkstemp(name), different = -1;
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

	*known = 0;
	for (size_t i = 0; file && i < n; i++)
		fprintf(file, "0x%" PRIx64 "\n", addresses[i]);
	if (file && !fclose(file) &&
	    !tool_run(&output, "addr2line -a -i -f -e %s < %s", path, name)) {
		different = compare_all(output, folder, lines, bias, addresses, n, known);
		free(output);
	}
	unlink(name);
	return different;
}
