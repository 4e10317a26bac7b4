/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MEMORY_MEMORY_FILE_H
#define SONDE_VMM_MEMORY_MEMORY_FILE_H

#include <stdint.h>

/*
 * A file in memory, `size` bytes of zeros, without a name: what guest RAM is. In huge pages if this
 * machine has transparent huge pages switched on and lets us make a tmpfs that uses them, as a
 * guest then boots with a tenth of the page faults; else a memfd, which has them only where the
 * administrator says so (Documentation/admin-guide/mm/transhuge.rst, "Hugepages in tmpfs/shmem").
 *
 * Returns a descriptor, or a negative errno.
 */
int memory_file_create(uint64_t size);

#endif
