// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * oracle-extract RAMFILE GPA
 *
 * Prints the events that oracle.c stored in a guest. RAMFILE is guest RAM from address 0
 * (pmemsave), GPA the address that the oracle printed. README.md describes the lines. Exits with
 * status 1 if an event was lost: such events are no reference.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/base/error.h"
#include "tests/lib/event-format.h"
#include "tests/lib/ring-buffer.h"
#include "tests/workload/oracle-store.h"

#define MAX_CPUS 64
#define MAX_FORMATS 16

struct ram {
	const unsigned char *bytes;
	uint64_t size;
};

struct cpu_state {
	uint64_t entries, overrun, commit_overrun, dropped; /* counted by the kernel */
	uint64_t events;                                    /* decoded here */
	bool seen, lost;
};

struct extract {
	unsigned char *store;
	uint64_t size;
	struct event_format header;
	struct event_format formats[MAX_FORMATS];
	unsigned int format_count;
	struct cpu_state cpus[MAX_CPUS];
};

static const void *ram_page(const struct ram *ram, uint64_t gpa)
{
	if (gpa % ORACLE_PAGE != 0 || gpa > ram->size || ram->size - gpa < ORACLE_PAGE)
		return NULL;
	return ram->bytes + gpa;
}

/* Append one table's pages to the store. */
static int gather_table(struct extract *x, const struct ram *ram, const struct oracle_table *table,
			uint64_t *filled, struct error *err)
{
	uint64_t i, part;

	if (table->count > ORACLE_TABLE_PFNS)
		return error_set(err, EINVAL, "table with %" PRIu64 " pages", table->count);
	for (i = 0; i < table->count; i++) {
		const void *page = table->pfn[i] > UINT64_MAX / ORACLE_PAGE
					   ? NULL
					   : ram_page(ram, table->pfn[i] * ORACLE_PAGE);

		part = x->size - *filled < ORACLE_PAGE ? x->size - *filled : ORACLE_PAGE;
		if (!page || part == 0)
			return error_set(err, EINVAL, "page %" PRIu64 " outside of RAM or store",
					 table->pfn[i]);
		memcpy(x->store + *filled, page, part);
		*filled += part;
	}
	return 0;
}

static int gather(struct extract *x, const struct ram *ram, uint64_t gpa, struct error *err)
{
	uint64_t filled = 0;
	int ret;

	do {
		const struct oracle_table *table = ram_page(ram, gpa);

		if (!table || memcmp(table->magic, ORACLE_MAGIC, sizeof(table->magic)) != 0)
			return error_set_at(err, EINVAL, gpa, "no oracle table");
		if (!x->store) {
			x->size = table->total_bytes < ram->size ? table->total_bytes : ram->size;
			x->store = malloc(x->size ? x->size : 1);
			if (!x->store)
				return error_set(err, ENOMEM, "no memory for the store");
		}
		if (table->count == 0)
			return error_set_at(err, EINVAL, gpa, "empty oracle table");
		ret = gather_table(x, ram, table, &filled, err);
		gpa = table->next_gpa;
	} while (!ret && gpa);
	if (!ret && filled != x->size)
		return error_set(err, EINVAL, "store is %" PRIu64 " of %" PRIu64 " bytes", filled,
				 x->size);
	return ret;
}

static void read_stats(struct cpu_state *cpu, const char *text, size_t size)
{
	char copy[1024], *line, *rest;

	snprintf(copy, sizeof(copy), "%.*s", (int)(size < sizeof(copy) ? size : sizeof(copy) - 1),
		 text);
	cpu->seen = true;
	for (line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		sscanf(line, "entries: %" SCNu64, &cpu->entries);
		sscanf(line, "overrun: %" SCNu64, &cpu->overrun);
		sscanf(line, "commit overrun: %" SCNu64, &cpu->commit_overrun);
		sscanf(line, "dropped events: %" SCNu64, &cpu->dropped);
	}
}

static void print_hex(const struct event_format *format, const char *field,
		      const struct ring_event *event)
{
	uint64_t value;

	if (event_field_read(event_format_field(format, field), event->record, event->size, &value))
		printf(" 0x%" PRIx64, value);
	else
		printf(" -");
}

static void print_decimal(const struct event_format *format, const char *field,
			  const struct ring_event *event)
{
	const struct event_field *where = event_format_field(format, field);
	uint64_t value;

	if (!event_field_read(where, event->record, event->size, &value))
		printf(" -");
	else if (where->size == sizeof(int32_t)) /* the node is signed, the orders are small */
		printf(" %" PRId32, (int32_t)value);
	else
		printf(" %" PRIu64, value);
}

static void print_pid(const struct event_format *format, const struct ring_event *event)
{
	const struct event_field *where = event_format_field(format, "common_pid");
	uint64_t value = 0;

	event_field_read(where, event->record, event->size, &value);
	printf("%" PRId32 "\n", (int32_t)value);
}

static void print_event(const struct event_format *format, const struct ring_event *event,
			uint32_t cpu, uint64_t number)
{
	printf("%u %" PRIu64 " %s", cpu, number, format->name);
	if (event_format_field(format, "pfn")) {
		print_hex(format, "pfn", event);
		print_decimal(format, "order", event);
		print_hex(format, "gfp_flags", event);
	} else {
		print_hex(format, "call_site", event);
		print_hex(format, "ptr", event);
		print_decimal(format, "bytes_req", event);
		print_decimal(format, "bytes_alloc", event);
		print_hex(format, "gfp_flags", event);
		print_decimal(format, "node", event);
	}
	printf(" %" PRIu64 " pid=", event->time);
	print_pid(format, event);
}

static const struct event_format *format_of(const struct extract *x, const struct ring_event *event)
{
	uint16_t id;
	unsigned int i;

	if (event->size < sizeof(id))
		return NULL;
	memcpy(&id, event->record, sizeof(id));
	for (i = 0; i < x->format_count; i++)
		if (x->formats[i].id == id)
			return &x->formats[i];
	return NULL;
}

static int print_page(struct extract *x, uint32_t number, const void *bytes, size_t size,
		      struct error *err)
{
	struct cpu_state *cpu = &x->cpus[number];
	struct ring_event event;
	struct ring_page page;
	int ret = ring_page_init(&page, &x->header, bytes, size, err);

	if (ret)
		return ret;
	cpu->lost |= page.lost_events;
	while ((ret = ring_page_next(&page, &event, err)) == 1) {
		const struct event_format *format = format_of(x, &event);

		if (format)
			print_event(format, &event, number, cpu->events);
		cpu->events++;
	}
	return ret;
}

static int take_chunk(struct extract *x, const struct oracle_chunk *chunk, const void *bytes,
		      struct error *err)
{
	if (chunk->cpu >= MAX_CPUS)
		return error_set(err, EINVAL, "CPU %u", chunk->cpu);
	switch (chunk->kind) {
	case ORACLE_HEADER_PAGE:
		return event_format_parse(bytes, chunk->size, &x->header, err);
	case ORACLE_FORMAT:
		if (x->format_count == MAX_FORMATS)
			return error_set(err, EINVAL, "too many formats");
		return event_format_parse(bytes, chunk->size, &x->formats[x->format_count++], err);
	case ORACLE_STATS:
		read_stats(&x->cpus[chunk->cpu], bytes, chunk->size);
		return 0;
	case ORACLE_RAW:
		return print_page(x, chunk->cpu, bytes, chunk->size, err);
	default:
		return error_set(err, EINVAL, "chunk of kind %u", chunk->kind);
	}
}

static int take_chunks(struct extract *x, struct error *err)
{
	struct oracle_chunk chunk;
	uint64_t at = 0;
	int ret = 0;

	while (!ret && at < x->size) {
		if (x->size - at < sizeof(chunk))
			return error_set_at(err, EINVAL, at, "cut chunk");
		memcpy(&chunk, x->store + at, sizeof(chunk));
		at += sizeof(chunk);
		if (chunk.size > x->size - at)
			return error_set_at(err, EINVAL, at, "cut chunk");
		ret = take_chunk(x, &chunk, x->store + at, err);
		at += (chunk.size + 7) & ~7ull;
	}
	return ret;
}

/* Returns false if a CPU has lost an event, or if not all were decoded. */
static bool print_stats(const struct extract *x)
{
	bool complete = true;
	uint32_t i;

	for (i = 0; i < MAX_CPUS; i++) {
		const struct cpu_state *cpu = &x->cpus[i];

		if (!cpu->seen)
			continue;
		printf("# cpu %u entries %" PRIu64 " overrun %" PRIu64 " commit_overrun %" PRIu64
		       " dropped %" PRIu64 " decoded %" PRIu64 "\n",
		       i, cpu->entries, cpu->overrun, cpu->commit_overrun, cpu->dropped,
		       cpu->events);
		if (cpu->lost || cpu->overrun || cpu->commit_overrun || cpu->dropped ||
		    cpu->events != cpu->entries)
			complete = false;
	}
	return complete;
}

static int map_ram(const char *path, struct ram *ram, struct error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *map;

	if (fd < 0)
		return error_set(err, errno, "%s: %s", path, strerror(errno));
	if (fstat(fd, &st) != 0 || st.st_size < (off_t)ORACLE_PAGE) {
		close(fd);
		return error_set(err, EINVAL, "%s: not a dump of guest RAM", path);
	}
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return error_set(err, errno, "%s: %s", path, strerror(errno));
	*ram = (struct ram){map, (uint64_t)st.st_size};
	return 0;
}

int main(int argc, char **argv)
{
	static struct extract x;
	struct error err = {0};
	struct ram ram = {0};
	int ret;

	if (argc != 3) {
		fprintf(stderr, "usage: oracle-extract RAMFILE GPA\n");
		return 2;
	}
	ret = map_ram(argv[1], &ram, &err);
	if (!ret)
		ret = gather(&x, &ram, strtoull(argv[2], NULL, 0), &err);
	if (!ret)
		ret = take_chunks(&x, &err);
	free(x.store);
	if (ret) {
		fprintf(stderr, "oracle-extract: %s\n", err.text);
		return 1;
	}
	if (!print_stats(&x)) {
		fprintf(stderr,
			"oracle-extract: events were lost; give the oracle larger buffers\n");
		return 1;
	}
	return 0;
}
