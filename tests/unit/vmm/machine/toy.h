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

/* Guests of a few instructions; each ends in a loop. */
asm(".pushsection .rodata\n"
    ".macro PRINT text\n"
    "	lea 3f(%rip), %rsi\n"
    "	mov $0x3f8, %edx\n"
    "1:	movb (%rsi), %al\n"
    "	test %al, %al\n"
    "	jz 2f\n"
    "	out %al, %dx\n"
    "	inc %rsi\n"
    "	jmp 1b\n"
    "3:	.asciz \"\\text\\r\\n\"\n"
    "2:\n"
    ".endm\n"
    ".macro PRINT_PANIC\n"
    "	PRINT \"Kernel panic - not syncing: toy\"\n"
    ".endm\n"
    ".macro POWER_OFF\n"
    "	mov $0x604, %edx\n"
    "	mov $0x3400, %eax\n"
    "	out %ax, %dx\n"
    "1:	jmp 1b\n"
    ".endm\n"
    "panic_code:	PRINT_PANIC\n"
    "	mov $0xcf9, %edx\n"
    "	mov $6, %al\n"
    "	out %al, %dx\n"
    "1:	jmp 1b\n"
    "panic_end:\n"
    "imitated_code:	mov $0x505, %edx\n" /* a driver asks which events it may report */
    "	in %dx, %al\n"
    "	PRINT_PANIC\n"
    "	mov $0xfe, %al\n"
    "	out %al, $0x64\n"
    "1:	jmp 1b\n"
    "imitated_end:\n"
    "reported_code:	mov $0x505, %edx\n"
    "	in %dx, %al\n"
    "	PRINT \"Kernel panic - not syncing: imitated\"\n"
    "	PRINT_PANIC\n"
    "	PRINT \"---[ end Kernel panic - not syncing: toy ]---\"\n"
    "	mov $0x505, %edx\n"
    "	mov $1, %al\n"
    "	out %al, %dx\n"
    "	mov $0xfe, %al\n"
    "	out %al, $0x64\n"
    "1:	jmp 1b\n"
    "reported_end:\n"
    "silent_code:	mov $0x505, %edx\n"
    "	in %dx, %al\n"
    "	mov $1, %al\n"
    "	out %al, %dx\n"
    "1:	jmp 1b\n"
    "silent_end:\n"
    "hang_code:	PRINT_PANIC\n"
    "1:	jmp 1b\n"
    "hang_end:\n"
    "reboot_code:	mov $0xfe, %al\n"
    "	out %al, $0x64\n"
    "1:	jmp 1b\n"
    "reboot_end:\n"
    "fault_code:	lidt 1f(%rip)\n"
    "	ud2\n"
    "1:	.fill 10, 1, 0\n"
    "fault_end:\n"
    "mmio_code:	mov $0xd0000000, %eax\n"
    "	movl $1, (%rax)\n"
    "	xor %ebx, %ebx\n"
    "	mov (%rax), %ebx\n"
    "	mov $0x3fd, %edx\n"
    "	in %dx, %al\n"
    "	mov %al, %cl\n"
    "	POWER_OFF\n"
    "mmio_end:\n"
    "input_code:	mov $0x3f9, %edx\n" /* enable the receive interrupt, wait for a byte */
    "	mov $1, %al\n"
    "	out %al, %dx\n"
    "	mov $0x3fd, %edx\n"
    "1:	in %dx, %al\n"
    "	test $1, %al\n"
    "	jz 1b\n"
    "	mov $0x3f8, %edx\n"
    "	in %dx, %al\n"
    "	mov %al, %bl\n"
    "	POWER_OFF\n"
    "input_end:\n"
    "loop_code:	out %al, $0x80\n"
    "	jmp loop_code\n"
    "loop_end:\n"
    ".popsection\n");
extern const uint8_t panic_code[], panic_end[], hang_code[], hang_end[], reboot_code[],
	reboot_end[], fault_code[], fault_end[], mmio_code[], mmio_end[], input_code[], input_end[],
	loop_code[], loop_end[], imitated_code[], imitated_end[], reported_code[], reported_end[],
	silent_code[], silent_end[];

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
