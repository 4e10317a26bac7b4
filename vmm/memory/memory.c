/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Guest RAM: the memory file it is in, its regions, and the map that the guest gets of it. */
#include "vmm/memory/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "vmm/kvm/kvm.h"

/*
 * The first MiB of every PC: 1 KiB of extended BIOS data below 640 KiB, then the window for VGA and
 * ROM, of which the last 128 KiB hold the ACPI tables.
 */
enum { EBDA_GPA = 0x9fc00, VGA_GPA = 0xa0000, MIB = 0x100000 };

static const uint64_t device_page = 0x1000;

/* --- the memory file ------------------------------------------------------------------------- */

/*
 * Huge pages for a file in memory: if this host has transparent huge pages switched on, the file
 * is made in a private tmpfs that uses them, because a guest then boots with a tenth of the page
 * faults. A memfd has them only where the administrator says so
 * (Documentation/admin-guide/mm/transhuge.rst, "Hugepages in tmpfs/shmem").
 *
 * fsopen() makes the tmpfs. It is mounted nowhere, and lives as long as the one file in it. Root
 * may make it directly. Other users need a user namespace, which a process with several threads
 * cannot enter; so a child process enters one, and sends the descriptor.
 */

static bool has_huge_pages(void)
{
	int fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
	char text[64] = {0};
	ssize_t n = -1;

	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	return n > 0 && !strstr(text, "[never]");
}

static bool configure(int fs)
{
	/* "0" is "no limit": the size is the guest's, not a share of the host's memory. */
	static const char *const options[][2] = {
		{"huge", "within_size"}, {"size", "0"}, {"mode", "0700"}};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (fsconfig(fs, FSCONFIG_SET_STRING, options[i][0], options[i][1], 0) < 0)
			return false;
	return fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0;
}

static int open_in_own_tmpfs(void)
{
	int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
	int mount, fd = -1;

	if (fs < 0)
		return -1;
	mount = configure(fs) ? fsmount(fs, FSMOUNT_CLOEXEC, 0) : -1;
	if (mount >= 0) {
		fd = openat(mount, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
		close(mount);
	}
	close(fs);
	return fd;
}

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

/* Become root of a user namespace that has no other user (user_namespaces(7)). */
static bool enter_namespace(void)
{
	char uids[32], gids[32];

	snprintf(uids, sizeof(uids), "0 %u 1", getuid());
	snprintf(gids, sizeof(gids), "0 %u 1", getgid());
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
	       write_text("/proc/self/setgroups", "deny") &&
	       write_text("/proc/self/uid_map", uids) && write_text("/proc/self/gid_map", gids);
}

union fd_message {
	struct cmsghdr header;
	uint8_t room[CMSG_SPACE(sizeof(int))];
};

static void send_fd(int socket, int fd)
{
	union fd_message control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)),
					       .cmsg_level = SOL_SOCKET,
					       .cmsg_type = SCM_RIGHTS}};
	struct iovec data = {.iov_base = "", .iov_len = 1};
	struct msghdr message = {.msg_iov = &data,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};

	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	sendmsg(socket, &message, MSG_NOSIGNAL);
}

static int receive_fd(int socket)
{
	union fd_message control = {.room = {0}};
	char byte;
	struct iovec data = {.iov_base = &byte, .iov_len = 1};
	struct msghdr message = {.msg_iov = &data,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	int fd;

	if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1 ||
	    control.header.cmsg_type != SCM_RIGHTS)
		return -1;
	memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
	return fd;
}

static int open_by_child(void)
{
	int sockets[2], fd = -1;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0)
		return -1;
	child = fork();
	if (child == 0) {
		fd = enter_namespace() ? open_in_own_tmpfs() : -1;
		if (fd >= 0)
			send_fd(sockets[1], fd);
		_exit(0);
	}
	close(sockets[1]);
	if (child > 0) {
		fd = receive_fd(sockets[0]);
		waitpid(child, NULL, 0);
	}
	close(sockets[0]);
	return fd;
}

static int open_file(void)
{
	int fd = -1;

	if (has_huge_pages()) {
		fd = open_in_own_tmpfs();
		if (fd < 0 && errno == EPERM)
			fd = open_by_child();
	}
	return fd < 0 ? memfd_create("sonde-guest-ram", MFD_CLOEXEC) : fd;
}

/* A descriptor of `size` bytes of zeros, or a negative errno. */
static int create_file(uint64_t size)
{
	int fd = open_file();
	int code;

	if (fd >= 0 && ftruncate(fd, (off_t)size) == 0)
		return fd;
	code = errno;
	if (fd >= 0)
		close(fd);
	return -code;
}

/* --- RAM -------------------------------------------------------------------------------------- */

int guest_memory_init(struct guest_memory *memory, uint64_t size, struct error *err)
{
	uint64_t low = size < memory_hole_gpa ? size : memory_hole_gpa;
	int code;

	*memory = (struct guest_memory){.fd = -1, .hva = MAP_FAILED, .size = size};
	memory->fd = create_file(size);
	if (memory->fd >= 0)
		memory->hva = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
				   memory->fd, 0);
	if (memory->hva == MAP_FAILED) {
		code = memory->fd < 0 ? -memory->fd : errno;
		guest_memory_deinit(memory);
		return error_set(err, code, "cannot reserve %" PRIu64 " MiB of guest memory: %s",
				 size / MIB, strerror(code));
	}
	madvise(memory->hva, size, MADV_DONTDUMP); /* the guest's secrets are not this process's */
	memory->regions[0] = (struct guest_region){.gpa = 0, .size = low, .hva = memory->hva};
	memory->nr_regions = 1;
	if (size > low) {
		memory->regions[1] = (struct guest_region){
			.gpa = memory_high_gpa, .size = size - low, .hva = memory->hva + low};
		memory->nr_regions = 2;
	}
	return 0;
}

void guest_memory_deinit(struct guest_memory *memory)
{
	if (memory->hva && memory->hva != MAP_FAILED)
		munmap(memory->hva, memory->size);
	if (memory->fd >= 0)
		close(memory->fd);
	memory->hva = NULL;
	memory->fd = -1;
	memory->nr_regions = 0;
}

void *guest_memory_at(const struct guest_memory *memory, uint64_t gpa, uint64_t size)
{
	for (size_t i = 0; i < memory->nr_regions; i++) {
		const struct guest_region *region = &memory->regions[i];

		if (gpa >= region->gpa && gpa - region->gpa <= region->size &&
		    size <= region->size - (gpa - region->gpa))
			return region->hva + (gpa - region->gpa);
	}
	return NULL;
}

size_t guest_memory_map(const struct guest_memory *memory,
			struct memory_map_entry map[MEMORY_MAP_MAX])
{
	size_t n = 0;

	map[n++] = (struct memory_map_entry){0, EBDA_GPA, MEMORY_MAP_USABLE};
	map[n++] = (struct memory_map_entry){EBDA_GPA, VGA_GPA - EBDA_GPA, MEMORY_MAP_RESERVED};
	map[n++] = (struct memory_map_entry){ACPI_TABLES_GPA, MIB - ACPI_TABLES_GPA,
					     MEMORY_MAP_RESERVED};
	map[n++] = (struct memory_map_entry){MIB, memory->regions[0].size - MIB, MEMORY_MAP_USABLE};
	map[n++] = (struct memory_map_entry){memory_ioapic_gpa, device_page, MEMORY_MAP_RESERVED};
	map[n++] = (struct memory_map_entry){memory_lapic_gpa, device_page, MEMORY_MAP_RESERVED};
	map[n++] =
		(struct memory_map_entry){kvm_private_gpa, kvm_private_size, MEMORY_MAP_RESERVED};
	if (memory->nr_regions > 1)
		map[n++] = (struct memory_map_entry){memory->regions[1].gpa,
						     memory->regions[1].size, MEMORY_MAP_USABLE};
	return n;
}
