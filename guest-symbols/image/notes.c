/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/image/notes.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/cursor.h"

enum {
	MAX_BANNER = 512,
	MAX_RELEASE = 64, /* __NEW_UTS_LEN */
};

/* "Linux version 6.1.0-56-cloud-amd64 (...) ... SMP ...\n" (init/version.c) */
static int load_banner(struct kernel_image *image, struct error *err)
{
	static const char prefix[] = "Linux version ";
	uint64_t address = symbols_address(image->symbols, "linux_banner");
	const uint8_t *bytes = kernel_image_bytes(image, address, MAX_BANNER);
	size_t n = 0, release;

	if (!bytes || memcmp(bytes, prefix, sizeof(prefix) - 1))
		return error_set_at(err, ENOENT, address, "kernel has no banner (linux_banner)");
	while (n < MAX_BANNER && isprint(bytes[n]))
		n++;
	image->banner = strndup((const char *)bytes, n);
	if (!image->banner)
		return error_set(err, ENOMEM, "out of memory");
	release = strcspn(image->banner + sizeof(prefix) - 1, " ");
	image->release = strndup(image->banner + sizeof(prefix) - 1,
				 release < MAX_RELEASE ? release : MAX_RELEASE);
	return image->release ? 0 : error_set(err, ENOMEM, "out of memory");
}

static const uint8_t *padded(struct cursor *c, uint32_t size)
{
	const uint8_t *bytes = cursor_bytes(c, size);

	/* The last note may lack its padding. */
	cursor_skip(c, cursor_left(c) < -size % 4 ? cursor_left(c) : -size % 4);
	return bytes;
}

/* System V gABI, chapter 5, "Note Section"; NT_GNU_BUILD_ID is the linker's --build-id. */
static bool find_build_id(struct kernel_image *image, struct cursor notes)
{
	while (cursor_left(&notes)) {
		uint32_t name_size = cursor_u32(&notes);
		uint32_t size = cursor_u32(&notes);
		uint32_t type = cursor_u32(&notes);
		const uint8_t *name = padded(&notes, name_size);
		const uint8_t *bytes = padded(&notes, size);

		if (!name || !bytes)
			break;
		if (type != NT_GNU_BUILD_ID || name_size != sizeof(ELF_NOTE_GNU) ||
		    memcmp(name, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) ||
		    size > sizeof(image->build_id))
			continue;
		memcpy(image->build_id, bytes, size);
		image->build_id_size = size;
		return true;
	}
	return false;
}

/* In what was read from memory no program header tells where they are. */
static void find_between_symbols(struct kernel_image *image)
{
	uint64_t start = symbols_address(image->symbols, "__start_notes");
	uint64_t stop = symbols_address(image->symbols, "__stop_notes");
	size_t size = stop > start ? stop - start : 0;
	const uint8_t *notes = kernel_image_bytes(image, start, size);

	if (size && notes)
		find_build_id(image, cursor_make(notes, size));
}

int image_notes_load(struct kernel_image *image, const struct elf_view *view, struct error *err)
{
	bool found = false;

	for (unsigned int i = 0; !found && i < view->nr_segments; i++) {
		Elf64_Phdr phdr = elf_view_segment(view, i);

		found = phdr.p_type == PT_NOTE && phdr.p_offset <= view->size &&
			phdr.p_filesz <= view->size - phdr.p_offset &&
			find_build_id(image,
				      cursor_make(view->bytes + phdr.p_offset, phdr.p_filesz));
	}
	if (!found)
		find_between_symbols(image);
	return load_banner(image, err);
}
