/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/image/given.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- files ------------------------------------------------------------------------------------ */

static int too_large(struct error *err)
{
	static_assert(GIVEN_MAX == 64 << 20, "the text has it, too");

	return error_set(err, E2BIG, "more than 64 MiB");
}

/* What is behind the descriptor, up to the end; also of pipes and files of the kernel's own. The
 * caller frees *out, also after an error. */
static int read_all(int fd, uint8_t **out, size_t *size, struct error *err)
{
	ssize_t n = 1;

	*size = 0;
	*out = malloc(GIVEN_MAX + 1);
	if (!*out)
		return error_set(err, ENOMEM, "out of memory");
	while (n > 0 && *size <= GIVEN_MAX) {
		n = read(fd, *out + *size, GIVEN_MAX + 1 - *size);
		if (n > 0)
			*size += (size_t)n;
		else if (n < 0 && errno == EINTR)
			n = 1;
	}
	if (n < 0)
		return error_set(err, errno, "cannot read: %s", strerror(errno));
	return *size > GIVEN_MAX ? too_large(err) : 0;
}

typedef int read_fn(int fd, struct kernel_given *out, struct error *err);

static int read_file(const char *path, read_fn *read_it, struct kernel_given *out,
		     struct error *err)
{
	int fd, ret;

	if (!path)
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno, "%s: cannot open: %s", path, strerror(errno));
	ret = read_it(fd, out, err);
	if (ret)
		error_prefix(err, "%s: ", path);
	close(fd);
	return ret;
}

static int read_map(int fd, struct kernel_given *out, struct error *err)
{
	uint8_t *bytes;
	int ret = read_all(fd, &bytes, &out->system_map.size, err);

	out->system_map.bytes = bytes;
	return ret;
}

/* --- types ------------------------------------------------------------------------------------ */

static bool is_elf(const uint8_t *bytes, size_t size)
{
	return size >= SELFMAG && !memcmp(bytes, ELFMAG, SELFMAG);
}

static bool is_elf_file(int fd)
{
	uint8_t magic[SELFMAG];

	return pread(fd, magic, SELFMAG, 0) == SELFMAG && is_elf(magic, SELFMAG);
}

static Elf_Scn *find_btf(Elf *elf, GElf_Shdr *header)
{
	Elf_Scn *section = NULL;
	size_t names;

	if (elf_getshdrstrndx(elf, &names))
		return NULL;
	while ((section = elf_nextscn(elf, section))) {
		const char *name = gelf_getshdr(section, header)
					   ? elf_strptr(elf, names, header->sh_name)
					   : NULL;

		if (name && !strcmp(name, ".BTF") && header->sh_type != SHT_NOBITS)
			return section;
	}
	return NULL;
}

/* Of a file libelf reads no more than it is asked for: an ELF with debug information is large. */
static int types_of_elf(Elf *elf, struct btf_types **out, struct error *err)
{
	GElf_Ehdr file;
	GElf_Shdr header;
	Elf_Scn *section;
	Elf_Data *data;

	if (!gelf_getehdr(elf, &file) || file.e_machine != EM_X86_64)
		return error_set(err, ENOEXEC, "not an x86-64 ELF file");
	section = find_btf(elf, &header);
	if (!section)
		return error_set(err, ENOENT,
				 "no section .BTF: pahole -J makes one from debug information");
	if (header.sh_size > GIVEN_MAX)
		return too_large(err);
	data = elf_rawdata(section, NULL);
	if (!data || !data->d_buf)
		return error_set(err, EBADMSG, "section .BTF cannot be read");
	return btf_parse(data->d_buf, data->d_size, out, err);
}

int given_types_parse(const uint8_t *bytes, size_t size, struct btf_types **out, struct error *err)
{
	Elf *elf;
	int ret;

	if (!is_elf(bytes, size))
		return btf_parse(bytes, size, out, err);
	elf_version(EV_CURRENT);
	/* libelf takes a writable pointer, but does not write to a native file. */
	elf = elf_memory((char *)(uintptr_t)bytes, size);
	ret = types_of_elf(elf, out, err);
	elf_end(elf);
	return ret;
}

static int read_elf(int fd, struct btf_types **out, struct error *err)
{
	Elf *elf;
	int ret;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	ret = types_of_elf(elf, out, err);
	elf_end(elf);
	return ret;
}

static int read_types(int fd, struct kernel_given *out, struct error *err)
{
	uint8_t *bytes;
	size_t size;
	int ret;

	if (is_elf_file(fd))
		return read_elf(fd, &out->btf.types, err);
	ret = read_all(fd, &bytes, &size, err);
	if (!ret)
		ret = given_types_parse(bytes, size, &out->btf.types, err);
	free(bytes);
	return ret;
}

/* --- all of it -------------------------------------------------------------------------------- */

int kernel_given_open(const char *system_map, const char *btf, struct kernel_given *out,
		      struct error *err)
{
	int ret;

	*out = (struct kernel_given){.system_map.path = system_map, .btf.path = btf};
	ret = read_file(system_map, read_map, out, err);
	if (!ret)
		ret = read_file(btf, read_types, out, err);
	if (ret)
		kernel_given_close(out);
	return ret;
}

void kernel_given_close(struct kernel_given *given)
{
	free((void *)(uintptr_t)given->system_map.bytes);
	btf_destroy(given->btf.types);
	*given = (struct kernel_given){0};
}

int kernel_given_symbols(const struct kernel_given *given, struct symbol_table **out,
			 struct error *err)
{
	int ret = symbols_from_system_map((const char *)given->system_map.bytes,
					  given->system_map.size, out, err);

	if (ret)
		error_prefix(err, "%s: ", given->system_map.path);
	return ret;
}
