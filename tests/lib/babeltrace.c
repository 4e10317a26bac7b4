/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/babeltrace.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/tool.h"

int babeltrace_run(const char *options, const char *dir, char **output)
{
	return tool_run(output, "exec babeltrace2 '%s' %s 2>/dev/null", dir, options);
}

enum { MAX_IDS = 1 << 16 };

/* What was read of the event at hand, and what ids stand for. */
struct state {
	char name[64];
	bool is_kind, has_bytes; /* an event of the table of kinds; it tells its size in bytes */
	uint64_t clock;
	bool has_time; /* the next record's time is not the clock's: */
	int64_t time;
	struct kmem_record record;
	uint64_t site_id, gfp_id; /* of the record; 0: none */
	uint64_t id;              /* in the packet's tables, which are its last event */
	size_t first;             /* record of the packet */
	uint32_t (*ids)[2];       /* of all records: of the call site, of the flags */
	uint64_t sites[MAX_IDS], gfps[MAX_IDS];
};

/* A number as sink.text.details prints it: commas or colons between groups, a sign, 0x. */
static uint64_t parse_number(const char *text)
{
	char digits[64];
	size_t n = 0;

	for (; *text && n < sizeof(digits) - 1; text++)
		if (*text != ',' && *text != ':')
			digits[n++] = *text;
	digits[n] = '\0';
	if (digits[0] == '-')
		return -strtoull(digits + 1, NULL, 0);
	return strtoull(digits, NULL, 0);
}

/* Small forms and wide ones differ in what the number is: an id is small, an address is not. */
static void take_field(struct state *s, const char *key, const char *text)
{
	struct kmem_record *r = &s->record;
	uint64_t number = parse_number(text);
	bool is_id = strncmp(text, "0x", 2) && number < MAX_IDS;

	if (!strcmp(key, "call_site") && is_id)
		s->site_id = number;
	else if (!strcmp(key, "call_site"))
		r->call_site = number;
	else if (!strcmp(key, "gfp_flags") && is_id)
		s->gfp_id = number;
	else if (!strcmp(key, "gfp_flags"))
		r->gfp_flags = number;
	else if (!strcmp(key, "id") && number < MAX_IDS)
		s->id = number;
	else if (!strcmp(key, "address"))
		s->sites[s->id] = number;
	else if (!strcmp(key, "value"))
		s->gfps[s->id] = number;
	else if (!strcmp(key, "ptr"))
		r->ptr = number;
	else if (!strcmp(key, "bytes_req")) {
		r->bytes_req = number;
		s->has_bytes = true;
	} else if (!strcmp(key, "bytes_alloc"))
		r->bytes_alloc = number;
	else if (!strcmp(key, "order") && !s->has_bytes)
		r->bytes_req = r->bytes_alloc = UINT64_C(4096) << number;
	else if (!strcmp(key, "cache"))
		r->cache = (uint16_t)number;
	else if (!strcmp(key, "node"))
		r->node = (int32_t)number;
	else if (!strcmp(key, "event_id"))
		r->event_id = (uint8_t)number;
	else if (!strcmp(key, "type_id"))
		r->type_id = (uint8_t)number;
	else if (!strcmp(key, "timestamp"))
		s->time = (int64_t)number;
}

static void begin_event(struct state *s, const char *name)
{
	static const struct {
		const char *name;
		uint8_t event, type;
	} kinds[] = {
		{"kmalloc", KMEM_EVENT_ALLOC, KMEM_TYPE_KMALLOC},
		{"kmem_cache_alloc", KMEM_EVENT_ALLOC, KMEM_TYPE_CACHE},
		{"mm_page_alloc", KMEM_EVENT_ALLOC, KMEM_TYPE_PAGES},
		{"kfree", KMEM_EVENT_FREE, KMEM_TYPE_KMALLOC},
		{"kmem_cache_free", KMEM_EVENT_FREE, KMEM_TYPE_CACHE},
		{"mm_page_free", KMEM_EVENT_FREE, KMEM_TYPE_PAGES},
	};

	snprintf(s->name, sizeof(s->name), "%s", name);
	s->is_kind = s->has_bytes = false;
	s->site_id = s->gfp_id = 0;
	s->record = (struct kmem_record){.timestamp = s->has_time ? s->time : (int64_t)s->clock};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(kinds[i].name, name))
			continue;
		s->is_kind = true;
		s->record.event_id = kinds[i].event;
		s->record.type_id = kinds[i].type;
		s->record.node = kinds[i].event == KMEM_EVENT_ALLOC ? -1 : 0;
	}
}

/* The tables stand behind all records of their packet. */
static void resolve(struct state *s, struct kmem_record *records, size_t n)
{
	for (; s->first < n; s->first++) {
		const uint32_t *ids = s->ids[s->first];

		if (ids[0])
			records[s->first].call_site = s->sites[ids[0]];
		if (ids[1])
			records[s->first].gfp_flags = s->gfps[ids[1]];
	}
}

/* Take the event, which may be a record: number *n then. */
static void end_event(struct state *s, struct kmem_record *records, size_t *n)
{
	if (!strcmp(s->name, "sonde_tables"))
		resolve(s, records, *n);
	if (!strcmp(s->name, "sonde_time"))
		s->has_time = true;
	if (!s->is_kind && strcmp(s->name, "sonde_record"))
		return;
	if (s->is_kind && s->record.type_id == KMEM_TYPE_PAGES)
		s->record.bytes_alloc = s->record.bytes_req;
	s->has_time = false;
	s->ids[*n][0] = (uint32_t)s->site_id;
	s->ids[*n][1] = (uint32_t)s->gfp_id;
	records[(*n)++] = s->record;
}

long babeltrace_records(const char *dir, struct kmem_record *records, size_t max)
{
	struct state *s = calloc(1, sizeof(*s));
	char *text, *rest, *line, name[64], key[32], value[300];
	size_t n = 0;

	if (!s)
		abort();
	s->ids = calloc(max, sizeof(*s->ids));
	if (!s->ids)
		abort();
	if (babeltrace_run("-c sink.text.details --params=with-metadata=no", dir, &text)) {
		free(text);
		free(s->ids);
		free(s);
		return -1;
	}
	rest = text;
	while (n < max && (line = strsep(&rest, "\n"))) {
		if (sscanf(line, "[%299s cycles", value) == 1)
			s->clock = parse_number(value);
		else if (sscanf(line, "Event `%63[^`]`", name) == 1)
			begin_event(s, name);
		else if (sscanf(line, "    %31[a-z_]: %299s", key, value) == 2)
			take_field(s, key, value);
		else if (!*line && s->name[0])
			end_event(s, records, &n);
		if (!*line)
			s->name[0] = '\0';
	}
	resolve(s, records, n);
	free(text);
	free(s->ids);
	free(s);
	return (long)n;
}
