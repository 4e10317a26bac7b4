/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_TRACE_DIR_H
#define SONDE_FORMATS_TRACE_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/ctf/packet.h"
#include "formats/base/error.h"
#include "formats/trace/sidecar.h"
#include "formats/trace/reader.h"

/* The files of a trace directory, opened; what trace-reader.c reads from. */
struct trace_dir_stream {
	unsigned int vcpu;
	int records_fd, caches_fd; /* caches_fd -1: none */
	uint64_t records_size, caches_size;
};

struct trace_dir {
	int fd;
	struct trace_dir_stream *streams; /* ascending by vCPU; numbers may have holes */
	size_t nr_streams;
	struct sidecar *sidecar; /* or NULL, sidecar_error saying why */
	struct error sidecar_error;
	bool ctf; /* there is a file `metadata`, of our making: */
	struct ctf_identity identity;
	uint64_t abi_version; /* 0: no such file */
	bool has_overruns;    /* there is a readable total_overruns */
	uint64_t overrun_bytes;
};

/* An empty one, which trace_dir_close() accepts. */
void trace_dir_init(struct trace_dir *dir);

/* Returns 0, or -errno with *out closed. */
int trace_dir_open(const char *path, struct trace_dir *out, struct error *err);
void trace_dir_close(struct trace_dir *dir);

/* Records that a vCPU's stream should have; `otherwise` if the trace does not say for certain. */
uint64_t trace_dir_expected(const struct trace_dir *dir, unsigned int vcpu, uint64_t otherwise);

/* Whether the trace says that its last records are missing. */
bool trace_dir_unfinished(const struct trace_dir *dir);

/* `discarded`: records that the streams themselves tell were dropped. */
void trace_dir_losses(const struct trace_dir *dir, uint64_t discarded, struct trace_losses *out);

#endif
