/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/cursor.h"
#include "guest-symbols/btf/btf-internal.h"

enum {
	BTF_MAGIC = 0xeb9f,
	BTF_VERSION = 1,
	TYPE_HEADER = 12,
	MAX_TYPES = 1 << 22,
	INFO_VLEN_MASK = 0xffff,
};

/* Bytes that follow a type's header: fixed ones and some for each of its vlen items. */
static const struct {
	bool known;
	uint8_t fixed, item;
} kinds[BTF_KIND_COUNT] = {
	[BTF_KIND_INT] = {true, 4, 0},        [BTF_KIND_PTR] = {true, 0, 0},
	[BTF_KIND_ARRAY] = {true, 12, 0},     [BTF_KIND_STRUCT] = {true, 0, 12},
	[BTF_KIND_UNION] = {true, 0, 12},     [BTF_KIND_ENUM] = {true, 0, 8},
	[BTF_KIND_FWD] = {true, 0, 0},        [BTF_KIND_TYPEDEF] = {true, 0, 0},
	[BTF_KIND_VOLATILE] = {true, 0, 0},   [BTF_KIND_CONST] = {true, 0, 0},
	[BTF_KIND_RESTRICT] = {true, 0, 0},   [BTF_KIND_FUNC] = {true, 0, 0},
	[BTF_KIND_FUNC_PROTO] = {true, 0, 8}, [BTF_KIND_VAR] = {true, 4, 0},
	[BTF_KIND_DATASEC] = {true, 0, 12},   [BTF_KIND_FLOAT] = {true, 0, 0},
	[BTF_KIND_DECL_TAG] = {true, 4, 0},   [BTF_KIND_TYPE_TAG] = {true, 0, 0},
	[BTF_KIND_ENUM64] = {true, 0, 12},
};

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static enum btf_kind info_kind(uint32_t info)
{
	return info >> 24 & 0x1f;
}

const char *btf_string(const struct btf_types *btf, uint32_t offset)
{
	if (btf->base && offset < btf->strings_first)
		btf = btf->base;
	offset -= btf->strings_first;
	return offset < btf->strings_size ? btf->strings + offset : "";
}

bool btf_type(const struct btf_types *btf, uint32_t id, struct btf_type *out)
{
	const uint8_t *p;
	uint32_t info;

	if (btf->base && id < btf->first)
		btf = btf->base;
	if (id < btf->first || id >= btf->count)
		return false;
	p = btf->types + btf->offsets[id - btf->first];
	info = get32(p + 4);
	*out = (struct btf_type){
		.name = btf_string(btf, get32(p)),
		.kind = info_kind(info),
		.vlen = kinds[info_kind(info)].item ? info & INFO_VLEN_MASK : 0,
		.kind_flag = info >> 31,
		.size_or_type = get32(p + 8),
		.items = p + TYPE_HEADER,
	};
	return true;
}

uint32_t btf_item(const struct btf_type *type, uint32_t item, uint32_t item_words, uint32_t i)
{
	return get32(type->items + (item * item_words + i) * sizeof(uint32_t));
}

static uint32_t find_own(const struct btf_types *btf, const char *name, enum btf_kind a,
			 enum btf_kind b)
{
	struct name_cursor cursor = name_index_start(&btf->index, name);
	struct btf_type type;
	uint32_t id;

	while (name_index_next(&btf->index, &cursor, &id))
		if (btf_type(btf, id, &type) && (type.kind == a || type.kind == b) &&
		    !strcmp(type.name, name))
			return id;
	return 0;
}

uint32_t btf_find(const struct btf_types *btf, const char *name, enum btf_kind a, enum btf_kind b)
{
	const uint32_t id = find_own(btf, name, a, b);

	return id || !btf->base ? id : find_own(btf->base, name, a, b);
}

uint32_t btf_find_function(const struct btf_types *btf, const char *name)
{
	return find_own(btf, name, BTF_KIND_FUNC, BTF_KIND_FUNC);
}

/* Walk the type section once: to count (no offsets yet), or to note where each type begins. */
static int scan(struct btf_types *btf, uint32_t size, struct error *err)
{
	struct cursor c = cursor_make(btf->types, size);
	uint32_t n = btf->first;

	while (cursor_left(&c)) {
		uint32_t start = (uint32_t)c.pos, info;

		cursor_skip(&c, 4);
		info = cursor_u32(&c);
		cursor_skip(&c, 4);
		if (info_kind(info) >= BTF_KIND_COUNT || !kinds[info_kind(info)].known)
			return error_set_at(err, EBADMSG, start, "BTF type %u has unknown kind %d",
					    n, info_kind(info));
		cursor_skip(&c, kinds[info_kind(info)].fixed + (size_t)kinds[info_kind(info)].item *
								       (info & INFO_VLEN_MASK));
		if (c.failed || n == MAX_TYPES)
			return error_set_at(err, EBADMSG, start, "BTF type %u is truncated", n);
		if (btf->offsets)
			btf->offsets[n - btf->first] = start;
		n++;
	}
	btf->count = n;
	return 0;
}

static bool is_indexed(const struct btf_type *type)
{
	return *type->name && (type->kind == BTF_KIND_STRUCT || type->kind == BTF_KIND_UNION ||
			       type->kind == BTF_KIND_FUNC);
}

static int build_index(struct btf_types *btf, struct error *err)
{
	struct btf_type type;
	size_t n = 0;

	for (uint32_t id = btf->first; id < btf->count; id++)
		n += btf_type(btf, id, &type) && is_indexed(&type);
	if (name_index_init(&btf->index, n))
		return error_set(err, ENOMEM, "no memory for BTF");
	for (uint32_t id = btf->first; id < btf->count; id++)
		if (btf_type(btf, id, &type) && is_indexed(&type))
			name_index_add(&btf->index, type.name, id);
	return 0;
}

static int build(struct btf_types *btf, uint32_t types_size, struct error *err)
{
	int ret = scan(btf, types_size, err);

	if (ret)
		return ret;
	btf->offsets = calloc(btf_count(btf) + 1, sizeof(*btf->offsets));
	if (!btf->offsets)
		return error_set(err, ENOMEM, "no memory for BTF");
	ret = scan(btf, types_size, err);
	return ret ? ret : build_index(btf, err);
}

struct btf_header {
	uint64_t types, strings; /* from the start of the section */
	uint32_t types_size, strings_size;
};

/* Only a module's may be without strings of its own: `is_split`. */
static int parse_header(const uint8_t *bytes, size_t size, bool is_split, struct btf_header *out,
			struct error *err)
{
	struct cursor c = cursor_make(bytes, size);
	uint16_t magic = cursor_u16(&c);
	uint8_t version = cursor_u8(&c);
	uint32_t header;

	cursor_skip(&c, 1); /* flags */
	header = cursor_u32(&c);
	out->types = (uint64_t)header + cursor_u32(&c);
	out->types_size = cursor_u32(&c);
	out->strings = (uint64_t)header + cursor_u32(&c);
	out->strings_size = cursor_u32(&c);
	if (c.failed || magic != BTF_MAGIC)
		return error_set(err, EBADMSG, "BTF has no valid header");
	if (version != BTF_VERSION)
		return error_set(err, ENOTSUP, "BTF has version %u, need %u", version, BTF_VERSION);
	if (out->types + out->types_size > size || out->strings + out->strings_size > size ||
	    (!is_split && !out->strings_size) ||
	    (out->strings_size && bytes[out->strings + out->strings_size - 1]))
		return error_set(err, EBADMSG, "BTF is truncated");
	return 0;
}

static int parse(const struct btf_types *base, const uint8_t *bytes, size_t size,
		 struct btf_types **out, struct error *err)
{
	struct btf_header header;
	struct btf_types *btf;
	int ret = parse_header(bytes, size, base, &header, err);

	if (ret)
		return ret;
	btf = calloc(1, sizeof(*btf));
	if (!btf || !(btf->bytes = malloc(size))) {
		free(btf);
		return error_set(err, ENOMEM, "no memory for BTF");
	}
	memcpy(btf->bytes, bytes, size);
	btf->owners = 1;
	btf->base = base;
	btf->first = base ? base->count : 1;
	btf->strings_first = base ? base->strings_size : 0;
	btf->types = btf->bytes + header.types;
	btf->strings = (const char *)btf->bytes + header.strings;
	btf->strings_size = header.strings_size;
	ret = build(btf, header.types_size, err);
	if (ret)
		btf_destroy(btf);
	else
		*out = btf;
	return ret;
}

int btf_parse(const uint8_t *bytes, size_t size, struct btf_types **out, struct error *err)
{
	return parse(NULL, bytes, size, out, err);
}

int btf_parse_split(const struct btf_types *base, const uint8_t *bytes, size_t size,
		    struct btf_types **out, struct error *err)
{
	return parse(base, bytes, size, out, err);
}

struct btf_types *btf_share(struct btf_types *btf)
{
	btf->owners++;
	return btf;
}

void btf_destroy(struct btf_types *btf)
{
	if (!btf || --btf->owners)
		return;
	name_index_deinit(&btf->index);
	free(btf->offsets);
	free(btf->bytes);
	free(btf);
}

size_t btf_count(const struct btf_types *btf)
{
	return btf->count - btf->first;
}

uint32_t btf_end_id(const struct btf_types *btf)
{
	return btf->count;
}

uint32_t btf_end_string(const struct btf_types *btf)
{
	return btf->strings_first + btf->strings_size;
}

struct btf_functions btf_count_functions(const struct btf_types *btf, btf_known_fn *known,
					 const void *arg)
{
	struct btf_functions functions = {0, 0};
	struct btf_type type;

	for (uint32_t id = btf->first; id < btf->count; id++) {
		if (!btf_type(btf, id, &type) || type.kind != BTF_KIND_FUNC)
			continue;
		functions.n++;
		functions.unknown += !known(arg, type.name);
	}
	return functions;
}
