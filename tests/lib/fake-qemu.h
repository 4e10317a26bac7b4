/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FAKE_QEMU_H
#define SONDE_TESTS_LIB_FAKE_QEMU_H

#include "introspect/guest/guest.h"
#include "vmm/libvirt/connection/domain.h"

/*
 * An emulated domain of libvirt: its run state as QEMU and as libvirt see it, its RAM, the monitor
 * commands that sonde sends, and the gdbstub (QEMU 7.2, gdbstub.c), whose input is served by a
 * thread. The vCPUs stand where the test puts them. A vCPU that stands at a breakpoint stops a
 * domain that runs.
 */
struct fake_qemu;

enum {
	FAKE_QEMU_RAM = 1 << 20, /* bytes, from guest-physical address 0 */
	FAKE_DEVICE_GPA = 4 << 20,
	FAKE_DEVICE_BYTES = 2 << 20,
	FAKE_DIMM_GPA = 16 << 20,
	FAKE_DIMM_BYTES = 1 << 20,
};

/* What the gdbstub does with a packet. */
enum fake_fault {
	FAKE_OBEY,
	FAKE_STALL,      /* take up nothing for FAKE_STALL_MS, then obey */
	FAKE_DOUBLE,     /* answer twice */
	FAKE_CUT,        /* send half of the reply, and close the connection */
	FAKE_INTERLEAVE, /* send a stop notice before the acknowledgement */
	FAKE_GARBAGE,    /* answer something else */
	FAKE_DEAF,       /* acknowledge, and do not answer */
	FAKE_REFUSE,     /* answer with an error, and do not obey */
	FAKE_RESET,      /* an administrator resets the machine; then obey */
};
enum { FAKE_STALL_MS = 300 };
/* Called on the gdbstub's thread. */
typedef enum fake_fault fake_fault_fn(void *arg, const char *packet);

/*
 * One running vCPU or more. Its process is a child of this one, with "-uuid UUID" among
 * its arguments. A process that is forked later shares its state; only one at a time may use it.
 */
struct fake_qemu *fake_qemu_create(unsigned int nr_vcpus);
void fake_qemu_destroy(struct fake_qemu *qemu);
/* UUID: tests that run at the same time have different ones. */
const char *fake_qemu_uuid(void);
/* Call it first in main(): it does not return in that child. */
void fake_qemu_main(int argc, char **argv);

/* libvirt, which has this domain under the name "fake", until it is destroyed. */
const struct libvirt_api *fake_qemu_libvirt(void);

/* As libvirt_domain_open() would fill it; needs no closing. */
struct libvirt_domain fake_qemu_domain(struct fake_qemu *qemu);
/* The gdbstub's notices of stops: newer QEMUs send the first one only. */
enum fake_notices {
	FAKE_ALL_NOTICES,
	FAKE_NO_NOTICES,
	FAKE_BROKEN_NOTICES,
	FAKE_STRANGE_NOTICES, /* of a vCPU that is not there */
};
void fake_qemu_set_notices(struct fake_qemu *qemu, enum fake_notices notices);
void fake_qemu_set_fault(struct fake_qemu *qemu, fake_fault_fn *fn, void *arg);
uint8_t *fake_qemu_ram(struct fake_qemu *qemu);
/* A byte of it, which the gdbstub's thread may change meanwhile. */
uint8_t fake_qemu_byte(struct fake_qemu *qemu, uint64_t gpa);
void fake_qemu_set_byte(struct fake_qemu *qemu, uint64_t gpa, uint8_t byte);
/* Sonde's memory device is plugged in; returns its memory. */
uint8_t *fake_qemu_plug(struct fake_qemu *qemu);
/* The guest has not mapped the device: it is nowhere in its memory. */
void fake_qemu_unmap(struct fake_qemu *qemu);
bool fake_qemu_has_device(struct fake_qemu *qemu);
/* A memory module is plugged in, or out; returns its memory. */
uint8_t *fake_qemu_set_dimm(struct fake_qemu *qemu, bool plugged);
/* libvirt does not know the domain, or knows it again: it is another connection's. */
void fake_qemu_hide(struct fake_qemu *qemu, bool hidden);

/*
 * From now on it uses KVM: breakpoints are bytes in its RAM (fake-int3.h). All vCPUs have these
 * page tables, and this code segment.
 */
void fake_qemu_be_kvm(struct fake_qemu *qemu, uint64_t cr3, uint32_t cs);
uint64_t fake_qemu_cr3(struct fake_qemu *qemu, unsigned int vcpu);

/* How often it was reset. A vCPU is then in real mode, at FAKE_RESET_RIP. */
unsigned int fake_qemu_resets(struct fake_qemu *qemu);
enum { FAKE_RESET_RIP = 0xfff0 };

/* Let a vCPU reach `rip`. A domain that runs stops if there is a breakpoint. */
void fake_qemu_reach(struct fake_qemu *qemu, unsigned int vcpu, uint64_t rip);
uint64_t fake_qemu_rip(struct fake_qemu *qemu, unsigned int vcpu);

/* Right before the next byte that would stop the domain, vCPU 0 reaches `rip`, or one of these
 * stops it first: QEMU itself, to complete a migration, or its administrator. */
enum { FAKE_MIGRATION, FAKE_SUSPEND };
void fake_qemu_cross(struct fake_qemu *qemu, uint64_t rip);

/* The gdbstub takes up the next byte so much later. */
void fake_qemu_be_late(struct fake_qemu *qemu, unsigned int ms);
/* How often the monitor was asked for the run state. */
unsigned int fake_qemu_status_queries(struct fake_qemu *qemu);

/* Another debugger removes all breakpoints. */
void fake_qemu_forget(struct fake_qemu *qemu);

bool fake_qemu_runs(struct fake_qemu *qemu);
/* Breakpoints in QEMU, under emulation those of each vCPU. */
size_t fake_qemu_breaks(struct fake_qemu *qemu);
/* Whether the gdbstub has a connection. */
bool fake_qemu_has_debugger(struct fake_qemu *qemu);
/* The administrator's `virsh suspend` and `virsh resume`. */
void fake_qemu_suspend(struct fake_qemu *qemu);
void fake_qemu_resume(struct fake_qemu *qemu);
/* The guest's kernel panics: libvirt keeps the domain as crashed. */
void fake_qemu_panic(struct fake_qemu *qemu);
/* libvirtd answers nothing but errors from now on, or answers again. */
void fake_qemu_set_dead_libvirtd(struct fake_qemu *qemu, bool dead);
/* libvirtd saves the domain, say: it answers when that is over. How many calls wait for it. */
void fake_qemu_set_busy_libvirtd(struct fake_qemu *qemu, bool busy);
unsigned int fake_qemu_nr_waiting(struct fake_qemu *qemu);
/* QEMU refuses this command of its monitor, but for the next `spare` ones. */
void fake_qemu_refuse(struct fake_qemu *qemu, const char *command, unsigned int spare);
/* Seconds after which libvirt ends a connection whose peer hangs; 0: never. Of the last connection,
 * when all is quiet. */
unsigned int fake_qemu_keep_alive(const struct fake_qemu *qemu);
/* The gdbstub's client has gone: wait for the thread of this process that served it. With ASan a
 * fork() beside a thread that is about to end may leave the child without malloc(). */
void fake_qemu_join(struct fake_qemu *qemu);
/* QEMU's process ends. */
void fake_qemu_kill(struct fake_qemu *qemu);

#endif
