/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_COEXIST_FEATURES_H
#define SONDE_PATCHER_COEXIST_FEATURES_H

#include "introspect/kernel/kernel.h"

/*
 * What a kernel may be able to do with its own text, or with itself. The function that the tracer
 * hooks for it has one or two callers, so that a compiler may inline or rename it (LTO). It does
 * not show that the kernel lacks the feature.
 */
enum kernel_feature {
	FEATURE_FTRACE,
	FEATURE_KPROBES,
	FEATURE_HIBERNATION,
	FEATURE_SUSPEND,
	FEATURE_KEXEC,
	FEATURE_MODULES,
	KERNEL_FEATURES,
};

/* A symbol that only kernels with the feature have; NULL if there is none. */
const char *kernel_feature_symbol(const struct kernel *kernel, enum kernel_feature feature);

#endif
