/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/connection/process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_CMDLINE = 1 << 20, MAX_STAT = 2048 };

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

typedef bool option_fn(const char *option, const char *value, const char *wanted);

/* Whether fn() accepts one of a process's arguments and the one behind it ("" behind the last). */
static bool has_option(pid_t pid, option_fn *fn, const char *wanted)
{
	char path[64], *text = malloc(MAX_CMDLINE);
	bool found = false;
	size_t n;

	if (!text)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	n = read_file(path, text, MAX_CMDLINE);
	for (char *at = text, *next; !found && at < text + n; at = next) {
		next = at + strlen(at) + 1;
		found = fn(at, next < text + n ? next : "", wanted);
	}
	free(text);
	return found;
}

static bool is_uuid(const char *option, const char *value, const char *uuid)
{
	return !strcmp(option, "-uuid") && !strcmp(value, uuid);
}

/* Whether a process was started with "-uuid UUID", as libvirt starts QEMU. */
static bool has_uuid(pid_t pid, const char *uuid)
{
	return has_option(pid, is_uuid, uuid);
}

/* `value` has the text before + label, and one of the characters in `after`, or the end, behind. */
static bool has_word(const char *value, const char *before, const char *label, const char *after)
{
	const size_t n = strlen(before), length = strlen(label);

	for (const char *at = value; (at = strstr(at, before)); at++)
		if (!strncmp(at + n, label, length) &&
		    (!at[n + length] || strchr(after, at[n + length])))
			return true;
	return false;
}

/* QEMU takes -device and others in both forms: "x,chardev=LABEL" and {"chardev":"LABEL"}. -serial,
 * -monitor and the like take "chardev:LABEL". */
static bool uses_chardev(const char *option, const char *value, const char *label)
{
	if (*option != '-' || !strcmp(option, "-gdb") || !strcmp(option, "--gdb"))
		return false;
	return has_word(value, "chardev=", label, ",") ||
	       has_word(value, "\"chardev\":\"", label, "\"") ||
	       has_word(value, "chardev:", label, ",");
}

/* The folder of the socket that a URI names, decoded; "": it names none. */
static void socket_folder(const char *uri, char *out, size_t size)
{
	static const char key[] = "socket=";
	const char *at = strchr(uri, '?');
	size_t n = 0;

	*out = '\0';
	while (at && strncmp(at + 1, key, sizeof(key) - 1))
		at = strchr(at + 1, '&');
	if (!at)
		return;
	for (at += sizeof(key); *at && *at != '&' && n < size - 1; at++) {
		unsigned int byte;

		if (*at == '%' && sscanf(at + 1, "%2x", &byte) == 1 &&
		    isxdigit((unsigned char)at[2])) {
			out[n++] = (char)byte;
			at += 2;
		} else {
			out[n++] = *at;
		}
	}
	out[n] = '\0';
	if (strrchr(out, '/'))
		*strrchr(out, '/') = '\0';
}

static bool has_path(const char *uri, const char *path)
{
	const char *at = strstr(uri, ":///");
	size_t n = strlen(path);

	return at && !strncmp(at + 4, path, n) && (!at[4 + n] || at[4 + n] == '?');
}

/* libvirt, src/qemu/qemu_conf.c: stateDir */
void libvirt_pid_file(const char *uri, const char *name, const char *runtime, char *out,
		      size_t size)
{
	char folder[256];

	*out = '\0';
	socket_folder(uri, folder, sizeof(folder));
	if (has_path(uri, "system"))
		snprintf(out, size, "%s/qemu/%s.pid", *folder ? folder : "/run/libvirt", name);
	else if (has_path(uri, "session") && *folder)
		snprintf(out, size, "%s/qemu/run/%s.pid", folder, name);
	else if (has_path(uri, "session") && *runtime)
		snprintf(out, size, "%s/libvirt/qemu/run/%s.pid", runtime, name);
}

/* False for a program that runs with another user's rights: that user has chosen its arguments. */
static bool owner_of(pid_t pid, uid_t *out)
{
	static const char key[] = "\nUid:";
	char path[64], text[MAX_STAT];
	unsigned int real, effective, saved;
	const char *at;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	read_file(path, text, sizeof(text));
	at = strstr(text, key);
	if (!at || sscanf(at + sizeof(key) - 1, "%u %u %u", &real, &effective, &saved) != 3)
		return false;
	*out = real;
	return real == effective && real == saved;
}

/* Root may read a session's file, whose user must not lead it to another user's process. */
static pid_t read_pid_file(const char *path, const char *uuid)
{
	int fd = *path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
	char text[16] = "";
	struct stat st;
	uid_t owner;
	pid_t pid = 0;

	if (fd < 0)
		return 0;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && read(fd, text, sizeof(text) - 1) > 0)
		pid = (pid_t)atoi(text);
	close(fd);
	if (pid <= 0 || !owner_of(pid, &owner) || (st.st_uid && st.st_uid != owner))
		return 0;
	return has_uuid(pid, uuid) ? pid : 0;
}

typedef bool visit_fn(const void *arg, pid_t pid);

/* Returns how many processes with this uuid fn() accepts; *out is the last of them. */
static unsigned int search(const char *uuid, visit_fn *fn, const void *arg, pid_t *out)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	unsigned int found = 0;

	while (proc && (entry = readdir(proc))) {
		pid_t pid = (pid_t)atoi(entry->d_name);

		if (pid <= 0 || !has_uuid(pid, uuid) || !fn(arg, pid))
			continue;
		*out = pid;
		found++;
	}
	if (proc)
		closedir(proc);
	return found;
}

static bool is_trusted(const void *arg, pid_t pid)
{
	uid_t owner;

	(void)arg;
	return owner_of(pid, &owner) && (!owner || owner == geteuid());
}

/* QEMU's user at the system's libvirt, unless its configuration names another: Debian's, and
 * others'.
 */
static bool is_qemus_user(uid_t owner)
{
	static const char *const names[] = {"libvirt-qemu", "qemu"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct passwd *user = getpwnam(names[i]);

		if (user && user->pw_uid == owner)
			return true;
	}
	return false;
}

/* Those of libvirt's QEMU processes, with systemd and without: containers are in machine.slice,
 * too. */
static bool is_machine(const char *path)
{
	static const char slice[] = "/machine.slice/machine-qemu\\x2d", plain[] = "/machine/qemu-";

	return !strncmp(path, slice, sizeof(slice) - 1) || !strncmp(path, plain, sizeof(plain) - 1);
}

/* Lines of "ID:CONTROLLERS:PATH". A name in the path may have any character but a newline. */
bool libvirt_is_in_machines(const char *cgroups)
{
	for (const char *line = cgroups, *path; line; line = strchr(path, '\n')) {
		line += *line == '\n';
		path = strchr(line, ':');
		path = path ? strchr(path + 1, ':') : NULL;
		if (!path)
			return false;
		path++;
		if (is_machine(path))
			return true;
	}
	return false;
}

static bool is_in_machines(pid_t pid)
{
	char path[64], text[MAX_STAT];

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	read_file(path, text, sizeof(text));
	return libvirt_is_in_machines(text);
}

/* No process that any local user may have started. */
static bool may_be_qemu(const void *arg, pid_t pid)
{
	uid_t owner;

	return is_trusted(arg, pid) || is_in_machines(pid) ||
	       (owner_of(pid, &owner) && is_qemus_user(owner));
}

/* --- the instance ---------------------------------------------------------------------------- */

/* The second field, the command's name, may contain spaces and parentheses. */
bool libvirt_parse_stat(const char *text, unsigned int field, uint64_t *out)
{
	const char *at = strrchr(text, ')');
	char *end;

	for (unsigned int i = 2; at && i < field; i++)
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
	if (!libvirt_parse_stat(text, LIBVIRT_STAT_START, &now.start))
		return;
	now.has_user = owner_of(pid, &now.user);
	if (read_file("/proc/sys/kernel/random/boot_id", now.boot, sizeof(now.boot)) ==
	    sizeof(now.boot) - 1)
		*out = now;
}

bool libvirt_instances_differ(const struct libvirt_instance *a, const struct libvirt_instance *b)
{
	return a->boot[0] && b->boot[0] && (strcmp(a->boot, b->boot) || a->start != b->start);
}

/* A process that has just ended has no instance. Another user's may have started at the same
 * moment: a start is known to 10 ms only. */
static bool is_instance(const void *arg, pid_t pid)
{
	const struct libvirt_instance *wanted = arg;
	struct libvirt_instance now = {0};

	if (!wanted->boot[0])
		return may_be_qemu(NULL, pid);
	read_instance(pid, &now);
	return now.boot[0] && !libvirt_instances_differ(wanted, &now) &&
	       (!wanted->has_user || (now.has_user && now.user == wanted->user));
}

bool libvirt_instance_runs(const char *uuid, const struct libvirt_instance *instance)
{
	pid_t pid;

	return search(uuid, is_instance, instance, &pid) > 0;
}

/* --- life ------------------------------------------------------------------------------------ */

void libvirt_process_close(struct libvirt_process *p)
{
	if (p->pid && p->fd >= 0)
		close(p->fd);
	*p = (struct libvirt_process){.fd = -1};
}

void libvirt_process_open(const char *uuid, const char *pid_file, struct libvirt_process *out)
{
	unsigned int found = 1;

	*out = (struct libvirt_process){.fd = -1};
	out->pid = read_pid_file(pid_file, uuid);
	if (!out->pid)
		found = search(uuid, is_trusted, NULL, &out->pid);
	if (!found)
		found = search(uuid, may_be_qemu, NULL, &out->pid);
	if (found == 1)
		out->fd = (int)syscall(SYS_pidfd_open, out->pid, 0);
	if (found == 1 && out->fd < 0) {
		error_set(&out->why, errno, "cannot watch the domain's QEMU: %s", strerror(errno));
		out->pid = 0;
		return;
	}
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
	int n;

	if (!p->pid || p->fd < 0)
		return false;
	do
		n = poll(&poll_fd, 1, 0);
	while (n < 0 && errno == EINTR);
	return n > 0;
}

bool libvirt_process_uses_chardev(const struct libvirt_process *p, const char *label)
{
	return p->pid && *label && has_option(p->pid, uses_chardev, label);
}

bool libvirt_process_user(const struct libvirt_process *p, uid_t *out)
{
	return p->pid && owner_of(p->pid, out);
}

bool libvirt_process_owns(const struct libvirt_process *p, uid_t owner)
{
	uid_t user;

	if (!owner || owner == geteuid())
		return true;
	return libvirt_process_user(p, &user) ? owner == user : is_qemus_user(owner);
}
