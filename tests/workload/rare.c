// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Uses the parts of the kernel's allocators that everyday work does not reach, then runs a command:
 *
 *   rare COMMAND...
 *
 * - bulk allocation of pages into an array (a splice from /proc);
 * - with /lib/pages.ko (pages-module.c): alloc_pages_exact(), and bulk allocation into arrays with
 * holes;
 * - compaction, with memory that is used in every other page, and with pages that cannot move: the
 * kernel takes a new page for each, and gives it back;
 * - a block of memory goes off line and comes back, if the guest can spare one;
 * - so does the last CPU, if there are several;
 * - another kernel is loaded for kexec, and unloaded.
 *
 * It prints what it did. What a kernel lacks is left out.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/kexec.h>
#include <linux/module.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, HOLES = 48 << 20, HELD_PAGES = 256, PATIENCE = 20 /* seconds */ };
enum { OTHER_KERNEL = 4 << 20, OTHER_KERNEL_AT = 16 << 20 };

static bool write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return good;
}

static bool splice_from(const char *path)
{
	int from = open(path, O_RDONLY), ends[2] = {-1, -1};
	bool good = from >= 0 && !pipe(ends) && splice(from, NULL, ends[1], NULL, PAGE, 0) > 0;

	if (from >= 0)
		close(from);
	close(ends[0]);
	close(ends[1]);
	return good;
}

/* The module's loading fails when all is done, so that it is not there any more. It lacks the
 * checksums of what it uses. */
static const char *load_module(const char *path)
{
	int fd = open(path, O_RDONLY);
	bool done;

	if (fd < 0)
		return "not tried";
	done = syscall(SYS_finit_module, fd, "", MODULE_INIT_IGNORE_MODVERSIONS) < 0 &&
	       errno == ECANCELED;
	if (!done)
		perror(path);
	close(fd);
	return done ? "done" : "failed";
}

/* Pages of a file in memory to which a pipe refers: they cannot move. */
struct held {
	char *memory;
	int to;
};

static bool prepare_held(struct held *held)
{
	int fd = memfd_create("held", 0), ends[2];
	const size_t size = (size_t)HELD_PAGES * PAGE;

	if (fd < 0 || ftruncate(fd, (off_t)size) || pipe(ends) ||
	    fcntl(ends[1], F_SETPIPE_SZ, size) < 0)
		return false;
	held->to = ends[1];
	held->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return held->memory != MAP_FAILED;
}

static bool hold_page(struct held *held, size_t page)
{
	struct iovec iov = {held->memory + page * PAGE, PAGE};

	*(char *)iov.iov_base = 1;
	return vmsplice(held->to, &iov, 1, SPLICE_F_NONBLOCK) == PAGE;
}

/* Every other page is free in the end, and some of the others cannot move. */
static bool make_holes(void)
{
	char *memory =
		mmap(NULL, HOLES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct held held;

	if (memory == MAP_FAILED || !prepare_held(&held))
		return false;
	madvise(memory, HOLES, MADV_NOHUGEPAGE);
	for (size_t at = 0; at < HOLES; at += PAGE) {
		memory[at] = 1;
		if (at % (HOLES / HELD_PAGES) == 0 && !hold_page(&held, at / (HOLES / HELD_PAGES)))
			return false;
	}
	for (size_t at = 0; at < HOLES; at += 2 * (size_t)PAGE)
		madvise(memory + at, PAGE, MADV_DONTNEED);
	return true;
}

/* A counter of /proc/vmstat; 0 if there is none of this name. */
static uint64_t vmstat(const char *name)
{
	FILE *file = fopen("/proc/vmstat", "r");
	uint64_t value, found = 0;
	char other[64];

	while (file && fscanf(file, "%63s %" SCNu64, other, &value) == 2)
		if (!strcmp(other, name))
			found = value;
	if (file)
		fclose(file);
	return found;
}

/* Since 6.7 a CPU may keep thousands of free pages to itself, where compaction does not find them.
 */
#define KEEP_PATH "/proc/sys/vm/percpu_pagelist_high_fraction"
#define KEEP_FEW "1000"
#define KEEP_AS_USUAL "0"

/* In a process of its own, whose end frees the memory. */
static bool compact(void)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(!(make_holes() && write_to("/proc/sys/vm/compact_memory", "1")));
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

static void report_compaction(void)
{
	uint64_t moved = vmstat("pgmigrate_success"), stayed = vmstat("pgmigrate_fail");
	bool done;

	write_to(KEEP_PATH, KEEP_FEW);
	done = compact();
	write_to(KEEP_PATH, KEEP_AS_USUAL);
	printf(", compaction %s (%" PRIu64 " pages moved, %" PRIu64 " stayed)",
	       done ? "done" : "failed", vmstat("pgmigrate_success") - moved,
	       vmstat("pgmigrate_fail") - stayed);
}

/* In a process of its own, which a signal can end: the kernel may try for ever. */
static bool set_block(const char *name, const char *state)
{
	char path[320];
	int status;
	pid_t pid;

	snprintf(path, sizeof(path), "/sys/devices/system/memory/%s/state", name);
	pid = fork();
	if (!pid) {
		alarm(PATIENCE);
		_exit(!write_to(path, state));
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

/* From the highest block down: the kernel lies in a low one. */
static bool cycle_block(void)
{
	struct dirent **names = NULL;
	int n = scandir("/sys/devices/system/memory", &names, NULL, versionsort);
	bool good = false;

	while (n-- > 0) {
		const char *name = names[n]->d_name;

		if (!good && !strncmp(name, "memory", 6) && set_block(name, "offline"))
			good = set_block(name, "online");
		free(names[n]);
	}
	free(names);
	return good;
}

static bool cycle_cpu(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%ld/online",
		 sysconf(_SC_NPROCESSORS_ONLN) - 1);
	return write_to(path, "0") && write_to(path, "1");
}

/* It is never started, so that it can have any content. */
static const char *load_other_kernel(void)
{
	struct kexec_segment segment = {
		.bufsz = OTHER_KERNEL, .mem = (void *)OTHER_KERNEL_AT, .memsz = OTHER_KERNEL};
	bool done;

	segment.buf = calloc(1, OTHER_KERNEL);
	done = segment.buf &&
	       !syscall(SYS_kexec_load, OTHER_KERNEL_AT, 1UL, &segment, KEXEC_ARCH_DEFAULT);
	if (!done && errno == ENOSYS)
		return "not tried";
	if (done)
		done = !syscall(SYS_kexec_load, 0UL, 0UL, NULL, KEXEC_ARCH_DEFAULT);
	free((void *)segment.buf);
	return done ? "done" : "failed";
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	printf("rare: splice %s", splice_from("/proc/meminfo") ? "done" : "failed");
	printf(", exact pages and arrays with holes %s", load_module("/lib/pages.ko"));
	report_compaction();
	printf(", memory block %s", cycle_block() ? "off and on" : "stays");
	printf(", CPU %s", cycle_cpu() ? "off and on" : "stays");
	printf(", kexec %s\n", load_other_kernel());
	fflush(stdout);
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 127;
}
