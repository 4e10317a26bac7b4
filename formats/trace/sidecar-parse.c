/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "formats/base/text.h"
#include "formats/kmemtrace/kmemtrace.h"
#include "formats/trace/sidecar-fields.h"
#include "formats/trace/sidecar.h"

enum {
	MAX_FILE = 64 << 20,
	MAX_CACHES = UINT16_MAX,
	MAX_SYMBOLS = 1 << 20,
	MAX_NAME = 512,
};

/* The getters: an absent key leaves *out alone; one of the wrong type or range is an error. */
static int get_string(const json_t *object, const char *key, char *out, size_t size)
{
	const json_t *value = json_object_get(object, key);

	if (!value)
		return 0;
	if (!json_is_string(value))
		return -EINVAL;
	clean_text(out, size, json_string_value(value));
	return 0;
}

static int get_name(const json_t *object, char **out)
{
	char name[MAX_NAME] = "";

	if (get_string(object, "name", name, sizeof(name)))
		return -EINVAL;
	*out = strdup(name);
	return *out ? 0 : -ENOMEM;
}

static int get_signed(const json_t *object, const char *key, int64_t *out)
{
	const json_t *value = json_object_get(object, key);

	if (!value)
		return 0;
	if (!json_is_integer(value))
		return -EINVAL;
	*out = json_integer_value(value);
	return 0;
}

static int get_count(const json_t *object, const char *key, uint64_t *out)
{
	int64_t value = 0;

	if (get_signed(object, key, &value) || value < 0)
		return -EINVAL;
	*out = (uint64_t)value;
	return 0;
}

static int get_bool(const json_t *object, const char *key, bool *out)
{
	const json_t *value = json_object_get(object, key);

	if (!value)
		return 0;
	if (!json_is_boolean(value))
		return -EINVAL;
	*out = json_is_true(value);
	return 0;
}

static int get_address(const json_t *object, const char *key, uint64_t *out)
{
	const json_t *value = json_object_get(object, key);
	const char *text = json_string_value(value);
	size_t length;

	if (!value)
		return 0;
	if (!text || strncmp(text, "0x", 2))
		return -EINVAL;
	length = strlen(text + 2);
	if (!length || length > 16 || strspn(text + 2, "0123456789abcdefABCDEF") != length)
		return -EINVAL;
	*out = strtoull(text + 2, NULL, 16);
	return 0;
}

static int parse_gfp_names(const json_t *root, struct trace_info *info)
{
	const json_t *array = json_object_get(root, "gfp_flags");
	int ret = 0;

	if (!array)
		return 0;
	if (!json_is_array(array) || json_array_size(array) > GFP_NAMES_MAX)
		return -EINVAL;
	info->nr_gfp_names = json_array_size(array);
	for (size_t i = 0; !ret && i < info->nr_gfp_names; i++) {
		struct gfp_name *name = &info->gfp_names[i];
		const json_t *item = json_array_get(array, i);

		ret = get_string(item, "name", name->name, sizeof(name->name));
		ret = ret ? ret : get_address(item, "mask", &name->mask);
	}
	return ret;
}

static int parse_info(const json_t *root, struct trace_info *info)
{
	int ret = 0;

#define GET_STRING(key) ret = ret ? ret : get_string(root, #key, info->key, sizeof(info->key));
#define GET_SIGNED(key) ret = ret ? ret : get_signed(root, #key, &info->key);
#define GET_BOOL(key) ret = ret ? ret : get_bool(root, #key, &info->key);
#define GET_COUNT(key) ret = ret ? ret : get_count(root, #key, &info->key);
	SIDECAR_STRINGS(GET_STRING)
	SIDECAR_SIGNED(GET_SIGNED)
	SIDECAR_COUNTS(GET_COUNT)
	SIDECAR_BOOLS(GET_BOOL)
	ret = ret ? ret : counters_get(root, &info->counters);
	ret = ret ? ret : parse_gfp_names(root, info);
	return ret ? ret : get_address(root, "phys_base", &info->phys_base);
}

/*
 * Allocate *items for the array `key` (absent: empty), and set *nr at once to what is allocated,
 * so that destroying a half-parsed sidecar is safe.
 */
static int begin_array(const json_t *root, const char *key, size_t item_size, size_t max,
		       void *items, size_t *nr, const json_t **array)
{
	void *memory;

	*array = json_object_get(root, key);
	if (!*array)
		return 0;
	if (!json_is_array(*array) || json_array_size(*array) > max)
		return -EINVAL;
	memory = calloc(json_array_size(*array) + 1, item_size);
	if (!memory)
		return -ENOMEM;
	memcpy(items, &memory, sizeof(memory));
	*nr = json_array_size(*array);
	return 0;
}

static int parse_vcpus(const json_t *root, struct sidecar *sidecar)
{
	const json_t *array;
	int ret = begin_array(root, "vcpus", sizeof(*sidecar->vcpus), KMEMTRACE_MAX_VCPUS,
			      &sidecar->vcpus, &sidecar->nr_vcpus, &array);

	for (size_t i = 0; !ret && i < sidecar->nr_vcpus; i++) {
		const json_t *item = json_array_get(array, i);
		struct sidecar_vcpu *vcpu = &sidecar->vcpus[i];

		ret = json_is_object(item) ? get_count(item, "allocs", &vcpu->allocs) : -EINVAL;
		ret = ret ? ret : get_count(item, "frees", &vcpu->frees);
		ret = ret ? ret : get_count(item, "overruns", &vcpu->overruns);
	}
	return ret;
}

static int parse_cache(const json_t *item, struct sidecar_cache *cache)
{
	int64_t id = 0;
	int ret = json_is_object(item) ? get_name(item, &cache->name) : -EINVAL;

	ret = ret ? ret : get_signed(item, "id", &id);
	ret = ret ? ret : get_count(item, "object_size", &cache->object_size);
	ret = ret ? ret : get_count(item, "size", &cache->size);
	if (!ret && (id < 1 || id > UINT16_MAX))
		ret = -EINVAL;
	cache->id = (uint16_t)id;
	return ret;
}

static int parse_symbol(const json_t *item, struct sidecar_symbol *symbol)
{
	int ret = json_is_object(item) ? get_name(item, &symbol->name) : -EINVAL;

	ret = ret ? ret : get_address(item, "address", &symbol->address);
	ret = ret ? ret : get_address(item, "start", &symbol->start);
	return ret ? ret : get_count(item, "size", &symbol->size);
}

static int compare_caches(const void *a, const void *b)
{
	const struct sidecar_cache *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static int parse_caches(const json_t *root, struct sidecar *sidecar)
{
	const json_t *array;
	int ret = begin_array(root, "caches", sizeof(*sidecar->caches), MAX_CACHES,
			      &sidecar->caches, &sidecar->nr_caches, &array);

	for (size_t i = 0; !ret && i < sidecar->nr_caches; i++)
		ret = parse_cache(json_array_get(array, i), &sidecar->caches[i]);
	if (!ret && sidecar->nr_caches)
		qsort(sidecar->caches, sidecar->nr_caches, sizeof(*sidecar->caches),
		      compare_caches);
	return ret;
}

static int compare_symbols(const void *a, const void *b)
{
	const struct sidecar_symbol *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static int parse_symbols(const json_t *root, struct sidecar *sidecar)
{
	const json_t *array;
	int ret = begin_array(root, "symbols", sizeof(*sidecar->symbols), MAX_SYMBOLS,
			      &sidecar->symbols, &sidecar->nr_symbols, &array);

	for (size_t i = 0; !ret && i < sidecar->nr_symbols; i++)
		ret = parse_symbol(json_array_get(array, i), &sidecar->symbols[i]);
	if (!ret && sidecar->nr_symbols)
		qsort(sidecar->symbols, sidecar->nr_symbols, sizeof(*sidecar->symbols),
		      compare_symbols);
	return ret;
}

static int parse_root(const json_t *root, struct sidecar *sidecar, struct error *err)
{
	static int (*const parts[])(const json_t *, struct sidecar *) = {parse_vcpus, parse_caches,
									 parse_symbols};
	int64_t version = 0;
	int ret = get_signed(root, "version", &version);

	if (ret || version != SIDECAR_VERSION)
		return error_set(err, EINVAL, "%s: not of version %d", SIDECAR_NAME,
				 SIDECAR_VERSION);
	ret = parse_info(root, &sidecar->info);
	ret = ret ? ret : get_bool(root, "complete", &sidecar->complete);
	for (size_t i = 0; !ret && i < sizeof(parts) / sizeof(parts[0]); i++)
		ret = parts[i](root, sidecar);
	if (ret)
		return error_set(err, -ret, "%s: %s", SIDECAR_NAME,
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

	if (size > MAX_FILE)
		return error_set(err, EINVAL, "%s: larger than 64 MiB", SIDECAR_NAME);
	root = json_loadb(text, size, 0, &where);
	if (!root)
		return error_set(err, EINVAL, "%s: not valid JSON in line %d", SIDECAR_NAME,
				 where.line);
	sidecar = calloc(1, sizeof(*sidecar));
	ret = sidecar ? parse_root(root, sidecar, err)
		      : error_set(err, ENOMEM, "%s: out of memory", SIDECAR_NAME);
	json_decref(root);
	if (ret) {
		sidecar_destroy(sidecar);
		return ret;
	}
	*out = sidecar;
	return 0;
}

/* Read a whole regular file of bounded size. */
static int read_all(int fd, char **text, size_t *size)
{
	struct stat st;
	size_t done = 0;
	ssize_t n = 1;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size > MAX_FILE)
		return -EINVAL;
	*text = malloc((size_t)st.st_size + 1);
	if (!*text)
		return -ENOMEM;
	while (done < (size_t)st.st_size && n > 0) {
		n = pread(fd, *text + done, (size_t)st.st_size - done, (off_t)done);
		if (n > 0)
			done += (size_t)n;
	}
	*size = done;
	return n < 0 ? -errno : 0;
}

int sidecar_load(int dir_fd, struct sidecar **out, struct error *err)
{
	int fd = openat(dir_fd, SIDECAR_HIDDEN_NAME, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	char *text = NULL;
	size_t size = 0;
	int ret;

	if (fd < 0)
		fd = openat(dir_fd, SIDECAR_NAME, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno, "%s: %s", SIDECAR_NAME, strerror(errno));
	ret = read_all(fd, &text, &size);
	close(fd);
	ret = ret ? error_set(err, -ret, "%s: %s", SIDECAR_NAME, strerror(-ret))
		  : sidecar_parse(text, size, out, err);
	free(text);
	return ret;
}

int sidecar_add_cache(struct sidecar *sidecar, const struct sidecar_cache *cache)
{
	size_t place = sidecar->nr_caches;
	struct sidecar_cache *bigger;
	char *name;

	if (sidecar_cache(sidecar, cache->id))
		return 0;
	while (place && sidecar->caches[place - 1].id > cache->id)
		place--;
	bigger = reallocarray(sidecar->caches, sidecar->nr_caches + 1, sizeof(*bigger));
	if (!bigger)
		return -ENOMEM;
	sidecar->caches = bigger;
	name = strdup(cache->name);
	if (!name)
		return -ENOMEM;
	memmove(bigger + place + 1, bigger + place, (sidecar->nr_caches - place) * sizeof(*bigger));
	bigger[place] = *cache;
	bigger[place].name = name;
	sidecar->nr_caches++;
	return 0;
}

void sidecar_destroy(struct sidecar *sidecar)
{
	if (!sidecar)
		return;
	for (size_t i = 0; i < sidecar->nr_caches; i++)
		free(sidecar->caches[i].name);
	for (size_t i = 0; i < sidecar->nr_symbols; i++)
		free(sidecar->symbols[i].name);
	free(sidecar->vcpus);
	free(sidecar->caches);
	free(sidecar->symbols);
	free(sidecar);
}

const struct sidecar_symbol *sidecar_symbol(const struct sidecar *sidecar, uint64_t address)
{
	size_t low = 0, high = sidecar ? sidecar->nr_symbols : 0;
	const struct sidecar_symbol *symbol;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (sidecar->symbols[mid].start <= address)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low)
		return NULL;
	symbol = &sidecar->symbols[low - 1];
	return address == symbol->address || address - symbol->start < symbol->size ? symbol : NULL;
}

const struct sidecar_cache *sidecar_cache(const struct sidecar *sidecar, uint16_t id)
{
	struct sidecar_cache key = {.id = id};

	if (!sidecar || !sidecar->nr_caches)
		return NULL;
	return bsearch(&key, sidecar->caches, sidecar->nr_caches, sizeof(key), compare_caches);
}
