/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Histograms in trace specs: what they mean, and what is said of wrong ones. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/tracers/tracer.h"
#include "tests/lib/tap.h"

/* "NAME TRACER keys ... vals ... sort ... size N if ..." */
static const char *shown(const struct trace_spec *spec)
{
	static char out[1000];
	const struct hist_action *h = spec->hist;
	size_t n = (size_t)snprintf(out, sizeof(out), "%s %s", spec->name,
				    tracer_source_of(spec)->name);

	for (size_t i = 0; i < h->nr_keys; i++) {
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%s%s%s", i ? "," : " keys ",
				      h->keys[i].name, h->keys[i].modifier ? "." : "",
				      h->keys[i].modifier
					      ? hist_modifiers[h->keys[i].modifier - HIST_MOD_HEX]
					      : "");
		if (h->keys[i].bucket)
			n += (size_t)snprintf(out + n, sizeof(out) - n, "=%u", h->keys[i].bucket);
	}
	for (size_t i = 0; i < h->nr_values; i++)
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%s", i ? "," : " vals ",
				      h->values[i].name);
	for (size_t i = 0; i < h->order.n; i++)
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%u%s", i ? "," : " sort ",
				      h->order.by[i].column,
				      h->order.by[i].descending ? " down" : "");
	if (h->size)
		n += (size_t)snprintf(out + n, sizeof(out) - n, " size %u", h->size);
	if (spec->filter)
		snprintf(out + n, sizeof(out) - n, " if %s", spec->filter_text);
	return out;
}

static const struct {
	const char *text, *want;
} good[] = {
	{"kmem:kmalloc,hist:keys=call_site:vals=bytes_req",
	 "kmem kmem keys call_site vals bytes_req sort 0"},
	{"k=kmem:kmalloc,hist:key=call_site.sym,gfp_flags.hex:val=bytes_req,hitcount:sort=bytes_"
	 "req."
	 "descending,call_site:size=100 if pid == 1",
	 "k kmem keys call_site.sym,gfp_flags.hex vals bytes_req sort 1 down,2 size 128 if pid == "
	 "1"},
	{"function:vfs_*,pid=1,hist:keys=ip.sym-offset,pid.execname,cpu:sort=hitcount",
	 "function function keys ip.sym-offset,pid.execname,cpu sort 0"},
	{"syscalls:hist:keys=id.syscall,arg2.log2:values=arg2",
	 "syscalls syscalls keys "
	 "id.syscall,arg2.log2 vals arg2 sort 0"},
	{"probe:p:open do_sys_openat2 dfd flags=%dx:u32,hist:keys=dfd,flags.buckets=100 if dfd == "
	 "3",
	 "open probe keys dfd,flags.buckets=100 sort 0 if dfd == 3"},
	{"probe:r:got vfs_read $retval , hist:keys=arg1:vals=arg1",
	 "got probe keys arg1 vals arg1 sort 0"},
	{"probe:p:any vfs_read $arg*,hist:keys=whatever", "any probe keys whatever sort 0"},
	{"function:hist:mod:ext4,hist:keys=parent_ip", "function function keys parent_ip sort 0"},
};

static void test_good(void)
{
	struct trace_spec spec;
	struct error err = {0};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		if (tracer_parse_spec(good[i].text, &spec, &err)) {
			ok(false, "%s: %s", good[i].text, err.text);
			continue;
		}
		is_str(shown(&spec), good[i].want, good[i].text);
		ok(!strcmp(tracer_ops_of(&spec)->name, "hist"), "it is a histogram");
		trace_spec_deinit(&spec);
	}
}

static const struct {
	const char *text;
	unsigned int column; /* 0: of the whole */
	const char *want;
} bad[] = {
	{"function:hist:", 15, "unknown part of a histogram ''; known: keys, vals, sort, size"},
	{"function:hist:vals=pid", 15, "a histogram has keys: hist:keys=FIELD"},
	{"function:hist:keys", 19, "'=' is missing behind 'keys'"},
	{"function:hist:keys=", 20, "the name of a field is missing"},
	{"function:hist:keys=ip,", 23, "the name of a field is missing"},
	{"function:hist:keys=ip.symb", 23, "unknown modifier 'symb': did you mean 'sym'?"},
	{"function:hist:keys=ip.buckets", 30, "a number is missing, as in .buckets=100"},
	{"function:hist:keys=ip.buckets=0", 31, "there are no buckets of 0"},
	{"function:hist:keys=ip,pid,cpu,comm", 31, "more than 3 keys"},
	{"function:hist:keys=ip,ip", 23, "'ip' is a key already"},
	{"function:hist:keys=ip:vals=cpu.hex", 31, "values have no modifiers"},
	{"function:hist:keys=ip:sort=cpu", 28, "unknown key or value 'cpu'"},
	{"function:hist:keys=ip:sort=ip.down", 31, "unknown order 'down'"},
	{"function:hist:keys=ip:size=0", 28, "a histogram of no size has no room"},
	{"function:hist:keys=ip:size=131073", 28, "the number is above 131072"},
	{"function:hist:keys=ip:pause", 23, "unknown part of a histogram 'pause'"},
	{"function:hist:keys=ip;vfs_*", 22, "the histogram is the last item"},
	{"function:hist:keys=pidd", 20, "unknown field 'pidd': did you mean 'pid'?"},
	{"function:hist:keys=ip.execname", 20, "'ip' is no pid, which .execname is for"},
	{"function:hist:keys=comm.hex", 20, "'comm' is text, which takes no .hex"},
	{"function:hist:keys=ip:vals=comm", 28, "'comm' is text, which cannot be summed up"},
	{"syscalls:hist:keys=ids", 20, "unknown field 'ids': did you mean 'id'?"},
	{"probe:p:a vfs_read %di,hist:keys=arg2", 34, "unknown field 'arg2': did you mean 'arg1'?"},
	{"probe:p:a vfs_read v=+0(%di):u8[4],hist:keys=v", 46, "'v' is an array"},
	{"probe:p:a vfs_read v=+0(%di):string,hist:keys=v:vals=w", 54, "unknown field 'w'"},
	{"probe:r:a vfs_read $retval,hist:keys=ip", 38, "unknown field 'ip'"},
	{"kmem:kmalloc,hist:keys=ptr", 24, "'ptr' is known when a call returns"},
	{"kmem:kmalloc,hist:keys=call_site:vals=bytes_alloc", 39, "'bytes_alloc' is known when"},
	{"kmem:kmalloc,hist", 14, "a histogram's keys are missing, as in hist:keys=FIELD"},
	{"kmem:hist:keys=call_site", 0, "of allocations only kmem:kmalloc can be counted"},
	{"kmem:kmalloc,comm,hist:keys=call_site", 0, "a histogram records no tasks"},
	{"kmem:kmalloc,stack,hist:keys=call_site", 0, "no tasks and call chains"},
	{"function:comm,hist:keys=ip", 0, "the word 'comm' is for them"},
	{"profile:hist:keys=ip", 9, "the profile tracer takes no histogram"},
	{"graph:vfs_*,hist:keys=ip", 13, "the graph tracer takes no histogram"},
};

static void test_bad(void)
{
	struct trace_spec spec;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct error err = {0};
		int ret = tracer_parse_spec(bad[i].text, &spec, &err);

		ok((ret == -EINVAL || ret == -ENOTSUP) && err.column == bad[i].column &&
			   strstr(err.text, bad[i].want),
		   "%s: %u: %s", bad[i].text, err.column, err.text);
	}
}

int main(void)
{
	test_good();
	test_bad();
	return tap_done();
}
