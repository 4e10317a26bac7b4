// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Uses the parts of the kernel's allocators that everyday work does not reach, then runs a command:
 *
 *   rare COMMAND...
 *
 * - bulk allocation of pages into an array (a splice from /proc);
 * - with /lib/pages.ko (pages-module.c): alloc_pages_exact(), and bulk allocation into arrays with
 * holes;
 * - compaction, with memory that is used in every other page;
 * - a block of memory goes off line and comes back, if the guest can spare one;
 * - so does the last CPU, if there are several.
 *
 * It prints what it did. What a kernel lacks is left out.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/module.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, HOLES = 48 << 20, PATIENCE = 20 /* seconds */ };

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

static bool compact(void)
{
	char *memory =
		mmap(NULL, HOLES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool good = memory != MAP_FAILED;

	if (!good)
		return false;
	madvise(memory, HOLES, MADV_NOHUGEPAGE);
	for (size_t at = 0; at < HOLES; at += PAGE)
		memory[at] = 1;
	for (size_t at = 0; at < HOLES; at += 2 * (size_t)PAGE)
		madvise(memory + at, PAGE, MADV_DONTNEED);
	good = write_to("/proc/sys/vm/compact_memory", "1");
	munmap(memory, HOLES);
	return good;
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

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	printf("rare: splice %s", splice_from("/proc/meminfo") ? "done" : "failed");
	printf(", exact pages and arrays with holes %s", load_module("/lib/pages.ko"));
	printf(", compaction %s", compact() ? "done" : "failed");
	printf(", memory block %s", cycle_block() ? "off and on" : "stays");
	printf(", CPU %s\n", cycle_cpu() ? "off and on" : "stays");
	fflush(stdout);
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 127;
}
