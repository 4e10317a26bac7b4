/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/trace/sidecar.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/fs.h"
#include "formats/base/u64-map.h"

static int put(int dir_fd, const char *name, const char *temp_name, const struct sidecar *sidecar)
{
	char *text = sidecar_text(sidecar);
	const size_t size = text ? strlen(text) : 0;
	int ret = text ? -EFBIG : -ENOMEM;

	if (text && size <= SIDECAR_MAX_SIZE)
		ret = file_replace(dir_fd, name, temp_name, text, size,
				   sidecar->complete ? FILE_DURABLE : FILE_VOLATILE);
	free(text);
	return ret;
}

/* It is only for a trace that is damaged later: a disk that has no room for it is no fault. */
static void put_copy(int dir_fd, const char *name, const char *temp_name,
		     const struct sidecar *sidecar)
{
	struct sidecar nameless = *sidecar;
	char copy_name[64];

	nameless.nr_symbols = 0;
	snprintf(copy_name, sizeof(copy_name), "%s%s", name, SIDECAR_COPY_SUFFIX);
	put(dir_fd, copy_name, temp_name, &nameless);
}

int sidecar_write(int dir_fd, const char *name, const struct sidecar *sidecar, struct error *err)
{
	char temp_name[64];
	int ret;

	snprintf(temp_name, sizeof(temp_name), "%s%s", name, SIDECAR_TEMP_SUFFIX);
	ret = put(dir_fd, name, temp_name, sidecar);
	if (ret)
		return error_set(err, -ret, "%s: %s", name, strerror(-ret));
	if (sidecar->complete)
		put_copy(dir_fd, name, temp_name, sidecar);
	return 0;
}

static int load(struct trace_files *files, const char *name, struct sidecar **out,
		struct error *err)
{
	char *text;
	size_t size;
	int ret = trace_files_load(files, name, SIDECAR_MAX_SIZE, &text, &size, err);

	if (ret)
		return ret;
	ret = sidecar_parse(text, size, out, err);
	if (ret)
		error_prefix(err, "%s: ", name);
	free(text);
	return ret;
}

int sidecar_load(struct trace_files *files, struct sidecar **out, struct error *err)
{
	struct error hidden = {0};
	int ret = load(files, SIDECAR_HIDDEN_NAME, out, &hidden);

	if (ret == -ENOENT)
		return load(files, SIDECAR_NAME, out, err);
	return ret ? error_set(err, hidden.code, "%s", hidden.text) : 0;
}

int sidecar_load_copy(struct trace_files *files, const char *name, struct sidecar **out)
{
	char copy_name[64];

	snprintf(copy_name, sizeof(copy_name), "%s%s", name, SIDECAR_COPY_SUFFIX);
	return load(files, copy_name, out, NULL);
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

static void swap_counts(struct sidecar *a, struct sidecar *b)
{
	const struct sidecar old = *a;

	a->vcpus = b->vcpus;
	a->nr_vcpus = b->nr_vcpus;
	b->vcpus = old.vcpus;
	b->nr_vcpus = old.nr_vcpus;
	for (size_t i = 0; i < a->nr_instances && i < b->nr_instances; i++) {
		struct sidecar_instance *x = &a->instances[i], *y = &b->instances[i];
		struct sidecar_stream *const streams = x->streams;

		x->streams = y->streams;
		x->nr_streams = y->nr_streams;
		x->lost = y->lost;
		x->about.interrupted = y->about.interrupted;
		x->about.removed = y->about.removed;
		y->streams = streams;
	}
}

int sidecar_take_news(struct sidecar *sidecar, struct sidecar *news)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < news->nr_caches; i++)
		ret = sidecar_add_cache(sidecar, &news->caches[i]);
	if (!ret && news->complete)
		ret = sidecar_add_symbols(sidecar, news->symbols, news->nr_symbols);
	if (ret)
		return ret;
	swap_counts(sidecar, news);
	sidecar->info = news->info;
	sidecar->complete = news->complete;
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
	for (size_t i = 0; i < sidecar->nr_instances; i++) {
		free((char *)(uintptr_t)sidecar->instances[i].about.name);
		free((char *)(uintptr_t)sidecar->instances[i].about.spec);
		free((char *)(uintptr_t)sidecar->instances[i].about.prototypes);
		free(sidecar->instances[i].streams);
	}
	source_lines_destroy(sidecar->lines);
	free(sidecar->instances);
	free(sidecar->vcpus);
	free(sidecar->caches);
	free(sidecar->symbols);
	free(sidecar);
}

static uint64_t cache_id(const void *caches, size_t i)
{
	return ((const struct sidecar_cache *)caches)[i].id;
}

const struct sidecar_cache *sidecar_cache(const struct sidecar *sidecar, uint16_t id)
{
	size_t above =
		sidecar ? search_above(sidecar->nr_caches, id, cache_id, sidecar->caches) : 0;

	return above && sidecar->caches[above - 1].id == id ? &sidecar->caches[above - 1] : NULL;
}

uint64_t sidecar_stack_bytes(const struct sidecar *sidecar)
{
	const uint64_t usual =
		16 << 10; /* THREAD_SIZE and IRQ_STACK_SIZE of x86-64 without KASAN */

	return sidecar && sidecar->info.stack_bytes ? sidecar->info.stack_bytes : usual;
}

const char *sidecar_prototypes(const struct sidecar *sidecar, const char *instance)
{
	for (size_t i = 0; sidecar && i < sidecar->nr_instances; i++)
		if (!strcmp(sidecar->instances[i].about.name, instance))
			return sidecar->instances[i].about.prototypes;
	return NULL;
}

bool sidecar_is_whole(const struct sidecar *sidecar, const struct trace_instance *instance)
{
	bool is_whole = kmem_spec_is_whole(instance->spec);

	for (size_t i = 0; sidecar && i < sidecar->nr_instances; i++) {
		const struct trace_instance *about = &sidecar->instances[i].about;

		if (!strcmp(about->name, instance->name))
			is_whole &= kmem_spec_is_whole(about->spec);
	}
	return is_whole;
}

/* Which one of those with its name, in their order: a reader's has files cpuN.NAME.2 and so on. */
static size_t ordinal_of(const struct trace_instance *instance)
{
	const char *dot = instance->suffix ? strrchr(instance->suffix, '.') : NULL;
	const size_t n = dot ? strtoul(dot + 1, NULL, 10) : 0;

	return n > 1 ? n : 1;
}

/* NULL: it has none. */
static const struct trace_instance *about(const struct sidecar *sidecar,
					  const struct trace_instance *instance)
{
	size_t left = ordinal_of(instance);
	const struct trace_instance *found = NULL;

	for (size_t i = 0; sidecar && left && i < sidecar->nr_instances; i++) {
		if (strcmp(sidecar->instances[i].about.name, instance->name))
			continue;
		found = &sidecar->instances[i].about;
		left--;
	}
	return left ? NULL : found;
}

bool sidecar_is_interrupted(const struct sidecar *sidecar, const struct trace_instance *instance)
{
	const struct trace_instance *own = about(sidecar, instance);

	return own && own->interrupted;
}

bool sidecar_is_removed(const struct sidecar *sidecar, const struct trace_instance *instance)
{
	const struct trace_instance *own = about(sidecar, instance);

	return own && own->removed;
}

bool sidecar_is_late(const struct sidecar *sidecar, const struct trace_instance *instance)
{
	const struct trace_instance *own = about(sidecar, instance);

	return own && own->late;
}

const char *sidecar_last_spec(const struct sidecar *sidecar, const struct trace_instance *instance)
{
	const struct trace_instance *own = about(sidecar, instance);

	return own && own->spec ? own->spec : instance->spec;
}

bool sidecar_is_from_first(const struct sidecar *sidecar, const struct trace_instance *instance)
{
	return sidecar && sidecar->info.from_first_allocation &&
	       !sidecar_is_late(sidecar, instance);
}

bool sidecar_is_from_boot(const struct sidecar *sidecar)
{
	bool any = sidecar && !sidecar->nr_instances;

	for (size_t i = 0; sidecar && !any && i < sidecar->nr_instances; i++)
		any = !sidecar->instances[i].about.late;
	return any && sidecar->info.from_first_allocation;
}

/* Streams of kmemtrace have no spec of their own. */
static bool has_same_types(const struct trace_instance *first, const struct trace_instance *last)
{
	return first == &kmem_instance ||
	       kmem_spec_types(first->spec) == kmem_spec_types(last->spec);
}

bool sidecar_has_frees(const struct sidecar *sidecar, const struct trace_instance *instance)
{
	bool has = !kmem_spec_has_condition(instance->spec);

	for (size_t i = 0; sidecar && i < sidecar->nr_instances; i++) {
		const struct trace_instance *about = &sidecar->instances[i].about;

		if (!strcmp(about->name, instance->name))
			has &= !kmem_spec_has_condition(about->spec) &&
			       has_same_types(instance, about);
	}
	return has && !(sidecar && sidecar->info.chosen_events);
}
