/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include "formats/base/fs.h"
#include "formats/base/text.h"
#include "formats/base/u64-map.h"
#include "formats/ctf/ctf.h"

/* --- ids ------------------------------------------------------------------------------------- */

/*
 * Numbers 64-bit values in the order in which they first come, from 1 on, for all streams of a
 * trace together. Thread-safe.
 */
struct dictionary {
	pthread_mutex_t lock;
	struct u64_map ids; /* unsigned int by value */
	size_t max;
};

static void dictionary_init(struct dictionary *dictionary, size_t max)
{
	pthread_mutex_init(&dictionary->lock, NULL);
	u64_map_init(&dictionary->ids, sizeof(unsigned int));
	dictionary->max = max;
}

static void dictionary_deinit(struct dictionary *dictionary)
{
	u64_map_deinit(&dictionary->ids);
	pthread_mutex_destroy(&dictionary->lock);
}

/* The id of the value; 0 if there are no more ids, or there is no memory. */
static unsigned int dictionary_id(struct dictionary *dictionary, uint64_t value)
{
	unsigned int *id, result = 0;

	pthread_mutex_lock(&dictionary->lock);
	if (dictionary->ids.count < dictionary->max)
		id = u64_map_insert(&dictionary->ids, value, NULL);
	else
		id = u64_map_find(&dictionary->ids, value);
	if (id && !*id)
		*id = (unsigned int)dictionary->ids.count;
	if (id)
		result = *id;
	pthread_mutex_unlock(&dictionary->lock);
	return result;
}

/*
 * A copy: values[i] has id i + 1. To be freed. Returns their number, 0 and *values NULL without
 * memory.
 */
static size_t dictionary_copy(struct dictionary *dictionary, uint64_t **values)
{
	const unsigned int *id;
	size_t n, pos = 0;
	uint64_t value;

	pthread_mutex_lock(&dictionary->lock);
	n = dictionary->ids.count;
	*values = calloc(n + 1, sizeof(**values));
	while (*values && (id = u64_map_next(&dictionary->ids, &pos, &value)))
		(*values)[*id - 1] = value;
	pthread_mutex_unlock(&dictionary->lock);
	return *values ? n : 0;
}

/* --- one vCPU: records are gathered into packets, each as long as its content ----------------- */

/* MAX_APPEND: a record, and one definition of each sort before it. */
enum { PACKET_MAX = OUTPUT_PACKET_MAX, MAX_APPEND = 4 * CTF_MAX_EVENT, RECENT_SITES = 256 };

/* The trace as a whole. */
struct ctf_encoder {
	struct trace_encoder base;
	int dir_fd;
	struct ctf_identity identity;
	struct dictionary sites, gfps;
	struct cache_table *caches;
};

struct ctf_writer {
	struct stream_writer base;
	struct ctf_encoder *encoder;
	unsigned int vcpu;
	struct packet_file file;
	uint64_t sequence; /* of the next packet */
	uint64_t noted;    /* lost records, as of the last packet */
	uint64_t begin, clock;
	uint64_t allocs, frees;     /* in the packet */
	struct bit_cursor packet;   /* behind its last event */
	struct u64_map sites, gfps; /* ids defined in this stream */
	struct {
		uint64_t site;
		unsigned int id; /* 0: none */
	} recent[RECENT_SITES];  /* some of `sites`, by hash */
	uint64_t last_gfp;       /* the last value that has an id, and the id; 0: none yet */
	unsigned int last_gfp_id;
	uint8_t caches[(UINT16_MAX + 1) / 8]; /* bit set of those */
	uint8_t bytes[PACKET_MAX];
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

static int put_packet(struct ctf_writer *w)
{
	const struct output_events events = {.allocs = w->allocs, .frees = w->frees};
	const struct ctf_packet header = {
		.begin = is_empty(w) ? w->clock : w->begin,
		.end = w->clock,
		.content = w->packet.pos,
		.size = bit_bytes(&w->packet),
		.sequence = w->sequence,
		.lost = w->base.lost,
		.cpu = w->vcpu,
	};
	int ret;

	ctf_packet_put(w->bytes, &w->encoder->identity, &header);
	ret = output_put(w->base.output, w->bytes, header.size, &events);
	if (ret)
		return ret;
	w->sequence++;
	w->noted = header.lost;
	begin_packet(w);
	return 0;
}

static int flush(struct stream_writer *base)
{
	struct ctf_writer *w = (struct ctf_writer *)base;

	return is_empty(w) && w->noted == base->lost ? 0 : put_packet(w);
}

static void put_event(struct ctf_writer *w, const struct ctf_event *event)
{
	ctf_event_put(&w->packet, w->clock, event);
	w->clock = event->clock;
}

/* Values of one sort, which have ids. */
struct id_space {
	struct u64_map *known; /* ids defined in the stream, by value */
	struct dictionary *all;
	enum ctf_event_id definition;
	enum ctf_member id, value; /* members of the definition */
};

/* Define a new value in the stream. Returns its id; 0 if it gets none. */
static unsigned int define_value(struct ctf_writer *w, const struct id_space *space, uint64_t value,
				 uint64_t clock)
{
	unsigned int *place = NULL, id = dictionary_id(space->all, value);
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
	const struct id_space space = {&w->sites, &w->encoder->sites, CTF_DEFINE_SITE,
				       CTF_MEMBER_SITE_ID, CTF_MEMBER_SITE};
	const uint64_t hash = site * 0x9e3779b97f4a7c15ull >> 56;
	const unsigned int *id;

	if (w->recent[hash].site == site && w->recent[hash].id)
		return w->recent[hash].id;
	id = u64_map_find(&w->sites, site);
	w->recent[hash].site = site;
	w->recent[hash].id = id ? *id : define_value(w, &space, site, clock);
	return w->recent[hash].id;
}

static unsigned int gfp_id(struct ctf_writer *w, uint64_t flags, uint64_t clock)
{
	const struct id_space space = {&w->gfps, &w->encoder->gfps, CTF_DEFINE_GFP,
				       CTF_MEMBER_GFP_ID, CTF_MEMBER_GFP};
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
	if (!cache_table_find(w->encoder->caches, id, &cache))
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

/* Define what the record needs and the stream lacks. Definitions have the record's time. */
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

	if (w->packet.pos > (PACKET_MAX - MAX_APPEND) * 8)
		ret = put_packet(w);
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

static void discard(struct stream_writer *base, uint64_t *allocs, uint64_t *frees)
{
	struct ctf_writer *w = (struct ctf_writer *)base;
	struct output_events events = {.allocs = w->allocs, .frees = w->frees};
	uint64_t lost;

	w->sequence -= output_discard(base->output, &events);
	lost = events.allocs + events.frees;
	if (!lost)
		return;
	*allocs += events.allocs;
	*frees += events.frees;
	begin_packet(w);
	/* An empty packet says so, if there is room for it. */
	base->lost += lost;
	put_packet(w);
	base->lost -= lost;
}

static void destroy_stream(struct stream_writer *base)
{
	struct ctf_writer *w = (struct ctf_writer *)base;

	close(w->file.fd);
	u64_map_deinit(&w->sites);
	u64_map_deinit(&w->gfps);
	free(w);
}

static int add_file(struct ctf_writer *w, struct output *output)
{
	char name[32];
	int fd, ret;

	snprintf(name, sizeof(name), "cpu%u", w->vcpu);
	fd = output_file_create(w->encoder->dir_fd, name);
	if (fd < 0)
		return fd;
	packet_file_init(&w->file, fd);
	ret = output_add(output, &w->file.base, &w->base.output);
	if (ret)
		close(fd);
	return ret;
}

static int add_stream(struct trace_encoder *base, struct output *output, unsigned int vcpu,
		      struct stream_writer **out)
{
	static const struct stream_writer_ops ops = {
		.append = append, .flush = flush, .discard = discard, .destroy = destroy_stream};
	struct ctf_encoder *encoder = (struct ctf_encoder *)base;
	struct ctf_writer *w = calloc(1, sizeof(*w));
	int ret;

	if (!w)
		return -ENOMEM;
	w->base.ops = &ops;
	w->encoder = encoder;
	w->vcpu = vcpu;
	ret = add_file(w, output);
	if (ret) {
		free(w);
		return ret;
	}
	w->packet = (struct bit_cursor){.bytes = w->bytes,
					.end = PACKET_MAX * 8,
					.big_endian = encoder->identity.big_endian};
	u64_map_init(&w->sites, sizeof(unsigned int));
	u64_map_init(&w->gfps, sizeof(unsigned int));
	begin_packet(w);
	*out = &w->base;
	return 0;
}

/* --- the trace: its identity, its ids, and the file `metadata` -------------------------------- */

static char *metadata_text(struct ctf_encoder *encoder, const struct sidecar *sidecar)
{
	struct ctf_metadata metadata = {.identity = encoder->identity, .sidecar = sidecar};
	uint64_t *sites, *gfps;
	char *text;

	metadata.nr_sites = dictionary_copy(&encoder->sites, &sites);
	metadata.nr_gfps = dictionary_copy(&encoder->gfps, &gfps);
	metadata.sites = sites;
	metadata.gfps = gfps;
	text = ctf_metadata_text(&metadata);
	free(sites);
	free(gfps);
	return text;
}

#define METADATA_TEMP_NAME ".metadata.tmp"

static int describe(struct trace_encoder *base, const struct sidecar *sidecar, struct error *err)
{
	struct ctf_encoder *encoder = (struct ctf_encoder *)base;
	char *text = metadata_text(encoder, sidecar);
	int ret;

	if (!text)
		return error_set(err, ENOMEM, "%s: out of memory", CTF_METADATA_NAME);
	ret = file_replace(encoder->dir_fd, CTF_METADATA_NAME, METADATA_TEMP_NAME, text,
			   strlen(text), FILE_DURABLE);
	free(text);
	return ret ? error_set(err, -ret, "%s: %s", CTF_METADATA_NAME, strerror(-ret)) : 0;
}

static void destroy(struct trace_encoder *base)
{
	struct ctf_encoder *encoder = (struct ctf_encoder *)base;

	dictionary_deinit(&encoder->sites);
	dictionary_deinit(&encoder->gfps);
	free(encoder);
}

int ctf_encoder_create(int dir_fd, struct cache_table *caches, const struct ctf_identity *identity,
		       struct trace_encoder **out)
{
	struct ctf_encoder *encoder = calloc(1, sizeof(*encoder));

	if (!encoder)
		return -ENOMEM;
	encoder->base.ops = &ctf_encoder;
	encoder->dir_fd = dir_fd;
	encoder->caches = caches;
	encoder->identity = *identity;
	dictionary_init(&encoder->sites, (1u << CTF_SITE_BITS) - 1);
	dictionary_init(&encoder->gfps, (1u << CTF_GFP_BITS) - 1);
	*out = &encoder->base;
	return 0;
}

/* With a random UUID, RFC 4122 section 4.4. */
static int create(int dir_fd, struct cache_table *caches, struct trace_encoder **out)
{
	struct ctf_identity identity = {.big_endian = __BYTE_ORDER == __BIG_ENDIAN};

	if (getrandom(identity.uuid, CTF_UUID_SIZE, 0) != CTF_UUID_SIZE)
		return -errno;
	identity.uuid[6] = (uint8_t)((identity.uuid[6] & 0x0f) | 0x40);
	identity.uuid[8] = (uint8_t)((identity.uuid[8] & 0x3f) | 0x80);
	return ctf_encoder_create(dir_fd, caches, &identity, out);
}

const struct encoder_ops ctf_encoder = {.sidecar_name = SIDECAR_HIDDEN_NAME,
					.create = create,
					.add_stream = add_stream,
					.describe = describe,
					.destroy = destroy};
