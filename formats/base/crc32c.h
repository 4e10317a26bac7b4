/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_BASE_CRC32C_H
#define SONDE_FORMATS_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/*
 * CRC-32C, of the Castagnoli polynomial 0x1edc6f41, as iSCSI has it (RFC 3720, appendix B.4): the
 * CRC of "123456789" is 0xe3069283. `crc` is that of the bytes before, 0 for none.
 */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t size);

/* The same without the CPU's instruction, for tests. */
uint32_t crc32c_by_table(uint32_t crc, const void *bytes, size_t size);

#endif
