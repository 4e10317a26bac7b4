/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/connection/process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_CMDLINE = 1 << 20, MAX_STAT = 2048, START_FIELD = 22 };

/* --- find it --------------------------------------------------------------------------------- */

static size_t read_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, size - 1) : 0;

	if (fd >= 0)
		close(fd);
	n = n > 0 ? n : 0;
	text[n] = '\0';
	return (size_t)n;
}

/* Whether a process was started with "-uuid UUID", as libvirt starts QEMU. */
static bool has_uuid(pid_t pid, const char *uuid)
{
	char path[64], *text = malloc(MAX_CMDLINE);
	bool found = false;
	size_t n;

	if (!text)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	n = read_file(path, text, MAX_CMDLINE);
	for (char *at = text; !found && at < text + n; at += strlen(at) + 1)
		found = !strcmp(at, "-uuid") && at + 6 < text + n && !strcmp(at + 6, uuid);
	free(text);
	return found;
}

/* Returns how many processes match; *out is the last of them. */
static unsigned int search(const char *uuid, pid_t *out)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	unsigned int found = 0;

	while (proc && (entry = readdir(proc))) {
		pid_t pid = (pid_t)atoi(entry->d_name);

		if (pid > 0 && has_uuid(pid, uuid)) {
			*out = pid;
			found++;
		}
	}
	if (proc)
		closedir(proc);
	return found;
}

bool libvirt_process_runs(const char *uuid)
{
	pid_t pid;

	return search(uuid, &pid) > 0;
}

/* --- the instance ---------------------------------------------------------------------------- */

/* The second field, the command's name, may contain spaces and parentheses. */
bool libvirt_parse_start(const char *text, uint64_t *out)
{
	const char *at = strrchr(text, ')');
	char *end;

	for (int field = 2; at && field < START_FIELD; field++)
		at = strchr(at + 1, ' ');
	if (!at || !isdigit((unsigned char)at[1]))
		return false;
	errno = 0;
	*out = strtoull(at + 1, &end, 10);
	return !errno && *end == ' ';
}

static void read_instance(pid_t pid, struct libvirt_instance *out)
{
	struct libvirt_instance now = {0};
	char path[64], text[MAX_STAT];

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	read_file(path, text, sizeof(text));
	if (!libvirt_parse_start(text, &now.start))
		return;
	if (read_file("/proc/sys/kernel/random/boot_id", now.boot, sizeof(now.boot)) ==
	    sizeof(now.boot) - 1)
		*out = now;
}

bool libvirt_instances_differ(const struct libvirt_instance *a, const struct libvirt_instance *b)
{
	return a->boot[0] && b->boot[0] && (strcmp(a->boot, b->boot) || a->start != b->start);
}

/* --- life ------------------------------------------------------------------------------------ */

void libvirt_process_close(struct libvirt_process *p)
{
	if (p->pid && p->fd >= 0)
		close(p->fd);
	*p = (struct libvirt_process){.fd = -1};
}

void libvirt_process_open(const char *uuid, struct libvirt_process *out)
{
	unsigned int found;

	*out = (struct libvirt_process){.fd = -1};
	found = search(uuid, &out->pid);
	if (found == 1)
		out->fd = (int)syscall(SYS_pidfd_open, out->pid, 0);
	/* check again: before pidfd_open() the PID could pass to another process */
	if (found == 1 && has_uuid(out->pid, uuid)) {
		read_instance(out->pid, &out->instance);
		return;
	}
	libvirt_process_close(out);
	error_set(&out->why, ESRCH,
		  found > 1 ? "several processes on this host claim to be the domain's QEMU"
			    : "the domain's QEMU is not among the visible processes");
}

bool libvirt_process_ended(const struct libvirt_process *p)
{
	struct pollfd poll_fd = {.fd = p->fd, .events = POLLIN};

	return p->pid && p->fd >= 0 && poll(&poll_fd, 1, 0) > 0;
}
