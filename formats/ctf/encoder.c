/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "formats/ctf/metadata.h"
#include "formats/ctf/writer.h"
#include "formats/ctf/ctf.h"
#include "formats/base/fs.h"
#include "formats/trace/encoder.h"

/* The trace as a whole: its identity, its ids, and the file `metadata`. */
struct ctf_encoder {
	struct trace_encoder base;
	struct ctf_trace trace;
};

#define METADATA_TEMP_NAME ".metadata.tmp"

static int add_stream(struct trace_encoder *base, unsigned int vcpu, struct stream_writer **out)
{
	return ctf_writer_create(&((struct ctf_encoder *)base)->trace, vcpu, out);
}

static int describe(struct trace_encoder *base, const struct sidecar *sidecar, struct error *err)
{
	struct ctf_trace *trace = &((struct ctf_encoder *)base)->trace;
	char *text = ctf_trace_metadata(trace, sidecar);
	int ret;

	if (!text)
		return error_set(err, ENOMEM, "%s: out of memory", CTF_METADATA_NAME);
	ret = file_replace(trace->dir_fd, CTF_METADATA_NAME, METADATA_TEMP_NAME, text,
			   strlen(text));
	free(text);
	return ret ? error_set(err, -ret, "%s: %s", CTF_METADATA_NAME, strerror(-ret)) : 0;
}

static void destroy(struct trace_encoder *base)
{
	struct ctf_encoder *encoder = (struct ctf_encoder *)base;

	ctf_dictionary_deinit(&encoder->trace.sites);
	ctf_dictionary_deinit(&encoder->trace.gfps);
	free(encoder);
}

/* A random UUID, RFC 4122 section 4.4. */
static int make_uuid(uint8_t uuid[CTF_UUID_SIZE])
{
	if (getrandom(uuid, CTF_UUID_SIZE, 0) != CTF_UUID_SIZE)
		return -errno;
	uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x40);
	uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80);
	return 0;
}

int ctf_encoder_create(int dir_fd, struct cache_table *caches, struct trace_encoder **out)
{
	static const struct trace_encoder_ops ops = {
		.add_stream = add_stream, .describe = describe, .destroy = destroy};
	struct ctf_encoder *encoder = calloc(1, sizeof(*encoder));
	int ret;

	if (!encoder)
		return -ENOMEM;
	encoder->base = (struct trace_encoder){.ops = &ops, .sidecar_name = SIDECAR_HIDDEN_NAME};
	encoder->trace.dir_fd = dir_fd;
	encoder->trace.caches = caches;
	encoder->trace.identity.big_endian = __BYTE_ORDER == __BIG_ENDIAN;
	ctf_dictionary_init(&encoder->trace.sites, (1u << CTF_SITE_BITS) - 1);
	ctf_dictionary_init(&encoder->trace.gfps, (1u << CTF_GFP_BITS) - 1);
	ret = make_uuid(encoder->trace.identity.uuid);
	if (ret)
		destroy(&encoder->base);
	else
		*out = &encoder->base;
	return ret;
}
