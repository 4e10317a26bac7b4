/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRAMPOLINE_SHARED_H
#define SONDE_PATCHER_TRAMPOLINE_SHARED_H

#include "patcher/trampoline/trampoline.h"

/*
 * Code that all sites with the same tracers share. A mcount site becomes a call to it; the return
 * address on the stack names the site. The code writes a direct record for each tracer (layout.h)
 * and returns. It changes RAX, R10, R11 and the flags of arithmetic, and leaves nothing on the
 * guest's stack. Interrupts are off inside, but for its first instruction; one that is pending at
 * the end is taken behind the site, in the guest's own code.
 *
 * Guest instructions with call and return: 23 for one record, 14 for each further one; more for
 * each record with the caller's address (2), pid (3), comm (6), and 1 if its rings differ in size
 * from those of the record before.
 */
struct shared_spec {
	uint64_t gva; /* where it will run */
	const struct direct_spec *records;
	size_t nr_records; /* 1..DIRECT_MAX_RECORDS */
	const struct trampoline_kernel *kernel;
	bool unprivileged; /* for tests in user mode: leaves interrupts on */
};

struct shared_code {
	uint8_t bytes[TRAMPOLINE_MAX];
	uint16_t size;
	struct slow_path slow[DIRECT_MAX_RECORDS]; /* of each record */
};

/*
 * Generate the code and check it with the decoder. Errors:
 *   -EINVAL  there can be no such records, rings or gates
 *   -ENOSPC  the code does not fit into TRAMPOLINE_MAX bytes
 *   -ERANGE  an address is too far away
 *   -EILSEQ  the generated code is wrong
 */
int shared_generate(const struct shared_spec *spec, struct decoder *decoder,
		    struct shared_code *out, struct error *err);

#endif
