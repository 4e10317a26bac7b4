/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/functions/syscalls.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"

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

/* The system call of a function; NULL: it has none of this ABI. */
static const char *name_of(const struct symbol *symbol, enum syscall_abi abi)
{
	static const char *const prefixes[][2] = {
		[SYSCALL_64] = {"__x64_sys_"},
		[SYSCALL_IA32] = {"__ia32_sys_", "__ia32_compat_sys_"},
	};
	int type = tolower((unsigned char)symbol->type);

	if ((type != 't' && type != 'w') || strchr(symbol->name, '.'))
		return NULL;
	for (size_t i = 0; i < 2 && prefixes[abi][i]; i++)
		if (!strncmp(symbol->name, prefixes[abi][i], strlen(prefixes[abi][i])))
			return symbol->name + strlen(prefixes[abi][i]);
	return NULL;
}

static int add_functions(struct image_syscalls *calls, const struct symbol_table *symbols,
			 enum syscall_abi abi)
{
	const size_t all = symbols_count(symbols);
	size_t n = 0;

	for (size_t i = 0; i < all; i++)
		n += name_of(symbols_at(symbols, i), abi) != NULL;
	calls->v = calloc(n + 1, sizeof(*calls->v));
	for (size_t i = 0; calls->v && i < all; i++) {
		const struct symbol *symbol = symbols_at(symbols, i);
		const char *name = name_of(symbol, abi);

		if (name)
			calls->v[calls->n++] = (struct image_syscall){name, symbol->address};
	}
	return calls->v ? 0 : -ENOMEM;
}

/* --- their callers --------------------------------------------------------------------------- */

/*
 * arch/x86/entry/{common,syscall_64,syscall_32,entry_fred}.c and arch/x86/entry/vsyscall/ of Linux,
 * of all versions. Calls without arguments have one function for both kinds.
 */
enum { MAX_CALLERS = 8 };
static const char *const callers[][MAX_CALLERS + 1] = {
	[SYSCALL_64] = {"do_syscall_64", "x64_sys_call", "do_syscall_x64", "x32_sys_call",
			"do_syscall_x32", "emulate_vsyscall", "__emulate_vsyscall"},
	[SYSCALL_IA32] = {"ia32_sys_call", "__do_fast_syscall_32", "do_fast_syscall_32",
			  "do_SYSENTER_32", "do_int80_emulation", "fred_int80_emulation",
			  "do_int80_syscall_32", "do_syscall_32_irqs_on"},
};

/* A part of one, too, as compilers name them: "__emulate_vsyscall.part.0". */
static bool is_caller(const char *name, enum syscall_abi abi)
{
	return text_begins_as(name, strcspn(name, "."), callers[abi]);
}

static void add_callers(struct image_syscalls *calls, const struct kernel_image *image,
			enum syscall_abi abi)
{
	for (size_t i = 0; i < symbols_count(image->symbols); i++) {
		const struct symbol *symbol = symbols_at(image->symbols, i);

		if (calls->nr_callers < SYSCALL_CALLERS_MAX && is_caller(symbol->name, abi) &&
		    kernel_image_is_text(image, symbol->address))
			calls->callers[calls->nr_callers++] = (struct syscall_caller){
				symbol->address, symbol->address + symbol->size};
	}
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

/* Whether a 32-bit program's call has other parameters than its declaration. */
static bool is_split(const char *name)
{
	static const char *const names[] = {"fanotify_mark", "lookup_dcookie"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static const char *type_of(const char *type, enum syscall_abi abi)
{
	static const char *const longs[] = {"long", "off_t", "ssize_t", "long int"};

	for (size_t i = 0; abi == SYSCALL_IA32 && i < sizeof(longs) / sizeof(longs[0]); i++)
		if (!strcmp(type, longs[i]))
			return "int";
	return type;
}

/* Nothing of one that cannot be read. */
static void print_prototype(FILE *out, const struct kernel_image *image, uint64_t meta,
			    enum syscall_abi abi)
{
	const uint8_t *bytes = kernel_image_bytes(image, meta, META_SIZE);
	const uint64_t types = read_pointer(image, meta + META_TYPES);
	const uint64_t args = read_pointer(image, meta + META_ARGS);
	char words[2 * MAX_ARGS][MAX_WORD], name[MAX_WORD];
	unsigned int n = bytes ? bytes[META_NR_ARGS] & 0x7f : 0;

	if (!bytes || n > MAX_ARGS || !read_word(image, read_pointer(image, meta), name) ||
	    strncmp(name, "sys_", strlen("sys_")) != 0 ||
	    (abi == SYSCALL_IA32 && is_split(name + strlen("sys_"))))
		return;
	for (unsigned int i = 0; i < n; i++)
		if (!read_word(image, read_pointer(image, types + i * sizeof(uint64_t)),
			       words[2 * i]) ||
		    !read_word(image, read_pointer(image, args + i * sizeof(uint64_t)),
			       words[2 * i + 1]))
			return;
	fprintf(out, "%s(", name + strlen("sys_"));
	for (unsigned int i = 0; i < n; i++)
		fprintf(out, "%s%s %s", i ? ", " : "", type_of(words[2 * i], abi),
			words[2 * i + 1]);
	fputs(")\n", out);
}

static int add_prototypes(struct image_syscalls *calls, const struct kernel_image *image,
			  enum syscall_abi abi)
{
	uint64_t at = symbols_address(image->symbols, "__start_syscalls_metadata");
	const uint64_t end = symbols_address(image->symbols, "__stop_syscalls_metadata");
	size_t size;
	FILE *out = open_memstream(&calls->prototypes, &size);

	if (!out)
		return -ENOMEM;
	for (size_t i = 0; at && at < end && i < MAX_SYSCALLS; i++, at += sizeof(uint64_t))
		print_prototype(out, image, read_pointer(image, at), abi);
	return text_stream_close(out);
}

/* `sys_call_table`, arch/x86/entry/syscall_64.c, which calls go through up to 6.8, and which is
 * kept for the kernel's own tracing since. */
uint64_t image_syscall_numbers(const struct kernel_image *image)
{
	const struct symbol *table = symbols_find(image->symbols, "sys_call_table");
	const uint64_t n = table ? table->size / sizeof(uint64_t) : 0;

	if (table && !table->size) /* it is not known */
		return MAX_SYSCALLS;
	return n < MAX_SYSCALLS ? n : MAX_SYSCALLS;
}

const char *image_syscall_name(const struct kernel_image *image, const struct image_syscalls *calls,
			       uint64_t number)
{
	uint64_t function;

	if (number >= image_syscall_numbers(image))
		return NULL;
	function = read_pointer(image, symbols_address(image->symbols, "sys_call_table") +
					       number * sizeof(uint64_t));
	for (size_t i = 0; function && i < calls->n; i++)
		if (calls->v[i].address == function)
			return calls->v[i].name;
	return NULL;
}

static int derive(const struct kernel_image *image, enum syscall_abi abi, void **out,
		  struct error *err)
{
	struct image_syscalls *calls = calloc(1, sizeof(*calls));
	int ret = calls ? add_functions(calls, image->symbols, abi) : -ENOMEM;

	if (!ret)
		ret = add_prototypes(calls, image, abi);
	if (!ret)
		add_callers(calls, image, abi);
	if (ret) {
		if (calls)
			destroy(calls);
		return error_set(err, ENOMEM, "out of memory");
	}
	*out = calls;
	return 0;
}

static int derive_64(const struct kernel_image *image, void **out, struct error *err)
{
	return derive(image, SYSCALL_64, out, err);
}

static int derive_ia32(const struct kernel_image *image, void **out, struct error *err)
{
	return derive(image, SYSCALL_IA32, out, err);
}

int image_syscalls_of(const struct kernel_image *image, enum syscall_abi abi,
		      const struct image_syscalls **out, struct error *err)
{
	static const struct image_fact facts[] = {
		[SYSCALL_64] = {derive_64, destroy},
		[SYSCALL_IA32] = {derive_ia32, destroy},
	};
	const void *calls;
	int ret = kernel_image_derive(image, &facts[abi], &calls, err);

	if (!ret)
		*out = calls;
	return ret;
}
