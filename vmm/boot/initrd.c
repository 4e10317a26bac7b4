// SPDX-License-Identifier: GPL-2.0-or-later
#include "vmm/boot/image.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint64_t page_mask = 0xfff;
static const double mib = 1048576.0;

/* Straight into guest memory: no copy of it stays with us. */
static int read_all(int fd, uint8_t *to, uint64_t size, const char *path, struct error *err)
{
	while (size) {
		ssize_t n = read(fd, to, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_set(err, errno, "%s: %s", path, strerror(errno));
		if (n == 0)
			return error_set(err, EIO, "%s: shrank while being read", path);
		to += n;
		size -= (uint64_t)n;
	}
	return 0;
}

/* The highest page-aligned place below ram_end and the kernel's own limit; 0 if there is none. */
static uint64_t place(const struct boot_image *image, uint64_t size)
{
	uint64_t end = image->ram_end;
	uint64_t limit = (uint64_t)image->params->hdr.initrd_addr_max + 1;

	if (end > limit)
		end = limit;
	if (size > end)
		return 0;
	end = (end - size) & ~page_mask;
	return end > boot_kernel_min ? end : 0;
}

static int load(struct boot_image *image, int fd, const char *path, struct error *err)
{
	struct stat st;
	uint64_t gpa, size;
	int rc;

	if (fstat(fd, &st) < 0)
		return error_set(err, errno, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return error_set(err, EINVAL, "%s: the initrd is not a regular file", path);
	size = (uint64_t)st.st_size;
	gpa = place(image, size);
	if (!gpa || size > UINT32_MAX)
		return error_set(err, EFBIG,
				 "%s: the initrd (%.1f MiB) is too large for the RAM (%.0f MiB): "
				 "give more with -m",
				 path, (double)size / mib, (double)image->memory->size / mib);
	rc = read_all(fd, guest_memory_at(image->memory, gpa, size), size, path, err);
	if (rc < 0)
		return rc;
	image->params->hdr.ramdisk_image = (uint32_t)gpa;
	image->params->hdr.ramdisk_size = (uint32_t)size;
	image->ram_end = gpa;
	return 0;
}

int boot_load_initrd(struct boot_image *image, const char *path, struct error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int rc;

	if (fd < 0)
		return error_set(err, errno, "cannot open the initrd %s: %s", path,
				 strerror(errno));
	rc = load(image, fd, path, err);
	close(fd);
	return rc;
}
