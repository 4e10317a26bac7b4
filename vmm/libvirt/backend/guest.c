/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/clock.h"
#include "vmm/libvirt/backend/internal.h"
#include "vmm/libvirt/backend/shmem.h"

/* --- memory ---------------------------------------------------------------------------------- */

static int regions(struct guest *guest, const struct guest_region **out, size_t *n,
		   struct error *err)
{
	struct libvirt_guest *g = libvirt_from_guest(guest);

	(void)err;
	libvirt_memory_regions(&g->memory, out, n);
	return 0;
}

static int follow(struct guest *guest, struct error *err)
{
	struct libvirt_guest *g = libvirt_from_guest(guest);

	return libvirt_memory_follow(&g->memory, g->domain, err);
}

/* The gdbstub answers only while the guest is stopped. */
static int read_by_stub(struct libvirt_guest *g, uint64_t gpa, void *to, size_t size,
			struct error *err)
{
	int ret = libvirt_guest_stop(&g->guest, err), resumed;

	if (ret)
		return ret;
	ret = libvirt_guest_open_stub(g, err);
	if (!ret)
		ret = rsp_read(&g->stub.rsp, gpa, to, size, err);
	/* a stop around the reads of a whole kernel may take longer than others */
	if (!ret)
		atomic_store(&g->stopped_ns, clock_monotonic_ns());
	resumed = libvirt_guest_resume(&g->guest, ret ? NULL : err);
	return ret ? ret : resumed;
}

static int phys_read(struct guest *guest, uint64_t gpa, void *to, size_t size, struct error *err)
{
	struct libvirt_guest *g = libvirt_from_guest(guest);

	return g->memory.by_stub ? read_by_stub(g, gpa, to, size, err)
				 : libvirt_memory_read(&g->memory, gpa, to, size, err);
}

static int write_piece(struct libvirt_guest *g, uint64_t gpa, const uint8_t *from, size_t size,
		       struct error *err)
{
	uint8_t before[JOURNAL_MAX_WRITE];
	int ret = guest_phys_read(&g->guest, gpa, before, size, err);

	if (ret || !memcmp(before, from, size))
		return ret;
	if (g->journal)
		ret = libvirt_journal_write(g->journal, gpa, before, from, size, err);
	if (!ret)
		ret = rsp_write(&g->stub.rsp, gpa, from, size, err);
	if (!ret && g->journal)
		libvirt_journal_written(g->journal, gpa, from, size);
	return ret;
}

static int give_piece(struct libvirt_guest *g, uint64_t gpa, const uint8_t *from, size_t size,
		      struct error *err)
{
	return rsp_write(&g->stub.rsp, gpa, from, size, err);
}

typedef int piece_fn(struct libvirt_guest *g, uint64_t gpa, const uint8_t *from, size_t size,
		     struct error *err);

/* Through QEMU, which then drops its translations of changed code. */
static int write_pieces(piece_fn *fn, struct guest *guest, uint64_t gpa, const void *from,
			size_t size, struct error *err)
{
	struct libvirt_guest *g = libvirt_from_guest(guest);
	const uint8_t *bytes = from;
	int ret = libvirt_guest_open_stub(g, err);

	while (!ret && size) {
		size_t n = size < JOURNAL_MAX_WRITE ? size : JOURNAL_MAX_WRITE;

		ret = fn(g, gpa, bytes, n, err);
		gpa += n;
		bytes += n;
		size -= n;
	}
	return ret;
}

static int phys_write(struct guest *guest, uint64_t gpa, const void *from, size_t size,
		      struct error *err)
{
	return write_pieces(write_piece, guest, gpa, from, size, err);
}

static int phys_give(struct guest *guest, uint64_t gpa, const void *from, size_t size,
		     struct error *err)
{
	return write_pieces(give_piece, guest, gpa, from, size, err);
}

/* --- time ------------------------------------------------------------------------------------ */

static uint64_t tsc(struct guest *guest)
{
	return libvirt_clock_tsc(&libvirt_from_guest(guest)->clock);
}

static void tsc_seen(struct guest *guest, uint64_t stamp)
{
	libvirt_clock_seen(&libvirt_from_guest(guest)->clock, stamp);
}

/* One for all vCPUs: neither QEMU's emulation nor KVM lets their counters drift apart, unless the
 * guest writes them. They cannot be read from here: whether they differ only the guest can tell
 * (patcher/session/cpus.c). */
static int get_tsc_clock(struct guest *guest, unsigned int vcpu, struct tsc_clock *out,
			 struct error *err)
{
	struct libvirt_guest *g = libvirt_from_guest(guest);
	int ret = 0;

	(void)vcpu;
	if (!g->rate.mult)
		ret = libvirt_clock_rate(&g->clock, &g->rate, err);
	*out = g->rate;
	return ret;
}

/* Traps are stamped by the host: no stamp of the guest's counter is known then. */
static uint64_t clock_ns(struct guest *guest)
{
	struct tsc_clock rate;

	if (libvirt_from_guest(guest)->traps.enabled)
		return clock_monotonic_ns();
	if (get_tsc_clock(guest, 0, &rate, NULL))
		return 0;
	return tsc_clock_ns(&rate, libvirt_clock_estimate(&libvirt_from_guest(guest)->clock));
}

/* --- scratch memory -------------------------------------------------------------------------- */

static int scratch_add(struct guest *guest, size_t size, struct guest_region *out,
		       struct error *err)
{
	struct libvirt_guest *g = libvirt_from_guest(guest);

	if (!g->shmem.size || g->shmem_used || size > g->shmem.size)
		return error_set(err, ENOSPC,
				 "no scratch memory of this size is plugged into the domain");
	memset(g->shmem.hva, 0, g->shmem.size);
	*out = g->shmem;
	out->size = size;
	g->shmem_used = true;
	libvirt_memory_set_scratch(&g->memory, &g->shmem);
	return 0;
}

static bool is_zero(const uint8_t *bytes, size_t size)
{
	return !bytes[0] && !memcmp(bytes, bytes + 1, size - 1);
}

/* Through QEMU, so that it drops its translations before other code gets this address. The device
 * is unplugged later. Until then TLBs may still map the memory, but nothing in the guest refers to
 * it.
 */
static int scratch_remove(struct guest *guest, const struct guest_region *scratch,
			  struct error *err)
{
	static const uint8_t zeros[RSP_MAX_WRITE];
	struct libvirt_guest *g = libvirt_from_guest(guest);
	int ret = libvirt_guest_open_stub(g, err);

	for (size_t at = 0; !ret && at < scratch->size; at += sizeof(zeros))
		if (!is_zero(g->shmem.hva + at, sizeof(zeros)))
			ret = rsp_write(&g->stub.rsp, scratch->gpa + at, zeros, sizeof(zeros), err);
	libvirt_memory_set_scratch(&g->memory, NULL);
	g->shmem_used = false;
	return ret;
}

/* QEMU keeps translations of what stood there. Through QEMU the same bytes make it drop them. */
static int scratch_renew(struct guest *guest, const struct guest_region *code, struct error *err)
{
	struct libvirt_guest *g = libvirt_from_guest(guest);
	int ret = libvirt_guest_open_stub(g, err);

	for (size_t at = 0, n; !ret && at < code->size; at += n) {
		n = code->size - at < RSP_MAX_WRITE ? code->size - at : RSP_MAX_WRITE;
		ret = rsp_write(&g->stub.rsp, code->gpa + at, code->hva + at, n, err);
	}
	return ret;
}

static const struct guest_memory_ops memory_ops = {.regions = regions,
						   .follow = follow,
						   .read = phys_read,
						   .write = phys_write,
						   .give = phys_give};
static const struct guest_control_ops control_ops = {
	.stop = libvirt_guest_stop,
	.resume = libvirt_guest_resume,
	.try_stop = libvirt_guest_try_stop,
	.is_stopped = libvirt_guest_is_stopped,
	.sample_idle = libvirt_guest_sample_idle,
	.get_regs = libvirt_guest_get_regs,
	.get_sregs = libvirt_guest_get_sregs,
};
static const struct guest_trap_ops trap_ops = {.set_handler = libvirt_guest_set_trap_handler,
					       .set_break = libvirt_guest_set_break};
static const struct guest_clock_ops clock_ops = {
	.now_ns = clock_ns, .tsc = tsc, .tsc_seen = tsc_seen, .tsc_clock = get_tsc_clock};
static const struct guest_scratch_ops scratch_ops = {
	.add = scratch_add, .remove = scratch_remove, .renew = scratch_renew};

/* --- life ------------------------------------------------------------------------------------ */

/* The vCPUs that are plugged in now. */
static int count_present(struct libvirt_guest *g, struct error *err)
{
	json_t *reply = NULL;
	int ret = libvirt_qmp(g->domain, "query-cpus-fast", NULL, -1, &reply, err);

	if (ret)
		return ret;
	g->nr_present = json_array_size(reply);
	if (strcmp(libvirt_reply_target(reply), "x86_64"))
		ret = error_set(err, ENOTSUP,
				"domain %s has %.16s vCPUs: only x86_64 guests can be traced",
				g->domain->name, libvirt_reply_target(reply));
	json_decref(reply);
	return ret;
}

/* The slots for vCPUs: one may be plugged in while the guest is traced, and the guest already knows
 * all slots. */
static int count_vcpus(struct libvirt_guest *g, struct error *err)
{
	json_t *reply = NULL;
	int ret = count_present(g, err);
	size_t n;

	if (ret)
		return ret;
	ret = libvirt_qmp(g->domain, "query-hotpluggable-cpus", NULL, -1, &reply, err);
	if (ret && ret != -EREMOTEIO)
		return ret;
	n = ret ? g->nr_present : libvirt_reply_vcpu_slots(reply);
	json_decref(reply);
	if (!g->nr_present || n < g->nr_present || n > LIBVIRT_MAX_VCPUS)
		return error_set(err, ENOTSUP,
				 "domain %s has %zu vCPUs and room for %zu: 1 to %d can be traced",
				 g->domain->name, g->nr_present, n, LIBVIRT_MAX_VCPUS);
	g->guest.nr_vcpus = (unsigned int)n;
	return 0;
}

static void init_stopper(struct libvirt_guest *g)
{
	pthread_mutexattr_t recursive;

	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&g->stopper, &recursive);
	pthread_mutexattr_destroy(&recursive);
}

int libvirt_guest_create(struct libvirt_domain *domain, struct libvirt_journal *journal,
			 bool with_shmem, struct libvirt_guest **out, struct error *err)
{
	struct libvirt_guest *g = calloc(1, sizeof(*g));
	int ret;

	if (!g)
		return error_set(err, ENOMEM, "out of memory");
	g->guest = (struct guest){.name = "libvirt",
				  .memory = &memory_ops,
				  .control = &control_ops,
				  .traps = &trap_ops,
				  .clock = &clock_ops,
				  .scratch = &scratch_ops,
				  .caps = GUEST_CAP_WRITE,
				  .max_scratch = LIBVIRT_SHMEM_BYTES};
	g->domain = domain;
	g->journal = journal;
	g->stub.fd = -1;
	g->memory.mem_fd = -1;
	libvirt_traps_init(&g->traps);
	init_stopper(g);
	libvirt_clock_init(&g->clock);
	ret = count_vcpus(g, err);
	if (!ret)
		ret = libvirt_memory_open(&g->memory, domain, with_shmem, err);
	if (g->memory.by_stub)
		g->guest.caps |= GUEST_STOPS_TO_READ;
	if (ret)
		libvirt_guest_destroy(g);
	else
		*out = g;
	return ret;
}

void libvirt_guest_destroy(struct libvirt_guest *g)
{
	if (!g)
		return;
	libvirt_traps_deinit(g);
	/* closing sends bytes, which stop a running guest */
	if (!g->traps.running)
		gdbstub_close(&g->stub, NULL);
	gdbstub_drop(&g->stub);
	libvirt_shmem_unmap(&g->shmem);
	libvirt_memory_close(&g->memory);
	libvirt_clock_deinit(&g->clock);
	pthread_mutex_destroy(&g->stopper);
	free(g);
}

int libvirt_guest_plug(struct libvirt_guest *g, struct error *err)
{
	int ret;

	if (g->memory.by_stub)
		return error_set(err, EACCES, "the domain's memory can only be read %s",
				 g->memory.how);
	ret = libvirt_shmem_plug(g->domain, g->journal, &g->shmem, &g->plugged, err);
	if (!ret)
		g->guest.caps |= GUEST_CAP_SCRATCH;
	return ret;
}

int libvirt_guest_unplug(struct libvirt_guest *g, struct error *err)
{
	if (!g->plugged)
		return 0;
	g->plugged = false;
	return libvirt_shmem_unplug(g->domain, err);
}

struct guest *libvirt_guest(struct libvirt_guest *g)
{
	return &g->guest;
}

unsigned int libvirt_guest_present_vcpus(const struct libvirt_guest *g)
{
	return (unsigned int)g->nr_present;
}

const char *libvirt_guest_memory_text(const struct libvirt_guest *g)
{
	return g->memory.how;
}

bool libvirt_guest_is_slow(const struct libvirt_guest *g)
{
	return g->memory.by_stub;
}
