/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/image/kernel-image.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/cursor.h"
#include "guest-symbols/image/given-checks.h"
#include "guest-symbols/image/mcount.h"

enum {
	MAX_IMAGE_SIZE = 1 << 30, /* twice the window that x86-64 maps a kernel in by default */
	MAX_BANNER = 512,
	MAX_RELEASE = 64, /* __NEW_UTS_LEN */
};

/* .symtab, which has sizes, else kallsyms. */
static int load_own_symbols(const struct elf_view *view, struct symbol_table **out,
			    const char **source, struct error *err)
{
	int ret = symbols_from_elf(view->bytes, view->size, out, err);

	*source = "symtab";
	if (ret != -ENOENT)
		return ret;
	*source = "kallsyms";
	return symbols_from_kallsyms(view->bytes, view->size, out, err);
}

/* What the kernel has itself may be missing or damaged: then there is less to compare with. */
static int load_given_symbols(struct kernel_image *image, const struct elf_view *view,
			      const struct kernel_given *given, struct error *err)
{
	struct symbol_table *own = NULL;
	const char *own_source;
	int ret = kernel_given_symbols(given, &image->symbols, err);

	if (ret)
		return ret;
	image->symbol_source = "System.map";
	load_own_symbols(view, &own, &own_source, NULL);
	ret = given_check_symbols(image->symbols, own, view, err);
	symbols_destroy(own);
	if (ret)
		error_prefix(err, "%s: ", given->system_map.path);
	return ret;
}

static int load_symbols(struct kernel_image *image, const struct elf_view *view,
			const struct kernel_given *given, struct error *err)
{
	return given->system_map.path
		       ? load_given_symbols(image, view, given, err)
		       : load_own_symbols(view, &image->symbols, &image->symbol_source, err);
}

/* Without CONFIG_KALLSYMS_ALL kallsyms has what lies between _stext and _etext: _end is no such. */
static int report_symbol(const struct kernel_image *image, const struct kernel_given *given,
			 const char *name, struct error *err)
{
	if (given->system_map.path)
		return error_set(err, ENOENT, "%s: no symbol %s", given->system_map.path, name);
	if (symbols_find(image->symbols, "_etext") && !strcmp(name, "_end"))
		return error_set(
			err, ENOENT,
			"the kernel's own symbol table has no variables "
			"(CONFIG_KALLSYMS_ALL): use its vmlinux with symbols, or give them "
			"with --system-map FILE");
	return error_set(err, ENOENT, "kernel has no symbol %s", name);
}

static int load_bounds(struct kernel_image *image, const struct kernel_given *given,
		       struct error *err)
{
	const struct {
		const char *name;
		uint64_t *to;
	} bounds[] = {
		{"_text", &image->text},
		{"_stext", &image->stext},
		{"_etext", &image->etext},
		{"_end", &image->end},
	};

	for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
		const struct symbol *symbol = symbols_find(image->symbols, bounds[i].name);

		if (!symbol)
			return report_symbol(image, given, bounds[i].name, err);
		*bounds[i].to = symbol->address;
	}
	if (image->text > image->stext || image->stext > image->etext ||
	    image->etext > image->end || image->end - image->text > MAX_IMAGE_SIZE)
		return error_set_at(err, EBADMSG, image->text,
				    "kernel's section symbols are unordered");
	return 0;
}

/* Where a segment goes relative to _text. The per-CPU one is linked at 0, but loaded in between. */
static uint64_t segment_offset(const struct elf_view *view, const Elf64_Phdr *phdr)
{
	return phdr->p_paddr - elf_view_segment(view, 0).p_paddr;
}

/*
 * Copy what the file holds. The rest stays untouched, and therefore takes no memory: what the
 * kernel calls .bss and .brk, which older kernels' files hold as zeros.
 */
static int load_bytes(struct kernel_image *image, const struct elf_view *view, struct error *err)
{
	uint64_t bss = symbols_address(image->symbols, "__bss_start");
	uint64_t copied = bss > image->text && bss < image->end ? bss - image->text
								: image->end - image->text;

	image->init_size = image->end - image->text;
	image->init_bytes = calloc(1, image->init_size ? image->init_size : 1);
	if (!image->init_bytes)
		return error_set(err, ENOMEM, "no memory for %zu bytes of kernel",
				 image->init_size);
	if (elf_view_segment(view, 0).p_vaddr != image->text)
		return error_set_at(err, EBADMSG, image->text, "kernel does not begin with _text");
	for (unsigned int i = 0; i < view->nr_segments; i++) {
		Elf64_Phdr phdr = elf_view_segment(view, i);
		uint64_t offset = segment_offset(view, &phdr);
		const uint8_t *from = elf_view_range(view, phdr.p_vaddr, phdr.p_filesz);

		if (phdr.p_type != PT_LOAD || !from || offset >= copied)
			continue;
		memcpy(image->init_bytes + offset, from,
		       phdr.p_filesz < copied - offset ? phdr.p_filesz : copied - offset);
	}
	return 0;
}

static int load_sites(struct kernel_image *image, const struct elf_view *view, struct error *err)
{
	int ret = mcount_read(view, image->symbols, image->text, image->end, &image->mcount_sites,
			      &image->nr_mcount_sites, err);

	return ret ? ret
		   : return_sites_read(view, image->symbols, image->text, image->end,
				       &image->return_sites, &image->nr_return_sites, err);
}

static int load_own_btf(struct kernel_image *image, const struct elf_view *view, struct error *err)
{
	uint64_t start = symbols_address(image->symbols, "__start_BTF");
	uint64_t stop = symbols_address(image->symbols, "__stop_BTF");
	Elf64_Shdr section;
	const uint8_t *bytes;
	size_t size = stop - start;

	if (elf_view_find_section(view, ".BTF", &section)) {
		bytes = view->bytes + section.sh_offset;
		size = section.sh_size;
	} else {
		bytes = stop > start ? elf_view_range(view, start, size) : NULL;
	}
	return bytes ? btf_parse(bytes, size, &image->btf, err) : 0;
}

static int load_given_btf(struct kernel_image *image, const struct kernel_given *given,
			  struct error *err)
{
	int ret;

	image->btf = btf_share(given->btf.types);
	image->btf_is_given = true;
	ret = given_check_types(image, err);
	if (ret)
		error_prefix(err, "%s: ", given->btf.path);
	return ret;
}

/* --- loading ---------------------------------------------------------------------------------- */

static int load_btf(struct kernel_image *image, const struct elf_view *view,
		    const struct kernel_given *given, struct error *err)
{
	return given->btf.path ? load_given_btf(image, given, err) : load_own_btf(image, view, err);
}

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

/* Without a program header for them, as in a copy of memory. */
static void find_between_symbols(struct kernel_image *image)
{
	uint64_t start = symbols_address(image->symbols, "__start_notes");
	uint64_t stop = symbols_address(image->symbols, "__stop_notes");
	size_t size = stop > start ? stop - start : 0;
	const uint8_t *notes = kernel_image_bytes(image, start, size);

	if (size && notes)
		find_build_id(image, cursor_make(notes, size));
}

static int load_notes(struct kernel_image *image, const struct elf_view *view, struct error *err)
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

static int load_facts(struct kernel_image *image, const struct elf_view *view,
		      const struct kernel_given *given, struct error *err)
{
	int ret = load_symbols(image, view, given, err);

	if (!ret)
		ret = load_bounds(image, given, err);
	if (!ret)
		ret = load_bytes(image, view, err);
	if (!ret)
		ret = load_notes(image, view, err);
	return ret ? ret : load_btf(image, view, given, err);
}

static int load_all(struct kernel_image *image, const struct elf_view *view,
		    const struct kernel_given *given, struct error *err)
{
	int ret = load_facts(image, view, given, err);

	return ret ? ret : load_sites(image, view, err);
}

typedef int load_fn(struct kernel_image *image, const struct elf_view *view,
		    const struct kernel_given *given, struct error *err);

static int load_elf(const void *elf, size_t size, load_fn *load, const struct kernel_given *given,
		    struct kernel_image **out, struct error *err)
{
	static const struct kernel_given nothing;
	struct kernel_image *image = calloc(1, sizeof(*image));
	struct elf_view view;
	int ret;

	if (!image)
		return error_set(err, ENOMEM, "out of memory");
	ret = elf_view_init(&view, elf, size, err);
	if (!ret)
		ret = load(image, &view, given ? given : &nothing, err);
	if (ret)
		kernel_image_destroy(image);
	else
		*out = image;
	return ret;
}

int kernel_image_load(const struct kernel_file *file, const struct kernel_given *given,
		      struct kernel_image **out, struct error *err)
{
	int ret = load_elf(file->vmlinux, file->vmlinux_size, load_all, given, out, err);

	if (ret && file->path)
		error_prefix(err, "%s: ", file->path);
	return ret;
}

int kernel_image_load_without_sites(const void *elf, size_t size, const struct kernel_given *given,
				    struct kernel_image **out, struct error *err)
{
	return load_elf(elf, size, load_facts, given, out, err);
}

int kernel_image_open(const char *path, const struct kernel_given *given, struct kernel_image **out,
		      struct error *err)
{
	struct kernel_file *file;
	int ret = kernel_file_open(path, &file, err);

	if (ret)
		return ret;
	ret = kernel_image_load(file, given, out, err);
	kernel_file_close(file);
	return ret;
}

struct derived_fact {
	const struct image_fact *fact;
	void *value;
	struct derived_fact *next;
};

int kernel_image_derive(const struct kernel_image *image, const struct image_fact *fact,
			const void **out, struct error *err)
{
	struct derived_fact **list = &((struct kernel_image *)image)->derived, *d;
	int ret;

	for (d = *list; d && d->fact != fact;)
		d = d->next;
	if (!d) {
		d = malloc(sizeof(*d));
		if (!d)
			return error_set(err, ENOMEM, "out of memory");
		*d = (struct derived_fact){.fact = fact, .next = *list};
		ret = fact->derive(image, &d->value, err);
		if (ret) {
			free(d);
			return ret;
		}
		*list = d;
	}
	*out = d->value;
	return 0;
}

void kernel_image_forget(struct kernel_image *image)
{
	while (image->derived) {
		struct derived_fact *d = image->derived;

		image->derived = d->next;
		d->fact->destroy(d->value);
		free(d);
	}
}

void kernel_image_destroy(struct kernel_image *image)
{
	if (!image)
		return;
	kernel_image_forget(image);
	btf_destroy(image->btf);
	symbols_destroy(image->symbols);
	free(image->mcount_sites);
	free(image->return_sites);
	free(image->init_bytes);
	free(image->banner);
	free(image->release);
	free(image);
}

const char *kernel_image_freed_returns(const struct kernel_image *image)
{
	const uint64_t start = symbols_address(image->symbols, "__return_sites"),
		       end = symbols_address(image->symbols, "__return_sites_end");

	if (image->nr_return_sites || !start || start >= end)
		return NULL;
	return "the kernel has freed its list of return sites: attach with -k FILE, the kernel's "
	       "file";
}

const uint8_t *kernel_image_bytes(const struct kernel_image *image, uint64_t address, size_t size)
{
	uint64_t offset = address - image->text;

	if (address < image->text || offset > image->init_size || size > image->init_size - offset)
		return NULL;
	return image->init_bytes + offset;
}

uint32_t kernel_image_returned(const struct kernel_image *image, const char *function, char *name,
			       size_t size)
{
	char whole[128];
	const size_t length = strcspn(function, ".");

	*name = '\0';
	if (!image->btf || strchr(function, '[') || length >= sizeof(whole))
		return 0;
	snprintf(whole, sizeof(whole), "%.*s", (int)length, function);
	return btf_returned_struct(image->btf, whole, name, size);
}

const char *kernel_image_btf_source(const struct kernel_image *image)
{
	if (!image->btf)
		return "none";
	return image->btf_is_given ? "given" : "kernel";
}

int kernel_image_check_btf(const struct kernel_image *image, struct error *err)
{
	if (image->btf)
		return 0;
	return error_set(err, ENOTSUP,
			 "the kernel image has no BTF (CONFIG_DEBUG_INFO_BTF): give it with "
			 "--btf FILE");
}

int kernel_image_check_sites(const struct kernel_image *image, struct error *err)
{
	if (image->nr_mcount_sites)
		return 0;
	return error_set(err, ENOTSUP, "the kernel has no mcount sites (CONFIG_DYNAMIC_FTRACE)");
}

bool kernel_image_is_text(const struct kernel_image *image, uint64_t address)
{
	uint64_t init = symbols_address(image->symbols, "_sinittext");

	return (address >= image->text && address < image->etext) ||
	       (init && address >= init && address < symbols_address(image->symbols, "_einittext"));
}
