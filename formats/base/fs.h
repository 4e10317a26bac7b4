/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_BASE_FS_H
#define SONDE_FORMATS_BASE_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"

/*
 * A trace has addresses and names of a guest's kernel: its directory and files are for their owner
 * only, whatever the umask says. Others may be able to create files in a directory that was there
 * before: so no file of theirs is opened, and no link is followed.
 */

/*
 * Make a directory for a trace, or take one that is there, empty and writable. Returns a file
 * descriptor of it, or -errno. -EPERM: others could replace files in it, as it belongs to another
 * user than this one and root, or its mode lets them write without the sticky bit. -ELOOP: it is a
 * symbolic link, which others may turn elsewhere.
 */
int output_dir_open(const char *dir, struct error *err);

/* A new file for writing: a descriptor, or -errno. */
int output_file_create(int dir_fd, const char *name);
/* The same, but a file of this user's that is there already is opened with its content. Another's
 * is removed. */
int output_file_open(int dir_fd, const char *name);

/* A file of output_file_create(), again. -EPERM: something else has taken its place. */
int output_file_reopen(int dir_fd, const char *name);

/* A trace may have more files than a process may open by default: raise that to what the system
 * allows. */
void files_allow_all(void);

/* A file that would exceed this process's limit then fails with -EFBIG, as on a full disk. Without
 * it a signal ends the process, which can say nothing. */
void files_survive_limit(void);

/* Whether an output is standard output, as in other programs: "-". A file of that name is "./-". */
bool path_is_stdout(const char *path);

/* Read the first `size` bytes of a regular file. Returns 0 or -errno; -EIO: it is shorter. */
int file_read(int fd, void *bytes, size_t size, struct error *err);

/* Write all of `bytes` where the descriptor stands, as to a pipe, and wait while it is full. 0 or
 * -errno. */
int file_write(int fd, const void *bytes, size_t size);

/* Writing the files of a trace directory, on disks that may be full. All return 0 or -errno. */

/* Write all of `bytes` at `offset`. *done is the number of bytes written, also on failure. */
int file_write_at(int fd, const void *bytes, size_t size, uint64_t offset, size_t *done);

/*
 * Create or replace the file `name` with this content. It is written as `temp_name` and then
 * renamed, so that a reader sees the old content or the new. FILE_DURABLE waits until the content
 * is on the disk, so that this holds after a power failure, too.
 */
enum file_durability { FILE_VOLATILE, FILE_DURABLE };
int file_replace(int dir_fd, const char *name, const char *temp_name, const void *bytes,
		 size_t size, enum file_durability durability);

/*
 * Reserve `bytes` of disk for the next file_replace() through `temp_name`, so that it succeeds
 * on a disk that has become full. Best effort: if the disk has less, all that it has.
 */
void file_reserve(int dir_fd, const char *temp_name, size_t bytes);

#endif
