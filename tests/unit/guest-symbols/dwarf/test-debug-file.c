/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which file is taken for a kernel's debug information, and what a debuginfod server is asked. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "guest-symbols/dwarf/debug-file.h"
#include "tests/lib/tap.h"
#include "tests/lib/tool.h"

#define ID "0123456789abcdef0123456789abcdef01234567"

static char root[] = "/tmp/debug-file-XXXXXX";
static struct trace_info info = {.build_id = ID, .banner = "Linux version 6.1.0-9 (a) (b) #1"};

static void run(const char *command)
{
	if (tool_run(NULL, "cd %s && %s", root, command))
		abort();
}

static void make_file(void)
{
	if (!mkdtemp(root))
		abort();
	run("echo 'int main(void) { return 0; }' > x.c && "
	    "gcc -g -Wl,--build-id=0x" ID " -o vmlinux x.c && "
	    "gcc -g -Wl,--build-id=0x11" ID " -o other x.c && gcc -Wl,--build-id=none -o none x.c");
}

static bool finds(void)
{
	struct error err;
	int fd = debug_file_search(root, &info, &err);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void test_place(const char *folder, const char *name)
{
	char command[512];

	snprintf(command, sizeof(command), "mkdir -p .%s && cp other .%s/%s", folder, folder, name);
	run(command);
	ok(!finds(), "%s/%s of another kernel is passed over", folder, name);
	snprintf(command, sizeof(command), "cp vmlinux .%s/%s", folder, name);
	run(command);
	ok(finds(), "%s/%s of the kernel is found", folder, name);
	snprintf(command, sizeof(command), "rm .%s/%s", folder, name);
	run(command);
}

static void test_places(void)
{
	test_place("/usr/lib/debug/.build-id/01", "23456789abcdef0123456789abcdef01234567.debug");
	test_place("/usr/lib/debug/lib/modules/6.1.0-9", "vmlinux");
	test_place("/usr/lib/debug/boot", "vmlinux-6.1.0-9");
	test_place("/usr/lib/debug/usr/lib/modules/6.1.0-9", "vmlinux.debug");
	test_place("/usr/lib/debug/boot", "vmlinux-6.1.0-9.debug");
	test_place("/lib/modules/6.1.0-9/build", "vmlinux");
	test_place("/boot", "vmlinux-6.1.0-9");
}

/* Banner and build id are the guest's words. */
static void test_hostile(void)
{
	static const char *const banners[] = {"Linux version ../../../../vmlinux (a)",
					      "Linux version ", "Linux version . x",
					      "Linux version a/b x", "something else"};
	const struct trace_info good = info;
	unsigned int found = 0;

	for (size_t i = 0; i < sizeof(banners) / sizeof(banners[0]); i++) {
		snprintf(info.banner, sizeof(info.banner), "%s", banners[i]);
		found += finds();
	}
	memset(info.banner, 'a', sizeof(info.banner) - 1);
	memcpy(info.banner, "Linux version ", 14);
	found += finds();
	info = good;
	snprintf(info.build_id, sizeof(info.build_id), "%s", "../../../../../../vmlinux");
	found += finds();
	memset(info.build_id, 'a', sizeof(info.build_id) - 1);
	found += finds();
	snprintf(info.build_id, sizeof(info.build_id), "%s", "01");
	found += finds();
	info = good;
	is_u64(found, 0, "no banner and no build id leads elsewhere");
}

static void test_errors(void)
{
	struct trace_info without = info;
	struct error err;
	char path[128];

	snprintf(path, sizeof(path), "%s/none", root);
	ok(debug_file_open(path, &info, &err) == -EINVAL, "a file without build id is refused: %s",
	   err.text);
	snprintf(path, sizeof(path), "%s/other", root);
	ok(debug_file_open(path, &info, &err) == -EINVAL, "that of another kernel is refused: %s",
	   err.text);
	ok(debug_file_open("/nonexistent", &info, &err) == -ENOENT,
	   "one that is not there is an error: %s", err.text);
	ok(debug_file_search(root, &info, &err) == -ENOENT,
	   "without any, the user is told what to do: %s", err.text);
	without.build_id[0] = '\0';
	ok(debug_file_search(root, &without, &err) == -EINVAL && err.code == EINVAL,
	   "a trace without build id is refused: %s", err.text);
}

/* --- debuginfod ------------------------------------------------------------------------------ */

static pid_t start_server(const char *port)
{
	pid_t pid = fork();
	char path[128];

	if (pid)
		return pid;
	snprintf(path, sizeof(path), "%s/served", root);
	unsetenv("DEBUGINFOD_URLS"); /* it would ask itself */
	if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
		_exit(127);
	execlp("debuginfod", "debuginfod", "-p", port, "-d", ":memory:", "-F", path, (char *)NULL);
	_exit(127);
}

/* It scans its folder in the background. A miss is remembered by the client for its cache. */
static bool finds_in_time(void)
{
	for (int i = 0; i < 50; i++) {
		if (finds())
			return true;
		run("rm -rf cache");
		clock_wait_ms(200);
	}
	return false;
}

static void test_server(void)
{
	char port[16], value[128];
	struct error err;
	pid_t pid;

	snprintf(port, sizeof(port), "%d", 20000 + getpid() % 20000);
	snprintf(value, sizeof(value), "http://127.0.0.1:%s", port);
	setenv("DEBUGINFOD_URLS", value, 1);
	snprintf(value, sizeof(value), "%s/cache", root);
	setenv("DEBUGINFOD_CACHE_PATH", value, 1);
	setenv("DEBUGINFOD_TIMEOUT", "5", 1);
	ok(debug_file_search(root, &info, &err) == -ENOENT || err.code,
	   "a server that does not answer is no debug information: %s", err.text);
	run("rm -rf cache && mkdir served && cp vmlinux other served/");
	pid = start_server(port);
	ok(finds_in_time(), "a debuginfod server has it");
	info.build_id[0] = 'f';
	ok(debug_file_search(root, &info, &err) == -ENOENT, "it has no other kernel's: %s",
	   err.text);
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
}

int main(void)
{
	if (!tool_exists("gcc"))
		return tap_skip_all("gcc is not installed");
	unsetenv("DEBUGINFOD_URLS");
	make_file();
	test_places();
	test_hostile();
	test_errors();
	if (tool_exists("debuginfod"))
		test_server();
	else
		tap_skip("a server", "debuginfod is not installed");
	tool_run(NULL, "rm -r %s", root);
	return tap_done();
}
