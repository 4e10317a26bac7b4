/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where a domain's RAM is read from: files that QEMU shares, or QEMU's memory. This process is
 * QEMU. */
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "tests/lib/tap.h"
#include "vmm/libvirt/backend/memory.h"

enum { RANGES = 2, BYTES = 1 << 16, SKIPPED = 4096 /* of a file, in front of the RAM */ };

static const uint64_t gpas[RANGES] = {0, 1 << 20};
static const char *const names[RANGES] = {"ram-below-4g", "ram-above-4g"};

/* What QEMU has. */
static struct range {
	char *at; /* NULL: there is none */
	int fd;   /* its file; -1: none */
	size_t size;
} ranges[RANGES];
static bool mute; /* it does not say where */

static struct libvirt_domain domain;
static struct libvirt_memory memory;
static struct error why;

static char *memory_map(void)
{
	char *reply = NULL;
	size_t size;
	FILE *out = open_memstream(&reply, &size);

	if (!out)
		abort();
	fprintf(out, "address-space: memory\r\n  0000000000000000-ffffffffffffffff (prio 0, i/o): "
		     "system\r\n");
	for (int i = 0; i < RANGES; i++)
		if (ranges[i].at)
			fprintf(out, "    %016lx-%016lx (prio 0, ram): alias %s @pc.ram 0-1\r\n",
				gpas[i], gpas[i] + ranges[i].size - 1, names[i]);
	fclose(out);
	return reply;
}

static const char *at_gpa(uint64_t gpa)
{
	for (int i = 0; i < RANGES; i++)
		if (ranges[i].at && gpa >= gpas[i] && gpa - gpas[i] < ranges[i].size)
			return ranges[i].at + (gpa - gpas[i]);
	return NULL;
}

static int command(virDomainPtr unused, const char *text, char **result, unsigned int flags)
{
	uint64_t gpa;

	(void)unused;
	(void)flags;
	*result = NULL;
	if (!strcmp(text, "info mtree"))
		*result = memory_map();
	else if (mute || sscanf(text, "gpa2hva 0x%lx", &gpa) != 1)
		*result = strdup("unknown command\r\n");
	else if (asprintf(result, "Host virtual address for 0x%lx (ram) is %p\r\n", gpa,
			  (const void *)at_gpa(gpa)) < 0)
		abort();
	return 0;
}

static const struct libvirt_api api = {.monitor_command = command};

static void unplug(int i)
{
	if (ranges[i].at)
		munmap(ranges[i].at, ranges[i].size);
	if (ranges[i].at && ranges[i].fd >= 0)
		close(ranges[i].fd);
	ranges[i] = (struct range){.fd = -1};
}

/* `file`: -1 for anonymous memory. The range's first bytes are `text`. */
static void plug_file(int i, int file, int flags, size_t offset, const char *text)
{
	char *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, flags, file, (off_t)offset);

	if (at == MAP_FAILED)
		abort();
	strcpy(at, text);
	ranges[i] = (struct range){at, file, BYTES};
}

static void plug(int i, const char *text)
{
	int fd = memfd_create("ram", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, SKIPPED + BYTES))
		abort();
	plug_file(i, fd, MAP_SHARED, SKIPPED, text);
}

static void plug_private(int i, const char *text)
{
	plug_file(i, -1, MAP_PRIVATE | MAP_ANONYMOUS, 0, text);
}

static void begin(void)
{
	for (int i = 0; i < RANGES; i++)
		unplug(i);
	mute = false;
	why = (struct error){0};
	domain = (struct libvirt_domain){.api = &api,
					 .calling = PTHREAD_MUTEX_INITIALIZER,
					 .name = "d",
					 .qemu = {.pid = getpid(), .fd = -1}};
}

/* But for QEMU's own. */
static unsigned int count_open(void)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned int n = 0;

	while (readdir(folder))
		n++;
	closedir(folder);
	for (int i = 0; i < RANGES; i++)
		n -= ranges[i].at && ranges[i].fd >= 0;
	return n;
}

/* Files that are open, and bytes that are allocated. */
static struct {
	unsigned int files;
	size_t bytes;
} before;

static bool opens(void)
{
	before.files = count_open();
	before.bytes = mallinfo2().uordblks;
	return !libvirt_memory_open(&memory, &domain, false, &why);
}

/* Whether nothing is left open, and no table allocated. */
static bool closes(void)
{
	libvirt_memory_close(&memory);
	return count_open() == before.files &&
	       mallinfo2().uordblks < before.bytes + sizeof(struct libvirt_table);
}

static bool holds(uint64_t gpa, const char *text)
{
	char now[16] = "";

	return !libvirt_memory_read(&memory, gpa, now, strlen(text), &why) && !strcmp(now, text);
}

/* Whether this is all that is memory. Sets *first, if it is not NULL. */
static bool has_regions(size_t n, const uint64_t *begins, const struct guest_region **first)
{
	const struct guest_region *out;
	size_t nr;
	bool same;

	libvirt_memory_regions(&memory, &out, &nr);
	same = nr == n;
	for (size_t i = 0; same && i < n; i++)
		same = out[i].gpa == begins[i] && out[i].size == BYTES;
	if (first)
		*first = out;
	return same;
}

static bool is_by(const char *text)
{
	return !strncmp(memory.how, text, strlen(text));
}

static void test_shared(void)
{
	begin();
	plug(0, "first");
	plug(1, "second");
	ok(opens() && is_by("a file shared"), "RAM is read from %s", memory.how);
	ok(has_regions(2, gpas, NULL) && holds(gpas[0], "first") && holds(gpas[1], "second"),
	   "each range from its own file");
	ok(libvirt_memory_read(&memory, BYTES, &(char){0}, 1, &why) == -EFAULT,
	   "what lies between them is no RAM");
	ok(closes(), "no file is left open");
}

static void test_private(void)
{
	begin();
	plug_private(0, "first");
	plug_private(1, "second");
	ok(opens() && is_by("/proc/"), "RAM that QEMU does not share is read from %s", memory.how);
	ok(holds(gpas[0], "first") && holds(gpas[1], "second"), "all of it");
	ok(closes(), "that is opened once");
	begin();
	plug(0, "first");
	plug_private(1, "second");
	ok(opens() && is_by("/proc/") && holds(gpas[0], "first") && holds(gpas[1], "second"),
	   "a part of it may be shared");
	ok(closes(), "then no file is left open either");
}

/* What the file has is not what the guest has. */
static void test_copied(void)
{
	int fd = memfd_create("ram", MFD_CLOEXEC);

	begin();
	if (fd < 0 || ftruncate(fd, BYTES))
		abort();
	plug_file(0, fd, MAP_PRIVATE, 0, "first");
	ok(opens() && is_by("/proc/") && holds(gpas[0], "first"),
	   "the file of a private mapping is not read");
	ok(closes(), "it is not left open");
}

/* A file that has been cut off would be read as zeros. */
static void test_short(void)
{
	begin();
	plug(0, "first");
	if (ftruncate(ranges[0].fd, SKIPPED + BYTES / 2))
		abort();
	ok(opens() && is_by("/proc/") && holds(gpas[0], "first"),
	   "a file that ends before the RAM is not read");
	ok(closes(), "nor left open");
	if (ftruncate(ranges[0].fd, SKIPPED / 2))
		abort();
	ok(opens() && is_by("/proc/"), "nor one that ends before it begins");
	closes();
}

static void test_stub(void)
{
	begin();
	plug(0, "first");
	domain.qemu = (struct libvirt_process){.fd = -1, .why = {.text = "no process"}};
	ok(opens() && memory.by_stub && has_regions(1, gpas, NULL),
	   "without QEMU's process RAM is left to the gdbstub");
	is_str(memory.how, "by QEMU's gdbstub: no process", "and why is told");
	ok(!libvirt_memory_follow(&memory, &domain, NULL), "it is followed");
	is_str(memory.how, "by QEMU's gdbstub: no process", "which changes nothing of that");
	ok(closes(), "no file was opened");
	begin();
	plug(0, "first");
	mute = true;
	ok(opens() && memory.by_stub, "so it is if QEMU does not say where the RAM is: %s",
	   memory.how);
	closes();
}

static bool follows(void)
{
	return !libvirt_memory_follow(&memory, &domain, &why);
}

static void test_same(bool private)
{
	const struct guest_region *known, *now;

	begin();
	(private ? plug_private : plug)(0, "first");
	opens();
	has_regions(1, gpas, &known);
	ok(follows() && follows() && has_regions(1, gpas, &now) && now == known &&
		   holds(gpas[0], "first"),
	   "RAM that is what it was is known already: %s", memory.how);
	ok(closes(), "nothing is left open");
}

/* A range is replaced by one of the same size. */
static void test_replaced(void)
{
	int file = memfd_create("ram", MFD_CLOEXEC);

	begin();
	plug(0, "first");
	opens();
	unplug(0);
	plug(0, "other");
	ok(follows() && holds(gpas[0], "other"), "another file at the same place is read");
	ok(closes(), "and the first one not left open");
	begin();
	if (file < 0 || ftruncate(file, (off_t)2 * BYTES))
		abort();
	plug_file(0, dup(file), MAP_SHARED, 0, "first");
	opens();
	unplug(0);
	plug_file(0, file, MAP_SHARED, BYTES, "other");
	ok(follows() && holds(gpas[0], "other"), "so is another part of the same file");
	closes();
}

static void test_moved(void)
{
	begin();
	plug(1, "second");
	opens();
	unplug(1);
	plug(0, "first");
	ok(follows() && has_regions(1, gpas, NULL) && holds(gpas[0], "first") &&
		   !holds(gpas[1], "second"),
	   "a range at another address is followed");
	plug(1, "second");
	ok(follows() && has_regions(2, gpas, NULL) && holds(gpas[1], "second"),
	   "so is one that is added");
	ok(closes(), "nothing is left of what was known before");
}

static void test_scratch(void)
{
	static const struct guest_region scratch = {.gpa = 4 << 20, .size = BYTES};
	static const uint64_t begins[] = {0, 1 << 20, 4 << 20};

	begin();
	plug(0, "first");
	opens();
	plug(1, "second");
	libvirt_memory_set_scratch(&memory, &scratch);
	ok(follows() && has_regions(3, begins, NULL),
	   "scratch memory stays behind RAM that is added");
	libvirt_memory_set_scratch(&memory, NULL);
	ok(has_regions(2, begins, NULL), "until it is taken away");
	closes();
}

/* Of each second page QEMU has another mapping. */
static void test_many_mappings(void)
{
	enum { PAGE = 4096, PAIR = 2 * PAGE, PAIRS = LIBVIRT_MAX_REGIONS / 2 };
	const size_t size = (size_t)PAIRS * PAIR;
	char *at =
		mmap(NULL, size + PAIR, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; at != MAP_FAILED && i <= PAIRS; i++)
		if (mprotect(at + i * PAIR, PAGE, PROT_READ))
			abort();
	begin();
	ranges[1] = (struct range){at, -1, size};
	strcpy(at + size - PAGE, "last");
	ok(opens() && holds(gpas[1] + size - PAGE, "last"), "RAM may have %d mappings",
	   LIBVIRT_MAX_REGIONS);
	ok(closes(), "no file of them is left open");
	ranges[1].size = size + PAIR;
	ok(opens() && memory.by_stub && strstr(memory.how, "more than"),
	   "RAM that has more is left to the gdbstub: %s", memory.how);
	ok(closes(), "no file of them is left open");
}

/* QEMU may end, or refuse: what was known stays. */
static void test_failed(void)
{
	begin();
	plug(0, "first");
	opens();
	mute = true;
	ok(libvirt_memory_follow(&memory, &domain, &why) == -EPROTO && strlen(why.text) &&
		   holds(gpas[0], "first"),
	   "if QEMU does not say where the RAM is, what is known stays: %s", why.text);
	ok(libvirt_memory_follow(&memory, &domain, NULL) == -EPROTO, "whoever asks");
	mute = false;
	ok(follows() && !memory.by_stub, "later it is followed again");
	ok(closes(), "nothing is left open");
}

static void test_mapping(void)
{
	struct libvirt_mapping m;

	ok(libvirt_parse_mapping("7fa70ffff000-7fa71ffff000 rw-s 00001000 00:01 499   /memfd:x "
				 "(deleted)\n",
				 &m),
	   "a line of /proc/PID/maps is taken");
	ok(m.start == 0x7fa70ffff000 && m.end == 0x7fa71ffff000 && m.shared && m.offset == 0x1000 &&
		   m.major == 0 && m.minor == 1 && m.inode == 499,
	   "a mapping has the line's range, offset, device and inode");
	ok(libvirt_parse_mapping("1000-2000 rw-p 00000000 00:00 0\n", &m) && !m.shared,
	   "a private mapping is not shared");
	ok(!libvirt_parse_mapping("2000-1000 rw-p 00000000 00:00 0\n", &m),
	   "a mapping that ends before it begins is refused");
	ok(!libvirt_parse_mapping("VmFlags: rd\n", &m), "a line that is not a mapping is refused");
}

int main(void)
{
	test_mapping();
	test_shared();
	test_private();
	test_copied();
	test_short();
	test_stub();
	test_same(false);
	test_same(true);
	test_replaced();
	test_moved();
	test_scratch();
	test_many_mappings();
	test_failed();
	begin();
	return tap_done();
}
