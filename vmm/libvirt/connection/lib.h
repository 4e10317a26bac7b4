/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_CONNECTION_LIB_H
#define SONDE_VMM_LIBVIRT_CONNECTION_LIB_H

#include "formats/base/error.h"

/*
 * The functions of libvirt that sonde calls. They are loaded at run time, so that the program is
 * built and runs without libvirt. Types and numbers are libvirt's stable ABI
 * (libvirt/libvirt-domain.h, libvirt-qemu.h, virterror.h, all since 1.2.3 or earlier).
 */
typedef struct _virConnect *virConnectPtr;
typedef struct _virDomain *virDomainPtr;

enum {
	LIBVIRT_UUID_TEXT = 37, /* with the NUL */

	LIBVIRT_DOMAIN_RUNNING = 1, /* virDomainState */
	LIBVIRT_DOMAIN_BLOCKED = 2,
	LIBVIRT_DOMAIN_PAUSED = 3,
	LIBVIRT_DOMAIN_SHUTDOWN = 4,
	LIBVIRT_DOMAIN_SHUTOFF = 5,
	LIBVIRT_DOMAIN_CRASHED = 6,
	LIBVIRT_DOMAIN_PMSUSPENDED = 7,

	LIBVIRT_PAUSED_UNKNOWN = 0, /* virDomainPausedReason */
	LIBVIRT_PAUSED_CRASHED = 10,

	LIBVIRT_AFFECT_LIVE = 1, /* virDomainModificationImpact */
	LIBVIRT_QEMU_HMP = 1,    /* virDomainQemuMonitorCommandFlags */

	LIBVIRT_EVENT_ID_LIFECYCLE = 0, /* virDomainEventID */
	LIBVIRT_EVENT_ID_REBOOT = 1,
	LIBVIRT_EVENT_ID_MIGRATION_ITERATION = 20,

	LIBVIRT_EVENT_SUSPENDED = 3, /* virDomainEventType */
	LIBVIRT_EVENT_RESUMED = 4,
	LIBVIRT_EVENT_STOPPED = 5,

	LIBVIRT_SUSPENDED_FROM_SNAPSHOT = 5, /* virDomainEventSuspendedDetailType */
	LIBVIRT_RESUMED_FROM_SNAPSHOT = 2,   /* virDomainEventResumedDetailType */

	LIBVIRT_STOPPED_SHUTDOWN = 0, /* virDomainEventStoppedDetailType */
	LIBVIRT_STOPPED_DESTROYED = 1,
	LIBVIRT_STOPPED_CRASHED = 2,
	LIBVIRT_STOPPED_MIGRATED = 3,
	LIBVIRT_STOPPED_SAVED = 4,
	LIBVIRT_STOPPED_FAILED = 5,
	LIBVIRT_STOPPED_FROM_SNAPSHOT = 6,

	LIBVIRT_ERR_NO_SUPPORT = 3, /* virErrorNumber */
	LIBVIRT_ERR_OPERATION_DENIED = 29,
	LIBVIRT_ERR_NO_DOMAIN = 42,
	LIBVIRT_ERR_AUTH_FAILED = 45,
	LIBVIRT_ERR_AUTH_CANCELLED = 79,
	LIBVIRT_ERR_ACCESS_DENIED = 88,
	LIBVIRT_ERR_AUTH_UNAVAILABLE = 94,
};

/* An event callback. Its real arguments depend on the event; libvirt casts callbacks to one type,
 * too. */
typedef void libvirt_event_fn(void);

struct libvirt_api {
	virConnectPtr (*connect_open)(const char *uri);
	int (*connect_close)(virConnectPtr connection);
	int (*connect_keep_alive)(virConnectPtr connection, int interval_s, unsigned int count);
	const char *(*connect_type)(virConnectPtr connection);
	char *(*connect_uri)(virConnectPtr connection); /* to be free()d */
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
	int (*event_register_default)(void);
	int (*event_run_default)(void);
	int (*event_add_timeout)(int ms, void (*fn)(int timer, void *arg), void *arg,
				 void (*free_arg)(void *arg));
	void (*event_update_timeout)(int timer, int ms);
	int (*event_remove_timeout)(int timer);
	int (*event_register)(virConnectPtr connection, virDomainPtr domain, int event_id,
			      libvirt_event_fn *fn, void *arg, void (*free_arg)(void *arg));
	int (*event_deregister)(virConnectPtr connection, int callback);
	/* from libvirt-qemu */
	int (*monitor_command)(virDomainPtr domain, const char *command, char **result,
			       unsigned int flags);
	int (*monitor_command_files)(virDomainPtr domain, const char *command, unsigned int nr_in,
				     int *in, unsigned int *nr_out, int **out, char **result,
				     unsigned int flags);
};

/* Loads libvirt on the first call. Not thread-safe. -ENOPKG: not installed; -ENOSYS: too old. */
int libvirt_lib_load(const struct libvirt_api **out, struct error *err);

#endif
