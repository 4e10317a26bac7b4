/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRAMPOLINE_ASK_H
#define SONDE_PATCHER_TRAMPOLINE_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "patcher/text/function.h"

/*
 * Code in front of a function of the guest: it asks the host, and waits for the answer before the
 * function begins. The function may sleep, and the guest lets one task at a time call it, unless
 * the code is for several. Its first instructions become a jump to the code, which executes them
 * and goes on behind them.
 *
 * It waits with interrupts on, in one of two ways:
 *
 *   ASK_SLEEP  It makes msleep() return to the function, where the task comes by again. So nothing
 *              of a task that sleeps leads into this code: the memory may be taken away, once the
 *              jump is. For functions without parameters.
 *   ASK_SPIN   It polls. For functions that have a parameter. It also goes on when the function has
 *              its own bytes back.
 *
 * If no answer comes in time, the function fails with -EBUSY if it can, else it goes on. From then
 * on no function waits until the host shows that it lives.
 */
enum ask_wait { ASK_SLEEP, ASK_SPIN };

/* In memory that the guest and the host write, zeroed before it is used. The guest can forge all of
 * it. Each half has its own cache line. */
struct ask_box {
	uint64_t asked;    /* the number of the last question */
	uint64_t waiting;  /* not 0: a task waits for its answer; not used if several may */
	uint64_t argument; /* of the question */
	uint64_t deadline; /* ASK_SLEEP: the TSC at which the task gives up */
	uint64_t given_up; /* not 0: a task did; the host clears it */
	uint64_t unused1[3];
	/* by the host: */
	uint64_t answered; /* the question after which the function may begin, as after those before
			    * it if several tasks may ask */
	uint64_t refused;  /* ... after which it fails */
	uint64_t unused2[6];
};

_Static_assert(sizeof(struct ask_box) == 128, "a box has two cache lines");
_Static_assert(offsetof(struct ask_box, answered) == 64, "fixed by code in the guest");

struct ask_spec {
	uint64_t gva;           /* where the code will run */
	uint64_t box;           /* gva of its struct ask_box, within 2 GiB of 0 or of the top */
	struct displaced place; /* the function's first instructions; within these 2 GiB, too */
	enum ask_wait wait;
	bool refuses;      /* the function may fail with -EBUSY */
	bool many; /* several tasks may ask at a time: ASK_SPIN, without refusal and argument */
	uint64_t sleep;    /* ASK_SLEEP: gva of msleep() */
	uint32_t argument; /* ASK_SPIN: of 64 bits, at this offset from the first parameter */
	uint64_t patience; /* ticks of the TSC */
};

enum { ASK_CODE_MAX = 512 /* bytes */ };

struct ask_code {
	uint8_t bytes[ASK_CODE_MAX];
	uint16_t size;
	uint8_t jump[JUMP_SIZE]; /* what is to stand at the function's first instructions */
};

/*
 * Generate the code and check it with the decoder. Errors:
 *   -ERANGE  an address is too far away
 *   -EILSEQ  the generated code is wrong
 */
int ask_generate(const struct ask_spec *spec, struct decoder *decoder, struct ask_code *out,
		 struct error *err);

#endif
