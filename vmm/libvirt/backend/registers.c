/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/backend/registers.h"

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
	uint64_t cpl = 0, halted = 0;

	*out = (struct guest_sregs){0};
	if (!find_number(text, end, " CPL=", &cpl) || !find_number(text, end, " HLT=", &halted) ||
	    !find_number(text, end, "CR0=", &out->cr0) ||
	    !find_number(text, end, "CR3=", &out->cr3) ||
	    !find_number(text, end, "CR4=", &out->cr4) ||
	    !find_number(text, end, "EFER=", &out->efer))
		return false;
	out->cpl = cpl & 3;
	out->halted = halted == 1;
	return libvirt_vcpu_exists(out);
}

/* The next "CPU#" in [at, end), or `end`. */
static const char *find_vcpu(const char *at, const char *end)
{
	const char *found = memmem(at, (size_t)(end - at), "CPU#", 4);

	return found ? found : end;
}

/* The number of the vCPU whose part begins at `at`, n if it is none of the first n. */
static unsigned int number_of(const char *at, const char *end, unsigned int n)
{
	char digits[8] = "";
	size_t left;
	unsigned int number;

	at += 4;
	left = (size_t)(end - at);
	memcpy(digits, at, left < sizeof(digits) - 1 ? left : sizeof(digits) - 1);
	return sscanf(digits, "%6u", &number) == 1 && number < n ? number : n;
}

int libvirt_parse_registers(const char *text, size_t size, struct guest_sregs *out, unsigned int n,
			    struct error *err)
{
	const char *end = text + size, *at = find_vcpu(text, end), *next;
	unsigned int found = 0;

	memset(out, 0, n * sizeof(*out));
	for (; at < end; at = next) {
		unsigned int vcpu = number_of(at, end, n);

		next = find_vcpu(at + 4, end);
		if (vcpu == n)
			continue;
		if (!parse_vcpu(at, next, &out[vcpu]))
			return error_set(err, EPROTO, "QEMU does not tell vCPU %u's registers",
					 vcpu);
		found++;
	}
	return found ? 0 : error_set(err, EPROTO, "QEMU tells no vCPU's registers");
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
