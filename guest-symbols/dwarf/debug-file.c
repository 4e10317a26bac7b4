/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/dwarf/debug-file.h"

#include <dlfcn.h>
#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <libelf.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/text.h"

enum { MAX_ID = 32 /* bytes */ };

/* --- one file -------------------------------------------------------------------------------- */

/* The build id of an ELF file in hex; "" if it has none. */
static void read_id(int fd, char out[2 * MAX_ID + 1])
{
	const void *bytes;
	ssize_t size;
	Elf *elf;

	out[0] = '\0';
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	size = elf ? dwelf_elf_gnu_build_id(elf, &bytes) : -1;
	if (size > 0 && size <= MAX_ID)
		hex_encode(out, bytes, (size_t)size);
	elf_end(elf);
}

int debug_file_open(const char *path, const struct trace_info *info, struct error *err)
{
	char id[2 * MAX_ID + 1];
	int fd;

	if (!*info->build_id)
		return error_set(err, EINVAL,
				 "the trace has no build id to choose debug information by");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno, "%s: %s", path, strerror(errno));
	read_id(fd, id);
	if (!strcmp(id, info->build_id))
		return fd;
	close(fd);
	if (!*id)
		return error_set(err, EINVAL, "%s: not an ELF file with a build id", path);
	return error_set(err, EINVAL,
			 "%s: not of the kernel that was traced: its build id is %.16s, not %.16s",
			 path, id, info->build_id);
}

int debug_file_open_id(const char *path, const char *id)
{
	char its[2 * MAX_ID + 1];
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	read_id(fd, its);
	if (!*id || !strcmp(its, id))
		return fd;
	close(fd);
	return -EINVAL;
}

/* --- installed files ------------------------------------------------------------------------- */

/* Of "Linux version 6.1.0-56-cloud-amd64 (...". Traces are not trusted. */
bool debug_file_release(const struct trace_info *info, char out[DEBUG_RELEASE_ROOM])
{
	static const char begin[] = "Linux version ";
	const char *from = info->banner + sizeof(begin) - 1;
	size_t n;

	if (strncmp(info->banner, begin, sizeof(begin) - 1) != 0)
		return false;
	n = strcspn(from, " ");
	if (!n || n >= DEBUG_RELEASE_ROOM || memchr(from, '/', n) || *from == '.')
		return false;
	snprintf(out, DEBUG_RELEASE_ROOM, "%.*s", (int)n, from);
	return true;
}

/* /usr/lib/debug/.build-id/3b/43fad5....debug, as gdb and elfutils look for it. */
static int open_by_id(const char *root, const char *id)
{
	char path[PATH_MAX];
	uint8_t bytes[MAX_ID];
	const size_t digits = strlen(id);

	if (digits < 4 || digits > 2 * MAX_ID || !hex_decode(bytes, id, digits / 2))
		return -ENOENT;
	snprintf(path, sizeof(path), "%s/usr/lib/debug/.build-id/%.2s/%s.debug", root, id, id + 2);
	return debug_file_open_id(path, id);
}

/* Where Debian, Fedora, SUSE and who builds kernels have them. */
static int open_by_release(const char *root, const struct trace_info *info)
{
	static const char *const places[][2] = {
		{"/usr/lib/debug/lib/modules/", "/vmlinux"},
		{"/usr/lib/debug/boot/vmlinux-", ""},
		{"/usr/lib/debug/usr/lib/modules/", "/vmlinux.debug"},
		{"/usr/lib/debug/boot/vmlinux-", ".debug"},
		{"/lib/modules/", "/build/vmlinux"},
		{"/boot/vmlinux-", ""},
	};
	char release[DEBUG_RELEASE_ROOM], path[PATH_MAX];
	int fd = -ENOENT;

	if (!debug_file_release(info, release))
		return -ENOENT;
	for (size_t i = 0; fd < 0 && i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s%s%s%s", root, places[i][0], release, places[i][1]);
		fd = debug_file_open_id(path, info->build_id);
	}
	return fd;
}

/* --- debuginfod ------------------------------------------------------------------------------ */

/* Of libdebuginfod (elfutils, debuginfod_find_debuginfo(3)). It is loaded only if servers are
 * configured: it brings an HTTP client with it. */
struct debuginfod {
	void *library;
	void *(*begin)(void);
	int (*find)(void *client, const unsigned char *id, int size, char **path);
	void (*end)(void *client);
};

static bool load_debuginfod(struct debuginfod *d)
{
	d->library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!d->library)
		return false;
	*(void **)&d->begin = dlsym(d->library, "debuginfod_begin");
	*(void **)&d->find = dlsym(d->library, "debuginfod_find_debuginfo");
	*(void **)&d->end = dlsym(d->library, "debuginfod_end");
	return d->begin && d->find && d->end;
}

/* An id of 0 bytes would be one in hex, not in bytes. */
static int find_by_debuginfod(const struct debuginfod *d, const char *build_id)
{
	unsigned char id[MAX_ID];
	const size_t size = strlen(build_id) / 2;
	char *path = NULL;
	void *client;
	int fd;

	if (!size || size > MAX_ID || !hex_decode(id, build_id, size))
		return -EINVAL;
	client = d->begin();
	if (!client)
		return -ENOMEM;
	fd = d->find(client, id, (int)size, &path);
	d->end(client);
	if (fd >= 0) { /* what a server has sent is checked as any other file */
		close(fd);
		fd = debug_file_open_id(path, build_id);
	}
	free(path);
	return fd;
}

static int ask_debuginfod(const char *build_id, const char **failure)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	struct debuginfod d;
	int fd;

	*failure = "DEBUGINFOD_URLS is not set";
	if (!urls || !*urls)
		return -ENOENT;
	*failure = "libdebuginfod.so.1 cannot be loaded";
	if (!load_debuginfod(&d))
		return -ENOENT;
	fd = find_by_debuginfod(&d, build_id);
	*failure = fd == -ENOENT ? "the servers of DEBUGINFOD_URLS do not have it"
				 : strerror(fd < 0 ? -fd : 0);
	return fd;
}

/* --- all of it ------------------------------------------------------------------------------- */

int debug_file_search_id(const char *root, const char *id)
{
	const char *failure;
	int fd = open_by_id(root, id);

	if (fd < 0)
		fd = ask_debuginfod(id, &failure);
	return fd < 0 ? -ENOENT : fd;
}

int debug_file_search(const char *root, const struct trace_info *info, struct error *err)
{
	const char *failure;
	int fd;

	if (!*info->build_id)
		return error_set(err, EINVAL,
				 "the trace has no build id to choose debug information by");
	fd = open_by_id(root, info->build_id);
	if (fd < 0)
		fd = open_by_release(root, info);
	if (fd < 0)
		fd = ask_debuginfod(info->build_id, &failure);
	if (fd >= 0)
		return fd;
	return error_set(err, ENOENT,
			 "no debug information of the kernel with build id %.16s below "
			 "/usr/lib/debug, and %s: install the kernel's debug package, or name "
			 "its vmlinux with --debug-file",
			 info->build_id, failure);
}
