/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The sidecar as JSON, written and parsed. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/json.h"
#include "formats/base/text.h"
#include "formats/event/class-json.h"
#include "formats/event/record-stream.h"
#include "formats/trace/sidecar-internal.h"

enum {
	MAX_CACHES = UINT16_MAX,
	MAX_NAME = 512,
	MAX_SPEC = 1280,
	MAX_PROTOTYPES = 4096,
	MAX_PROTOTYPE = 1024
};

/* --- the members of struct trace_info -------------------------------------------------------- */

enum field_type { STRING, SIGNED, COUNT, ADDRESS, BOOL };

struct field {
	const char *key;
	enum field_type type;
	size_t offset, size;
};

#define MEMBER(member) offsetof(struct trace_info, member), sizeof(((struct trace_info *)0)->member)
/* clang-format off */
#define FIELD(member, type) {#member, type, MEMBER(member)}
/* clang-format on */

static const struct field fields[] = {
	FIELD(tool_version, STRING),
	FIELD(writer, STRING),
	FIELD(mode, STRING),
	FIELD(memory, STRING),
	FIELD(tracers, STRING),
	FIELD(banner, STRING),
	FIELD(build_id, STRING),
	FIELD(slab_allocator, STRING),
	FIELD(symbol_source, STRING),
	FIELD(btf_source, STRING),
	FIELD(clock, STRING),
	FIELD(ended, STRING),
	FIELD(part, STRING),
	FIELD(chosen_events, BOOL),
	FIELD(virt_slide, SIGNED),
	FIELD(started_realtime_ns, SIGNED),
	FIELD(started_ns, SIGNED),
	FIELD(page_size, COUNT),
	FIELD(stack_bytes, COUNT),
	FIELD(max_rate, COUNT),
	{"phys_base", ADDRESS, MEMBER(text_gpa)},
	FIELD(from_first_allocation, BOOL),
	FIELD(cut, BOOL),
	FIELD(losses_unknown, BOOL),
};

enum { NR_FIELDS = sizeof(fields) / sizeof(fields[0]) };

/* --- writing --------------------------------------------------------------------------------- */

static json_t *field_value(const struct field *field, const struct trace_info *info)
{
	const char *at = (const char *)info + field->offset;

	switch (field->type) {
	case STRING:
		return json_from_text(at);
	case SIGNED:
		return json_integer(*(const int64_t *)(const void *)at);
	case COUNT:
		return json_from_count(*(const uint64_t *)(const void *)at);
	case ADDRESS:
		return json_from_address(*(const uint64_t *)(const void *)at);
	case BOOL:
		break;
	}
	return json_boolean(*(const bool *)at);
}

static int put_gfp_names(json_t *root, const struct trace_info *info)
{
	json_t *array = json_array();
	int failed = 0;

	for (size_t i = 0; i < info->nr_gfp_names; i++)
		failed |= json_array_append_new(
			array, json_pack("{so so}", "name", json_from_text(info->gfp_names[i].name),
					 "mask", json_from_address(info->gfp_names[i].mask)));
	return failed | json_object_set_new(root, "gfp_flags", array);
}

static int put_gaps(json_t *root, const struct trace_info *info)
{
	json_t *array = json_array();
	int failed = 0;

	for (size_t i = 0; i < info->nr_gaps; i++)
		failed |= json_array_append_new(
			array,
			json_pack("{so so}", "function", json_from_text(info->gaps[i].function),
				  "reason", json_from_text(info->gaps[i].reason)));
	return failed | json_object_set_new(root, "gaps", array);
}

static int put_nodes(json_t *root, const struct trace_info *info)
{
	json_t *array = json_array();
	int failed = 0;

	for (size_t i = 0; i < info->nr_nodes; i++) {
		const struct trace_node *node = &info->nodes[i];

		failed |= json_array_append_new(
			array, json_pack("{si so so so}", "node", (int)node->number, "start",
					 json_from_address(node->start), "bytes",
					 json_from_count(node->bytes), "vcpus",
					 json_from_address(node->vcpus)));
	}
	return failed | json_object_set_new(root, "nodes", array);
}

static int put_info(json_t *root, const struct trace_info *info)
{
	int failed = put_gfp_names(root, info) | put_gaps(root, info) | put_nodes(root, info);

	for (size_t i = 0; i < NR_FIELDS; i++)
		failed |= json_object_set_new(root, fields[i].key, field_value(&fields[i], info));
	return failed | counters_put(root, &info->counters);
}

static int put_vcpus(json_t *array, const struct sidecar *sidecar)
{
	int failed = 0;

	for (size_t i = 0; i < sidecar->nr_vcpus; i++) {
		const struct sidecar_vcpu *vcpu = &sidecar->vcpus[i];

		failed |= json_array_append_new(
			array, json_pack("{so so so}", "allocs", json_from_count(vcpu->allocs),
					 "frees", json_from_count(vcpu->frees), "overruns",
					 json_from_count(vcpu->overruns)));
	}
	return failed;
}

static json_t *streams_json(const struct sidecar_instance *instance)
{
	json_t *array = json_array();
	int failed = 0;

	for (size_t i = 0; i < instance->nr_streams; i++) {
		const struct sidecar_stream *stream = &instance->streams[i];

		failed |= json_array_append_new(
			array, json_pack("{so so}", "events", json_from_count(stream->events),
					 "overruns", json_from_count(stream->overruns)));
	}
	if (failed) {
		json_decref(array);
		return NULL;
	}
	return array;
}

static json_t *classes_json(const struct trace_instance *about)
{
	json_t *array = json_array();
	int failed = 0;

	for (size_t i = 0; i < about->nr_classes; i++)
		failed |= json_array_append_new(array, event_class_to_json(&about->classes[i]));
	if (failed) {
		json_decref(array);
		return NULL;
	}
	return array;
}

/* An array of lines. */
static json_t *lines_json(const char *lines)
{
	json_t *array = json_array();
	int failed = 0;

	for (const char *at = lines; *at; at += strcspn(at, "\n"), at += *at == '\n') {
		char line[MAX_PROTOTYPE];

		snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at);
		failed |= json_array_append_new(array, json_from_text(line));
	}
	if (failed) {
		json_decref(array);
		return NULL;
	}
	return array;
}

static int put_prototypes(json_t *instance, const char *prototypes)
{
	if (!prototypes || !*prototypes)
		return 0;
	return json_object_set_new(instance, "prototypes", lines_json(prototypes));
}

static int put_instances(json_t *array, const struct sidecar *sidecar)
{
	int failed = 0;

	for (size_t i = 0; i < sidecar->nr_instances; i++) {
		const struct sidecar_instance *instance = &sidecar->instances[i];

		json_t *item =
			json_pack("{so so so so so}", "name", json_from_text(instance->about.name),
				  "spec", json_from_text(instance->about.spec), "lost",
				  json_from_count(instance->lost), "vcpus", streams_json(instance),
				  "classes", classes_json(&instance->about));

		failed |= json_object_set_new(item, "late", json_boolean(instance->about.late));
		failed |= json_object_set_new(item, "interrupted",
					      json_boolean(instance->about.interrupted));
		failed |=
			json_object_set_new(item, "removed", json_boolean(instance->about.removed));
		failed |= put_prototypes(item, instance->about.prototypes);
		failed |= json_array_append_new(array, item);
	}
	return failed;
}

static int put_caches(json_t *array, const struct sidecar *sidecar)
{
	int failed = 0;

	for (size_t i = 0; i < sidecar->nr_caches; i++) {
		const struct sidecar_cache *cache = &sidecar->caches[i];

		failed |= json_array_append_new(
			array, json_pack("{si so so so}", "id", (int)cache->id, "name",
					 json_from_text(cache->name), "object_size",
					 json_from_count(cache->object_size), "size",
					 json_from_count(cache->size)));
	}
	return failed;
}

/* But for the symbols, which may be hundreds of thousands. */
static json_t *to_json(const struct sidecar *sidecar)
{
	json_t *vcpus = json_array(), *caches = json_array(), *instances = json_array();
	int failed = put_vcpus(vcpus, sidecar) | put_instances(instances, sidecar);
	json_t *root;

	failed |= put_caches(caches, sidecar);
	root = json_pack("{si ss sb so so so}", "version", SIDECAR_VERSION, JSON_CHECKSUM_MARK,
			 "crc32c", "complete", sidecar->complete, "vcpus", vcpus, "instances",
			 instances, "caches", caches);
	failed |= put_info(root, &sidecar->info);
	return json_if_whole(root, failed);
}

/* Append symbols and checksum to the text of the other members. */
static int print(FILE *out, const char *others, const struct sidecar *sidecar, char *const *text,
		 const size_t *size)
{
	const size_t n = strlen(others) - strlen("\n}");
	bool whole = fwrite(others, 1, n, out) == n;
	int ret;

	fputs(",\n \"symbols\": ", out);
	ret = sidecar_print_symbols(out, sidecar);
	fputs(",\n ", out);
	whole &= json_print_checksum(out, text, size);
	return ret || whole ? ret : -ENOMEM;
}

char *sidecar_text(const struct sidecar *sidecar)
{
	json_t *root = to_json(sidecar);
	char *others = json_dumps(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER), *text = NULL;
	size_t size;
	FILE *out = others ? open_memstream(&text, &size) : NULL;
	int ret = out ? print(out, others, sidecar, &text, &size) : -ENOMEM;

	json_decref(root);
	free(others);
	if (out && text_stream_close(out))
		ret = -ENOMEM;
	if (ret) {
		free(text);
		return NULL;
	}
	return text;
}

/* --- parsing --------------------------------------------------------------------------------- */

int sidecar_get_name(const json_t *object, char **out)
{
	char name[MAX_NAME] = "";

	if (json_read_text(object, "name", name, sizeof(name)))
		return -EINVAL;
	*out = strdup(name);
	return *out ? 0 : -ENOMEM;
}

/* An array of at most `max` items; without one *out is NULL and *n 0. */
static int find_array(const json_t *object, const char *key, size_t max, const json_t **out,
		      size_t *n)
{
	const json_t *array = json_object_get(object, key);

	*out = NULL;
	*n = 0;
	if (!array)
		return 0;
	if (!json_is_array(array) || json_array_size(array) > max)
		return -EINVAL;
	*out = array;
	*n = json_array_size(array);
	return 0;
}

static int parse_gfp_names(const json_t *root, struct trace_info *info)
{
	const json_t *array;
	int ret = find_array(root, "gfp_flags", GFP_NAMES_MAX, &array, &info->nr_gfp_names);

	for (size_t i = 0; !ret && i < info->nr_gfp_names; i++) {
		struct gfp_name *name = &info->gfp_names[i];
		const json_t *item = json_array_get(array, i);

		ret = json_read_text(item, "name", name->name, sizeof(name->name));
		ret = ret ? ret : json_read_address(item, "mask", &name->mask);
	}
	return ret;
}

static int parse_gaps(const json_t *root, struct trace_info *info)
{
	const json_t *array;
	int ret = find_array(root, "gaps", TRACE_GAPS_MAX, &array, &info->nr_gaps);

	for (size_t i = 0; !ret && i < info->nr_gaps; i++) {
		struct trace_gap *gap = &info->gaps[i];
		const json_t *item = json_array_get(array, i);

		ret = json_read_text(item, "function", gap->function, sizeof(gap->function));
		ret = ret ? ret : json_read_text(item, "reason", gap->reason, sizeof(gap->reason));
	}
	return ret;
}

static int parse_node(const json_t *item, struct trace_node *node)
{
	uint64_t number = 0;
	int ret = json_read_count(item, "node", &number);

	ret = ret ? ret : json_read_address(item, "start", &node->start);
	ret = ret ? ret : json_read_count(item, "bytes", &node->bytes);
	ret = ret ? ret : json_read_address(item, "vcpus", &node->vcpus);
	node->number = (uint32_t)number;
	return ret || number > INT32_MAX ? -EINVAL : 0;
}

static int parse_nodes(const json_t *root, struct trace_info *info)
{
	const json_t *array;
	int ret = find_array(root, "nodes", TRACE_NODES_MAX, &array, &info->nr_nodes);

	for (size_t i = 0; !ret && i < info->nr_nodes; i++)
		ret = parse_node(json_array_get(array, i), &info->nodes[i]);
	return ret;
}

static int get_field(const json_t *root, const struct field *field, struct trace_info *info)
{
	char *at = (char *)info + field->offset;

	switch (field->type) {
	case STRING:
		return json_read_text(root, field->key, at, field->size);
	case SIGNED:
		return json_read_signed(root, field->key, (int64_t *)(void *)at);
	case COUNT:
		return json_read_count(root, field->key, (uint64_t *)(void *)at);
	case ADDRESS:
		return json_read_address(root, field->key, (uint64_t *)(void *)at);
	case BOOL:
		break;
	}
	return json_read_bool(root, field->key, (bool *)at);
}

/* Older sidecars have it in the words of the part only: event_choice_text(). */
static bool is_chosen(const char *part)
{
	return strstr(part, "events ") || strstr(part, "filter ") || strstr(part, "vCPU ");
}

static int parse_info(const json_t *root, struct trace_info *info)
{
	int ret = counters_get(root, &info->counters);

	for (size_t i = 0; !ret && i < NR_FIELDS; i++)
		ret = get_field(root, &fields[i], info);
	if (!json_object_get(root, "chosen_events"))
		info->chosen_events = is_chosen(info->part);
	ret = ret ? ret : parse_gaps(root, info);
	ret = ret ? ret : parse_nodes(root, info);
	return ret ? ret : parse_gfp_names(root, info);
}

int sidecar_begin_array(const json_t *root, const char *key, size_t item_size, size_t max,
			void *items, size_t *nr, const json_t **array)
{
	void *memory;
	size_t n;
	int ret = find_array(root, key, max, array, &n);

	if (ret || !*array)
		return ret;
	memory = calloc(n + 1, item_size);
	if (!memory)
		return -ENOMEM;
	memcpy(items, &memory, sizeof(memory));
	*nr = n;
	return 0;
}

static int parse_vcpus(const json_t *root, struct sidecar *sidecar)
{
	const json_t *array;
	int ret = sidecar_begin_array(root, "vcpus", sizeof(*sidecar->vcpus), TRACE_MAX_STREAMS,
				      &sidecar->vcpus, &sidecar->nr_vcpus, &array);

	for (size_t i = 0; !ret && i < sidecar->nr_vcpus; i++) {
		const json_t *item = json_array_get(array, i);
		struct sidecar_vcpu *vcpu = &sidecar->vcpus[i];

		ret = json_is_object(item) ? json_read_count(item, "allocs", &vcpu->allocs)
					   : -EINVAL;
		ret = ret ? ret : json_read_count(item, "frees", &vcpu->frees);
		ret = ret ? ret : json_read_count(item, "overruns", &vcpu->overruns);
	}
	return ret;
}

/* The array `key` of an object in another array; parsed as sidecar_begin_array() says. */
static int parse_streams(const json_t *json, struct sidecar_instance *instance)
{
	const json_t *array;
	int ret = sidecar_begin_array(json, "vcpus", sizeof(*instance->streams), TRACE_MAX_STREAMS,
				      &instance->streams, &instance->nr_streams, &array);

	for (size_t i = 0; !ret && i < instance->nr_streams; i++) {
		const json_t *item = json_array_get(array, i);
		struct sidecar_stream *stream = &instance->streams[i];

		ret = json_is_object(item) ? json_read_count(item, "events", &stream->events)
					   : -EINVAL;
		ret = ret ? ret : json_read_count(item, "overruns", &stream->overruns);
	}
	return ret;
}

/* Lines of an array: what is no line of text is left out. */
static int parse_prototypes(const json_t *item, struct sidecar_instance *instance)
{
	const json_t *array;
	char *lines = NULL;
	size_t n, size;
	FILE *out;
	int ret = find_array(item, "prototypes", MAX_PROTOTYPES, &array, &n);

	if (ret || !array)
		return ret;
	out = open_memstream(&lines, &size);
	if (!out)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const char *line = json_string_value(json_array_get(array, i));
		char clean[MAX_PROTOTYPE];

		if (line)
			clean_text(clean, sizeof(clean), line);
		if (line)
			fprintf(out, "%s\n", clean);
	}
	if (text_stream_close(out)) {
		free(lines);
		return -ENOMEM;
	}
	instance->about.prototypes = lines;
	return 0;
}

/* Older sidecars do not say whether an instance is late: others than the first may be. */
static int parse_course(const json_t *item, bool is_first, struct trace_instance *about)
{
	int ret = 0;

	about->late = !is_first;
	if (json_object_get(item, "late"))
		ret = json_read_bool(item, "late", &about->late);
	if (!ret && json_object_get(item, "interrupted"))
		ret = json_read_bool(item, "interrupted", &about->interrupted);
	if (!ret && json_object_get(item, "removed"))
		ret = json_read_bool(item, "removed", &about->removed);
	return ret;
}

static int parse_instance(const json_t *item, bool is_first, struct sidecar_instance *instance)
{
	char spec[MAX_SPEC] = "", *name = NULL;
	int ret = json_is_object(item) ? sidecar_get_name(item, &name) : -EINVAL;

	instance->about.name = name;
	ret = ret ? ret : json_read_text(item, "spec", spec, sizeof(spec));
	/* sonde 0.1 did not write it */
	if (!ret && json_object_get(item, "lost"))
		ret = json_read_count(item, "lost", &instance->lost);
	if (ret)
		return ret;
	instance->about.spec = strdup(spec);
	if (!instance->about.spec)
		return -ENOMEM;
	ret = parse_course(item, is_first, &instance->about);
	ret = ret ? ret : parse_prototypes(item, instance);
	return ret ? ret : parse_streams(item, instance);
}

static int parse_instances(const json_t *root, struct sidecar *sidecar)
{
	const json_t *array;
	int ret = sidecar_begin_array(root, "instances", sizeof(*sidecar->instances),
				      TRACE_INSTANCES_MAX, &sidecar->instances,
				      &sidecar->nr_instances, &array);

	for (size_t i = 0; !ret && i < sidecar->nr_instances; i++)
		ret = parse_instance(json_array_get(array, i), !i, &sidecar->instances[i]);
	return ret;
}

static int parse_cache(const json_t *item, struct sidecar_cache *cache)
{
	int64_t id = 0;
	int ret = json_is_object(item) ? sidecar_get_name(item, &cache->name) : -EINVAL;

	ret = ret ? ret : json_read_signed(item, "id", &id);
	ret = ret ? ret : json_read_count(item, "object_size", &cache->object_size);
	ret = ret ? ret : json_read_count(item, "size", &cache->size);
	if (!ret && (id < 1 || id > UINT16_MAX))
		ret = -EINVAL;
	cache->id = (uint16_t)id;
	return ret;
}

static int compare_caches(const void *a, const void *b)
{
	const struct sidecar_cache *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static int parse_caches(const json_t *root, struct sidecar *sidecar)
{
	const json_t *array;
	int ret = sidecar_begin_array(root, "caches", sizeof(*sidecar->caches), MAX_CACHES,
				      &sidecar->caches, &sidecar->nr_caches, &array);

	for (size_t i = 0; !ret && i < sidecar->nr_caches; i++)
		ret = parse_cache(json_array_get(array, i), &sidecar->caches[i]);
	if (!ret && sidecar->nr_caches)
		qsort(sidecar->caches, sidecar->nr_caches, sizeof(*sidecar->caches),
		      compare_caches);
	return ret;
}

static int parse_root(const json_t *root, struct sidecar *sidecar, struct error *err)
{
	static int (*const parts[])(const json_t *, struct sidecar *) = {
		parse_vcpus, parse_instances, parse_caches, sidecar_parse_symbols};
	int64_t version = 0;
	int ret = json_read_signed(root, "version", &version);

	if (ret || version != SIDECAR_VERSION)
		return error_set(err, EINVAL, "not of version %d", SIDECAR_VERSION);
	ret = parse_info(root, &sidecar->info);
	ret = ret ? ret : json_read_bool(root, "complete", &sidecar->complete);
	for (size_t i = 0; !ret && i < sizeof(parts) / sizeof(parts[0]); i++)
		ret = parts[i](root, sidecar);
	if (ret)
		return error_set(err, -ret, "%s",
				 ret == -ENOMEM ? "out of memory"
						: "value of a wrong type or range");
	return 0;
}

int sidecar_parse(const void *text, size_t size, struct sidecar **out, struct error *err)
{
	json_error_t where;
	struct sidecar *sidecar;
	json_t *root;
	int ret;

	if (size > SIDECAR_MAX_SIZE)
		return error_set(err, EINVAL, "larger than 64 MiB");
	root = json_loadb(text, size, 0, &where);
	if (!root)
		return error_set(err, EINVAL, "not valid JSON in line %d", where.line);
	sidecar = calloc(1, sizeof(*sidecar));
	if (sidecar) {
		sidecar->has_checksums = json_object_get(root, JSON_CHECKSUM_MARK);
		sidecar->damaged = !json_take_checksum(root, text, size);
	}
	ret = sidecar ? parse_root(root, sidecar, err) : error_set(err, ENOMEM, "out of memory");
	json_decref(root);
	if (ret) {
		sidecar_destroy(sidecar);
		return ret;
	}
	*out = sidecar;
	return 0;
}
