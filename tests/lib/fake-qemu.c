/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/fake-qemu.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "formats/base/text.h"
#include "tests/lib/fake-int3.h"

enum {
	MAX_VCPUS = 4,
	NOBODY = 0x63, /* a vCPU that is not there */
	MAX_BREAKS = 32,
	MAX_PACKET = 4096,
	NR_REGISTERS = 17, /* the general ones and RIP, as in a `G` packet */
	RIP = 16,
	REGISTER_BYTES = 236, /* of a `g` reply */
	CS_AT = 140,          /* in it */
	CR0_AT = 188,
	CR3_AT = 204,
	CR4_AT = 212,
	EFER_AT = 228,
};

/* Where AddressSanitizer and ThreadSanitizer have nothing of their own. */
#define RAM_HVA 0x7e9000000000ull

enum run { RUNNING, PAUSED, DEBUG };
enum reason { BY_UNKNOWN = 0, BY_USER = 1, BY_MIGRATION = 2 }; /* virDomainPausedReason */

static const char device_alias[] = "ua-sonde-0123456789abcdef";
static struct fake_qemu *listed; /* libvirt's only domain */
static int error_code = 1;
static _Atomic int timers; /* of the event loop, which runs while there is one */

struct fake_qemu {
	pthread_mutex_t lock;
	enum run run;
	enum reason reason; /* libvirt's, while it does not run */
	bool dead_libvirtd;
	atomic_bool busy_libvirtd;
	_Atomic unsigned int nr_waiting; /* for it */
	bool panicked;
	const char *refused; /* a command of the monitor, after `spare` others; NULL: none */
	unsigned int spare;
	unsigned int keep_alive_s; /* of the last connection; 0: not asked for */
	unsigned int nr_vcpus;
	uint64_t registers[MAX_VCPUS][NR_REGISTERS];
	uint64_t breaks[MAX_VCPUS][MAX_BREAKS]; /* 0: none */
	unsigned int chosen;                    /* by Hc and Hg */
	bool kvm;                               /* breakpoints are bytes in the RAM: */
	struct fake_int3s int3s;
	uint64_t cr3[MAX_VCPUS]; /* 0: real mode */
	uint32_t cs[MAX_VCPUS];
	unsigned int resets;
	uint8_t *ram;
	pid_t pid;
	struct libvirt_process process;

	int passed;    /* by getfd; -1: none */
	bool hidden;   /* from libvirt */
	bool unmapped; /* by the guest: the device is */
	bool device;   /* the memory device is plugged in, under this name: */
	char alias[64];
	bool chardev; /* there is one, of ours */
	bool server;  /* the gdbstub uses it */
	int fd;       /* its connection; -1: none */
	pthread_t thread;
	bool has_thread;
	pid_t thread_pid; /* the process that has it */

	enum fake_notices notices;
	bool crosses; /* fake_qemu_cross(): */
	uint64_t crossing_rip;
	_Atomic unsigned int late_ms, status_queries;
	bool unacked; /* the gdbstub's last packet is not acknowledged */
	char packet[MAX_PACKET];
	size_t nr_packet;
	enum { IDLE, BODY, SUM1, SUM2 } state;
	fake_fault_fn *fault;
	void *fault_arg;
};

/* Forked processes inherit it. */
const char *fake_qemu_uuid(void)
{
	static char uuid[LIBVIRT_UUID_TEXT];

	if (!*uuid)
		snprintf(uuid, sizeof(uuid), "00000000-0000-4000-8000-%012x", getpid());
	return uuid;
}

/* --- running, with the lock ------------------------------------------------------------------ */

static void put_packet(struct fake_qemu *q, const char *text)
{
	char packet[MAX_PACKET];
	uint8_t sum = 0;
	int n;

	for (const char *c = text; *c; c++)
		sum = (uint8_t)(sum + (uint8_t)*c);
	n = snprintf(packet, sizeof(packet), "$%s#%02x", text, sum);
	if (q->fd >= 0 && send(q->fd, packet, (size_t)n, MSG_NOSIGNAL) == n)
		q->unacked = true;
}

static void notify(struct fake_qemu *q, const char *signal, unsigned int vcpu)
{
	char text[32];

	if (q->notices == FAKE_NO_NOTICES)
		return;
	snprintf(text, sizeof(text), "T%sthread:%02x;", signal,
		 q->notices == FAKE_STRANGE_NOTICES ? NOBODY : vcpu + 1);
	if (q->notices == FAKE_BROKEN_NOTICES)
		text[2] = 'z';
	put_packet(q, text);
}

/* QEMU, vm_stop() */
static void stop(struct fake_qemu *q, enum run run, enum reason reason, unsigned int vcpu)
{
	if (q->run != RUNNING)
		return;
	q->run = run;
	q->reason = reason;
	if (q->server && reason == BY_MIGRATION)
		notify(q, "18", vcpu);
	else if (q->server)
		notify(q, run == DEBUG ? "05" : "02", vcpu);
}

static struct fake_memory memory_of(struct fake_qemu *q)
{
	return (struct fake_memory){q->ram, FAKE_QEMU_RAM};
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

static void run(struct fake_qemu *q)
{
	q->run = RUNNING;
	for (unsigned int i = 0; i < q->nr_vcpus && q->run == RUNNING; i++)
		if (has_break(q, i, q->registers[i][RIP]))
			stop(q, DEBUG, BY_UNKNOWN, i);
}

/* --- the gdbstub, with the lock -------------------------------------------------------------- */

static void set_break(struct fake_qemu *q, uint64_t gva, bool on)
{
	for (unsigned int v = 0; v < q->nr_vcpus; v++) {
		size_t at = MAX_BREAKS;

		for (size_t i = 0; i < MAX_BREAKS; i++)
			if (q->breaks[v][i] == (on ? 0 : gva))
				at = i;
		if (at < MAX_BREAKS)
			q->breaks[v][at] = on ? gva : 0;
	}
}

static const char *set_int3(struct fake_qemu *q, uint64_t gva, bool on)
{
	const struct fake_memory memory = memory_of(q);

	return fake_int3_set(&q->int3s, &memory, q->cr3[q->chosen], gva, on) ? "OK" : "E22";
}

static void forget_breaks(struct fake_qemu *q)
{
	const struct fake_memory memory = memory_of(q);

	if (q->kvm)
		fake_int3_forget(&q->int3s, &memory, q->cr3[q->chosen]);
	memset(q->breaks[q->chosen], 0, sizeof(q->breaks[0]));
}

static void choose(struct fake_qemu *q, const char *thread, char *reply)
{
	unsigned long n = strtoul(thread, NULL, 16);

	if (n && n <= q->nr_vcpus)
		q->chosen = (unsigned int)n - 1;
	strcpy(reply, n && n <= q->nr_vcpus ? "OK" : "E22");
}

static void get_registers(struct fake_qemu *q, char *reply)
{
	uint8_t bytes[REGISTER_BYTES] = {0};

	memcpy(bytes, q->registers[q->chosen], sizeof(q->registers[0]));
	bytes[CR0_AT] = 0x11;
	if (q->kvm && q->cr3[q->chosen]) {
		bytes[CS_AT] = (uint8_t)q->cs[q->chosen];
		bytes[CR0_AT + 3] = 0x80; /* PG */
		memcpy(bytes + CR3_AT, &q->cr3[q->chosen], sizeof(q->cr3[0]));
		bytes[CR4_AT] = 0x20;     /* PAE */
		bytes[EFER_AT + 1] = 0x5; /* LME, LMA */
	}
	hex_encode(reply, bytes, sizeof(bytes));
}

static void reset(struct fake_qemu *q)
{
	q->resets++;
	memset(q->registers, 0, sizeof(q->registers));
	memset(q->cr3, 0, sizeof(q->cr3));
	for (unsigned int i = 0; i < q->nr_vcpus; i++)
		q->registers[i][RIP] = FAKE_RESET_RIP;
}

/* The device's memory lies behind the RAM in this process. */
static uint8_t *hva_of(struct fake_qemu *q, uint64_t gpa, uint64_t size)
{
	if (gpa < FAKE_QEMU_RAM && size <= FAKE_QEMU_RAM - gpa)
		return q->ram + gpa;
	if (q->device && gpa >= FAKE_DEVICE_GPA && gpa - FAKE_DEVICE_GPA < FAKE_DEVICE_BYTES &&
	    size <= FAKE_DEVICE_BYTES - (gpa - FAKE_DEVICE_GPA))
		return q->ram + FAKE_QEMU_RAM + (gpa - FAKE_DEVICE_GPA);
	return NULL;
}

static void access_memory(struct fake_qemu *q, const char *packet, char *reply)
{
	unsigned long gpa, size;
	uint8_t *at;
	int n = 0;

	if (sscanf(packet + 1, "%lx,%lx%n", &gpa, &size, &n) != 2 || !(at = hva_of(q, gpa, size)))
		strcpy(reply, "E14");
	else if (packet[0] == 'm')
		hex_encode(reply, at, size);
	else
		strcpy(reply, hex_decode(at, packet + 1 + n + 1, size) ? "OK" : "E22");
}

/* False: there is no reply. */
static bool execute(struct fake_qemu *q, const char *packet, char *reply)
{
	strcpy(reply, "OK");
	if (packet[0] == 'c') {
		run(q);
		return false;
	}
	if (packet[0] == 'H')
		choose(q, packet + 2, reply);
	else if (packet[0] == 'g')
		get_registers(q, reply);
	else if (packet[0] == 'G')
		hex_decode(q->registers[q->chosen], packet + 1, sizeof(q->registers[0]));
	else if (packet[0] == 'm' || packet[0] == 'M')
		access_memory(q, packet, reply);
	else if (packet[0] == 'q')
		strcpy(reply, "m<");
	else if (!strncmp(packet, "P1d=", 4))
		hex_decode(&q->cr3[q->chosen], packet + 4, sizeof(q->cr3[0]));
	else if (!strncmp(packet + 1, "0,", 2) && q->kvm)
		strcpy(reply, set_int3(q, strtoull(packet + 3, NULL, 16), packet[0] == 'Z'));
	else if (!strncmp(packet + 1, "0,", 2))
		set_break(q, strtoull(packet + 3, NULL, 16), packet[0] == 'Z');
	else if (packet[0] == '?') {
		forget_breaks(q);
		sprintf(reply, "T05thread:%02x;", q->chosen + 1);
	} else if (strncmp(packet, "Qqemu.PhyMemMode", 16))
		reply[0] = '\0';
	return true;
}

static void cut(struct fake_qemu *q, char *reply)
{
	reply[strlen(reply) / 2] = '\0';
	if (send(q->fd, "$", 1, MSG_NOSIGNAL) == 1)
		send(q->fd, reply, strlen(reply), MSG_NOSIGNAL);
	shutdown(q->fd, SHUT_RDWR);
}

static void handle(struct fake_qemu *q)
{
	char reply[MAX_PACKET];
	enum fake_fault fault = q->fault ? q->fault(q->fault_arg, q->packet) : FAKE_OBEY;

	if (fault == FAKE_STALL)
		clock_wait_ms(FAKE_STALL_MS);
	if (fault == FAKE_INTERLEAVE)
		notify(q, "02", 0);
	if (fault == FAKE_RESET)
		reset(q);
	send(q->fd, "+", 1, MSG_NOSIGNAL);
	if (fault == FAKE_REFUSE)
		return put_packet(q, "E22");
	if (!execute(q, q->packet, reply) || fault == FAKE_DEAF)
		return;
	if (fault == FAKE_CUT)
		return cut(q, reply);
	put_packet(q, fault == FAKE_GARBAGE ? "?!" : reply);
	if (fault == FAKE_DOUBLE)
		put_packet(q, reply);
}

/* What happens right before a byte that stops the domain. */
static void cross(struct fake_qemu *q)
{
	if (!q->crosses)
		return;
	q->crosses = false;
	if (!q->crossing_rip)
		return stop(q, PAUSED, BY_MIGRATION, 0);
	q->registers[0][RIP] = q->crossing_rip;
	run(q);
}

/* QEMU, gdb_read_byte(): any byte stops a domain that runs, unless it acknowledges a packet. */
static void take(struct fake_qemu *q, char c)
{
	if (q->unacked) {
		if (c == '+' || c == '$')
			q->unacked = false;
		if (c != '$')
			return;
	}
	if (q->run == RUNNING) {
		cross(q);
		stop(q, PAUSED, BY_UNKNOWN, 0);
		return;
	}
	if (q->state == IDLE && c == '$') {
		q->state = BODY;
		q->nr_packet = 0;
	} else if (q->state == BODY && c == '#') {
		q->state = SUM1;
	} else if (q->state == BODY && q->nr_packet < MAX_PACKET - 1) {
		q->packet[q->nr_packet++] = c;
	} else if (q->state == SUM1) {
		q->state = SUM2;
	} else if (q->state == SUM2) {
		q->state = IDLE;
		q->packet[q->nr_packet] = '\0';
		handle(q);
	}
}

static void *serve(void *arg)
{
	struct fake_qemu *q = arg;
	char c;

	while (recv(q->fd, &c, 1, 0) == 1) {
		clock_wait_ms(atomic_exchange(&q->late_ms, 0));
		pthread_mutex_lock(&q->lock);
		take(q, c);
		pthread_mutex_unlock(&q->lock);
	}
	pthread_mutex_lock(&q->lock);
	close(q->fd);
	q->fd = -1;
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

/* --- the monitor, with the lock -------------------------------------------------------------- */

static void start_server(struct fake_qemu *q)
{
	stop(q, PAUSED, BY_UNKNOWN, 0);
	q->server = true;
	q->fd = q->passed;
	q->passed = -1;
	q->state = IDLE;
	q->unacked = false;
	q->thread_pid = getpid();
	q->has_thread = !pthread_create(&q->thread, NULL, serve, q);
}

/* Releases the lock for a moment. */
static void end_server(struct fake_qemu *q)
{
	q->server = false;
	if (!q->has_thread)
		return;
	q->has_thread = false;
	/* of another process: the client has closed it, or will */
	if (q->thread_pid != getpid())
		return;
	if (q->fd >= 0)
		shutdown(q->fd, SHUT_RDWR);
	pthread_mutex_unlock(&q->lock);
	pthread_join(q->thread, NULL);
	pthread_mutex_lock(&q->lock);
}

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
		stop(q, PAUSED, BY_UNKNOWN, 0);
	else if (!strcmp(name, "cont"))
		run(q);
	else if (!strcmp(name, "system_reset"))
		reset(q);
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

static char *hmp(struct fake_qemu *q, const char *text)
{
	char *reply = NULL, name[32];
	uint64_t gpa;

	if (sscanf(text, "%31s", name) == 1 && is_refused(q, name))
		return strdup("unknown command\r\n");
	if (!strcmp(text, "gdbserver none")) {
		end_server(q);
	} else if (!strncmp(text, "gdbserver", 9)) {
		start_server(q);
		return strdup("Waiting for gdb connection on device 'sonde-gdb'\r\n");
	} else if (!strcmp(text, "info registers -a")) {
		return register_text(q);
	} else if (!strcmp(text, "info mtree")) {
		if (asprintf(&reply,
			     "address-space: memory\r\n  0000000000000000-ffffffffffffffff (prio "
			     "0, i/o): system\r\n    0000000000000000-%016x (prio 0, ram): alias "
			     "ram-below-4g @pc.ram 0-1\r\n",
			     FAKE_QEMU_RAM - 1) < 0)
			abort();
	} else if (sscanf(text, "gpa2hva %" SCNx64, &gpa) == 1) {
		if (asprintf(&reply, "Host virtual address for 0x%" PRIx64 " (pc.ram) is %p\r\n",
			     gpa, (void *)hva_of(q, gpa, 1)) < 0)
			abort();
	}
	return reply ? reply : strdup("");
}

static char *answer(struct fake_qemu *q, const char *text, unsigned int flags)
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

/* --- libvirt --------------------------------------------------------------------------------- */

static struct fake_qemu *locked(virDomainPtr domain)
{
	struct fake_qemu *q = (struct fake_qemu *)domain;

	atomic_fetch_add(&q->nr_waiting, 1);
	while (atomic_load(&q->busy_libvirtd))
		clock_wait_ms(1);
	atomic_fetch_sub(&q->nr_waiting, 1);
	pthread_mutex_lock(&q->lock);
	return q;
}

static int monitor_command(virDomainPtr domain, const char *text, char **result, unsigned int flags)
{
	struct fake_qemu *q = locked(domain);
	int ret = q->dead_libvirtd ? -1 : 0;

	*result = ret ? NULL : answer(q, text, flags);
	pthread_mutex_unlock(&q->lock);
	return ret;
}

static int monitor_command_files(virDomainPtr domain, const char *text, unsigned int nr_in, int *in,
				 unsigned int *nr_out, int **out, char **result, unsigned int flags)
{
	struct fake_qemu *q = locked(domain);

	(void)nr_out;
	(void)out;
	if (q->passed >= 0)
		close(q->passed);
	q->passed = nr_in ? dup(in[0]) : -1;
	pthread_mutex_unlock(&q->lock);
	return monitor_command(domain, text, result, flags);
}

static int domain_state(virDomainPtr domain, int *state, int *reason, unsigned int flags)
{
	struct fake_qemu *q = locked(domain);
	int ret = q->dead_libvirtd ? -1 : 0;

	(void)flags;
	*state = q->panicked         ? LIBVIRT_DOMAIN_CRASHED
		 : q->run == RUNNING ? LIBVIRT_DOMAIN_RUNNING
				     : LIBVIRT_DOMAIN_PAUSED;
	*reason = (int)q->reason;
	pthread_mutex_unlock(&q->lock);
	return ret;
}

/* libvirt connects on a thread. */
static virConnectPtr connect_open(const char *uri)
{
	bool dead = false;

	(void)uri;
	if (listed) {
		pthread_mutex_lock(&listed->lock);
		listed->keep_alive_s = 0;
		dead = listed->dead_libvirtd;
		pthread_mutex_unlock(&listed->lock);
	}
	return dead ? NULL : (virConnectPtr)&listed;
}

static int connect_close(virConnectPtr connection)
{
	(void)connection;
	return 0;
}

static int connect_keep_alive(virConnectPtr connection, int interval_s, unsigned int count)
{
	(void)connection;
	if (!atomic_load(&timers))
		return -1; /* as libvirt does where no event loop runs */
	if (listed) {
		pthread_mutex_lock(&listed->lock);
		listed->keep_alive_s = (unsigned int)interval_s * (count + 1);
		pthread_mutex_unlock(&listed->lock);
	}
	return 0;
}

static const char *connect_type(virConnectPtr connection)
{
	(void)connection;
	return "QEMU";
}

static char *connect_uri(virConnectPtr connection)
{
	(void)connection;
	return strdup("qemu:///session?socket=/nonexistent/socket");
}

static virDomainPtr look_up(bool found)
{
	found = found && listed && !listed->hidden;
	error_code = found ? 1 : LIBVIRT_ERR_NO_DOMAIN;
	return found ? (virDomainPtr)listed : NULL;
}

static virDomainPtr lookup_name(virConnectPtr connection, const char *name)
{
	(void)connection;
	return look_up(!strcmp(name, "fake"));
}

static virDomainPtr lookup_uuid(virConnectPtr connection, const char *uuid)
{
	(void)connection;
	return look_up(!strcmp(uuid, fake_qemu_uuid()));
}

static int domain_free(virDomainPtr domain)
{
	(void)domain;
	return 0;
}

static const char *domain_name(virDomainPtr domain)
{
	(void)domain;
	return "fake";
}

static int domain_uuid(virDomainPtr domain, char *uuid)
{
	(void)domain;
	strcpy(uuid, fake_qemu_uuid());
	return 0;
}

static char *domain_xml(virDomainPtr domain, unsigned int flags)
{
	struct fake_qemu *q = locked(domain);
	char *xml = NULL;

	(void)flags;
	if (asprintf(&xml, "<domain>\n  <devices>\n%s%s%s  </devices>\n</domain>\n",
		     q->device ? "    <shmem name='" : "", q->device ? q->alias : "",
		     q->device ? "'>\n    </shmem>\n" : "") < 0)
		abort();
	pthread_mutex_unlock(&q->lock);
	return xml;
}

/* The file, which QEMU would share, has another memory than the device. */
static int attach_device(virDomainPtr domain, const char *xml, unsigned int flags)
{
	struct fake_qemu *q = locked(domain);
	char path[128] = "/dev/shm/";
	int fd = -1;

	(void)flags;
	if (sscanf(xml, "<shmem name='%63[^']'", q->alias) == 1) {
		strcat(path, q->alias);
		fd = open(path, O_RDWR | O_CREAT, 0644);
	}
	q->device = fd >= 0 && !ftruncate(fd, FAKE_DEVICE_BYTES);
	if (fd >= 0)
		close(fd);
	pthread_mutex_unlock(&q->lock);
	return fd < 0 ? -1 : 0;
}

static int event_register_default(void)
{
	return 0;
}

static int event_run_default(void)
{
	clock_wait_ms(1);
	return 0;
}

static int event_add_timeout(int ms, void (*fn)(int timer, void *arg), void *arg,
			     void (*free_arg)(void *arg))
{
	(void)ms;
	(void)fn;
	(void)arg;
	(void)free_arg;
	atomic_fetch_add(&timers, 1);
	return 1;
}

static void event_update_timeout(int timer, int ms)
{
	(void)timer;
	(void)ms;
}

static int event_remove_timeout(int timer)
{
	(void)timer;
	atomic_fetch_sub(&timers, 1);
	return 0;
}

static int last_code(void)
{
	return error_code;
}

static const char *last_message(void)
{
	return "libvirtd is dead";
}

static const struct libvirt_api api = {.connect_open = connect_open,
				       .connect_close = connect_close,
				       .connect_keep_alive = connect_keep_alive,
				       .connect_type = connect_type,
				       .connect_uri = connect_uri,
				       .lookup_name = lookup_name,
				       .lookup_uuid = lookup_uuid,
				       .domain_free = domain_free,
				       .domain_name = domain_name,
				       .domain_uuid = domain_uuid,
				       .domain_xml = domain_xml,
				       .attach_device = attach_device,
				       .event_register_default = event_register_default,
				       .event_run_default = event_run_default,
				       .event_add_timeout = event_add_timeout,
				       .event_update_timeout = event_update_timeout,
				       .event_remove_timeout = event_remove_timeout,
				       .monitor_command = monitor_command,
				       .monitor_command_files = monitor_command_files,
				       .domain_state = domain_state,
				       .last_code = last_code,
				       .last_message = last_message};

/* --- for the test ---------------------------------------------------------------------------- */

/* At the same address in both processes, where nothing else is mapped. */
static uint8_t *map_ram(int fd)
{
	void *at = mmap((void *)RAM_HVA, FAKE_QEMU_RAM + FAKE_DEVICE_BYTES, PROT_READ | PROT_WRITE,
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

	if (q == MAP_FAILED || fd < 0 || ftruncate(fd, FAKE_QEMU_RAM + FAKE_DEVICE_BYTES) ||
	    nr_vcpus > MAX_VCPUS)
		abort();
	q->ram = map_ram(fd);
	q->nr_vcpus = nr_vcpus;
	q->fd = q->passed = -1;
	init_lock(q);
	start_process(q, fd);
	close(fd);
	listed = q;
	return q;
}

void fake_qemu_destroy(struct fake_qemu *q)
{
	listed = NULL;
	pthread_mutex_lock(&q->lock);
	end_server(q);
	pthread_mutex_unlock(&q->lock);
	if (q->passed >= 0)
		close(q->passed);
	fake_qemu_kill(q);
	libvirt_process_close(&q->process);
	munmap(q->ram, FAKE_QEMU_RAM + FAKE_DEVICE_BYTES);
	pthread_mutex_destroy(&q->lock);
	munmap(q, sizeof(*q));
}

void fake_qemu_be_kvm(struct fake_qemu *q, uint64_t cr3, uint32_t cs)
{
	pthread_mutex_lock(&q->lock);
	q->kvm = true;
	for (unsigned int i = 0; i < q->nr_vcpus; i++) {
		q->cr3[i] = cr3;
		q->cs[i] = cs;
	}
	pthread_mutex_unlock(&q->lock);
}

unsigned int fake_qemu_resets(struct fake_qemu *q)
{
	unsigned int resets;

	pthread_mutex_lock(&q->lock);
	resets = q->resets;
	pthread_mutex_unlock(&q->lock);
	return resets;
}

uint64_t fake_qemu_cr3(struct fake_qemu *q, unsigned int vcpu)
{
	uint64_t cr3;

	pthread_mutex_lock(&q->lock);
	cr3 = q->cr3[vcpu];
	pthread_mutex_unlock(&q->lock);
	return cr3;
}

const struct libvirt_api *fake_qemu_libvirt(void)
{
	return &api;
}

struct libvirt_domain fake_qemu_domain(struct fake_qemu *q)
{
	struct libvirt_domain domain = {.api = &api,
					.calling = PTHREAD_MUTEX_INITIALIZER,
					.domain = (virDomainPtr)q,
					.name = "fake",
					.qemu = q->process};

	snprintf(domain.uuid, sizeof(domain.uuid), "%s", fake_qemu_uuid());
	return domain;
}

void fake_qemu_set_fault(struct fake_qemu *q, fake_fault_fn *fn, void *arg)
{
	pthread_mutex_lock(&q->lock);
	q->fault = fn;
	q->fault_arg = arg;
	pthread_mutex_unlock(&q->lock);
}

uint8_t *fake_qemu_plug(struct fake_qemu *q)
{
	pthread_mutex_lock(&q->lock);
	q->device = true;
	strcpy(q->alias, device_alias);
	pthread_mutex_unlock(&q->lock);
	return q->ram + FAKE_QEMU_RAM;
}

void fake_qemu_unmap(struct fake_qemu *q)
{
	pthread_mutex_lock(&q->lock);
	q->unmapped = true;
	pthread_mutex_unlock(&q->lock);
}

void fake_qemu_refuse(struct fake_qemu *q, const char *command, unsigned int spare)
{
	pthread_mutex_lock(&q->lock);
	q->refused = command;
	q->spare = spare;
	pthread_mutex_unlock(&q->lock);
}

bool fake_qemu_has_device(struct fake_qemu *q)
{
	bool has;

	pthread_mutex_lock(&q->lock);
	has = q->device;
	pthread_mutex_unlock(&q->lock);
	return has;
}

void fake_qemu_hide(struct fake_qemu *q, bool hidden)
{
	pthread_mutex_lock(&q->lock);
	q->hidden = hidden;
	pthread_mutex_unlock(&q->lock);
}

void fake_qemu_set_notices(struct fake_qemu *q, enum fake_notices notices)
{
	pthread_mutex_lock(&q->lock);
	q->notices = notices;
	pthread_mutex_unlock(&q->lock);
}

void fake_qemu_cross(struct fake_qemu *q, uint64_t rip)
{
	pthread_mutex_lock(&q->lock);
	q->crosses = true;
	q->crossing_rip = rip;
	pthread_mutex_unlock(&q->lock);
}

void fake_qemu_be_late(struct fake_qemu *q, unsigned int ms)
{
	atomic_store(&q->late_ms, ms);
}

unsigned int fake_qemu_status_queries(struct fake_qemu *q)
{
	return atomic_load(&q->status_queries);
}

uint8_t *fake_qemu_ram(struct fake_qemu *q)
{
	return q->ram;
}

uint8_t fake_qemu_byte(struct fake_qemu *q, uint64_t gpa)
{
	uint8_t byte;

	pthread_mutex_lock(&q->lock);
	byte = q->ram[gpa];
	pthread_mutex_unlock(&q->lock);
	return byte;
}

void fake_qemu_set_byte(struct fake_qemu *q, uint64_t gpa, uint8_t byte)
{
	pthread_mutex_lock(&q->lock);
	q->ram[gpa] = byte;
	pthread_mutex_unlock(&q->lock);
}

void fake_qemu_reach(struct fake_qemu *q, unsigned int vcpu, uint64_t rip)
{
	pthread_mutex_lock(&q->lock);
	q->registers[vcpu][RIP] = rip;
	if (q->run == RUNNING)
		run(q);
	pthread_mutex_unlock(&q->lock);
}

uint64_t fake_qemu_rip(struct fake_qemu *q, unsigned int vcpu)
{
	uint64_t rip;

	pthread_mutex_lock(&q->lock);
	rip = q->registers[vcpu][RIP];
	pthread_mutex_unlock(&q->lock);
	return rip;
}

bool fake_qemu_runs(struct fake_qemu *q)
{
	bool runs;

	pthread_mutex_lock(&q->lock);
	runs = q->run == RUNNING;
	pthread_mutex_unlock(&q->lock);
	return runs;
}

size_t fake_qemu_breaks(struct fake_qemu *q)
{
	size_t n = 0;

	pthread_mutex_lock(&q->lock);
	n = fake_int3_count(&q->int3s);
	for (unsigned int v = 0; v < q->nr_vcpus; v++)
		for (size_t i = 0; i < MAX_BREAKS; i++)
			n += q->breaks[v][i] != 0;
	pthread_mutex_unlock(&q->lock);
	return n;
}

bool fake_qemu_has_debugger(struct fake_qemu *q)
{
	bool has;

	pthread_mutex_lock(&q->lock);
	has = q->server && q->fd >= 0;
	pthread_mutex_unlock(&q->lock);
	return has;
}

void fake_qemu_forget(struct fake_qemu *q)
{
	pthread_mutex_lock(&q->lock);
	memset(q->breaks, 0, sizeof(q->breaks));
	pthread_mutex_unlock(&q->lock);
}

/* libvirt sends QEMU nothing if the domain is paused already. */
void fake_qemu_suspend(struct fake_qemu *q)
{
	pthread_mutex_lock(&q->lock);
	stop(q, PAUSED, BY_USER, 0);
	pthread_mutex_unlock(&q->lock);
}

void fake_qemu_resume(struct fake_qemu *q)
{
	pthread_mutex_lock(&q->lock);
	run(q);
	pthread_mutex_unlock(&q->lock);
}

unsigned int fake_qemu_keep_alive(const struct fake_qemu *q)
{
	return q->keep_alive_s;
}

void fake_qemu_panic(struct fake_qemu *q)
{
	pthread_mutex_lock(&q->lock);
	stop(q, PAUSED, BY_UNKNOWN, 0);
	q->panicked = true;
	pthread_mutex_unlock(&q->lock);
}

void fake_qemu_set_dead_libvirtd(struct fake_qemu *q, bool dead)
{
	pthread_mutex_lock(&q->lock);
	q->dead_libvirtd = dead;
	pthread_mutex_unlock(&q->lock);
}

void fake_qemu_set_busy_libvirtd(struct fake_qemu *q, bool busy)
{
	atomic_store(&q->busy_libvirtd, busy);
}

unsigned int fake_qemu_nr_waiting(struct fake_qemu *q)
{
	return atomic_load(&q->nr_waiting);
}

void fake_qemu_join(struct fake_qemu *q)
{
	bool has_thread;

	pthread_mutex_lock(&q->lock);
	has_thread = q->has_thread && q->thread_pid == getpid();
	q->has_thread &= !has_thread;
	pthread_mutex_unlock(&q->lock);
	if (has_thread)
		pthread_join(q->thread, NULL);
}

void fake_qemu_kill(struct fake_qemu *q)
{
	if (!q->pid)
		return;
	kill(q->pid, SIGKILL);
	waitpid(q->pid, NULL, 0);
	q->pid = 0;
}
