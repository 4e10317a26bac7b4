/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether KVM is backed by hardware: the decision, fed with samples of made-up hosts. */
#include "vmm/kvm/speed.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "tests/lib/tap.h"

/* A host: the guest's speed, and what each entry to it costs. */
struct host {
	uint64_t per_second, entry_ns;
	unsigned int disturbed; /* this many samples from the first on are interrupted */
	uint64_t interruption_ns;
	unsigned int samples; /* taken */
	uint64_t spent_ns;
};

static uint64_t run_sample(struct host *host, uint32_t loops)
{
	uint64_t ns = host->entry_ns + loops * 2000000000ull / host->per_second + 1;

	if (host->disturbed) {
		host->disturbed--;
		ns += host->interruption_ns;
	}
	host->samples++;
	host->spent_ns += ns;
	return ns;
}

static uint64_t measure(struct host *host, uint64_t enough)
{
	struct kvm_speed speed;

	kvm_speed_init(&speed);
	while (kvm_speed_add(&speed, run_sample(host, speed.loops), enough) && host->samples < 1000)
		;
	return speed.best;
}

static bool close_to(uint64_t got, uint64_t want)
{
	return got <= want && got >= want / 100 * 97;
}

static void test_hardware(void)
{
	struct host host = {.per_second = 4000000000, .entry_ns = 3000};
	struct host fast = host;

	ok(close_to(measure(&host, UINT64_MAX), host.per_second),
	   "the speed of real hardware is measured within 3 %%");
	ok(host.spent_ns < 30000000, "measuring real hardware takes less than 30 ms (%llu us)",
	   (unsigned long long)host.spent_ns / 1000);
	ok(measure(&fast, KVM_MIN_SPEED) >= KVM_MIN_SPEED && fast.samples == 1,
	   "one sample is enough if it is fast enough");
}

static void test_busy_host(void)
{
	struct host cold = {.per_second = 3000000000, .disturbed = 1, .interruption_ns = 80000000};
	struct host busy = cold;

	ok(close_to(measure(&cold, UINT64_MAX), cold.per_second),
	   "one cold sample does not lower the measured speed");
	busy.disturbed = KVM_SPEED_SAMPLES - 1;
	busy.entry_ns = 10000;
	ok(measure(&busy, KVM_MIN_SPEED) >= KVM_MIN_SPEED,
	   "a busy host that disturbs all samples but one passes as hardware");
}

static void test_emulator(void)
{
	struct host host = {.per_second = 2000000};
	uint64_t speed = measure(&host, KVM_MIN_SPEED);
	struct error err;

	ok(close_to(speed, host.per_second), "the speed of an emulator is measured within 3 %%");
	is_u64(host.samples, KVM_SPEED_SAMPLES, "an emulator gets no more than the fixed samples");
	ok(kvm_check_speed(speed, &err) == -ENOTSUP && strstr(err.text, "2.0 million"),
	   "an emulator is refused, with its speed: %s", err.text);
	is_u64((uint64_t)kvm_check_speed(KVM_MIN_SPEED, NULL), 0,
	       "a guest of exactly the least speed is accepted");
	is_u64((uint64_t)-kvm_check_speed(KVM_MIN_SPEED - 1, NULL), ENOTSUP,
	       "a guest slower by one instruction per second is refused");
}

/* A clock that stands still must not make the loop endless. */
static void test_frozen_clock(void)
{
	struct kvm_speed speed;
	unsigned int n = 0;

	kvm_speed_init(&speed);
	while (kvm_speed_add(&speed, 1, UINT64_MAX) && n < 1000)
		n++;
	ok(n < 100, "samples that seem to take no time end after %u", n);
}

static void test_real(void)
{
	struct kvm kvm;
	struct error err = {0};
	uint64_t per_second = 0;

	if (kvm_open(&kvm, NULL)) {
		tap_skip("a guest's speed is measured through KVM", "no /dev/kvm");
		return;
	}
	if (kvm_measure_speed(&kvm, UINT64_MAX, &per_second, &err))
		tap_diag("%s", err.text);
	ok(per_second > 1000, "a guest's speed is measured through KVM: %llu/s",
	   (unsigned long long)per_second);
	kvm_close(&kvm);
}

static void test_no_kvm(void)
{
	struct kvm kvm = {.fd = -1, .vm_fd = -1, .run_size = 4096};
	struct error err;
	uint64_t per_second;

	ok(kvm_measure_speed(&kvm, UINT64_MAX, &per_second, &err) == -EBADF &&
		   strstr(err.text, "cannot create a virtual machine"),
	   "measuring without a KVM says that it cannot create a machine");
}

int main(void)
{
	test_hardware();
	test_busy_host();
	test_emulator();
	test_frozen_clock();
	test_real();
	test_no_kvm();
	return tap_done();
}
