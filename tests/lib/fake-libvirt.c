/* SPDX-License-Identifier: GPL-2.0-or-later */
/* libvirt, as far as sonde calls it, with the fake QEMU as its only domain. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "tests/lib/fake-qemu-internal.h"

static struct fake_qemu *listed; /* libvirt's only domain */
static int error_code = 1;
static _Atomic int timers; /* of the event loop, which runs while there is one */

static struct fake_qemu *locked(virDomainPtr domain)
{
	struct fake_qemu *q = (struct fake_qemu *)domain;

	atomic_fetch_add(&q->nr_waiting, 1);
	while (atomic_load(&q->busy_libvirtd))
		clock_wait_ms(1);
	atomic_fetch_sub(&q->nr_waiting, 1);
	pthread_mutex_lock(&q->lock);
	return q;
}

static int monitor_command(virDomainPtr domain, const char *text, char **result, unsigned int flags)
{
	struct fake_qemu *q = locked(domain);
	int ret = q->dead_libvirtd ? -1 : 0;

	*result = ret ? NULL : fake_qemu_answer(q, text, flags);
	pthread_mutex_unlock(&q->lock);
	return ret;
}

static int monitor_command_files(virDomainPtr domain, const char *text, unsigned int nr_in, int *in,
				 unsigned int *nr_out, int **out, char **result, unsigned int flags)
{
	struct fake_qemu *q = locked(domain);

	(void)nr_out;
	(void)out;
	if (q->passed >= 0)
		close(q->passed);
	q->passed = nr_in ? dup(in[0]) : -1;
	pthread_mutex_unlock(&q->lock);
	return monitor_command(domain, text, result, flags);
}

static int domain_state(virDomainPtr domain, int *state, int *reason, unsigned int flags)
{
	struct fake_qemu *q = locked(domain);
	int ret = q->dead_libvirtd ? -1 : 0;

	(void)flags;
	*state = q->panicked         ? LIBVIRT_DOMAIN_CRASHED
		 : q->run == RUNNING ? LIBVIRT_DOMAIN_RUNNING
				     : LIBVIRT_DOMAIN_PAUSED;
	*reason = (int)q->reason;
	pthread_mutex_unlock(&q->lock);
	return ret;
}

/* libvirt connects on a thread. */
static virConnectPtr connect_open(const char *uri)
{
	bool dead = false;

	(void)uri;
	if (listed) {
		pthread_mutex_lock(&listed->lock);
		listed->keep_alive_s = 0;
		dead = listed->dead_libvirtd;
		pthread_mutex_unlock(&listed->lock);
	}
	return dead ? NULL : (virConnectPtr)&listed;
}

static int connect_close(virConnectPtr connection)
{
	(void)connection;
	return 0;
}

static int connect_keep_alive(virConnectPtr connection, int interval_s, unsigned int count)
{
	(void)connection;
	if (!atomic_load(&timers))
		return -1; /* as libvirt does where no event loop runs */
	if (listed) {
		pthread_mutex_lock(&listed->lock);
		listed->keep_alive_s = (unsigned int)interval_s * (count + 1);
		pthread_mutex_unlock(&listed->lock);
	}
	return 0;
}

static const char *connect_type(virConnectPtr connection)
{
	(void)connection;
	return "QEMU";
}

static char *connect_uri(virConnectPtr connection)
{
	(void)connection;
	return strdup("qemu:///session?socket=/nonexistent/socket");
}

static virDomainPtr look_up(bool found)
{
	found = found && listed && !listed->hidden;
	error_code = found ? 1 : LIBVIRT_ERR_NO_DOMAIN;
	return found ? (virDomainPtr)listed : NULL;
}

static virDomainPtr lookup_name(virConnectPtr connection, const char *name)
{
	(void)connection;
	return look_up(!strcmp(name, "fake"));
}

static virDomainPtr lookup_uuid(virConnectPtr connection, const char *uuid)
{
	(void)connection;
	return look_up(!strcmp(uuid, fake_qemu_uuid()));
}

static int domain_free(virDomainPtr domain)
{
	(void)domain;
	return 0;
}

static const char *domain_name(virDomainPtr domain)
{
	(void)domain;
	return "fake";
}

static int domain_uuid(virDomainPtr domain, char *uuid)
{
	(void)domain;
	strcpy(uuid, fake_qemu_uuid());
	return 0;
}

static char *domain_xml(virDomainPtr domain, unsigned int flags)
{
	struct fake_qemu *q = locked(domain);
	char *xml = NULL;

	(void)flags;
	if (asprintf(&xml, "<domain>\n  <devices>\n%s%s%s  </devices>\n</domain>\n",
		     q->device ? "    <shmem name='" : "", q->device ? q->alias : "",
		     q->device ? "'>\n    </shmem>\n" : "") < 0)
		abort();
	pthread_mutex_unlock(&q->lock);
	return xml;
}

/* The file, which QEMU would share, has another memory than the device. */
static int attach_device(virDomainPtr domain, const char *xml, unsigned int flags)
{
	struct fake_qemu *q = locked(domain);
	char path[128] = "/dev/shm/";
	int fd = -1;

	(void)flags;
	if (sscanf(xml, "<shmem name='%63[^']'", q->alias) == 1) {
		strcat(path, q->alias);
		fd = open(path, O_RDWR | O_CREAT, 0644);
	}
	q->device = fd >= 0 && !ftruncate(fd, FAKE_DEVICE_BYTES);
	if (fd >= 0)
		close(fd);
	pthread_mutex_unlock(&q->lock);
	return fd < 0 ? -1 : 0;
}

static int event_register_default(void)
{
	return 0;
}

static int event_run_default(void)
{
	clock_wait_ms(1);
	return 0;
}

static int event_add_timeout(int ms, void (*fn)(int timer, void *arg), void *arg,
			     void (*free_arg)(void *arg))
{
	(void)ms;
	(void)fn;
	(void)arg;
	(void)free_arg;
	atomic_fetch_add(&timers, 1);
	return 1;
}

static void event_update_timeout(int timer, int ms)
{
	(void)timer;
	(void)ms;
}

static int event_remove_timeout(int timer)
{
	(void)timer;
	atomic_fetch_sub(&timers, 1);
	return 0;
}

/* There are no events. */
static int event_register(virConnectPtr connection, virDomainPtr domain, int event_id,
			  libvirt_event_fn *fn, void *arg, void (*free_arg)(void *arg))
{
	(void)connection;
	(void)domain;
	(void)fn;
	(void)arg;
	(void)free_arg;
	return event_id;
}

static int event_deregister(virConnectPtr connection, int callback)
{
	(void)connection;
	(void)callback;
	return 0;
}

static int last_code(void)
{
	return error_code;
}

static const char *last_message(void)
{
	return "libvirtd is dead";
}

static const struct libvirt_api api = {.connect_open = connect_open,
				       .connect_close = connect_close,
				       .connect_keep_alive = connect_keep_alive,
				       .connect_type = connect_type,
				       .connect_uri = connect_uri,
				       .lookup_name = lookup_name,
				       .lookup_uuid = lookup_uuid,
				       .domain_free = domain_free,
				       .domain_name = domain_name,
				       .domain_uuid = domain_uuid,
				       .domain_xml = domain_xml,
				       .attach_device = attach_device,
				       .event_register_default = event_register_default,
				       .event_run_default = event_run_default,
				       .event_add_timeout = event_add_timeout,
				       .event_update_timeout = event_update_timeout,
				       .event_remove_timeout = event_remove_timeout,
				       .event_register = event_register,
				       .event_deregister = event_deregister,
				       .monitor_command = monitor_command,
				       .monitor_command_files = monitor_command_files,
				       .domain_state = domain_state,
				       .last_code = last_code,
				       .last_message = last_message};

void fake_libvirt_list(struct fake_qemu *q)
{
	listed = q;
}

const struct libvirt_api *fake_qemu_libvirt(void)
{
	return &api;
}

struct libvirt_domain fake_qemu_domain(struct fake_qemu *q)
{
	struct libvirt_domain domain = {.api = &api,
					.calling = PTHREAD_MUTEX_INITIALIZER,
					.domain = (virDomainPtr)q,
					.name = "fake",
					.qemu = q->process};

	snprintf(domain.uuid, sizeof(domain.uuid), "%s", fake_qemu_uuid());
	return domain;
}
