/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/kernel/module-list.h"

#include <elf.h>
#include <string.h>

enum {
	MAX_SECTIONS = 1024, /* of one module */
	NAME_ROOM = 32,      /* bytes of a name that are compared */
};

/* --- the kernel's list ----------------------------------------------------------------------- */

static bool get_offset(const struct btf_types *btf, const char *structure, const char *member,
		       uint32_t *offset)
{
	struct btf_field field;

	if (btf_field(btf, structure, member, &field, NULL) || field.size != sizeof(uint64_t))
		return false;
	*offset = field.offset;
	return true;
}

/*
 * struct module_sect_attrs has a group of struct bin_attribute; to 6.13 each of these is in a
 * struct module_sect_attr with the section's address, from 6.14 on the address is its `private`.
 */
static bool get_address(const struct btf_types *btf, uint32_t *offset)
{
	struct btf_field begin;

	if (btf_field(btf, "module_sect_attr", "battr", &begin, NULL))
		return get_offset(btf, "bin_attribute", "private", offset);
	if (!get_offset(btf, "module_sect_attr", "address", offset))
		return false;
	*offset -= begin.offset;
	return true;
}

bool module_sections_layout(const struct btf_types *btf, struct section_layout *out)
{
	return btf && get_offset(btf, "module", "sect_attrs", &out->sect_attrs) &&
	       get_offset(btf, "module_sect_attrs", "grp.bin_attrs", &out->bin_attrs) &&
	       get_offset(btf, "bin_attribute", "attr.name", &out->name) &&
	       get_address(btf, &out->address);
}

uint64_t module_sections_find(const struct kernel *kernel, const struct section_layout *layout,
			      uint64_t module)
{
	uint64_t link;

	if (kernel_get_u64(kernel, module + layout->sect_attrs, &link, NULL) || !link ||
	    kernel_get_u64(kernel, link + layout->bin_attrs, &link, NULL))
		return 0;
	return link;
}

bool module_sections_next(const struct kernel *kernel, const struct section_layout *layout,
			  uint64_t *link, uint64_t *address, uint64_t *name)
{
	uint64_t attribute;

	if (kernel_get_u64(kernel, *link, &attribute, NULL) || !attribute)
		return false;
	*link += sizeof(attribute);
	return !kernel_get_u64(kernel, attribute + layout->name, name, NULL) &&
	       !kernel_get_u64(kernel, attribute + layout->address, address, NULL);
}

bool module_section_is(const struct kernel *kernel, uint64_t name, const char *expected)
{
	char text[NAME_ROOM];

	return !kernel_read_string(kernel, name, text, sizeof(text), NULL) &&
	       !strcmp(text, expected);
}

/* --- the build id ---------------------------------------------------------------------------- */

static bool read_note(const struct kernel *kernel, uint64_t gva, struct sidecar_build_id *out)
{
	struct {
		Elf64_Nhdr head;
		char owner[4];
	} note;

	if (kernel_read(kernel, gva, &note, sizeof(note), NULL) ||
	    note.head.n_namesz != sizeof(note.owner) || note.head.n_type != NT_GNU_BUILD_ID ||
	    memcmp(note.owner, "GNU", sizeof(note.owner)) || !note.head.n_descsz ||
	    note.head.n_descsz > sizeof(out->bytes) ||
	    kernel_read(kernel, gva + sizeof(note), out->bytes, note.head.n_descsz, NULL))
		return false;
	out->size = (uint8_t)note.head.n_descsz;
	return true;
}

bool module_read_build_id(const struct kernel *kernel, const struct section_layout *layout,
			  uint64_t module, struct sidecar_build_id *out)
{
	uint64_t link = module_sections_find(kernel, layout, module), address, name;

	*out = (struct sidecar_build_id){.size = 0};
	for (size_t n = 0; link && n < MAX_SECTIONS; n++) {
		if (!module_sections_next(kernel, layout, &link, &address, &name))
			return false;
		if (module_section_is(kernel, name, ".note.gnu.build-id"))
			return read_note(kernel, address, out);
	}
	return false;
}
