/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_RING_STATUS_H
#define SONDE_PATCHER_RING_STATUS_H

#include <stdint.h>

/* What became of one vCPU's ring of exitless mode. */
struct ring_status {
	uint64_t records; /* by trampolines */
	uint64_t drops;   /* a full ring, or nobody who emptied it */
	uint64_t damaged; /* places in it where the guest had something else than records */
	uint64_t blocked; /* times the vCPU waited because it was full */
	uint64_t blocked_ns;
};

#endif
