/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The verbs that read guest memory. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "introspect/guest/control.h"
#include "introspect/guest/page-walk.h"
#include "vmm/monitor/job.h"

enum { CHUNK = 64 * 1024, PAGE = 4096 };

/* Where the bytes to save come from: fills all of `to` or fails. */
typedef int read_fn(const struct monitor_target *target, unsigned int vcpu, uint64_t at, void *to,
		    size_t size, struct error *err);

static int read_physical(const struct monitor_target *target, unsigned int vcpu, uint64_t at,
			 void *to, size_t size, struct error *err)
{
	(void)vcpu;
	return guest_phys_read(target->guest, at, to, size, err);
}

/* A vCPU's registers are only there while the guest is stopped. */
static int translate_by_vcpu(struct guest *guest, unsigned int vcpu, uint64_t gva, uint64_t *gpa,
			     struct error *err)
{
	struct guest_sregs sregs;
	struct page_walk walk;
	int ret = guest->control->stop(guest, err);

	if (ret)
		return ret;
	ret = guest->control->get_sregs(guest, vcpu, &sregs, err);
	if (!ret)
		ret = page_walk(guest, sregs.cr3, vcpu_paging_levels(&sregs), gva, &walk, err);
	if (!ret)
		*gpa = walk.gpa;
	if (guest->control->resume(guest, ret ? NULL : err) < 0 && !ret)
		ret = -EIO;
	return ret;
}

static int read_virtual(const struct monitor_target *target, unsigned int vcpu, uint64_t at,
			void *to, size_t size, struct error *err)
{
	while (size) {
		size_t n = PAGE - at % PAGE;
		uint64_t gpa = 0;
		int ret;

		n = n < size ? n : size;
		ret = target->trace && target->trace->translate
			      ? target->trace->translate(target->trace_arg, at, &gpa, err)
			      : translate_by_vcpu(target->guest, vcpu, at, &gpa, err);
		if (!ret)
			ret = guest_phys_read(target->guest, gpa, to, n, err);
		if (ret)
			return ret;
		at += n;
		to = (char *)to + n;
		size -= n;
	}
	return 0;
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

struct save {
	const struct monitor_call *call;
	read_fn *read;
	unsigned int vcpu;
	uint64_t at, size;
};

static int copy(const struct save *save, int fd, struct error *err)
{
	char chunk[CHUNK];
	uint64_t done = 0;
	int ret = 0;

	while (!ret && done < save->size) {
		uint64_t left = save->size - done;
		size_t n = left < CHUNK ? (size_t)left : CHUNK;

		ret = monitor_call_use(save->call, err);
		if (ret)
			return ret;
		ret = save->read(save->call->target, save->vcpu, save->at + done, chunk, n, err);
		monitor_call_done(save->call);
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

	save->at = monitor_arg_u64(args, "val");
	save->size = monitor_arg_u64(args, "size");
	if (!save->size)
		return error_set(err, EINVAL, "size is 0");
	if (save->size - 1 > UINT64_MAX - save->at)
		return error_set(err, EINVAL, "val + size is beyond the end of the address space");
	return save_to_file(save, json_string_value(json_object_get(args, "filename")), err);
}

static int pmemsave(struct monitor_call *call, struct error *err)
{
	struct save save = {.call = call, .read = read_physical};

	return run_save(&save, err);
}

static int memsave(struct monitor_call *call, struct error *err)
{
	struct save save = {.call = call, .read = read_virtual};
	uint64_t vcpu = monitor_arg_u64(call->args, "cpu-index");
	unsigned int nr_vcpus;
	int ret = monitor_call_use(call, err);

	if (ret)
		return ret;
	nr_vcpus = call->target->guest->nr_vcpus;
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
