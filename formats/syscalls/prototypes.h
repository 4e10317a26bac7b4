/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_SYSCALLS_PROTOTYPES_H
#define SONDE_FORMATS_SYSCALLS_PROTOTYPES_H

#include <stddef.h>
#include "formats/event/graph.h"
#include "formats/base/error.h"

/* The declarations of system calls that a trace has: struct trace_instance. Not trusted. */

/* How a value of a type is shown. */
enum syscall_show {
	SYSCALL_SHOW_HEX,
	SYSCALL_SHOW_HEX_32,
	SYSCALL_SHOW_INT_32,
	SYSCALL_SHOW_INT,
	SYSCALL_SHOW_UINT_32,
	SYSCALL_SHOW_UINT,
	SYSCALL_SHOW_OCTAL, /* of file modes */
};

enum { SYSCALL_NAME_SIZE = 64, SYSCALL_VALUE_SIZE = 32 };

struct syscall_argument {
	char name[SYSCALL_NAME_SIZE];
	enum syscall_show show;
};

struct syscall_prototype {
	char name[SYSCALL_NAME_SIZE];
	struct syscall_argument args[SYSCALL_ARGS];
	unsigned int nr_args;
};

struct syscall_prototypes;

/* `lines` as struct trace_instance has them; NULL: none. What is no declaration is left out.
 * -ENOMEM. */
int syscall_prototypes_create(const char *lines, struct syscall_prototypes **out,
			      struct error *err);
/* NULL-safe. */
void syscall_prototypes_destroy(struct syscall_prototypes *prototypes);

/* By name; one that is not known has arguments arg0 to arg5. */
const struct syscall_prototype *syscall_prototypes_find(const struct syscall_prototypes *prototypes,
							const char *name);

/* A value as text. */
void syscall_value_text(enum syscall_show show, uint64_t value, char out[SYSCALL_VALUE_SIZE]);

/* The system call of a function: "openat" of __x64_sys_openat. */
const char *syscall_name_of(const char *function);

#endif
