/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/connection/reply.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "formats/base/text.h"

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
	int ret = 0;

	if (size > MAX_JSON)
		return error_set(err, EPROTO, "QEMU's reply is longer than %d MiB", MAX_JSON >> 20);
	reply = json_loadb(text, size, 0, &why);
	if (!reply)
		return error_set(err, EPROTO, "QEMU's reply is not JSON");
	value = json_object_get(reply, "return");
	if (!value)
		ret = parse_error(reply, err);
	else if (result)
		*result = json_incref(value);
	json_decref(reply);
	return ret;
}

/* --- query-pci ------------------------------------------------------------------------------- */

/* Searches behind bridges too; MAX_DEPTH is more than PCI allows. NULL: no such device. */
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
		return error_set_at(err, EPROTO, gpa, "QEMU reports an impossible PCI BAR");
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

/* The file name of a socket device starts so while it has no peer (QEMU, chardev/char-socket.c). */
enum libvirt_chardev libvirt_reply_chardev(const json_t *reply, const char *label)
{
	static const char no_peer[] = "disconnected:";
	const json_t *device;
	size_t i;

	json_array_foreach(reply, i, device)
	{
		const char *name = json_string_value(json_object_get(device, "label"));
		const char *peer = json_string_value(json_object_get(device, "filename"));

		if (name && peer && !strcmp(name, label))
			return strncmp(peer, no_peer, sizeof(no_peer) - 1)
				       ? LIBVIRT_CHARDEV_CONNECTED
				       : LIBVIRT_CHARDEV_LISTENS;
	}
	return LIBVIRT_CHARDEV_NONE;
}

const char *libvirt_reply_frontend(const json_t *reply, size_t i)
{
	const json_t *device = json_array_get(reply, i);

	return json_is_true(json_object_get(device, "frontend-open"))
		       ? json_string_value(json_object_get(device, "label"))
		       : NULL;
}

bool libvirt_reply_has_frontend(const json_t *reply, const char *label)
{
	for (size_t i = 0; i < json_array_size(reply); i++) {
		const char *used = libvirt_reply_frontend(reply, i);

		if (used && !strcmp(used, label))
			return true;
	}
	return false;
}

const char *libvirt_reply_target(const json_t *reply)
{
	const char *target = json_string_value(json_object_get(json_array_get(reply, 0), "target"));

	return target ? target : "";
}
