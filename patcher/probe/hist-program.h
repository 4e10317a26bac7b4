/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_PROBE_HIST_PROGRAM_H
#define SONDE_PATCHER_PROBE_HIST_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What a histogram takes from an event: the keys, by which events are told apart, and the values,
 * which are summed up. It is compiled into code that does so in the guest
 * (patcher/trampoline/hist.c); where a key is a call chain, the host does so
 * (patcher/tracers/hist/host.c).
 */
enum {
	HIST_MAX_OPERANDS = 6, /* of the keys: three, of which each may be a pid with its name */
	HIST_MAX_VALUES = 3,   /* beside the number of events */
	HIST_OPERAND_WORDS = 2,
};

enum hist_source {
	HIST_IP,       /* gva behind the function's mcount site; entries only */
	HIST_PARENT,   /* gva that the function returns to */
	HIST_REGISTER, /* `reg`, an enum fetch_register, shifted right by `at` bits */
	HIST_CONSTANT, /* `at` */
	HIST_KMALLOC,  /* bytes that kmalloc() gives for the request in `reg`; entries only */
	HIST_POINTED,  /* the 8 bytes at the register's value + at, which are there: `reg` is one of
			* the CPU's, or at returns FETCH_USER_REGS */
	HIST_FETCHED,  /* from byte `at` of what the fetch program has read from memory on */
	HIST_PID,      /* of the current task */
	HIST_TGID,     /* its process's */
	HIST_CGROUP,   /* the id of its cgroup; 0: none */
	HIST_COMM,     /* 16 bytes: its name */
	HIST_CPU,      /* the kernel's number of this CPU */
	HIST_CHAIN,    /* the call chain: HIST_FRAMES words. The host alone has it */
};

enum hist_step {
	HIST_AS_IS,
	HIST_LOG2,    /* the logarithm, rounded up; of 0: 0 */
	HIST_BUCKETS, /* the multiple of `bucket` at or below it */
};

struct hist_operand {
	enum hist_source source;
	uint8_t reg;
	int64_t at;
	uint8_t size; /* bytes: 1, 2, 4, 8; more: that many in whole words, of which nothing is cut
		       */
	bool is_signed;
	uint8_t bit_offset, bit_width; /* a part of the value; width 0: all of it */
	enum hist_step step;           /* only of one word */
	uint32_t bucket;               /* 1..INT32_MAX */
};

static inline unsigned int hist_operand_words(const struct hist_operand *operand)
{
	return (operand->size + 7u) / 8;
}

/* What HIST_KMALLOC takes to find the cache for a request, as the kernel does. */
struct hist_kmalloc {
	int64_t caches;  /* gva of the pointers to them: kmalloc_caches */
	int64_t size_at; /* where a struct kmem_cache has its `size` */
};

struct hist_program {
	struct hist_operand keys[HIST_MAX_OPERANDS];
	size_t nr_keys;
	struct hist_operand values[HIST_MAX_VALUES]; /* of one word each */
	size_t nr_values;
	struct hist_kmalloc kmalloc;
	uint32_t faults; /* bits of the word of faults that belong to keys; 0: it is no key */
};

/* Of a key: those of each operand in turn, then the word of faults, if it is one. */
static inline unsigned int hist_key_words(const struct hist_program *program)
{
	unsigned int n = program->faults ? 1 : 0;

	for (size_t i = 0; i < program->nr_keys; i++)
		n += hist_operand_words(&program->keys[i]);
	return n;
}

static inline bool hist_program_uses(const struct hist_program *program, enum hist_source source)
{
	bool uses = false;

	for (size_t i = 0; i < program->nr_keys; i++)
		uses |= program->keys[i].source == source;
	for (size_t i = 0; i < program->nr_values; i++)
		uses |= program->values[i].source == source;
	return uses;
}

#endif
