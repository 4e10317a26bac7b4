/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>
#include <stdio.h>
#include "formats/base/text.h"
#include "guest-symbols/image/kernel-image.h"
#include "introspect/guest/memory.h"
#include "patcher/session/session.h"
#include "vmm/libvirt/attach/attach.h"
#include "vmm/libvirt/backend/shmem.h"

enum { HEX_ROOM = 3 * PATCH_MAX_SIZE };

/* --- the domain ------------------------------------------------------------------------------ */

void attach_print(struct attach *a, FILE *to)
{
	unsigned int vcpus = libvirt_guest_present_vcpus(a->guest);
	unsigned int slots = libvirt_guest(a->guest)->nr_vcpus;

	fprintf(to, "domain   %s (%s), %s", a->domain.name, a->domain.uuid,
		text_number(vcpus, "vCPU").s);
	if (slots > vcpus)
		fprintf(to, ", room for %u", slots);
	fputc('\n', to);
	fprintf(to, "memory   %s\n", libvirt_guest_memory_text(a->guest));
	recorder_print_kernel(a->recorder, a->kernel.how, to);
}

/* --- what tracing would change -----------------------------------------------------------------
 */

static void print_device(struct attach *a, FILE *to)
{
	struct error err;
	char place[160];

	if (libvirt_shmem_describe(&a->domain, place, sizeof(place), &err))
		fprintf(to, "device   cannot be plugged in: %s\n", err.text);
	else
		fprintf(to,
			"device   <shmem> 'ua-sonde-...' of %d MiB (ivshmem-plain) is plugged in\n"
			"         %s; it is unplugged at the end\n",
			LIBVIRT_SHMEM_BYTES >> 20, place);
}

static const char trap_risks[] =
	"risks    each breakpoint stops the domain for 5 to 15 ms; libvirt reports these pauses\n"
	"         to its clients (suspended, resumed), and marks the domain as tainted, as it\n"
	"         does for every use of QEMU's monitor, this listing included; a KVM domain must\n"
	"         be neither migrated nor saved while it is traced\n";

static const char exitless_risks[] =
	"risks    the domain stands still when tracing begins and when it ends (30 to 200 ms\n"
	"         were measured); libvirt reports these pauses (suspended, resumed) and the\n"
	"         device (added, removed) to its clients, and marks the domain as tainted, as\n"
	"         it does for every use of QEMU's monitor, this listing included; while it is\n"
	"         traced, the domain can be neither migrated nor saved, and its guest cannot\n"
	"         suspend (EBUSY)\n";

static const char dead_tracer_risks[] =
	"         if tracer and watchdog are both killed, or libvirtd hangs, ftrace waits for\n"
	"         20 s, and then finds jumps that are not its own: it warns, and switches itself\n"
	"         off; until 'sonde recover', kprobes inside functions, hibernation and suspend\n"
	"         fail with EBUSY\n";

static void print_breaks(const struct attach *a, FILE *to)
{
	uint64_t max_rate = a->options->recorder.max_rate;

	fputs("breaks   breakpoints of QEMU's gdbstub, which no debugger can use meanwhile;\n", to);
	if (max_rate)
		fprintf(to, "         at most %s per second are traced\n",
			text_number(max_rate, "call").s);
	else
		fputs("         the number of calls per second has no bound\n", to);
}

/* What the guest may do with its own text and kernel meanwhile. */
static void print_yields(const struct trace_status *status, bool exitless, FILE *to)
{
	const char *before = "yields   to the guest's own ";
	bool any = false;

	for (unsigned int i = 0; i < status->nr_yields; i++) {
		if (status->yields[i].refusal[0])
			continue;
		fprintf(to, "%s%s", before, status->yields[i].to);
		before = ", ";
		any = true;
	}
	if (any)
		fputs(": the tracer gives way\n", to);
	for (unsigned int i = 0; i < status->nr_yields; i++)
		if (status->yields[i].refusal[0])
			fprintf(to, "         not to %s, do not use it meanwhile: %s\n",
				status->yields[i].to, status->yields[i].refusal);
	if (any && exitless)
		fputs(dead_tracer_risks, to);
}

static void print_row(const struct kernel *kernel, const struct patch *p, const char *becomes,
		      FILE *to)
{
	char hex[HEX_ROOM + 1] = "";
	uint64_t gpa = 0;

	for (unsigned int i = 0; i < p->size && i < PATCH_MAX_SIZE; i++)
		snprintf(hex + 3 * i, 4, "%02x ", p->old_bytes[i]);
	kernel_translate(kernel, p->gva, &gpa, NULL);
	fprintf(to, " %016" PRIx64 "  %12" PRIx64 "  %-15s%-20s%s\n", p->gva, gpa, hex, becomes,
		p->function);
}

static void print_places(const struct kernel *kernel, const struct patch_plan *plan, bool breaks,
			 FILE *to)
{
	fprintf(to,
		"patches  entries of functions: %s, returns: %s; %s at the end\n\n"
		" %-16s  %12s  %-15s%-20sFUNCTION\n",
		text_count(plan->entries.n).s, text_count(plan->returns.n).s,
		breaks ? "breakpoints are removed" : "the original bytes are restored",
		"GUEST-VIRTUAL", "PHYSICAL", "BYTES NOW", "BECOMES");
	for (size_t i = 0; i < plan->entries.n; i++)
		print_row(kernel, &plan->entries.v[i],
			  breaks ? "break, at entry" : "jump, at entry", to);
	for (size_t i = 0; i < plan->returns.n; i++)
		print_row(kernel, &plan->returns.v[i],
			  breaks ? "break, at return" : "jump, at return", to);
}

static void print_gaps(const struct trace_status *status, FILE *to)
{
	if (status->nr_gaps)
		fputs("\n NOT TRACED                REASON\n", to);
	for (size_t i = 0; i < status->nr_gaps; i++)
		fprintf(to, " %-24s  %s\n", status->gaps[i].function, status->gaps[i].reason);
}

static void print_instances(const struct trace_status *status, bool verbose, FILE *to)
{
	for (unsigned int i = 0; i < status->nr_specs; i++) {
		const struct trace_instance_status *instance = &status->instances[i];

		fprintf(to, "%-8s %s: %s", i ? "" : "tracers", instance->spec,
			text_number(instance->sites, "function").s);
		if (instance->nr_refused)
			fprintf(to, ", %s refused%s", text_count(instance->nr_refused).s,
				verbose || !instance->direct ? "" : " (-v: which)");
		fputc('\n', to);
		recorder_print_conditions(instance, "         ", "\n", to);
		for (size_t k = 0; verbose && instance->direct && k < instance->nr_refused; k++)
			fprintf(to, "         refused %s: %s\n",
				instance->refused[k].function ? instance->refused[k].function : "?",
				instance->refused[k].reason);
	}
}

static int make_plan(struct attach *a, struct trace_session *session,
		     const struct patch_plan **plan, struct error *err)
{
	struct guest *guest = libvirt_guest(a->guest);
	struct error why;
	int ret = guest_hold_to_read(guest, err);

	if (ret)
		return ret;
	ret = trace_session_plan(session, a->options->recorder.specs, plan, &why);
	if (!ret && a->options->recorder.mode == RECORDER_EXITLESS)
		ret = trace_session_check_exitless(session, &why);
	return guest_release(guest, ret ? attach_refuse(a, &why, err) : 0, err);
}

int attach_print_plan(struct attach *a, FILE *to, struct error *err)
{
	const struct trace_options options = {.exitless = a->options->recorder.mode ==
							  RECORDER_EXITLESS};
	const struct kernel *kernel = &a->kernel.kernel;
	const struct patch_plan *plan;
	struct trace_session *session;
	struct trace_status status;
	int ret;

	attach_print(a, to);
	if (a->options->recorder.mode == RECORDER_TRAP) {
		print_breaks(a, to);
		fputs(trap_risks, to);
	} else {
		print_device(a, to);
		fputs(exitless_risks, to);
	}
	ret = trace_session_create(libvirt_guest(a->guest), kernel->image, NULL, &session, err);
	if (ret)
		return ret;
	trace_session_set_options(session, &options);
	trace_session_kernel_at(session, kernel->virt_slide, kernel->phys_text);
	ret = make_plan(a, session, &plan, err);
	if (!ret) {
		trace_session_status(session, &status);
		print_instances(&status, a->options->recorder.verbose, to);
		print_yields(&status, a->options->recorder.mode == RECORDER_EXITLESS, to);
		print_places(kernel, plan, a->options->recorder.mode == RECORDER_TRAP, to);
		print_gaps(&status, to);
	}
	trace_session_destroy(session);
	return ret;
}
