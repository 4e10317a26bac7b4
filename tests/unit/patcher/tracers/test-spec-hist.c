/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Histograms in trace specs: what they mean, and what is said of wrong ones. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/tracers/hist/hist.h"
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
				      hist_modifier_name(h->keys[i].modifier));
		if (h->keys[i].bucket)
			n += (size_t)snprintf(out + n, sizeof(out) - n, "=%u", h->keys[i].bucket);
	}
	for (size_t i = 0; i < h->nr_values; i++)
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%s%s%s", i ? "," : " vals ",
				      h->values[i].name, h->values[i].modifier ? "." : "",
				      hist_modifier_name(h->values[i].modifier));
	for (size_t i = 0; i < h->order.n; i++)
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%u%s", i ? "," : " sort ",
				      h->order.by[i].column,
				      h->order.by[i].descending ? " down" : "");
	if (h->size)
		n += (size_t)snprintf(out + n, sizeof(out) - n, " size %u", h->size);
	if (h->nohitcount)
		n += (size_t)snprintf(out + n, sizeof(out) - n, " nohitcount");
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
	{"kmem:kmalloc,hist:keys=call_site:vals=bytes_req.percent,hitcount.graph,bytes_req.hex:"
	 "sort=bytes_req.descending,call_site:nohitcount",
	 "kmem kmem keys call_site vals bytes_req.percent,hitcount.graph,bytes_req.hex sort 1 "
	 "down,4 nohitcount"},
	{"function:hist:NOHC:keys=ip:vals=hitcount,hitcount.percent",
	 "function function keys ip vals hitcount.percent sort 0 nohitcount"},
	{"kmem:cache,hist:keys=call_site:vals=bytes_req,bytes_alloc if pid == 1",
	 "kmem kmem keys call_site vals bytes_req,bytes_alloc sort 0 if pid == 1"},
	{"kmem:kmalloc,cache,hist:keys=call_site:vals=bytes_req",
	 "kmem kmem keys call_site vals bytes_req sort 0"},
	{"kmem:kmalloc,hist:keys=call_site:vals=bytes_req,bytes_alloc",
	 "kmem kmem keys call_site vals bytes_req,bytes_alloc sort 0"},
	{"kmem:kmalloc,cache,hist:keys=bytes_alloc", "kmem kmem keys bytes_alloc sort 0"},
	{"kmem:pages,hist:keys=order,gfp_flags", "kmem kmem keys order,gfp_flags sort 0"},
	{"kmem:hist:keys=gfp_flags,pid", "kmem kmem keys gfp_flags,pid sort 0"},
	{"function:vfs_*,pid=1,hist:keys=ip.sym-offset,pid.execname,cpu:sort=hitcount",
	 "function function keys ip.sym-offset,pid.execname,cpu sort 0"},
	{"syscalls:filter=arg1 & 2,hist:keys=stacktrace",
	 "syscalls syscalls keys stacktrace sort 0 if arg1 & 2"},
	{"syscalls:read,hist:keys=fd:vals=count if count > 10000",
	 "syscalls syscalls keys fd vals count sort 0 if count > 10000"},
	{"syscalls:hist:keys=id.syscall,arg2.log2:values=arg2",
	 "syscalls syscalls keys "
	 "id.syscall,arg2.log2 vals arg2 sort 0"},
	{"syscalls:return,hist:keys=id.syscall,ret",
	 "syscalls syscalls keys id.syscall,ret sort 0"},
	{"syscalls:read,write,return,pid=1,hist:keys=id,fd:vals=ret if ret < 0 && count > 10",
	 "syscalls syscalls keys id,fd vals ret sort 0 if ret < 0 && count > 10"},
	{"syscalls:return,hist:keys=parent_ip,comm,vcpu if vcpu == 1",
	 "syscalls syscalls keys parent_ip,comm,vcpu sort 0 if vcpu == 1"},
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
	{"function:hist:", 15,
	 "unknown part of a histogram ''; known: keys, vals, sort, size, nohitcount"},
	{"function:hist:vals=pid", 15, "a histogram has keys: hist:keys=FIELD"},
	{"function:hist:keys", 19, "'=' is missing behind 'keys'"},
	{"function:hist:keys=", 20, "the name of a field is missing"},
	{"function:hist:keys=ip,", 23, "the name of a field is missing"},
	{"function:hist:keys=ip.symb", 23, "unknown modifier 'symb': did you mean 'sym'?"},
	{"function:hist:keys=ip.buckets", 30, "a number is missing, as in .buckets=100"},
	{"function:hist:keys=ip.buckets=0", 31, "there are no buckets of 0"},
	{"function:hist:keys=ip,pid,cpu,comm", 31, "more than 3 keys"},
	{"function:hist:keys=ip,ip", 23, "'ip' is a key already"},
	{"function:hist:keys=ip:vals=cpu.log2", 32,
	 ".log2 is of keys; values take .percent, .graph and .hex"},
	{"function:hist:keys=ip:vals=cpu.logg", 32, "unknown modifier 'logg'; known: percent"},
	{"function:hist:keys=ip:vals=cpu.hex,cpu.hex", 36, "'cpu.hex' is a value already"},
	{"function:hist:keys=ip.percent", 23, ".percent is of values; write it behind vals="},
	{"function:hist:keys=ip:nohitcount", 15, "with nohitcount nothing is shown"},
	{"function:hist:keys=ip:sort=cpu", 28, "unknown key or value 'cpu'"},
	{"function:hist:keys=ip:sort=ip.down", 31, "unknown order 'down'"},
	{"function:hist:keys=ip:size=0", 28, "a histogram of no size has no room"},
	{"function:hist:keys=ip:size=131073", 28, "the number is above 131072"},
	{"function:hist:keys=ip:pauses", 23, "unknown part of a histogram 'pauses'"},
	{"function:hist:keys=ip:pause", 23, "'sonde ctl SOCKET trace remove NAME'"},
	{"function:hist:keys=ip:cont", 23, "'sonde ctl SOCKET trace add NAME=SPEC'"},
	{"function:hist:keys=ip:continue", 23, "'sonde ctl SOCKET trace add NAME=SPEC'"},
	{"function:hist:keys=ip:clear", 23, "'sonde ctl SOCKET hist clear NAME'"},
	{"function:hist:keys=ip:name=n", 23, "the name stands in front of the tracer"},
	{"function:hist:keys=ip:onmax(cpu)", 23, "histograms have no actions"},
	{"function:hist:keys=ip;vfs_*", 22, "the histogram is the last item"},
	{"kmem:hist:keys=call_site:vals=bytes_alloc-bytes_req", 42,
	 "histograms have no expressions"},
	{"function:hist:keys=pid:ts0=common_timestamp.usecs", 24, "histograms have no variables"},
	{"function:hist:keys=pid:lat=$ts0", 24, "histograms have no variables"},
	{"function:hist:keys=pidd", 20, "unknown field 'pidd': did you mean 'pid'?"},
	{"function:hist:keys=ip.execname", 20, "'ip' is no pid, which .execname is for"},
	{"function:hist:keys=comm.hex", 20, "'comm' is text, which takes no .hex"},
	{"function:hist:keys=ip:vals=comm", 28, "'comm' is text, which cannot be summed up"},
	{"syscalls:hist:keys=comm.hex", 20, "'comm' is text, which takes no .hex"},
	{"probe:p:a vfs_read %di,hist:keys=arg2", 34, "unknown field 'arg2': did you mean 'arg1'?"},
	{"probe:p:a vfs_read v=+0(%di):u8[4],hist:keys=v", 46, "'v' is an array"},
	{"probe:p:a vfs_read v=+0(%di):string,hist:keys=v:vals=w", 54, "unknown field 'w'"},
	{"probe:r:a vfs_read $retval,hist:keys=ip", 38, "unknown field 'ip'"},
	{"function:hist:keys=stacktrace.hex", 20,
	 "'stacktrace' is a call chain, which takes no .hex"},
	{"function:hist:keys=stacktrace,common_stacktrace", 31,
	 "'common_stacktrace': the call chain is a key already"},
	{"function:hist:keys=ip,stacktrace:size=32769", 23, "a size of 32768 or less"},
	{"function:hist:keys=ip:vals=stacktrace", 28, "a call chain, which cannot be summed up"},
	{"function:hist:keys=stack", 20, "unknown field 'stack'; known: parent_ip, "},
	{"function:hist:keys=ip.stacktrace", 23, "that of the event is the key 'stacktrace'"},
	{"function:hist:keys=common_timestamp", 20, "histograms have no times: record the events"},
	{"kmem:kmalloc:hist:keys=call_site", 13, "',' must follow 'kmalloc'"},
	{"kmem:kmalloc,count", 14, "unknown item 'count': events are counted by hist:keys=FIELD"},
	{"graph:vfs_*,vcpu=0", 13,
	 "takes no vcpu: a call may return on another one than it began on. Choose when you read "
	 "the trace: sonde events --vcpu N"},
	{"profile:vfs_*,cpu=0", 15, "takes no cpu: a call may return on another one"},
	{"syscalls if id == 3", 13,
	 "by pid and tgid as numbers: it cannot decide 'id == 3'. Choose when you read the trace: "
	 "sonde events --syscalls --filter EXPR"},
	{"syscalls:openat if pid == 3 && ret < 0", 20, "it cannot decide 'ret < 0'. Choose when"},
	{"syscalls if name == openat", 13, "it cannot decide 'name == \"openat\"'"},
	{"syscalls:filter=duration > 5,pid=3", 17, "it cannot decide 'duration > 5'"},
	{"syscalls if pidd == 3", 13, "did you mean 'pid'?"},
	{"graph:vfs_* if pidd == 3", 16, "did you mean 'pid'?"},
	{"graph:vfs_* if parent_ip.function == ksys_read+0x5", 38,
	 "'ksys_read+0x5' is not the name of a function"},
	{"graph:vfs_* if parent_ip < ksys_read", 28, "'ksys_read' is not a number"},
	{"graph:vfs_* if parent_ip.function == 5", 38, "'5' is not the name of a function"},
	{"graph:vfs_*,max_depth=3", 13, "sonde events --graph --depth N"},
	{"function:vfs_*,only=vfs_read", 16,
	 "the function tracer takes no only: what is called within others is seen in a trace of "
	 "graph, with sonde events --graph --only FUNCTION"},
	{"function:vfs_*,depth=3", 16, "takes no depth: what is called"},
	{"function:max_depth=3,hist:keys=ip", 10, "sonde events --graph --depth N"},
	{"profile:vfs_*,depth=3", 15, "the profile tracer takes no depth: what is called"},
	{"kmem:kmalloc,hist:keys=ptr", 24, "'ptr' is known when a call returns"},
	{"kmem:kmalloc,hist:keys=stacktrace,ptr", 35, "and use 'sonde report --by pointer'"},
	{"kmem:kmalloc,hist:keys=bytes_alloc if pid == 1 && !(bytes_alloc < 8)", 39,
	 "cannot ask for 'bytes_alloc' of kmalloc"},
	{"kmem:kmalloc,cache,hist:keys=stacktrace if bytes_alloc > 8 || comm == sh", 44,
	 "cannot ask for 'bytes_alloc' of kmalloc"},
	{"kmem:kmalloc,hist:keys=stacktrace:vals=bytes_req,bytes_alloc", 50,
	 "and use 'sonde report --by callsite --sort bytes'"},
	{"kmem:kfree,hist:keys=call_site", 6,
	 "counts allocations; frees are calls of a function: function:kfree,hist:keys=parent_ip"},
	{"kmem:kmem_cache_free , hist:keys=call_site", 6,
	 "function:kmem_cache_free,hist:keys=parent_ip"},
	{"kmem:mm_page_free,hist:keys=order", 6,
	 "counts allocations; several functions free pages"},
	{"kmem:kfree", 6, "its events are among those of 'kmalloc'"},
	{"kmem:kmem_cache_alloc,hist:keys=call_site", 6, "its events are among those of 'cache'"},
	{"kmem:kmalloc,hist", 14, "a histogram's keys are missing, as in hist:keys=FIELD"},
	{"kmem:hist:keys=call_site", 16, "'call_site' of pages is found by the host"},
	{"kmem:pages,hist:keys=bytes_req", 22, "pages have an 'order'"},
	{"kmem:cache,hist:keys=cache", 22, "use 'sonde report --by cache'"},
	{"kmem:cache,hist:keys=order", 22, "'order' is of pages: count only kmem:pages"},
	{"kmem:cache,hist:keys=nod", 22, "unknown field 'nod': did you mean 'node'?"},
	{"kmem:kmalloc,comm,hist:keys=call_site", 0, "a histogram records no tasks"},
	{"kmem:kmalloc,stack,hist:keys=call_site", 0, "no tasks and call chains"},
	{"function:comm,hist:keys=ip", 0, "the word 'comm' is for them"},
	{"function:comm,parent,hist:keys=ip", 0, "name parent_ip as a key"},
	{"syscalls:pid,ia32,hist:keys=id", 0, "counts system calls of 64-bit programs: record"},
	{"syscalls:return,ia32,hist:keys=id", 0, "counts system calls of 64-bit programs: record"},
	{"syscalls:return,comm,hist:keys=id", 0, "the word 'comm' is for them"},
	{"syscalls:read,return", 15,
	 "trace spec, character 15: the word 'return' is for histograms, as in "
	 "syscalls:return,hist:keys=id,ret: without one, calls are recorded with their returns"},
	{"profile:hist:keys=ip", 9,
	 "the profile tracer takes no histogram: count calls by "
	 "'function:PATTERN,hist:keys=FIELD'"},
	{"graph:vfs_*,hist:keys=ip", 13,
	 "the graph tracer takes no histogram: count calls by 'function:PATTERN,hist:keys=FIELD', "
	 "results by 'probe:r:x FUNCTION $retval:s64,hist:keys=arg1', and times by "
	 "'profile:PATTERN,hist'"},
	{"function:vfs_*,hist:keys=ret", 26,
	 "'ret' is known when a call returns, and these are counted when they begin: results are "
	 "counted by 'probe:r:x FUNCTION $retval:s64,hist:keys=arg1'"},
	{"function:hist:keys=ip:vals=duration", 28, "times are counted by 'profile:PATTERN,hist'"},
	{"function:hist:keys=ip if ret < 0", 26, "'ret' is known when a call returns"},
	{"probe:p:a vfs_read %di,hist:keys=ret", 34, "unknown field 'ret'"},
};

static void test_bad(void)
{
	struct trace_spec spec;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct error err = {0};
		int ret = tracer_parse_spec(bad[i].text, &spec, &err);

		ok((ret == -EINVAL || ret == -ENOTSUP || ret == -ENOENT) &&
			   err.column == bad[i].column && strstr(err.text, bad[i].want),
		   "%s: %u: %s", bad[i].text, err.column, err.text);
	}
}

static void test_sums(void)
{
	struct hist_program program;
	struct hist_fields fields;
	struct hist_config config;
	struct trace_spec spec;

	if (tracer_parse_spec("syscalls:hist:keys=id:vals=arg2.percent,hitcount.graph,arg2.hex",
			      &spec, NULL))
		abort();
	hist_fields_of(&spec, tracer_source_of(&spec), NULL, NULL, &fields);
	ok(!hist_make_program(&spec, &fields, &program, &config, NULL) && program.nr_values == 1 &&
		   config.nr_sums == 1,
	   "what is shown in two ways is summed up once, hits not at all");
	ok(config.nr_values == 3 && config.sum_of[0] == 0 && config.sum_of[1] == HIST_HITS &&
		   config.sum_of[2] == 0,
	   "each value has its sum");
	ok(config.values[0].show == HIST_PERCENT && config.values[1].show == HIST_BAR &&
		   config.values[2].show == HIST_HEX,
	   "and the way that it is shown");
	trace_spec_deinit(&spec);
}

int main(void)
{
	test_good();
	test_bad();
	test_sums();
	return tap_done();
}
