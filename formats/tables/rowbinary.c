/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ClickHouse's RowBinary: the values of each row, one behind the other, without names and types.
 * Numbers are little-endian, a text has its length in front of it.
 */
#include <errno.h>
#include <stdlib.h>
#include "formats/tables/bytes.h"
#include "formats/tables/table.h"

struct rowbinary {
	struct table_writer base;
	struct export_file *file;
	const struct table_schema *schema;
	struct bytes row;
};

static void put_number(struct bytes *row, uint64_t value, size_t size)
{
	value = htole64(value);
	bytes_put(row, &value, size);
}

static int put(struct table_writer *base, const struct table_value *values)
{
	struct rowbinary *r = (struct rowbinary *)base;

	r->row.used = 0;
	for (size_t i = 0; i < r->schema->nr_columns; i++) {
		const struct table_value *value = &values[i];

		switch (r->schema->columns[i].type) {
		case TABLE_I32:
		case TABLE_U32:
			put_number(&r->row, value->number, sizeof(uint32_t));
			break;
		case TABLE_I64:
		case TABLE_U64:
			put_number(&r->row, value->number, sizeof(uint64_t));
			break;
		case TABLE_NAME:
		case TABLE_TEXT:
			bytes_varint(&r->row, strlen(value->text));
			bytes_put(&r->row, value->text, strlen(value->text));
		}
	}
	if (r->row.failed)
		return -ENOMEM;
	export_put(r->file, r->row.data, r->row.used);
	return 0;
}

static int finish(struct table_writer *base)
{
	(void)base;
	return 0;
}

static void destroy(struct table_writer *base)
{
	struct rowbinary *r = (struct rowbinary *)base;

	if (r)
		bytes_free(&r->row);
	free(r);
}

static struct table_writer *create(struct export_file *file, const struct table_schema *schema)
{
	struct rowbinary *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->base.ops = &rowbinary_table;
	r->file = file;
	r->schema = schema;
	return &r->base;
}

const struct table_writer_ops rowbinary_table = {
	.create = create, .put = put, .finish = finish, .destroy = destroy};
