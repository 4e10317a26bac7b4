/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The verbs that read guest memory. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "formats/base/fs.h"
#include "introspect/guest/control.h"
#include "introspect/guest/page-walk.h"
#include "vmm/monitor/job.h"

enum { CHUNK = 64 * 1024, PAGE = 4096, CHUNK_PAGES = CHUNK / PAGE + 1 };

struct save;
/* Where the bytes to save come from: fills all of `to`, at most CHUNK bytes, or fails. */
typedef int read_fn(const struct save *save, uint64_t at, void *to, size_t size, struct error *err);

struct save {
	const struct monitor_call *call;
	read_fn *read;
	unsigned int vcpu;
	uint64_t at, size;
};

static int read_physical(const struct save *save, uint64_t at, void *to, size_t size,
			 struct error *err)
{
	int ret = monitor_call_use(save->call, err);

	if (ret)
		return ret;
	ret = guest_phys_read(save->call->target->guest, at, to, size, err);
	monitor_call_done(save->call);
	return ret;
}

/* A chunk of virtual memory, page by page. */
struct places {
	const struct save *save;
	struct place {
		uint64_t gva, gpa;
		size_t size;
	} v[CHUNK_PAGES];
	size_t n;
};

static void split(const struct save *save, uint64_t at, size_t size, struct places *out)
{
	out->save = save;
	out->n = 0;
	while (size) {
		size_t n = PAGE - at % PAGE;

		n = n < size ? n : size;
		out->v[out->n++] = (struct place){.gva = at, .size = n};
		at += n;
		size -= n;
	}
}

/* With leave. */
static int find_by_trace(struct places *places, struct error *err)
{
	const struct monitor_target *target = places->save->call->target;
	int ret = 0;

	for (size_t i = 0; !ret && i < places->n; i++)
		ret = target->trace->translate(target->trace_arg, places->v[i].gva,
					       &places->v[i].gpa, err);
	return ret;
}

static int walk_all(struct guest *guest, const struct guest_sregs *sregs, struct places *places,
		    struct error *err)
{
	struct page_walk walk = {0};
	int ret = 0;

	for (size_t i = 0; !ret && i < places->n; i++) {
		ret = page_walk(guest, sregs->cr3, vcpu_paging_levels(sregs), places->v[i].gva,
				&walk, err);
		places->v[i].gpa = walk.gpa;
	}
	return ret;
}

/* On the main thread. A vCPU's registers are only there while the guest is stopped. */
static int find_by_vcpu(void *arg, struct error *err)
{
	struct places *places = arg;
	struct guest *guest = places->save->call->target->guest;
	struct guest_sregs sregs;
	int ret = guest->control->stop(guest, err);

	if (ret)
		return ret;
	ret = guest->control->get_sregs(guest, places->save->vcpu, &sregs, err);
	if (!ret)
		ret = walk_all(guest, &sregs, places, err);
	if (guest->control->resume(guest, ret ? NULL : err) < 0 && !ret)
		ret = -EIO;
	return ret;
}

/* With leave. */
static int read_places(const struct places *places, uint8_t *to, struct error *err)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < places->n; i++) {
		ret = guest_phys_read(places->save->call->target->guest, places->v[i].gpa, to,
				      places->v[i].size, err);
		to += places->v[i].size;
	}
	return ret;
}

static int read_traced(const struct save *save, uint64_t at, void *to, size_t size,
		       struct error *err)
{
	struct places places;
	int ret = monitor_call_use(save->call, err);

	if (ret)
		return ret;
	split(save, at, size, &places);
	ret = find_by_trace(&places, err);
	if (!ret)
		ret = read_places(&places, to, err);
	monitor_call_done(save->call);
	return ret;
}

static int read_untraced(const struct save *save, uint64_t at, void *to, size_t size,
			 struct error *err)
{
	struct places places;
	int ret;

	split(save, at, size, &places);
	ret = monitor_call_on_main(save->call, find_by_vcpu, &places, err);
	if (!ret)
		ret = monitor_call_use(save->call, err);
	if (ret)
		return ret;
	ret = read_places(&places, to, err);
	monitor_call_done(save->call);
	return ret;
}

static int write_all(int fd, const char *from, size_t size, struct error *err)
{
	while (size) {
		ssize_t n = write(fd, from, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_set(err, errno, "cannot write: %s", strerror(errno));
		from += n;
		size -= (size_t)n;
	}
	return 0;
}

static int copy(const struct save *save, int fd, struct error *err)
{
	char chunk[CHUNK];
	uint64_t done = 0;
	int ret = 0;

	while (!ret && done < save->size) {
		uint64_t left = save->size - done;
		size_t n = left < CHUNK ? (size_t)left : CHUNK;

		ret = save->read(save, save->at + done, chunk, n, err);
		if (!ret)
			ret = write_all(fd, chunk, n, err);
		done += n;
	}
	return ret;
}

/*
 * The file holds guest secrets, hence 0600, and no link is followed: in a folder such as /tmp it
 * could be another user's. A file that is there keeps its place, but is closed to others first.
 * O_NONBLOCK so that a FIFO without a reader is refused.
 */
static int open_private(const char *filename, struct error *err)
{
	int fd = open(filename, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
		      0600);
	struct stat st;

	if (fd < 0)
		return error_set(err, errno, "cannot open '%.200s': %s", filename, strerror(errno));
	if (!fstat(fd, &st) &&
	    (!S_ISREG(st.st_mode) || (st.st_uid == geteuid() && st.st_nlink == 1 &&
				      !fchmod(fd, S_IRUSR | S_IWUSR) && !ftruncate(fd, 0))))
		return fd;
	close(fd);
	return error_set(err, EPERM, "'%.200s' is not a file of yours alone", filename);
}

static int save_to_file(const struct save *save, const char *filename, struct error *err)
{
	int fd = open_private(filename, err);
	int ret;

	if (fd < 0)
		return fd;
	ret = copy(save, fd, err);
	if (close(fd) < 0 && !ret)
		ret = error_set(err, errno, "cannot write: %s", strerror(errno));
	if (ret)
		error_prefix(err, "'%.200s' is incomplete: ", filename);
	return ret;
}

static int run_save(struct save *save, struct error *err)
{
	json_t *args = save->call->args;
	const char *filename = json_string_value(json_object_get(args, "filename"));

	if (path_is_stdout(filename))
		return error_set(err, EINVAL, "standard output is the tracer's own; name a file");
	save->at = monitor_arg_u64(args, "val");
	save->size = monitor_arg_u64(args, "size");
	if (!save->size)
		return error_set(err, EINVAL, "size is 0");
	if (save->size - 1 > UINT64_MAX - save->at)
		return error_set(err, EINVAL, "val + size is beyond the end of the address space");
	return save_to_file(save, filename, err);
}

static int pmemsave(struct monitor_call *call, struct error *err)
{
	struct save save = {.call = call, .read = read_physical};

	return run_save(&save, err);
}

static int memsave(struct monitor_call *call, struct error *err)
{
	struct save save = {.call = call, .read = read_untraced};
	uint64_t vcpu = monitor_arg_u64(call->args, "cpu-index");
	const struct monitor_target *target = call->target;
	unsigned int nr_vcpus;
	int ret = monitor_call_use(call, err);

	if (ret)
		return ret;
	nr_vcpus = target->guest->nr_vcpus;
	if (target->trace && target->trace->translate)
		save.read = read_traced;
	monitor_call_done(call);
	if (vcpu >= nr_vcpus)
		return error_set(err, EINVAL, "cpu-index must be less than %u", nr_vcpus);
	save.vcpu = (unsigned int)vcpu;
	return run_save(&save, err);
}

static const struct monitor_arg pmemsave_args[] = {
	{.name = "val", .type = MONITOR_ARG_ADDRESS, .required = true},
	{.name = "size", .type = MONITOR_ARG_SIZE, .required = true},
	{.name = "filename", .type = MONITOR_ARG_STRING, .required = true},
	{0},
};

static const struct monitor_arg memsave_args[] = {
	{.name = "val", .type = MONITOR_ARG_ADDRESS, .required = true},
	{.name = "size", .type = MONITOR_ARG_SIZE, .required = true},
	{.name = "filename", .type = MONITOR_ARG_STRING, .required = true},
	{.name = "cpu-index", .type = MONITOR_ARG_SIZE},
	{0},
};

const struct monitor_verb monitor_memory_verbs[] = {
	{.name = "pmemsave",
	 .help = "save guest-physical memory to a file",
	 .args = pmemsave_args,
	 .aside = true,
	 .run = pmemsave},
	{.name = "memsave",
	 .help = "save kernel virtual memory to a file",
	 .args = memsave_args,
	 .aside = true,
	 .run = memsave},
	{0},
};
