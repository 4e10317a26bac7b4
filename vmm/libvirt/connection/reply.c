/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/connection/reply.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "formats/base/clean-text.h"

#define GPA_LIMIT (1ull << 52)
enum { MAX_JSON = 4 << 20, PAGE_MASK = 4095, MAX_VCPUS = 1 << 16 };

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

/* --- info mtree ------------------------------------------------------------------------------ */

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

/* "  START-LAST (prio N, KIND): NAME", NAME being "alias NAME @..." of what is also elsewhere. */
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
 * Of the machine, or plugged in: that has names of its own, and is told behind "device-memory",
 * which it is part of. *container is how deeply that was indented, 0 outside of it.
 */
static bool is_ram(const struct mtree_line *line, size_t *container)
{
	static const char below[] = "alias ram-below-4g ", above[] = "alias ram-above-4g ";

	if (*container && line->indent > *container)
		return !strcmp(line->kind, "ram");
	*container = strcmp(line->name, "device-memory") ? 0 : line->indent;
	return !strcmp(line->name, below) || !strcmp(line->name, above);
}

/* Ranges that meet become one. Returns the new number. */
static int add_range(const struct libvirt_ram *range, struct libvirt_ram *out, int n,
		     struct error *err)
{
	uint64_t end = n ? out[n - 1].gpa + out[n - 1].size : 0;

	if ((range->gpa | range->size) & PAGE_MASK || range->gpa >= GPA_LIMIT ||
	    range->size > GPA_LIMIT - range->gpa)
		return error_set_at(err, EPROTO, range->gpa, "QEMU's memory map is absurd");
	if (end > range->gpa)
		return error_set_at(err, EPROTO, range->gpa, "QEMU's memory map overlaps itself");
	if (n && end == range->gpa) {
		out[n - 1].size += range->size;
		return n;
	}
	if (n == LIBVIRT_MAX_RAM)
		return error_set(err, EPROTO, "QEMU's memory map has too much RAM");
	out[n] = *range;
	return n + 1;
}

/* Without the hole from 640 KiB to 1 MiB. Returns the new number. */
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

/* --- query-pci ------------------------------------------------------------------------------- */

/* Behind bridges too, not deeper than PCI can be. NULL if there is none. */
static const json_t *find_device(const json_t *devices, const char *qdev_id, unsigned int depth)
{
	enum { MAX_DEPTH = 32 };
	size_t i;
	json_t *device;

	json_array_foreach(devices, i, device)
	{
		const char *id = json_string_value(json_object_get(device, "qdev_id"));
		const json_t *bridge = json_object_get(device, "pci_bridge"), *found;

		if (id && !strcmp(id, qdev_id))
			return device;
		found = bridge && depth < MAX_DEPTH
				? find_device(json_object_get(bridge, "devices"), qdev_id,
					      depth + 1)
				: NULL;
		if (found)
			return found;
	}
	return NULL;
}

static int read_bar(const json_t *region, struct libvirt_ram *out, struct error *err)
{
	uint64_t gpa = (uint64_t)json_integer_value(json_object_get(region, "address"));
	uint64_t size = (uint64_t)json_integer_value(json_object_get(region, "size"));

	if (!gpa || gpa == UINT64_MAX)
		return error_set(err, EAGAIN, "the guest has not mapped the device");
	if (gpa >= GPA_LIMIT || !size || size > GPA_LIMIT - gpa || (gpa & PAGE_MASK))
		return error_set_at(err, EPROTO, gpa, "QEMU's PCI devices are absurd");
	*out = (struct libvirt_ram){gpa, size};
	return 0;
}

int libvirt_reply_bar(const json_t *reply, const char *qdev_id, int bar, struct libvirt_ram *out,
		      struct error *err)
{
	const json_t *device = NULL;
	json_t *entry;
	size_t i;

	json_array_foreach(reply, i, entry)
	{
		device = find_device(json_object_get(entry, "devices"), qdev_id, 0);
		if (device)
			break;
	}
	json_array_foreach(json_object_get(device, "regions"), i,
			   entry) if (json_integer_value(json_object_get(entry, "bar")) ==
				      bar) return read_bar(entry, out, err);
	return error_set(err, ENOENT, "QEMU has no such PCI device");
}

/* --- vCPUs ----------------------------------------------------------------------------------- */

size_t libvirt_reply_vcpu_slots(const json_t *reply)
{
	size_t i, slots = 0;
	json_t *entry;

	json_array_foreach(reply, i, entry)
	{
		json_int_t n = json_integer_value(json_object_get(entry, "vcpus-count"));

		if (n < 1 || n > MAX_VCPUS)
			return 0;
		slots += (size_t)n;
	}
	return slots;
}

/* Socket devices tell of a peer that is not there (QEMU, chardev/char-socket.c). */
bool libvirt_reply_connected(const json_t *reply, const char *label)
{
	static const char nobody[] = "disconnected:";
	const json_t *device;
	size_t i;

	json_array_foreach(reply, i, device)
	{
		const char *name = json_string_value(json_object_get(device, "label"));
		const char *peer = json_string_value(json_object_get(device, "filename"));

		if (name && peer && !strcmp(name, label))
			return strncmp(peer, nobody, sizeof(nobody) - 1) != 0;
	}
	return false;
}

const char *libvirt_reply_target(const json_t *reply)
{
	const char *target = json_string_value(json_object_get(json_array_get(reply, 0), "target"));

	return target ? target : "";
}

/* --- gpa2hva --------------------------------------------------------------------------------- */

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
