/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_UNIT_VMM_LIBVIRT_RECOVERY_RECOVER_FIXTURE_H
#define SONDE_TESTS_UNIT_VMM_LIBVIRT_RECOVERY_RECOVER_FIXTURE_H

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "tests/lib/dead-process.h"
#include "tests/lib/fake-qemu.h"
#include "tests/lib/tap.h"
#include "vmm/libvirt/gdb/rsp.h"
#include "vmm/libvirt/gdb/stub.h"
#include "vmm/libvirt/recovery/recover.h"

/* A domain whose tracer has a journal, and dies. libvirt has no other domain. */
enum { NOBODY = 65534, OTHER_PLACE = 0x3000, GVA = 0x1000 };

int libvirt_lib_load(const struct libvirt_api **out, struct error *err)
{
	(void)err;
	*out = fake_qemu_libvirt();
	return 0;
}

static char folder[] = "/tmp/test-recover-XXXXXX";
static struct fake_qemu *qemu;
static struct libvirt_domain domain;
static struct libvirt_journal journal;
static struct libvirt_recovery outcome;
static struct error why;

/* Tracers and watchdogs, which are forked, have its other end open, and so has QEMU. */
static int others[2];

/* A watchdog has more to do with the domain when it has removed the journal. */
static inline void await_others(void)
{
	enum { MOST_MS = 20000 };
	struct pollfd end = {.fd = others[0], .events = POLLIN};

	close(others[1]);
	if (poll(&end, 1, MOST_MS) < 0)
		abort();
	close(others[0]);
}

/* A tracer has a journal of a running domain. */
static inline void begin(void)
{
	if (pipe(others))
		abort();
	qemu = fake_qemu_create(2);
	domain = fake_qemu_domain(qemu);
	if (libvirt_journal_create(fake_qemu_uuid(), &journal, NULL) ||
	    libvirt_journal_instance(&journal, &domain.qemu.instance, NULL))
		abort();
	memset(&why, 0, sizeof(why));
}

static inline bool has_journal(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/sonde/%s", folder, fake_qemu_uuid());
	return !access(path, F_OK);
}

static inline void end(void)
{
	struct libvirt_journal left;

	fake_qemu_kill(qemu);
	await_others();
	if (!libvirt_journal_adopt(fake_qemu_uuid(), &left, NULL))
		libvirt_journal_remove(&left);
	fake_qemu_destroy(qemu);
}

/* The tracer dies; a recovery follows. */
static inline int recover(bool just_died)
{
	libvirt_journal_close(&journal);
	return libvirt_recover(NULL, fake_qemu_uuid(), just_died, 0, &outcome, &why);
}

/* The tracer has written into the guest's memory. */
static inline void write_ours(uint64_t gpa, const char *original, const char *ours, size_t size)
{
	if (libvirt_journal_write(&journal, gpa, (const uint8_t *)original, (const uint8_t *)ours,
				  size, NULL))
		abort();
	memcpy(fake_qemu_ram(qemu) + gpa, ours, size);
}

static inline bool holds(uint64_t gpa, const char *text)
{
	return !memcmp(fake_qemu_ram(qemu) + gpa, text, strlen(text));
}

/* The domain stands at a breakpoint. */
static inline void reach_breakpoint(struct gdbstub *stub)
{
	libvirt_journal_breaks(&journal, NULL);
	if (gdbstub_open(stub, &domain, NULL) || rsp_breakpoint(&stub->rsp, GVA, true, NULL) ||
	    rsp_continue(&stub->rsp, NULL))
		abort();
	fake_qemu_reach(qemu, 0, GVA);
}

/* Its tracer's connection has ended. */
static inline void stand_at_breakpoint(void)
{
	struct gdbstub stub;

	reach_breakpoint(&stub);
	gdbstub_drop(&stub);
}

/* This process, which is forked, is the tracer, and has the journal. */
static inline void be_tracer(void)
{
	struct libvirt_pid self;

	libvirt_pid_self(&self);
	if (libvirt_journal_adopt(fake_qemu_uuid(), &journal, NULL) ||
	    libvirt_journal_tracer(&journal, &self, NULL))
		_exit(99);
}

/* The tracer is dead, but has not ended: it has the journal, and the connection to the gdbstub. */
static inline pid_t start_dead_tracer(void (*fn)(void))
{
	struct gdbstub stub;
	pid_t pid;

	reach_breakpoint(&stub);
	libvirt_journal_close(&journal);
	pid = dead_process_start(fn);
	gdbstub_drop(&stub);
	return pid;
}

static inline void end_dead_tracer(pid_t pid)
{
	dead_process_end(pid);
	dead_process_reap(pid);
}

static inline void stop_by_monitor(void)
{
	struct gdbstub stub;

	/* opening the gdbstub stops a domain, as QEMU's monitor does: without a reason */
	if (gdbstub_open(&stub, &domain, NULL) || gdbstub_close(&stub, NULL))
		abort();
}

static _Atomic unsigned int *deaf; /* how often it was; shared with processes that are forked */

static inline enum fake_fault be_deaf(void *arg, const char *packet)
{
	(void)arg;
	if (packet[0] != '?')
		return FAKE_OBEY;
	++*deaf;
	return FAKE_CUT;
}

static inline enum fake_fault end_qemu(void *arg, const char *packet)
{
	(void)arg;
	if (packet[0] != '?')
		return FAKE_OBEY;
	fake_qemu_kill(qemu);
	/* it is a child of another process, if this one is a watchdog */
	for (int i = 0; i < 5000 && !libvirt_process_ended(&domain.qemu); i++)
		clock_wait_ms(1);
	return FAKE_CUT;
}

/* Tests without privileges, whose journals are in a folder of their own: call it first in main().
 */
static inline void set_up_tests(int argc, char **argv)
{
	fake_qemu_main(argc, argv);
	if (!mkdtemp(folder) || setenv("XDG_RUNTIME_DIR", folder, 1))
		abort();
	if (!geteuid() && (chown(folder, NOBODY, NOBODY) || setgid(NOBODY) || setuid(NOBODY)))
		abort();
	prctl(PR_SET_DUMPABLE, 1);
	deaf = mmap(NULL, sizeof(*deaf), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (deaf == MAP_FAILED)
		abort();
}

/* Call it last in main(), and return what it does. */
static inline int end_tests(void)
{
	char journals[64];

	snprintf(journals, sizeof(journals), "%s/sonde", folder);
	ok(!rmdir(journals) && !rmdir(folder), "no journal is left");
	return tap_done();
}

#endif
