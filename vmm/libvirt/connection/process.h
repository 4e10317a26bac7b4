/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_CONNECTION_PROCESS_H
#define SONDE_VMM_LIBVIRT_CONNECTION_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "formats/base/error.h"

/*
 * The QEMU process of a domain. libvirt identifies a domain by its uuid, and sends commands to the
 * QEMU that the domain has at that time. Only the process tells a domain that was destroyed and
 * started again from the one that was traced.
 */

/*
 * One start of a domain: the host's boot, and when after it QEMU was started (/proc/PID/stat, field
 * 22: clock ticks since boot). Unlike a PID, it is the same in all PID namespaces.
 */
enum { LIBVIRT_BOOT_TEXT = 37 /* a uuid, with the NUL */ };
struct libvirt_instance {
	char boot[LIBVIRT_BOOT_TEXT]; /* /proc/sys/kernel/random/boot_id; "": unknown */
	uint64_t start;
	bool has_user; /* `user` is known */
	uid_t user;    /* that QEMU runs as */
};
/* Whether both are known and differ. */
bool libvirt_instances_differ(const struct libvirt_instance *a, const struct libvirt_instance *b);

struct libvirt_process {
	pid_t pid; /* 0: unknown */
	int fd;    /* a pidfd, -1: none */
	struct libvirt_instance instance;
	struct error why; /* the reason if pid is unknown */
};

/*
 * libvirt's pid file of a domain: "/run/libvirt/qemu/NAME.pid" or that of a session. `uri` is the
 * connection's, `runtime` the folder that a session has its own in ($XDG_RUNTIME_DIR, or the user's
 * cache). "": unknown. Pure.
 */
void libvirt_pid_file(const char *uri, const char *name, const char *runtime, char *out,
		      size_t size);

/*
 * Find a domain's QEMU: the process in `pid_file`, or else among the visible processes of root and
 * of this user, or else among those of libvirt's user for its QEMUs and in its control group. Other
 * local users may run processes with any arguments, so those do not count.
 * libvirt_process_close() is due in any case.
 */
void libvirt_process_open(const char *uuid, const char *pid_file, struct libvirt_process *out);
/* A process that was zeroed and never opened may be closed, too. */
void libvirt_process_close(struct libvirt_process *process);
/* False if the process is unknown. From any thread. */
bool libvirt_process_ended(const struct libvirt_process *process);

/* The user that QEMU runs as. False if the process is not visible. */
bool libvirt_process_user(const struct libvirt_process *process, uid_t *out);
/* Whether what belongs to this user may be QEMU's: it is the user that QEMU runs as, or, if that is
 * not visible, libvirt's for QEMU; or root, or this process's own. */
bool libvirt_process_owns(const struct libvirt_process *process, uid_t owner);

/* Whether QEMU was started with an option that uses this character device; its gdbstub's (-gdb) does
 * not count. False if the process is not visible. */
bool libvirt_process_uses_chardev(const struct libvirt_process *process, const char *label);

/* Whether a visible process is this instance of the domain's QEMU; or may be it if the instance is
 * unknown: a process that libvirt_process_open() looks among. */
bool libvirt_instance_runs(const char *uuid, const struct libvirt_instance *instance);

/* Whether a /proc/PID/cgroup (cgroups(7)) has libvirt's control groups for domains, in which only
 * root can put a process (libvirt, src/util/vircgroup.c). Pure. */
bool libvirt_is_in_machines(const char *cgroups);

/* A number behind the name in the text of a /proc/PID/stat (proc(5), which counts fields from 1).
 * False: malformed. Pure. */
enum { LIBVIRT_STAT_START = 22 };
bool libvirt_parse_stat(const char *text, unsigned int field, uint64_t *out);

#endif
