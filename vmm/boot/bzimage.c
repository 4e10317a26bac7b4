/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/boot/image.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum {
	SECTOR_SIZE = 512,
	DEFAULT_SETUP_SECTS = 4, /* what 0 means, as in the oldest kernels */
	LOAD_GPA = 0x100000,
	ENTRY64_OFFSET = 0x200,
	MIB = 0x100000,
};

/* Memory the decompressor works in: init_size bytes from where it moves itself to. */
static uint64_t work_end(const struct setup_header *header)
{
	uint64_t start = header->pref_address > LOAD_GPA ? header->pref_address : LOAD_GPA;

	return start > UINT64_MAX - header->init_size ? UINT64_MAX : start + header->init_size;
}

int boot_load_bzimage(struct boot_image *image, struct boot_entry *entry, struct error *err)
{
	const struct kernel_file *file = image->file;
	const struct setup_header *header = &image->params->hdr;
	uint64_t setup_sects = header->setup_sects ? header->setup_sects : DEFAULT_SETUP_SECTS;
	uint64_t offset = (setup_sects + 1) * SECTOR_SIZE;

	if (file->format != KERNEL_FORMAT_BZIMAGE)
		return error_set(err, ENOEXEC, "%s: not a bzImage: use --boot direct", file->path);
	if (!(header->xloadflags & XLF_KERNEL_64) || !header->relocatable_kernel)
		return error_set(err, ENOTSUP,
				 "%s: the kernel has no relocatable 64-bit entry point",
				 file->path);
	if (offset + ENTRY64_OFFSET >= file->file_size)
		return error_set(err, EBADMSG, "%s: truncated: nothing after the setup code",
				 file->path);
	if (work_end(header) > image->ram_end ||
	    file->file_size - offset > image->ram_end - LOAD_GPA)
		return error_set(err, ENOMEM,
				 "%s: the kernel needs %" PRIu64
				 " MiB to decompress, which with the "
				 "initrd do not fit in %" PRIu64 " MiB of RAM: give more with -m",
				 file->path, work_end(header) / MIB, image->memory->size / MIB);
	memcpy(guest_memory_at(image->memory, LOAD_GPA, file->file_size - offset),
	       file->file + offset, file->file_size - offset);
	image->params->hdr.code32_start = LOAD_GPA;
	entry->rip = LOAD_GPA + ENTRY64_OFFSET;
	return 0;
}
