/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_CONNECTION_DOMAIN_H
#define SONDE_VMM_LIBVIRT_CONNECTION_DOMAIN_H

#include <stdbool.h>
#include "formats/base/error.h"
#include "vmm/libvirt/connection/lib.h"
#include "vmm/libvirt/connection/process.h"

/*
 * A QEMU domain of a local libvirt, and its monitors. All calls are synchronous and may come from
 * any thread. Errors of libvirt become one line that says what to do.
 */
struct libvirt_domain {
	const struct libvirt_api *api;
	virConnectPtr connection;
	virDomainPtr domain;
	char name[256];
	char uuid[LIBVIRT_UUID_TEXT];
	struct libvirt_process qemu; /* when it was opened, if that can be seen */
};

/*
 * `uri` NULL: libvirt's default. `id` is a name, a uuid or a number. The domain exists, is QEMU's
 * and has been started. -ENOENT no such domain, -ENOPKG no libvirt, -ESRCH not running, -EACCES not
 * allowed, -ENOTSUP another hypervisor's domain or a libvirt of another host, -ENOTCONN no
 * connection.
 */
int libvirt_domain_open(const char *uri, const char *id, struct libvirt_domain *out,
			struct error *err);
/* Also of one that was zeroed and never opened. */
void libvirt_domain_close(struct libvirt_domain *domain);

/* Whether a URI's libvirt is reached without a network (libvirt, docs/uri); pure. */
bool libvirt_uri_is_local(const char *uri);

enum libvirt_run_state { LIBVIRT_RUNS, LIBVIRT_PAUSED, LIBVIRT_GONE };
/* What libvirt believes; paused is whatever stands still but has its memory. -errno if it cannot be
 * asked. */
int libvirt_domain_state(struct libvirt_domain *domain, enum libvirt_run_state *out,
			 struct error *err);

/*
 * By whom it is paused: by nobody; by whoever uses a monitor, as we do, of which libvirt knows no
 * reason; or by somebody else, for a reason of its own, such as an administrator's `virsh suspend`.
 * Such a suspend changes nothing, the reason neither, if the domain is paused already (libvirt,
 * qemuDomainSuspend()). -errno as above.
 */
enum libvirt_pause { LIBVIRT_PAUSE_NONE, LIBVIRT_PAUSE_MONITOR, LIBVIRT_PAUSE_OTHERS };
int libvirt_domain_pause(struct libvirt_domain *domain, enum libvirt_pause *out, struct error *err);

/* Turn libvirt's last error into ours: "what: libvirt's message"; -errno by its kind. */
int libvirt_error(struct libvirt_domain *domain, const char *what, struct error *err);

#endif
