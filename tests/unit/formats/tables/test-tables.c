/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tables: the rows of RowBinary are read back and compared with the trace, dictionary numbers
 * are unpacked again, and the CREATE TABLE that is handed out has the columns that are written.
 * tests/tables/ lets DuckDB and ClickHouse read both formats.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "formats/cmd.h"
#include "formats/tables/dictionary.h"
#include "formats/tables/table.h"
#include "tests/lib/export-make.h"
#include "tests/lib/tap.h"

enum { MAX_TEXT = 4096 };

static struct scratch dir;
static char trace[128], out[128];

/* --- RowBinary ------------------------------------------------------------------------------- */

struct cursor {
	const uint8_t *at, *end;
};

static uint64_t take_number(struct cursor *c, size_t size)
{
	uint64_t value = 0;

	if ((size_t)(c->end - c->at) < size)
		abort();
	memcpy(&value, c->at, size);
	c->at += size;
	return le64toh(value);
}

static void take_text(struct cursor *c, char text[MAX_TEXT])
{
	uint64_t size = 0;
	unsigned int shift = 0;
	uint8_t byte;

	do {
		byte = (uint8_t)take_number(c, 1);
		size |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (size >= MAX_TEXT || (size_t)(c->end - c->at) < size)
		abort();
	memcpy(text, c->at, size);
	text[size] = '\0';
	c->at += size;
}

/* A row of the schema; the values of columns by their number. */
struct row {
	uint64_t numbers[TABLE_COLUMNS_MAX];
	char texts[TABLE_COLUMNS_MAX][MAX_TEXT];
};

static void take_row(struct cursor *c, const struct table_schema *schema, struct row *row)
{
	for (size_t i = 0; i < schema->nr_columns; i++) {
		const enum table_type type = schema->columns[i].type;

		if (type == TABLE_NAME || type == TABLE_TEXT)
			take_text(c, row->texts[i]);
		else
			row->numbers[i] =
				take_number(c, type == TABLE_I32 || type == TABLE_U32 ? 4 : 8);
	}
}

static size_t column(const struct table_schema *schema, const char *name)
{
	for (size_t i = 0; i < schema->nr_columns; i++)
		if (!strcmp(schema->columns[i].name, name))
			return i;
	abort();
}

static bool is_row_of(const struct row *row, const struct event *event)
{
	static const char *const names[] = {"call_site", "ptr", "bytes_req", "bytes_alloc"};
	char title[256];
	bool same = row->numbers[column(&events_schema, "ns")] == (uint64_t)event->ns &&
		    row->numbers[column(&events_schema, "vcpu")] == event->vcpu &&
		    !strcmp(row->texts[column(&events_schema, "host")], "web7") &&
		    !strcmp(row->texts[column(&events_schema, "instance")], event->instance->name);

	snprintf(title, sizeof(title), "%s:%s", event->class->system, event->class->name);
	same = same && !strcmp(row->texts[column(&events_schema, "event")], title);
	for (size_t i = 0; same && i < sizeof(names) / sizeof(*names); i++) {
		const struct event_field *field = event_field_find(event->class, names[i]);
		const uint64_t value = row->numbers[column(&events_schema, names[i])];

		if (field && field->type != EVENT_STRING && field->type != EVENT_INT)
			same = value == event_field_value(field, event->bytes);
	}
	return same;
}

static void test_events(void)
{
	static struct row row;
	struct trace_reader *reader;
	struct event event;
	unsigned int wrong = 0, n = 0;
	size_t size;
	char *bytes;
	struct cursor c;

	export_make_convert(trace, "rowbinary", out, "--host=web7");
	bytes = file_get(dir.path, "table", &size);
	c = (struct cursor){(uint8_t *)bytes, (uint8_t *)bytes + size};
	if (trace_reader_open(trace, &reader, NULL))
		abort();
	while (c.at != c.end && trace_reader_next(reader, &event, NULL) > 0) {
		take_row(&c, &events_schema, &row);
		wrong += !is_row_of(&row, &event);
		n++;
	}
	ok(c.at == c.end && trace_reader_next(reader, &event, NULL) == 0 && n,
	   "RowBinary has a row for each event");
	is_u64(wrong, 0, "a row has what its event has");
	trace_reader_close(reader);
	free(bytes);
	remove(out);
}

/* The fields of an event of the function tracer have no column but `fields`. */
static bool is_as_json(const char *fields, const char *line)
{
	static const char *const columns[] = {"ns", "vcpu", "event", "instance"};
	json_t *got = json_loads(fields, 0, NULL), *want = json_loads(line, 0, NULL);
	bool same;

	for (size_t i = 0; i < sizeof(columns) / sizeof(*columns); i++)
		json_object_del(want, columns[i]);
	same = got && json_equal(got, want);
	if (!same)
		tap_diag("%s, not %s", fields, line);
	json_decref(got);
	json_decref(want);
	return same;
}

static void test_fields(void)
{
	static struct row row;
	unsigned int wrong = 0, n = 0;
	size_t size, lines_size;
	char *bytes, *lines, *line, *rest;
	struct cursor c;

	export_make_convert(trace, "rowbinary", out, NULL);
	bytes = file_get(dir.path, "table", &size);
	remove(out);
	export_make_convert(trace, "jsonl", out, NULL);
	rest = lines = file_get(dir.path, "table", &lines_size);
	c = (struct cursor){(uint8_t *)bytes, (uint8_t *)bytes + size};
	while (c.at != c.end && (line = strsep(&rest, "\n"))) {
		take_row(&c, &events_schema, &row);
		if (strncmp(row.texts[column(&events_schema, "event")], "function:", 9) != 0)
			continue;
		n++;
		wrong += !is_as_json(row.texts[column(&events_schema, "fields")], line);
	}
	ok(n > 100 && !wrong,
	   "fields are those of sonde events --json, with addresses and symbols");
	free(lines);
	free(bytes);
	remove(out);
}

/* What all allocations and frees come to, by hand. */
static void count_kmem(uint64_t *allocs, uint64_t *lost)
{
	struct trace_reader *reader;
	struct trace_losses losses;
	struct kmem_record record;
	struct event event;

	if (trace_reader_open(trace, &reader, NULL))
		abort();
	*allocs = 0;
	while (trace_reader_next(reader, &event, NULL) > 0)
		*allocs += kmem_record_of(&event, &record) && kmem_record_is_legal(&record) &&
			   record.event_id == KMEM_EVENT_ALLOC;
	trace_reader_losses(reader, &losses);
	*lost = counters_lost(&losses.counters);
	trace_reader_close(reader);
}

static void test_sites(void)
{
	static struct row row;
	uint64_t allocs = 0, freed = 0, live = 0, lost = 0, bounded = 1, expected, expected_lost;
	size_t size;
	char *bytes;
	struct cursor c;

	export_make_convert(trace, "rowbinary-sites", out, NULL);
	bytes = file_get(dir.path, "table", &size);
	c = (struct cursor){(uint8_t *)bytes, (uint8_t *)bytes + size};
	while (c.at != c.end) {
		take_row(&c, &sites_schema, &row);
		allocs += row.numbers[column(&sites_schema, "allocs")];
		freed += row.numbers[column(&sites_schema, "frees")];
		live += row.numbers[column(&sites_schema, "live_objects")];
		lost = row.numbers[column(&sites_schema, "events_lost")];
		bounded &= row.numbers[column(&sites_schema, "bounded")];
	}
	count_kmem(&expected, &expected_lost);
	is_u64(allocs, expected, "the call sites have all allocations");
	ok(live && live + freed <= allocs, "and no more is live than was not freed");
	is_u64(lost, expected_lost, "each row says how many events the trace lacks");
	is_u64(bounded, 1, "and that these are all");
	free(bytes);
	remove(out);
}

/* With one of its files cut off, a trace lacks what its description counts beyond what is there. */
static void test_sites_of_cut(void)
{
	const struct scratch source = scratch_make();
	static struct row row;
	uint64_t bounded = 1, least = UINT64_MAX, expected, expected_lost;
	size_t size, rows = 0;
	char *bytes;
	struct cursor c;

	export_make(source.path);
	bytes = file_get(source.path, "cpu0", &size);
	file_put(source.path, "cpu0", bytes, size / 2);
	free(bytes);
	export_make_convert(source.path, "rowbinary-sites", out, NULL);
	bytes = file_get(dir.path, "table", &size);
	for (c = (struct cursor){(uint8_t *)bytes, (uint8_t *)bytes + size}; c.at != c.end;
	     rows++) {
		take_row(&c, &sites_schema, &row);
		bounded &= row.numbers[column(&sites_schema, "bounded")];
		if (row.numbers[column(&sites_schema, "events_lost")] < least)
			least = row.numbers[column(&sites_schema, "events_lost")];
	}
	count_kmem(&expected, &expected_lost);
	ok(rows && bounded && least > expected_lost,
	   "each row of a trace that is cut off counts what the file lacks");
	free(bytes);
	remove(out);
	scratch_remove(&source);
}

/* What a site did in the time, and what it held before that. */
static void test_sites_of_time(void)
{
	static const struct {
		uint64_t site, allocs, frees, live, peak;
	} want[] = {{0x1010, 1, 2, 64, 128}, {0x2010, 1, 0, 128, 128}};
	const struct kmem_record records[] = {
		make_alloc(KMEM_TYPE_KMALLOC, 0x100, 0x1010, 60, 64, 1000000000),
		make_alloc(KMEM_TYPE_KMALLOC, 0x200, 0x1010, 60, 64, 2000000000),
		make_alloc(KMEM_TYPE_KMALLOC, 0x600, 0x1010, 60, 64, 2500000000),
		make_free(KMEM_TYPE_KMALLOC, 0x600, 0x3010, 2600000000),
		make_alloc(KMEM_TYPE_KMALLOC, 0x700, 0x4010, 60, 64, 2700000000),
		make_free(KMEM_TYPE_KMALLOC, 0x700, 0x3010, 2800000000),
		make_alloc(KMEM_TYPE_KMALLOC, 0x300, 0x2010, 100, 128, 4000000000),
		make_free(KMEM_TYPE_KMALLOC, 0x200, 0x3010, 5000000000),
		make_alloc(KMEM_TYPE_KMALLOC, 0x400, 0x1010, 60, 64, 6000000000),
		make_free(KMEM_TYPE_KMALLOC, 0x400, 0x3010, 7000000000),
		make_alloc(KMEM_TYPE_KMALLOC, 0x500, 0x2010, 100, 128, 8000000000),
	};
	const struct scratch source = scratch_make();
	static struct row row;
	unsigned int right = 0, n = 0;
	size_t size;
	char *bytes;
	struct cursor c;

	stream_put(source.path, 0, records, sizeof(records) / sizeof(records[0]));
	export_make_convert(source.path, "rowbinary-sites", out, "--time=4,8");
	bytes = file_get(dir.path, "table", &size);
	c = (struct cursor){(uint8_t *)bytes, (uint8_t *)bytes + size};
	for (; c.at != c.end && n < 2; n++) {
		take_row(&c, &sites_schema, &row);
		right += row.numbers[column(&sites_schema, "call_site")] == want[n].site &&
			 row.numbers[column(&sites_schema, "allocs")] == want[n].allocs &&
			 row.numbers[column(&sites_schema, "frees")] == want[n].frees &&
			 row.numbers[column(&sites_schema, "live_bytes")] == want[n].live &&
			 row.numbers[column(&sites_schema, "peak_bytes")] == want[n].peak &&
			 row.numbers[column(&sites_schema, "begin_ns")] == 4000000000;
	}
	ok(n == 2 && c.at == c.end, "a site that neither acts nor holds in the time has no row");
	is_u64(right, 2, "sites have what they did in the time, and held then");
	free(bytes);
	remove(out);
	scratch_remove(&source);
}

/* A page is freed where pages are moved; an object stays. */
static void put_moving(const char *path, const char *instance)
{
	const uint64_t page = 0xffffea0000000000;
	const struct kmem_record records[] = {
		make_alloc(KMEM_TYPE_KMALLOC, 0x100, 0x1010, 60, 64, 1000),
		make_alloc(KMEM_TYPE_PAGES, page, 0x2010, 4096, 4096, 2000),
		make_free(KMEM_TYPE_PAGES, page, 0x3010, 3000),
	};
	char text[500];

	stream_put(path, 0, records, sizeof(records) / sizeof(records[0]));
	snprintf(
		text, sizeof(text),
		"{\"version\":1,\"complete\":true,\"vcpus\":[{}],\"instances\":[{\"name\":\"kmem\","
		"\"spec\":\"kmem\",\"vcpus\":[{}]%s}],"
		"\"symbols\":[{\"name\":\"migrate_pages_batch\",\"start\":\"0x3000\",\"size\":4096}"
		"]}",
		instance);
	file_put(path, "sonde.json", text, strlen(text));
}

/* Of which rows `events_lost` says all. */
static void test_bounded(void)
{
	static const struct {
		const char *instance;
		uint64_t object, page;
	} rows[] = {{"", 1, 0},
		    {",\"interrupted\":true", 0, 0},
		    {"}],\"gaps\":[{\"function\":\"f\",\"reason\":\"r\"", 0, 0}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct scratch source = scratch_make();
		uint64_t bounded[2] = {2, 2};
		static struct row row;
		struct cursor c;
		size_t size;
		char *bytes;

		put_moving(source.path, rows[i].instance);
		export_make_convert(source.path, "rowbinary-sites", out, NULL);
		bytes = file_get(dir.path, "table", &size);
		c = (struct cursor){(uint8_t *)bytes, (uint8_t *)bytes + size};
		while (c.at != c.end) {
			take_row(&c, &sites_schema, &row);
			bounded[row.numbers[column(&sites_schema, "call_site")] == 0x2010] =
				row.numbers[column(&sites_schema, "bounded")];
		}
		ok(bounded[0] == rows[i].object && bounded[1] == rows[i].page,
		   "'%s': live sums are bounded but for pages that move", rows[i].instance);
		free(bytes);
		remove(out);
		scratch_remove(&source);
	}
}

/* Three sites: one keeps every tenth object, one all of its first ones, one has nothing left. */
static void put_growing(const char *path)
{
	enum { TIMES = 1000 };
	struct kmem_record *records = calloc(4 * TIMES, sizeof(*records));
	size_t n = 0;

	for (uint64_t i = 0; records && i < TIMES; i++) {
		const int64_t ns = (int64_t)(i + 1) * 10000000;

		records[n++] = make_alloc(KMEM_TYPE_KMALLOC, 0x100000 + i * 64, 0x1010, 60, 64, ns);
		if (i % 10)
			records[n++] =
				make_free(KMEM_TYPE_KMALLOC, 0x100000 + i * 64, 0x9010, ns + 1);
		if (i < 50)
			records[n++] = make_alloc(KMEM_TYPE_KMALLOC, 0x900000 + i * 64, 0x2010, 60,
						  64, ns + 2);
	}
	records[n++] =
		make_alloc(KMEM_TYPE_KMALLOC, 0x100, 0x3010, 60, 64, TIMES * INT64_C(10000100));
	records[n++] = make_free(KMEM_TYPE_KMALLOC, 0x100, 0x9010, TIMES * INT64_C(10000200));
	stream_put(path, 0, records, n);
	free(records);
}

/* The site as `sonde leaks` has it, or NULL. */
static const json_t *leak_at(const json_t *leaks, uint64_t call_site)
{
	const json_t *item;
	char text[32];
	size_t i;

	snprintf(text, sizeof(text), "0x%" PRIx64, call_site);
	json_array_foreach(json_object_get(leaks, "call_sites"), i, item)
	{
		if (!strcmp(json_string_value(json_object_get(item, "address")), text))
			return item;
	}
	return NULL;
}

static bool is_as_leaks(const struct row *row, const json_t *leak)
{
	const double growth = json_real_value(json_object_get(leak, "growth_per_second"));
	const int64_t column_growth =
		(int64_t)row->numbers[column(&sites_schema, "growth_bytes_per_s")];

	return (double)column_growth >= growth - 1 && (double)column_growth <= growth + 1 &&
	       !strcmp(row->texts[column(&sites_schema, "verdict")],
		       json_string_value(json_object_get(leak, "verdict")));
}

static void test_growth(void)
{
	const struct scratch source = scratch_make();
	static struct row row;
	unsigned int same = 0, n = 0;
	const char *argv[] = {"leaks", "--json", "--verbose", "--top", "0", source.path, NULL};
	json_t *leaks;
	size_t size;
	char *bytes;
	struct cursor c;

	put_growing(source.path);
	leaks = verb_json(cmd_leaks, argv);
	export_make_convert(source.path, "rowbinary-sites", out, NULL);
	bytes = file_get(dir.path, "table", &size);
	for (c = (struct cursor){(uint8_t *)bytes, (uint8_t *)bytes + size}; c.at != c.end; n++) {
		const json_t *leak;

		take_row(&c, &sites_schema, &row);
		leak = leak_at(leaks, row.numbers[column(&sites_schema, "call_site")]);
		if (leak)
			same += is_as_leaks(&row, leak);
		else
			is_str(row.texts[column(&sites_schema, "verdict")], "",
			       "a site with nothing live has no verdict");
		if (row.numbers[column(&sites_schema, "call_site")] == 0x1010)
			is_str(row.texts[column(&sites_schema, "verdict")], "leak",
			       "what keeps some of each time's objects leaks");
	}
	ok(n == 3 && same == 2, "growth and verdicts are those of sonde leaks");
	json_decref(leaks);
	free(bytes);
	remove(out);
	scratch_remove(&source);
}

/* --- Parquet --------------------------------------------------------------------------------- */

static void test_frame(void)
{
	uint32_t footer = 0;
	size_t size;
	char *bytes;

	export_make_convert(trace, "parquet", out, NULL);
	bytes = file_get(dir.path, "table", &size);
	ok(size > 12 && !memcmp(bytes, "PAR1", 4) && !memcmp(bytes + size - 4, "PAR1", 4),
	   "a Parquet file begins and ends with its magic number");
	memcpy(&footer, bytes + size - 8, sizeof(footer));
	ok(le32toh(footer) + 12 < size, "and says where its metadata begins");
	free(bytes);
	remove(out);
}

/* Unpacks what hybrid_put() wrote. Returns how many numbers, or stops at `max`. */
static size_t unpack(struct cursor c, unsigned int bits, uint32_t *numbers, size_t max)
{
	size_t n = 0;

	while (c.at != c.end && n < max) {
		uint64_t head = 0, word = 0;
		unsigned int shift = 0, used = 0;
		uint8_t byte;

		do {
			byte = (uint8_t)take_number(&c, 1);
			head |= (uint64_t)(byte & 0x7f) << shift;
			shift += 7;
		} while (byte & 0x80);
		if (!(head & 1)) {
			const uint32_t value = (uint32_t)take_number(&c, (bits + 7) / 8);

			for (uint64_t i = 0; i < head >> 1 && n < max; i++)
				numbers[n++] = value;
			continue;
		}
		for (uint64_t i = 0; i < (head >> 1) * 8; i++) {
			for (; used < bits; used += 8)
				word |= take_number(&c, 1) << used;
			if (n < max)
				numbers[n++] = (uint32_t)(word & ((UINT64_C(1) << bits) - 1));
			word >>= bits;
			used -= bits;
		}
	}
	return n;
}

static void test_hybrid(void)
{
	enum { N = 1000 };
	static uint32_t numbers[N], back[N];
	unsigned int wrong = 0, seed = 1;

	for (unsigned int round = 0; round < 2000; round++) {
		const unsigned int bits = round % 21;
		const size_t n = 1 + (size_t)rand_r(&seed) % N;
		struct bytes bytes = {0};

		for (size_t i = 0; i < n; i++) {
			const bool again = i && rand_r(&seed) % 32 < (int)(round % 33);

			numbers[i] = again ? numbers[i - 1]
					   : (uint32_t)rand_r(&seed) & ((1u << bits) - 1);
		}
		hybrid_put(&bytes, numbers, n, bits);
		wrong += unpack((struct cursor){bytes.data, bytes.data + bytes.used}, bits, back,
				n) != n ||
			 memcmp(numbers, back, n * sizeof(*back)) != 0;
		bytes_free(&bytes);
	}
	is_u64(wrong, 0, "runs and packed bits of 0 to 20 bits unpack to the same numbers");
}

static void test_dictionary(void)
{
	static const struct table_value values[] = {
		{7, "b"}, {8, "a"}, {7, "b"}, {9, "b"}, {0, ""}};
	static const int64_t expected[] = {0, 1, 0, 0, 2};
	struct dictionary d;
	unsigned int wrong = 0;

	dictionary_init(&d);
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
			wrong += dictionary_find(&d, &values[i]) != expected[i];
		wrong += d.count != 3;
		dictionary_clear(&d);
	}
	is_u64(wrong, 0, "a dictionary has each text once, also of several values");
	dictionary_deinit(&d);
}

/* --- SQL ------------------------------------------------------------------------------------- */

static bool has_columns(const char *sql, const struct table_schema *schema)
{
	static const char *const types[] = {
		[TABLE_I32] = "Int32",  [TABLE_U32] = "UInt32",  [TABLE_I64] = "Int64",
		[TABLE_U64] = "UInt64", [TABLE_NAME] = "String", [TABLE_TEXT] = "String"};
	char text[MAX_TEXT];
	size_t used = (size_t)snprintf(text, sizeof(text), "CREATE TABLE %s (\n", schema->name);

	for (size_t i = 0; i < schema->nr_columns; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "    %s %s%s\n",
					 schema->columns[i].name, types[schema->columns[i].type],
					 i + 1 < schema->nr_columns ? "," : "");
	snprintf(text + used, sizeof(text) - used, ") ENGINE");
	return strstr(sql, text);
}

static void test_sql(void)
{
	size_t size;
	char *sql = file_get("examples/fleet", "tables.sql", &size);
	char *man = file_get("formats/man", "sonde-schema.5", &size);
	char version[32];

	ok(sql && has_columns(sql, &events_schema), "tables.sql has the columns of events");
	ok(sql && has_columns(sql, &sites_schema), "tables.sql has the columns of sites");
	snprintf(version, sizeof(version), "ersion %d of ", TABLE_VERSION);
	ok(sql && strstr(sql, version), "tables.sql is of the schema's version");
	ok(man && strstr(man, version), "so is its manual");
	free(sql);
	free(man);
}

int main(void)
{
	dir = scratch_make();
	snprintf(trace, sizeof(trace), "%s/trace", dir.path);
	snprintf(out, sizeof(out), "%s/table", dir.path);
	mkdir(trace, 0700);
	export_make(trace);
	test_events();
	test_fields();
	test_sites();
	test_sites_of_cut();
	test_sites_of_time();
	test_bounded();
	test_growth();
	test_frame();
	test_hybrid();
	test_dictionary();
	test_sql();
	scratch_remove(&dir);
	return tap_done();
}
