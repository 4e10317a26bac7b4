/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_WORKLOAD_ORACLE_STORE_H
#define SONDE_TESTS_WORKLOAD_ORACLE_STORE_H

#include <stdint.h>

/*
 * The format of the oracle's result in guest RAM. oracle.c stores it and prints
 * "sonde-oracle: pages GPA"; oracle-extract.c reads it from a dump of guest RAM. The store is a
 * byte sequence scattered over pages. A chain of table pages, the first at GPA, lists them in
 * order. Host and guest are both little-endian x86-64.
 *
 * The sequence consists of chunks: a struct oracle_chunk and `size` bytes each.
 */
#define ORACLE_MAGIC "SNDORCL1"
#define ORACLE_PAGE 4096u
#define ORACLE_TABLE_PFNS 508u

struct oracle_table {
	char magic[8];
	uint64_t total_bytes; /* of the whole sequence, the same in each table */
	uint64_t count;       /* PFNs in this table */
	uint64_t next_gpa;    /* of the next table, 0 in the last */
	uint64_t pfn[ORACLE_TABLE_PFNS];
};

enum oracle_chunk_kind {
	ORACLE_HEADER_PAGE = 1, /* events/header_page */
	ORACLE_FORMAT = 2,      /* one event's events/kmem/NAME/format */
	ORACLE_STATS = 3,       /* per_cpu/cpuN/stats, after tracing and before reading */
	ORACLE_RAW = 4,         /* per_cpu/cpuN/trace_pipe_raw: one ring buffer page */
};

struct oracle_chunk {
	uint32_t kind;
	uint32_t cpu; /* of STATS and RAW */
	uint64_t size;
};

#endif
