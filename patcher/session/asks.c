/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Gives way to what a guest without traps does to its own text, or with its kernel. */
#include <errno.h>
#include <stdlib.h>
#include "formats/base/clock.h"
#include "patcher/coexist/features.h"
#include "patcher/session/internal.h"

/* The guest may change sites many times in a row: the tracer's stay out until it has been quiet for
 * this long. */
static const uint64_t quiet_ns = 200000000;

/*
 * Each is called by one task at a time, which holds a mutex and may sleep:
 * ftrace_arch_code_modify_prepare() with ftrace_lock (kernel/trace/ftrace.c), arch_prepare_kprobe()
 * with kprobe_mutex (kernel/kprobes.c), the others with system_transition_mutex
 * (kernel/power/hibernate.c, user.c and suspend.c, kernel/reboot.c). All hibernation goes through
 * hibernate_preallocate_memory(), after user space has been frozen and before the image is made.
 * All suspending goes through suspend_devices_and_enter(), after user space has been frozen and
 * before devices are suspended. Several tasks may be in do_init_module() (kernel/module/main.c),
 * which holds no lock.
 */
static const struct {
	const char *function, *name, *leaving;
	enum kernel_feature feature;
	enum ask_wait wait;
	bool refuses;
	unsigned int patience_ms;
} kinds[SESSION_ASKS] = {
	/* A tracer that hangs is killed after ten seconds, and its patches taken out then. What
	 * spins must not wait for that: a guest's watchdogs may complain after two seconds. */
	[ASK_FTRACE] = {"ftrace_arch_code_modify_prepare", "ftrace", NULL, FEATURE_FTRACE,
			ASK_SLEEP, false, 20000},
	[ASK_KPROBES] = {"arch_prepare_kprobe", "kprobes", NULL, FEATURE_KPROBES, ASK_SPIN, true,
			 1000},
	[ASK_HIBERNATION] = {"hibernate_preallocate_memory", "hibernation", "the guest hibernates",
			     FEATURE_HIBERNATION, ASK_SLEEP, true, 20000},
	[ASK_KEXEC] = {"kernel_kexec", "kexec", "the guest starts another kernel (kexec)",
		       FEATURE_KEXEC, ASK_SLEEP, false, 20000},
	[ASK_SUSPEND] = {"suspend_devices_and_enter", "suspend", NULL, FEATURE_SUSPEND, ASK_SLEEP,
			 true, 20000},
	[ASK_MODULES] = {"do_init_module", "modules", NULL, FEATURE_MODULES, ASK_SPIN, false, 1000},
};

const char *session_ask_name(enum session_ask kind)
{
	return kinds[kind].name;
}

const char *session_ask_function(enum session_ask kind)
{
	return kinds[kind].function;
}

const char *session_ask_leaving(enum session_ask kind)
{
	return kinds[kind].leaving;
}

/* --- where ------------------------------------------------------------------------------------ */

/* -ENOENT: the kernel cannot do it. -ENOTSUP: it can, in a way that is not known. */
static int lacks(const struct trace_session *s, enum session_ask kind, struct error *err)
{
	const char *symbol = kernel_feature_symbol(&s->kernel, kinds[kind].feature);

	return symbol ? error_set(err, ENOTSUP, "the kernel has %s but no %s()", symbol,
				  kinds[kind].function)
		      : error_set(err, ENOENT, "the kernel has no %s", kinds[kind].name);
}

static int find_place(const struct trace_session *s, enum session_ask kind, struct displaced *out,
		      struct error *err)
{
	const char *function = kinds[kind].function;
	const struct symbol *symbol = symbols_find(s->image->symbols, function);

	if (!symbol)
		return lacks(s, kind, err);
	if (!symbol->size)
		return error_set(err, ENOTSUP, "the end of %s() is not known", function);
	return function_displace(&s->kernel, s->decoder, kernel_gva(&s->kernel, symbol->address),
				 symbol->size, oneshot_place(&s->kernel, function), out, err);
}

static int find_argument(const struct trace_session *s, enum session_ask kind, uint32_t *out,
			 struct error *err)
{
	struct btf_field field;
	int ret;

	*out = 0;
	if (kind != ASK_KPROBES)
		return 0;
	ret = kernel_image_check_btf(s->image, err);
	if (!ret)
		ret = btf_field(s->image->btf, "kprobe", "addr", &field, err);
	*out = ret ? 0 : field.offset;
	return ret;
}

static int find_ask(const struct trace_session *s, enum session_ask kind, struct engine_ask *out,
		    struct error *err)
{
	int ret;

	*out = (struct engine_ask){.function = kinds[kind].function,
				   .wait = kinds[kind].wait,
				   .refuses = kinds[kind].refuses,
				   .many = kind == ASK_MODULES,
				   .patience_ms = kinds[kind].patience_ms};
	ret = find_place(s, kind, &out->place, err);
	if (ret != -ENOENT && kinds[kind].wait == ASK_SLEEP && !s->asks.config.sleep)
		return error_set(err, ENOTSUP, "the kernel has no msleep()");
	return ret ? ret : find_argument(s, kind, &out->argument, err);
}

/* By a trap, in a guest that has traps. Modules ring their bell there, or are polled for. */
static int find_trap(const struct trace_session *s, enum session_ask kind, struct error *err)
{
	if (kind >= SESSION_YIELDS)
		return error_set(err, ENOENT, "a guest with traps does not ask");
	return oneshot_place(&s->kernel, kinds[kind].function) ? 0 : lacks(s, kind, err);
}

void session_asks_find(struct trace_session *s)
{
	const bool traps = guest_has_traps(s->guest);
	struct session_asks *asks = &s->asks;

	asks->config.n = 0;
	asks->config.sleep = kernel_symbol(&s->kernel, "msleep");
	for (enum session_ask kind = 0; kind < SESSION_ASKS; kind++) {
		struct engine_ask *ask = &asks->config.v[asks->config.n];
		struct error *missing = &asks->missing[kind];

		*missing = (struct error){0};
		if (traps ? find_trap(s, kind, missing) : find_ask(s, kind, ask, missing))
			continue;
		if (!traps)
			asks->kinds[asks->config.n++] = kind;
	}
}

/* A kprobe that is made unseen copies a jump into the tracer's memory, and outlives it: recovery
 * has to unmap that memory without knowing the guest's kprobes. */
static int check_kprobes_ask(const struct trace_session *s, struct error *err)
{
	const struct error *why = &s->asks.missing[ASK_KPROBES];

	if (!why->code || why->code == ENOENT)
		return 0;
	return error_set(err, ENOTSUP, "kprobes of the guest cannot be noticed: %s", why->text);
}

int session_asks_check_places(const struct trace_session *s, bool many, struct error *err)
{
	const struct engine_asks *config = &s->asks.config;
	struct kprobe_table probes;
	int ret = kprobe_table_read(&s->kernel, &probes, err);

	for (size_t i = 0; !ret && i < config->n; i++) {
		const struct displaced *place = &config->v[i].place;

		if (config->v[i].many == many &&
		    kprobe_table_reaches(&probes, place->gva, place->size))
			ret = error_set(err, EBUSY,
					"a kprobe of the guest is registered in %s(), "
					"where %s would be noticed: remove it in the guest",
					config->v[i].function, kinds[s->asks.kinds[i]].name);
	}
	kprobe_table_deinit(&probes);
	return ret;
}

int trace_session_check_exitless(const struct trace_session *s, struct error *err)
{
	int ret;

	if (guest_has_traps(s->guest))
		return 0;
	ret = check_kprobes_ask(s, err);
	/* those of functions that many tasks may be in are written later */
	return ret ? ret : session_asks_check_places(s, false, err);
}

bool session_is_asked(const struct trace_session *s, enum session_ask kind)
{
	return !s->asks.missing[kind].code;
}

/* --- answers, on the engine's thread ---------------------------------------------------------- */

/* Stop the guest. False: another thread holds it stopped. */
static bool hold(struct trace_session *s)
{
	return !s->guest->control->try_stop(s->guest, NULL);
}

static void release(struct trace_session *s)
{
	s->guest->control->resume(s->guest, NULL);
}

static enum engine_answer failed(struct trace_session *s, const struct error *err,
				 enum engine_answer answer)
{
	first_error_set(&s->failure, err);
	return answer;
}

/* While the sites are the guest's, nothing is left to be done. */
static enum engine_answer answer_ftrace(struct trace_session *s, bool *held)
{
	struct error err;
	int ret = 0;

	s->asks.asked_ns = clock_monotonic_ns();
	if (ftrace_handoff_is_given(&s->ftrace))
		return ANSWER_GO;
	*held = hold(s);
	if (!*held)
		return ANSWER_LATER;
	if (s->asks.active)
		ret = ftrace_handoff_give(&s->ftrace, &err);
	return ret ? failed(s, &err, ANSWER_LATER) : ANSWER_GO;
}

/* A kprobe must not copy a jump to the tracer's own code. */
static bool meets_jump(const struct trace_session *s, uint64_t address)
{
	const struct session_asks *asks = &s->asks;

	for (size_t i = 0; i < asks->config.n; i++) {
		const struct displaced *place = &asks->config.v[i].place;

		if (asks->kinds[i] == ASK_MODULES && !atomic_load(&s->bell.asking))
			continue;
		if (address + JUMP_SIZE > place->gva && address < place->gva + place->size)
			return true;
	}
	return false;
}

static enum engine_answer answer_kprobe(struct trace_session *s, uint64_t address, bool *held)
{
	struct error err;
	int ret = 0;

	if (meets_jump(s, address))
		return ANSWER_REFUSE;
	if (!kprobe_handoff_reaches(&s->kprobes, address))
		return ANSWER_GO;
	*held = hold(s);
	if (!*held)
		return ANSWER_LATER;
	if (s->asks.active)
		ret = kprobe_handoff_give(&s->kprobes, address, &err);
	return ret ? failed(s, &err, ANSWER_REFUSE) : ANSWER_GO;
}

static enum engine_answer answer(void *arg, const struct engine_question *question, bool *held)
{
	struct trace_session *s = arg;
	const enum session_ask kind = s->asks.kinds[question->ask];

	if (kind == ASK_FTRACE)
		return answer_ftrace(s, held);
	if (kind == ASK_KPROBES)
		return answer_kprobe(s, question->argument, held);
	if (kind == ASK_MODULES)
		return modules_answer(s, question->number);
	/* the guest would wake up into jumps to a device that was reset */
	if (kind == ASK_SUSPEND)
		return ANSWER_REFUSE;
	/* when the tracer has gone, the function has its own bytes back */
	atomic_store(&s->leaving_kernel, kinds[kind].leaving);
	return ANSWER_LATER;
}

/* A module's first functions have been called. */
static void gave_up(void *arg, size_t ask)
{
	struct trace_session *s = arg;

	count_event(&s->counters, COUNTER_LATE_MODULES, s->asks.kinds[ask] == ASK_MODULES);
}

/* With the guest stopped. */
static void take_sites(struct trace_session *s)
{
	struct error err;

	if (s->asks.active && s->ftrace.out && !text_lock_is_held(&s->kernel, LOCK_FTRACE) &&
	    ftrace_handoff_take(&s->ftrace, &err))
		first_error_set(&s->failure, &err);
}

static void poll(void *arg)
{
	struct trace_session *s = arg;

	if (!s->ftrace.out || clock_monotonic_ns() - s->asks.asked_ns < quiet_ns ||
	    text_lock_is_held(&s->kernel, LOCK_FTRACE) || !hold(s))
		return;
	take_sites(s);
	release(s);
}

void session_asks_init(struct trace_session *s)
{
	s->asks.config.answer = answer;
	s->asks.config.gave_up = gave_up;
	s->asks.config.poll = poll;
	s->asks.config.arg = s;
}
