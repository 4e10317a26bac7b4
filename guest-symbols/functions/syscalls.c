/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/functions/syscalls.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_ARGS = 6,
	MAX_SYSCALLS = 4096, /* that have a declaration; a kernel has fewer than 500 */
	MAX_WORD = 128,      /* of a declaration: a type, or a name */
};

/*
 * Offsets in struct syscall_metadata, include/trace/syscall.h of Linux. The number of arguments is
 * an int, since 6.19 seven bits, which are its lowest ones.
 */
enum { META_NAME = 0, META_NR_ARGS = 12, META_TYPES = 16, META_ARGS = 24, META_SIZE = 32 };

static void destroy(void *fact)
{
	struct image_syscalls *calls = fact;

	free(calls->v);
	free(calls->prototypes);
	free(calls);
}

/* --- functions ------------------------------------------------------------------------------- */

static bool is_syscall(const struct symbol *symbol)
{
	int type = tolower((unsigned char)symbol->type);

	return (type == 't' || type == 'w') &&
	       !strncmp(symbol->name, SYSCALL_PREFIX, strlen(SYSCALL_PREFIX)) &&
	       !strchr(symbol->name, '.');
}

static int add_functions(struct image_syscalls *calls, const struct symbol_table *symbols)
{
	const size_t all = symbols_count(symbols);
	size_t n = 0;

	for (size_t i = 0; i < all; i++)
		n += is_syscall(symbols_at(symbols, i));
	calls->v = calloc(n + 1, sizeof(*calls->v));
	for (size_t i = 0; calls->v && i < all; i++) {
		const struct symbol *symbol = symbols_at(symbols, i);

		if (is_syscall(symbol))
			calls->v[calls->n++] = (struct image_syscall){
				symbol->name + strlen(SYSCALL_PREFIX), symbol->address};
	}
	return calls->v ? 0 : -ENOMEM;
}

/* --- declarations ---------------------------------------------------------------------------- */

/* 0 if it is not in the image. */
static uint64_t read_pointer(const struct kernel_image *image, uint64_t address)
{
	const uint8_t *bytes = kernel_image_bytes(image, address, sizeof(uint64_t));
	uint64_t pointer = 0;

	if (bytes)
		memcpy(&pointer, bytes, sizeof(pointer));
	return pointer ? pointer - image->bytes_slide : 0;
}

/* A word of a declaration: printable, without what separates them. */
static bool read_word(const struct kernel_image *image, uint64_t address, char word[MAX_WORD])
{
	for (size_t i = 0; i < MAX_WORD; i++) {
		const uint8_t *at = kernel_image_bytes(image, address + i, 1);

		if (!at || (*at && (!isprint(*at) || strchr("(),", *at))))
			return false;
		word[i] = (char)*at;
		if (!*at)
			return i > 0;
	}
	return false;
}

/* Nothing of one that cannot be read. */
static void print_prototype(FILE *out, const struct kernel_image *image, uint64_t meta)
{
	const uint8_t *bytes = kernel_image_bytes(image, meta, META_SIZE);
	const uint64_t types = read_pointer(image, meta + META_TYPES);
	const uint64_t args = read_pointer(image, meta + META_ARGS);
	char words[2 * MAX_ARGS][MAX_WORD], name[MAX_WORD];
	unsigned int n = bytes ? bytes[META_NR_ARGS] & 0x7f : 0;

	if (!bytes || n > MAX_ARGS || !read_word(image, read_pointer(image, meta), name) ||
	    strncmp(name, "sys_", strlen("sys_")) != 0)
		return;
	for (unsigned int i = 0; i < n; i++)
		if (!read_word(image, read_pointer(image, types + i * sizeof(uint64_t)),
			       words[2 * i]) ||
		    !read_word(image, read_pointer(image, args + i * sizeof(uint64_t)),
			       words[2 * i + 1]))
			return;
	fprintf(out, "%s(", name + strlen("sys_"));
	for (unsigned int i = 0; i < n; i++)
		fprintf(out, "%s%s %s", i ? ", " : "", words[2 * i], words[2 * i + 1]);
	fputs(")\n", out);
}

static int add_prototypes(struct image_syscalls *calls, const struct kernel_image *image)
{
	uint64_t at = symbols_address(image->symbols, "__start_syscalls_metadata");
	const uint64_t end = symbols_address(image->symbols, "__stop_syscalls_metadata");
	size_t size;
	FILE *out = open_memstream(&calls->prototypes, &size);

	if (!out)
		return -ENOMEM;
	for (size_t i = 0; at && at < end && i < MAX_SYSCALLS; i++, at += sizeof(uint64_t))
		print_prototype(out, image, read_pointer(image, at));
	return fclose(out) ? -ENOMEM : 0;
}

static int derive(const struct kernel_image *image, void **out, struct error *err)
{
	struct image_syscalls *calls = calloc(1, sizeof(*calls));
	int ret = calls ? add_functions(calls, image->symbols) : -ENOMEM;

	if (!ret)
		ret = add_prototypes(calls, image);
	if (ret) {
		if (calls)
			destroy(calls);
		return error_set(err, ENOMEM, "out of memory");
	}
	*out = calls;
	return 0;
}

int image_syscalls_of(const struct kernel_image *image, const struct image_syscalls **out,
		      struct error *err)
{
	static const struct image_fact fact = {derive, destroy};
	const void *calls;
	int ret = kernel_image_derive(image, &fact, &calls, err);

	if (!ret)
		*out = calls;
	return ret;
}
