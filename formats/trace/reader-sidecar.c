/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a trace reader knows by the sidecar, and by the file of names beside it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "formats/trace/reader-internal.h"

/* Sets sidecar_error unless it is whole. */
static void load_first(struct trace_reader *reader, const char *name)
{
	if (sidecar_load(reader->files, &reader->sidecar, &reader->sidecar_error) == -ENOENT &&
	    name[0] == '.')
		error_set(&reader->sidecar_error, ENOENT, "%s is missing: copy hidden files, too",
			  name);
	if (reader->sidecar && reader->sidecar->damaged)
		error_set(&reader->sidecar_error, EINVAL, "%s is damaged: its checksum is wrong",
			  name);
}

/* Instead of a sidecar that is not whole. Names are only in that one, as far as it can be parsed.
 */
static void use_copy(struct trace_reader *reader, const char *name, struct sidecar *copy)
{
	struct sidecar *first = reader->sidecar;
	struct error *err = &reader->sidecar_error, *damage = &reader->sidecar_damage;

	error_set(damage, EINVAL, "its copy is read%s",
		  first ? "" : ", which has no names of functions");
	if (err->code == ENOENT)
		error_prefix(damage, "%s is missing; ", name);
	else
		error_prefix(damage, "%s; ", err->text);
	if (first)
		sidecar_add_symbols(copy, first->symbols, first->nr_symbols);
	sidecar_destroy(first);
	reader->sidecar = copy;
	*err = (struct error){0};
}

/* The copy is read only if it is needed, and looked at in any case. */
static void load_copy(struct trace_reader *reader, const char *name)
{
	struct error *err = &reader->sidecar_error, *damage = &reader->sidecar_damage;
	struct sidecar *copy = NULL;
	const int ret = sidecar_load_copy(reader->files, name, &copy);

	if (err->code && copy && !copy->damaged) {
		use_copy(reader, name, copy);
		return;
	}
	if (err->code && err->code != ENOENT)
		*damage = *err;
	else if (ret == -EINVAL || (copy && copy->damaged))
		error_set(damage, EINVAL, "%s%s is damaged: its checksum is wrong", name,
			  SIDECAR_COPY_SUFFIX);
	sidecar_destroy(copy);
}

void trace_reader_load_sidecar(struct trace_reader *reader)
{
	const char *name = reader->decoder->ops->sidecar_name;

	/* In this order: a writer that ends now is not taken for one that was killed. */
	reader->being_written = trace_files_are_being_written(reader->files);
	load_first(reader, name);
	load_copy(reader, name);
	sidecar_names_file(name, reader->names_file, sizeof(reader->names_file));
}

static bool find_names(struct trace_reader *reader)
{
	if (!reader->names.read &&
	    trace_files_source(reader->files, reader->names_file, &reader->names, NULL))
		reader->names.read = NULL;
	if (reader->names.read)
		byte_source_refresh(&reader->names);
	return reader->names.read && reader->names.size > reader->names_size &&
	       reader->names.size <= SIDECAR_MAX_SIZE;
}

/* What has come since the last time. */
static void load_more_names(struct trace_reader *reader)
{
	const uint64_t from = reader->names_size;
	int64_t used = 0;
	ssize_t size;
	char *text;

	if (!find_names(reader))
		return;
	text = malloc(reader->names.size - from);
	size = text ? byte_source_fill(&reader->names, text, reader->names.size - from, from) : 0;
	if (size > 0)
		used = sidecar_add_names(reader->sidecar, text, (size_t)size);
	if (used > 0)
		reader->names_size += (uint64_t)used;
	free(text);
	if (reader->sidecar->damaged_names)
		snprintf(reader->names_damage, sizeof(reader->names_damage),
			 "%.63s is damaged: the checksum of %.40s is wrong", reader->names_file,
			 text_number(reader->sidecar->damaged_names, "line").s);
}

/* A writer that ends moves the names to the sidecar; this reader may never have seen their file. */
static void load_last_names(struct trace_reader *reader)
{
	struct sidecar *last;

	if (reader->sidecar->complete || reader->has_last_names ||
	    (reader->names.read && reader->following) || sidecar_load(reader->files, &last, NULL))
		return;
	if (last->complete)
		reader->has_last_names =
			!sidecar_add_symbols(reader->sidecar, last->symbols, last->nr_symbols);
	sidecar_destroy(last);
}

void trace_reader_load_names(struct trace_reader *reader)
{
	if (!reader->sidecar)
		return;
	load_more_names(reader);
	load_last_names(reader);
}

void trace_reader_reload_sidecar(struct trace_reader *reader)
{
	const char *name = reader->decoder->ops->sidecar_name;
	struct trace_file_stamp stamp = trace_files_stamp(reader->files, name);
	struct sidecar *news;

	reader->being_written = reader->following;
	if (!reader->sidecar || reader->sidecar->complete ||
	    trace_file_stamps_equal(&stamp, &reader->sidecar_stamp) ||
	    sidecar_load(reader->files, &news, NULL))
		return;
	/* The streams of a complete one are read to their ends only when their writer has ended. */
	if (!news->damaged && (!news->complete || !reader->following) &&
	    !sidecar_take_news(reader->sidecar, news))
		reader->sidecar_stamp = stamp;
	sidecar_destroy(news);
}
