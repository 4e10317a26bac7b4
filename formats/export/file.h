/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EXPORT_FILE_H
#define SONDE_FORMATS_EXPORT_FILE_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "formats/base/error.h"

/*
 * The file that an export makes. It has no name until it is whole: an export that is interrupted
 * leaves nothing behind. What is written is gathered in a buffer.
 *
 * The file "-" is standard output, which gets what leaves the buffer at once.
 *
 * The first error of writing is kept. After it nothing is written, and export_file_finish() reports
 * it; until then no caller has to check, but one that writes for long may look at `error`.
 */
struct export_file {
	int fd;
	int error;        /* 0, or -errno */
	uint64_t written; /* bytes that left the buffer */
	size_t used;
	uint8_t *buffer; /* EXPORT_BUFFER bytes, and EXPORT_ROOM more */
	char *dir;       /* where the file will be, of standard output TMPDIR */
	int dir_fd;      /* of that; -1: it is not open */
	char *name;      /* that it will have there */
	char temp_name[40]; /* where it is meanwhile; "": it has no name */
	bool replace;
	bool is_stdout; /* then `fd` is that, or a file in TMPDIR, in which it is gathered first: */
	bool is_gathered;
};

enum { EXPORT_BUFFER = 1 << 18, EXPORT_ROOM = 1 << 18 };

/*
 * Begin the file `path`. -EEXIST if there is one, unless it may be replaced, which happens when
 * the new one is whole. It is readable by its owner only, as traces are. The file is for
 * export_file_destroy().
 */
int export_file_create(const char *path, bool replace, struct export_file **out, struct error *err);

/* Before anything is put: export_patch() will be called. What is for standard output is gathered in
 * a scratch file until the end. 0 or -errno. */
int export_file_will_patch(struct export_file *file, struct error *err);

/* Give the file its name, when all is written. Returns 0, or -errno and there is no file. */
int export_file_finish(struct export_file *file, struct error *err);

/* Say that the file, or a scratch file, could not be written: -errno. -ENOMEM is about no file.
 * Returns it. */
int export_file_error(const struct export_file *file, int ret, struct error *err);

/* Close the file; if it has not been finished, it is gone. NULL-safe. */
void export_file_destroy(struct export_file *file);

/* Write out the buffer. */
void export_flush(struct export_file *file);

/* Append bytes, a string, or what printf() makes of it, of at most EXPORT_ROOM bytes. */
void export_put(struct export_file *file, const void *bytes, size_t size);
void export_text(struct export_file *file, const char *text);
void export_printf(struct export_file *file, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Overwrite bytes that were written before; see export_file_will_patch(). */
void export_patch(struct export_file *file, uint64_t offset, const void *bytes, size_t size);

/* A new file without a name beside the file, or for standard output in TMPDIR: a descriptor, or
 * -errno. */
int export_scratch_file(struct export_file *file, struct error *err);

/* Bytes before what is appended next. */
static inline uint64_t export_offset(const struct export_file *file)
{
	return file->written + file->used;
}

/* Room for EXPORT_ROOM bytes to be appended; export_took() says up to where they were. */
static inline uint8_t *export_room(struct export_file *file)
{
	if (file->used >= EXPORT_BUFFER)
		export_flush(file);
	return file->buffer + file->used;
}

static inline void export_took(struct export_file *file, const uint8_t *end)
{
	file->used = (size_t)(end - file->buffer);
}

/* Numbers, little-endian. Each returns where it ends. */
static inline uint8_t *put_le16(uint8_t *at, uint16_t value)
{
	value = htole16(value);
	memcpy(at, &value, sizeof(value));
	return at + sizeof(value);
}

static inline uint8_t *put_le32(uint8_t *at, uint32_t value)
{
	value = htole32(value);
	memcpy(at, &value, sizeof(value));
	return at + sizeof(value);
}

static inline uint8_t *put_le64(uint8_t *at, uint64_t value)
{
	value = htole64(value);
	memcpy(at, &value, sizeof(value));
	return at + sizeof(value);
}

#endif
