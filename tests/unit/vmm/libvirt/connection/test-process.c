/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Instances of a domain's QEMU. A shell with QEMU's arguments plays its part. */
#include <dirent.h>
#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/lib/tap.h"
#include "vmm/libvirt/connection/process.h"

static const struct libvirt_instance unknown;
static char uuid[64]; /* made of the PID: this test may run twice at a time */
static const char script[] = "echo; read -r line";

enum { STRANGER = 65534, QEMUS_USER = 64055 };

struct passwd *getpwnam(const char *name)
{
	static struct passwd user = {.pw_uid = QEMUS_USER};

	return strcmp(name, "libvirt-qemu") ? NULL : &user;
}

enum user { AS_REAL, AS_EFFECTIVE /* and saved, but not real */ };

/* It ends when *input is closed. `uid` 0: as this user. */
static pid_t start_as(uid_t uid, enum user as, int *input)
{
	int in[2], out[2];
	pid_t pid;
	char byte;

	if (pipe(in) || pipe(out))
		abort();
	pid = fork();
	if (!pid) {
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		close(in[1]);
		if (uid && (as == AS_REAL ? setuid(uid) : setresuid(0, uid, uid)))
			_exit(127);
		execl("/bin/sh", "sh", "-c", script, "sh", "-uuid", uuid, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	if (pid < 0 || read(out[0], &byte, 1) != 1)
		abort();
	close(out[0]);
	*input = in[1];
	return pid;
}

static pid_t start_qemu(int *input)
{
	return start_as(0, AS_REAL, input);
}

static void end_qemu(pid_t pid, int input)
{
	close(input);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void test_none(void)
{
	struct libvirt_process p;

	libvirt_process_open(uuid, "", &p);
	ok(!libvirt_instance_runs(uuid, &unknown), "a uuid that no process has does not run");
	ok(!p.pid && p.fd < 0 && !p.instance.boot[0] && p.why.code == ESRCH,
	   "a process that is not found is unknown, with a reason: %s", p.why.text);
	ok(!libvirt_process_ended(&p), "an unknown process has not ended");
	libvirt_process_close(&p);
}

static void test_life(struct libvirt_instance *out)
{
	struct libvirt_process p, again;
	int input;
	pid_t pid = start_qemu(&input);

	libvirt_process_open(uuid, "", &p);
	libvirt_process_open(uuid, "", &again);
	ok(libvirt_instance_runs(uuid, &unknown) && p.pid == pid, "QEMU is found by its uuid");
	ok(p.fd >= 0 && !libvirt_process_ended(&p), "a QEMU that runs has not ended");
	ok(strlen(p.instance.boot) == LIBVIRT_BOOT_TEXT - 1 && p.instance.start,
	   "QEMU's instance has a boot and a start: %s %llu", p.instance.boot,
	   (unsigned long long)p.instance.start);
	ok(!libvirt_instances_differ(&p.instance, &again.instance),
	   "two handles of one QEMU have the same instance");
	kill(pid, SIGKILL);
	waitid(P_PID, (id_t)pid, NULL, WEXITED | WNOWAIT);
	ok(libvirt_process_ended(&p) && !libvirt_instance_runs(uuid, &unknown),
	   "a QEMU that is a zombie has ended");
	end_qemu(pid, input);
	ok(libvirt_process_ended(&p), "a QEMU that was reaped has ended");
	*out = p.instance;
	libvirt_process_close(&p);
	libvirt_process_close(&again);
}

static void test_next(const struct libvirt_instance *before)
{
	struct libvirt_instance other_boot;
	struct libvirt_process p, twice;
	int input, input_too;
	pid_t pid, too;

	usleep(2 * 1000000 / (useconds_t)sysconf(_SC_CLK_TCK));
	pid = start_qemu(&input);
	libvirt_process_open(uuid, "", &p);
	ok(libvirt_instances_differ(&p.instance, before), "QEMU's next start is another instance");
	ok(!libvirt_instances_differ(&p.instance, &unknown) &&
		   !libvirt_instances_differ(&unknown, before),
	   "an unknown instance differs from none");
	other_boot = p.instance;
	other_boot.boot[0] ^= 1;
	ok(libvirt_instances_differ(&p.instance, &other_boot),
	   "the same start time after another boot is another instance");
	too = start_qemu(&input_too);
	libvirt_process_open(uuid, "", &twice);
	ok(!twice.pid && strstr(twice.why.text, "several"),
	   "of two candidates neither is taken: %s", twice.why.text);
	ok(libvirt_instance_runs(uuid, &unknown), "two candidates count as running");
	libvirt_process_close(&twice);
	libvirt_process_close(&p);
	end_qemu(too, input_too);
	end_qemu(pid, input);
}

static void write_pid(const char *path, pid_t pid)
{
	FILE *file = fopen(path, "w");

	if (!file || fprintf(file, "%d", pid) < 0 || fclose(file))
		abort();
}

/* libvirt's pid file says which of several processes with its arguments is the domain's QEMU. */
static void test_pid_file(void)
{
	char folder[] = "/tmp/sonde-process-XXXXXX", path[64], other[64];
	int inputs[2];
	pid_t pids[2] = {start_qemu(&inputs[0]), start_qemu(&inputs[1])};
	struct libvirt_process p;

	if (!mkdtemp(folder))
		abort();
	snprintf(path, sizeof(path), "%s/a.pid", folder);
	snprintf(other, sizeof(other), "%s/b.pid", folder);
	for (int i = 0; i < 2; i++) {
		write_pid(path, pids[i]);
		libvirt_process_open(uuid, path, &p);
		ok(p.pid == pids[i] && p.instance.boot[0],
		   "of two candidates the one in the pid file is taken: %d", i);
		libvirt_process_close(&p);
	}
	/* root reads a session's file, which that user writes */
	if (!geteuid()) {
		if (chown(path, STRANGER, (gid_t)-1))
			abort();
		libvirt_process_open(uuid, path, &p);
		ok(!p.pid, "a user's pid file does not lead to another user's process");
		libvirt_process_close(&p);
	}
	if (rename(path, other) || symlink(other, path))
		abort();
	libvirt_process_open(uuid, path, &p);
	ok(!p.pid, "a pid file that is a symbolic link is not used");
	libvirt_process_close(&p);
	unlink(path);
	write_pid(path, getpid());
	end_qemu(pids[1], inputs[1]);
	libvirt_process_open(uuid, path, &p);
	ok(p.pid == pids[0], "a pid file that names another program is not used");
	libvirt_process_close(&p);
	end_qemu(pids[0], inputs[0]);
	unlink(path);
	unlink(other);
	rmdir(folder);
}

/* Another local user may run a process with QEMU's arguments. */
static void test_stranger(void)
{
	struct libvirt_instance instance;
	struct libvirt_process p;
	int input, decoy_input;
	pid_t pid, decoy;

	if (geteuid()) {
		tap_skip("a stranger's process", "needs root");
		return;
	}
	pid = start_qemu(&input);
	usleep(2 * 1000000 / (useconds_t)sysconf(_SC_CLK_TCK));
	decoy = start_as(STRANGER, AS_REAL, &decoy_input);
	libvirt_process_open(uuid, "", &p);
	ok(p.pid == pid, "a stranger's process does not hide the domain's QEMU");
	instance = p.instance;
	libvirt_process_close(&p);
	ok(libvirt_instance_runs(uuid, &instance),
	   "the domain's QEMU runs beside a stranger's process");
	end_qemu(pid, input);
	ok(!libvirt_instance_runs(uuid, &instance),
	   "a stranger's process is not the instance that was traced");
	ok(!libvirt_instance_runs(uuid, &unknown),
	   "a stranger's process is not an instance that is unknown");
	libvirt_process_open(uuid, "", &p);
	ok(!p.pid, "a stranger's process is not taken for the domain's QEMU");
	libvirt_process_close(&p);
	end_qemu(decoy, decoy_input);
	decoy = start_as(STRANGER, AS_EFFECTIVE, &decoy_input);
	libvirt_process_open(uuid, "", &p);
	ok(!p.pid, "nor is one that runs with the rights of two users");
	ok(!libvirt_instance_runs(uuid, &unknown), "which is no unknown instance, either");
	libvirt_process_close(&p);
	end_qemu(decoy, decoy_input);
}

/* libvirtd.conf may have another folder for pid files. */
static void test_qemus_user(void)
{
	struct libvirt_process p;
	int input, decoy_input;
	pid_t pid, decoy;

	if (geteuid()) {
		tap_skip("QEMU's user", "needs root");
		return;
	}
	decoy = start_as(STRANGER, AS_REAL, &decoy_input);
	pid = start_as(QEMUS_USER, AS_REAL, &input);
	libvirt_process_open(uuid, "", &p);
	ok(p.pid == pid, "without a pid file the process of libvirt's user for QEMU is taken");
	ok(libvirt_instance_runs(uuid, &p.instance) && p.instance.has_user &&
		   p.instance.user == QEMUS_USER,
	   "it runs");
	libvirt_process_close(&p);
	end_qemu(pid, input);
	end_qemu(decoy, decoy_input);
}

/* A stranger may start processes until one has QEMU's start time. */
static void test_same_start(void)
{
	struct libvirt_instance instance = {.has_user = true, .user = QEMUS_USER};
	char path[64], text[1024];
	int decoy_input;
	pid_t decoy;
	FILE *file;

	if (geteuid()) {
		tap_skip("a stranger's process of the same start", "needs root");
		return;
	}
	decoy = start_as(STRANGER, AS_REAL, &decoy_input);
	snprintf(path, sizeof(path), "/proc/%d/stat", decoy);
	file = fopen(path, "r");
	if (!file || !fgets(text, sizeof(text), file) ||
	    !libvirt_parse_stat(text, LIBVIRT_STAT_START, &instance.start))
		abort();
	fclose(file);
	file = fopen("/proc/sys/kernel/random/boot_id", "r");
	if (!file || !fgets(instance.boot, sizeof(instance.boot), file))
		abort();
	fclose(file);
	ok(!libvirt_instance_runs(uuid, &instance),
	   "a stranger's process that was started at the same moment is not the instance");
	instance.user = STRANGER;
	ok(libvirt_instance_runs(uuid, &instance), "it is if QEMU is the stranger's");
	end_qemu(decoy, decoy_input);
}

static void test_cgroups(void)
{
	static const struct {
		const char *text;
		bool in_machines;
	} cases[] = {
		{"0::/machine.slice/machine-qemu\\x2d1\\x2da.scope/libvirt/emulator\n", true},
		{"0::/machine/qemu-1-a.libvirt-qemu\n", true},
		{"12:cpu,cpuacct:/\n1:name=systemd:/machine.slice/machine-qemu\\x2d1.scope\n0::/\n",
		 true},
		{"0::/machine.slice/machine-qemu\\x2d1", true},
		{"0::/machine.slice/libpod-0a1b.scope\n", false},
		{"0::/machine.slice/machine-debian.scope\n", false},
		{"0::/user.slice/user-1000.slice/user@1000.service/:/machine/qemu-1-x\n", false},
		{"0::/user.slice/x:/machine.slice/machine-qemu\\x2d1\n", false},
		{"0::/user.slice/0::/machine/qemu-1\n1:a:/user.slice/machine/qemu-1\n", false},
		{"0::/machine.slices/x\n", false},
		{"0::/machine.slice\n", false},
		{"0::/machines/x\n0:/machine/qemu-1\n", false},
		{"0:/machine/qemu-1\n", false},
		{"0", false},
		{"", false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ok(libvirt_is_in_machines(cases[i].text) == cases[i].in_machines,
		   "%s in libvirt's control group: %.*s", cases[i].in_machines ? "is" : "is not",
		   (int)strcspn(cases[i].text, "\n"), cases[i].text);
}

static void test_pid_files(void)
{
	static const struct {
		const char *uri, *want;
	} cases[] = {
		{"qemu:///system", "/run/libvirt/qemu/a.pid"},
		{"qemu+unix:///system?mode=direct", "/run/libvirt/qemu/a.pid"},
		{"qemu:///session", "/run/user/7/libvirt/qemu/run/a.pid"},
		{"qemu+unix:///session?x=1&socket=/t/x%20y/libvirt-sock", "/t/x y/qemu/run/a.pid"},
		{"qemu+unix:///system?socket=/t/libvirt-sock&x=1", "/t/qemu/a.pid"},
		{"qemu:///session?socket=", "/run/user/7/libvirt/qemu/run/a.pid"},
		{"qemu:///systemd", ""},
		{"qemu:///embed?root=/x", ""},
		{"test:///default", ""},
		{"", ""},
	};
	char path[256], name[128];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		libvirt_pid_file(cases[i].uri, "a", "/run/user/7", path, sizeof(path));
		snprintf(name, sizeof(name), "the pid file of a domain at '%s'", cases[i].uri);
		is_str(path, cases[i].want, name);
	}
}

static void test_start(void)
{
	static const char rest[] = " S 1 2 3 0 -1 5 6 7 8 9 10 11 12 13 20 0 1 0 4711 23 42 0\n";
	static const char *const bad[] = {
		"", "1 (x)", "1 (x) S 1 2 3 0 -1 5 6 7 8 9 10 11 12 13 20 0 1 0",
		"1 (x) S 1 2 3 0 -1 5 6 7 8 9 10 11 12 13 20 0 1 0 -5 23",
		"1 (x) S 1 2 3 0 -1 5 6 7 8 9 10 11 12 13 20 0 1 0 99999999999999999999 23"};
	uint64_t start = 0;
	char text[256];

	snprintf(text, sizeof(text), "815 (qemu)%s", rest);
	ok(libvirt_parse_stat(text, LIBVIRT_STAT_START, &start) && start == 4711,
	   "the start time of a /proc/PID/stat is read");
	snprintf(text, sizeof(text), "815 (a) S 1 (b) 2%s", ")");
	strncat(text, rest, sizeof(text) - strlen(text) - 1);
	ok(libvirt_parse_stat(text, LIBVIRT_STAT_START, &start) && start == 4711,
	   "a command name with spaces and parentheses does not shift the fields");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(!libvirt_parse_stat(bad[i], LIBVIRT_STAT_START, &start),
		   "a malformed /proc/PID/stat is refused: '%s'", bad[i]);
}

static size_t open_files(void)
{
	DIR *folder = opendir("/proc/self/fd");
	size_t n = 0;

	while (folder && readdir(folder))
		n++;
	if (folder)
		closedir(folder);
	return n;
}

int main(void)
{
	const size_t before = open_files();
	struct libvirt_instance first;

	snprintf(uuid, sizeof(uuid), "0f2b1f5e-67c8-4c66-9a53-%012x", (unsigned int)getpid());
	test_none();
	test_life(&first);
	test_next(&first);
	test_pid_file();
	test_stranger();
	test_qemus_user();
	test_same_start();
	test_cgroups();
	test_pid_files();
	test_start();
	is_u64(open_files(), before, "no file is left open");
	return tap_done();
}
