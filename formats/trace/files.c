/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/trace/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "formats/base/text.h"

struct trace_files {
	int dir_fd; /* -1: in memory */
	const struct trace_memory_file *memory;
	size_t nr_memory;
	int *fds; /* of the sources that were made */
	size_t nr_fds;
	unsigned int *vcpus;
	size_t nr_vcpus;
};

/*
 * The number n if `name` is "cpu<n>" or "cpu<n>.<more>" as a trace writer spells it, -1 for any
 * other file.
 */
static int64_t stream_number(const char *name)
{
	char digits[16];
	size_t length;
	uint64_t vcpu;

	if (strncmp(name, "cpu", 3))
		return -1;
	length = strcspn(name + 3, ".");
	if (length >= sizeof(digits) || (name[3] == '0' && length > 1))
		return -1;
	memcpy(digits, name + 3, length);
	digits[length] = '\0';
	return text_parse_u64(digits, UINT32_MAX, &vcpu) ? -1 : (int64_t)vcpu;
}

static int note_name(struct trace_files *files, const char *name)
{
	int64_t vcpu = stream_number(name);
	unsigned int *bigger;

	if (vcpu < 0)
		return 0;
	bigger = reallocarray(files->vcpus, files->nr_vcpus + 1, sizeof(*bigger));
	if (!bigger)
		return -ENOMEM;
	files->vcpus = bigger;
	bigger[files->nr_vcpus++] = (unsigned int)vcpu;
	return 0;
}

static int compare_vcpus(const void *a, const void *b)
{
	const unsigned int *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Each number once. */
static void sort_vcpus(struct trace_files *files)
{
	size_t n = 0;

	if (files->nr_vcpus)
		qsort(files->vcpus, files->nr_vcpus, sizeof(*files->vcpus), compare_vcpus);
	for (size_t i = 0; i < files->nr_vcpus; i++) {
		if (!n || files->vcpus[n - 1] != files->vcpus[i])
			files->vcpus[n++] = files->vcpus[i];
	}
	files->nr_vcpus = n;
}

static int list_dir(struct trace_files *files)
{
	int fd = openat(files->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int ret = entries ? 0 : -errno;

	if (!entries && fd >= 0)
		close(fd);
	while (!ret && (entry = readdir(entries)))
		ret = note_name(files, entry->d_name);
	if (entries)
		closedir(entries);
	return ret;
}

int trace_files_open(const char *dir, struct trace_files **out, struct error *err)
{
	struct trace_files *files;
	int ret, fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return error_set(err, errno, "%s",
				 errno == ENOTDIR ? "not a trace: a trace is a directory"
						  : strerror(errno));
	files = calloc(1, sizeof(*files));
	if (!files) {
		close(fd);
		return error_set(err, ENOMEM, "out of memory");
	}
	files->dir_fd = fd;
	ret = list_dir(files);
	if (ret) {
		trace_files_close(files);
		return error_set(err, -ret, "%s", strerror(-ret));
	}
	sort_vcpus(files);
	*out = files;
	return 0;
}

int trace_files_open_memory(const struct trace_memory_file *memory, size_t nr_files,
			    struct trace_files **out, struct error *err)
{
	struct trace_files *files = calloc(1, sizeof(*files));
	int ret = files ? 0 : -ENOMEM;

	if (files) {
		files->dir_fd = -1;
		files->memory = memory;
		files->nr_memory = nr_files;
	}
	for (size_t i = 0; !ret && i < nr_files; i++)
		ret = note_name(files, memory[i].name);
	if (ret) {
		trace_files_close(files);
		return error_set(err, -ret, "out of memory");
	}
	sort_vcpus(files);
	*out = files;
	return 0;
}

void trace_files_close(struct trace_files *files)
{
	if (!files)
		return;
	for (size_t i = 0; i < files->nr_fds; i++)
		close(files->fds[i]);
	if (files->dir_fd >= 0)
		close(files->dir_fd);
	free(files->fds);
	free(files->vcpus);
	free(files);
}

bool trace_files_are_being_written(const struct trace_files *files)
{
	if (files->dir_fd < 0)
		return false;
	if (flock(files->dir_fd, LOCK_SH | LOCK_NB))
		return errno == EWOULDBLOCK;
	flock(files->dir_fd, LOCK_UN);
	return false;
}

struct trace_file_stamp trace_files_stamp(const struct trace_files *files, const char *name)
{
	struct stat st;

	if (files->dir_fd < 0 || fstatat(files->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW))
		return (struct trace_file_stamp){0};
	return (struct trace_file_stamp){
		.inode = st.st_ino, .size = (uint64_t)st.st_size, .changed = st.st_ctim};
}

bool trace_file_stamps_equal(const struct trace_file_stamp *a, const struct trace_file_stamp *b)
{
	return a->inode == b->inode && a->size == b->size &&
	       a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

const unsigned int *trace_files_vcpus(const struct trace_files *files, size_t *nr_vcpus)
{
	*nr_vcpus = files->nr_vcpus;
	return files->vcpus;
}

static int open_memory(const struct trace_files *files, const char *name, struct byte_source *out)
{
	for (size_t i = 0; i < files->nr_memory; i++) {
		if (strcmp(files->memory[i].name, name))
			continue;
		*out = byte_source_memory(files->memory[i].bytes, files->memory[i].size);
		return 0;
	}
	return -ENOENT;
}

static int keep_fd(struct trace_files *files, int fd)
{
	int *bigger = reallocarray(files->fds, files->nr_fds + 1, sizeof(*bigger));

	if (!bigger)
		return -ENOMEM;
	files->fds = bigger;
	bigger[files->nr_fds++] = fd;
	return 0;
}

static int open_file(struct trace_files *files, const char *name, struct byte_source *out)
{
	int ret, fd = openat(files->dir_fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -errno;
	ret = fstat(fd, &st) ? -errno : S_ISREG(st.st_mode) ? keep_fd(files, fd) : -EINVAL;
	if (ret) {
		close(fd);
		return ret;
	}
	*out = byte_source_file(fd, (uint64_t)st.st_size);
	return 0;
}

int trace_files_source(struct trace_files *files, const char *name, struct byte_source *out,
		       struct error *err)
{
	int ret;

	*out = byte_source_memory(NULL, 0);
	ret = files->dir_fd < 0 ? open_memory(files, name, out) : open_file(files, name, out);
	if (ret)
		error_set(err, -ret, "%s: %s", name,
			  ret == -EINVAL ? "not a regular file" : strerror(-ret));
	return ret;
}

enum { STREAM_NAME_MAX = 128 };

int trace_files_stream(struct trace_files *files, const char *prefix, unsigned int vcpu,
		       const char *suffix, struct byte_source *out, struct error *err)
{
	char name[STREAM_NAME_MAX];
	int ret;

	snprintf(name, sizeof(name), "%s%u%s", prefix, vcpu, suffix);
	ret = trace_files_source(files, name, out, err);
	return ret == -ENOENT ? 0 : ret;
}

bool trace_files_has(const struct trace_files *files, unsigned int vcpu, const char *suffix)
{
	char name[STREAM_NAME_MAX];
	struct byte_source source;

	snprintf(name, sizeof(name), "cpu%u%s", vcpu, suffix);
	if (files->dir_fd < 0)
		return !open_memory(files, name, &source);
	return !faccessat(files->dir_fd, name, F_OK, 0);
}

/* The source that was made last ends. */
static void drop_source(struct trace_files *files)
{
	if (files->dir_fd >= 0)
		close(files->fds[--files->nr_fds]);
}

static int load(const struct byte_source *source, const char *name, size_t max, char **text,
		size_t *size, struct error *err)
{
	char *bytes;
	ssize_t n;

	if (source->size > max)
		return error_set(err, EFBIG, "%s: larger than %s", name, text_bytes(max).s);
	bytes = malloc((size_t)source->size + 1);
	if (!bytes)
		return error_set(err, ENOMEM, "%s: out of memory", name);
	n = byte_source_fill(source, bytes, (size_t)source->size, 0);
	if (n < 0) {
		free(bytes);
		return error_set(err, (int)-n, "%s: %s", name, strerror((int)-n));
	}
	bytes[n] = '\0';
	*text = bytes;
	*size = (size_t)n;
	return 0;
}

int trace_files_load(struct trace_files *files, const char *name, size_t max, char **text,
		     size_t *size, struct error *err)
{
	struct byte_source source;
	int ret = trace_files_source(files, name, &source, err);

	if (ret)
		return ret;
	ret = load(&source, name, max, text, size, err);
	drop_source(files);
	return ret;
}
