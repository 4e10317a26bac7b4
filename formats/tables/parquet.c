/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Apache Parquet (apache/parquet-format 2.x: README.md, parquet.thrift, Encodings.md): row groups,
 * which have a chunk for each column; at the end what says where they are. No value is null, so
 * there are no levels. Names are numbers of a dictionary, all other values are plain; pages are
 * compressed with zstd.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#include "formats/tables/dictionary.h"
#include "formats/tables/table.h"
#include "formats/tables/thrift.h"

/* Of parquet.thrift: */
enum physical_type { TYPE_INT32 = 1, TYPE_INT64 = 2, TYPE_BYTE_ARRAY = 6 };
enum converted_type { CONVERTED_UTF8 = 0, CONVERTED_UINT_32 = 13, CONVERTED_UINT_64 = 14 };
enum encoding { ENCODING_PLAIN = 0, ENCODING_RLE = 3, ENCODING_RLE_DICTIONARY = 8 };
enum page_type { PAGE_DATA = 0, PAGE_DICTIONARY = 2 };
enum { REQUIRED = 0, CODEC_ZSTD = 6 };

/* A row group ends when it has so many rows, or a column of it so many bytes. */
enum { GROUP_ROWS = 1 << 17, COLUMN_BYTES = 4 << 20, NAMES_BYTES = 1 << 20 };
enum { ZSTD_LEVEL = 1 };

static const char magic[] = "PAR1";

/* A column of a row group, in the file. */
struct chunk {
	uint64_t dictionary_at, data_at; /* 0: there is no dictionary */
	uint64_t size, packed_size;      /* of its pages with their headers */
	uint64_t min, max;               /* of numbers */
};

struct group {
	uint64_t rows;
	struct chunk chunks[TABLE_COLUMNS_MAX];
};

/* A column of the row group at hand. */
struct column {
	enum table_type type;
	struct bytes values; /* of names: uint32_t, in the dictionary */
	struct dictionary names;
	uint64_t min, max;
};

struct parquet {
	struct table_writer base;
	struct export_file *file;
	const struct table_schema *schema;
	struct column columns[TABLE_COLUMNS_MAX];
	uint64_t rows;        /* of the group at hand */
	struct bytes groups;  /* struct group, of those that are written */
	uint64_t all_rows;    /* in these */
	struct bytes scratch; /* a page */
	struct bytes packed, head;
	ZSTD_CCtx *zstd;
};

static bool is_number(enum table_type type)
{
	return type != TABLE_NAME && type != TABLE_TEXT;
}

static bool is_narrow(enum table_type type)
{
	return type == TABLE_I32 || type == TABLE_U32;
}

static bool is_signed(enum table_type type)
{
	return type == TABLE_I32 || type == TABLE_I64;
}

/* --- pages ----------------------------------------------------------------------------------- */

static void put_page_head(struct bytes *out, enum page_type type, size_t size, size_t packed_size,
			  uint64_t values, enum encoding encoding)
{
	struct thrift t = {.out = out};

	thrift_i32(&t, 1, type);
	thrift_i32(&t, 2, (int32_t)size);
	thrift_i32(&t, 3, (int32_t)packed_size);
	thrift_begin_field(&t, type == PAGE_DATA ? 5 : 7);
	thrift_i32(&t, 1, (int32_t)values);
	thrift_i32(&t, 2, encoding);
	if (type == PAGE_DATA) {
		thrift_i32(&t, 3, ENCODING_RLE);
		thrift_i32(&t, 4, ENCODING_RLE);
	}
	thrift_end(&t);
	thrift_end(&t);
}

/* Returns 0 or -ENOMEM. */
static int put_page(struct parquet *p, struct chunk *chunk, enum page_type type,
		    const struct bytes *page, uint64_t values, enum encoding encoding)
{
	const size_t bound = ZSTD_compressBound(page->used);
	uint8_t *to;
	size_t size;

	p->packed.used = p->head.used = 0;
	to = bytes_room(&p->packed, bound);
	if (page->failed || !to)
		return -ENOMEM;
	size = ZSTD_compressCCtx(p->zstd, to, bound, page->data, page->used, ZSTD_LEVEL);
	if (ZSTD_isError(size))
		return -ENOMEM;
	put_page_head(&p->head, type, page->used, size, values, encoding);
	if (p->head.failed)
		return -ENOMEM;
	export_put(p->file, p->head.data, p->head.used);
	export_put(p->file, to, size);
	chunk->size += p->head.used + page->used;
	chunk->packed_size += p->head.used + size;
	return 0;
}

static unsigned int bits_of(uint32_t count)
{
	return count > 1 ? 32 - (unsigned int)__builtin_clz(count - 1) : 0;
}

static int put_names(struct parquet *p, struct chunk *chunk, const struct column *column)
{
	const uint8_t bits = (uint8_t)bits_of(column->names.count);
	int ret;

	chunk->dictionary_at = export_offset(p->file);
	ret = put_page(p, chunk, PAGE_DICTIONARY, &column->names.texts, column->names.count,
		       ENCODING_PLAIN);
	if (ret)
		return ret;
	chunk->data_at = export_offset(p->file);
	p->scratch.used = 0;
	bytes_put(&p->scratch, &bits, 1);
	hybrid_put(&p->scratch, (const uint32_t *)(const void *)column->values.data, p->rows, bits);
	return put_page(p, chunk, PAGE_DATA, &p->scratch, p->rows, ENCODING_RLE_DICTIONARY);
}

static int put_chunk(struct parquet *p, struct chunk *chunk, const struct column *column)
{
	*chunk = (struct chunk){.min = column->min, .max = column->max};
	if (column->type == TABLE_NAME)
		return put_names(p, chunk, column);
	chunk->data_at = export_offset(p->file);
	return put_page(p, chunk, PAGE_DATA, &column->values, p->rows, ENCODING_PLAIN);
}

static int put_group(struct parquet *p)
{
	struct group group = {.rows = p->rows};
	int ret = 0;

	for (size_t i = 0; !ret && i < p->schema->nr_columns; i++) {
		struct column *column = &p->columns[i];

		ret = put_chunk(p, &group.chunks[i], column);
		column->values.used = 0;
		dictionary_clear(&column->names);
	}
	if (ret)
		return ret;
	p->all_rows += p->rows;
	p->rows = 0;
	bytes_put(&p->groups, &group, sizeof(group));
	return p->groups.failed ? -ENOMEM : 0;
}

/* --- rows ------------------------------------------------------------------------------------ */

static bool is_less(enum table_type type, uint64_t a, uint64_t b)
{
	return is_signed(type) ? (int64_t)a < (int64_t)b : a < b;
}

static void put_number(const struct parquet *p, struct column *column, uint64_t number)
{
	const uint64_t wide = htole64(number);
	const uint32_t narrow = htole32((uint32_t)number);

	if (!p->rows || is_less(column->type, number, column->min))
		column->min = number;
	if (!p->rows || is_less(column->type, column->max, number))
		column->max = number;
	if (is_narrow(column->type))
		bytes_put(&column->values, &narrow, sizeof(narrow));
	else
		bytes_put(&column->values, &wide, sizeof(wide));
}

static void put_name(struct column *column, const struct table_value *value)
{
	const int64_t found = dictionary_find(&column->names, value);
	const uint32_t number = (uint32_t)found;

	if (found < 0)
		column->values.failed = true;
	else
		bytes_put(&column->values, &number, sizeof(number));
}

static void put_text(struct column *column, const char *text)
{
	const uint32_t length = htole32((uint32_t)strlen(text));

	bytes_put(&column->values, &length, sizeof(length));
	bytes_put(&column->values, text, strlen(text));
}

static int put(struct table_writer *base, const struct table_value *row)
{
	struct parquet *p = (struct parquet *)base;
	bool full = p->rows + 1 == GROUP_ROWS;

	for (size_t i = 0; i < p->schema->nr_columns; i++) {
		struct column *column = &p->columns[i];

		if (is_number(column->type))
			put_number(p, column, row[i].number);
		else if (column->type == TABLE_NAME)
			put_name(column, &row[i]);
		else
			put_text(column, row[i].text);
		if (column->values.failed)
			return -ENOMEM;
		full = full || column->values.used > COLUMN_BYTES ||
		       column->names.texts.used > NAMES_BYTES;
	}
	p->rows++;
	return full ? put_group(p) : 0;
}

/* --- the end of the file --------------------------------------------------------------------- */

static enum physical_type physical(enum table_type type)
{
	if (!is_number(type))
		return TYPE_BYTE_ARRAY;
	return is_narrow(type) ? TYPE_INT32 : TYPE_INT64;
}

static void put_schema(struct thrift *t, const struct table_schema *schema)
{
	thrift_list(t, 2, THRIFT_STRUCT, schema->nr_columns + 1);
	thrift_begin(t);
	thrift_text(t, 4, schema->name);
	thrift_i32(t, 5, (int32_t)schema->nr_columns);
	thrift_end(t);
	for (size_t i = 0; i < schema->nr_columns; i++) {
		const enum table_type type = schema->columns[i].type;

		thrift_begin(t);
		thrift_i32(t, 1, (int32_t)physical(type));
		thrift_i32(t, 3, REQUIRED);
		thrift_text(t, 4, schema->columns[i].name);
		if (!is_number(type))
			thrift_i32(t, 6, CONVERTED_UTF8);
		else if (!is_signed(type))
			thrift_i32(t, 6, is_narrow(type) ? CONVERTED_UINT_32 : CONVERTED_UINT_64);
		thrift_end(t);
	}
}

static void put_statistics(struct thrift *t, const struct chunk *chunk, enum table_type type)
{
	const uint64_t min = htole64(chunk->min), max = htole64(chunk->max);
	const size_t size = is_narrow(type) ? sizeof(uint32_t) : sizeof(uint64_t);

	thrift_begin_field(t, 12);
	thrift_i64(t, 3, 0); /* nulls */
	thrift_binary(t, 5, &max, size);
	thrift_binary(t, 6, &min, size);
	thrift_end(t);
}

static void put_chunk_head(struct thrift *t, const struct chunk *chunk, uint64_t rows,
			   const struct table_column *column)
{
	const bool has_names = column->type == TABLE_NAME;

	thrift_begin(t);
	thrift_i64(t, 2, has_names ? chunk->dictionary_at : chunk->data_at);
	thrift_begin_field(t, 3);
	thrift_i32(t, 1, (int32_t)physical(column->type));
	thrift_list(t, 2, THRIFT_I32, has_names ? 3 : 2);
	thrift_signed(t, ENCODING_PLAIN);
	thrift_signed(t, ENCODING_RLE);
	if (has_names)
		thrift_signed(t, ENCODING_RLE_DICTIONARY);
	thrift_list(t, 3, THRIFT_BINARY, 1);
	thrift_bytes(t, column->name, strlen(column->name));
	thrift_i32(t, 4, CODEC_ZSTD);
	thrift_i64(t, 5, rows);
	thrift_i64(t, 6, chunk->size);
	thrift_i64(t, 7, chunk->packed_size);
	thrift_i64(t, 9, chunk->data_at);
	if (has_names)
		thrift_i64(t, 11, chunk->dictionary_at);
	if (is_number(column->type))
		put_statistics(t, chunk, column->type);
	thrift_end(t);
	thrift_end(t);
}

static void put_group_head(struct thrift *t, const struct group *group,
			   const struct table_schema *schema)
{
	uint64_t size = 0;

	thrift_begin(t);
	thrift_list(t, 1, THRIFT_STRUCT, schema->nr_columns);
	for (size_t i = 0; i < schema->nr_columns; i++) {
		put_chunk_head(t, &group->chunks[i], group->rows, &schema->columns[i]);
		size += group->chunks[i].size;
	}
	thrift_i64(t, 2, size);
	thrift_i64(t, 3, group->rows);
	thrift_end(t);
}

static void put_version(struct thrift *t, const struct table_schema *schema)
{
	char version[16];

	snprintf(version, sizeof(version), "%d", TABLE_VERSION);
	thrift_list(t, 5, THRIFT_STRUCT, 2);
	thrift_begin(t);
	thrift_text(t, 1, "sonde.table");
	thrift_text(t, 2, schema->name);
	thrift_end(t);
	thrift_begin(t);
	thrift_text(t, 1, "sonde.version");
	thrift_text(t, 2, version);
	thrift_end(t);
}

static int finish(struct table_writer *base)
{
	struct parquet *p = (struct parquet *)base;
	const struct group *groups;
	struct bytes text = {0};
	struct thrift t = {.out = &text};
	uint8_t size[4];
	int ret = p->rows ? put_group(p) : 0;

	if (ret)
		return ret;
	groups = (const struct group *)(const void *)p->groups.data;
	thrift_i32(&t, 1, 2);
	put_schema(&t, p->schema);
	thrift_i64(&t, 3, p->all_rows);
	thrift_list(&t, 4, THRIFT_STRUCT, p->groups.used / sizeof(*groups));
	for (size_t i = 0; i < p->groups.used / sizeof(*groups); i++)
		put_group_head(&t, &groups[i], p->schema);
	put_version(&t, p->schema);
	thrift_text(&t, 6, "sonde");
	thrift_end(&t);
	if (text.failed) {
		bytes_free(&text);
		return -ENOMEM;
	}
	export_put(p->file, text.data, text.used);
	put_le32(size, (uint32_t)text.used);
	export_put(p->file, size, sizeof(size));
	export_text(p->file, magic);
	bytes_free(&text);
	return 0;
}

/* --- life ------------------------------------------------------------------------------------ */

static void destroy(struct table_writer *base)
{
	struct parquet *p = (struct parquet *)base;

	if (!p)
		return;
	for (size_t i = 0; i < p->schema->nr_columns; i++) {
		bytes_free(&p->columns[i].values);
		dictionary_deinit(&p->columns[i].names);
	}
	bytes_free(&p->groups);
	bytes_free(&p->scratch);
	bytes_free(&p->packed);
	bytes_free(&p->head);
	ZSTD_freeCCtx(p->zstd);
	free(p);
}

static struct table_writer *create(struct export_file *file, const struct table_schema *schema)
{
	struct parquet *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->base.ops = &parquet_table;
	p->file = file;
	p->schema = schema;
	for (size_t i = 0; i < schema->nr_columns; i++) {
		p->columns[i].type = schema->columns[i].type;
		dictionary_init(&p->columns[i].names);
	}
	p->zstd = ZSTD_createCCtx();
	if (!p->zstd) {
		destroy(&p->base);
		return NULL;
	}
	export_text(file, magic);
	return &p->base;
}

const struct table_writer_ops parquet_table = {
	.create = create, .put = put, .finish = finish, .destroy = destroy};
