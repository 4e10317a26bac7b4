/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_COEXIST_TEXT_LOCKS_H
#define SONDE_PATCHER_COEXIST_TEXT_LOCKS_H

#include <stdbool.h>
#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"

/*
 * The mutexes that the guest holds while it changes its text, or leaves its kernel:
 *
 *   ftrace_lock              changes of mcount sites (kernel/trace/ftrace.c)
 *   kprobe_mutex             kprobes are made, armed, optimised (kernel/kprobes.c)
 *   text_mutex               any change of text (kernel/extable.c): while an instruction is written
 *                            its first byte is an INT3
 *   system_transition_mutex  hibernation, kexec (kernel/power/main.c, kernel/reboot.c)
 *
 * While a mutex is free, no task is in a function that is only called with it.
 */
enum text_lock { LOCK_FTRACE, LOCK_KPROBES, LOCK_TEXT, LOCK_TRANSITION, TEXT_LOCKS };

/* False for a kernel without this mutex, too. */
bool text_lock_is_held(const struct kernel *kernel, enum text_lock lock);

/* Stop the guest while all of them are free. -EAGAIN if the guest holds one for three seconds; on
 * errors the guest runs. */
int text_locks_stop(const struct kernel *kernel, struct error *err);

#endif
