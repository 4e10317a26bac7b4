/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the image of a real Debian kernel shows to be wrong with trace specs. Needs
 * tests/testbed/fetch-kernel to have run; $KERNELS_DIR names another directory. */
#include <errno.h>
#include <string.h>
#include "patcher/tracers/tracer.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

static const char *const unknown_functions = "f=function:vfs_raed";

/* `text`: of the error; NULL: there is none. */
static void check(const struct kernel_image *image, const char *spec, bool boots,
		  unsigned int column, const char *text)
{
	struct error err = {0};
	int ret = tracer_check_image(spec, image, boots, &err);

	if (!text) {
		ok(!ret, "%s is taken %s", spec, boots ? "of a guest that boots" : "of another");
		return;
	}
	if (!ok(ret == -err.code && ret && strstr(err.text, text) && err.parsed == spec &&
			err.column == column,
		"%s is refused %s, with its place", spec,
		boots ? "of a guest that boots" : "of another"))
		tap_diag("%u: %s", err.column, err.text);
}

/* Whether or not the guest boots: no module can have what a probe names, unless the probe names the
 * module. */
static const struct {
	const char *spec;
	unsigned int column;
	const char *text;
} callers[] = {
	{"function:vfs_read if parent_ip == ksys_read || parent_ip.function != \"ksys_pread64\"", 0,
	 NULL},
	{"graph:vfs_read if pid == 3 && parent_ip ~ 'ksys_*'", 0, NULL},
	{"profile:vfs_read if parent_ip == ksys_read+0x5f/0xd0", 0, NULL},
	{"function:vfs_read,hist:keys=pid if parent_ip == ksys_read", 0, NULL},
	{"kmem:kmalloc,hist:keys=pid if call_site.function != load_elf_binary", 0, NULL},
	{"probe:r:x vfs_read if __probe_ret_ip == ksys_read", 0, NULL},
	{"probe:p:x vfs_read from=$stack0:symbol if from ~ 'ksys_*'", 0, NULL},
	{"f=function:vfs_read if parent_ip == ksys_raed", 37,
	 "instance 'f': filter, character 14: the kernel has no function 'ksys_raed': did you mean "
	 "'ksys_read'?"},
	{"graph:vfs_read if pid == 1 || parent_ip.function != ksys_raed", 53,
	 "did you mean 'ksys_read'?"},
	{"profile:vfs_read,filter=\"parent_ip == 'ksys_raed'\"", 39, "did you mean 'ksys_read'?"},
	{"function:vfs_read,hist:keys=pid if parent_ip == ksys_raed", 49,
	 "did you mean 'ksys_read'?"},
	{"kmem:kmalloc,hist:keys=pid if call_site == load_elf_binaryy", 44,
	 "did you mean 'load_elf_binary'?"},
	{"probe:r:x vfs_read if __probe_ret_ip == ksys_raed", 41, "did you mean 'ksys_read'?"},
	{"syscalls:read,hist:keys=ret", 25,
	 "'ret' is known when a call returns, and these are counted when they begin: use the word "
	 "'return', as in syscalls:return,hist:keys=id,ret"},
	{"syscalls:hist:keys=id if id == 3 && ret < 0", 37, "use the word 'return'"},
	{"syscalls:read,return,hist:keys=ret", 0, NULL},
	{"syscalls:rread,return,hist:keys=ret", 10, "did you mean 'read'?"},
	{"syscalls:return,hist:keys=id,duration.log2", 30,
	 "'duration' is known where both the beginning and the return of a call are, and these are "
	 "counted by returns alone: times are counted by 'profile:__x64_sys_NAME,hist'"},
	{"syscalls:return,hist:keys=id if duration > 5", 33, "by returns alone: times"},
	{"syscalls:return,hist:keys=ip", 27, "unknown field 'ip'"},
	{"syscalls:return,hist:keys=retval", 27, "unknown field 'retval'"},
	{"syscalls:read,hist:keys=fd if duration > 0", 31,
	 "times are counted by 'profile:__x64_sys_NAME,hist'"},
	{"function:vfs_read if parent_ip == jiffies", 35, "'jiffies' is not a function"},
	{"function:vfs_read if parent_ip == ksys_read+0x5000", 35,
	 "'ksys_read+0x5000' is no place in the function"},
	{"function:vfs_read if parent_ip ~ 'nosuch_*'", 34,
	 "'nosuch_*' is no function of the kernel itself, and those of modules cannot be named"},
	{"graph:vfs_read if parent_ip ~ '*_read'", 19,
	 "by pid and tgid as numbers, and parent_ip as a number or as functions in up to 32 "
	 "places"},
};

static const struct {
	const char *spec;
	unsigned int column;
	const char *text;
} probes[] = {
	{"probe:p vfs_read file->f_mode count:u32 +0(buf):ustring @jiffies", 0, NULL},
	{"probe:p ext4:ext4_sync_fs %di", 0, NULL},
	{"probe:p vfs_read %di,pid,tgid,comm,cgroup,stack", 0, NULL},
	{"probe:p 0xffffffff81000000 %ax", 0, NULL},
	{"probe:p 0xffffffff81000000 file->nothing", 0, NULL},
	/* the first example of Documentation/trace/kprobetrace.rst */
	{"probe:p:myprobe do_sys_open dfd=%ax filename=%dx flags=%cx mode=+4($stack)", 0, NULL},
	{"probe:r:x current_time a=$retval b=%dx ns=$retval.tv_nsec $COMM", 0, NULL},
	{"probe:p from_kuid $arg* kuid.val if val == 0", 0, NULL},
	{"probe:p from_kuid $arg*,hist:keys=kuid", 0, NULL},
	{"probe:p type_show %di", 9, "functions have the name 'type_show': give one as _text+0x"},
	{"probe:r vfs_read ret=$retval:s64 if ret < 0", 0, NULL},
	{"r=probe:p:x vfs_raed", 13,
	 "instance 'r': trace spec, character 13: the kernel has no function 'vfs_raed': did you "
	 "mean 'vfs_read'?"},
	{"r=probe:p:x  vfs_read  n=%dx file->f_path.dentri->d_inode", 43,
	 "struct path has no member 'dentri': did you mean 'dentry'?"},
	{"probe:p vfs_read n=file->f_path.dentry->d_inod->i_ino", 41, "did you mean 'd_inode'?"},
	{"probe:p vfs_read a=+8(fil):u32", 23,
	 "vfs_read has no parameter 'fil': did you mean 'file'?"},
	{"probe:p vfs_read a=file.f_mode", 24, "'.' follows a pointer: write '->'"},
	{"probe:p vfs_read %di a=file->f_path", 22, "it is a struct or an array"},
	{"probe:p vfs_read a=@jiffiez+8", 21,
	 "the kernel has no symbol 'jiffiez': did you mean 'jiffies'?"},
	{"probe:p 0xffffffff81000000 a=+4(@jiffiez)", 34, "the kernel has no symbol 'jiffiez'"},
	{"probe:p vfs_read+0x8000 %ax", 9, "bytes only"},
	{"probe:p vfs_read+4 %ax", 9, "vfs_read+0x4"},
	{"probe:p:kmem/kmalloc vfs_read", 9, "is an event of another tracer"},
	{"probe:p vfs_read comm=%di common_comm=%si,comm", 27,
	 "two fields have the name 'common_comm'"},
	{"probe:p vfs_read stack=%di pid=%si,stack", 0, NULL},
	{"probe:p vfs_read n=%dx,pid if  nn > 3", 32,
	 "filter, character 1: p_vfs_read_0 has no field 'nn'; did you mean 'n'?"},
	{"probe:p vfs_read count,hist:keys=count", 0, NULL},
	{"probe:p vfs_read +0(buf):u8[30] count,hist:keys=count", 0, NULL},
	{"probe:p vfs_read +0(buf):u8[31] count,hist:keys=count", 33,
	 "more than 31 fields of a histogram"},
	{"h=probe:p vfs_raed count,hist:keys=count", 11, "did you mean 'vfs_read'?"},
};

int main(void)
{
	struct kernel_image *image = fetched_kernel_image("6.1");

	if (!image) {
		tap_skip("6.1", "not fetched");
		return tap_done();
	}
	for (int boots = 0; boots < 2; boots++) {
		check(image, "kmem:pid if gfp_flags & __GFP_ZERO && pid == 1", boots, 0, NULL);
		check(image, "k=kmem if gfp_flags & __GFP_ZER0", boots, 23,
		      "instance 'k': filter, character 13: '__GFP_ZER0' is neither a number nor a "
		      "flag of the field; did you mean '__GFP_ZERO'?");
		check(image,
		      "kmem:kmalloc,hist:keys=call_site if gfp_flags & __GFP_ZERO || gfp_flags == "
		      "'GFP_KERNEL|__GFP_ZERO'",
		      boots, 0, NULL);
		check(image, "kmem:pages,hist:keys=order if gfp_flags & __GFP_ZER0", boots, 43,
		      "'__GFP_ZER0' is neither a number nor a flag of the field; did you mean "
		      "'__GFP_ZERO'?");
		check(image, "kmem:filter=\"gfp_flags == 'GFP_ATOMIC|GFP_KERNAL'\",pid", boots, 39,
		      "did you mean 'GFP_KERNEL'?");
	}
	for (size_t i = 0; i < sizeof(probes) / sizeof(probes[0]); i++)
		for (int boots = 0; boots < 2; boots++)
			check(image, probes[i].spec, boots, probes[i].column, probes[i].text);
	for (size_t i = 0; i < sizeof(callers) / sizeof(callers[0]); i++)
		check(image, callers[i].spec, true, callers[i].column, callers[i].text);
	check(image, unknown_functions, true, 12, "did you mean 'vfs_read'?");
	check(image, "graph:vfs_read,retval", true, 16,
	      "no function matches 'retval': did you mean the word 'ret'?");
	check(image, "profile:vfs_*,stack", true, 15,
	      "no function matches 'stack': it is a word of other tracers");
	check(image, "probe:p:open vfs_opn %di", true, 14,
	      "instance 'open': trace spec, character 14: the kernel has no function 'vfs_opn': "
	      "did you "
	      "mean 'vfs_open'?");
	check(image, "probe:r:read vfs_raed $retval,hist:keys=arg1", true, 14,
	      "did you mean 'vfs_read'?");
	check(image, "probe:p vfs_read+1", true, 9, "no instruction begins");
	check(image, "probe:p vfs_read fil->f_flags", true, 18, "did you mean 'file'?");
	check(image, "probe:p vfs_read file->f_flags", true, 0, NULL);
	check(image, "probe:p brd:brd_init", true, 0, NULL);
	check(image, "probe:p 0xffffffff81000000", true, 0, NULL);
	check(image, "probe:p vfs_raed", false, 9, "did you mean 'vfs_read'?");
	check(image, unknown_functions, false, 0, NULL);
	kernel_image_destroy(image);
	return tap_done();
}
