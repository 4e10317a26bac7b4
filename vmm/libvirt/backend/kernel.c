/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/backend/kernel.h"
#include "vmm/libvirt/connection/monitor.h"

#include <errno.h>
#include <stdio.h>
#include "formats/base/clock.h"
#include "introspect/kernel/identify.h"

/* The vCPUs run while page tables are read: a process may end, and its tables with it. And each may
 * be in a guest of its own most of the time, whose tables do not map the kernel: but not if none is
 * ever in long mode, as in most firmware. That is looked for again while it costs little: without
 * the tables nothing else is read. */
enum { TRIES = 5, TRY_MS = 20, MORE_TRIES_MS = 1000 };

/* A kernel may still be booting. */
static const char *advice(int code)
{
	return code == EAGAIN ? "try again when it has booted"
			      : "if Linux has booted there, give its image with -k";
}

static bool may_change(int ret)
{
	return ret == -ENOENT || ret == -EAGAIN;
}

/* A question about the kernel that a domain's vCPUs run. */
struct question {
	const struct kernel_image *image; /* NULL: which one is it? */
	const struct kernel_given *given; /* of one that is not known */
	struct kernel_identity found;
	struct error why; /* why there is no match; code 0: libvirt did not answer */
};

static int ask(struct question *q, struct guest *guest, const struct guest_sregs *vcpus)
{
	if (q->image)
		return kernel_check(guest, q->image, vcpus, guest->nr_vcpus, &q->found.kernel,
				    &q->why);
	return kernel_identify(guest, vcpus, guest->nr_vcpus, q->given, &q->found, &q->why);
}

static bool is_any_in_long_mode(const struct guest_sregs *vcpus, unsigned int n)
{
	bool any = false;

	for (unsigned int i = 0; i < n; i++)
		any |= vcpu_in_long_mode(&vcpus[i]);
	return any;
}

/* A domain that can be read only while it is stopped is stopped for each try. */
static int try_to_ask(struct question *q, struct libvirt_domain *domain, struct guest *guest,
		      struct guest_sregs *vcpus, struct error *err)
{
	int ret;

	q->why.code = 0;
	ret = guest_hold_to_read(guest, err);
	if (ret)
		return ret;
	ret = libvirt_read_registers(domain, vcpus, guest->nr_vcpus, err);
	if (!ret)
		ret = ask(q, guest, vcpus);
	return guest_release(guest, ret, err);
}

static int ask_repeatedly(struct question *q, struct libvirt_domain *domain, struct guest *guest,
			  struct error *err)
{
	const uint64_t end = clock_monotonic_ms() + MORE_TRIES_MS;
	struct guest_sregs vcpus[LIBVIRT_MAX_VCPUS];
	bool more = true;
	int ret = -EAGAIN;

	for (int i = 0; more && may_change(ret); i++) {
		if (i)
			clock_wait_ms(TRY_MS);
		ret = try_to_ask(q, domain, guest, vcpus, err);
		if (!q->why.code && ret)
			return ret;
		more = i + 1 < TRIES ||
		       (is_any_in_long_mode(vcpus, guest->nr_vcpus) && clock_monotonic_ms() < end);
	}
	return ret;
}

int attach_kernel_refuse(const char *domain, const struct error *why, struct error *err)
{
	/* the kernel is there: it lacks something, or what is given for it is another's */
	if (why->code == ESTALE || why->code == ENOTSUP)
		return error_set(err, why->code, "domain %s: %s", domain, why->text);
	return error_set(err, why->code, "no kernel found in domain %s: %s; %s", domain, why->text,
			 advice(why->code));
}

int attach_kernel_identify(struct libvirt_domain *domain, struct libvirt_guest *guest,
			   const struct kernel_given *given, struct kernel_image **image,
			   struct attach_kernel *out, struct error *err)
{
	struct question q = {.given = given};
	int ret = ask_repeatedly(&q, domain, libvirt_guest(guest), err);

	if (ret && !q.why.code)
		return ret;
	if (ret)
		return attach_kernel_refuse(domain->name, &q.why, err);
	*image = q.found.image;
	out->kernel = q.found.kernel;
	snprintf(out->how, sizeof(out->how),
		 "read from guest memory, through the page tables of vCPU %u%s", q.found.vcpu,
		 q.found.slide_assumed ? "; the slide is a guess (no vmcoreinfo)" : "");
	return 0;
}

int attach_kernel_check(struct libvirt_domain *domain, struct libvirt_guest *guest,
			const struct kernel_image *image, const char *path,
			struct attach_kernel *out, struct error *err)
{
	struct question q = {.image = image};
	int ret = ask_repeatedly(&q, domain, libvirt_guest(guest), err);

	if (ret && !q.why.code)
		return ret;
	if (ret)
		return error_set(err, -ret, "domain %s does not run %.120s: %s", domain->name, path,
				 q.why.text);
	out->kernel = q.found.kernel;
	snprintf(out->how, sizeof(out->how), "as in %.120s", path);
	return 0;
}
