/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/coexist/features.h"

enum { NR_SYMBOLS = 4 };

/*
 * Variables, functions that modules may call or that other files do: include/linux/ftrace.h and
 * kprobes.h, kernel/power/ of hibernation and suspend, kernel/kexec_core.c, include/linux/module.h.
 * No system calls: kernels without the feature have a symbol for those, too (kernel/sys_ni.c).
 */
static const char *const symbols[KERNEL_FEATURES][NR_SYMBOLS] = {
	[FEATURE_FTRACE] = {"register_ftrace_function", "ftrace_set_filter_ip", "ftrace_lock"},
	[FEATURE_KPROBES] = {"register_kprobe", "kprobe_table", "kprobe_mutex"},
	[FEATURE_HIBERNATION] = {"hibernate", "hibernation_snapshot", "swsusp_save",
				 "snapshot_write_next"},
	[FEATURE_SUSPEND] = {"pm_suspend", "suspend_set_ops", "pm_suspend_target_state"},
	[FEATURE_KEXEC] = {"machine_kexec", "kexec_image", "kexec_in_progress",
			   "kimage_load_segment"},
	[FEATURE_MODULES] = {"module_mutex", "module_layout", "find_module", "try_module_get"},
};

const char *kernel_feature_symbol(const struct kernel *kernel, enum kernel_feature feature)
{
	for (unsigned int i = 0; i < NR_SYMBOLS && symbols[feature][i]; i++)
		if (kernel_symbol(kernel, symbols[feature][i]))
			return symbols[feature][i];
	return NULL;
}
