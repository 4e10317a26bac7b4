/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_CAPTURE_H
#define SONDE_PATCHER_CAPTURE_H

#include <stdint.h>
#include "formats/error.h"
#include "patcher/ring-layout.h"

/*
 * What one trampoline records, and where that lies in its records. The trampoline generator and the
 * reader of the rings both go by this description, never by each other.
 */
enum record_field {
	FIELD_KEY,       /* gva of the return address on the stack, minus RECORD_KEY_BIAS */
	FIELD_CALL_SITE, /* the return address */
	FIELD_RESULT,    /* RAX; returns only */
	FIELD_ARG0,      /* RDI, RSI, RDX, RCX, R8, R9; entries only */
	FIELD_ARG1,
	FIELD_ARG2,
	FIELD_ARG3,
	FIELD_ARG4,
	FIELD_ARG5,
	FIELD_SLAB_CACHE, /* gva of the kmem_cache the result belongs to, 0 = none; returns only */
	FIELD_PID,        /* of the current task: the kernel's pid, a thread's, in 32 bits */
	FIELD_COMM,       /* its name, 16 bytes */
	/* `stack_words` words from behind the return address; 0 from the end of their page on. */
	FIELD_STACK,
	FIELD_COUNT,
};

enum {
	RECORD_KEY_BIAS = 8, /* the trampoline's flags lie below the return address */
	CAPTURE_MAX_STACK = 48,
	CAPTURE_COMM_SIZE = 16, /* TASK_COMM_LEN of Linux, include/linux/sched.h */
};

#define CAPTURE(field) (1u << (field))

struct capture {
	enum ring_record_kind kind; /* RING_ENTRY or RING_RETURN */
	uint32_t fields;            /* CAPTURE(...) of each field that is wanted */
	uint8_t stack_words;        /* with FIELD_STACK: 1..CAPTURE_MAX_STACK */
};

struct record_layout {
	uint32_t size;                /* bytes of the record, a multiple of RING_RECORD_ALIGN */
	uint16_t offset[FIELD_COUNT]; /* bytes from the record's start; 0 = not recorded */
};

/* Where everything lies. -EINVAL if the description asks for what its kind of place cannot give. */
int record_layout(const struct capture *capture, struct record_layout *out, struct error *err);

#endif
