/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FAKE_QEMU_INTERNAL_H
#define SONDE_TESTS_LIB_FAKE_QEMU_INTERNAL_H

#include <pthread.h>
#include "tests/lib/fake-int3.h"
#include "tests/lib/fake-qemu.h"

/*
 * What the parts of the fake domain share: fake-qemu.c (run state, monitor, process),
 * fake-gdbstub.c, fake-libvirt.c and fake-qemu-control.c (what a test does to it and sees of it).
 */
enum {
	MAX_VCPUS = 4,
	MAX_BREAKS = 32,
	MAX_PACKET = 4096,
	NR_REGISTERS = 17, /* the general ones and RIP, as in a `G` packet */
	RIP = 16,
};

enum run { RUNNING, PAUSED, DEBUG };
enum reason { BY_UNKNOWN = 0, BY_USER = 1, BY_MIGRATION = 2 }; /* virDomainPausedReason */

struct fake_qemu {
	pthread_mutex_t lock;
	enum run run;
	enum reason reason; /* libvirt's, while it does not run */
	bool dead_libvirtd;
	atomic_bool busy_libvirtd;
	_Atomic unsigned int nr_waiting; /* for it */
	bool panicked;
	const char *refused; /* a command of the monitor, after `spare` others; NULL: none */
	unsigned int spare;
	unsigned int keep_alive_s; /* of the last connection; 0: not asked for */
	unsigned int nr_vcpus;
	uint64_t registers[MAX_VCPUS][NR_REGISTERS];
	uint64_t breaks[MAX_VCPUS][MAX_BREAKS]; /* 0: none */
	unsigned int chosen;                    /* by Hc and Hg */
	bool kvm;                               /* breakpoints are bytes in the RAM: */
	struct fake_int3s int3s;
	uint64_t cr3[MAX_VCPUS]; /* 0: real mode */
	uint32_t cs[MAX_VCPUS];
	unsigned int resets;
	uint8_t *ram;
	pid_t pid;
	struct libvirt_process process;

	int passed;    /* by getfd; -1: none */
	bool hidden;   /* from libvirt */
	bool unmapped; /* by the guest: the device is */
	bool device;   /* the memory device is plugged in, under this name: */
	char alias[64];
	bool dimm;    /* a memory module is plugged in */
	bool chardev; /* there is one, of ours */
	bool server;  /* the gdbstub uses it */
	int fd;       /* its connection; -1: none */
	pthread_t thread;
	bool has_thread;
	pid_t thread_pid; /* the process that has it */

	enum fake_notices notices;
	bool crosses; /* fake_qemu_cross(): */
	uint64_t crossing_rip;
	_Atomic unsigned int late_ms, status_queries;
	bool unacked; /* the gdbstub's last packet is not acknowledged */
	char packet[MAX_PACKET];
	size_t nr_packet;
	enum { IDLE, BODY, SUM1, SUM2 } state;
	fake_fault_fn *fault;
	void *fault_arg;
};

/* All of these are called with the lock held. */

/* QEMU, vm_stop(): nothing if it does not run. `vcpu`: the one that the gdbstub names. */
void fake_qemu_stop(struct fake_qemu *q, enum run run, enum reason reason, unsigned int vcpu);
/* It runs, until a vCPU stands at a breakpoint. */
void fake_qemu_run(struct fake_qemu *q);
void fake_qemu_reset(struct fake_qemu *q);
/* Where this process has guest-physical memory; NULL if some of it is no memory. */
uint8_t *fake_qemu_hva(struct fake_qemu *q, uint64_t gpa, uint64_t size);
/* The monitor's answer to a command, in JSON or that of a human's (LIBVIRT_QEMU_HMP); free() it. */
char *fake_qemu_answer(struct fake_qemu *q, const char *text, unsigned int flags);

/* The monitor has a gdbstub take over the descriptor that was passed to it. */
void fake_gdbstub_start(struct fake_qemu *q);
/* Releases the lock for a moment. */
void fake_gdbstub_end(struct fake_qemu *q);
/* A notice of a stop with this signal, two hexadecimal digits. */
void fake_gdbstub_notify(struct fake_qemu *q, const char *signal, unsigned int vcpu);

/* libvirt's only domain from now on; NULL: it has none. Without the lock. */
void fake_libvirt_list(struct fake_qemu *q);

#endif
