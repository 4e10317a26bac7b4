/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Definitions of probes: the programs that they mean, and what is said of wrong ones. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "patcher/fetch/fetch.h"
#include "tests/lib/tap.h"

static size_t show_op(char *out, size_t size, const struct fetch_arg *arg,
		      const struct fetch_op *op)
{
	static const char *const kinds[] = {"reg",     "const", "sym", "param", "comm",
					    "literal", "deref", "mem", "text"};
	static const char *const members[] = {"", "dentry", "name"};
	int n = snprintf(out, size, " %s%s", op->user ? "u" : "", kinds[op->kind]);

	if (op->kind == FETCH_REGISTER)
		n += snprintf(out + n, size - (size_t)n, " %u", op->reg);
	else if (op->member)
		n += snprintf(out + n, size - (size_t)n, " %s", members[op->member]);
	else if (op->kind == FETCH_PARAMETER || op->kind == FETCH_LITERAL)
		n += snprintf(out + n, size - (size_t)n, " %s", arg->symbol);
	else if (op->kind == FETCH_SYMBOL)
		n += snprintf(out + n, size - (size_t)n, " %s%+" PRId64, arg->symbol, op->at);
	else if (op->kind != FETCH_COMM)
		n += snprintf(out + n, size - (size_t)n, " %" PRId64, op->at);
	return (size_t)n;
}

/* "p GROUP NAME PLACE BYTES; NAME SHOW SIZExCOUNT OPS; ..." */
static const char *shown(const struct fetch_probe *probe)
{
	static const char *const shows[] = {"u", "s", "x", "c", "code", "string"};
	static char out[4000];
	size_t n = (size_t)snprintf(out, sizeof(out), "%c %s %s ", probe->returns ? 'r' : 'p',
				    probe->group, probe->name);

	if (probe->symbol[0])
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%s%s", probe->module,
				      probe->module[0] ? ":" : "", probe->symbol);
	else
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%" PRIx64, probe->address);
	if (probe->offset)
		n += (size_t)snprintf(out + n, sizeof(out) - n, "+%#" PRIx64, probe->offset);
	n += (size_t)snprintf(out + n, sizeof(out) - n, " %u", probe->bytes);
	for (size_t i = 0; i < probe->nr_args; i++) {
		const struct fetch_arg *arg = &probe->args[i];

		n += (size_t)snprintf(out + n, sizeof(out) - n, "; %s %s %ux%u", arg->name,
				      shows[arg->show], arg->size, arg->count);
		if (arg->bit_width)
			n += (size_t)snprintf(out + n, sizeof(out) - n, " b%u@%u", arg->bit_width,
					      arg->bit_offset);
		for (size_t k = 0; k < arg->nr_ops; k++)
			n += show_op(out + n, sizeof(out) - n, arg, &arg->ops[k]);
	}
	return out;
}

#define A62 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct {
	const char *text, *want;
} good[] = {
	{"p:" A62 "g/" A62 "e f", "p " A62 "g " A62 "e f 0"},
	{"p security_socket_getpeersec_dgram+0x19",
	 "p kprobes p_security_socket_getpeersec_dgram_25 security_socket_getpeersec_dgram+0x19 0"},
	{"p " A62 "+0x19 %di",
	 "p kprobes p_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa_25 " A62
	 "+0x19 8; arg1 x 8x1 reg 7"},
	{"p vfs_read", "p kprobes p_vfs_read_0 vfs_read 0"},
	{"r vfs_read", "r kprobes r_vfs_read_0 vfs_read 0"},
	{"p vfs_read+0", "p kprobes p_vfs_read_0 vfs_read 0"},
	{"p vfs_read%return", "r kprobes r_vfs_read_0 vfs_read 0"},
	{"p:x _text+0x1230%return", "r kprobes x _text+0x1230 0"},
	{"p vfs_read+0x1f %ax %r10 %si", "p kprobes p_vfs_read_31 vfs_read+0x1f 24; arg1 x 8x1 reg "
					 "0; arg2 x 8x1 reg 10; arg3 x 8x1 reg 6"},
	{"p:x f %flags %ip %cs:u16 %ss %orig_ax:s64 +1(%ip):u8",
	 "p kprobes x f 48; arg1 x 8x1 reg 16; arg2 x 8x1 reg 17; arg3 u 2x1 reg 18; arg4 x 8x1 "
	 "reg "
	 "19; arg5 s 8x1 reg 20; arg6 u 1x1 reg 17 mem 1"},
	{"r:x f %flags:b1@9/64 %ip:symbol",
	 "r kprobes x f 16; arg1 u 8x1 b1@9 reg 16; arg2 code 8x1 reg 17"},
	{"p:x 0xffffffff81000000 %ax", "p kprobes x ffffffff81000000 8; arg1 x 8x1 reg 0"},
	{"p:open do_sys_open", "p kprobes open do_sys_open 0"},
	{"p:my/open do_sys_open", "p my open do_sys_open 0"},
	{"p:my.open do_sys_open", "p my open do_sys_open 0"},
	{"p:my/ do_sys_open", "p my p_do_sys_open_0 do_sys_open 0"},
	{"p:x ext4:ext4_sync_fs", "p kprobes x ext4:ext4_sync_fs 0"},
	{"p:x 0xffffffff81000000", "p kprobes x ffffffff81000000 0"},
	{" p:x  f.cold \t %di ", "p kprobes x f.cold 8; arg1 x 8x1 reg 7"},
	{"p f %di %si", "p kprobes p_f_0 f 16; arg1 x 8x1 reg 7; arg2 x 8x1 reg 6"},
	{"p:x f fd=%di:s32", "p kprobes x f 8; fd s 4x1 reg 7"},
	{"p:x f $arg1 $arg6:u8", "p kprobes x f 16; arg1 x 8x1 reg 7; arg2 u 1x1 reg 9"},
	{"p:x f $arg7", "p kprobes x f 8; arg1 x 8x1 reg 4 mem 8"},
	{"r:x f $retval", "r kprobes x f 8; arg1 x 8x1 reg 0"},
	{"r10:x f", "r kprobes x f 0"},
	{"r10 f $retval", "r kprobes r_f_0 f 8; arg1 x 8x1 reg 0"},
	{"p:x m:f $arg1", "p kprobes x m:f 8; arg1 x 8x1 reg 7"},
	{"p:x m:f n=skb->len $arg*",
	 "p kprobes x m:f 16; n x 8x1 param skb->len; arg2 x 8x1 param *"},
	{"r:x m:f $retval->len", "r kprobes x m:f 8; len x 8x1 param $retval->len"},
	{"p:x f $comm", "p kprobes x f 16; arg1 string 16x1 comm"},
	{"p:x f $COMM", "p kprobes x f 16; arg1 string 16x1 comm"},
	{"p:myprobe do_sys_open dfd=%ax filename=%dx flags=%cx mode=+4($stack)",
	 "p kprobes myprobe do_sys_open 32; dfd x 8x1 reg 0; filename x 8x1 reg 2; flags x 8x1 reg "
	 "1; mode x 8x1 reg 4 mem 4"},
	{"p:x f %r10 %r11", "p kprobes x f 16; arg1 x 8x1 reg 10; arg2 x 8x1 reg 11"},
	{"r:x current_time a=$retval b=%dx",
	 "r kprobes x current_time 16; a x 8x1 reg 0; b x 8x1 reg 2"},
	{"p:x f c=$comm:string", "p kprobes x f 16; c string 16x1 comm"},
	{"p:x f $stack $stack2", "p kprobes x f 16; arg1 x 8x1 reg 4; arg2 x 8x1 reg 4 mem 16"},
	{"p:x f a=\\1 b=\\-0x2:s64", "p kprobes x f 16; a x 8x1 const 1; b s 8x1 const -2"},
	{"p:x f @jiffies", "p kprobes x f 8; arg1 x 8x1 sym jiffies+0 mem 0"},
	{"p:x f @jiffies+8:u32", "p kprobes x f 8; arg1 u 4x1 sym jiffies+8 mem 0"},
	{"p:x f @0xffff0000:u16", "p kprobes x f 8; arg1 u 2x1 const 4294901760 mem 0"},
	{"p:x f +8(%di):u32", "p kprobes x f 8; arg1 u 4x1 reg 7 mem 8"},
	{"p:x f -8(%di)", "p kprobes x f 8; arg1 x 8x1 reg 7 mem -8"},
	{"p:x f +8(+0(%di)):s16", "p kprobes x f 8; arg1 s 2x1 reg 7 deref 0 mem 8"},
	{"p:x f +u8(%si)", "p kprobes x f 8; arg1 x 8x1 reg 6 umem 8"},
	{"p:x f n=+0(%si):string", "p kprobes x f 8; n string 8x1 reg 6 text 0"},
	{"p:x f n=+0(%si):ustring", "p kprobes x f 8; n string 8x1 reg 6 utext 0"},
	{"p:x f +0(@init_task):x8", "p kprobes x f 8; arg1 x 1x1 sym init_task+0 deref 0 mem 0"},
	{"p:x f %di:symbol %si:symstr",
	 "p kprobes x f 16; arg1 code 8x1 reg 7; arg2 code 8x1 reg 6"},
	{"p:x f %di:b4@12/32", "p kprobes x f 8; arg1 u 4x1 b4@12 reg 7"},
	{"p:x f +8(%di):b4@2/32[4] skb->cb:b1@2/8[2]",
	 "p kprobes x f 24; arg1 u 4x4 b4@2 reg 7 mem 8; cb u 1x2 b1@2 param skb->cb"},
	{"p:x f aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa=+0(%di):string[2]",
	 "p kprobes x f 16; aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa_0 string 8x1 reg 7 deref 0 text 0; "
	 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa_1 string 8x1 reg 7 deref 8 text 0"},
	{"p:x f pid string=%di vcpu=%si faults=%dx",
	 "p kprobes x f 32; pid x 8x1 param pid; string x 8x1 reg 7; vcpu x 8x1 reg 6; faults x "
	 "8x1 "
	 "reg 2"},
	{"p:x f +2(%di):b1@7/8", "p kprobes x f 8; arg1 u 1x1 b1@7 reg 7 mem 2"},
	{"p:x f +0(%di):u8[9]", "p kprobes x f 16; arg1 u 1x9 reg 7 mem 0"},
	{"p:x f +0(%di):char[5]", "p kprobes x f 8; arg1 c 1x5 reg 7 mem 0"},
	{"p:x f +u0(%si):char[17] +0(%di):char[64]",
	 "p kprobes x f 88; arg1 c 1x17 reg 6 umem 0; arg2 c 1x64 reg 7 mem 0"},
	{"p:x f file", "p kprobes x f 8; file x 8x1 param file"},
	{"p:x f skb->dev.x->len:u8 n=skb->len",
	 "p kprobes x f 16; len u 1x1 param skb->dev.x->len; n x 8x1 param skb->len"},
	{"p:x f +4(skb->data):u16", "p kprobes x f 8; arg1 u 2x1 param skb->data mem 4"},
	{"p:x f $arg1->dev.x->len:u8 n=$arg12.len",
	 "p kprobes x f 16; len u 1x1 param $arg1->dev.x->len; n x 8x1 param $arg12.len"},
	{"p:x f +4($arg2->data):u16 $arg1:s32",
	 "p kprobes x f 16; arg1 u 2x1 param $arg2->data mem 4; arg2 s 4x1 reg 7"},
	{"p:x f name->name:string", "p kprobes x f 8; name string 8x1 param name->name"},
	{"p:x f skb->cb:x8[48] n=$arg1->a.b:char[17] $arg2->c:symbol[2]",
	 "p kprobes x f 88; cb x 1x48 param skb->cb; n c 1x17 param $arg1->a.b; c code 8x2 param "
	 "$arg2->c"},
	{"p:x f $arg2:ustring n=$arg7:string +0($arg1):string",
	 "p kprobes x f 24; arg1 string 8x1 param $arg2; n string 8x1 param $arg7; arg3 string 8x1 "
	 "reg 7 text 0"},
	{"r:x f $retval:string", "r kprobes x f 8; arg1 string 8x1 param $retval"},
	{"r:x f $retval->a:u16[3]", "r kprobes x f 8; a u 2x3 param $retval->a"},
	{"p:x f %di $arg*", "p kprobes x f 16; arg1 x 8x1 reg 7; arg2 x 8x1 param *"},
	{"p:x f %di:char", "p kprobes x f 8; arg1 c 1x1 reg 7"},
	{"p:x f v=+8(%di):string[2] %si",
	 "p kprobes x f 24; v_0 string 8x1 reg 7 deref 8 text 0; v_1 string 8x1 reg 7 deref 16 "
	 "text 0; arg3 x 8x1 reg 6"},
	{"p:x f +u8(%di):string[2] w=+0(argv):ustring[1]",
	 "p kprobes x f 24; arg1_0 string 8x1 reg 7 uderef 8 text 0; arg1_1 string 8x1 reg 7 "
	 "uderef 16 text 0; w string 8x1 param argv deref 0 utext 0"},
	{"p:x f @table-8:string[2]", "p kprobes x f 16; arg1_0 string 8x1 sym table-8 deref 0 "
				     "text 0; arg1_1 string 8x1 sym table-8 deref 8 text 0"},
	{"p:x f +8(%di):symstr[2]", "p kprobes x f 16; arg1 code 8x2 reg 7 mem 8"},
	{"p:x f \\\"word\" m=\\\"\":string %di",
	 "p kprobes x f 40; arg1 string 16x1 literal word; m string 16x1 literal ; arg3 x 8x1 reg "
	 "7"},
	{"p:x f \\\"fifteen-letters\"",
	 "p kprobes x f 16; arg1 string 16x1 literal fifteen-letters"},
	{"r:x f $retval->f_mode n=$retval->a.b->c:u8 +4($retval->d)",
	 "r kprobes x f 24; f_mode x 8x1 param $retval->f_mode; n u 1x1 param $retval->a.b->c; "
	 "arg3 "
	 "x 8x1 param $retval->d mem 4"},
	{"p:x f n=%di:%pd +8(%si):%pD",
	 "p kprobes x f 16; n string 8x1 reg 7 deref name text 0; arg2 string 8x1 reg 6 deref 8 "
	 "deref dentry deref name text 0"},
	{"p:x f file:%pD", "p kprobes x f 8; arg1 string 8x1 param file deref dentry deref name "
			   "text 0"},
};

static const struct {
	const char *text;
	unsigned int column;
	const char *says;
} bad[] = {
	{"", 1, "begins with 'p', of a call, or 'r'"},
	{"x vfs_read", 1, "begins with 'p'"},
	{"f:x vfs_read", 1, "write p, or for its returns r"},
	{"f10 vfs_read", 1, "write p, or for its returns r"},
	{"foo vfs_read", 1, "begins with 'p'"},
	{"-:x", 1, "'-' removes an event"},
	{"u:x /bin/sh:0x100", 1, "it traces the kernel"},
	{"p f %di n=12:u8", 9, "n=12 is no argument: a constant is \\12"},
	{"pp vfs_read", 2, "':' or a blank must follow"},
	{"p16:x vfs_read", 2, "':' or a blank must follow"},
	{"r1x:x vfs_read", 2, "MAXACTIVE is no number of 64 bits"},
	{"r99999999999999999999 vfs_read", 2, "MAXACTIVE is no number of 64 bits"},
	{"p", 2, "the function is missing"},
	{"p: f", 3, "the name of an event is missing"},
	{"p:/x f", 3, "the name of a group is missing"},
	{"p:a-b f", 4, "a name has letters, digits and _"},
	{"p:9a f", 3, "begins with a digit"},
	{"p:" A62 "aa f", 3, "longer than 63 characters"},
	{"p:" A62 "aa/x f", 3, "longer than 63 characters"},
	{"p f-4", 4, "the offset leads out of the function"},
	{"p ext4:f+4", 9, "in modules only the beginning of a function can be probed"},
	{"p f+", 5, "an offset is missing"},
	{"p f!", 4, "cannot be part of a function's name"},
	{"p :f", 3, "no name of a module"},
	{"p f %dj", 6, "unknown register 'dj': did you mean"},
	{"p f %rdi", 6, "did you mean 'di'?"},
	{"p f %foo", 6, "unknown register 'foo'; known: ax, cx"},
	{"r f %di", 5, "%di holds nothing at a return: what it held at the call"},
	{"p f $retval", 5, "$retval is for probes of returns"},
	{"p f $retvl", 6, "did you mean 'retval'?"},
	{"p f $arg0", 5, "arguments are $arg1 to"},
	{"p f $arg", 9, "the number of an argument is missing"},
	{"r f $arg1", 5, "arguments are gone at a return"},
	{"p f $stack2048", 5, "the stack has 2048 words"},
	{"p f +0($comm)", 8, "$comm is no address"},
	{"p f +0($COMM)", 8, "$comm is no address"},
	{"p f $comm:u8", 11, "$comm is a string"},
	{"p f $comm:b1@1/8", 11, "$comm is a string"},
	{"p f 7", 5, "an argument is PARAMETER, %REGISTER"},
	{"p f x=", 7, "an argument is PARAMETER, %REGISTER"},
	{"p f skb->", 10, "the name of a member is missing"},
	{"r f skb->len", 5, "parameters are gone at a return"},
	{"p f aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa=%di", 5, "longer than 32 characters"},
	{"p f common_pid=%di", 5, "cannot have the name 'common_pid'"},
	{"p f __probe_func", 5, "cannot have the name '__probe_func': give it one, as in NAME="},
	{"p f file file", 10, "two arguments have the name 'file'"},
	{"p f $arg*:u8", 5, "$arg* is no value"},
	{"p f +0($arg*)", 8, "$arg* is no value"},
	{"p f =%di", 5, "the name of an argument is missing"},
	{"p f +8%di", 7, "'(' is missing"},
	{"p f +8(%di", 11, "')' is missing"},
	{"p f +(%di)", 6, "an offset is missing"},
	{"p f +0x1ffffffff(%di)", 5, "the offset is too large"},
	{"p f %di:u9", 9, "unknown type 'u9': did you mean 'u8'?"},
	{"p f %di:", 9, "a type is missing"},
	{"p f %di:string", 9, "a string lies in memory"},
	{"p f $stack1:string", 13, "a string lies in memory"},
	{"p f %di:u8[2]", 11, "an array lies in memory"},
	{"p f file:u8[2]", 12, "an array lies in memory"},
	{"p f $arg1:u8[2]", 13, "an array lies in memory"},
	{"r f $retval:u8[2]", 15, "an array lies in memory"},
	{"p f skb->cb:u8[65]", 15, "an array has 1 to 64"},
	{"p f %di:b1@2/8[2]", 15, "an array lies in memory"},
	{"p f +0(%di):u8[0]", 15, "an array has 1 to 64"},
	{"p f +0(%di):u8[65]", 15, "an array has 1 to 64"},
	{"p f +0(%di):char[65]", 17, "an array has 1 to 64"},
	{"p f %di:char[17]", 13, "an array lies in memory"},
	{"p f +0(%di):u8[2", 17, "']' is missing"},
	{"p f +0(%di):string[8]", 19, "a probe has at most 7 strings"},
	{"p f +0(%di):string[4] +0(%si):ustring[4]", 23, "more than 7 strings"},
	{"p f %di:string[2]", 9, "pointers to strings lie in memory, as in +0(%di):string[4]"},
	{"p f $arg1:string[2]", 11, "pointers to strings lie in memory"},
	{"p f argv:string[2]", 10, "pointers to strings lie in memory"},
	{"p f $comm:string[2]", 11, "pointers to strings lie in memory"},
	{"p f +0x7fffffff(%di):string[2]", 5, "the offset is too large"},
	{"p f v_1=%si v=+0(%di):string[2]", 13, "two arguments have the name 'v_1'"},
	{"p f v=+0(%di):string[2] v_1=%si", 25, "two arguments have the name 'v_1'"},
	{"p f \\\"word", 11, "'\"' is missing"},
	{"p f \\\"two words\"", 10, "'\"' is missing"},
	{"p f \\\"sixteen-letters-\"", 22, "a text has at most 15 characters"},
	{"p f +0(\\\"word\")", 8, "a text is no address"},
	{"p f \\\"word\":u8", 13, "a text is a string"},
	{"p f \\\"word\":%pd", 13, "a text is a string"},
	{"p f %di:%pd[2]", 12, "an array of names cannot be recorded"},
	{"p f %di:%px", 9, "unknown type '%px': did you mean '%pd'?"},
	{"p f $comm:%pd", 11, "$comm is a string"},
	{"r f $retval->", 14, "the name of a member is missing"},
	{"p f $retval->len", 5, "$retval is for probes of returns"},
	{"p f %di:b8@60/64", 9, "does not fit into its container"},
	{"p f %di:b8@60/12", 9, "a container has 8, 16, 32 or 64 bits"},
	{"p f %di:b8", 11, "'@' is missing"},
	{"p f %di%si", 8, "a blank is missing"},
	{"p f %di->len", 8, "no members by name; a parameter's name, $argN and $retval have"},
	{"p f $arg1->", 12, "the name of a member is missing"},
	{"p f $arg0->len", 5, "arguments are $arg1 to"},
	{"p f $arg*->len", 5, "$arg* is no value"},
	{"p f $comm->len", 5, "$comm is no address"},
	{"r f $arg1->len", 5, "arguments are gone at a return"},
	{"p f a=%di a=%si", 11, "two arguments have the name 'a'"},
	{"p f arg2=%di %si", 14, "two arguments have the name 'arg2'"},
	{"p f \\", 6, "a constant is missing"},
	{"p f @", 6, "the name of a symbol is missing"},
	{"p f @x+", 8, "an offset is missing"},
};

static void test_given_name(void)
{
	struct fetch_probe probe;
	struct error err = {0};

	ok(fetch_parse("p f common_pid=%di", &probe, &err) && !strstr(err.text, "NAME="),
	   "who has given a name is not told how: %s", err.text);
}

/* What is known of the place only when it has been found. */
static void test_places(void)
{
	struct fetch_probe probe;
	struct error err = {0};

	ok(!fetch_parse("p f+9 %ax a=$arg1", &probe, &err) && !fetch_check_place(&probe, &err),
	   "where a function begins, parameters are known");
	probe.inside = true;
	ok(fetch_check_place(&probe, &err) &&
		   strstr(err.text, "argument 'a': parameters are known only where"),
	   "in the middle of it, parameters are: %s", err.text);
	ok(!fetch_parse("p 0x1000 %si count", &probe, &err) && !fetch_check_place(&probe, &err),
	   "a parameter and its register are known where it begins");
	probe.inside = true;
	ok(fetch_check_place(&probe, &err) && strstr(err.text, "argument 'count'"),
	   "and in the middle only the register");
	ok(!fetch_parse("p f+9 %si m=$arg1->len", &probe, &err) && !fetch_check_place(&probe, &err),
	   "so is a member of an argument where it begins");
	probe.inside = true;
	ok(fetch_check_place(&probe, &err) && strstr(err.text, "argument 'm'") && err.column == 11,
	   "and not in the middle: %s", err.text);
}

static void test_limits(void)
{
	struct fetch_probe probe;
	struct error err = {0};
	char text[1000] = "p f";

	for (int i = 0; i < FETCH_MAX_ARGS; i++)
		strcat(text, " %di");
	ok(!fetch_parse(text, &probe, &err), "a probe may have %d arguments", FETCH_MAX_ARGS);
	strcat(text, " %di");
	ok(fetch_parse(text, &probe, &err) && strstr(err.text, "more than 20 arguments"),
	   "one more is refused");
	strcpy(text, "p f ");
	for (int i = 0; i < FETCH_MAX_OPS; i++)
		strcat(text, "+0(");
	ok(fetch_parse(text, &probe, &err) && strstr(err.text, "more than 16 steps"),
	   "an argument of too many steps is refused");
	ok(!fetch_parse("p f +0(%di):u64[64]", &probe, &err) && probe.nr_fields == 64 &&
		   probe.bytes == 512 && fetch_field_bits(&probe.args[0]) == UINT64_MAX,
	   "an array has up to 64 elements: %s", err.text);
	ok(fetch_parse("p f +0(%di):u8[50] +8(%di):u8[15]", &probe, &err) &&
		   strstr(err.text, "more than 64 fields") && err.column == 20,
	   "arrays with too many elements together are refused");
	ok(fetch_parse("p f +0(%di):u64[32] +8(%di):u64[32] %si", &probe, &err) &&
		   strstr(err.text, "more than 512 bytes") && err.column == 37,
	   "arguments that are too large together are refused");
	ok(fetch_parse("p f +0(%di):u64[24] +0(%si):string[7]", &probe, &err) &&
		   strstr(err.text, "take more than 1984 bytes") && err.column == 21,
	   "and so are arrays beside strings: %s", err.text);
	ok(!fetch_parse("p f +0(%di):u64[17] +0(%si):string[7]", &probe, &err),
	   "with as many strings as there can be, arrays may have 136 bytes");
	strcpy(text, "p f");
	for (int i = 0; i < FETCH_MAX_LONG_STRINGS; i++)
		strcat(text, " +0(%di):string");
	ok(!fetch_parse(text, &probe, &err) && probe.nr_long_strings == FETCH_MAX_LONG_STRINGS,
	   "a probe has so many strings");
	strcat(text, " +0(%di):ustring");
	ok(fetch_parse(text, &probe, &err) && strstr(err.text, "more than 7 strings"),
	   "one more is refused");
	strcpy(text, "p f");
	for (int i = 0; i < FETCH_MAX_LONG_STRINGS; i++)
		strcat(text, i % 2 ? " +0(%di):string" : " +0(%di):char[17]");
	ok(!fetch_parse(text, &probe, &err) && probe.nr_long_strings == 3 &&
		   probe.nr_long_texts == 4 && probe.nr_fields == FETCH_MAX_LONG_STRINGS,
	   "arrays of more than 16 characters are among these");
	strcat(text, " +0(%di):char[16] +0(%di):char[17]");
	ok(fetch_parse(text, &probe, &err) &&
		   strstr(err.text, "more than 7 strings, and arrays of more than 16 characters"),
	   "and one more of them is refused: %s", err.text);
}

static void test_short(void)
{
	struct fetch_probe probe;
	struct error err = {0};

	ok(!fetch_parse("p:x f a=+0(%si):ustring b=%di:u8 c=+0(%si):string", &probe, &err) &&
		   !fetch_shorten(&probe, &err),
	   "strings are made short");
	is_str(shown(&probe),
	       "p kprobes x f 40; a string 16x1 reg 6 utext 0; b u 1x1 reg 7; "
	       "c string 16x1 reg 6 text 0",
	       "all of them");
	ok(!probe.nr_long_strings && probe.args[2].at == 24, "and have room for their characters");
}

int main(void)
{
	struct fetch_probe probe;
	struct error err = {0};

	test_short();
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		bool parsed = !fetch_parse(good[i].text, &probe, &err);

		ok(parsed, "'%s' is a probe", good[i].text);
		is_str(parsed ? shown(&probe) : err.text, good[i].want, "it means what it should");
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		err = (struct error){0};
		ok(fetch_parse(bad[i].text, &probe, &err) && err.column == bad[i].column &&
			   strstr(err.text, bad[i].says),
		   "'%s' is refused at character %u: %s (%u)", bad[i].text, bad[i].column, err.text,
		   err.column);
	}
	test_given_name();
	test_places();
	test_limits();
	return tap_done();
}
