/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest with traps that is about to leave its kernel: a one-shot trap makes the task sleep, and
 * come by again, as long as the tracer is in its kernel. (asks.c: without traps.)
 */
#include <errno.h>
#include "formats/base/clock.h"
#include "patcher/session/internal.h"

enum {
	PATIENCE_MS = 20000, /* how long it waits */
	SLEEP_MS = 1,        /* msleep() rounds it up to a few ticks of the timer */
};

static void on_hibernation(void *arg, struct guest_trap *hit);
static void on_kexec(void *arg, struct guest_trap *hit);

static int arm(struct trace_session *s, enum session_ask kind, oneshot_fn *fn, struct error *err)
{
	uint64_t gva = oneshot_place(&s->kernel, session_ask_function(kind));

	return gva && kernel_symbol(&s->kernel, "msleep")
		       ? oneshot_arm(&s->oneshots, gva, fn, s, err)
		       : 0;
}

int session_watch_leaving(struct trace_session *s, struct error *err)
{
	int ret = arm(s, ASK_HIBERNATION, on_hibernation, err);

	return ret ? ret : arm(s, ASK_KEXEC, on_kexec, err);
}

/* As if the function's first instruction called msleep(), and behind it jumped to itself. */
static int make_sleep(const struct trace_session *s, struct guest_regs *regs, struct error *err)
{
	const uint64_t back = regs->rip, rsp = regs->rsp - sizeof(back);
	int ret = kernel_give(&s->kernel, rsp, &back, sizeof(back), err);

	if (ret)
		return ret;
	regs->rsp = rsp;
	regs->rdi = SLEEP_MS;
	regs->rip = kernel_symbol(&s->kernel, "msleep");
	return 0;
}

/* -EBUSY, to its caller. */
static void make_fail(const struct trace_session *s, struct guest_regs *regs)
{
	uint64_t caller;

	if (kernel_read(&s->kernel, regs->rsp, &caller, sizeof(caller), NULL))
		return;
	regs->rsp += sizeof(caller);
	regs->rax = (uint64_t)-EBUSY;
	regs->rip = caller;
}

static bool is_late(struct trace_session *s)
{
	const uint64_t now = clock_monotonic_ms();

	if (!atomic_load(&s->leaving_kernel))
		s->leaving_ms = now;
	return now - s->leaving_ms > PATIENCE_MS;
}

static void leave(struct trace_session *s, enum session_ask kind, oneshot_fn *fn,
		  struct guest_trap *hit)
{
	bool late = is_late(s);
	struct error err;

	atomic_store(&s->leaving_kernel, session_ask_leaving(kind));
	if (late && kind == ASK_HIBERNATION)
		make_fail(s, &hit->regs);
	if (late)
		return;
	if (arm(s, kind, fn, &err) || make_sleep(s, &hit->regs, &err))
		first_error_set(&s->failure, &err);
}

/* panic() and nmi_panic() put their CPU's number there before they print anything; PANIC_CPU_INVALID
 * is -1 (include/linux/panic.h). */
int trace_session_guest_panicked(struct trace_session *s)
{
	uint32_t cpu;
	int ret;

	if (!s->located || !kernel_confirm(&s->kernel))
		return -EAGAIN;
	ret = kernel_read_u32(&s->kernel, "panic_cpu", &cpu, NULL);
	return ret ? ret : cpu != UINT32_MAX;
}

/*
 * A panic with a crash kernel loaded goes to that kernel, in memory of its own: the one that is traced
 * stays where it was, and does no more. It does not pass kernel_kexec(), and must not be held up.
 */
void session_watch_crash(struct trace_session *s)
{
	const uint64_t image = kernel_symbol(&s->kernel, "kexec_crash_image");
	uint64_t loaded;

	if (s->crashed || !image || !session_look_is_due(s, &s->next_crash))
		return;
	s->crashed = !kernel_read(&s->kernel, image, &loaded, sizeof(loaded), NULL) && loaded &&
		     trace_session_guest_panicked(s) == 1;
}

static void on_hibernation(void *arg, struct guest_trap *hit)
{
	leave(arg, ASK_HIBERNATION, on_hibernation, hit);
}

static void on_kexec(void *arg, struct guest_trap *hit)
{
	leave(arg, ASK_KEXEC, on_kexec, hit);
}
