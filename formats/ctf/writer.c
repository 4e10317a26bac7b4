/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include "formats/base/fs.h"
#include "formats/ctf/internal.h"

enum { FILE_NAME_SIZE = CTF_SUFFIX_SIZE + 16 };

/* The trace as a whole. */
struct ctf_encoder {
	struct trace_encoder base;
	int dir_fd;
	struct ctf_identity identity;
	struct cache_table *caches;
	struct call_sites *sites;
	struct budget *budget;
	struct output *output;
	pthread_mutex_t lock; /* the instances; each is constant once it is there */
	struct ctf_instance *instances[TRACE_INSTANCES_MAX];
	size_t nr_instances;
};

/* --- one stream: packets, each as long as its content ----------------------------------------- */

static void begin_packet(struct ctf_writer *w)
{
	w->base.ready = false;
	w->used = CTF_PACKET_HEADER_SIZE;
	w->table_bytes = CTF_TABLES_BYTES;
	ctf_values_begin(&w->code);
	ctf_values_begin(&w->flags);
	ctf_values_begin(&w->strings);
	ctf_values_begin(&w->stacks);
	w->last_stack_id = 0;
	w->last_string_id = 0;
	w->last_flags = w->last_flags_id = 0;
	for (size_t i = 0; i < w->nr_used_caches; i++)
		w->uses_cache[w->used_caches[i]] = false;
	w->nr_used_caches = 0;
}

static bool is_empty(const struct ctf_writer *w)
{
	return w->used == CTF_PACKET_HEADER_SIZE;
}

/* Memory for a packet, which a stream without events does not need. */
static int need_buffer(struct ctf_writer *w)
{
	if (!w->bytes)
		w->bytes = output_packet_new(CTF_PACKET_MAX + sizeof(uint64_t));
	return w->bytes ? 0 : -ENOMEM;
}

/* The tables are appended to the packet for as long as that takes: it can be put again. */
static int put_packet(struct ctf_writer *w)
{
	const size_t used = w->used;
	struct ctf_packet header = {
		.stream = w->stream,
		.begin = is_empty(w) ? w->clock : w->begin,
		.end = w->clock,
		.sequence = w->sequence,
		.lost = w->base.lost,
		.cpu = w->vcpu,
	};
	int ret = need_buffer(w);

	if (!ret)
		ret = output_room(w->base.output, w->used + w->table_bytes);
	if (ret)
		return ret;
	header.tables = (uint32_t)ctf_put_tables(w);
	header.size = w->used;
	header.content = header.size * 8;
	ctf_packet_put(w->bytes, w->identity, &header);
	header.crc = ctf_packet_crc(w->bytes, header.size);
	ctf_packet_put(w->bytes, w->identity, &header);
	ret = stream_writer_put(&w->base, w->bytes, header.size);
	if (ret) {
		w->used = used;
		return ret;
	}
	w->bytes = NULL;
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

static int prepare(struct stream_writer *base, int64_t ns)
{
	struct ctf_writer *w = (struct ctf_writer *)base;
	int ret = is_empty(w) ? 0 : put_packet(w);

	if (!ret)
		ret = need_buffer(w);
	if (ret)
		return ret;
	if (ctf_clock_holds(ns) && (uint64_t)ns > w->clock)
		w->clock = (uint64_t)ns;
	w->begin = w->clock;
	base->ready = true;
	return 0;
}

static uint64_t discard(struct stream_writer *base)
{
	struct ctf_writer *w = (struct ctf_writer *)base;
	uint64_t nr_packets, lost = stream_writer_forget(base, &nr_packets);

	w->sequence -= nr_packets;
	if (!lost)
		return 0;
	begin_packet(w);
	/* An empty packet says so, if there is room for it. */
	base->lost += lost;
	put_packet(w);
	base->lost -= lost;
	return lost;
}

static void rest(struct stream_writer *base)
{
	struct ctf_writer *w = (struct ctf_writer *)base;

	if (!is_empty(w))
		return;
	output_packet_free(w->bytes);
	w->bytes = NULL;
	output_rest(base->output);
}

static void destroy_stream(struct stream_writer *base)
{
	struct ctf_writer *w = (struct ctf_writer *)base;

	if (w->file.fd >= 0)
		close(w->file.fd);
	ctf_values_deinit(&w->code);
	ctf_values_deinit(&w->flags);
	ctf_values_deinit(&w->strings);
	ctf_values_deinit(&w->stacks);
	free(w->used_caches);
	output_packet_free(w->bytes);
	free(w);
}

static struct ctf_writer *writer_of(struct output_file *file)
{
	return (struct ctf_writer *)((char *)file - offsetof(struct ctf_writer, file.base));
}

static void name_file(const struct ctf_writer *w, char *name, size_t size)
{
	snprintf(name, size, "cpu%u%s", w->vcpu, w->instance->suffix);
}

static void close_file(struct output_file *base)
{
	struct ctf_writer *w = writer_of(base);

	if (w->file.fd >= 0)
		close(w->file.fd);
	w->file.fd = -1;
}

/* One that rests has a file that is closed. */
static int need_file(struct ctf_writer *w)
{
	char name[FILE_NAME_SIZE];
	int fd = w->file.fd;

	if (fd >= 0)
		return 0;
	name_file(w, name, sizeof(name));
	fd = w->created ? output_file_reopen(w->dir_fd, name) : output_file_create(w->dir_fd, name);
	if (fd < 0)
		return fd;
	w->file.fd = fd;
	w->created = true;
	return 0;
}

static int create_files(struct stream_writer *base)
{
	struct ctf_writer *w = (struct ctf_writer *)base;

	return w->created ? 0 : need_file(w);
}

static void remove_files(struct stream_writer *base)
{
	struct ctf_writer *w = (struct ctf_writer *)base;
	char name[FILE_NAME_SIZE];

	if (!w->created || w->written)
		return;
	close_file(&w->file.base);
	name_file(w, name, sizeof(name));
	unlinkat(w->dir_fd, name, 0);
	w->created = false;
}

/*
 * Packets are numbered as they get into the file: a flight recorder forgets some before, which is
 * counted, and is no damage of the file.
 */
static int write_numbered(struct output_file *base, void *packet, size_t size)
{
	struct ctf_writer *w = writer_of(base);
	struct ctf_packet header;
	int ret = need_file(w);

	if (ret)
		return ret;
	if (!ctf_packet_get(packet, w->identity, &header))
		return -EINVAL;
	if (header.sequence != w->written) {
		header.sequence = w->written;
		ctf_packet_put(packet, w->identity, &header);
		header.crc = ctf_packet_crc(packet, size);
		ctf_packet_put(packet, w->identity, &header);
	}
	ret = packet_file_write(base, packet, size);
	w->written += !ret;
	return ret;
}

static int init_values(struct ctf_writer *w)
{
	const size_t code_bytes = ctf_tables[CTF_TABLE_CODE].entry_bytes;
	const size_t flags_bytes = ctf_tables[CTF_TABLE_FLAGS].entry_bytes;
	const size_t string_bytes = ctf_tables[CTF_TABLE_STRINGS].entry_bytes;
	const size_t stack_bytes = ctf_tables[CTF_TABLE_STACKS].entry_bytes;
	struct ctf_instance *instance = w->instance;
	int ret = ctf_values_init(&w->code, &instance->code, &w->table_bytes, code_bytes, w->sites);

	ret |= ctf_values_init(&w->flags, &instance->flags, &w->table_bytes, flags_bytes, NULL);
	ret |= ctf_values_init(&w->strings, &instance->strings, &w->table_bytes, string_bytes,
			       NULL);
	ret |= ctf_values_init(&w->stacks, &instance->stacks, &w->table_bytes, stack_bytes,
			       w->sites);
	return ret;
}

static int add_stream(struct trace_encoder *base, unsigned int instance, unsigned int vcpu,
		      struct stream_writer **out)
{
	static const struct stream_writer_ops ops = {.prepare = prepare,
						     .put = ctf_put_event,
						     .put_run = ctf_put_run,
						     .put_mix = ctf_put_mix,
						     .flush = flush,
						     .discard = discard,
						     .rest = rest,
						     .create_files = create_files,
						     .remove_files = remove_files,
						     .destroy = destroy_stream};
	struct ctf_encoder *encoder = (struct ctf_encoder *)base;
	struct ctf_writer *w = calloc(1, sizeof(*w));
	int ret;

	if (!w)
		return -ENOMEM;
	w->base.ops = &ops;
	w->identity = &encoder->identity;
	w->caches = encoder->caches;
	w->sites = encoder->sites;
	w->instance = encoder->instances[instance];
	w->plan = w->instance->plan;
	w->stream = instance;
	w->vcpu = vcpu;
	w->dir_fd = encoder->dir_fd;
	packet_file_init(&w->file, -1);
	w->file.base.write = write_numbered;
	w->file.base.rest = close_file;
	w->uses_cache[0] = true;
	ret = init_values(w);
	begin_packet(w);
	if (!ret)
		ret = output_add(encoder->output, &w->file.base, &w->base.output);
	if (ret) {
		destroy_stream(&w->base);
		return ret;
	}
	*out = &w->base;
	return 0;
}

/* --- instances ------------------------------------------------------------------------------- */

static void destroy_instance(struct ctf_instance *instance)
{
	if (!instance)
		return;
	free((char *)(uintptr_t)instance->about.name);
	free((char *)(uintptr_t)instance->about.spec);
	free(instance->plan);
	ctf_dictionary_deinit(&instance->code);
	ctf_dictionary_deinit(&instance->flags);
	ctf_dictionary_deinit(&instance->strings);
	ctf_dictionary_deinit(&instance->stacks);
	free(instance);
}

/* The first instance, if it is kmem's, has the files cpu0, cpu1, as ever. */
static void set_suffix(struct ctf_instance *instance, const struct ctf_encoder *encoder)
{
	const char *name = instance->about.name;
	unsigned int same = 0;

	for (size_t i = 0; i < encoder->nr_instances; i++)
		same += !strcmp(encoder->instances[i]->about.name, name);
	if (same)
		snprintf(instance->suffix, sizeof(instance->suffix), ".%s.%u", name, same + 1);
	else if (encoder->nr_instances || strcmp(name, "kmem"))
		snprintf(instance->suffix, sizeof(instance->suffix), ".%s", name);
}

static struct ctf_instance *new_instance(const struct trace_instance *about, struct budget *budget)
{
	struct ctf_instance *instance = calloc(1, sizeof(*instance));

	if (!instance)
		return NULL;
	instance->about = *about;
	instance->about.name = strdup(about->name);
	instance->about.spec = strdup(about->spec);
	instance->plan = ctf_plan_create(about->classes, about->nr_classes);
	ctf_dictionary_init(&instance->code,
			    instance->plan ? ctf_plan_max_id(instance->plan, CTF_CODE) : 0, budget);
	ctf_dictionary_init(&instance->flags,
			    instance->plan ? ctf_plan_max_id(instance->plan, CTF_FLAGS) : 0,
			    budget);
	ctf_dictionary_init(&instance->strings,
			    instance->plan ? ctf_plan_max_id(instance->plan, CTF_STRING) : 0,
			    budget);
	ctf_dictionary_init(&instance->stacks,
			    instance->plan ? ctf_plan_max_id(instance->plan, CTF_STACK) : 0,
			    budget);
	if (!instance->about.name || !instance->about.spec || !instance->plan) {
		destroy_instance(instance);
		return NULL;
	}
	return instance;
}

static int add_instance(struct trace_encoder *base, const struct trace_instance *about,
			struct error *err)
{
	struct ctf_encoder *encoder = (struct ctf_encoder *)base;
	struct ctf_instance *instance;

	if (about->nr_classes > CTF_MAX_CLASSES)
		return error_set(err, E2BIG, "%s: more than %d classes of events", about->name,
				 CTF_MAX_CLASSES);
	instance = new_instance(about, encoder->budget);
	if (!instance)
		return error_set(err, ENOMEM, "out of memory");
	ctf_find_put(instance->plan, &encoder->identity);
	set_suffix(instance, encoder);
	pthread_mutex_lock(&encoder->lock);
	encoder->instances[encoder->nr_instances++] = instance;
	pthread_mutex_unlock(&encoder->lock);
	return 0;
}

/* --- the trace: its identity, its ids, and the file `metadata` -------------------------------- */

/* The ids are named, or not. */
static char *metadata_text(struct ctf_encoder *encoder, const struct sidecar *sidecar, bool named)
{
	struct ctf_metadata metadata = {.identity = encoder->identity, .sidecar = sidecar};
	struct ctf_instance_ids ids[TRACE_INSTANCES_MAX] = {0};
	char *text;

	pthread_mutex_lock(&encoder->lock);
	metadata.nr_instances = encoder->nr_instances;
	pthread_mutex_unlock(&encoder->lock);
	metadata.instances = ids;
	for (size_t i = 0; i < metadata.nr_instances; i++) {
		struct ctf_instance *instance = encoder->instances[i];

		ids[i].about = &instance->about;
		ids[i].suffix = instance->suffix;
		ids[i].plan = instance->plan;
		if (!named)
			continue;
		ids[i].code = ctf_dictionary_copy(&instance->code, &ids[i].nr_code);
		ids[i].flags = ctf_dictionary_copy(&instance->flags, &ids[i].nr_flags);
		ids[i].strings = ctf_dictionary_copy(&instance->strings, &ids[i].nr_strings);
	}
	text = ctf_metadata_text(&metadata);
	for (size_t i = 0; i < metadata.nr_instances; i++) {
		free(ids[i].code);
		free(ids[i].flags);
		free(ids[i].strings);
	}
	return text;
}

#define METADATA_TEMP_NAME ".metadata.tmp"

static int put_description(const struct ctf_encoder *encoder, const char *name, char *text,
			   enum file_durability durability, struct error *err)
{
	int ret = text ? file_replace(encoder->dir_fd, name, METADATA_TEMP_NAME, text, strlen(text),
				      durability)
		       : -ENOMEM;

	free(text);
	return ret ? error_set(err, -ret, "%s: %s", name, strerror(-ret)) : 0;
}

/* With names of ids, unless readers would not take so much. */
static char *whole_text(struct ctf_encoder *encoder, const struct sidecar *sidecar)
{
	char *text = metadata_text(encoder, sidecar, true);

	return text ? text : metadata_text(encoder, sidecar, false);
}

/* The copy is only for a trace that is damaged later: a disk that has no room for it is no fault. */
static int describe(struct trace_encoder *base, const struct sidecar *sidecar, struct error *err)
{
	struct ctf_encoder *encoder = (struct ctf_encoder *)base;
	int ret = put_description(encoder, CTF_METADATA_NAME, whole_text(encoder, sidecar),
				  FILE_DURABLE, err);

	if (!ret)
		put_description(encoder, CTF_METADATA_COPY_NAME,
				metadata_text(encoder, sidecar, false), FILE_VOLATILE, NULL);
	return ret;
}

static void destroy(struct trace_encoder *base)
{
	struct ctf_encoder *encoder = (struct ctf_encoder *)base;

	for (size_t i = 0; i < encoder->nr_instances; i++)
		destroy_instance(encoder->instances[i]);
	pthread_mutex_destroy(&encoder->lock);
	free(encoder);
}

int ctf_encoder_create(const struct encoder_input *input, const struct ctf_identity *identity,
		       struct trace_encoder **out)
{
	struct ctf_encoder *encoder = calloc(1, sizeof(*encoder));

	if (!encoder)
		return -ENOMEM;
	encoder->base.ops = &ctf_encoder;
	encoder->dir_fd = input->dir_fd;
	encoder->caches = input->caches;
	encoder->sites = input->sites;
	encoder->budget = input->budget;
	encoder->output = input->output;
	encoder->identity = *identity;
	pthread_mutex_init(&encoder->lock, NULL);
	*out = &encoder->base;
	return 0;
}

/* With a random UUID, RFC 4122 section 4.4. */
static int create(const struct encoder_input *input, struct trace_encoder **out)
{
	struct ctf_identity identity = {.big_endian = __BYTE_ORDER == __BIG_ENDIAN};

	if (getrandom(identity.uuid, CTF_UUID_SIZE, 0) != CTF_UUID_SIZE)
		return -errno;
	identity.uuid[6] = (uint8_t)((identity.uuid[6] & 0x0f) | 0x40);
	identity.uuid[8] = (uint8_t)((identity.uuid[8] & 0x3f) | 0x80);
	return ctf_encoder_create(input, &identity, out);
}

const struct encoder_ops ctf_encoder = {.sidecar_name = SIDECAR_HIDDEN_NAME,
					.create = create,
					.add_instance = add_instance,
					.add_stream = add_stream,
					.describe = describe,
					.destroy = destroy};
