#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# report, check, events and convert of what is no trace, and places where no trace or file can be written.
use strict;
use warnings;
use FindBin;
use Test::More;

use lib $FindBin::RealBin;
use Errors;

mkdir "$work/$_" for qw(empty full other odd locked lttng bare);
write_file("$work/file", "text\n");
write_file("$work/other/notes.txt", "text\n");
write_file("$work/full/cpu0", '');
mkdir "$work/odd/cpu0";
write_file("$work/lttng/cpu0", '');
write_file("$work/lttng/metadata", qq(/* CTF 1.8 */\nenv {\n\ttracer_name = "lttng-modules";\n};\n));
write_file("$work/bare/cpu0", "\xc1\x1f\xfc\xc1");
for my $verb ('report', 'leaks', 'timeline', 'replay', 'diff --time-a 0,1', 'check', 'events', "convert --to ctf -o $work/new") {
	my @verb = split ' ', $verb;
	my $name = $verb[0];
	refuses("$name of what is not there", 1, qr{\Asonde $name: $work/none: No such file}, @verb, "$work/none");
	refuses("$name of a file", 1, qr{$work/file: not a trace: a trace is a directory}, @verb,
		"$work/file");
	refuses("$name of an empty directory", 1, qr/not a trace: .* record one with 'sonde run -o'/,
		@verb, "$work/empty");
	refuses("$name of some directory", 1, qr/not a trace/, @verb, "$work/other");
	refuses("$name where cpu0 is a directory", 1, qr/cpu0: not a regular file/, @verb, "$work/odd");
	refuses("$name of another tracer's trace", 1, qr/of 'lttng-modules', not of sonde; babeltrace2/,
		@verb, "$work/lttng");
	refuses("$name of a CTF stream alone", 1, qr/cpu0 is a CTF stream, but there is no file metadata/,
		@verb, "$work/bare");
}
ok(!-e "$work/new", 'no trace directory was made for any of these');

my @run = ('run', '-k', $kernel, '--force', '--trace', 'kmem', '-o');
refuses('output directory not empty', 1, qr{$work/full: directory not empty; name a new one}, @run,
	"$work/full");
is(join(' ', map { s{.*/}{}r } glob "$work/full/*"), 'cpu0', 'and nothing was added to it');
refuses('output is a file', 1, qr{$work/file: Not a directory}, @run, "$work/file");
refuses('output below what is not there', 1, qr{$work/a/b: cannot create directory: No such}, @run,
	"$work/a/b");
refuses('output where nothing can be made', 1, qr{/proc/x: cannot create directory}, @run, '/proc/x');

refuses('an export larger than the limit', 1, qr/cannot write: File too large/,
	['sh', '-c', 'ulimit -f 1; exec "$@"', 'sh', "$build/sonde", 'convert', "$work/full", qw(--to perfetto -o),
	 "$work/large"]);
ok(!-e "$work/large", 'and there is no file');

SKIP: {
	skip 'needs root, to become nobody', 2 if $>;
	chmod 0755, $work;
	my @nobody = qw(setpriv --reuid=65534 --clear-groups);
	chmod 0755, "$work/locked";
	refuses('output directory of another user', 1, qr{$work/locked: cannot write there: Permission},
		[@nobody, "$build/sonde", @run, "$work/locked"]);
	refuses('output in a directory of another user', 1, qr{cannot create directory: Permission},
		[@nobody, "$build/sonde", @run, "$work/locked/new"]);
}

done_testing();
