/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_CONNECTION_DOMAIN_H
#define SONDE_VMM_LIBVIRT_CONNECTION_DOMAIN_H

#include <pthread.h>
#include <stdbool.h>
#include "formats/base/error.h"
#include "vmm/libvirt/connection/lib.h"
#include "vmm/libvirt/connection/process.h"

/*
 * A QEMU domain of a local libvirt. All calls are synchronous and may come from any thread. Errors
 * of libvirt become one line that says what to do.
 */
struct libvirt_domain {
	const struct libvirt_api *api;
	/* Held during each call to libvirtd. With several callers, libvirt 9.0 does not let go of
	 * a libvirtd that hangs: only one of them gets an error. */
	pthread_mutex_t calling;
	virConnectPtr connection;
	virDomainPtr domain;
	char name[256];
	char uuid[LIBVIRT_UUID_TEXT];
	struct libvirt_process qemu; /* at the time of libvirt_domain_open(), if visible */
	/* the sonde at the gdbstub's other end is dead: its connection is closed without waiting,
	 * once: what is there later is another one's */
	bool owner_dead;
};

/*
 * Connect to `uri` (NULL: libvirt's default) and find a started QEMU domain by its name, uuid or
 * number.
 *
 * -ENOENT: no such domain. -ESRCH: it is not running. -ENOPKG: no libvirt. -ENOTCONN: no
 * connection. -EACCES: not allowed. -ENOTSUP: another hypervisor's domain, or the libvirt of
 * another host.
 */
int libvirt_domain_open(const char *uri, const char *id, struct libvirt_domain *out,
			struct error *err);
/* A domain that was zeroed and never opened may be closed, too. */
void libvirt_domain_close(struct libvirt_domain *domain);

/*
 * The first part of libvirt_domain_open(): set domain->connection, with domain->api given. The
 * connection is closed when libvirtd hangs, if this process runs an event loop (events.h).
 * -ENOTCONN: also if libvirtd does not answer within some seconds.
 */
int libvirt_connect(const char *uri, struct libvirt_domain *domain, struct error *err);
/* Whether a URI leads to a libvirt on this host (libvirt, docs/uri). Pure. */
bool libvirt_uri_is_local(const char *uri);

enum libvirt_run_state { LIBVIRT_RUNS, LIBVIRT_PAUSED, LIBVIRT_PANICKED, LIBVIRT_GONE };
/* The state that libvirt reports. LIBVIRT_PAUSED is any state in which no vCPU runs and the memory
 * is kept; LIBVIRT_PANICKED is that, because the guest's kernel has panicked. -errno: libvirt does
 * not answer. */
int libvirt_domain_state(struct libvirt_domain *domain, enum libvirt_run_state *out,
			 struct error *err);
/* The same, but -EBUSY while another thread waits for libvirt, which may take as long as a
 * migration.
 */
int libvirt_domain_try_state(struct libvirt_domain *domain, enum libvirt_run_state *out,
			     struct error *err);

/*
 * Who paused the domain, by the reason that libvirt reports. A pause through a QEMU monitor, which
 * is what sonde does, has no reason (MONITOR). All other pauses have one, such as an
 * administrator's `virsh suspend` (OTHERS). A suspend of a domain that is already paused changes
 * neither state nor reason (libvirt, qemuDomainSuspend()). -errno: libvirt does not answer.
 */
enum libvirt_pause { LIBVIRT_PAUSE_NONE, LIBVIRT_PAUSE_MONITOR, LIBVIRT_PAUSE_OTHERS };
int libvirt_domain_pause(struct libvirt_domain *domain, enum libvirt_pause *out, struct error *err);

/* The live XML, which the caller free()s. NULL: see libvirt_error(). */
char *libvirt_domain_xml(struct libvirt_domain *domain);

/* Turn libvirt's last error into "what: libvirt's message". Returns -errno by its kind. */
int libvirt_error(struct libvirt_domain *domain, const char *what, struct error *err);

#endif
