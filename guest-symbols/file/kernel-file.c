/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/file/kernel-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "guest-symbols/file/bzimage.h"
#include "guest-symbols/file/elf-view.h"

/* The ELF is followed by the relocation table, if the kernel was built relocatable. */
static int split_relocs(struct kernel_file *file, struct error *err)
{
	struct elf_view view;
	size_t end;
	int ret = elf_view_init(&view, file->vmlinux, file->vmlinux_size, err);

	if (ret) {
		error_prefix(err, "kernel inside the bzImage: ");
		return ret;
	}
	end = elf_view_end(&view);
	if (end < file->vmlinux_size) {
		file->relocs = file->vmlinux + end;
		file->relocs_size = file->vmlinux_size - end;
		file->vmlinux_size = end;
	}
	return 0;
}

/* The decoders count from the payload's beginning. */
static int place_error(const struct kernel_file *file, int ret, struct error *err)
{
	if (err && err->has_address)
		err->address += (uint64_t)(file->packed - file->file);
	return ret;
}

static int recognise_bzimage(struct kernel_file *file, struct error *err)
{
	size_t offset, length;
	int ret = bzimage_payload(file->file, file->file_size, &offset, &length, err);

	if (ret)
		return ret;
	file->format = KERNEL_FORMAT_BZIMAGE;
	if (length > SELFMAG && !memcmp(file->file + offset, ELFMAG, SELFMAG)) {
		file->compression = "none";
		file->vmlinux = file->file + offset;
		file->vmlinux_size = length;
		return split_relocs(file, err);
	}
	file->packed = file->file + offset;
	file->packed_size = length;
	ret = decompress_probe(file->packed, length, &file->unpacked_size, &file->compression, err);
	if (ret)
		return place_error(file, ret, err);
	/* the other formats have checksums of their own */
	if (!strcmp(file->compression, "lz4"))
		return bzimage_verify(file->file, file->file_size, err);
	return 0;
}

static int recognise_elf(struct kernel_file *file, struct error *err)
{
	struct elf_view view;

	file->format = KERNEL_FORMAT_ELF;
	file->compression = "none";
	file->vmlinux = file->file;
	file->vmlinux_size = file->file_size;
	return elf_view_init(&view, file->vmlinux, file->vmlinux_size, err);
}

static int recognise(struct kernel_file *file, struct error *err)
{
	if (bzimage_probe(file->file, file->file_size))
		return recognise_bzimage(file, err);
	if (file->file_size >= SELFMAG && !memcmp(file->file, ELFMAG, SELFMAG))
		return recognise_elf(file, err);
	return error_set(err, ENOEXEC, "not a Linux kernel (neither bzImage nor ELF vmlinux)");
}

static void free_own(struct kernel_file *file)
{
	if (file->own)
		munmap(file->own, file->unpacked_size);
	file->own = NULL;
}

/* Populating at once saves a page fault for each 4 KiB, which are dear where the host's own
 * virtualisation is emulated. */
static int map_own(struct kernel_file *file, struct error *err)
{
	void *own = mmap(NULL, file->unpacked_size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (own == MAP_FAILED)
		return error_set(err, ENOMEM, "no memory for a kernel of %zu bytes",
				 file->unpacked_size);
	file->own = own;
	return 0;
}

static int unpack(struct kernel_file *file, uint8_t *to, struct error *err)
{
	int ret = 0;

	file->vmlinux = file->relocs = NULL;
	free_own(file);
	if (!to)
		ret = map_own(file, err);
	if (ret)
		return ret;
	to = to ? to : file->own;
	ret = decompress_payload(file->packed, file->packed_size, to, err);
	if (ret)
		return place_error(file, ret, err);
	file->vmlinux = to;
	file->vmlinux_size = file->unpacked_size;
	return split_relocs(file, err);
}

int kernel_file_unpack(struct kernel_file *file, uint8_t *to, struct error *err)
{
	return file->packed ? unpack(file, to, err) : 0;
}

int kernel_file_from_memory(const void *bytes, size_t size, struct kernel_file **out,
			    struct error *err)
{
	struct kernel_file *file = calloc(1, sizeof(*file));
	int ret;

	if (!file)
		return error_set(err, ENOMEM, "out of memory");
	file->file = bytes;
	file->file_size = size;
	ret = recognise(file, err);
	if (!ret)
		ret = kernel_file_unpack(file, NULL, err);
	if (ret)
		kernel_file_close(file);
	else
		*out = file;
	return ret;
}

static int map_file(const char *path, struct kernel_file *file, struct error *err)
{
	struct stat st;
	void *bytes;
	int ret = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return error_set(err, errno, "cannot open: %s", strerror(errno));
	if (fstat(fd, &st))
		ret = error_set(err, errno, "cannot stat: %s", strerror(errno));
	else if (!S_ISREG(st.st_mode) || !st.st_size)
		ret = error_set(err, ENOEXEC, "not a Linux kernel (%s)",
				S_ISREG(st.st_mode) ? "empty file" : "not a regular file");
	if (ret)
		goto out;
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED) {
		ret = error_set(err, errno, "cannot map: %s", strerror(errno));
		goto out;
	}
	file->file = bytes;
	file->file_size = (size_t)st.st_size;
out:
	close(fd);
	return ret;
}

int kernel_file_map(const char *path, struct kernel_file **out, struct error *err)
{
	struct kernel_file *file = calloc(1, sizeof(*file));
	int ret;

	if (!file || !(file->path = strdup(path))) {
		free(file);
		return error_set(err, ENOMEM, "out of memory");
	}
	ret = map_file(path, file, err);
	if (!ret)
		ret = recognise(file, err);
	if (ret) {
		kernel_file_close(file);
		error_prefix(err, "%s: ", path);
		return ret;
	}
	*out = file;
	return 0;
}

int kernel_file_open(const char *path, struct kernel_file **out, struct error *err)
{
	struct kernel_file *file;
	int ret = kernel_file_map(path, &file, err);

	if (ret)
		return ret;
	ret = kernel_file_unpack(file, NULL, err);
	if (ret) {
		kernel_file_close(file);
		error_prefix(err, "%s: ", path);
		return ret;
	}
	*out = file;
	return 0;
}

void kernel_file_close(struct kernel_file *file)
{
	if (!file)
		return;
	free_own(file);
	/* Only kernel_file_open() sets a path, and only it owns the mapping of the file. */
	if (file->path && file->file)
		munmap((void *)file->file, file->file_size);
	free(file->path);
	free(file);
}
