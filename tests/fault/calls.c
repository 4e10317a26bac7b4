/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fallible calls. Each has the prototype of the function that it stands for; the Makefile takes
 * their names from this file.
 */
#include <capstone/capstone.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <libelf.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "tests/fault/faults.h"
#include "tests/fault/libvirt-calls.h"

/* A call whose result on failure is `bad`, with errno. */
#define FALLIBLE(type, name, parameters, arguments, bad, error) \
	type fault_##name parameters;                           \
	type fault_##name parameters                            \
	{                                                       \
		if (fault_is_due(#name)) {                      \
			errno = (error);                        \
			return (bad);                           \
		}                                               \
		return name arguments;                          \
	}

FALLIBLE(void *, malloc, (size_t size), (size), NULL, ENOMEM)
FALLIBLE(void *, calloc, (size_t n, size_t size), (n, size), NULL, ENOMEM)
FALLIBLE(void *, realloc, (void *p, size_t size), (p, size), NULL, ENOMEM)
FALLIBLE(void *, reallocarray, (void *p, size_t n, size_t size), (p, n, size), NULL, ENOMEM)
FALLIBLE(char *, strdup, (const char *s), (s), NULL, ENOMEM)
FALLIBLE(char *, strndup, (const char *s, size_t n), (s, n), NULL, ENOMEM)
FALLIBLE(FILE *, open_memstream, (char **text, size_t *size), (text, size), NULL, ENOMEM)
FALLIBLE(void *, mmap, (void *at, size_t size, int prot, int flags, int fd, off_t offset),
	 (at, size, prot, flags, fd, offset), MAP_FAILED, ENOMEM)
FALLIBLE(int, memfd_create, (const char *name, unsigned int flags), (name, flags), -1, ENOMEM)
FALLIBLE(int, ftruncate, (int fd, off_t size), (fd, size), -1, ENOSPC)
FALLIBLE(int, fallocate, (int fd, int mode, off_t offset, off_t size), (fd, mode, offset, size), -1,
	 ENOSPC)
FALLIBLE(int, posix_fallocate, (int fd, off_t offset, off_t size), (fd, offset, size), ENOSPC,
	 ENOSPC)

FALLIBLE(FILE *, fopen, (const char *path, const char *mode), (path, mode), NULL, EMFILE)
FALLIBLE(FILE *, fdopen, (int fd, const char *mode), (fd, mode), NULL, ENOMEM)
FALLIBLE(DIR *, opendir, (const char *path), (path), NULL, EMFILE)
FALLIBLE(DIR *, fdopendir, (int fd), (fd), NULL, ENOMEM)
FALLIBLE(int, mkdir, (const char *path, mode_t mode), (path, mode), -1, ENOSPC)
FALLIBLE(int, renameat, (int from_fd, const char *from, int to_fd, const char *to),
	 (from_fd, from, to_fd, to), -1, ENOSPC)
FALLIBLE(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags), -1, EIO)
FALLIBLE(int, fstat, (int fd, struct stat *out), (fd, out), -1, EIO)
FALLIBLE(int, dup, (int fd), (fd), -1, EMFILE)
FALLIBLE(int, pipe2, (int fds[2], int flags), (fds, flags), -1, EMFILE)

FALLIBLE(ssize_t, read, (int fd, void *to, size_t size), (fd, to, size), -1, EIO)
FALLIBLE(ssize_t, pread, (int fd, void *to, size_t size, off_t offset), (fd, to, size, offset), -1,
	 EIO)
FALLIBLE(ssize_t, write, (int fd, const void *from, size_t size), (fd, from, size), -1, ENOSPC)
FALLIBLE(ssize_t, pwrite, (int fd, const void *from, size_t size, off_t offset),
	 (fd, from, size, offset), -1, EIO)
FALLIBLE(size_t, fwrite, (const void *from, size_t size, size_t n, FILE *file),
	 (from, size, n, file), 0, ENOSPC)
FALLIBLE(int, fflush, (FILE * file), (file), EOF, ENOSPC)
FALLIBLE(FILE *, fmemopen, (void *text, size_t size, const char *mode), (text, size, mode), NULL,
	 ENOMEM)
FALLIBLE(int, unlink, (const char *path), (path), -1, EIO)
FALLIBLE(int, linkat, (int from_fd, const char *from, int to_fd, const char *to, int flags),
	 (from_fd, from, to_fd, to, flags), -1, ENOSPC)
FALLIBLE(int, renameat2,
	 (int from_fd, const char *from, int to_fd, const char *to, unsigned int flags),
	 (from_fd, from, to_fd, to, flags), -1, ENOSPC)
FALLIBLE(int, fchmod, (int fd, mode_t mode), (fd, mode), -1, EPERM)
FALLIBLE(int, flock, (int fd, int operation), (fd, operation), -1, ENOLCK)
FALLIBLE(int, fstatat, (int fd, const char *path, struct stat *out, int flags),
	 (fd, path, out, flags), -1, EIO)
FALLIBLE(ssize_t, getrandom, (void *out, size_t size, unsigned int flags), (out, size, flags), -1,
	 ENOSYS)
FALLIBLE(int, fchown, (int fd, uid_t user, gid_t group), (fd, user, group), -1, EPERM)
FALLIBLE(off_t, lseek, (int fd, off_t offset, int whence), (fd, offset, whence), -1, EIO)
FALLIBLE(int, fdatasync, (int fd), (fd), -1, EIO)

FALLIBLE(int, eventfd, (unsigned int count, int flags), (count, flags), -1, EMFILE)
/* Not timerfd_settime(), which fails for invalid arguments only. */
FALLIBLE(int, timerfd_create, (int clock, int flags), (clock, flags), -1, EMFILE)
FALLIBLE(int, signalfd, (int fd, const sigset_t *set, int flags), (fd, set, flags), -1, EMFILE)
FALLIBLE(int, epoll_wait, (int epoll, struct epoll_event *events, int n, int ms),
	 (epoll, events, n, ms), -1, EINTR)
FALLIBLE(int, poll, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms), -1, EINTR)
FALLIBLE(int, accept4, (int fd, struct sockaddr *from, socklen_t *size, int flags),
	 (fd, from, size, flags), -1, EMFILE)
FALLIBLE(int, epoll_create1, (int flags), (flags), -1, EMFILE)
FALLIBLE(int, epoll_ctl, (int epoll, int op, int fd, struct epoll_event *event),
	 (epoll, op, fd, event), -1, ENOSPC)
FALLIBLE(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1, EMFILE)
FALLIBLE(int, socketpair, (int domain, int type, int protocol, int fds[2]),
	 (domain, type, protocol, fds), -1, EMFILE)
FALLIBLE(int, connect, (int fd, const struct sockaddr *to, socklen_t size), (fd, to, size), -1,
	 ECONNREFUSED)
FALLIBLE(int, bind, (int fd, const struct sockaddr *to, socklen_t size), (fd, to, size), -1,
	 EADDRINUSE)
FALLIBLE(int, listen, (int fd, int n), (fd, n), -1, EADDRINUSE)
FALLIBLE(ssize_t, send, (int fd, const void *from, size_t size, int flags), (fd, from, size, flags),
	 -1, EPIPE)
FALLIBLE(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags),
	 -1, EPIPE)
FALLIBLE(ssize_t, recv, (int fd, void *to, size_t size, int flags), (fd, to, size, flags), -1,
	 ECONNRESET)
FALLIBLE(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags), -1,
	 ECONNRESET)

FALLIBLE(int, pthread_create,
	 (pthread_t * out, const pthread_attr_t *attr, void *(*fn)(void *), void *arg),
	 (out, attr, fn, arg), EAGAIN, EAGAIN)

FALLIBLE(json_t *, json_object, (void), (), NULL, ENOMEM)
FALLIBLE(json_t *, json_array, (void), (), NULL, ENOMEM)
FALLIBLE(json_t *, json_string, (const char *text), (text), NULL, ENOMEM)
FALLIBLE(json_t *, json_integer, (json_int_t value), (value), NULL, ENOMEM)
FALLIBLE(int, json_object_set_new, (json_t * object, const char *key, json_t *value),
	 (object, key, value), (json_decref(value), -1), ENOMEM)
FALLIBLE(int, json_array_append_new, (json_t * array, json_t *value), (array, value),
	 (json_decref(value), -1), ENOMEM)
FALLIBLE(char *, json_dumps, (const json_t *value, size_t flags), (value, flags), NULL, ENOMEM)
FALLIBLE(json_t *, json_loadb, (const char *text, size_t size, size_t flags, json_error_t *error),
	 (text, size, flags, error), NULL, ENOMEM)

FALLIBLE(json_t *, json_loads, (const char *text, size_t flags, json_error_t *error),
	 (text, flags, error), NULL, ENOMEM)
FALLIBLE(json_t *, json_deep_copy, (const json_t *value), (value), NULL, ENOMEM)
FALLIBLE(json_t *, json_real, (double value), (value), NULL, ENOMEM)

FALLIBLE(cs_err, cs_open, (cs_arch arch, cs_mode mode, csh *out), (arch, mode, out), CS_ERR_MEM,
	 ENOMEM)
FALLIBLE(cs_insn *, cs_malloc, (csh handle), (handle), NULL, ENOMEM)
FALLIBLE(Elf *, elf_memory, (char *image, size_t size), (image, size), NULL, ENOMEM)

/* --- with a variable number of arguments ------------------------------------------------------ */

int fault_ioctl(int fd, unsigned long request, void *arg);
int fault_ioctl(int fd, unsigned long request, void *arg)
{
	if (fault_is_due("ioctl")) {
		errno = EIO;
		return -1;
	}
	return ioctl(fd, request, arg);
}

/* Its argument is none, an int or a pointer. */
int fault_fcntl(int fd, int command, void *arg);
int fault_fcntl(int fd, int command, void *arg)
{
	if (fault_is_due("fcntl")) {
		errno = EINVAL;
		return -1;
	}
	return fcntl(fd, command, arg);
}

/* pidfd_open() and pidfd_send_signal() */
long fault_syscall(long number, long a, long b, long c, long d);
long fault_syscall(long number, long a, long b, long c, long d)
{
	if (fault_is_due(number == SYS_pidfd_open ? "pidfd_open" : "syscall")) {
		errno = EMFILE;
		return -1;
	}
	return syscall(number, a, b, c, d);
}

pid_t fault_fork(void);
pid_t fault_fork(void)
{
	pid_t pid;

	if (fault_is_due("fork")) {
		errno = EAGAIN;
		return -1;
	}
	pid = fork();
	if (!pid)
		faults_forked();
	return pid;
}

/* Does not fail: a forked process may end so. */
void fault__exit(int status) __attribute__((noreturn));
void fault__exit(int status)
{
	faults_write_log();
	_exit(status);
}

/* Fails itself, or finds functions that can. */
void *fault_dlsym(void *library, const char *name);
void *fault_dlsym(void *library, const char *name)
{
	return fault_is_due("dlsym") ? NULL : fault_libvirt_call(name, dlsym(library, name));
}

static int fail_open(const char *name)
{
	if (!fault_is_due(name))
		return 0;
	errno = EMFILE;
	return -1;
}

static mode_t mode_of(int flags, va_list ap)
{
	return flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
}

int fault_open(const char *path, int flags, ...);
int fault_open(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = mode_of(flags, ap);
	va_end(ap);
	return fail_open("open") ? -1 : open(path, flags, mode);
}

int fault_openat(int fd, const char *path, int flags, ...);
int fault_openat(int fd, const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = mode_of(flags, ap);
	va_end(ap);
	return fail_open("openat") ? -1 : openat(fd, path, flags, mode);
}

int fault_asprintf(char **out, const char *format, ...) __attribute__((format(printf, 2, 3)));
int fault_asprintf(char **out, const char *format, ...)
{
	va_list ap;
	int n;

	if (fault_is_due("asprintf")) {
		*out = NULL;
		return -1;
	}
	va_start(ap, format);
	n = vasprintf(out, format, ap);
	va_end(ap);
	return n;
}

int fault_vasprintf(char **out, const char *format, va_list ap)
	__attribute__((format(printf, 2, 0)));
int fault_vasprintf(char **out, const char *format, va_list ap)
{
	if (!fault_is_due("vasprintf"))
		return vasprintf(out, format, ap);
	*out = NULL;
	return -1;
}

/* The values that it would take over are lost then, as by the function itself. */
json_t *fault_json_pack(const char *format, ...);
json_t *fault_json_pack(const char *format, ...)
{
	va_list ap;
	json_t *value;

	va_start(ap, format);
	value = json_vpack_ex(NULL, 0, format, ap);
	va_end(ap);
	if (!fault_is_due("json_pack"))
		return value;
	json_decref(value);
	return NULL;
}
