/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/sidecar.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/sidecar-fields.h"

static json_t *string_value(const char *text)
{
	char clean[512];
	size_t n;

	for (n = 0; text[n] && n < sizeof(clean) - 1; n++)
		clean[n] = (char)(text[n] >= ' ' && text[n] <= '~' ? text[n] : '?');
	return json_stringn_nocheck(clean, n);
}

static json_t *count_value(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

static json_t *address_value(uint64_t address)
{
	return json_sprintf("0x%" PRIx64, address);
}

static int put_info(json_t *root, const struct trace_info *info)
{
	int failed = 0;

#define PUT_STRING(key) failed |= json_object_set_new(root, #key, string_value(info->key));
#define PUT_SIGNED(key) failed |= json_object_set_new(root, #key, json_integer(info->key));
#define PUT_COUNT(key) failed |= json_object_set_new(root, #key, count_value(info->key));
	SIDECAR_STRINGS(PUT_STRING)
	SIDECAR_SIGNED(PUT_SIGNED)
	SIDECAR_COUNTS(PUT_COUNT)
	failed |= json_object_set_new(root, "phys_base", address_value(info->phys_base));
	failed |= json_object_set_new(root, "from_first_allocation",
				      json_boolean(info->from_first_allocation));
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

static int write_text(int fd, const char *text, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = pwrite(fd, text + done, size - done, (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		done += (size_t)n;
	}
	/* The temporary file may hold reserved space behind the text. */
	return ftruncate(fd, (off_t)size) ? -errno : 0;
}

void sidecar_reserve(int dir_fd, size_t bytes)
{
	int fd = openat(dir_fd, SIDECAR_TEMP_NAME, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
			0666);

	if (fd < 0)
		return;
	if (posix_fallocate(fd, 0, (off_t)bytes))
		unlinkat(dir_fd, SIDECAR_TEMP_NAME, 0);
	close(fd);
}

static int replace(int dir_fd, const char *text)
{
	int fd = openat(dir_fd, SIDECAR_TEMP_NAME, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
			0666);
	int ret;

	if (fd < 0)
		return -errno;
	ret = write_text(fd, text, strlen(text));
	if (!ret && fdatasync(fd) && errno != EINVAL)
		ret = -errno;
	if (close(fd) && !ret)
		ret = -errno;
	if (!ret && renameat(dir_fd, SIDECAR_TEMP_NAME, dir_fd, SIDECAR_NAME))
		ret = -errno;
	if (ret)
		unlinkat(dir_fd, SIDECAR_TEMP_NAME, 0);
	return ret;
}

int sidecar_write(int dir_fd, const struct sidecar *sidecar, struct error *err)
{
	json_t *root = to_json(sidecar);
	char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
	int ret;

	json_decref(root);
	if (!text)
		return error_set(err, ENOMEM, "%s: out of memory", SIDECAR_NAME);
	ret = replace(dir_fd, text);
	free(text);
	if (ret)
		return error_set(err, -ret, "%s: %s", SIDECAR_NAME, strerror(-ret));
	return 0;
}
