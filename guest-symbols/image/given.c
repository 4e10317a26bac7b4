/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/image/given.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "guest-symbols/file/elf-view.h"

enum { READ_MAX = 64 << 20 }; /* of a file that cannot be mapped */

/* What is behind the descriptor, up to the end. */
static int read_all(int fd, struct given_file *file, struct error *err)
{
	uint8_t *bytes = malloc(READ_MAX);
	ssize_t n = 1;

	if (!bytes)
		return error_set(err, ENOMEM, "out of memory");
	file->bytes = bytes;
	while (n > 0 && file->size < READ_MAX) {
		n = read(fd, bytes + file->size, READ_MAX - file->size);
		if (n > 0)
			file->size += (size_t)n;
		else if (n < 0 && errno == EINTR)
			n = 1;
	}
	if (n < 0)
		return error_set(err, errno, "cannot read: %s", strerror(errno));
	return n ? error_set(err, E2BIG, "more than %d MiB", READ_MAX >> 20) : 0;
}

/* Files of the kernel's own (sysfs) and pipes cannot be mapped. */
static bool map_all(int fd, struct given_file *file)
{
	struct stat st;
	void *bytes;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0)
		return false;
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return false;
	file->bytes = bytes;
	file->size = (size_t)st.st_size;
	file->is_mapped = true;
	return true;
}

static int open_file(const char *path, struct given_file *file, struct error *err)
{
	int fd, ret = 0;

	if (!path)
		return 0;
	file->path = path;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno, "%s: cannot open: %s", path, strerror(errno));
	if (!map_all(fd, file))
		ret = read_all(fd, file, err);
	if (ret)
		error_prefix(err, "%s: ", path);
	close(fd);
	return ret;
}

static int check_types(const struct kernel_given *given, struct error *err)
{
	struct btf_types *types = NULL;
	int ret = given->btf.path ? kernel_given_types(given, &types, err) : 0;

	btf_destroy(types);
	return ret;
}

static void close_file(struct given_file *file)
{
	if (file->is_mapped)
		munmap((void *)(uintptr_t)file->bytes, file->size);
	else
		free((void *)(uintptr_t)file->bytes);
}

int kernel_given_open(const char *system_map, const char *btf, struct kernel_given *out,
		      struct error *err)
{
	int ret;

	*out = (struct kernel_given){0};
	ret = open_file(system_map, &out->system_map, err);
	if (!ret)
		ret = open_file(btf, &out->btf, err);
	if (!ret)
		ret = check_types(out, err);
	if (ret)
		kernel_given_close(out);
	return ret;
}

void kernel_given_close(struct kernel_given *given)
{
	close_file(&given->system_map);
	close_file(&given->btf);
	*given = (struct kernel_given){0};
}

int kernel_given_symbols(const struct kernel_given *given, struct symbol_table **out,
			 struct error *err)
{
	const struct given_file *file = &given->system_map;
	int ret = symbols_from_system_map((const char *)file->bytes, file->size, out, err);

	if (ret)
		error_prefix(err, "%s: ", file->path);
	return ret;
}

static bool is_elf(const struct given_file *file)
{
	return file->size >= SELFMAG && !memcmp(file->bytes, ELFMAG, SELFMAG);
}

static int types_of_elf(const struct given_file *file, struct btf_types **out, struct error *err)
{
	struct elf_view view;
	Elf64_Shdr section;
	int ret = elf_view_init(&view, file->bytes, file->size, err);

	if (ret)
		return ret;
	if (!elf_view_find_section(&view, ".BTF", &section))
		return error_set(err, ENOENT,
				 "no section .BTF: pahole -J makes one from debug information");
	return btf_parse(file->bytes + section.sh_offset, section.sh_size, out, err);
}

int kernel_given_types(const struct kernel_given *given, struct btf_types **out, struct error *err)
{
	const struct given_file *file = &given->btf;
	int ret = is_elf(file) ? types_of_elf(file, out, err)
			       : btf_parse(file->bytes, file->size, out, err);

	if (ret)
		error_prefix(err, "%s: ", file->path);
	return ret;
}
