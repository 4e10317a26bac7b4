/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whose server QEMU's gdbstub is. QEMU does not say which character device it uses. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "formats/base/text.h"
#include "vmm/libvirt/connection/monitor.h"
#include "vmm/libvirt/connection/reply.h"
#include "vmm/libvirt/gdb/internal.h"

enum { MAX_DEVICES = 1024 };

/* --- who else uses a character device ----------------------------------------------------------
 */

/* Whether a label is one of `names`, with a number or nothing behind it, or begins with one that
 * ends in a dash. */
static bool is_named(const char *label, const char *const names[], size_t nr_names)
{
	for (size_t i = 0; i < nr_names; i++) {
		const size_t n = strlen(names[i]);

		if (!strncmp(label, names[i], n) &&
		    (names[i][n - 1] == '-' || !label[n + strspn(label + n, "0123456789")]))
			return true;
	}
	return false;
}

/* libvirt, src/qemu/qemu_alias.c: "char" and the device's alias, which may be a user's "ua-..." */
static bool is_libvirts(const char *label)
{
	static const char *const names[] = {
		"charmonitor", "charserial", "charconsole", "charchannel",   "charparallel",
		"charredir",   "charrng",    "charnet",     "charsmartcard", "charshmem",
		"chartpm",     "charua-",    "chr-vu-",     "chrtpm"};

	return is_named(label, names, sizeof(names) / sizeof(names[0]));
}

/* Of -serial, -parallel and -monitor; and of the gdbstub's monitor, which stays when the stub
 * closes.
 */
static bool is_qemus(const char *label)
{
	static const char *const names[] = {"serial", "parallel", "compat_monitor", "#chr"};

	return is_named(label, names, sizeof(names) / sizeof(names[0]));
}

static bool device_has(struct libvirt_domain *domain, const char *folder, const char *device,
		       const char *label)
{
	char path[512];
	json_t *value = NULL;
	bool has;

	if (snprintf(path, sizeof(path), "%s/%s", folder, device) >= (int)sizeof(path))
		return false;
	libvirt_qmp(domain, "qom-get", json_pack("{s:s, s:s}", "path", path, "property", "chardev"),
		    -1, &value, NULL);
	has = json_is_string(value) && !strcmp(json_string_value(value), label);
	json_decref(value);
	return has;
}

/* A device that was plugged in later. */
static bool a_device_has(struct libvirt_domain *domain, const char *folder, const char *label)
{
	json_t *devices = NULL, *entry;
	bool has = false;
	size_t i;

	libvirt_qmp(domain, "qom-list", json_pack("{s:s}", "path", folder), -1, &devices, NULL);
	json_array_foreach(devices, i, entry)
	{
		const char *name = json_string_value(json_object_get(entry, "name"));

		if (has || i == MAX_DEVICES)
			break;
		has = name && device_has(domain, folder, name, label);
	}
	json_decref(devices);
	return has;
}

static bool is_used_otherwise(struct libvirt_domain *domain, const char *label)
{
	return is_libvirts(label) || is_qemus(label) ||
	       libvirt_process_uses_chardev(&domain->qemu, label) ||
	       a_device_has(domain, "/machine/peripheral", label) ||
	       a_device_has(domain, "/machine/peripheral-anon", label);
}

/* --- the gdbstub's -----------------------------------------------------------------------------
 */

/* `gdbserver chardev:NAME` and `-gdb chardev:NAME` use a device of any name. */
static int check_others(struct libvirt_domain *domain, const json_t *devices, struct error *err)
{
	char name[40];

	for (size_t i = 0; i < json_array_size(devices); i++) {
		const char *label = libvirt_reply_frontend(devices, i);

		if (!label || !strcmp(label, GDBSTUB_CHARDEV) || is_used_otherwise(domain, label))
			continue;
		clean_text(name, sizeof(name), label);
		return error_set(
			err, EBUSY,
			"QEMU's gdbstub seems to use the character device '%s', for no device of "
			"the domain does: close it first (virsh qemu-monitor-command "
			"%.100s --hmp 'gdbserver none')",
			name, domain->name);
	}
	return 0;
}

int gdbstub_check_others(struct libvirt_domain *domain, const json_t *devices, struct error *err)
{
	/* the name that QEMU gives to what it makes itself: `gdbserver tcp:...` */
	switch (libvirt_reply_chardev(devices, "gdb")) {
	case LIBVIRT_CHARDEV_CONNECTED:
		return error_set(err, EBUSY,
				 "a debugger is connected to domain %s, and QEMU's gdbstub serves "
				 "only one",
				 domain->name);
	case LIBVIRT_CHARDEV_LISTENS:
		return error_set(err, EBUSY,
				 "QEMU's gdbstub waits for a debugger: close it first (virsh "
				 "qemu-monitor-command %.100s --hmp 'gdbserver none')",
				 domain->name);
	default:
		return check_others(domain, devices, err);
	}
}
