/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/tiny-kernel.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int tiny_kernel_write(const struct tiny_kernel *kernel, char path[64])
{
	struct {
		Elf64_Ehdr header;
		Elf64_Phdr segment;
	} elf = {
		.header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
				       EV_CURRENT},
			   .e_type = ET_EXEC,
			   .e_machine = EM_X86_64,
			   .e_version = EV_CURRENT,
			   .e_entry = tiny_kernel_phys,
			   .e_phoff = sizeof(Elf64_Ehdr),
			   .e_ehsize = sizeof(Elf64_Ehdr),
			   .e_phentsize = sizeof(Elf64_Phdr),
			   .e_phnum = 1},
		.segment = {.p_type = PT_LOAD,
			    .p_offset = sizeof(elf),
			    .p_vaddr = tiny_kernel_virt,
			    .p_paddr = tiny_kernel_phys,
			    .p_filesz = kernel->size,
			    .p_memsz = kernel->memory_size ? kernel->memory_size : kernel->size},
	};
	int fd, ret = 0;

	strcpy(path, "/tmp/tiny-kernel-XXXXXX");
	fd = mkstemp(path);
	if (fd < 0)
		return -1;
	if (write(fd, &elf, sizeof(elf)) != (ssize_t)sizeof(elf) ||
	    write(fd, kernel->code, kernel->size) != (ssize_t)kernel->size ||
	    ftruncate(fd, (off_t)(sizeof(elf) + kernel->size - kernel->cut)) < 0)
		ret = -1;
	close(fd);
	return ret;
}
