/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_IMAGE_KERNEL_IMAGE_H
#define SONDE_GUEST_SYMBOLS_IMAGE_KERNEL_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "guest-symbols/btf/btf.h"
#include "guest-symbols/file/kernel-file.h"
#include "guest-symbols/image/given.h"
#include "guest-symbols/symbols/symbols.h"

/*
 * What tracing needs to know of a kernel, all of it from the image, at link-time addresses: a
 * running kernel adds its slide (introspect/kernel/kernel.h). The kernel_file that it came from may
 * be closed.
 */
struct kernel_image {
	char *banner;  /* linux_banner without the trailing newline */
	char *release; /* "6.1.0-56-cloud-amd64" */
	uint8_t build_id[32];
	size_t build_id_size; /* 0 = none */
	struct symbol_table *symbols;
	const char *symbol_source; /* "symtab", "kallsyms", "System.map" or "kallsyms in memory" */
	struct btf_types *btf;     /* NULL if there are none */
	bool btf_is_given;         /* they are not the image's own */
	uint64_t *mcount_sites;    /* sorted */
	size_t nr_mcount_sites;
	uint64_t *return_sites; /* sorted; none on kernels without return thunks */
	size_t nr_return_sites;
	uint64_t text, stext, etext, end; /* _text, _stext, _etext, _end */
	uint8_t *init_bytes; /* initial contents of [text, text + init_size) as linked */
	size_t init_size;
	bool in_memory; /* read from a running kernel, which has rewritten some of it */
	uint64_t bytes_slide;         /* of the pointers in init_bytes: 0 unless read from memory */
	struct derived_fact *derived; /* kernel_image_derive() */
};

/*
 * Analyse. *out is owned by the caller. `given` may be NULL, and is not needed any more afterwards.
 * Errors as in the parts' headers, with context; -ESTALE: the types that are given are of another
 * kernel.
 */
int kernel_image_load(const struct kernel_file *file, const struct kernel_given *given,
		      struct kernel_image **out, struct error *err);
void kernel_image_destroy(struct kernel_image *image);

/* kernel_file_open(), and then this. */
int kernel_image_open(const char *path, const struct kernel_given *given, struct kernel_image **out,
		      struct error *err);

/*
 * The same of an ELF file in memory, which is borrowed, without the lists of sites, which a running
 * kernel has freed (memory-image.h).
 */
int kernel_image_load_without_sites(const void *elf, size_t size, const struct kernel_given *given,
				    struct kernel_image **out, struct error *err);

/* Why the image has no return sites though the kernel has been linked with some: it was read from
 * memory, where they are freed. NULL: it has them, or there are none. */
const char *kernel_image_freed_returns(const struct kernel_image *image);

/* The link-time bytes at [address, address + size), or NULL if not wholly in the image. */
const uint8_t *kernel_image_bytes(const struct kernel_image *image, uint64_t address, size_t size);

/*
 * btf_returned_struct() of a function, which may be a part of one as compilers name them
 * ("fn.constprop.0"). 0 and "" also without BTF, and for functions of modules ("fn [module]").
 */
uint32_t kernel_image_returned(const struct kernel_image *image, const char *function, char *name,
			       size_t size);

/* Where the types come from: "kernel", "given" or "none". */
const char *kernel_image_btf_source(const struct kernel_image *image);

/* -ENOTSUP if the image has no types, or no mcount sites; *err names the option that it was built
 * without. */
int kernel_image_check_btf(const struct kernel_image *image, struct error *err);
int kernel_image_check_sites(const struct kernel_image *image, struct error *err);

/* Whether `address` is (link-time) kernel text, init text included. */
bool kernel_image_is_text(const struct kernel_image *image, uint64_t address);

/*
 * Facts that others derive from an image, each at most once, since images do not change. *out is
 * the image's until it is destroyed. Errors are those of `derive`, which sets its *out on success
 * only. One thread at a time.
 */
struct image_fact {
	int (*derive)(const struct kernel_image *image, void **out, struct error *err);
	void (*destroy)(void *fact);
};
int kernel_image_derive(const struct kernel_image *image, const struct image_fact *fact,
			const void **out, struct error *err);

/* Destroy the derived facts alone: for an image that was made by hand. */
void kernel_image_forget(struct kernel_image *image);

#endif
