/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The fake QEMU itself: whether it runs, its monitor, and its process. */
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "tests/lib/fake-qemu-internal.h"

/* Where AddressSanitizer and ThreadSanitizer have nothing of their own. */
#define RAM_HVA 0x7e9000000000ull

enum { ALL_BYTES = FAKE_QEMU_RAM + FAKE_DEVICE_BYTES + FAKE_DIMM_BYTES };

/* Forked processes inherit it. */
const char *fake_qemu_uuid(void)
{
	static char uuid[LIBVIRT_UUID_TEXT];

	if (!*uuid)
		snprintf(uuid, sizeof(uuid), "00000000-0000-4000-8000-%012x", getpid());
	return uuid;
}

/* --- running, with the lock ------------------------------------------------------------------ */

/* QEMU, vm_stop() */
void fake_qemu_stop(struct fake_qemu *q, enum run run, enum reason reason, unsigned int vcpu)
{
	if (q->run != RUNNING)
		return;
	q->run = run;
	q->reason = reason;
	if (q->server && reason == BY_MIGRATION)
		fake_gdbstub_notify(q, "18", vcpu);
	else if (q->server)
		fake_gdbstub_notify(q, run == DEBUG ? "05" : "02", vcpu);
}

static bool has_break(const struct fake_qemu *q, unsigned int vcpu, uint64_t gva)
{
	if (q->kvm)
		return fake_int3_has(&q->int3s, gva);
	for (size_t i = 0; gva && i < MAX_BREAKS; i++)
		if (q->breaks[vcpu][i] == gva)
			return true;
	return false;
}

void fake_qemu_run(struct fake_qemu *q)
{
	q->run = RUNNING;
	for (unsigned int i = 0; i < q->nr_vcpus && q->run == RUNNING; i++)
		if (has_break(q, i, q->registers[i][RIP]))
			fake_qemu_stop(q, DEBUG, BY_UNKNOWN, i);
}

void fake_qemu_reset(struct fake_qemu *q)
{
	q->resets++;
	memset(q->registers, 0, sizeof(q->registers));
	memset(q->cr3, 0, sizeof(q->cr3));
	for (unsigned int i = 0; i < q->nr_vcpus; i++)
		q->registers[i][RIP] = FAKE_RESET_RIP;
}

/* The device's memory lies behind the RAM in this process, and the module's behind that. */
uint8_t *fake_qemu_hva(struct fake_qemu *q, uint64_t gpa, uint64_t size)
{
	if (gpa < FAKE_QEMU_RAM && size <= FAKE_QEMU_RAM - gpa)
		return q->ram + gpa;
	if (q->device && gpa >= FAKE_DEVICE_GPA && gpa - FAKE_DEVICE_GPA < FAKE_DEVICE_BYTES &&
	    size <= FAKE_DEVICE_BYTES - (gpa - FAKE_DEVICE_GPA))
		return q->ram + FAKE_QEMU_RAM + (gpa - FAKE_DEVICE_GPA);
	if (q->dimm && gpa >= FAKE_DIMM_GPA && gpa - FAKE_DIMM_GPA < FAKE_DIMM_BYTES &&
	    size <= FAKE_DIMM_BYTES - (gpa - FAKE_DIMM_GPA))
		return q->ram + FAKE_QEMU_RAM + FAKE_DEVICE_BYTES + (gpa - FAKE_DIMM_GPA);
	return NULL;
}

/* --- the monitor, with the lock -------------------------------------------------------------- */

static json_t *chardevs(const struct fake_qemu *q)
{
	if (!q->chardev)
		return json_array();
	return json_pack("[{s:s, s:s, s:b}]", "label", "sonde-gdb", "filename",
			 q->fd >= 0 ? "unix:/x" : "disconnected:unix:/x", "frontend-open",
			 (int)q->server);
}

static json_t *vcpus(const struct fake_qemu *q)
{
	json_t *all = json_array();

	for (unsigned int i = 0; i < q->nr_vcpus; i++)
		json_array_append_new(
			all, json_pack("{s:s, s:i}", "target", "x86_64", "vcpus-count", 1));
	return all;
}

static json_t *failure(void)
{
	return NULL;
}

static json_t *add_chardev(struct fake_qemu *q)
{
	if (q->chardev)
		return failure();
	q->chardev = true;
	return json_object();
}

static json_t *remove_chardev(struct fake_qemu *q)
{
	if (q->server)
		return failure();
	q->chardev = false;
	return json_object();
}

static bool is_refused(struct fake_qemu *q, const char *name)
{
	if (!q->refused || strcmp(name, q->refused))
		return false;
	if (!q->spare)
		return true;
	q->spare--;
	return false;
}

/* NULL: QEMU's error */
static json_t *command(struct fake_qemu *q, const char *name)
{
	static const char *const states[] = {"running", "paused", "debug"};

	if (is_refused(q, name))
		return failure();
	if (!strcmp(name, "query-status"))
		q->status_queries++;
	if (!strcmp(name, "query-status"))
		return json_pack("{s:s}", "status", states[q->run]);
	if (!strcmp(name, "query-kvm"))
		return json_pack("{s:b}", "enabled", (int)q->kvm);
	if (!strcmp(name, "query-chardev"))
		return chardevs(q);
	if (!strcmp(name, "query-cpus-fast") || !strcmp(name, "query-hotpluggable-cpus"))
		return vcpus(q);
	if (!strcmp(name, "query-pci"))
		return json_pack("[{s:[{s:s, s:[{s:i, s:i, s:i}]}]}]", "devices", "qdev_id",
				 q->alias, "regions", "bar", 2, "address",
				 q->unmapped ? 0 : FAKE_DEVICE_GPA, "size", FAKE_DEVICE_BYTES);
	if (!strcmp(name, "device_del"))
		q->device = false;
	if (!strcmp(name, "chardev-add"))
		return add_chardev(q);
	if (!strcmp(name, "chardev-remove"))
		return remove_chardev(q);
	if (!strcmp(name, "stop"))
		fake_qemu_stop(q, PAUSED, BY_UNKNOWN, 0);
	else if (!strcmp(name, "cont"))
		fake_qemu_run(q);
	else if (!strcmp(name, "system_reset"))
		fake_qemu_reset(q);
	return json_object();
}

/* Without KVM all but the first vCPU are in user mode. */
static unsigned int cpl_of(const struct fake_qemu *q, unsigned int vcpu)
{
	if (q->kvm)
		return q->cs[vcpu] & 3;
	return vcpu ? 3 : 0;
}

/* As far as sonde reads it: all but the first vCPU are halted. */
static char *register_text(const struct fake_qemu *q)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	for (unsigned int i = 0; out && i < q->nr_vcpus; i++)
		fprintf(out,
			"\r\nCPU#%u\r\nRIP=%" PRIx64 " RFL=2 [-] CPL=%u II=0 A20=1 SMM=0 HLT=%d\r\n"
			"CR0=80000011 CR2=0 CR3=%" PRIx64 " CR4=20\r\nEFER=500\r\n",
			i, q->registers[i][RIP], cpl_of(q, i), i ? 1 : 0, q->cr3[i]);
	if (!out || fclose(out))
		abort();
	return text;
}

static char *memory_map(const struct fake_qemu *q)
{
	char dimm[160] = "", *reply;

	if (q->dimm)
		snprintf(dimm, sizeof(dimm),
			 "    %016x-%016x (prio 0, i/o): device-memory\r\n"
			 "      %016x-%016x (prio 0, ram): module\r\n",
			 FAKE_DIMM_GPA, FAKE_DIMM_GPA + 2 * FAKE_DIMM_BYTES - 1, FAKE_DIMM_GPA,
			 FAKE_DIMM_GPA + FAKE_DIMM_BYTES - 1);
	if (asprintf(&reply,
		     "address-space: memory\r\n  0000000000000000-ffffffffffffffff (prio "
		     "0, i/o): system\r\n    0000000000000000-%016x (prio 0, ram): alias "
		     "ram-below-4g @pc.ram 0-1\r\n%s",
		     FAKE_QEMU_RAM - 1, dimm) < 0)
		abort();
	return reply;
}

static char *hmp(struct fake_qemu *q, const char *text)
{
	char *reply = NULL, name[32];
	uint64_t gpa;

	if (sscanf(text, "%31s", name) == 1 && is_refused(q, name))
		return strdup("unknown command\r\n");
	if (!strcmp(text, "gdbserver none")) {
		fake_gdbstub_end(q);
	} else if (!strncmp(text, "gdbserver", 9)) {
		fake_gdbstub_start(q);
		return strdup("Waiting for gdb connection on device 'sonde-gdb'\r\n");
	} else if (!strcmp(text, "info registers -a")) {
		return register_text(q);
	} else if (!strcmp(text, "info mtree")) {
		return memory_map(q);
	} else if (sscanf(text, "gpa2hva %" SCNx64, &gpa) == 1) {
		if (asprintf(&reply, "Host virtual address for 0x%" PRIx64 " (pc.ram) is %p\r\n",
			     gpa, (void *)fake_qemu_hva(q, gpa, 1)) < 0)
			abort();
	}
	return reply ? reply : strdup("");
}

char *fake_qemu_answer(struct fake_qemu *q, const char *text, unsigned int flags)
{
	json_t *request = json_loads(text, 0, NULL), *result;
	char *reply;

	if (flags & LIBVIRT_QEMU_HMP) {
		json_decref(request);
		return hmp(q, text);
	}
	result = command(q, json_string_value(json_object_get(request, "execute")));
	json_decref(request);
	result = result ? json_pack("{s:o}", "return", result)
			: json_pack("{s:{s:s, s:s}}", "error", "class", "GenericError", "desc",
				    "no");
	reply = json_dumps(result, JSON_COMPACT);
	json_decref(result);
	return reply;
}

/* --- its life -------------------------------------------------------------------------------- */

/* At the same address in both processes, where nothing else is mapped. */
static uint8_t *map_ram(int fd)
{
	void *at = mmap((void *)RAM_HVA, ALL_BYTES, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);

	if (at != (void *)RAM_HVA)
		abort();
	return at;
}

void fake_qemu_main(int argc, char **argv)
{
	if (argc != 4 || strcmp(argv[1], "-uuid"))
		return;
	map_ram(atoi(argv[3]));
	for (;;)
		pause();
}

static void run_child(int fd)
{
	char descriptor[16];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(descriptor, sizeof(descriptor), "%d", fd);
	execl("/proc/self/exe", "fake-qemu", "-uuid", fake_qemu_uuid(), descriptor, NULL);
	_exit(1);
}

static bool is_mapped(const struct fake_qemu *q)
{
	char path[64], line[512];
	bool found = false;
	uintptr_t start;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", q->pid);
	maps = fopen(path, "re");
	while (maps && !found && fgets(line, sizeof(line), maps))
		found = sscanf(line, "%" SCNxPTR, &start) == 1 && start == (uintptr_t)q->ram &&
			strstr(line, "memfd:ram");
	if (maps)
		fclose(maps);
	return found;
}

static void start_process(struct fake_qemu *q, int fd)
{
	pid_t pid;

	fake_qemu_uuid();
	pid = fork(); /* *q is shared with the child */

	if (!pid)
		run_child(fd);
	q->pid = pid;
	for (int i = 0; i < 5000; i++) {
		clock_wait_ms(1);
		/* in this order: before its exec() the child has this process's mappings */
		libvirt_process_open(fake_qemu_uuid(), "", &q->process);
		if (q->process.pid == q->pid && is_mapped(q))
			return;
		libvirt_process_close(&q->process);
	}
	abort();
}

static void init_lock(struct fake_qemu *q)
{
	pthread_mutexattr_t shared;

	pthread_mutexattr_init(&shared);
	pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&q->lock, &shared);
	pthread_mutexattr_destroy(&shared);
}

struct fake_qemu *fake_qemu_create(unsigned int nr_vcpus)
{
	struct fake_qemu *q =
		mmap(NULL, sizeof(*q), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int fd = memfd_create("ram", 0);

	if (q == MAP_FAILED || fd < 0 || ftruncate(fd, ALL_BYTES) || nr_vcpus > MAX_VCPUS)
		abort();
	q->ram = map_ram(fd);
	q->nr_vcpus = nr_vcpus;
	q->fd = q->passed = -1;
	init_lock(q);
	start_process(q, fd);
	close(fd);
	fake_libvirt_list(q);
	return q;
}

void fake_qemu_destroy(struct fake_qemu *q)
{
	fake_libvirt_list(NULL);
	pthread_mutex_lock(&q->lock);
	fake_gdbstub_end(q);
	pthread_mutex_unlock(&q->lock);
	if (q->passed >= 0)
		close(q->passed);
	fake_qemu_kill(q);
	libvirt_process_close(&q->process);
	munmap(q->ram, ALL_BYTES);
	pthread_mutex_destroy(&q->lock);
	munmap(q, sizeof(*q));
}

void fake_qemu_kill(struct fake_qemu *q)
{
	if (!q->pid)
		return;
	kill(q->pid, SIGKILL);
	waitpid(q->pid, NULL, 0);
	q->pid = 0;
}
