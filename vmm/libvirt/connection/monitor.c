/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/connection/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "vmm/libvirt/connection/reply.h"

static int send_command(struct libvirt_domain *d, const char *text, int fd, char **reply,
			struct error *err)
{
	int ret;

	*reply = NULL;
	pthread_mutex_lock(&d->calling);
	if (fd >= 0)
		ret = d->api->monitor_command_files(d->domain, text, 1, &fd, NULL, NULL, reply, 0);
	else
		ret = d->api->monitor_command(d->domain, text, reply, 0);
	pthread_mutex_unlock(&d->calling);
	if (ret || !*reply) {
		free(*reply);
		return libvirt_error(d, "monitor command", err);
	}
	return 0;
}

int libvirt_qmp(struct libvirt_domain *d, const char *command, json_t *arguments, int fd,
		json_t **result, struct error *err)
{
	json_t *request = json_pack("{s:s, s:o*}", "execute", command, "arguments", arguments);
	char *text = request ? json_dumps(request, JSON_COMPACT) : NULL, *reply;
	int ret;

	json_decref(request);
	if (!text)
		return error_set(err, ENOMEM, "out of memory");
	ret = send_command(d, text, fd, &reply, err);
	free(text);
	if (ret)
		return ret;
	ret = libvirt_reply_parse(reply, strlen(reply), result, err);
	free(reply);
	if (ret)
		error_prefix(err, "%s: ", command);
	return ret;
}

int libvirt_domain_check_files(struct libvirt_domain *d, struct error *err)
{
	static const char name[] = "sonde-check";
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC), ret;
	struct error why;

	if (fd < 0)
		return error_set(err, errno, "/dev/null: %s", strerror(errno));
	ret = libvirt_qmp(d, "getfd", json_pack("{s:s}", "fdname", name), fd, NULL, &why);
	close(fd);
	if (ret == -EACCES)
		return error_set(err, EACCES, "%s", why.text);
	if (ret)
		return error_set(
			err, ENOTSUP,
			"this connection cannot pass a descriptor to QEMU (%.160s): connect to "
			"libvirt's own socket",
			why.text);
	return libvirt_qmp(d, "closefd", json_pack("{s:s}", "fdname", name), -1, NULL, err);
}

int libvirt_hmp(struct libvirt_domain *d, const char *command, char **reply, struct error *err)
{
	int ret;

	*reply = NULL;
	pthread_mutex_lock(&d->calling);
	ret = d->api->monitor_command(d->domain, command, reply, LIBVIRT_QEMU_HMP);
	pthread_mutex_unlock(&d->calling);
	if (ret || !*reply) {
		free(*reply);
		return libvirt_error(d, command, err);
	}
	if (strlen(*reply) <= LIBVIRT_HMP_MAX)
		return 0;
	free(*reply);
	return error_set(err, EPROTO, "%s: QEMU's reply is longer than %d MiB", command,
			 LIBVIRT_HMP_MAX >> 20);
}

int libvirt_domain_has_kvm(struct libvirt_domain *d, bool *out, struct error *err)
{
	json_t *reply = NULL;
	int ret = libvirt_qmp(d, "query-kvm", NULL, -1, &reply, err);

	*out = json_is_true(json_object_get(reply, "enabled"));
	json_decref(reply);
	return ret;
}

int libvirt_read_registers(struct libvirt_domain *domain, struct guest_sregs *out, unsigned int n,
			   struct error *err)
{
	char *reply;
	int ret = libvirt_hmp(domain, "info registers -a", &reply, err);

	if (ret)
		return ret;
	ret = libvirt_reply_registers(reply, strlen(reply), out, n, err);
	free(reply);
	return ret;
}
