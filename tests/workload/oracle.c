// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * oracle [-b BUFFER_KB] [-c CLOCK] [-p] COMMAND [ARGUMENT...]
 * oracle [-b BUFFER_KB] [-c CLOCK] [-p] -s
 *
 * Inside a guest, as root: records the kernel's own kmem trace events (-p: those of the page
 * allocator too) while COMMAND runs between "workload --marker begin" and "... end", copies the raw
 * ring buffers to locked memory, prints their address (oracle-store.h), and waits for a line on
 * standard input. oracle-extract decodes them on the host: printing the events on a serial console
 * would take minutes.
 *
 * -s, for guests in which each event takes long: prints "oracle-waits", waits for a line on
 * standard input, and does a small piece of work between markers of its own.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/workload/marker.h"
#include "tests/workload/oracle-store.h"

#define TRACING "/sys/kernel/tracing/"
#define STORE_MAX (2ull << 30) /* address space; memory is allocated when it is written */

static const char *const slab_events[] = {"kmalloc",
					  "kmalloc_node",
					  "kfree",
					  "kmem_cache_alloc",
					  "kmem_cache_alloc_node",
					  "kmem_cache_free",
					  NULL};
static const char *const page_events[] = {"mm_page_alloc", "mm_page_free", NULL};

static unsigned char *store;
static uint64_t stored;

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *fmt, ...)
{
	int error = errno;
	va_list args;

	printf("sonde-oracle: failed: ");
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf(": %s\n", strerror(error));
	exit(1);
}

static int open_tracing(int flags, const char *path)
{
	char full[256];
	int fd;

	snprintf(full, sizeof(full), TRACING "%s", path);
	fd = open(full, flags);
	if (fd < 0)
		fail("%s", full);
	return fd;
}

static void set_tracing(const char *path, const char *value)
{
	int fd = open_tracing(O_WRONLY | O_TRUNC, path);

	if (write(fd, value, strlen(value)) != (ssize_t)strlen(value))
		fail("%s = %s", path, value);
	close(fd);
}

/* Writes a chunk with the file's next `max` bytes, fewer at its end. Returns their number. */
static size_t store_read(uint32_t kind, uint32_t cpu, int fd, size_t max)
{
	struct oracle_chunk *chunk = (void *)(store + stored);
	ssize_t count;

	if (stored + sizeof(*chunk) + max + ORACLE_PAGE > STORE_MAX) {
		errno = ENOSPC;
		fail("store");
	}
	count = read(fd, chunk + 1, max);
	if (count < 0 && errno != EAGAIN)
		fail("read");
	if (count <= 0)
		return 0;
	*chunk = (struct oracle_chunk){kind, cpu, (uint64_t)count};
	/* The next chunk's header must be aligned. */
	stored += (sizeof(*chunk) + (uint64_t)count + 7) & ~7ull;
	return (size_t)count;
}

static void store_file(uint32_t kind, uint32_t cpu, const char *path)
{
	int fd = open_tracing(O_RDONLY, path);

	if (!store_read(kind, cpu, fd, 65536))
		fail("%s is empty", path);
	close(fd);
}

/* Kernels since 6.1 have no *_node events: their plain events carry the node. */
static void add_events(const char *const *names)
{
	char path[128];

	for (; *names; names++) {
		snprintf(path, sizeof(path), TRACING "events/kmem/%s/enable", *names);
		if (access(path, F_OK) != 0)
			continue;
		set_tracing(path + strlen(TRACING), "1");
		snprintf(path, sizeof(path), "events/kmem/%s/format", *names);
		store_file(ORACLE_FORMAT, 0, path);
	}
}

static void run(char **command)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		execvp(command[0], command);
		fail("%s", command[0]);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		fail("fork");
	if (status != 0) {
		errno = ECHILD;
		fail("%s: wait status 0x%x", command[0], status);
	}
}

static void store_cpu(uint32_t cpu)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "per_cpu/cpu%u/stats", cpu);
	store_file(ORACLE_STATS, cpu, path);
	snprintf(path, sizeof(path), "per_cpu/cpu%u/trace_pipe_raw", cpu);
	fd = open_tracing(O_RDONLY | O_NONBLOCK, path);
	while (store_read(ORACLE_RAW, cpu, fd, ORACLE_PAGE))
		;
	close(fd);
}

static void store_cpus(void)
{
	long cpu, cpus = sysconf(_SC_NPROCESSORS_ONLN);

	for (cpu = 0; cpu < cpus; cpu++)
		store_cpu((uint32_t)cpu);
}

/* /proc/PID/pagemap: bits 0 to 54 are the PFN, bit 63 says present (Documentation/admin-guide/mm).
 */
static uint64_t pfn_of(int pagemap, const void *page)
{
	uint64_t entry;
	off_t at = (off_t)((uintptr_t)page / ORACLE_PAGE * sizeof(entry));

	if (pread(pagemap, &entry, sizeof(entry), at) != sizeof(entry) || !(entry >> 63))
		fail("pagemap");
	return entry & ((1ull << 55) - 1);
}

/* Returns the guest physical address of the first table. */
static uint64_t make_tables(void)
{
	uint64_t pages = (stored + ORACLE_PAGE - 1) / ORACLE_PAGE, page, i;
	uint64_t tables = (pages + ORACLE_TABLE_PFNS - 1) / ORACLE_TABLE_PFNS;
	struct oracle_table *table = (void *)(store + pages * ORACLE_PAGE);
	int pagemap = open("/proc/self/pagemap", O_RDONLY);

	memset(table, 0, tables * sizeof(*table));
	if (mlock(store, (pages + tables) * ORACLE_PAGE) != 0)
		fail("mlock");
	for (page = 0; page < pages; page++)
		table[page / ORACLE_TABLE_PFNS].pfn[page % ORACLE_TABLE_PFNS] =
			pfn_of(pagemap, store + page * ORACLE_PAGE);
	for (i = 0; i < tables; i++) {
		bool last = i == tables - 1;

		memcpy(table[i].magic, ORACLE_MAGIC, sizeof(table[i].magic));
		table[i].total_bytes = stored;
		table[i].count = last ? pages - i * ORACLE_TABLE_PFNS : ORACLE_TABLE_PFNS;
		table[i].next_gpa = last ? 0 : pfn_of(pagemap, &table[i + 1]) * ORACLE_PAGE;
	}
	return pfn_of(pagemap, table) * ORACLE_PAGE;
}

/* A few hundred events, including page events. */
static void work_a_little(void)
{
	pid_t pid;
	int ends[2], status;

	for (int i = 0; i < 20; i++) {
		if (pipe(ends) != 0 || write(ends[1], ends, sizeof(ends)) != sizeof(ends))
			fail("pipe");
		close(ends[0]);
		close(ends[1]);
	}
	pid = fork();
	if (pid == 0)
		_exit(0);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		fail("fork");
}

static void record_a_little(void)
{
	int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);

	printf("oracle-waits\n");
	while (getchar() != '\n')
		if (feof(stdin))
			fail("no line");
	set_tracing("tracing_on", "1");
	if (!put_marker(true, cpus))
		fail("setgroups");
	work_a_little();
	if (!put_marker(false, cpus))
		fail("setgroups");
	set_tracing("tracing_on", "0");
}

static void record(char **command)
{
	set_tracing("tracing_on", "1");
	run((char *[]){"workload", "--marker", "begin", NULL});
	run(command);
	run((char *[]){"workload", "--marker", "end", NULL});
	set_tracing("tracing_on", "0");
}

int main(int argc, char **argv)
{
	const char *buffer_kb = "16384", *clock = "mono";
	bool pages = false, little = false;
	uint64_t gpa;
	int option;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while ((option = getopt(argc, argv, "+b:c:ps")) != -1) {
		if (option == 'b')
			buffer_kb = optarg;
		else if (option == 'c')
			clock = optarg;
		else if (option == 'p')
			pages = true;
		else if (option == 's')
			little = true;
		else
			return 2;
	}
	if (optind == argc && !little) {
		printf("usage: oracle [-b BUFFER_KB] [-c CLOCK] [-p] -s|COMMAND [ARGUMENT...]\n");
		return 2;
	}
	store = mmap(NULL, STORE_MAX, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (store == MAP_FAILED)
		fail("mmap");
	/* A page that khugepaged moves would no longer be where the table says. */
	madvise(store, STORE_MAX, MADV_NOHUGEPAGE);

	set_tracing("tracing_on", "0");
	set_tracing("trace_clock", clock);
	set_tracing("buffer_size_kb", buffer_kb);
	store_file(ORACLE_HEADER_PAGE, 0, "events/header_page");
	add_events(slab_events);
	if (pages)
		add_events(page_events);
	if (little)
		record_a_little();
	else
		record(argv + optind);
	store_cpus();
	gpa = make_tables();
	printf("sonde-oracle: pages 0x%" PRIx64 "\n", gpa);
	if (getchar() == EOF)
		pause();
	return 0;
}
