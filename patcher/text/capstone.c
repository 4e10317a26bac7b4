// SPDX-License-Identifier: GPL-2.0-or-later
#include "patcher/text/capstone.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>

#define TEXT_OF(x) #x
#define SONAME(major) "libcapstone.so." TEXT_OF(major)

static const struct {
	const char *name;
	size_t offset; /* of its pointer in struct capstone */
} functions[] = {
	{"cs_open", offsetof(struct capstone, open)},
	{"cs_close", offsetof(struct capstone, close)},
	{"cs_option", offsetof(struct capstone, option)},
	{"cs_malloc", offsetof(struct capstone, malloc)},
	{"cs_free", offsetof(struct capstone, free)},
	{"cs_disasm_iter", offsetof(struct capstone, disasm_iter)},
	{"cs_insn_group", offsetof(struct capstone, insn_group)},
};

static struct capstone loaded;
static struct error load_error;

static void load(void)
{
	void *library = dlopen(SONAME(CS_API_MAJOR), RTLD_LAZY | RTLD_LOCAL);

	if (!library) {
		error_set(&load_error, ENOENT, "cannot load the disassembler: %s", dlerror());
		return;
	}
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *function = dlsym(library, functions[i].name);

		if (!function) {
			error_set(&load_error, ENOENT, "%s has no %s", SONAME(CS_API_MAJOR),
				  functions[i].name);
			return;
		}
		*(void **)((char *)&loaded + functions[i].offset) = function;
	}
}

int capstone_load(const struct capstone **out, struct error *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	if (load_error.code) {
		*err = load_error;
		return -load_error.code;
	}
	*out = &loaded;
	return 0;
}
