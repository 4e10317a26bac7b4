/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a test does to the fake domain, and sees of it. */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>
#include "tests/lib/fake-qemu-internal.h"

static const char device_alias[] = "ua-sonde-0123456789abcdef";

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

uint8_t *fake_qemu_set_dimm(struct fake_qemu *q, bool plugged)
{
	pthread_mutex_lock(&q->lock);
	q->dimm = plugged;
	pthread_mutex_unlock(&q->lock);
	return q->ram + FAKE_QEMU_RAM + FAKE_DEVICE_BYTES;
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
		fake_qemu_run(q);
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
	fake_qemu_stop(q, PAUSED, BY_USER, 0);
	pthread_mutex_unlock(&q->lock);
}

void fake_qemu_resume(struct fake_qemu *q)
{
	pthread_mutex_lock(&q->lock);
	fake_qemu_run(q);
	pthread_mutex_unlock(&q->lock);
}

unsigned int fake_qemu_keep_alive(const struct fake_qemu *q)
{
	return q->keep_alive_s;
}

void fake_qemu_panic(struct fake_qemu *q)
{
	pthread_mutex_lock(&q->lock);
	fake_qemu_stop(q, PAUSED, BY_UNKNOWN, 0);
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
