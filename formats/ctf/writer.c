/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/ctf/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "formats/base/text.h"
#include "formats/ctf/metadata.h"
#include "formats/ctf/record.h"
#include "formats/base/fs.h"
#include "formats/base/u64-map.h"

/* A record, and one definition of each sort before it. */
enum { MAX_APPEND = 4 * CTF_MAX_EVENT };

struct ctf_writer {
	struct stream_writer base;
	struct ctf_trace *trace;
	unsigned int vcpu;
	int fd;
	uint64_t file_size; /* whole packets */
	uint64_t sequence;  /* of the next packet */
	uint64_t noted;     /* dropped records that a packet has told of */
	uint64_t begin, clock;
	uint64_t allocs, frees;     /* in the packet */
	struct bit_cursor packet;   /* behind its last event */
	struct u64_map sites, gfps; /* ids defined in this stream */
	uint64_t last_gfp;          /* a value with an id, and that; 0: none yet */
	unsigned int last_gfp_id;
	uint8_t caches[(UINT16_MAX + 1) / 8]; /* bit set of those */
	uint8_t bytes[CTF_PACKET_MAX];
};

static void begin_packet(struct ctf_writer *w)
{
	w->packet.pos = CTF_PACKET_HEADER_SIZE * 8;
	w->allocs = w->frees = 0;
}

static bool is_empty(const struct ctf_writer *w)
{
	return w->packet.pos == CTF_PACKET_HEADER_SIZE * 8;
}

static int write_packet(struct ctf_writer *w)
{
	const struct ctf_packet header = {
		.begin = is_empty(w) ? w->clock : w->begin,
		.end = w->clock,
		.content = w->packet.pos,
		.size = bit_bytes(&w->packet),
		.sequence = w->sequence,
		.discarded = w->base.dropped,
		.cpu = w->vcpu,
	};
	size_t done;
	int ret;

	ctf_packet_put(w->bytes, &w->trace->identity, &header);
	ret = file_write_at(w->fd, w->bytes, header.size, w->file_size, &done);
	if (ret) {
		if (ftruncate(w->fd, (off_t)w->file_size))
			return -errno;
		return ret;
	}
	w->file_size += header.size;
	w->sequence++;
	w->noted = header.discarded;
	begin_packet(w);
	return 0;
}

static int flush(struct stream_writer *base)
{
	struct ctf_writer *w = (struct ctf_writer *)base;

	return is_empty(w) && w->noted == base->dropped ? 0 : write_packet(w);
}

static void put_event(struct ctf_writer *w, const struct ctf_event *event)
{
	ctf_event_put(&w->packet, w->clock, event);
	w->clock = event->clock;
}

/* A sort of values that have ids. */
struct id_space {
	struct u64_map *known; /* ids defined in the stream, by value */
	struct ctf_dictionary *all;
	enum ctf_event_id definition;
	enum ctf_member id, value; /* members of the definition */
};

/* Define a value in the stream, where it is new. Returns its id; 0 if it gets none. */
static unsigned int define_value(struct ctf_writer *w, const struct id_space *space, uint64_t value,
				 uint64_t clock)
{
	unsigned int *place = NULL, id = ctf_dictionary_id(space->all, value);
	struct ctf_event definition = {.id = space->definition, .clock = clock};

	if (id)
		place = u64_map_insert(space->known, value, NULL);
	if (!place)
		return 0;
	*place = id;
	definition.values[space->id] = id;
	definition.values[space->value] = value;
	put_event(w, &definition);
	return id;
}

static unsigned int site_id(struct ctf_writer *w, uint64_t site, uint64_t clock)
{
	const struct id_space space = {&w->sites, &w->trace->sites, CTF_DEFINE_SITE,
				       CTF_MEMBER_SITE_ID, CTF_MEMBER_SITE};
	const unsigned int *id = u64_map_find(&w->sites, site);

	return id ? *id : define_value(w, &space, site, clock);
}

static unsigned int gfp_id(struct ctf_writer *w, uint64_t flags, uint64_t clock)
{
	const struct id_space space = {&w->gfps, &w->trace->gfps, CTF_DEFINE_GFP, CTF_MEMBER_GFP_ID,
				       CTF_MEMBER_GFP};
	const unsigned int *id;

	if (flags == w->last_gfp)
		return w->last_gfp_id;
	id = u64_map_find(&w->gfps, flags);
	w->last_gfp_id = id ? *id : define_value(w, &space, flags, clock);
	w->last_gfp = w->last_gfp_id ? flags : 0;
	return w->last_gfp_id;
}

static void define_cache(struct ctf_writer *w, uint16_t id, uint64_t clock)
{
	struct ctf_event definition = {.id = CTF_DEFINE_CACHE, .clock = clock};
	struct sidecar_cache cache;

	w->caches[id / 8] |= (uint8_t)(1u << id % 8);
	if (!cache_table_find(w->trace->caches, id, &cache))
		return;
	definition.values[CTF_MEMBER_CACHE] = id;
	definition.values[CTF_MEMBER_OBJECT_SIZE] = cache.object_size;
	definition.values[CTF_MEMBER_SIZE] = cache.size;
	clean_text(definition.name, sizeof(definition.name), cache.name);
	put_event(w, &definition);
}

static bool knows_cache(const struct ctf_writer *w, uint16_t id)
{
	return !id || w->caches[id / 8] & 1u << id % 8;
}

/* Define what the record needs and the stream has not. The definitions bear the record's time. */
static struct ctf_ids define(struct ctf_writer *w, const struct kmem_record *record, uint64_t clock)
{
	struct ctf_ids ids = {.site = site_id(w, record->call_site, clock)};

	if (record->gfp_flags)
		ids.gfp = gfp_id(w, record->gfp_flags, clock);
	if (!knows_cache(w, record->cache))
		define_cache(w, record->cache, clock);
	return ids;
}

static int append(struct stream_writer *base, const struct kmem_record *record)
{
	struct ctf_writer *w = (struct ctf_writer *)base;
	struct ctf_event event;
	struct ctf_ids ids;
	uint64_t clock = w->clock;
	int ret = 0;

	if (w->packet.pos > (CTF_PACKET_MAX - MAX_APPEND) * 8)
		ret = write_packet(w);
	if (ret)
		return ret;
	if (ctf_clock_holds(record->timestamp) && (uint64_t)record->timestamp > clock)
		clock = (uint64_t)record->timestamp;
	if (is_empty(w))
		w->begin = w->clock = clock;
	ids = define(w, record, clock);
	ctf_event_from_record(record, &ids, w->clock, &event);
	put_event(w, &event);
	if (record->event_id == KMEM_EVENT_ALLOC)
		w->allocs++;
	else
		w->frees++;
	return 0;
}

static void drop(struct stream_writer *base, uint64_t *allocs, uint64_t *frees)
{
	struct ctf_writer *w = (struct ctf_writer *)base;
	uint64_t dropped = w->allocs + w->frees;

	if (!dropped)
		return;
	*allocs += w->allocs;
	*frees += w->frees;
	begin_packet(w);
	/* If there is room for an empty packet that tells it, so much the better. */
	base->dropped += dropped;
	write_packet(w);
	base->dropped -= dropped;
}

static void destroy(struct stream_writer *base)
{
	struct ctf_writer *w = (struct ctf_writer *)base;

	if (w->fd >= 0)
		close(w->fd);
	u64_map_deinit(&w->sites);
	u64_map_deinit(&w->gfps);
	free(w);
}

int ctf_writer_create(struct ctf_trace *trace, unsigned int vcpu, struct stream_writer **out)
{
	static const struct stream_writer_ops ops = {
		.append = append, .flush = flush, .drop = drop, .destroy = destroy};
	struct ctf_writer *w = calloc(1, sizeof(*w));
	char name[32];

	if (!w)
		return -ENOMEM;
	snprintf(name, sizeof(name), "cpu%u", vcpu);
	w->fd = openat(trace->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (w->fd < 0) {
		int ret = -errno;

		free(w);
		return ret;
	}
	w->base.ops = &ops;
	w->trace = trace;
	w->vcpu = vcpu;
	w->packet = (struct bit_cursor){.bytes = w->bytes,
					.end = CTF_PACKET_MAX * 8,
					.big_endian = trace->identity.big_endian};
	u64_map_init(&w->sites, sizeof(unsigned int));
	u64_map_init(&w->gfps, sizeof(unsigned int));
	begin_packet(w);
	*out = &w->base;
	return 0;
}

char *ctf_trace_metadata(struct ctf_trace *trace, const struct sidecar *sidecar)
{
	struct ctf_metadata metadata = {.identity = trace->identity, .sidecar = sidecar};
	uint64_t *sites, *gfps;
	char *text;

	metadata.nr_sites = ctf_dictionary_copy(&trace->sites, &sites);
	metadata.nr_gfps = ctf_dictionary_copy(&trace->gfps, &gfps);
	metadata.sites = sites;
	metadata.gfps = gfps;
	text = ctf_metadata_text(&metadata);
	free(sites);
	free(gfps);
	return text;
}
