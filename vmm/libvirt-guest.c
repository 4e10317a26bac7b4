/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt-guest.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "vmm/gdbstub.h"
#include "vmm/libvirt-clock.h"
#include "vmm/libvirt-memory.h"
#include "vmm/libvirt-reply.h"
#include "vmm/libvirt-shmem.h"

struct libvirt_guest {
	struct guest guest;
	struct libvirt_domain *domain;
	struct libvirt_journal *journal;
	struct libvirt_memory memory;
	struct guest_region shmem; /* size 0: none */
	bool plugged, shmem_used;
	size_t nr_regions; /* atomic; of memory.regions, with the scratch memory in use */
	pthread_mutex_t stopper;
	_Atomic unsigned int stops; /* by the thread that holds `stopper` */
	atomic_bool let_go;         /* the last resume lets it run */
	struct gdbstub stub;
	struct rsp_registers registers[LIBVIRT_MAX_VCPUS];
	bool have_registers[LIBVIRT_MAX_VCPUS];              /* of this stop */
	struct libvirt_vcpu_state states[LIBVIRT_MAX_VCPUS]; /* likewise */
	bool have_states;
	struct libvirt_clock clock;
	struct tsc_clock rate; /* mult 0: not asked for yet */
};

static struct libvirt_guest *from_guest(struct guest *guest)
{
	return (struct libvirt_guest *)guest;
}

/* --- memory ---------------------------------------------------------------------------------- */

static int regions(struct guest *guest, const struct guest_region **out, size_t *n,
		   struct error *err)
{
	struct libvirt_guest *g = from_guest(guest);

	(void)err;
	*out = g->memory.regions;
	*n = __atomic_load_n(&g->nr_regions, __ATOMIC_ACQUIRE);
	return 0;
}

static int phys_read(struct guest *guest, uint64_t gpa, void *to, size_t size, struct error *err)
{
	return libvirt_memory_read(&from_guest(guest)->memory, gpa, to, size, err);
}

static int open_stub(struct libvirt_guest *g, struct error *err)
{
	if (!atomic_load(&g->stops))
		return error_set(err, EBUSY, "the domain is not stopped");
	return g->stub.fd >= 0 ? 0 : gdbstub_open(&g->stub, g->domain, err);
}

static int write_piece(struct libvirt_guest *g, uint64_t gpa, const uint8_t *from, size_t size,
		       struct error *err)
{
	uint8_t before[JOURNAL_MAX_WRITE];
	int rc = guest_phys_read(&g->guest, gpa, before, size, err);

	if (rc || !memcmp(before, from, size))
		return rc;
	if (g->journal)
		rc = libvirt_journal_write(g->journal, gpa, before, from, size, err);
	return rc ? rc : rsp_write(&g->stub.rsp, gpa, from, size, err);
}

/* Through QEMU, which forgets what it has translated of code that changes. */
static int phys_write(struct guest *guest, uint64_t gpa, const void *from, size_t size,
		      struct error *err)
{
	struct libvirt_guest *g = from_guest(guest);
	const uint8_t *bytes = from;
	int rc = open_stub(g, err);

	while (!rc && size) {
		size_t n = size < JOURNAL_MAX_WRITE ? size : JOURNAL_MAX_WRITE;

		rc = write_piece(g, gpa, bytes, n, err);
		gpa += n;
		bytes += n;
		size -= n;
	}
	return rc;
}

/* --- vCPUs ----------------------------------------------------------------------------------- */

static int read_registers(struct libvirt_guest *g, unsigned int vcpu, struct error *err)
{
	int rc;

	if (vcpu >= g->guest.nr_vcpus)
		return error_set(err, EINVAL, "there is no vCPU %u", vcpu);
	if (g->have_registers[vcpu])
		return 0;
	rc = open_stub(g, err);
	if (!rc)
		rc = rsp_registers(&g->stub.rsp, vcpu, &g->registers[vcpu], err);
	g->have_registers[vcpu] = !rc;
	return rc;
}

static int get_regs(struct guest *guest, unsigned int vcpu, struct guest_regs *out,
		    struct error *err)
{
	int rc = read_registers(from_guest(guest), vcpu, err);

	if (!rc)
		*out = from_guest(guest)->registers[vcpu].regs;
	return rc;
}

static int ask_states(struct libvirt_guest *g, struct libvirt_vcpu_state *out, struct error *err)
{
	char *reply;
	int rc = libvirt_hmp(g->domain, "info registers -a", &reply, err);

	if (rc)
		return rc;
	rc = libvirt_reply_vcpus(reply, strlen(reply), out, g->guest.nr_vcpus, err);
	free(reply);
	return rc;
}

/* Of who is halted the gdbstub does not tell. */
static int read_states(struct libvirt_guest *g, struct error *err)
{
	int rc = g->have_states ? 0 : ask_states(g, g->states, err);

	g->have_states = !rc;
	return rc;
}

/* QEMU looks at each vCPU in its own thread (KVM), or at what it keeps exact all the time: level
 * and halt (emulation; registers may be old there). */
static void seen_outside(struct guest *guest, bool *outside)
{
	struct libvirt_guest *g = from_guest(guest);
	struct libvirt_vcpu_state states[LIBVIRT_MAX_VCPUS];

	if (ask_states(g, states, NULL))
		return;
	for (unsigned int i = 0; i < guest->nr_vcpus; i++)
		outside[i] |= states[i].user || states[i].halted;
}

static int get_sregs(struct guest *guest, unsigned int vcpu, struct guest_sregs *out,
		     struct error *err)
{
	struct libvirt_guest *g = from_guest(guest);
	int rc = read_registers(g, vcpu, err);

	if (!rc)
		rc = read_states(g, err);
	if (rc)
		return rc;
	*out = g->registers[vcpu].sregs;
	out->halted = g->states[vcpu].halted;
	return 0;
}

/* QEMU's RunState: only these two are left by `stop` and `cont` to what they were. */
static int ask_running(struct libvirt_guest *g, bool *running, struct error *err)
{
	json_t *reply = NULL;
	const char *status;
	int rc = libvirt_qmp(g->domain, "query-status", NULL, -1, &reply, err);

	if (rc)
		return rc;
	status = json_string_value(json_object_get(reply, "status"));
	*running = status && !strcmp(status, "running");
	if (!*running && (!status || strcmp(status, "paused")))
		rc = error_set(err, ECANCELED,
			       "the domain is neither running nor paused: it is "
			       "being moved, saved or ended");
	json_decref(reply);
	return rc;
}

static int stop_domain(struct libvirt_guest *g, struct error *err)
{
	bool running = false;
	int rc = ask_running(g, &running, err);

	if (rc || !running)
		return rc;
	if (g->journal)
		rc = libvirt_journal_stop(g->journal, true, err);
	if (!rc)
		rc = libvirt_qmp(g->domain, "stop", NULL, -1, NULL, err);
	if (!rc)
		g->let_go = true;
	return rc;
}

/* With the stopper's lock, which is kept unless this fails. */
static int stop_locked(struct libvirt_guest *g, struct error *err)
{
	int rc = 0;

	if (!atomic_load(&g->stops)) {
		rc = stop_domain(g, err);
		if (!rc)
			libvirt_clock_freeze(&g->clock, true);
		memset(g->have_registers, 0, sizeof(g->have_registers));
		g->have_states = false;
	}
	if (rc)
		pthread_mutex_unlock(&g->stopper);
	else
		atomic_fetch_add(&g->stops, 1);
	return rc;
}

static int stop(struct guest *guest, struct error *err)
{
	struct libvirt_guest *g = from_guest(guest);

	pthread_mutex_lock(&g->stopper);
	return stop_locked(g, err);
}

static int try_stop(struct guest *guest, struct error *err)
{
	struct libvirt_guest *g = from_guest(guest);

	if (pthread_mutex_trylock(&g->stopper))
		return error_set(err, EBUSY, "another thread holds the domain stopped");
	return stop_locked(g, err);
}

static int let_domain_go(struct libvirt_guest *g, struct error *err)
{
	int rc = libvirt_qmp(g->domain, "cont", NULL, -1, NULL, err);

	if (!rc && g->journal)
		rc = libvirt_journal_stop(g->journal, false, err);
	g->let_go = rc != 0;
	return rc;
}

static int resume(struct guest *guest, struct error *err)
{
	struct libvirt_guest *g = from_guest(guest);
	int rc = 0;

	if (atomic_load(&g->stops) == 1) {
		gdbstub_close(&g->stub);
		if (g->let_go)
			rc = let_domain_go(g, err);
		libvirt_clock_freeze(&g->clock, false);
	}
	atomic_fetch_sub(&g->stops, 1);
	pthread_mutex_unlock(&g->stopper);
	return rc;
}

/* By its administrator: our own stops are over soon, however long QEMU takes to make one. */
static bool is_stopped(struct guest *guest)
{
	struct libvirt_guest *g = from_guest(guest);

	return atomic_load(&g->stops) && !atomic_load(&g->let_go);
}

/* --- time ------------------------------------------------------------------------------------ */

static uint64_t tsc(struct guest *guest)
{
	return libvirt_clock_tsc(&from_guest(guest)->clock);
}

static void tsc_seen(struct guest *guest, uint64_t stamp)
{
	libvirt_clock_seen(&from_guest(guest)->clock, stamp);
}

/* All vCPUs have the same: neither QEMU's emulation nor KVM lets them drift apart, unless the guest
 * asks for it. */
static int get_tsc_clock(struct guest *guest, unsigned int vcpu, struct tsc_clock *out,
			 struct error *err)
{
	struct libvirt_guest *g = from_guest(guest);
	int rc = 0;

	(void)vcpu;
	if (!g->rate.mult)
		rc = libvirt_clock_rate(&g->clock, &g->rate, err);
	*out = g->rate;
	return rc;
}

static uint64_t clock_ns(struct guest *guest)
{
	struct tsc_clock rate;

	if (get_tsc_clock(guest, 0, &rate, NULL))
		return 0;
	return tsc_clock_ns(&rate, tsc(guest));
}

/* --- scratch memory -------------------------------------------------------------------------- */

static int scratch_add(struct guest *guest, size_t size, struct guest_region *out,
		       struct error *err)
{
	struct libvirt_guest *g = from_guest(guest);

	if (!g->plugged || g->shmem_used || size > g->shmem.size)
		return error_set(err, ENOSPC, "there is no such memory plugged into the domain");
	memset(g->shmem.hva, 0, g->shmem.size);
	*out = g->shmem;
	out->size = size;
	g->shmem_used = true;
	g->memory.regions[g->memory.nr_regions] = g->shmem;
	__atomic_store_n(&g->nr_regions, g->memory.nr_regions + 1, __ATOMIC_RELEASE);
	return 0;
}

static bool is_zero(const uint8_t *bytes, size_t size)
{
	return !bytes[0] && !memcmp(bytes, bytes + 1, size - 1);
}

/* What QEMU has translated of the code must be forgotten before other code comes there. The device
 * is unplugged later: until then TLBs may know the memory, and nothing in the guest refers to it.
 */
static int scratch_remove(struct guest *guest, const struct guest_region *scratch,
			  struct error *err)
{
	static const uint8_t zeros[RSP_MAX_WRITE];
	struct libvirt_guest *g = from_guest(guest);
	int rc = open_stub(g, err);

	for (size_t at = 0; !rc && at < scratch->size; at += sizeof(zeros))
		if (!is_zero(g->shmem.hva + at, sizeof(zeros)))
			rc = rsp_write(&g->stub.rsp, scratch->gpa + at, zeros, sizeof(zeros), err);
	__atomic_store_n(&g->nr_regions, g->memory.nr_regions, __ATOMIC_RELEASE);
	g->shmem_used = false;
	return rc;
}

static const struct guest_ops libvirt_ops = {
	.name = "libvirt",
	.regions = regions,
	.phys_read = phys_read,
	.phys_write = phys_write,
	.get_regs = get_regs,
	.get_sregs = get_sregs,
	.seen_outside = seen_outside,
	.stop = stop,
	.try_stop = try_stop,
	.resume = resume,
	.is_stopped = is_stopped,
	.clock_ns = clock_ns,
	.tsc = tsc,
	.tsc_seen = tsc_seen,
	.tsc_clock = get_tsc_clock,
	.scratch_add = scratch_add,
	.scratch_remove = scratch_remove,
};

/* --- life ------------------------------------------------------------------------------------ */

static int count_vcpus(struct libvirt_guest *g, struct error *err)
{
	json_t *reply = NULL;
	int rc = libvirt_qmp(g->domain, "query-cpus-fast", NULL, -1, &reply, err);
	size_t n = json_array_size(reply);

	json_decref(reply);
	if (rc)
		return rc;
	if (!n || n > LIBVIRT_MAX_VCPUS)
		return error_set(err, ENOTSUP, "a domain of %zu vCPUs: 1 to %d can be traced", n,
				 LIBVIRT_MAX_VCPUS);
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
	int rc;

	if (!g)
		return error_set(err, ENOMEM, "out of memory");
	g->guest = (struct guest){
		.ops = &libvirt_ops, .caps = GUEST_CAP_WRITE, .max_scratch = LIBVIRT_SHMEM_BYTES};
	g->domain = domain;
	g->journal = journal;
	g->stub.fd = -1;
	g->memory.mem_fd = -1;
	init_stopper(g);
	libvirt_clock_init(&g->clock);
	rc = count_vcpus(g, err);
	if (!rc)
		rc = libvirt_memory_open(&g->memory, domain, with_shmem, err);
	g->nr_regions = g->memory.nr_regions;
	if (rc)
		libvirt_guest_destroy(g);
	else
		*out = g;
	return rc;
}

void libvirt_guest_destroy(struct libvirt_guest *g)
{
	if (!g)
		return;
	gdbstub_close(&g->stub);
	libvirt_shmem_unmap(&g->shmem);
	libvirt_memory_close(&g->memory);
	libvirt_clock_deinit(&g->clock);
	pthread_mutex_destroy(&g->stopper);
	free(g);
}

int libvirt_guest_plug(struct libvirt_guest *g, struct error *err)
{
	int rc = libvirt_shmem_plug(g->domain, &g->shmem, err);

	/* Who fails because libvirtd died does not know: it may be there. Another's it is not. */
	g->plugged = rc != -EEXIST;
	if (!rc)
		g->guest.caps |= GUEST_CAP_SCRATCH;
	return rc;
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

const char *libvirt_guest_memory_text(const struct libvirt_guest *g)
{
	return g->memory.how;
}

void libvirt_guest_adopt_stop(struct libvirt_guest *g)
{
	g->let_go = true;
}
