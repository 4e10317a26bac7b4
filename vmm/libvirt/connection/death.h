/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_CONNECTION_DEATH_H
#define SONDE_VMM_LIBVIRT_CONNECTION_DEATH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A process that is killed does not end while one of its threads hangs in the kernel, such as in a
 * write to a frozen file system: it keeps its descriptors. It is dead all the same, as none of its
 * threads runs code of its own any more. One may end its system call.
 */
enum libvirt_life {
	LIBVIRT_LIVES, /* or it is not known */
	LIBVIRT_HANGS_DEAD,
	LIBVIRT_ENDED, /* all of its threads: no descriptor is open any more */
};

/* This process's threads, for another process that looks at them later: a descriptor of
 * /proc/self/task. It stays this process's when its PID is another's. -1: there is none. */
int libvirt_threads_open(void);
enum libvirt_life libvirt_threads_life(int threads);
/* Whether this process may look at them: 0, or -errno, and they count as living for ever. A /proc
 * with `hidepid` hides a process that cannot be dumped from its own children, too. */
int libvirt_threads_try(int threads);

/* A process by its number in this /proc, and its start (LIBVIRT_STAT_START). */
struct libvirt_pid {
	pid_t pid; /* 0: unknown */
	uint64_t start;
};
/* This process. */
void libvirt_pid_self(struct libvirt_pid *out);
/* Whether it is LIBVIRT_HANGS_DEAD. False if it is not visible. */
bool libvirt_pid_hangs(const struct libvirt_pid *process);
/* The process that has locked this file, with flock(). False: it lives, or is not known. */
bool libvirt_lock_hangs(int fd, struct libvirt_pid *holder);

/* The device that /proc/locks has for a file: its mount's, which is in the text of
 * /proc/PID/mountinfo at this path. stat() has another `device` where a file system has parts, as
 * btrfs. It is returned if the mount is not known. */
dev_t libvirt_lock_device(int fd, dev_t device, const char *mountinfo);

/* Whether a thread is dead, from the text of its /proc/PID/task/TID/stat (proc(5)). Pure. */
enum libvirt_life libvirt_parse_life(const char *stat);

#endif
