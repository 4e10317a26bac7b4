/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_UNIT_VMM_MACHINE_TOY_H
#define SONDE_TESTS_UNIT_VMM_MACHINE_TOY_H

#include <string.h>
#include <unistd.h>
#include "tests/lib/tiny-kernel.h"
#include "vmm/kvm/kvm.h"
#include "vmm/loop/event-loop.h"
#include "vmm/machine/vm.h"

/*
 * A machine with a kernel of a few instructions. Any /dev/kvm will do, also one that could not run
 * Linux. The code is entered at its first byte, in long mode, mapped one to one.
 */
struct toy {
	struct event_loop *loop;
	struct vm *vm;
	struct guest *guest;
	uint64_t gpa; /* of the code */
	uint8_t *hva;
};

static inline bool toy_has_kvm(void)
{
	struct kvm kvm;
	bool has = !kvm_open(&kvm, NULL);

	kvm_close(&kvm);
	return has;
}

static inline void toy_destroy(struct toy *toy)
{
	if (toy->vm)
		vm_finish(toy->vm);
	vm_destroy(toy->vm);
	event_loop_destroy(toy->loop);
	memset(toy, 0, sizeof(*toy));
}

/* `like` has vCPUs, console and callbacks. Nothing runs yet. */
static inline int toy_create(struct toy *toy, const uint8_t *code, const uint8_t *end,
			     const struct vm_config *like, struct error *err)
{
	const struct tiny_kernel kernel = {.code = code, .size = (size_t)(end - code)};
	const struct guest_region *regions;
	struct vm_config config = *like;
	struct guest_regs regs;
	char path[64];
	size_t n;
	int ret;

	memset(toy, 0, sizeof(*toy));
	if (tiny_kernel_write(&kernel, path) < 0)
		return -1;
	config.boot.kernel = path;
	config.boot.cmdline = "";
	config.ram_mib = 64;
	config.force = true;
	ret = event_loop_create(&toy->loop, err);
	if (!ret)
		ret = vm_create(&config, toy->loop, &toy->vm, err);
	unlink(path);
	if (ret)
		return ret;
	toy->guest = vm_guest(toy->vm);
	toy->guest->control->get_regs(toy->guest, 0, &regs, NULL);
	toy->guest->memory->regions(toy->guest, &regions, &n, NULL);
	toy->gpa = regs.rip;
	toy->hva = regions[0].hva + regs.rip;
	return 0;
}

#endif
