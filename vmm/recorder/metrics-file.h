/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_RECORDER_METRICS_FILE_H
#define SONDE_VMM_RECORDER_METRICS_FILE_H

#include "formats/base/error.h"

/*
 * A small file that is replaced again and again, for another program that reads it at any time:
 * it sees one text or the next one, whole. A thread writes, so that a disk that hangs does
 * not hold up the main thread. All users may read the file. Standard output ("-") gets one text
 * after the other.
 */
struct metrics_file;

/* Returns 0, or -errno if the file's directory is not there or nothing can be written in it. */
int metrics_file_create(const char *path, struct metrics_file **out, struct error *err);

/* Have the file replaced by a text, which is taken over. If the last one has not been written yet,
 * it is left out. */
void metrics_file_put(struct metrics_file *file, char *text);

/* The first failure since the last call: returns 0 if there is none, or -errno. */
int metrics_file_failure(struct metrics_file *file, struct error *err);

/* Waits for the last text to be written, for two seconds at most. The file stays. NULL-safe. */
void metrics_file_destroy(struct metrics_file *file);

#endif
