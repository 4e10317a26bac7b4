/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/gdb/stub.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "vmm/libvirt/connection/reply.h"
#include "vmm/libvirt/connection/monitor.h"
#include "vmm/libvirt/gdb/internal.h"

enum { FREE_TRIES = 200, FREE_MS = 50 };

static const char fd_name[] = "sonde-gdb", chardev[] = GDBSTUB_CHARDEV;

static json_t *chardev_arguments(void)
{
	return json_pack("{s:s, s:{s:s, s:{s:{s:s, s:{s:s}}, s:b}}}", "id", chardev, "backend",
			 "type", "socket", "data", "addr", "type", "fd", "data", "str", fd_name,
			 "server", 0);
}

/* The human monitor reports an error as text only. */
static int start_server(struct libvirt_domain *domain, struct error *err)
{
	char *reply;
	int ret = libvirt_hmp(domain, "gdbserver chardev:" GDBSTUB_CHARDEV, &reply, err);

	if (ret)
		return ret;
	if (!strstr(reply, "Waiting for gdb connection"))
		ret = error_set(err, EREMOTEIO, "QEMU does not start its gdbstub");
	free(reply);
	return ret;
}

/* An administrator who starts another server ends ours, and takes its device away. */
static int is_ours(struct libvirt_domain *domain, bool *out, struct error *err)
{
	json_t *devices = NULL;
	int ret = libvirt_qmp(domain, "query-chardev", NULL, -1, &devices, err);

	*out = !ret && libvirt_reply_has_frontend(devices, chardev);
	json_decref(devices);
	return ret;
}

/* Unless the command would reach the domain's next start, or another's server. */
static int stop_server(struct libvirt_domain *domain, struct error *err)
{
	bool ours;
	char *reply;
	int ret;

	if (libvirt_process_ended(&domain->qemu))
		return 0;
	ret = is_ours(domain, &ours, err);
	if (ret || !ours)
		return ret;
	ret = libvirt_hmp(domain, "gdbserver none", &reply, err);
	if (!ret)
		free(reply);
	return ret;
}

static int check_devices(struct libvirt_domain *domain, bool ours, struct error *err)
{
	json_t *reply = NULL;
	int ret = libvirt_qmp(domain, "query-chardev", NULL, -1, &reply, err);

	if (!ret && ours && libvirt_reply_chardev(reply, chardev) == LIBVIRT_CHARDEV_CONNECTED)
		ret = error_set(err, EBUSY, "another user's sonde is attached to domain %s",
				domain->name);
	else if (!ret)
		ret = gdbstub_check_others(domain, reply, err);
	json_decref(reply);
	return ret;
}

int gdbstub_check_free(struct libvirt_domain *domain, struct error *err)
{
	return check_devices(domain, true, err);
}

/* QEMU notices a peer's death a little later. */
static int wait_free(struct libvirt_domain *domain, struct error *err)
{
	int ret = gdbstub_check_free(domain, err);

	for (int i = 0; i < FREE_TRIES && ret == -EBUSY; i++) {
		clock_wait_ms(FREE_MS);
		ret = gdbstub_check_free(domain, err);
	}
	return ret;
}

static void remove_chardev(struct libvirt_domain *domain)
{
	libvirt_qmp(domain, "chardev-remove", json_pack("{s:s}", "id", chardev), -1, NULL, NULL);
}

/* A sonde that died here may have left its device, with or without a server. */
static int add_chardev(struct libvirt_domain *domain, struct error *err)
{
	int ret = libvirt_qmp(domain, "chardev-add", chardev_arguments(), -1, NULL, err);

	if (ret != -EREMOTEIO)
		return ret;
	ret = domain->owner_dead ? 0 : wait_free(domain, err);
	if (ret)
		return ret;
	stop_server(domain, NULL);
	remove_chardev(domain);
	return libvirt_qmp(domain, "chardev-add", chardev_arguments(), -1, NULL, err);
}

static int hand_over(struct libvirt_domain *domain, int fd, struct error *err)
{
	int ret = check_devices(domain, false, err);

	if (!ret)
		ret = libvirt_qmp(domain, "getfd", json_pack("{s:s}", "fdname", fd_name), fd, NULL,
				  err);
	if (ret)
		return ret;
	ret = add_chardev(domain, err);
	if (ret) {
		libvirt_qmp(domain, "closefd", json_pack("{s:s}", "fdname", fd_name), -1, NULL,
			    NULL);
		return ret;
	}
	domain->owner_dead = false;
	ret = start_server(domain, err);
	if (ret)
		remove_chardev(domain);
	return ret;
}

int gdbstub_open(struct gdbstub *stub, struct libvirt_domain *domain, struct error *err)
{
	int pair[2], ret;

	*stub = (struct gdbstub){.domain = domain, .fd = -1};
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return error_set(err, errno, "no socket pair: %s", strerror(errno));
	ret = hand_over(domain, pair[1], err);
	close(pair[1]);
	if (ret) {
		close(pair[0]);
		return ret;
	}
	stub->fd = pair[0];
	rsp_init(&stub->rsp, stub->fd);
	ret = rsp_set_physical(&stub->rsp, true, err);
	if (ret) {
		stop_server(domain, NULL);
		gdbstub_drop(stub);
	}
	return ret;
}

int gdbstub_close(struct gdbstub *stub, struct error *err)
{
	int ret;

	if (stub->fd < 0)
		return 0;
	rsp_set_physical(&stub->rsp, false, NULL);
	ret = stop_server(stub->domain, err);
	if (!ret)
		gdbstub_drop(stub);
	return ret;
}

void gdbstub_drop(struct gdbstub *stub)
{
	if (stub->fd >= 0)
		close(stub->fd);
	stub->fd = -1;
}
