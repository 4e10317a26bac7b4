/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_FETCH_FETCH_H
#define SONDE_PATCHER_FETCH_FETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"

/*
 * Dynamic probes in the syntax of the kernel's kprobe_events
 * (Documentation/trace/kprobetrace.rst):
 *
 *	p[:[GRP/][EVENT]] [MOD:]SYM[+0]|[MOD:]SYM%return|ADDR [ARG...]
 *	r[:[GRP/][EVENT]] [MOD:]SYM[+0] [ARG...]
 *
 *	ARG     [NAME=]FETCH[:TYPE]
 *	FETCH   %REG, $retval, $comm, $stack, $stackN, $argN, \CONSTANT, @ADDR, @SYM[+|-OFFSET],
 *	        +|-[u]OFFSET(FETCH)
 *	TYPE    u8 u16 u32 u64 s8 s16 s32 s64 x8 x16 x32 x64 char string ustring symbol,
 *	        bWIDTH@OFFSET/CONTAINER; with [N] behind it, an array
 *
 * What is fetched for an argument is a small program, which is compiled for the guest.
 */
enum {
	FETCH_NAME_SIZE = 32, /* of an event, a group, an argument; the NUL included */
	FETCH_SYMBOL_SIZE = 128,
	FETCH_MAX_ARGS = 20,
	FETCH_MAX_OPS = 16,     /* of an argument, as in the kernel */
	FETCH_STRING_SIZE = 16, /* bytes of a string, the NUL included if it is shorter */
	FETCH_MAX_BYTES = 192,  /* of all arguments of a probe, each in whole words */
};

enum fetch_register {
	FETCH_AX,
	FETCH_CX,
	FETCH_DX,
	FETCH_BX,
	FETCH_SP, /* as it was at the call's entry, or is behind its return: a kprobe's */
	FETCH_BP,
	FETCH_SI,
	FETCH_DI,
	FETCH_R8,
	FETCH_R9,
	FETCH_R10,
	FETCH_R11,
	FETCH_R12,
	FETCH_R13,
	FETCH_R14,
	FETCH_R15,
};

/* The first one makes a value, each further one makes another one of it. */
enum fetch_op_kind {
	FETCH_REGISTER, /* value = register `reg` */
	FETCH_CONSTANT, /* value = at */
	FETCH_SYMBOL,   /* value = address of the argument's symbol + at */
	FETCH_COMM,     /* the current task's name; the only one */
	FETCH_DEREF,    /* value = the 8 bytes at value + at */
	FETCH_MEMORY,   /* the argument's bytes lie at value + at; the last one */
	FETCH_TEXT,     /* likewise a string, up to a NUL; the last one */
};

struct fetch_op {
	enum fetch_op_kind kind;
	enum fetch_register reg;
	bool user; /* FETCH_DEREF, _MEMORY, _TEXT: of the task's user memory */
	int64_t at;
};

enum fetch_show {
	FETCH_UNSIGNED,
	FETCH_SIGNED,
	FETCH_HEX,
	FETCH_CHARACTER,
	FETCH_CODE, /* an address, as symbol+offset */
	FETCH_STRING,
};

struct fetch_arg {
	char name[FETCH_NAME_SIZE];
	char symbol[FETCH_SYMBOL_SIZE]; /* of FETCH_SYMBOL */
	struct fetch_op ops[FETCH_MAX_OPS];
	size_t nr_ops;
	enum fetch_show show;
	uint8_t size;                  /* bytes of an element: 1, 2, 4, 8; FETCH_STRING_SIZE */
	uint8_t count;                 /* elements; more than 1: an array */
	uint8_t bit_offset, bit_width; /* a part of the value; width 0: all of it */
	uint16_t at;                   /* bytes from the start of the probe's: a multiple of 8 */
	unsigned int column;           /* where it stands in the definition, from 1 */
};

struct fetch_probe {
	bool returns; /* at each return, not at the call */
	char group[FETCH_NAME_SIZE], name[FETCH_NAME_SIZE];
	char module[FETCH_NAME_SIZE * 2]; /* "": the kernel, or any */
	char symbol[FETCH_SYMBOL_SIZE];   /* "": `address` */
	uint64_t address;
	unsigned int place_column;
	struct fetch_arg args[FETCH_MAX_ARGS];
	size_t nr_args;
	uint16_t bytes; /* of all arguments */
};

/* -EINVAL with err->column: what is wrong there. */
int fetch_parse(const char *definition, struct fetch_probe *out, struct error *err);

/* Whether it reads memory that the guest may not have: it can fault. */
bool fetch_reads_memory(const struct fetch_arg *arg);

/* Bytes that it takes among the probe's: whole words. */
static inline uint16_t fetch_room(const struct fetch_arg *arg)
{
	return (uint16_t)((arg->size * arg->count + 7) & ~7);
}

#endif
