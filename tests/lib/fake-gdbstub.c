/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The gdbstub of the fake QEMU (7.2, gdbstub.c). All but its thread have the lock. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "formats/base/text.h"
#include "tests/lib/fake-qemu-internal.h"

enum {
	NOBODY = 0x63,        /* a vCPU that is not there */
	REGISTER_BYTES = 236, /* of a `g` reply */
	CS_AT = 140,          /* in it */
	CR0_AT = 188,
	CR3_AT = 204,
	CR4_AT = 212,
	EFER_AT = 228,
};

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

void fake_gdbstub_notify(struct fake_qemu *q, const char *signal, unsigned int vcpu)
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

static struct fake_memory memory_of(struct fake_qemu *q)
{
	return (struct fake_memory){q->ram, FAKE_QEMU_RAM};
}

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

static void access_memory(struct fake_qemu *q, const char *packet, char *reply)
{
	unsigned long gpa, size;
	uint8_t *at;
	int n = 0;

	if (sscanf(packet + 1, "%lx,%lx%n", &gpa, &size, &n) != 2 ||
	    !(at = fake_qemu_hva(q, gpa, size)))
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
		fake_qemu_run(q);
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
		fake_gdbstub_notify(q, "02", 0);
	if (fault == FAKE_RESET)
		fake_qemu_reset(q);
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
	if (q->crossing_rip == FAKE_MIGRATION)
		return fake_qemu_stop(q, PAUSED, BY_MIGRATION, 0);
	if (q->crossing_rip == FAKE_SUSPEND)
		return fake_qemu_stop(q, PAUSED, BY_USER, 0);
	q->registers[0][RIP] = q->crossing_rip;
	fake_qemu_run(q);
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
		fake_qemu_stop(q, PAUSED, BY_UNKNOWN, 0);
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
	const int fd = q->fd;
	char c;

	while (recv(fd, &c, 1, 0) == 1) {
		clock_wait_ms(atomic_exchange(&q->late_ms, 0));
		pthread_mutex_lock(&q->lock);
		take(q, c);
		pthread_mutex_unlock(&q->lock);
	}
	pthread_mutex_lock(&q->lock);
	close(fd);
	/* a client that comes later, in another process, may have one */
	if (q->thread_pid == getpid())
		q->fd = -1;
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

void fake_gdbstub_start(struct fake_qemu *q)
{
	fake_qemu_stop(q, PAUSED, BY_UNKNOWN, 0);
	q->server = true;
	q->fd = q->passed;
	q->passed = -1;
	q->state = IDLE;
	q->unacked = false;
	q->thread_pid = getpid();
	q->has_thread = !pthread_create(&q->thread, NULL, serve, q);
}

/* Releases the lock for a moment. */
void fake_gdbstub_end(struct fake_qemu *q)
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
