/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Instances that mean no function, beside others that do, on a fake guest. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/session/internal.h"
#include "tests/lib/fake-module.h"
#include "tests/lib/tap.h"

enum { RING_BYTES = 64 << 10, CALL = 0xe8, NR_GRAPHS = 9 };

static struct fake_session fs;

static int start(const char *first, const char *second, struct error *err)
{
	const char *const specs[] = {first, second, NULL};

	return trace_session_start(fs.session, specs, err);
}

/* Rings cannot come yet; or they come at the next tick. */
static void set_ready(bool ready)
{
	fake_put64(&fs.fg.base, fake_session_pmd(&fs) + 8, ready ? 0 : 0x1000);
	fs.fg.clock += 20000000;
}

static void set_booting(bool booting)
{
	fake_put32(&fs.fg.base, FAKE_PHYS_TEXT + FAKE_SYSTEM_STATE, booting ? 0 : 3);
	fake_put32(&fs.fg.base, FAKE_PHYS_TEXT + FAKE_SLAB_STATE, booting ? 0 : 3);
}

static const struct trace_instance_status *instance(const char *name)
{
	return fake_session_instance(&fs, name);
}

static bool is_recorded(uint64_t function)
{
	return *fake_text(&fs.fg, function) == CALL;
}

/* --- tests ----------------------------------------------------------------------------------- */

static void test_one_of_two(void)
{
	struct error err = {0};

	fake_module_create_session(&fs, RING_BYTES);
	set_ready(false);
	ok(!start("a=function:kfree", "b=function:no_such_*", &err),
	   "functions wait for a guest that is not ready: %s", err.text);
	set_ready(true);
	ok(!trace_session_tick(fs.session, &err), "it is ready: %s", err.text);
	ok(instance("a")->active && is_recorded(FAKE_KFREE) && !instance("a")->failed,
	   "the instance that means a function records it");
	ok(!instance("b")->active && instance("b")->failed && !instance("b")->begun,
	   "the other one does not");
	is_str(instance("b")->waiting, "trace spec, character 12: no function matches 'no_such_*'",
	       "and says why");
	ok(!trace_session_add_instance(fs.session, "c=function:kmem_cache_free", &err) &&
		   is_recorded(FAKE_CACHE_FREE),
	   "it keeps no third one away: %s", err.text);
	ok(trace_session_add_instance(fs.session, "d=function:no_such_too", &err) == -ENOENT,
	   "a fourth one like it is refused: %s", err.text);
	ok(strstr(err.text, "instance 'd': trace spec, character 12: "), "by name and place");
	ok(!trace_session_replace_instance(fs.session, "b=function:__kmalloc", &err) &&
		   instance("b")->active && !instance("b")->failed && is_recorded(FAKE_KMALLOC),
	   "with another pattern it records: %s", err.text);
	fake_session_end(&fs);
}

static void test_module_comes(void)
{
	struct error err = {0};

	fake_module_create_session(&fs, RING_BYTES);
	set_ready(false);
	ok(!start("a=function:kfree", "b=function:brd_read", &err), "a module's function: %s",
	   err.text);
	set_ready(true);
	ok(!trace_session_tick(fs.session, &err) && instance("b")->failed,
	   "while the module is not there its instance fails: %s", err.text);
	fake_module_load(&fs);
	ok(!trace_session_tick(fs.session, &err) && instance("b")->active && !instance("b")->failed,
	   "when it is loaded the instance records: %s", err.text);
	is_u64(instance("b")->sites, 1, "its function");
	fake_session_end(&fs);
}

/* The modules of a guest that boots are not known yet. */
static void test_booting(void)
{
	struct error err = {0};

	fake_module_create_session(&fs, RING_BYTES);
	set_booting(true);
	ok(start("kmem", "f=function:kfree,kfre", &err) == -ENOENT, "in a guest that boots: %s",
	   err.text);
	is_str(err.text,
	       "instance 'f': trace spec, character 18: no function matches 'kfre': did you mean "
	       "'kfree'? Or those of a module are 'kfre:mod:MODULE'",
	       "a pattern that means no function of the kernel is refused at once");
	ok(start("function:kfree,pdi", NULL, &err) == -ENOENT &&
		   strstr(err.text, "matches 'pdi': did you mean the word 'pid'?"),
	   "a word may have been meant: %s", err.text);
	ok(start("syscalls:raed", NULL, &err) < 0, "so are system calls: %s", err.text);
	ok(!fake_session_status(&fs).enabled && fake_session_text_same(&fs),
	   "nothing is left behind");
	ok(!start("kmem", "f=function:brd_read:mod:brd", &err),
	   "what names a module may come later: %s", err.text);
	ok(trace_session_add_instance(fs.session, "g=profile:kfre", &err) == -ENOENT,
	   "another one is looked at, too: %s", err.text);
	set_booting(false);
	fake_session_end(&fs);
}

/* One graph takes the place of four. */
static void test_all_fail(void)
{
	static const char *const graphs[NR_GRAPHS + 1] = {
		"a=graph:kfree", "b=graph:kfree", "c=graph:kfree", "d=graph:kfree", "e=graph:kfree",
		"f=graph:kfree", "g=graph:kfree", "h=graph:kfree", "i=graph:kfree",
	};
	struct error err = {0};

	fake_module_create_session(&fs, RING_BYTES);
	set_ready(false);
	ok(!trace_session_start(fs.session, graphs, &err), "too many instances wait: %s", err.text);
	is_str(instance("a")->waiting, "starts when the guest is ready for exitless mode",
	       "the status says for what");
	set_ready(true);
	ok(trace_session_tick(fs.session, &err) == -ENOSPC &&
		   strstr(err.text,
			  "profile and syscalls take three, graph and profile with tails four"),
	   "they cannot start: %s", err.text);
	is_str(instance("a")->waiting, err.text, "the status says why");
	ok(!direct_is_active(fs.session), "none records");
	ok(!trace_session_tick(fs.session, &err), "this is told once");
	ok(!trace_session_remove_instance(fs.session, "i", &err) && instance("a")->active &&
		   direct_is_active(fs.session),
	   "without the last one the others start: %s", err.text);
	fake_session_end(&fs);
}

static void test_notes(void)
{
	struct error err = {0};

	fake_module_create_session(&fs, RING_BYTES);
	ok(!start("kmem", "f=function:kfree,!nfs_*,*:mod:nfs", &err), "an odd spec: %s", err.text);
	ok(instance("f")->nr_notes == 2 &&
		   !strcmp(instance("f")->notes[0], "no function matches '!nfs_*'"),
	   "what is odd is kept for the user");
	ok(!trace_session_add_instance(fs.session, "g=function:kfree", &err) &&
		   instance("f")->nr_notes == 2 && !instance("g")->nr_notes,
	   "also while others come: %s", err.text);
	fake_session_end(&fs);
}

/* As of a kernel that is read from memory. */
static void test_freed_returns(void)
{
	static const struct fake_symbol list[] = {{"__return_sites", FAKE_SYSTEM_STATE + 8},
						  {"__return_sites_end", FAKE_SYSTEM_STATE + 16},
						  {NULL, 0}};
	struct error err = {0};

	fake_module_create_session(&fs, RING_BYTES);
	ok(!start("f=function:kfree", "g=graph:kfree", &err) && !instance("f")->nr_notes &&
		   instance("g")->nr_notes == 1 &&
		   !strcmp(instance("g")->notes[0],
			   "the kernel's own functions are recorded without returns, so without "
			   "durations and results: the kernel has no return thunks"),
	   "a note says that a kernel has no returns that could be recorded: %s", err.text);
	fake_session_end(&fs);
	fake_module_create_session(&fs, RING_BYTES);
	if (fake_guest_add_symbols(&fs.fg, list))
		abort();
	ok(!start("g=graph:kfree", "f=function:kfree", &err) && !instance("f")->nr_notes &&
		   instance("g")->nr_notes == 1 && strstr(instance("g")->notes[0], "-k FILE"),
	   "a note says where the return sites are that the kernel has freed: %s", err.text);
	ok(trace_session_add_instance(fs.session, "probe:r kmem_cache_alloc", &err) == -ENOTSUP &&
		   strstr(err.text, "-k FILE"),
	   "and so does the refusal of a probe of returns: %s", err.text);
	fake_session_end(&fs);
}

int main(void)
{
	test_one_of_two();
	test_module_comes();
	test_booting();
	test_all_fail();
	test_notes();
	test_freed_returns();
	return tap_done();
}
