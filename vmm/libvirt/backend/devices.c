/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/backend/devices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "vmm/libvirt/connection/reply.h"

static int count_vcpus(struct libvirt_domain *domain, size_t *out, struct error *err)
{
	json_t *reply = NULL;
	int rc = libvirt_qmp(domain, "query-cpus-fast", NULL, -1, &reply, err);

	*out = json_array_size(reply);
	json_decref(reply);
	return rc;
}

static int count_listeners(struct libvirt_domain *domain, size_t *out, struct error *err)
{
	char *reply = NULL;
	int rc = libvirt_hmp(domain, "info mtree", &reply, err);

	if (!rc)
		*out = libvirt_reply_vcpu_memories(reply, strlen(reply));
	free(reply);
	return rc;
}

int libvirt_devices_may_change(struct libvirt_domain *domain, struct error *err)
{
	size_t vcpus = 0, listeners = 0;
	bool kvm;
	int rc = libvirt_domain_has_kvm(domain, &kvm, err);

	if (rc || kvm)
		return rc;
	rc = count_vcpus(domain, &vcpus, err);
	if (!rc)
		rc = count_listeners(domain, &listeners, err);
	if (!rc && listeners > vcpus)
		rc = error_set(err, ENOTSUP,
			       "a vCPU was unplugged from this emulated domain: QEMU would die of "
			       "a change of its devices");
	return rc;
}
