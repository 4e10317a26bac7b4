/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/trace/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "formats/base/byte-source.h"
#include "formats/cli/cli.h"
#include "formats/ctf/metadata.h"
#include "formats/kmemtrace/kmemtrace.h"

enum { MAX_METADATA = 64 << 20 };

void trace_dir_init(struct trace_dir *dir)
{
	*dir = (struct trace_dir){.fd = -1};
}

void trace_dir_close(struct trace_dir *dir)
{
	for (size_t i = 0; i < dir->nr_streams; i++) {
		if (dir->streams[i].records_fd >= 0)
			close(dir->streams[i].records_fd);
		if (dir->streams[i].caches_fd >= 0)
			close(dir->streams[i].caches_fd);
	}
	free(dir->streams);
	sidecar_destroy(dir->sidecar);
	if (dir->fd >= 0)
		close(dir->fd);
	trace_dir_init(dir);
}

/* Opens regular files only: a FIFO or device planted there must not block us. */
static int open_file(int dir_fd, const char *name, uint64_t *size)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return -EINVAL;
	}
	*size = (uint64_t)st.st_size;
	return fd;
}

/* A text file with one decimal number. */
static bool read_number(int dir_fd, const char *name, uint64_t *out)
{
	char text[32] = "";
	uint64_t size, value;
	int fd = open_file(dir_fd, name, &size);
	ssize_t n;

	if (fd < 0)
		return false;
	n = pread(fd, text, sizeof(text) - 1, 0);
	close(fd);
	if (n <= 0)
		return false;
	text[strcspn(text, "\n")] = '\0';
	if (cli_parse_u64(text, 0, UINT64_MAX, &value))
		return false;
	*out = value;
	return true;
}

/* The number n if `name` is "cpu<n>" as a trace writer spells it, -1 for any other file. */
static int64_t stream_number(const char *name)
{
	uint64_t vcpu;

	if (strncmp(name, "cpu", 3) || strlen(name) > 12)
		return -1;
	if (cli_parse_u64(name + 3, 0, UINT32_MAX, &vcpu) || (name[3] == '0' && name[4]))
		return -1;
	return (int64_t)vcpu;
}

static struct trace_dir_stream *new_stream(struct trace_dir *dir, unsigned int vcpu)
{
	struct trace_dir_stream *bigger =
		reallocarray(dir->streams, dir->nr_streams + 1, sizeof(*bigger));

	if (!bigger)
		return NULL;
	dir->streams = bigger;
	bigger[dir->nr_streams] = (struct trace_dir_stream){vcpu, -1, -1, 0, 0};
	return &bigger[dir->nr_streams++];
}

static int add_stream(struct trace_dir *dir, unsigned int vcpu, struct error *err)
{
	struct trace_dir_stream *stream;
	char name[32];

	if (vcpu >= KMEMTRACE_MAX_VCPUS)
		return error_set(err, EINVAL, "cpu%u: more than %d vCPUs are not supported", vcpu,
				 KMEMTRACE_MAX_VCPUS);
	stream = new_stream(dir, vcpu);
	if (!stream)
		return error_set(err, ENOMEM, "out of memory");
	snprintf(name, sizeof(name), "cpu%u", vcpu);
	stream->records_fd = open_file(dir->fd, name, &stream->records_size);
	if (stream->records_fd < 0)
		return error_set(err, -stream->records_fd, "%s: %s", name,
				 stream->records_fd == -EINVAL ? "not a regular file"
							       : strerror(-stream->records_fd));
	snprintf(name, sizeof(name), "caches%u", vcpu);
	stream->caches_fd = open_file(dir->fd, name, &stream->caches_size);
	return 0;
}

static int compare_streams(const void *a, const void *b)
{
	const struct trace_dir_stream *x = a, *y = b;

	return (x->vcpu > y->vcpu) - (x->vcpu < y->vcpu);
}

static int find_streams(struct trace_dir *dir, struct error *err)
{
	int fd = openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int ret = 0;

	if (!entries) {
		ret = error_set(err, errno, "%s", strerror(errno));
		if (fd >= 0)
			close(fd);
		return ret;
	}
	while (!ret && (entry = readdir(entries))) {
		int64_t vcpu = stream_number(entry->d_name);

		if (vcpu >= 0)
			ret = add_stream(dir, (unsigned int)vcpu, err);
	}
	closedir(entries);
	if (!ret && !dir->nr_streams)
		ret = error_set(err, ENOENT,
				"not a trace: it has no file cpu0; record one with sonde run -o");
	return ret;
}

/* A file that is gone reads as an empty one, so that its loss is noticed as any other cut. */
static int add_missing(struct trace_dir *dir)
{
	size_t found = 0, present = dir->nr_streams;

	for (unsigned int i = 0; dir->sidecar && i < dir->sidecar->nr_vcpus; i++) {
		while (found < present && dir->streams[found].vcpu < i)
			found++;
		if (found < present && dir->streams[found].vcpu == i)
			continue;
		if (trace_dir_expected(dir, i, 0) && !new_stream(dir, i))
			return -ENOMEM;
	}
	return 0;
}

static int read_metadata(int fd, uint64_t size, struct ctf_identity *identity, struct error *err)
{
	struct byte_source source = byte_source_file(fd, size);
	char *text;
	ssize_t n;
	int ret;

	if (size > MAX_METADATA)
		return error_set(err, EFBIG, "%s: larger than 64 MiB", CTF_METADATA_NAME);
	text = malloc((size_t)size + 1);
	if (!text)
		return error_set(err, ENOMEM, "out of memory");
	n = byte_source_fill(&source, text, (size_t)size, 0);
	ret = n < 0 ? error_set(err, (int)-n, "%s: %s", CTF_METADATA_NAME, strerror((int)-n))
		    : ctf_metadata_parse(text, (size_t)n, identity, err);
	free(text);
	return ret;
}

/* Which of the two encodings this is. */
static int find_encoding(struct trace_dir *dir, struct error *err)
{
	uint64_t size;
	int fd = open_file(dir->fd, CTF_METADATA_NAME, &size);
	int ret;

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return error_set(err, -fd, "%s: %s", CTF_METADATA_NAME,
				 fd == -EINVAL ? "not a regular file" : strerror(-fd));
	dir->ctf = true;
	ret = read_metadata(fd, size, &dir->identity, err);
	close(fd);
	return ret;
}

/* A stream that begins like CTF cannot be read without its metadata. */
static int check_without_metadata(const struct trace_dir *dir, struct error *err)
{
	for (size_t i = 0; i < dir->nr_streams; i++) {
		const struct trace_dir_stream *stream = &dir->streams[i];
		struct byte_source source =
			byte_source_file(stream->records_fd, stream->records_size);
		uint32_t magic = 0;

		if (byte_source_fill(&source, &magic, sizeof(magic), 0) == sizeof(magic) &&
		    (magic == CTF_MAGIC || magic == __builtin_bswap32(CTF_MAGIC)))
			return error_set(err, ENOENT,
					 "cpu%u is a CTF stream, but there is no file %s",
					 stream->vcpu, CTF_METADATA_NAME);
	}
	return 0;
}

static void load_sidecar(struct trace_dir *dir)
{
	sidecar_load(dir->fd, &dir->sidecar, &dir->sidecar_error);
	if (dir->ctf && dir->sidecar_error.code == ENOENT)
		error_set(&dir->sidecar_error, ENOENT, "%s is missing: copy hidden files, too",
			  SIDECAR_HIDDEN_NAME);
}

int trace_dir_open(const char *path, struct trace_dir *out, struct error *err)
{
	int ret;

	trace_dir_init(out);
	out->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (out->fd < 0)
		return error_set(err, errno, "%s: %s", path,
				 errno == ENOTDIR ? "not a trace: a trace is a directory"
						  : strerror(errno));
	ret = find_streams(out, err);
	ret = ret ? ret : find_encoding(out, err);
	if (!ret && !out->ctf)
		ret = check_without_metadata(out, err);
	if (ret) {
		error_prefix(err, "%s: ", path);
		trace_dir_close(out);
		return ret;
	}
	qsort(out->streams, out->nr_streams, sizeof(*out->streams), compare_streams);
	load_sidecar(out);
	read_number(out->fd, "abi_version", &out->abi_version);
	out->has_overruns = read_number(out->fd, "total_overruns", &out->overrun_bytes);
	if (add_missing(out)) {
		trace_dir_close(out);
		return error_set(err, ENOMEM, "out of memory");
	}
	qsort(out->streams, out->nr_streams, sizeof(*out->streams), compare_streams);
	return 0;
}

uint64_t trace_dir_expected(const struct trace_dir *dir, unsigned int vcpu, uint64_t otherwise)
{
	const struct sidecar *sidecar = dir->sidecar;

	if (!sidecar || !sidecar->complete || vcpu >= sidecar->nr_vcpus)
		return otherwise;
	return sidecar->vcpus[vcpu].allocs + sidecar->vcpus[vcpu].frees;
}

bool trace_dir_unfinished(const struct trace_dir *dir)
{
	return dir->sidecar && (!dir->sidecar->complete || dir->sidecar->info.cut);
}

static void raise_overruns(struct trace_counters *counters, uint64_t overruns)
{
	if (overruns > counters->v[COUNTER_OVERRUNS])
		counters->v[COUNTER_OVERRUNS] = overruns;
}

void trace_dir_losses(const struct trace_dir *dir, uint64_t discarded, struct trace_losses *out)
{
	const struct sidecar *sidecar = dir->sidecar;
	uint64_t by_bytes = dir->overrun_bytes / KMEMTRACE_RECORD_SIZE +
			    (dir->overrun_bytes % KMEMTRACE_RECORD_SIZE != 0);
	uint64_t by_vcpu = 0;

	*out = (struct trace_losses){.known = dir->has_overruns || dir->ctf};
	if (sidecar) {
		out->known = out->known || sidecar->complete;
		out->counters = sidecar->info.counters;
		out->unfinished = trace_dir_unfinished(dir);
		for (size_t i = 0; i < sidecar->nr_vcpus; i++)
			by_vcpu += sidecar->vcpus[i].overruns;
	}
	/* The sidecar may be older than the other files, if it could not be written any more. */
	raise_overruns(&out->counters, by_vcpu);
	raise_overruns(&out->counters, by_bytes);
	raise_overruns(&out->counters, discarded);
}
