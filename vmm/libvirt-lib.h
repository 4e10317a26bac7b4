/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_LIB_H
#define SONDE_VMM_LIBVIRT_LIB_H

#include "formats/error.h"

/*
 * The functions of libvirt that we call, loaded when they are first needed: the program runs, and
 * is built, without libvirt. Types and numbers are those of libvirt's stable ABI
 * (libvirt/libvirt-domain.h, libvirt-qemu.h, virterror.h, all since 1.2.3 or earlier).
 */
typedef struct _virConnect *virConnectPtr;
typedef struct _virDomain *virDomainPtr;

enum {
	LIBVIRT_UUID_TEXT = 37, /* with the NUL */

	LIBVIRT_DOMAIN_RUNNING = 1, /* virDomainState */
	LIBVIRT_DOMAIN_BLOCKED = 2,
	LIBVIRT_DOMAIN_PAUSED = 3,

	LIBVIRT_AFFECT_LIVE = 1, /* virDomainModificationImpact */
	LIBVIRT_QEMU_HMP = 1,    /* virDomainQemuMonitorCommandFlags */

	LIBVIRT_ERR_NO_SUPPORT = 3, /* virErrorNumber */
	LIBVIRT_ERR_OPERATION_DENIED = 29,
	LIBVIRT_ERR_NO_DOMAIN = 42,
	LIBVIRT_ERR_AUTH_FAILED = 45,
	LIBVIRT_ERR_AUTH_CANCELLED = 79,
	LIBVIRT_ERR_ACCESS_DENIED = 88,
	LIBVIRT_ERR_AUTH_UNAVAILABLE = 94,
};

struct libvirt_api {
	virConnectPtr (*connect_open)(const char *uri);
	int (*connect_close)(virConnectPtr connection);
	const char *(*connect_type)(virConnectPtr connection);
	virDomainPtr (*lookup_name)(virConnectPtr connection, const char *name);
	virDomainPtr (*lookup_uuid)(virConnectPtr connection, const char *uuid);
	virDomainPtr (*lookup_id)(virConnectPtr connection, int id);
	int (*domain_free)(virDomainPtr domain);
	const char *(*domain_name)(virDomainPtr domain);
	int (*domain_uuid)(virDomainPtr domain, char *uuid);
	int (*domain_state)(virDomainPtr domain, int *state, int *reason, unsigned int flags);
	char *(*domain_xml)(virDomainPtr domain, unsigned int flags);
	int (*attach_device)(virDomainPtr domain, const char *xml, unsigned int flags);
	int (*last_code)(void);
	const char *(*last_message)(void);
	void (*set_error_func)(void *data, void (*fn)(void *data, void *error));
	/* of libvirt-qemu */
	int (*monitor_command)(virDomainPtr domain, const char *command, char **result,
			       unsigned int flags);
	int (*monitor_command_files)(virDomainPtr domain, const char *command, unsigned int nr_in,
				     int *in, unsigned int *nr_out, int **out, char **result,
				     unsigned int flags);
};

/* Load once; -ENOENT, with what to install, if it is not there. Not from two threads at once. */
int libvirt_lib_load(const struct libvirt_api **out, struct error *err);

#endif
