/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_TRACE_SIDECAR_H
#define SONDE_FORMATS_TRACE_SIDECAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "formats/base/error.h"
#include "formats/base/text.h"
#include "formats/event/event.h"
#include "formats/event/trace-info.h"
#include "formats/source/source-lines.h"
#include "formats/trace/files.h"

/*
 * The file `sonde.json` of a trace directory: all that its streams have no place for. sonde-
 * trace(5) describes it. A trace is readable without it.
 */
#define SIDECAR_NAME "sonde.json"
/* Its name in a CTF trace: readers of CTF take every file that is not hidden for a stream. */
#define SIDECAR_HIDDEN_NAME ".sonde.json"
#define SIDECAR_TEMP_SUFFIX ".tmp"
/* A copy without names of functions, by far the most of it: for a trace that is damaged later. */
#define SIDECAR_COPY_SUFFIX ".copy"
/* Bytes, of a sidecar and of the file of names beside it: readers take no more. */
enum { SIDECAR_VERSION = 1, SIDECAR_MAX_SIZE = 64 << 20 };

/* Counts of a vCPU, over all instances. */
struct sidecar_vcpu {
	uint64_t allocs, frees; /* events of the kmem tracer in the streams */
	uint64_t overruns;      /* events lost, as they could not be written */
};

/* A stream: an instance's events of a vCPU. */
struct sidecar_stream {
	uint64_t events, overruns;
};

struct sidecar_instance {
	struct trace_instance about;    /* a parsed one has no classes */
	struct sidecar_stream *streams; /* by vCPU */
	size_t nr_streams;
	uint64_t lost; /* events: the streams' overruns, and those that came to no stream */
};

struct sidecar_cache {
	uint16_t id; /* >= 1 */
	char *name;
	uint64_t object_size, size; /* bytes: usable, and with padding and metadata */
};

/* The structure that a function returns a pointer to, "struct dentry"; "" and 0: none is known. */
struct sidecar_returned {
	uint64_t bytes;
	char name[56];
};

/* The build id of the module that has a function; size 0: not known, or the kernel's own. */
struct sidecar_build_id {
	uint8_t bytes[20], size; /* as the kernel's own tables: BUILD_ID_SIZE_MAX */
};

struct sidecar_symbol {
	uint64_t address;     /* lowest recorded call site in the function */
	uint64_t start, size; /* run-time address and bytes; size 0 = unknown */
	char *name;
	struct sidecar_returned returned;
	struct sidecar_build_id build_id;
};

struct sidecar {
	struct trace_info info;
	bool complete;      /* the recorder ended in order: the counts are final */
	bool has_checksums; /* when parsed: it has one, and so has each line of the names beside it
			     */
	bool damaged;       /* likewise: the checksum is wrong */
	uint64_t damaged_names; /* lines that were passed over for theirs */
	struct sidecar_vcpu *vcpus;
	size_t nr_vcpus;
	struct sidecar_instance *instances; /* by number; sonde 0.1 wrote none */
	size_t nr_instances;
	struct sidecar_cache *caches; /* ascending by id when parsed */
	size_t nr_caches;
	struct sidecar_symbol *symbols; /* ascending by start when parsed */
	size_t nr_symbols;
	struct source_lines *lines; /* of trace_reader_add_lines(), or NULL; the sidecar's */
};

/*
 * Write the sidecar of the trace directory open as dir_fd, under one of the names above, by way
 * of a temporary file: a reader sees the old sidecar or the new. Bytes outside printable ASCII
 * in strings (they come from guests) become '?'. A complete sidecar is on the disk after that, and
 * its copy, if there was room for it; of others, which are written again and again, the next one
 * will be. Returns 0, or -errno with the old sidecar still there; -EFBIG: no reader would take it.
 */
int sidecar_write(int dir_fd, const char *name, const struct sidecar *sidecar, struct error *err);

/* Its text, to be freed; NULL without memory. */
char *sidecar_text(const struct sidecar *sidecar);

/*
 * Parse the text of a sidecar. Sizes and types are checked, unknown keys ignored, missing ones
 * zero or empty, control characters in strings replaced. Returns 0 and a sidecar for
 * sidecar_destroy(); -EINVAL for what is not a sidecar of this version; -ENOMEM. *err does not name
 * the file.
 */
int sidecar_parse(const void *text, size_t size, struct sidecar **out, struct error *err);

/* Load and parse the sidecar of a trace under either name, hidden first. Errors as of
 * trace_files_load() and sidecar_parse(); -ENOENT if there is none. */
int sidecar_load(struct trace_files *files, struct sidecar **out, struct error *err);

/* The same of the copy of a sidecar of this name, if it was complete. */
int sidecar_load_copy(struct trace_files *files, const char *name, struct sidecar **out);

/* Add a cache to a parsed sidecar, unless its id is there already. Copies. Returns 0 or -ENOMEM. */
int sidecar_add_cache(struct sidecar *sidecar, const struct sidecar_cache *cache);

/*
 * Let a parsed sidecar know what a later one of the same trace says: the info, the counts, caches,
 * and names if that is complete. Instances that were added are left out. What is gone stays valid,
 * but for the counts. `news` is to be destroyed. Returns 0 or -ENOMEM.
 */
int sidecar_take_news(struct sidecar *sidecar, struct sidecar *news);

/*
 * While a trace is recorded, names of functions are in a file beside the sidecar, ".names" for
 * ".json": a line for each, which is an object like those of the sidecar's "symbols", with a
 * checksum.
 */
void sidecar_names_file(const char *sidecar_name, char *out, size_t size);
/* What the line of a symbol takes in that file, and its text in the sidecar, at most. */
size_t sidecar_symbol_bytes(const struct sidecar_symbol *symbol);
/* Print such a line. Returns 0 or -ENOMEM; errors of the stream are left to ferror(). */
int sidecar_print_symbol(FILE *out, const struct sidecar_symbol *symbol);
/*
 * Add the symbols of such lines to a parsed sidecar, but for those it has. Lines that are no
 * symbols or damaged are passed over; if the sidecar has checksums, they are counted. Returns the
 * bytes of whole lines, or -ENOMEM.
 */
int64_t sidecar_add_names(struct sidecar *sidecar, const char *text, size_t size);
/* Add symbols to a parsed sidecar, but for those it has. Copies, with '?' for what is not printable
 * in their names. Returns 0 or -ENOMEM. */
int sidecar_add_symbols(struct sidecar *sidecar, const struct sidecar_symbol *symbols, size_t n);

/* NULL-safe; for what sidecar_parse() and sidecar_load() made. */
void sidecar_destroy(struct sidecar *sidecar);

/*
 * Look up a symbol or cache; the sidecar may be NULL. The result lives as long as the sidecar;
 * NULL: not found.
 */
const struct sidecar_symbol *sidecar_symbol(const struct sidecar *sidecar, uint64_t address);
const struct sidecar_cache *sidecar_cache(const struct sidecar *sidecar, uint16_t id);
/* Bytes of each task's stack; those of most kernels if the trace does not say. */
uint64_t sidecar_stack_bytes(const struct sidecar *sidecar);
/* Those of struct trace_instance, which the streams do not have, by the instance's name. */
const char *sidecar_prototypes(const struct sidecar *sidecar, const char *instance);
/* Whether an instance of kmem has recorded all events as long as it did: it has its first spec, the
 * sidecar the last one that it went on with. */
bool sidecar_is_whole(const struct sidecar *sidecar, const struct trace_instance *instance);
/* Whether it was off for a while between its events, or has recorded others; whether it was off
 * before tracing ended; whether it was added when tracing had been on before; whether it has the
 * guest's first allocation. */
bool sidecar_is_interrupted(const struct sidecar *sidecar, const struct trace_instance *instance);
bool sidecar_is_removed(const struct sidecar *sidecar, const struct trace_instance *instance);
bool sidecar_is_late(const struct sidecar *sidecar, const struct trace_instance *instance);
bool sidecar_is_from_first(const struct sidecar *sidecar, const struct trace_instance *instance);
/* The one that it had at last; of an instance that the sidecar does not know, its own. */
const char *sidecar_last_spec(const struct sidecar *sidecar, const struct trace_instance *instance);
/* Whether any of its instances, of whichever tracer, was on before the guest's first allocation. */
bool sidecar_is_from_boot(const struct sidecar *sidecar);
/* Whether it has recorded the frees of what it has allocations of: no condition chose events, it
 * has recorded the same types all the time, and the trace is no copy of chosen events. */
bool sidecar_has_frees(const struct sidecar *sidecar, const struct trace_instance *instance);

/* "fn+0x1f/0x90" where the sidecar (may be NULL) has a name for the address, else "0x...". */
struct text sidecar_symbol_text(const struct sidecar *sidecar, uint64_t address);
/* "fn" likewise: what contains the address. */
struct text sidecar_function_text(const struct sidecar *sidecar, uint64_t address);

/*
 * The places in the source of a call site, which is the address that the call returns to. The
 * function of the first is the one that contains the address, the others were inlined into it.
 * Returns how many, up to SOURCE_MAX_FRAMES; 0 without debug information.
 */
size_t sidecar_call_frames(const struct sidecar *sidecar, uint64_t call_site,
			   struct source_frame *out);
/* These places as source_text() has them. */
struct text sidecar_source_text(const struct sidecar *sidecar, uint64_t call_site);
/* "fn+0x1f/0x90 (fs/inode.c:263)": as sidecar_symbol_text(), with these places if there are any. */
struct text sidecar_call_text(const struct sidecar *sidecar, uint64_t call_site);
/* Add these places, if there are any, to an object as "source". Returns 0, or -1 without memory. */
int sidecar_put_source(json_t *object, const struct sidecar *sidecar, uint64_t call_site);

#endif
