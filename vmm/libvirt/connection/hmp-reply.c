/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Replies of the human monitor, which are text for people. */
#include "vmm/libvirt/connection/reply.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define GPA_LIMIT (1ull << 52)
enum { PAGE_MASK = 4095 };

/* --- info mtree ------------------------------------------------------------------------------ */

struct lines {
	const char *at, *end;
};

/* The next line without its end. False after the last one. */
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

/* "  FIRST-LAST (prio N, KIND): NAME". NAME is "alias NAME @..." for a region that has a place
 * elsewhere, too. */
struct mtree_line {
	size_t indent;
	unsigned long long first, last;
	char kind[8], name[32];
};

static bool parse_line(const char *line, size_t length, struct mtree_line *out)
{
	char text[160];

	if (length >= sizeof(text))
		return false;
	memcpy(text, line, length);
	text[length] = '\0';
	out->indent = strspn(text, " ");
	return sscanf(text, " %16llx-%16llx (prio %*d, %7[^)]): %31[^@]", &out->first, &out->last,
		      out->kind, out->name) == 4 &&
	       out->last > out->first;
}

/*
 * The machine's own RAM has fixed names. Plugged RAM has names that the administrator chose; its
 * lines follow "device-memory", the region that contains it. *container is the indentation of that
 * line, 0 outside of it.
 */
static bool is_ram(const struct mtree_line *line, size_t *container)
{
	static const char below[] = "alias ram-below-4g ", above[] = "alias ram-above-4g ";

	if (*container && line->indent > *container)
		return !strcmp(line->kind, "ram");
	*container = strcmp(line->name, "device-memory") ? 0 : line->indent;
	return !strcmp(line->name, below) || !strcmp(line->name, above);
}

/* Joins adjacent ranges. Returns the new number. */
static int add_range(const struct libvirt_ram *range, struct libvirt_ram *out, int n,
		     struct error *err)
{
	uint64_t end = n ? out[n - 1].gpa + out[n - 1].size : 0;

	if ((range->gpa | range->size) & PAGE_MASK || range->gpa >= GPA_LIMIT ||
	    range->size > GPA_LIMIT - range->gpa)
		return error_set_at(err, EPROTO, range->gpa,
				    "QEMU's memory map has an impossible range");
	if (end > range->gpa)
		return error_set_at(err, EPROTO, range->gpa,
				    "QEMU's memory map has overlapping ranges");
	if (n && end == range->gpa) {
		out[n - 1].size += range->size;
		return n;
	}
	if (n == LIBVIRT_MAX_RAM)
		return error_set(err, EPROTO, "QEMU's memory map has too many ranges");
	out[n] = *range;
	return n + 1;
}

/* Leaves out the hole from 640 KiB to 1 MiB. Returns the new number. */
static int add_around_hole(const struct libvirt_ram *range, struct libvirt_ram *out, int n,
			   struct error *err)
{
	static const uint64_t hole = 0xa0000, hole_end = 0x100000;
	struct libvirt_ram low = *range, high = *range;

	if (range->gpa >= hole || range->gpa + range->size <= hole_end)
		return add_range(range, out, n, err);
	low.size = hole - low.gpa;
	high = (struct libvirt_ram){hole_end, range->gpa + range->size - hole_end};
	n = add_range(&low, out, n, err);
	return n < 0 ? n : add_range(&high, out, n, err);
}

int libvirt_reply_ram(const char *text, size_t size, struct libvirt_ram out[LIBVIRT_MAX_RAM],
		      struct error *err)
{
	struct lines lines = {text, text + size};
	struct mtree_line parsed;
	size_t length, container = 0;
	bool wanted = false;
	const char *line;
	int n = 0;

	while (n >= 0 && next_line(&lines, &line, &length)) {
		struct libvirt_ram range;

		if (is_line(line, length, "address-space: memory"))
			wanted = true;
		else if (wanted && (!length || line[0] != ' '))
			break;
		if (!wanted || !parse_line(line, length, &parsed) || !is_ram(&parsed, &container))
			continue;
		range = (struct libvirt_ram){parsed.first, parsed.last - parsed.first + 1};
		n = add_around_hole(&range, out, n, err);
	}
	return n ? n : error_set(err, EPROTO, "QEMU's memory map has no RAM of a PC");
}

size_t libvirt_reply_vcpu_memories(const char *text, size_t size)
{
	struct lines lines = {text, text + size};
	const char *line;
	size_t length, n = 0;

	while (next_line(&lines, &line, &length))
		n += is_line(line, length, "address-space: cpu-memory-");
	return n;
}

/* --- gpa2hva --------------------------------------------------------------------------------- */

int libvirt_reply_hva(const char *text, size_t size, uint64_t *hva, struct error *err)
{
	static const char marker[] = ") is 0x";
	const char *at = memmem(text, size, marker, sizeof(marker) - 1);
	char digits[17];
	size_t left, n;

	if (!at)
		return error_set(err, EPROTO, "no address in QEMU's reply to gpa2hva");
	at += sizeof(marker) - 1;
	left = size - (size_t)(at - text);
	n = left < sizeof(digits) - 1 ? left : sizeof(digits) - 1;
	memcpy(digits, at, n);
	digits[n] = '\0';
	if (sscanf(digits, "%16lx", hva) != 1 || !*hva)
		return error_set(err, EPROTO, "no address in QEMU's reply to gpa2hva");
	return 0;
}

/* --- info registers -------------------------------------------------------------------------- */

/* The number behind the first `name` in [text, end). */
static bool find_number(const char *text, const char *end, const char *name, uint64_t *out)
{
	const char *at = memmem(text, (size_t)(end - text), name, strlen(name));
	char digits[17] = "";
	size_t left;

	if (!at)
		return false;
	at += strlen(name);
	left = (size_t)(end - at);
	memcpy(digits, at, left < sizeof(digits) - 1 ? left : sizeof(digits) - 1);
	return sscanf(digits, "%16" SCNx64, out) == 1;
}

static bool parse_vcpu(const char *text, const char *end, struct guest_sregs *out)
{
	uint64_t cpl = 0, halted = 0;

	*out = (struct guest_sregs){0};
	if (!find_number(text, end, " CPL=", &cpl) || !find_number(text, end, " HLT=", &halted) ||
	    !find_number(text, end, "CR0=", &out->cr0) ||
	    !find_number(text, end, "CR3=", &out->cr3) ||
	    !find_number(text, end, "CR4=", &out->cr4) ||
	    !find_number(text, end, "EFER=", &out->efer))
		return false;
	out->cpl = cpl & 3;
	out->halted = halted == 1;
	return libvirt_vcpu_exists(out);
}

/* The next "CPU#" in [at, end), or `end`. */
static const char *find_vcpu(const char *at, const char *end)
{
	const char *found = memmem(at, (size_t)(end - at), "CPU#", 4);

	return found ? found : end;
}

/* The number of the vCPU whose section begins at `at`; n if it is not below n. */
static unsigned int number_of(const char *at, const char *end, unsigned int n)
{
	char digits[8] = "";
	size_t left;
	unsigned int number;

	at += 4;
	left = (size_t)(end - at);
	memcpy(digits, at, left < sizeof(digits) - 1 ? left : sizeof(digits) - 1);
	return sscanf(digits, "%6u", &number) == 1 && number < n ? number : n;
}

int libvirt_reply_registers(const char *text, size_t size, struct guest_sregs *out, unsigned int n,
			    struct error *err)
{
	const char *end = text + size, *at = find_vcpu(text, end), *next;
	unsigned int found = 0;

	memset(out, 0, n * sizeof(*out));
	for (; at < end; at = next) {
		unsigned int vcpu = number_of(at, end, n);

		next = find_vcpu(at + 4, end);
		if (vcpu == n)
			continue;
		if (!parse_vcpu(at, next, &out[vcpu]))
			return error_set(err, EPROTO, "no registers of vCPU %u in QEMU's reply",
					 vcpu);
		found++;
	}
	return found ? 0 : error_set(err, EPROTO, "no vCPU's registers in QEMU's reply");
}
