/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_CONNECTION_PROCESS_H
#define SONDE_VMM_LIBVIRT_CONNECTION_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "formats/base/error.h"

/*
 * The QEMU process of a domain. libvirt knows a domain by its uuid, and commands reach whichever
 * QEMU it has now: a domain that was destroyed and started again is told from the one that was
 * traced by its process only.
 */

/*
 * One start of a domain: when its QEMU was started (/proc/PID/stat, field 22: clock ticks since
 * boot), and since which boot. Unlike a number of a process it is the same in all PID namespaces.
 */
enum { LIBVIRT_BOOT_TEXT = 37 /* a uuid, with the NUL */ };
struct libvirt_instance {
	char boot[LIBVIRT_BOOT_TEXT]; /* /proc/sys/kernel/random/boot_id; "": not known */
	uint64_t start;
};
/* Both are known, and are not the same. */
bool libvirt_instances_differ(const struct libvirt_instance *a, const struct libvirt_instance *b);

struct libvirt_process {
	pid_t pid; /* 0: not known */
	int fd;    /* a pidfd, -1: none */
	struct libvirt_instance instance;
	struct error why; /* it is not known */
};

/* Look for it among the processes that can be seen; libvirt_process_close() in any case. */
void libvirt_process_open(const char *uuid, struct libvirt_process *out);
/* Also of what was zeroed and never opened. */
void libvirt_process_close(struct libvirt_process *process);
/* False where it is not known. From any thread. */
bool libvirt_process_ended(const struct libvirt_process *process);

/* Whether any process that can be seen was started as this domain's QEMU. */
bool libvirt_process_runs(const char *uuid);

/* When a process was started, of the text of its /proc/PID/stat (proc(5)); pure. False if that is
 * none. */
bool libvirt_parse_start(const char *text, uint64_t *out);

#endif
