/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FETCH_ORACLE_H
#define SONDE_TESTS_LIB_FETCH_ORACLE_H

#include "patcher/fetch/fetch.h"
#include "tests/lib/fake-site.h"

/*
 * What the code of a dynamic probe records, compared with an interpreter of the same program: drawn
 * programs, over memory that is there, or not.
 */

/* Numbers that programs are made of: a fuzzer's bytes, and 0 behind them; without `data` random
 * ones. */
struct fetch_draw {
	const uint8_t *data;
	size_t left;
};

/* A number below n, which is not 0. */
uint64_t fetch_draw_below(struct fetch_draw *draw, uint64_t n);
/* Mostly an address in the memory, or near its ends. */
uint64_t fetch_draw_address(struct fetch_draw *draw);
/* A probe that can be at such a place. */
void fetch_draw_probe(struct fetch_draw *draw, enum fake_site_kind kind, struct fetch_probe *out);

/* The memory: the kernel's and a task's, of so many bytes. */
enum { FETCH_POOL = 1024 };
#define FETCH_KERNEL_POOL 0xffff888000000000ull
#define FETCH_USER_POOL 0x00007f0000000000ull

/* Functions that read it, as those of a guest do; they live as long as the process. */
struct fetch_helpers fetch_oracle_helpers(void);
/* Fill it at random. */
void fetch_oracle_fill(void);
/* The kernel's begins with a string of so many characters, which another one follows. */
void fetch_oracle_put_text(size_t length);

/*
 * Call the site, whose first record is the program's, at this position of its ring. `nested`:
 * inside another fetch of the same CPU, where each read is a fault. True: what is recorded is what
 * the interpreter reads; *faults grows by the reads that fault.
 */
bool fetch_oracle_call(struct fake_site *s, const struct fetch_program *program, uint64_t start,
		       bool nested, unsigned int *faults);
/* The same at a site of its own, four times, with the record of another tracer behind it. */
bool fetch_oracle_agrees(enum fake_site_kind kind, const struct fetch_program *program,
			 unsigned int *faults);

#endif
