/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/ctf-make.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/ctf/ctf.h"
#include "tests/lib/trace-make.h"

static void add_caches(struct cache_table *caches)
{
	for (uint16_t id = 1; id <= CTF_MAKE_CACHES; id++) {
		char name[32];

		snprintf(name, sizeof(name), "cache-%u", id);
		if (cache_table_id(caches, name, id * 7u, id * 8u) != id)
			abort();
	}
}

void ctf_maker_init(struct ctf_maker *maker, const char *dir, const struct ctf_identity *identity,
		    const struct trace_instance *instance)
{
	const struct output_config config = {.queue_bytes = 64 << 20};

	*maker = (struct ctf_maker){.input = {.dir_fd = open(dir, O_RDONLY | O_DIRECTORY),
					      .caches = &maker->caches,
					      .sites = &maker->sites}};
	cache_table_init(&maker->caches, NULL);
	call_sites_init(&maker->sites, NULL);
	if (maker->input.dir_fd < 0 || output_create(&config, &maker->input.output) ||
	    ctf_encoder_create(&maker->input, identity, &maker->encoder) ||
	    maker->encoder->ops->add_instance(maker->encoder, instance, NULL) ||
	    maker->encoder->ops->add_stream(maker->encoder, 0, 0, &maker->stream))
		abort();
}

void ctf_maker_flush(struct ctf_maker *maker)
{
	if (maker->stream->ops->flush(maker->stream) || output_sync(maker->input.output))
		abort();
}

void ctf_maker_deinit(struct ctf_maker *maker)
{
	output_destroy(maker->input.output);
	maker->stream->ops->destroy(maker->stream);
	maker->encoder->ops->destroy(maker->encoder);
	cache_table_deinit(&maker->caches);
	call_sites_deinit(&maker->sites);
	close(maker->input.dir_fd);
}

static void put_records(struct stream_writer *w, const struct kmem_record *records, size_t n,
			size_t per_packet)
{
	for (size_t i = 0; i < n; i++) {
		const struct kmem_record *r = &records[i];

		if ((!w->ready && w->ops->prepare(w, r->timestamp)) ||
		    w->ops->put(w, kmem_class_of(r), r->timestamp, r))
			abort();
		if (per_packet && (i + 1) % per_packet == 0 && w->ops->flush(w))
			abort();
	}
}

static void describe(struct trace_encoder *encoder, struct cache_table *caches)
{
	struct sidecar sidecar = {.info = {.tool_version = "1.2.3",
					   .banner = "Linux \"\\ version",
					   .started_realtime_ns = 1700000000123456789,
					   .started_ns = 1000,
					   .gfp_names = {{0xcc0, "GFP_KERNEL"}},
					   .nr_gfp_names = 1}};

	sidecar.caches = cache_table_copy(caches, &sidecar.nr_caches);
	if (encoder->ops->describe(encoder, &sidecar, NULL))
		abort();
	free(sidecar.caches);
}

void ctf_make(struct ctf_made *made, bool big_endian, const struct kmem_record *records, size_t n,
	      size_t per_packet)
{
	struct scratch dir = scratch_make();
	struct ctf_maker maker;

	made->identity.big_endian = big_endian;
	for (uint8_t i = 0; i < CTF_UUID_SIZE; i++)
		made->identity.uuid[i] = (uint8_t)(i * 17);
	ctf_maker_init(&maker, dir.path, &made->identity, &kmem_instance);
	add_caches(&maker.caches);
	put_records(maker.stream, records, n, per_packet);
	ctf_maker_flush(&maker);
	describe(maker.encoder, &maker.caches);
	made->metadata = file_get(dir.path, CTF_METADATA_NAME, NULL);
	made->stream = (uint8_t *)file_get(dir.path, "cpu0", &made->size);
	ctf_maker_deinit(&maker);
	scratch_remove(&dir);
}

void ctf_made_free(struct ctf_made *made)
{
	free(made->metadata);
	free(made->stream);
}

void ctf_made_put(const struct ctf_made *made, const char *dir)
{
	file_put(dir, "metadata", made->metadata, strlen(made->metadata));
	file_put(dir, "cpu0", made->stream, made->size);
}

static uint64_t random64(unsigned int *seed)
{
	uint64_t value = 0;

	for (int i = 0; i < 5; i++)
		value = value << 15 ^ (uint64_t)rand_r(seed);
	return value;
}

/* Around the borders of all the widths that forms have, and anything. */
static uint64_t extreme(unsigned int *seed)
{
	static const uint64_t borders[] = {0,
					   1u << 8,
					   1u << 9,
					   1u << 12,
					   1u << 13,
					   1u << 19,
					   1u << 20,
					   UINT64_C(1) << 32,
					   UINT64_C(1) << 47,
					   UINT64_C(1) << 48,
					   UINT64_C(0xffff800000000000),
					   UINT64_C(0xff00000000000000),
					   UINT64_C(1) << 56,
					   UINT64_C(1) << 63};
	unsigned int choice = (unsigned int)rand_r(seed) % 20;

	if (choice < sizeof(borders) / sizeof(borders[0]))
		return borders[choice] + (uint64_t)(rand_r(seed) % 3) - 1;
	return random64(seed);
}

static struct kmem_record usual(unsigned int *seed)
{
	unsigned int kind = (unsigned int)rand_r(seed) % 6;
	struct kmem_record r = {.event_id = kind < 3 ? KMEM_EVENT_ALLOC : KMEM_EVENT_FREE,
				.type_id = (uint8_t)(kind % 3),
				.call_site =
					0xffffffff81000000 + (uint64_t)(rand_r(seed) % 300) * 5,
				.ptr = 0xffff888000000000 + random64(seed) % (1u << 30)};

	if (r.event_id == KMEM_EVENT_ALLOC) {
		r.node = rand_r(seed) % 4 - 1;
		r.gfp_flags = 0xcc0u | (uint64_t)(rand_r(seed) % 8) << 8;
	}
	if (r.type_id == KMEM_TYPE_PAGES) {
		r.bytes_req = r.bytes_alloc = 4096ull << rand_r(seed) % 4;
	} else if (r.event_id == KMEM_EVENT_ALLOC) {
		r.bytes_alloc = 8ull << rand_r(seed) % 10;
		r.bytes_req = r.bytes_alloc - (uint64_t)(rand_r(seed) % 4);
	}
	if (r.type_id == KMEM_TYPE_CACHE || (r.event_id == 1 && r.type_id == 0))
		r.cache = (uint16_t)(1 + rand_r(seed) % CTF_MAKE_CACHES);
	return r;
}

/* Give one member, by its number, an unusual value. */
static void distort(struct kmem_record *r, unsigned int member, bool hostile, unsigned int *seed)
{
	uint64_t value = extreme(seed);

	switch (member) {
	case 0:
		r->cache = (uint16_t)value;
		break;
	case 1:
		r->node = (int32_t)value;
		break;
	case 2:
		r->call_site = value;
		break;
	case 3:
		r->ptr = value;
		break;
	case 4:
		r->bytes_req = value;
		break;
	case 5:
		r->bytes_alloc = value;
		break;
	case 6:
		r->gfp_flags = value;
		break;
	default:
		if (!hostile)
			break;
		r->event_id = (uint8_t)(rand_r(seed) % 5);
		r->type_id = (uint8_t)(rand_r(seed) % 5);
	}
}

/* Mostly a little later; at times by more than the header's 27 bits, or before what was. */
static int64_t next_time(int64_t now, bool hostile, unsigned int *seed)
{
	unsigned int choice = (unsigned int)rand_r(seed) % 100;

	if (choice < 3)
		return now + (INT64_C(1) << 27) - 2 + rand_r(seed) % 4;
	if (choice < 5)
		return now + (int64_t)(random64(seed) >> 28);
	if (hostile && choice < 8)
		return (int64_t)(extreme(seed) - random64(seed) % 2);
	return now + rand_r(seed) % 3000;
}

void random_records(unsigned int seed, bool hostile, struct kmem_record *records, size_t n)
{
	int64_t now = 1000;

	for (size_t i = 0; i < n; i++) {
		unsigned int how = (unsigned int)rand_r(&seed) % 3;

		records[i] = usual(&seed);
		if (how == 1)
			distort(&records[i], (unsigned int)rand_r(&seed) % 8, hostile, &seed);
		for (unsigned int member = 0; how == 2 && member < 8; member++)
			distort(&records[i], member, hostile, &seed);
		records[i].timestamp = next_time(now, hostile, &seed);
		if (records[i].timestamp > now && records[i].timestamp < INT64_C(1) << 60)
			now = records[i].timestamp;
	}
}
