/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/backend/shmem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "vmm/libvirt/connection/reply.h"
#include "vmm/libvirt/backend/slot.h"
#include "vmm/libvirt/connection/monitor.h"

/*
 * libvirt lets users name devices "ua-...", and names their memory "shmmem-ua-...". Each name is
 * used only once: QEMU 7.2 aborts, and the guest with it, if it still knows a RAM block of that
 * name.
 */
static const char alias_start[] = "ua-sonde-";
enum { ALIAS_DIGITS = 16, ALIAS_SIZE = sizeof(alias_start) + ALIAS_DIGITS };

enum {
	MEMORY_BAR = 2, /* of ivshmem-plain (QEMU, docs/specs/ivshmem-spec) */
	POLL_MS = 50,
	PLUG_TRIES = 100,    /* 5 s */
	UNPLUG_TRIES = 1200, /* 60 s: a guest that was reset has to boot first */
	DETACH_EVERY = 20,
};

static int make_alias(char alias[static ALIAS_SIZE], struct error *err)
{
	uint64_t number;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return error_set(err, EIO, "no random numbers");
	snprintf(alias, ALIAS_SIZE, "%s%016" PRIx64, alias_start, number);
	return 0;
}

/* It becomes part of a path, so only what make_alias() makes is accepted. */
static bool is_alias(const char *text)
{
	size_t start = sizeof(alias_start) - 1;

	return !strncmp(text, alias_start, start) && strlen(text) == start + ALIAS_DIGITS &&
	       strspn(text + start, "0123456789abcdef") == ALIAS_DIGITS;
}

/* "" if the domain has no such device. */
static int find_alias(struct libvirt_domain *domain, char alias[static ALIAS_SIZE],
		      struct error *err)
{
	char *xml = libvirt_domain_xml(domain);
	const char *at = xml ? libvirt_next_shmem(xml) : NULL;

	alias[0] = 0;
	for (; at && !alias[0]; at = libvirt_next_shmem(at)) {
		snprintf(alias, ALIAS_SIZE, "%s", at);
		if (!is_alias(alias))
			alias[0] = 0;
	}
	free(xml);
	return xml ? 0 : libvirt_error(domain, domain->name, err);
}

int libvirt_shmem_present(struct libvirt_domain *domain, bool *out, struct error *err)
{
	char alias[ALIAS_SIZE];
	int ret = find_alias(domain, alias, err);

	*out = !ret && alias[0];
	return ret;
}

/* --- what crashes QEMU ----------------------------------------------------------------------- */

static int count_vcpus(struct libvirt_domain *domain, size_t *out, struct error *err)
{
	json_t *reply = NULL;
	int ret = libvirt_qmp(domain, "query-cpus-fast", NULL, -1, &reply, err);

	*out = json_array_size(reply);
	json_decref(reply);
	return ret;
}

static int count_listeners(struct libvirt_domain *domain, size_t *out, struct error *err)
{
	char *reply = NULL;
	int ret = libvirt_hmp(domain, "info mtree", &reply, err);

	if (!ret)
		*out = libvirt_reply_vcpu_memories(reply, strlen(reply));
	free(reply);
	return ret;
}

/*
 * -ENOTSUP: plugging or unplugging a device with memory would crash QEMU. After a vCPU was
 * unplugged from an emulated domain, QEMU 7.2 still notifies that vCPU of changes of the memory map
 * (softmmu/physmem.c, tcg_commit()), and uses its freed memory.
 */
static int check_survives(struct libvirt_domain *domain, struct error *err)
{
	size_t vcpus = 0, listeners = 0;
	bool kvm;
	int ret = libvirt_domain_has_kvm(domain, &kvm, err);

	if (ret || kvm)
		return ret;
	ret = count_vcpus(domain, &vcpus, err);
	if (!ret)
		ret = count_listeners(domain, &listeners, err);
	if (!ret && listeners > vcpus)
		ret = error_set(err, ENOTSUP,
				"a vCPU was unplugged from this emulated domain: plugging or "
				"unplugging a device would crash QEMU");
	return ret;
}

/* --- plugging -------------------------------------------------------------------------------- */

struct shmem_path {
	char text[sizeof("/dev/shm/") + ALIAS_SIZE];
};

static struct shmem_path path_of(const char *alias)
{
	struct shmem_path path;

	snprintf(path.text, sizeof(path.text), "/dev/shm/%s", alias);
	return path;
}

/*
 * QEMU makes the file readable for all, but takes one that is there (QEMU, softmmu/physmem.c,
 * file_ram_open()). With SELinux it must be QEMU's own, for its label. QEMU makes it, too, where
 * this fails.
 */
static void make_file(const struct libvirt_domain *domain, const char *path)
{
	uid_t user;
	int fd;

	if (!libvirt_process_user(&domain->qemu, &user) || !access("/sys/fs/selinux/enforce", F_OK))
		return;
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	if (ftruncate(fd, LIBVIRT_SHMEM_BYTES) ||
	    (user != geteuid() && fchown(fd, user, (gid_t)-1)))
		unlink(path);
	close(fd);
}

/*
 * A call that failed may have done its work: its answer can be lost, or what libvirt does behind it
 * can fail. Then a second device must not be tried: the guest would be told where the one is, and
 * this process write to the other.
 */
static int refused(struct libvirt_domain *domain, struct error *err)
{
	int ret = libvirt_error(domain, "libvirt refuses a <shmem> device", err);
	bool present = false;

	if (libvirt_shmem_present(domain, &present, NULL))
		error_prefix(err, "a device may have been plugged in all the same: ");
	else if (present)
		error_prefix(err, "a device was plugged in all the same: ");
	else
		return ret;
	return -EPROTO;
}

/* The file has the name of the device. */
static int attach(struct libvirt_domain *domain, const char *alias, unsigned int bus,
		  struct error *err)
{
	char xml[512], address[96] = "";
	int ret;

	if (bus)
		snprintf(address, sizeof(address),
			 "<address type='pci' domain='0' bus='%u' slot='0' function='0'/>", bus);
	snprintf(xml, sizeof(xml),
		 "<shmem name='%s'><model type='ivshmem-plain'/><size unit='M'>%d</size>"
		 "<alias name='%s'/>%s</shmem>",
		 alias, LIBVIRT_SHMEM_BYTES >> 20, alias, address);
	pthread_mutex_lock(&domain->calling);
	ret = domain->api->attach_device(domain->domain, xml, LIBVIRT_AFFECT_LIVE);
	pthread_mutex_unlock(&domain->calling);
	return ret ? refused(domain, err) : 0;
}

/*
 * First where libvirt places a conventional PCI device by itself. libvirt uses an empty root port
 * only if the address names it.
 */
static int attach_somewhere(struct libvirt_domain *domain, const char *alias, struct error *err)
{
	unsigned int bus = 0, ports = 0;
	char *xml;
	int ret = attach(domain, alias, 0, err);

	if (ret != -EIO)
		return ret;
	xml = libvirt_domain_xml(domain);
	if (!xml)
		return libvirt_error(domain, domain->name, err);
	for (; ret == -EIO && (bus = libvirt_next_root_port(xml, bus)); ports++)
		ret = attach(domain, alias, bus, err);
	free(xml);
	if (ret != -EIO || ports)
		return ret;
	error_prefix(err, "no free PCI slot: ");
	return -ENOSPC;
}

/* With one file, wherever it is attached. */
static int attach_new(struct libvirt_domain *domain, struct libvirt_journal *journal,
		      char alias[static ALIAS_SIZE], struct error *err)
{
	int ret = make_alias(alias, err);

	if (!ret && journal)
		ret = libvirt_journal_file(journal, alias, err);
	if (ret)
		return ret;
	make_file(domain, path_of(alias).text);
	ret = attach_somewhere(domain, alias, err);
	if (ret)
		unlink(path_of(alias).text);
	return ret;
}

/* What only QEMU and this process can have written, and others cannot read from now on. */
static int map_private(const struct libvirt_domain *domain, int fd, void **at, struct error *err)
{
	struct stat st;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size != LIBVIRT_SHMEM_BYTES)
		return error_set(err, EIO, "cannot map the memory that QEMU shares");
	if (!libvirt_process_owns(&domain->qemu, st.st_uid))
		return error_set(err, EPERM,
				 "the memory that QEMU shares belongs to another user (%u)",
				 st.st_uid);
	if ((st.st_mode & 0777) != 0600 && fchmod(fd, 0600))
		return error_set(err, errno, "the memory that QEMU shares is open to others: %s",
				 strerror(errno));
	*at = mmap(NULL, LIBVIRT_SHMEM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return *at == MAP_FAILED ? error_set(err, EIO, "cannot map the memory that QEMU shares")
				 : 0;
}

static int map_file(const struct libvirt_domain *domain, const char *alias,
		    struct guest_region *out, struct error *err)
{
	struct shmem_path path = path_of(alias);
	void *at;
	int ret, fd;

	fd = open(path.text, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return error_set(err, EACCES, "cannot open the memory that QEMU shares: %s: %s",
				 path.text, strerror(errno));
	ret = map_private(domain, fd, &at, err);
	close(fd);
	/* the mappings keep it alive; no file is left behind */
	unlink(path.text);
	if (ret)
		return ret;
	madvise(at, LIBVIRT_SHMEM_BYTES, MADV_DONTDUMP);
	*out = (struct guest_region){.size = LIBVIRT_SHMEM_BYTES, .hva = at};
	return 0;
}

/* Where the guest has mapped the device of this name. -EAGAIN: nowhere yet. */
static int find_bar(struct libvirt_domain *domain, const char *alias, struct libvirt_ram *out,
		    struct error *err)
{
	json_t *reply = NULL;
	int ret = libvirt_qmp(domain, "query-pci", NULL, -1, &reply, err);

	if (!ret)
		ret = libvirt_reply_bar(reply, alias, MEMORY_BAR, out, err);
	json_decref(reply);
	if (!ret && out->size != LIBVIRT_SHMEM_BYTES)
		ret = error_set(err, EPROTO, "the memory device has %" PRIu64 " bytes", out->size);
	return ret;
}

int libvirt_shmem_find(struct libvirt_domain *domain, struct libvirt_ram *out, struct error *err)
{
	char alias[ALIAS_SIZE];
	int ret = find_alias(domain, alias, err);

	if (!ret && !alias[0])
		ret = error_set(err, ENOENT, "the domain has no scratch memory device");
	return ret ? ret : find_bar(domain, alias, out, err);
}

static int wait_for_gpa(struct libvirt_domain *domain, const char *alias, uint64_t *gpa,
			struct error *err)
{
	struct libvirt_ram range = {0};

	for (int i = 0; i < PLUG_TRIES; i++) {
		int ret = find_bar(domain, alias, &range, err);

		*gpa = range.gpa;
		if (ret != -EAGAIN)
			return ret;
		clock_wait_ms(POLL_MS);
	}
	return error_set(
		err, ETIMEDOUT,
		"the guest does not accept the hot-plugged device: it needs ACPI and a kernel "
		"with PCI hot-plug");
}

int libvirt_shmem_check_none(struct libvirt_domain *domain, struct error *err)
{
	bool present = false;
	int ret = libvirt_shmem_present(domain, &present, err);

	if (ret || !present)
		return ret;
	return error_set(err, EEXIST,
			 "the domain has a device of an earlier sonde: run "
			 "'sonde recover %s' first",
			 domain->name);
}

static int check_pluggable(struct libvirt_domain *domain, struct error *err)
{
	int ret = libvirt_shmem_check_none(domain, err);

	return ret ? ret : check_survives(domain, err);
}

int libvirt_shmem_plug(struct libvirt_domain *domain, struct libvirt_journal *journal,
		       struct guest_region *out, bool *tried, struct error *err)
{
	char alias[ALIAS_SIZE];
	int ret = check_pluggable(domain, err);

	*tried = !ret;
	if (!ret)
		ret = attach_new(domain, journal, alias, err);
	if (ret)
		return ret;
	ret = map_file(domain, alias, out, err);
	if (!ret)
		ret = wait_for_gpa(domain, alias, &out->gpa, err);
	if (ret)
		libvirt_shmem_unmap(out);
	return ret;
}

int libvirt_shmem_describe(struct libvirt_domain *domain, char *text, size_t size,
			   struct error *err)
{
	int ret = check_pluggable(domain, err);
	char *xml;

	if (ret)
		return ret;
	xml = libvirt_domain_xml(domain);
	if (!xml)
		return libvirt_error(domain, domain->name, err);
	ret = libvirt_slot_describe(xml, text, size, err);
	free(xml);
	return ret;
}

void libvirt_shmem_unmap(struct guest_region *region)
{
	if (region->hva)
		munmap(region->hva, LIBVIRT_SHMEM_BYTES);
	*region = (struct guest_region){0};
}

/* --- unplugging ------------------------------------------------------------------------------ */

static int check_runs(struct libvirt_domain *domain, struct error *err)
{
	enum libvirt_run_state state;
	int ret = libvirt_domain_state(domain, &state, err);

	if (!ret && state != LIBVIRT_RUNS)
		ret = error_set(
			err, EBUSY,
			"the domain is paused: to remove its memory device, resume it and run "
			"'sonde recover'");
	return ret;
}

/*
 * By QEMU's own command; libvirt does the rest when QEMU reports the device's end. Unlike libvirt's
 * command it may be repeated: libvirt 9.0 crashes if it is asked to detach a device that is gone.
 */
static int ask_to_unplug(struct libvirt_domain *domain, const char *alias, struct error *err)
{
	int ret = check_survives(domain, err);

	if (ret == -ENOTSUP)
		error_prefix(err, "the memory device stays, unused, until the domain is shut "
				  "down: ");
	if (!ret)
		libvirt_qmp(domain, "device_del", json_pack("{s:s}", "id", alias), -1, NULL, NULL);
	return ret;
}

void libvirt_shmem_remove_file(const char *name)
{
	if (is_alias(name))
		unlink(path_of(name).text);
}

int libvirt_shmem_unplug(struct libvirt_domain *domain, struct error *err)
{
	char alias[ALIAS_SIZE];

	for (int i = 0; i < UNPLUG_TRIES; i++) {
		int ret = find_alias(domain, alias, err);

		if (ret || !alias[0])
			return ret;
		ret = check_runs(domain, err);
		if (ret)
			return ret;
		/* the tracer that plugged it in may have died before it unlinked the file */
		unlink(path_of(alias).text);
		/* repeated, because a busy guest may lose the request */
		if (i % DETACH_EVERY == 0)
			ret = ask_to_unplug(domain, alias, err);
		if (ret)
			return ret;
		clock_wait_ms(POLL_MS);
	}
	return error_set(err, ETIMEDOUT, "the guest has not released the hot-plugged device yet");
}
