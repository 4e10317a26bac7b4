/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt-reply.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "formats/clean-text.h"

#define GPA_LIMIT (1ull << 52)
enum { MAX_JSON = 4 << 20, PAGE_MASK = 4095 };

static int parse_error(const json_t *reply, struct error *err)
{
	const char *text =
		json_string_value(json_object_get(json_object_get(reply, "error"), "desc"));
	char clean[200];

	if (!text)
		return error_set(err, EPROTO, "QEMU's reply is neither a result nor an error");
	clean_text(clean, sizeof(clean), text);
	return error_set(err, EREMOTEIO, "QEMU says: %s", clean);
}

int libvirt_reply_parse(const char *text, size_t size, json_t **result, struct error *err)
{
	json_t *reply, *value;
	json_error_t why;
	int rc = 0;

	if (size > MAX_JSON)
		return error_set(err, EPROTO, "QEMU's reply has no end");
	reply = json_loadb(text, size, 0, &why);
	if (!reply)
		return error_set(err, EPROTO, "QEMU's reply is not JSON");
	value = json_object_get(reply, "return");
	if (!value)
		rc = parse_error(reply, err);
	else if (result)
		*result = json_incref(value);
	json_decref(reply);
	return rc;
}

/* --- info mtree -f --------------------------------------------------------------------------- */

struct lines {
	const char *at, *end;
};

/* The next line without its end, false after the last one. */
static bool next_line(struct lines *lines, const char **line, size_t *length)
{
	const char *newline;

	if (lines->at >= lines->end)
		return false;
	newline = memchr(lines->at, '\n', (size_t)(lines->end - lines->at));
	if (!newline)
		newline = lines->end;
	*line = lines->at;
	*length = (size_t)(newline - lines->at);
	if (*length && (*line)[*length - 1] == '\r')
		(*length)--;
	lines->at = newline + (newline < lines->end);
	return true;
}

static bool is_line(const char *line, size_t length, const char *start)
{
	return length >= strlen(start) && !memcmp(line, start, strlen(start));
}

/* "  START-LAST (prio N, ram): NAME[ @OFFSET][ KVM]". False: another kind of line. */
static bool parse_range(const char *line, size_t length, struct libvirt_ram *out)
{
	unsigned long long first, last;
	char text[160], kind[16];
	int used = 0;

	if (length >= sizeof(text))
		return false;
	memcpy(text, line, length);
	text[length] = '\0';
	if (sscanf(text, " %16llx-%16llx (prio %*d, %15[^)]): %63[^ @]%n", &first, &last, kind,
		   out->name, &used) != 4 ||
	    strcmp(kind, "ram"))
		return false;
	out->gpa = first;
	out->size = last - first + 1;
	return last > first;
}

static int add_range(const struct libvirt_ram *range, struct libvirt_ram *out, size_t n, size_t max,
		     struct error *err)
{
	if ((range->gpa | range->size) & PAGE_MASK || range->gpa >= GPA_LIMIT ||
	    range->size > GPA_LIMIT - range->gpa)
		return error_set_at(err, EPROTO, range->gpa, "QEMU's memory map is absurd");
	if (n && out[n - 1].gpa + out[n - 1].size > range->gpa)
		return error_set_at(err, EPROTO, range->gpa, "QEMU's memory map overlaps itself");
	if (n == max)
		return error_set(err, EPROTO, "QEMU's memory map has more than %zu ranges of RAM",
				 max);
	out[n] = *range;
	return 0;
}

int libvirt_reply_ram(const char *text, size_t size, struct libvirt_ram *out, size_t max,
		      struct error *err)
{
	struct lines lines = {text, text + size};
	struct libvirt_ram range;
	bool wanted = false;
	const char *line;
	size_t length, n = 0;

	while (next_line(&lines, &line, &length)) {
		int rc;

		if (is_line(line, length, "FlatView #")) {
			if (n)
				break;
			wanted = false;
		}
		if (is_line(line, length, " AS \"memory\""))
			wanted = true;
		if (!wanted || !parse_range(line, length, &range))
			continue;
		rc = add_range(&range, out, n, max, err);
		if (rc)
			return rc;
		n++;
	}
	return n ? (int)n : error_set(err, EPROTO, "QEMU's memory map has no RAM");
}

int libvirt_reply_hva(const char *text, size_t size, uint64_t *hva, struct error *err)
{
	static const char marker[] = ") is 0x";
	const char *at = memmem(text, size, marker, sizeof(marker) - 1);
	char digits[17];
	size_t left, n;

	if (!at)
		return error_set(err, EPROTO, "QEMU does not tell where guest memory is");
	at += sizeof(marker) - 1;
	left = size - (size_t)(at - text);
	n = left < sizeof(digits) - 1 ? left : sizeof(digits) - 1;
	memcpy(digits, at, n);
	digits[n] = '\0';
	if (sscanf(digits, "%16lx", hva) != 1 || !*hva)
		return error_set(err, EPROTO, "QEMU does not tell where guest memory is");
	return 0;
}
