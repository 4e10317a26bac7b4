/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Scratch memory for a domain: a device that is plugged in and out, and what must not be tried. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/lib/core-dump.h"
#include "tests/lib/tap.h"
#include "vmm/libvirt/backend/shmem.h"

#define PORT(index)                                                                           \
	"    <controller type='pci' index='" index "' model='pcie-root-port'>\n"              \
	"      <model name='pcie-root-port'/>\n"                                              \
	"      <address type='pci' domain='0x0000' bus='0x00' slot='0x02' function='0x0'/>\n" \
	"    </controller>\n"

static const char two_ports[] =
	"    <controller type='pci' index='0' model='pcie-root'/>\n" PORT("1") PORT("2");

enum { STRANGER = 65534 };

/* The domain as libvirt and QEMU have it. */
static struct {
	bool kvm, paused, mute;
	unsigned int vcpus, listeners;
	const char *ports;     /* controllers in its XML */
	char asked[64];        /* the alias of the last try */
	bool renamed;          /* another try had another alias */
	char device[64];       /* its alias; "": none */
	unsigned int bus;      /* where libvirt takes the device: 0 by itself */
	bool refuses;          /* any device */
	bool loses;            /* the answer of what it takes */
	bool falls_mute;       /* with that */
	unsigned int attached; /* tries */
	unsigned int unmapped; /* queries until the guest has mapped it */
	uint64_t size;
	unsigned int deaf, deletes; /* requests that the guest loses; that came */
	unsigned int slow, leaving; /* looks until the device is gone; that are left, 0: it stays */
	bool no_file;
	bool strange;  /* the file is another user's */
	int held;      /* a descriptor of it; -1: none */
	bool noted;    /* the journal had it then */
	bool was_open; /* others could read it when it was plugged in */
} world;

static unsigned int mode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_mode & 0777;
}

static void make_file(const char *alias)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/dev/shm/%s", alias);
	fd = open(path, O_RDWR | O_CREAT, 0644);
	if (fd < 0 || ftruncate(fd, (off_t)world.size) ||
	    (world.strange && fchown(fd, STRANGER, (gid_t)-1)))
		abort();
	world.was_open = mode_of(fd) & 077;
	if (world.held >= 0)
		close(world.held);
	world.held = fd;
}

static bool has_file(const char *alias)
{
	char path[128];

	snprintf(path, sizeof(path), "/dev/shm/%s", alias);
	return !access(path, F_OK);
}

static struct libvirt_journal journal = {.fd = -1};

/* The tracer may die from now on. */
static bool has_note(const char *alias)
{
	struct journal_contents contents;
	bool has;

	if (libvirt_journal_read(&journal, &contents, NULL))
		abort();
	has = !strcmp(contents.file, alias);
	journal_contents_deinit(&contents);
	return has;
}

static int attach_device(virDomainPtr domain, const char *xml, unsigned int flags)
{
	const char *bus = strstr(xml, "bus='");
	unsigned int number = bus ? (unsigned int)atoi(bus + 5) : 0;
	char asked[sizeof(world.asked)] = "";

	(void)domain;
	(void)flags;
	world.attached++;
	if (sscanf(xml, "<shmem name='%63[^']'", asked) != 1)
		return -1;
	world.renamed |= world.asked[0] && strcmp(world.asked, asked) != 0;
	memcpy(world.asked, asked, sizeof(world.asked));
	if (world.refuses || number != world.bus)
		return -1;
	world.noted = journal.fd >= 0 && has_note(world.asked);
	memcpy(world.device, world.asked, sizeof(world.device));
	if (!world.no_file)
		make_file(world.device);
	world.mute = world.falls_mute;
	return world.loses ? -1 : 0;
}

static char *domain_xml(virDomainPtr domain, unsigned int flags)
{
	char *xml = NULL;

	(void)domain;
	(void)flags;
	if (world.mute)
		return NULL;
	if (world.leaving && !--world.leaving)
		world.device[0] = '\0';
	if (asprintf(&xml, "<domain>\n  <devices>\n%s%s%s%s  </devices>\n</domain>\n",
		     world.ports ? world.ports : "", world.device[0] ? "    <shmem name='" : "",
		     world.device, world.device[0] ? "'>\n    </shmem>\n" : "") < 0)
		abort();
	return xml;
}

static char *pci(void)
{
	char *reply = NULL;
	bool mapped = !world.unmapped;

	world.unmapped -= !mapped;
	if (asprintf(
		    &reply,
		    "{\"return\": [{\"devices\": [{\"qdev_id\": \"%s\", \"regions\": [{\"bar\": 2, "
		    "\"address\": %s, \"size\": %lu}]}]}]}",
		    world.device, mapped ? "4271898624" : "-1", world.size) < 0)
		abort();
	return reply;
}

static char *cpus(void)
{
	char reply[256] = "{\"return\": [";

	for (unsigned int i = 0; i < world.vcpus; i++)
		strcat(reply, i ? ", {}" : "{}");
	return strdup(strcat(reply, "]}"));
}

static char *mtree(void)
{
	char reply[256] = "";

	for (unsigned int i = 0; i < world.listeners; i++)
		strcat(reply, "address-space: cpu-memory-0\n");
	return strdup(reply);
}

static char *delete (void)
{
	if (++world.deletes > world.deaf)
		world.leaving = world.leaving ? world.leaving : 1 + world.slow;
	return strdup("{\"return\": {}}");
}

static int command(virDomainPtr domain, const char *text, char **result, unsigned int flags)
{
	(void)domain;
	(void)flags;
	if (strstr(text, "query-kvm"))
		*result = strdup(world.kvm ? "{\"return\": {\"enabled\": true}}"
					   : "{\"return\": {\"enabled\": false}}");
	else if (strstr(text, "query-pci"))
		*result = pci();
	else if (strstr(text, "query-cpus-fast"))
		*result = cpus();
	else if (strstr(text, "info mtree"))
		*result = mtree();
	else if (strstr(text, "device_del"))
		*result = delete ();
	else
		*result = strdup("{\"return\": {}}");
	return 0;
}

static int domain_state(virDomainPtr domain, int *state, int *reason, unsigned int flags)
{
	(void)domain;
	(void)flags;
	*state = world.paused ? 3 : 1;
	*reason = 1;
	return 0;
}

static int last_code(void)
{
	return 1;
}

static const char *last_message(void)
{
	return "no";
}

static const struct libvirt_api api = {.attach_device = attach_device,
				       .domain_xml = domain_xml,
				       .monitor_command = command,
				       .domain_state = domain_state,
				       .last_code = last_code,
				       .last_message = last_message};

static struct libvirt_domain domain;
static struct error why;

static void begin(void)
{
	if (world.held > 0)
		close(world.held);
	memset(&world, 0, sizeof(world));
	world.held = -1;
	world.kvm = true;
	world.vcpus = world.listeners = 2;
	world.size = LIBVIRT_SHMEM_BYTES;
	domain = (struct libvirt_domain){
		.api = &api, .calling = PTHREAD_MUTEX_INITIALIZER, .name = "d"};
}

static bool dumped; /* a device's memory would have been part of a core dump */
static bool left;   /* it was still mapped when it was unmapped */

static int plug(bool *tried)
{
	struct guest_region out = {0}, was;
	int ret = libvirt_shmem_plug(&domain, journal.fd >= 0 ? &journal : NULL, &out, tried, &why);

	dumped |= out.hva && core_dump_has(out.hva);
	if (!ret && (out.gpa != 4271898624 || out.size != LIBVIRT_SHMEM_BYTES || !out.hva))
		ret = -EINVAL;
	if (!ret)
		memset(out.hva, 0xff, out.size);
	was = out;
	libvirt_shmem_unmap(&out);
	left |= was.hva && !msync(was.hva, was.size, MS_ASYNC);
	return ret;
}

static void test_plain(void)
{
	struct libvirt_ram ram;
	char alias[64];
	bool tried, present;

	begin();
	world.unmapped = 2;
	ok(!plug(&tried) && tried && world.attached == 1, "a device is plugged in and mapped");
	ok(!dumped && !left, "its memory is not part of a core dump, and can be unmapped");
	snprintf(alias, sizeof(alias), "%s", world.device);
	ok(!strncmp(alias, "ua-sonde-", 9) && !has_file(alias), "no file of it is left behind");
	ok(!libvirt_shmem_present(&domain, &present, NULL) && present, "the domain has it");
	ok(!libvirt_shmem_find(&domain, &ram, NULL) && ram.gpa == 4271898624,
	   "it is where the guest has mapped it");
	ok(plug(&tried) == -EEXIST && !tried && world.attached == 1,
	   "another one is not plugged in: %s", why.text);
	make_file(alias);
	ok(!libvirt_shmem_unplug(&domain, &why) && world.deletes == 1 && !has_file(alias),
	   "it is plugged out, with a file that a dead tracer has left");
	ok(!libvirt_shmem_present(&domain, &present, NULL) && !present, "then it is gone");
	ok(!libvirt_shmem_unplug(&domain, NULL) && world.deletes == 1,
	   "there is nothing more to do");
	ok(libvirt_shmem_find(&domain, &ram, NULL) == -ENOENT, "nor to find");
	begin();
	ok(!plug(&tried) && strcmp(world.device, alias), "no name is used twice");
}

/* A tracer that dies before the device is plugged in leaves its file. */
static void test_noted(void)
{
	char path[128];
	bool tried;

	begin();
	world.ports = two_ports;
	world.bus = 2;
	journal = (struct libvirt_journal){
		.folder = -1,
		.fd = memfd_create("journal", MFD_CLOEXEC | MFD_ALLOW_SEALING),
		.compact_at = 1 << 20};
	ok(!plug(&tried) && world.attached == 3 && world.noted,
	   "a device's file is in the journal before it is made, also at the third try");
	ok(!world.renamed, "it is the same file at each try: none stays");
	make_file(world.device);
	libvirt_shmem_remove_file(world.device);
	ok(!has_file(world.device), "it is removed by its name");
	begin();
	if (fcntl(journal.fd, F_ADD_SEALS, F_SEAL_GROW))
		abort();
	ok(plug(&tried) == -EIO && !world.attached,
	   "what the journal has no room for is not made: %s", why.text);
	libvirt_journal_close(&journal);
	snprintf(path, sizeof(path), "ua-sonde-0123456789abcdef-%d", getpid());
	make_file(path);
	libvirt_shmem_remove_file(path);
	ok(has_file(path), "a file of another name is not removed");
	snprintf(path, sizeof(path), "/dev/shm/ua-sonde-0123456789abcdef-%d", getpid());
	unlink(path);
}

static void test_names(void)
{
	static const char *const others[] = {"ua-sonde-", "ua-sonde-../../../../etc/pass",
					     "ua-sonde-0123456789abcdeg", "shmem0",
					     "ua-other-0123456789abcdef"};
	bool present;

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		begin();
		snprintf(world.device, sizeof(world.device), "%s", others[i]);
		ok(!libvirt_shmem_present(&domain, &present, NULL) && !present &&
			   !libvirt_shmem_unplug(&domain, NULL) && world.device[0],
		   "a device with the name %s is left alone", others[i]);
	}
}

/* QEMU would crash: an emulated domain from which a vCPU was unplugged. */
static void test_survives(void)
{
	bool tried;

	begin();
	world.kvm = false;
	ok(!plug(&tried), "an emulated domain gets a device");
	begin();
	world.kvm = false;
	world.listeners = 3;
	ok(plug(&tried) == -ENOTSUP && !tried && !world.attached,
	   "one that has lost a vCPU does not: %s", why.text);
	begin();
	ok(!plug(&tried), "a device is there");
	world.kvm = false;
	world.listeners = 3;
	ok(libvirt_shmem_unplug(&domain, &why) == -ENOTSUP && !world.deletes && world.device[0] &&
		   strstr(why.text, "the memory device stays"),
	   "then a vCPU is lost: it stays, which is told: %s", why.text);
	begin();
	world.listeners = 3;
	ok(!plug(&tried), "with KVM that does no harm");
}

static void test_slots(void)
{
	bool tried;

	begin();
	world.ports = two_ports;
	world.bus = 2;
	ok(!plug(&tried) && world.attached == 3,
	   "where libvirt places no device, empty root ports are tried");
	begin();
	world.ports = two_ports;
	world.refuses = true;
	ok(plug(&tried) == -EIO && tried && world.attached == 3, "all of them: %s", why.text);
	begin();
	world.refuses = true;
	ok(plug(&tried) == -ENOSPC && world.attached == 1, "without one there is no slot: %s",
	   why.text);
	begin();
	world.mute = true;
	ok(plug(&tried) < 0 && !tried && !world.attached,
	   "without the domain's description nothing is tried");
}

/* What libvirt says no of, and has done. A second device would be told from the first by nobody. */
static void test_lost_answer(void)
{
	bool tried;

	begin();
	world.ports = two_ports;
	world.loses = true;
	ok(plug(&tried) == -EPROTO && tried && world.attached == 1,
	   "a device that is there in spite of an error is the only one: %s", why.text);
	ok(!libvirt_shmem_unplug(&domain, NULL) && !world.device[0] && !has_file(world.asked),
	   "and is plugged out again");
	begin();
	world.ports = two_ports;
	world.loses = world.falls_mute = true;
	ok(plug(&tried) == -EPROTO && tried && world.attached == 1,
	   "so is one of which libvirt does not say whether it is there: %s", why.text);
	world.mute = false;
	ok(!libvirt_shmem_unplug(&domain, NULL) && !has_file(world.asked),
	   "it is plugged out later");
}

static void test_memory(void)
{
	bool tried;

	begin();
	world.no_file = true;
	ok(plug(&tried) == -EACCES && tried, "memory that cannot be opened is an error: %s",
	   why.text);
	ok(!libvirt_shmem_unplug(&domain, NULL) && !world.device[0],
	   "the device is plugged out again");
	begin();
	world.size = LIBVIRT_SHMEM_BYTES / 2;
	ok(plug(&tried) == -EIO && tried, "memory of another size is an error: %s", why.text);
	snprintf(world.device, sizeof(world.device), "ua-sonde-0123456789abcdef");
	ok(libvirt_shmem_find(&domain, &(struct libvirt_ram){0}, &why) == -EPROTO,
	   "and is not taken for the tracer's: %s", why.text);
}

/* QEMU itself makes a file that all may read. */
static void test_private(void)
{
	bool tried;

	begin();
	ok(!plug(&tried) && world.was_open && mode_of(world.held) == 0600,
	   "a file that others can read is closed to them");
	begin();
	domain.qemu = (struct libvirt_process){.pid = getpid(), .fd = -1};
	ok(!plug(&tried) && !world.was_open,
	   "if QEMU's user is known, they can read it at no time");
	begin();
	domain.qemu = (struct libvirt_process){.pid = getpid(), .fd = -1};
	world.refuses = true;
	ok(plug(&tried) < 0 && world.asked[0] && !has_file(world.asked),
	   "a file for a device that libvirt refuses is removed");
}

/* Of root, /proc would say, if it could not be dumped. */
static pid_t start_strange_process(void)
{
	int ready[2];
	pid_t pid;
	char c;

	if (pipe(ready))
		abort();
	pid = fork();
	if (!pid) {
		close(ready[0]);
		if (setuid(STRANGER) || prctl(PR_SET_DUMPABLE, 1) ||
		    prctl(PR_SET_PDEATHSIG, SIGKILL) || write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (pid < 0 || read(ready[0], &c, 1) != 1)
		abort();
	close(ready[0]);
	return pid;
}

static void test_other_user(void)
{
	struct stat st = {0};
	char alias[64];
	bool tried;
	pid_t pid;

	if (geteuid()) {
		tap_skip("other users", "needs root");
		return;
	}
	begin();
	world.strange = true;
	ok(plug(&tried) == -EPERM, "another user's file is not used: %s", why.text);
	snprintf(alias, sizeof(alias), "%s", world.device);
	ok(!has_file(alias), "and removed");
	begin();
	pid = start_strange_process();
	domain.qemu = (struct libvirt_process){.pid = pid, .fd = -1};
	ok(!plug(&tried) && !fstat(world.held, &st) && st.st_uid == STRANGER && !world.was_open,
	   "it is made for the user that QEMU runs as");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void test_unplug(void)
{
	bool tried;

	begin();
	if (plug(&tried))
		abort();
	world.paused = true;
	ok(libvirt_shmem_unplug(&domain, &why) == -EBUSY && !world.deletes && world.device[0],
	   "a paused domain cannot release a device: %s", why.text);
	world.paused = false;
	world.deaf = 1;
	ok(!libvirt_shmem_unplug(&domain, &why) && world.deletes == 2,
	   "a guest that has lost the request is asked again");
	begin();
	if (plug(&tried))
		abort();
	world.slow = 3;
	ok(!libvirt_shmem_unplug(&domain, &why) && world.deletes == 1,
	   "one that takes its time has some before it is");
}

static void test_describe(void)
{
	char text[256] = "";

	begin();
	world.ports = two_ports;
	ok(!libvirt_shmem_describe(&domain, text, sizeof(text), &why) && text[0] && !world.attached,
	   "where a device would go is told without plugging it in: %s", text);
	snprintf(world.device, sizeof(world.device), "ua-sonde-0123456789abcdef");
	ok(libvirt_shmem_describe(&domain, text, sizeof(text), &why) == -EEXIST,
	   "unless there is one");
}

int main(void)
{
	test_plain();
	test_noted();
	test_names();
	test_survives();
	test_slots();
	test_lost_answer();
	test_memory();
	test_private();
	test_other_user();
	test_unplug();
	test_describe();
	return tap_done();
}
