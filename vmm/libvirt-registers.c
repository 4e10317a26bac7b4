/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt-registers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number behind the first `name` in [text, end). */
static bool find_number(const char *text, const char *end, const char *name, uint64_t *out)
{
	const char *at = memmem(text, (size_t)(end - text), name, strlen(name));
	char digits[17] = "";
	size_t left;

	if (!at)
		return false;
	at += strlen(name);
	left = (size_t)(end - at);
	memcpy(digits, at, left < sizeof(digits) - 1 ? left : sizeof(digits) - 1);
	return sscanf(digits, "%16" SCNx64, out) == 1;
}

static bool parse_vcpu(const char *text, const char *end, struct guest_sregs *out)
{
	uint64_t cpl = 0;

	*out = (struct guest_sregs){0};
	if (!find_number(text, end, " CPL=", &cpl) || !find_number(text, end, "CR0=", &out->cr0) ||
	    !find_number(text, end, "CR3=", &out->cr3) ||
	    !find_number(text, end, "CR4=", &out->cr4) ||
	    !find_number(text, end, "EFER=", &out->efer))
		return false;
	out->cpl = cpl & 3;
	return true;
}

int libvirt_parse_registers(const char *text, size_t size, struct guest_sregs *out, unsigned int n,
			    struct error *err)
{
	const char *at = text, *end = text + size, *next;
	char cpu[24];

	for (unsigned int i = 0; i < n; i++, at = next) {
		snprintf(cpu, sizeof(cpu), "CPU#%u", i);
		at = memmem(at, (size_t)(end - at), cpu, strlen(cpu));
		if (!at)
			return error_set(err, EPROTO, "QEMU does not tell vCPU %u's registers", i);
		at += strlen(cpu);
		next = memmem(at, (size_t)(end - at), "CPU#", 4);
		next = next ? next : end;
		if (!parse_vcpu(at, next, &out[i]))
			return error_set(err, EPROTO, "QEMU does not tell vCPU %u's registers", i);
	}
	return 0;
}

int libvirt_read_registers(struct libvirt_domain *domain, struct guest_sregs *out, unsigned int n,
			   struct error *err)
{
	char *reply;
	int rc = libvirt_hmp(domain, "info registers -a", &reply, err);

	if (rc)
		return rc;
	rc = libvirt_parse_registers(reply, strlen(reply), out, n, err);
	free(reply);
	return rc;
}
