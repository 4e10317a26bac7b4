/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/trace/sidecar.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/base/fs.h"
#include "formats/trace/sidecar-fields.h"

static json_t *string_value(const char *text)
{
	char clean[512];

	clean_text(clean, sizeof(clean), text);
	return json_string_nocheck(clean);
}

static json_t *count_value(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

static json_t *address_value(uint64_t address)
{
	return json_sprintf("0x%" PRIx64, address);
}

static int put_gfp_names(json_t *root, const struct trace_info *info)
{
	json_t *array = json_array();
	int failed = 0;

	for (size_t i = 0; i < info->nr_gfp_names; i++)
		failed |= json_array_append_new(
			array, json_pack("{so so}", "name", string_value(info->gfp_names[i].name),
					 "mask", address_value(info->gfp_names[i].mask)));
	return failed | json_object_set_new(root, "gfp_flags", array);
}

static int put_info(json_t *root, const struct trace_info *info)
{
	int failed = 0;

#define PUT_STRING(key) failed |= json_object_set_new(root, #key, string_value(info->key));
#define PUT_SIGNED(key) failed |= json_object_set_new(root, #key, json_integer(info->key));
#define PUT_BOOL(key) failed |= json_object_set_new(root, #key, json_boolean(info->key));
#define PUT_COUNT(key) failed |= json_object_set_new(root, #key, count_value(info->key));
	SIDECAR_STRINGS(PUT_STRING)
	SIDECAR_SIGNED(PUT_SIGNED)
	SIDECAR_COUNTS(PUT_COUNT)
	failed |= put_gfp_names(root, info);
	failed |= counters_put(root, &info->counters);
	failed |= json_object_set_new(root, "phys_base", address_value(info->phys_base));
	SIDECAR_BOOLS(PUT_BOOL)
	return failed;
}

static int put_vcpus(json_t *array, const struct sidecar *sidecar)
{
	int failed = 0;

	for (size_t i = 0; i < sidecar->nr_vcpus; i++) {
		const struct sidecar_vcpu *vcpu = &sidecar->vcpus[i];

		failed |= json_array_append_new(
			array, json_pack("{so so so}", "allocs", count_value(vcpu->allocs), "frees",
					 count_value(vcpu->frees), "overruns",
					 count_value(vcpu->overruns)));
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
					 string_value(cache->name), "object_size",
					 count_value(cache->object_size), "size",
					 count_value(cache->size)));
	}
	return failed;
}

static int put_symbols(json_t *array, const struct sidecar *sidecar)
{
	int failed = 0;

	for (size_t i = 0; i < sidecar->nr_symbols; i++) {
		const struct sidecar_symbol *symbol = &sidecar->symbols[i];

		failed |= json_array_append_new(
			array,
			json_pack("{so so so so}", "address", address_value(symbol->address),
				  "name", string_value(symbol->name), "start",
				  address_value(symbol->start), "size", count_value(symbol->size)));
	}
	return failed;
}

static json_t *to_json(const struct sidecar *sidecar)
{
	json_t *vcpus = json_array(), *caches = json_array(), *symbols = json_array();
	int failed = put_vcpus(vcpus, sidecar);
	json_t *root;

	failed |= put_caches(caches, sidecar);
	failed |= put_symbols(symbols, sidecar);
	root = json_pack("{si sb so so so}", "version", SIDECAR_VERSION, "complete",
			 sidecar->complete, "vcpus", vcpus, "caches", caches, "symbols", symbols);
	failed |= put_info(root, &sidecar->info);
	if (failed) {
		json_decref(root);
		return NULL;
	}
	return root;
}

int sidecar_write(int dir_fd, const char *name, const struct sidecar *sidecar, struct error *err)
{
	json_t *root = to_json(sidecar);
	char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
	char temp_name[64];
	int ret;

	json_decref(root);
	if (!text)
		return error_set(err, ENOMEM, "%s: out of memory", name);
	snprintf(temp_name, sizeof(temp_name), "%s%s", name, SIDECAR_TEMP_SUFFIX);
	ret = file_replace(dir_fd, name, temp_name, text, strlen(text));
	free(text);
	if (ret)
		return error_set(err, -ret, "%s: %s", name, strerror(-ret));
	return 0;
}
