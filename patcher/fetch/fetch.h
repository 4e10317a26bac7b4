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
 *	p[:[GRP/][EVENT]] [MOD:]SYM[+OFFSET]|[MOD:]SYM%return|ADDR [ARG...]
 *	r[MAXACTIVE][:[GRP/][EVENT]] [MOD:]SYM[+0] [ARG...]
 *
 *	ARG     [NAME=]FETCH[:TYPE]
 *	FETCH   PARAMETER[->MEMBER...], $argN[->MEMBER...], $arg* (all parameters), %REG,
 *	        $retval[->MEMBER...], $comm, $stack, $stackN, \CONSTANT, \"TEXT", @ADDR,
 *	        @SYM[+|-OFFSET], +|-[u]OFFSET(FETCH)
 *	TYPE    u8 u16 u32 u64 s8 s16 s32 s64 x8 x16 x32 x64 char string ustring symbol symstr,
 *	        bWIDTH@OFFSET/CONTAINER; with [N] behind it, an array; of strings one of pointers
 *	        to them, which are N arguments; of characters one text;
 *	        %pd, %pD: the name in the struct dentry, or of the struct file, that lies there
 *
 * MAXACTIVE is ignored. What is fetched for an argument is a small program, which is compiled for
 * the guest.
 */
enum {
	FETCH_NAME_SIZE =
		64, /* of an event, a group, a module, as in the kernel; the NUL included */
	FETCH_ARG_NAME_SIZE = 33, /* of an argument, as in the kernel; likewise */
	FETCH_ELEMENT_NAME_SIZE = FETCH_ARG_NAME_SIZE + 4, /* with the number of an element */
	FETCH_SYMBOL_SIZE = 128,
	FETCH_MAX_ARGS = 20,
	FETCH_MAX_FIELDS = 64,  /* of all arguments: an array has one for each element */
	FETCH_FEW_FIELDS = 31,  /* those of a histogram: their faults are a positive int */
	FETCH_MAX_OPS = 16,     /* of an argument, as in the kernel */
	FETCH_STRING_SIZE = 16, /* bytes of a short string, with its NUL: TASK_COMM_LEN */
	/*
	 * Bytes of a long string that are recorded. A whole one has a NUL among them; one that is
	 * longer has none.
	 */
	FETCH_LONG_STRING = 256,
	FETCH_LENGTH_SIZE = 8,      /* bytes of what the arguments have of it: its length */
	FETCH_MAX_LONG_STRINGS = 7, /* of a probe */
	FETCH_MAX_BYTES = 512,      /* of all arguments of a probe, each in whole words */
	/* Of arguments and long strings: they are kept on the guest's stack meanwhile. */
	FETCH_MAX_KEPT = 192 + FETCH_MAX_LONG_STRINGS * FETCH_LONG_STRING,
};

/* The first sixteen by their numbers in instructions. */
enum fetch_register {
	FETCH_AX,
	FETCH_CX,
	FETCH_DX,
	FETCH_BX,
	FETCH_SP, /* as it is at the instruction, at the call's entry, or behind its return: a
		   * kprobe's */
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
	FETCH_FLAGS, /* as they are there: with interrupts on or off */
	FETCH_IP,    /* a byte behind the beginning of the instruction, as a kprobe sees it; at a
		      * return where it leads to */
	FETCH_CS,    /* the selectors that are loaded */
	FETCH_SS,
	FETCH_ORIG_AX,   /* -1: these are the registers of no system call */
	FETCH_USER_REGS, /* no register, and no name: gva of the struct pt_regs that the task's user
			  * mode has entered the kernel with. At returns, and of system calls */
};

/* The first one makes a value, each further one makes another one of it. */
enum fetch_op_kind {
	FETCH_REGISTER,  /* value = register `reg`, shifted right by `at` bits: 0..63, and 0 if
			  * another operation follows */
	FETCH_CONSTANT,  /* value = at */
	FETCH_SYMBOL,    /* value = address of the argument's symbol + at */
	FETCH_PARAMETER, /* value = what the argument's symbol says: "skb->dev->name",
			  * "$arg1->len", "$retval->len", or "*" */
	FETCH_COMM,      /* the current task's name; the only one */
	FETCH_LITERAL,   /* the argument's symbol, a text; the only one */
	FETCH_DEREF,     /* value = the 8 bytes at value + at */
	FETCH_MEMORY,    /* the argument's bytes lie at value + at; the last one */
	FETCH_TEXT,      /* likewise a string, up to a NUL; the last one */
};

/* Members that types name, whose places the kernel's types (BTF) have. */
enum fetch_member {
	FETCH_NO_MEMBER,
	FETCH_FILE_DENTRY, /* struct file, f_path.dentry */
	FETCH_DENTRY_NAME, /* struct dentry, d_name.name */
};

struct fetch_op {
	enum fetch_op_kind kind;
	enum fetch_register reg;
	bool user;                /* FETCH_DEREF, _MEMORY, _TEXT: of the task's user memory */
	enum fetch_member member; /* `at` is not known yet: it is that of this one */
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
	char name[FETCH_ELEMENT_NAME_SIZE];
	char symbol[FETCH_SYMBOL_SIZE]; /* of FETCH_SYMBOL, FETCH_PARAMETER, FETCH_LITERAL */
	bool has_type;                  /* the user gave one */
	bool entry_only; /* a parameter, $argN: known only where the function begins */
	struct fetch_op ops[FETCH_MAX_OPS];
	size_t nr_ops;
	enum fetch_show show;
	/* bytes of an element: 1, 2, 4, 8; of a FETCH_STRING FETCH_STRING_SIZE, or
	 * FETCH_LENGTH_SIZE of a long one */
	uint8_t size;
	uint8_t count;                 /* elements; more than 1: an array */
	uint8_t bit_offset, bit_width; /* a part of the value; width 0: all of it */
	uint8_t field;                 /* number of its first field among the probe's */
	uint16_t at;                   /* bytes from the start of the probe's: a multiple of 8 */
	unsigned int column;           /* where it stands in the definition, from 1 */
	unsigned int symbol_column;    /* and its symbol; 0: the user wrote none */
};

struct fetch_probe {
	bool returns; /* at each return, not at the call */
	char group[FETCH_NAME_SIZE], name[FETCH_NAME_SIZE];
	char module[FETCH_NAME_SIZE];     /* "": the kernel, or any */
	char symbol[FETCH_SYMBOL_SIZE];   /* "": `address` */
	uint64_t address;
	uint64_t offset; /* of an instruction, from the symbol */
	bool inside;     /* it is not where the function begins: known when the place is found */
	unsigned int place_column;
	unsigned int name_column; /* or of the place, if the user gave no name */
	struct fetch_arg args[FETCH_MAX_ARGS];
	size_t nr_args;
	uint16_t bytes; /* of all arguments */
	uint8_t nr_fields, nr_long_strings, nr_long_texts;
};

/* -EINVAL with err->column: what is wrong there. */
int fetch_parse(const char *definition, struct fetch_probe *out, struct error *err);

/* Whether all arguments are known at the place, of which `inside` is known now. -EINVAL with the
 * argument, and its column. */
int fetch_check_place(const struct fetch_probe *probe, struct error *err);

/* Give an argument its place behind those before it; `bytes` and the numbers of fields and strings
 * grow. -EINVAL with its column: there are too many. */
int fetch_add_room(struct fetch_probe *probe, struct fetch_arg *arg, struct error *err);
/* The same for all arguments anew. */
int fetch_add_rooms(struct fetch_probe *probe, struct error *err);

/* Make all strings short, which then are the first FETCH_STRING_SIZE - 1 characters. As
 * fetch_add_rooms(). */
int fetch_shorten(struct fetch_probe *probe, struct error *err);

/* Whether an argument of the probe has the name, or none may. */
bool fetch_name_is_taken(const struct fetch_probe *probe, const char *name);

/* Whether it has PARAMETER, $arg* or MEMBER: what only the types of its function tell. */
bool fetch_needs_types(const struct fetch_probe *probe);

/* Whether two probes have the same arguments, with the same programs. */
bool fetch_is_same(const struct fetch_probe *a, const struct fetch_probe *b);

/* Append a step. -EINVAL with the argument's column: it has too many. */
int fetch_add_op(struct fetch_arg *arg, struct fetch_op op, struct error *err);

/* Whether it reads memory that the guest may not have: it can fault. */
bool fetch_reads_memory(const struct fetch_arg *arg);

/* Fields of an event that it becomes: characters are one. */
static inline uint8_t fetch_nr_fields(const struct fetch_arg *arg)
{
	return arg->show == FETCH_CHARACTER ? 1 : arg->count;
}

/* The bits of these. */
static inline uint64_t fetch_field_bits(const struct fetch_arg *arg)
{
	return UINT64_MAX >> (FETCH_MAX_FIELDS - fetch_nr_fields(arg)) << arg->field;
}

/* A string that lies in memory, and of which the arguments have the length only. */
static inline bool fetch_is_long(const struct fetch_arg *arg)
{
	return arg->show == FETCH_STRING && arg->size == FETCH_LENGTH_SIZE;
}

/* An array of characters that no short string has room for. The arguments have all of it; its event
 * has a long string, up to the first NUL. */
static inline bool fetch_is_long_text(const struct fetch_arg *arg)
{
	return arg->show == FETCH_CHARACTER && arg->count > FETCH_STRING_SIZE;
}

/* Bytes that it takes among the probe's: whole words. */
static inline uint16_t fetch_room(const struct fetch_arg *arg)
{
	return (uint16_t)((arg->size * arg->count + 7) & ~7);
}

/* --- programs (program.c) -------------------------------------------------------------------- */

/*
 * A probe's arguments, ready to be compiled: symbols have become constants. What is recorded of
 * them: if one reads memory, a head; then the arguments, each in whole words; then the long
 * strings, each in as many words as it needs. What an argument has of a long string is how many
 * bytes of it there are, with its NUL, in 32 bits.
 *
 * The head begins with bits of which each stands for a field that could not be read (bit 0: the
 * first one), and whose bytes are 0: 32 of them, or 64 if there are more fields. Its last 32 bits
 * are how many words all long strings take.
 */
enum {
	FETCH_HEAD = 8,        /* bytes of a head with 32 bits for faults ... */
	FETCH_LARGE_HEAD = 16, /* ... and with 64 */
};

/*
 * Functions of the guest that read memory that may not be there (include/linux/uaccess.h), called
 * behind their mcount sites. 0: there is none, and such reads are faults.
 */
struct fetch_helpers {
	uint64_t read_kernel, read_user; /* copy_from_{kernel,user}_nofault() */
	uint64_t text_kernel, text_user; /* strncpy_from_{kernel,user}_nofault() */
};

struct fetch_program {
	const struct fetch_arg *args;
	size_t nr_args;
	bool has_faults; /* an argument reads memory */
	uint8_t head;    /* bytes of the head; 0: there is none */
	uint16_t bytes;  /* that are recorded, without long strings */
	uint8_t nr_long_strings, nr_long_texts;
	struct fetch_helpers helpers;
};

/* The program of a probe without symbols, which is borrowed. */
struct fetch_program fetch_program_of(const struct fetch_probe *probe,
				      const struct fetch_helpers *helpers);

/* The most bytes that all long strings take. */
static inline uint16_t fetch_long_bytes(const struct fetch_program *program)
{
	return (uint16_t)(program->nr_long_strings * FETCH_LONG_STRING);
}

/* Where an argument's bytes begin in what is recorded. */
static inline uint32_t fetch_place(const struct fetch_program *program, const struct fetch_arg *arg)
{
	return arg->at + program->head;
}

/* Where the number of words is that all long strings take; of a program that has some. */
static inline uint32_t fetch_words_at(const struct fetch_program *program)
{
	return program->head - (uint32_t)sizeof(uint32_t);
}

/* Bytes of the bits of faults. */
static inline uint8_t fetch_fault_bytes(const struct fetch_program *program)
{
	return program->head == FETCH_LARGE_HEAD ? sizeof(uint64_t) : sizeof(uint32_t);
}

#endif
