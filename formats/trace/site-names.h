/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_TRACE_SITE_NAMES_H
#define SONDE_FORMATS_TRACE_SITE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/u64-map.h"
#include "formats/event/call-sites.h"
#include "formats/trace/sidecar.h"

/* The function that a call site is in. */
struct site_function {
	char name[512];
	uint64_t start, size; /* address and bytes */
	struct sidecar_returned returned;
	struct sidecar_build_id build_id;
};

/*
 * Names a call site. Returns 0 and fills *out, which was zeroed; -ENOENT: it has no name; -EAGAIN:
 * it may have one later.
 */
typedef int trace_symbolize_fn(void *arg, uint64_t address, struct site_function *out);

/* A trace_symbolize_fn of a copy: the names of another trace; `arg` is its const struct sidecar. */
int site_function_again(void *arg, uint64_t address, struct site_function *out);

/*
 * The functions that contain the call sites of a trace. A function is named when its first call
 * site comes, as it may be gone later (a module's), and its name is appended to a file: so that a
 * trace that is being written, or whose recorder was killed, has names. A complete sidecar has all
 * of them. One thread at a time.
 */
struct site_names {
	struct call_sites *sites; /* its budget is that of the names, too */
	size_t taken;             /* call sites that were looked at */
	uint64_t *pending;        /* of these, those that are to be named */
	size_t nr_pending, pending_room;
	size_t next;                    /* of these; the next update goes on there */
	struct u64_map by_start;        /* to index in `symbols` */
	struct sidecar_symbol *symbols; /* in the order in which they were named */
	size_t count, room;
	struct budget lines; /* bytes of the file, which has a size that readers take */

	int dir_fd;
	char file_name[64];
	int fd;          /* -1: no file yet */
	uint64_t size;   /* of the file, in bytes */
	size_t appended; /* symbols that are in the file */
};

/* The names file of a trace with this sidecar; `sites` must outlive the names. */
void site_names_init(struct site_names *names, struct call_sites *sites, int dir_fd,
		     const char *sidecar_name);
void site_names_deinit(struct site_names *names);

/*
 * Name the call sites that have come, and some of those that had no name yet, which get their turn
 * one after another: a guest may call from any number of addresses that have no name. Without
 * memory, or room in a file that readers take, some stay without.
 */
void site_names_update(struct site_names *names, trace_symbolize_fn *symbolize, void *arg);

/* Name all. */
void site_names_complete(struct site_names *names, trace_symbolize_fn *symbolize, void *arg);

/* Append what the file lacks. Returns 0, or -errno with whole lines in the file. */
int site_names_append(struct site_names *names);

/*
 * A copy of the symbols, ascending by start and with the names' texts, for site_names_free_copy().
 * NULL without memory.
 */
struct sidecar_symbol *site_names_copy(const struct site_names *names);
/* NULL-safe. No name was added since. */
void site_names_free_copy(const struct site_names *names, struct sidecar_symbol *copy);

/* Remove the file. */
void site_names_remove_file(struct site_names *names);

#endif
