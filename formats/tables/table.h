/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_TABLES_TABLE_H
#define SONDE_FORMATS_TABLES_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include "formats/export/file.h"

/*
 * Tables for databases, between the files that fill them (events.c, sites.c) and those that write
 * their rows (parquet.c, rowbinary.c). sonde-schema(5) describes the columns.
 */
enum table_type {
	TABLE_I32,
	TABLE_U32,
	TABLE_I64,
	TABLE_U64,
	TABLE_NAME, /* text; the same ones again and again */
	TABLE_TEXT, /* text */
};

struct table_column {
	const char *name;
	enum table_type type;
};

/* Every change of a column, or of its content, raises TABLE_VERSION. */
enum { TABLE_VERSION = 4, TABLE_COLUMNS_MAX = 20 };

struct table_schema {
	const char *name;
	const struct table_column *columns;
	size_t nr_columns;
};

extern const struct table_schema events_schema, sites_schema;

/* A value. In a column of names, the number stands for the text: equal ones have equal texts. */
struct table_value {
	uint64_t number;
	const char *text; /* UTF-8 */
};

/* Writes the rows of one table to a file, whose errors are left to it. */
struct table_writer {
	const struct table_writer_ops *ops;
};

struct table_writer_ops {
	/* NULL: no memory. */
	struct table_writer *(*create)(struct export_file *file, const struct table_schema *schema);
	/* A value for each column. Returns 0 or -ENOMEM. */
	int (*put)(struct table_writer *writer, const struct table_value *row);
	/* After the last row. Returns 0 or -ENOMEM. */
	int (*finish)(struct table_writer *writer);
	/* NULL-safe. */
	void (*destroy)(struct table_writer *writer);
};

extern const struct table_writer_ops parquet_table, rowbinary_table;

#endif
