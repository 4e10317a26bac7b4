/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_UNIT_VMM_IOCTL_HOOK_H
#define SONDE_TESTS_UNIT_VMM_IOCTL_HOOK_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * KVM that fails when a test wants it to: this ioctl() takes the place of libc's in the one test
 * that includes this file. The hook, if there is one, sees each call first. If it returns true, the
 * call returns *ret (or -1, with errno *ret negated); else the kernel gets it. Any thread.
 */
typedef bool ioctl_hook_fn(int fd, unsigned long request, void *arg, int *ret);
static ioctl_hook_fn *_Atomic ioctl_hook;

int ioctl(int fd, unsigned long request, ...)
{
	ioctl_hook_fn *hook = ioctl_hook;
	int ret = 0;
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (!hook || !hook(fd, request, arg, &ret))
		return (int)syscall(SYS_ioctl, fd, request, arg);
	if (ret >= 0)
		return ret;
	errno = -ret;
	return -1;
}

#endif
