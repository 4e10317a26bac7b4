/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CTF_TABLES_H
#define SONDE_FORMATS_CTF_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * The tables at the end of a packet: what the ids in it stand for. They are an event whose fields
 * are sequences, all byte-aligned: their lengths first.
 */
enum ctf_table {
	CTF_TABLE_NEAR, /* addresses of code in the last 2 GiB, where a kernel's text is */
	CTF_TABLE_CODE, /* other addresses of code */
	CTF_TABLE_FLAGS,
	CTF_TABLE_STRINGS,
	CTF_TABLE_CACHES,
	CTF_NR_TABLES,
};

struct ctf_table_field {
	const char *name; /* NULL ends the list */
	uint8_t bytes;    /* 0: a string with its NUL */
	bool is_signed, is_hex;
};

enum { CTF_TABLE_FIELDS = 4, CTF_LENGTH_BYTES = 2, CTF_NAME_MAX = 255 /* without the NUL */ };

/* The first field is an id of 16 bits. */
struct ctf_table_layout {
	const char *name;
	struct ctf_table_field fields[CTF_TABLE_FIELDS + 1];
	size_t entry_bytes; /* at most */
};

extern const struct ctf_table_layout ctf_tables[CTF_NR_TABLES];

#endif
