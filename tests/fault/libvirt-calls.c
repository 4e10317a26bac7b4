/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libvirt's functions, as fallible calls. What changes a domain can fail in two ways, each of which
 * is a call of its own: before it is done, and behind that, when libvirtd's answer is lost.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/fault/faults.h"
#include "tests/fault/libvirt-calls.h"
#include "vmm/libvirt/connection/lib.h"

static struct libvirt_api real;

#define FALLIBLE(type, member, name, parameters, arguments, bad)        \
	static type fault_##member parameters                           \
	{                                                               \
		return fault_is_due(name) ? (bad) : real.member arguments; \
	}

FALLIBLE(virConnectPtr, connect_open, "virConnectOpen", (const char *uri), (uri), NULL)
FALLIBLE(int, connect_keep_alive, "virConnectSetKeepAlive",
	 (virConnectPtr connection, int interval_s, unsigned int count),
	 (connection, interval_s, count), -1)
FALLIBLE(const char *, connect_type, "virConnectGetType", (virConnectPtr connection), (connection),
	 NULL)
FALLIBLE(char *, connect_uri, "virConnectGetURI", (virConnectPtr connection), (connection), NULL)
FALLIBLE(virDomainPtr, lookup_name, "virDomainLookupByName",
	 (virConnectPtr connection, const char *name), (connection, name), NULL)
FALLIBLE(virDomainPtr, lookup_uuid, "virDomainLookupByUUIDString",
	 (virConnectPtr connection, const char *uuid), (connection, uuid), NULL)
FALLIBLE(virDomainPtr, lookup_id, "virDomainLookupByID", (virConnectPtr connection, int id),
	 (connection, id), NULL)
FALLIBLE(const char *, domain_name, "virDomainGetName", (virDomainPtr domain), (domain), NULL)
FALLIBLE(int, domain_uuid, "virDomainGetUUIDString", (virDomainPtr domain, char *uuid),
	 (domain, uuid), -1)
FALLIBLE(int, domain_state, "virDomainGetState",
	 (virDomainPtr domain, int *state, int *reason, unsigned int flags),
	 (domain, state, reason, flags), -1)
FALLIBLE(char *, domain_xml, "virDomainGetXMLDesc", (virDomainPtr domain, unsigned int flags),
	 (domain, flags), NULL)
FALLIBLE(int, event_register_default, "virEventRegisterDefaultImpl", (void), (), -1)
FALLIBLE(int, event_run_default, "virEventRunDefaultImpl", (void), (), -1)
FALLIBLE(int, event_add_timeout, "virEventAddTimeout",
	 (int ms, void (*fn)(int timer, void *arg), void *arg, void (*free_arg)(void *arg)),
	 (ms, fn, arg, free_arg), -1)
FALLIBLE(int, event_register, "virConnectDomainEventRegisterAny",
	 (virConnectPtr connection, virDomainPtr domain, int event_id, libvirt_event_fn *fn, void *arg,
	  void (*free_arg)(void *arg)),
	 (connection, domain, event_id, fn, arg, free_arg), -1)
FALLIBLE(int, event_deregister, "virConnectDomainEventDeregisterAny",
	 (virConnectPtr connection, int callback), (connection, callback), -1)

static int fault_attach_device(virDomainPtr domain, const char *xml, unsigned int flags)
{
	if (fault_is_due("virDomainAttachDeviceFlags") ||
	    real.attach_device(domain, xml, flags) ||
	    fault_is_due("virDomainAttachDeviceFlags-answer"))
		return -1;
	return 0;
}

static int fault_monitor_command(virDomainPtr domain, const char *command, char **result,
				 unsigned int flags)
{
	int ret;

	if (fault_is_due("virDomainQemuMonitorCommand"))
		return -1;
	ret = real.monitor_command(domain, command, result, flags);
	if (ret || !fault_is_due("virDomainQemuMonitorCommand-answer"))
		return ret;
	free(*result);
	*result = NULL;
	return -1;
}

static void close_files(unsigned int *nr_out, int **out)
{
	for (unsigned int i = 0; nr_out && i < *nr_out; i++)
		close((*out)[i]);
	if (out)
		free(*out);
}

static int fault_monitor_command_files(virDomainPtr domain, const char *command, unsigned int nr_in,
				       int *in, unsigned int *nr_out, int **out, char **result,
				       unsigned int flags)
{
	int ret;

	if (fault_is_due("virDomainQemuMonitorCommandWithFiles"))
		return -1;
	ret = real.monitor_command_files(domain, command, nr_in, in, nr_out, out, result, flags);
	if (ret || !fault_is_due("virDomainQemuMonitorCommandWithFiles-answer"))
		return ret;
	close_files(nr_out, out);
	free(*result);
	*result = NULL;
	return -1;
}

/* Each with the place of the function that it stands for. */
static const struct {
	const char *name;
	void (*fault)(void);
	void *place;
} calls[] = {
#define CALL(name, member) {name, (void (*)(void))fault_##member, &real.member}
	CALL("virConnectOpen", connect_open),
	CALL("virConnectSetKeepAlive", connect_keep_alive),
	CALL("virConnectGetType", connect_type),
	CALL("virConnectGetURI", connect_uri),
	CALL("virDomainLookupByName", lookup_name),
	CALL("virDomainLookupByUUIDString", lookup_uuid),
	CALL("virDomainLookupByID", lookup_id),
	CALL("virDomainGetName", domain_name),
	CALL("virDomainGetUUIDString", domain_uuid),
	CALL("virDomainGetState", domain_state),
	CALL("virDomainGetXMLDesc", domain_xml),
	CALL("virEventRegisterDefaultImpl", event_register_default),
	CALL("virEventRunDefaultImpl", event_run_default),
	CALL("virEventAddTimeout", event_add_timeout),
	CALL("virConnectDomainEventRegisterAny", event_register),
	CALL("virConnectDomainEventDeregisterAny", event_deregister),
	CALL("virDomainAttachDeviceFlags", attach_device),
	CALL("virDomainQemuMonitorCommand", monitor_command),
	CALL("virDomainQemuMonitorCommandWithFiles", monitor_command_files),
#undef CALL
};

void *fault_libvirt_call(const char *name, void *found)
{
	for (size_t i = 0; found && i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (strcmp(calls[i].name, name))
			continue;
		memcpy(calls[i].place, &found, sizeof(found));
		memcpy(&found, &calls[i].fault, sizeof(found));
	}
	return found;
}
