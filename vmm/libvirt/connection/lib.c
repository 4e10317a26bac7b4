/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/connection/lib.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const char main_library[] = "libvirt.so.0", qemu_library[] = "libvirt-qemu.so.0";

static const struct symbol {
	const char *name;
	size_t offset; /* of the pointer in struct libvirt_api */
	bool qemu;
} symbols[] = {
	{"virConnectOpen", offsetof(struct libvirt_api, connect_open), false},
	{"virConnectClose", offsetof(struct libvirt_api, connect_close), false},
	{"virConnectSetKeepAlive", offsetof(struct libvirt_api, connect_keep_alive), false},
	{"virConnectGetType", offsetof(struct libvirt_api, connect_type), false},
	{"virConnectGetURI", offsetof(struct libvirt_api, connect_uri), false},
	{"virDomainLookupByName", offsetof(struct libvirt_api, lookup_name), false},
	{"virDomainLookupByUUIDString", offsetof(struct libvirt_api, lookup_uuid), false},
	{"virDomainLookupByID", offsetof(struct libvirt_api, lookup_id), false},
	{"virDomainFree", offsetof(struct libvirt_api, domain_free), false},
	{"virDomainGetName", offsetof(struct libvirt_api, domain_name), false},
	{"virDomainGetUUIDString", offsetof(struct libvirt_api, domain_uuid), false},
	{"virDomainGetState", offsetof(struct libvirt_api, domain_state), false},
	{"virDomainGetXMLDesc", offsetof(struct libvirt_api, domain_xml), false},
	{"virDomainAttachDeviceFlags", offsetof(struct libvirt_api, attach_device), false},
	{"virGetLastErrorCode", offsetof(struct libvirt_api, last_code), false},
	{"virGetLastErrorMessage", offsetof(struct libvirt_api, last_message), false},
	{"virSetErrorFunc", offsetof(struct libvirt_api, set_error_func), false},
	{"virEventRegisterDefaultImpl", offsetof(struct libvirt_api, event_register_default),
	 false},
	{"virEventRunDefaultImpl", offsetof(struct libvirt_api, event_run_default), false},
	{"virEventAddTimeout", offsetof(struct libvirt_api, event_add_timeout), false},
	{"virEventUpdateTimeout", offsetof(struct libvirt_api, event_update_timeout), false},
	{"virEventRemoveTimeout", offsetof(struct libvirt_api, event_remove_timeout), false},
	{"virConnectDomainEventRegisterAny", offsetof(struct libvirt_api, event_register), false},
	{"virConnectDomainEventDeregisterAny", offsetof(struct libvirt_api, event_deregister),
	 false},
	{"virDomainQemuMonitorCommand", offsetof(struct libvirt_api, monitor_command), true},
	{"virDomainQemuMonitorCommandWithFiles",
	 offsetof(struct libvirt_api, monitor_command_files), true},
};

static int open_library(const char *name, void **out, struct error *err)
{
	*out = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (*out)
		return 0;
	return error_set(err, ENOPKG, "%s cannot be loaded: install libvirt's client library",
			 name);
}

/* Without it, libvirt prints each error on stderr besides returning it. */
static void ignore_error(void *data, void *error)
{
	(void)data;
	(void)error;
}

static int load(struct libvirt_api *api, struct error *err)
{
	void *main_handle, *qemu_handle;
	int ret = open_library(main_library, &main_handle, err);

	if (!ret)
		ret = open_library(qemu_library, &qemu_handle, err);
	for (size_t i = 0; !ret && i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		const struct symbol *s = &symbols[i];
		void *address = dlsym(s->qemu ? qemu_handle : main_handle, s->name);

		if (!address)
			ret = error_set(err, ENOSYS, "this host's libvirt is too old: no %s",
					s->name);
		memcpy((char *)api + s->offset, &address, sizeof(address));
	}
	if (!ret)
		api->set_error_func(NULL, ignore_error);
	return ret;
}

int libvirt_lib_load(const struct libvirt_api **out, struct error *err)
{
	static struct libvirt_api api;
	static bool loaded;
	int ret = loaded ? 0 : load(&api, err);

	loaded = !ret;
	*out = &api;
	return ret;
}
