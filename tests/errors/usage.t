#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Wrong words on the command line.
use strict;
use warnings;
use FindBin;
use IO::Socket::UNIX;
use Test::More;

use lib $FindBin::RealBin;
use Errors;

my @run = ('run', '-k', $kernel);

refuses('misspelt verb', 2, qr/'rum': did you mean 'run'\?/, 'rum');
refuses('unknown verb', 2, qr/'zzzzzz'; see 'sonde --help'/, 'zzzzzz');
refuses('help of an unknown verb', 2, qr/'zzzzzz'; see 'sonde --help'/, 'help', 'zzzzzz');
is(`\Q$build\E/sonde help $_`, `\Q$build\E/sonde $_ --help`, "sonde help $_ prints what sonde $_ --help prints") for qw(run ctl);
is(`\Q$build\E/sonde -V`, `\Q$build\E/sonde --version`, 'sonde -V prints the version');
refuses('misspelt option', 2, qr/--trase: did you mean --trace\?/, @run, '--trase', 'kmem');
refuses('unknown long option', 2, qr/--qqqqqqqqqq; see 'sonde run --help'/, @run, '--qqqqqqqqqq');
refuses('unknown short option', 2, qr/-z; see 'sonde run --help'/, @run, '-z');
refuses('option without its value', 2, qr/-k needs a value/, 'run', '-k');
refuses('no kernel', 2, qr/no kernel: give one with -k/, 'run');
refuses('unexpected word', 2, qr/unexpected argument 'word'/, @run, 'word');
refuses("-c $_", 2, qr/-c takes a number from 1 to 64, not '\Q$_\E'/, @run, '-c', $_)
	for qw(0 65 -1 two 18446744073709551617), '';
refuses("-m $_", 2, qr/-m takes a size from 64M to 1T, not '\Q$_\E'/, @run, '-m', $_)
	for qw(0 63 63M 2T 99999999 1e3 4X), '';
refuses("--$_->[0] $_->[1]", 2, qr/--$_->[0] takes $_->[2], not '$_->[1]'/, @run, "--$_->[0]", $_->[1])
	for ['mode', 'fast', 'exitless or trap'], ['boot', 'uefi', 'direct or bzimage'],
	['format', 'lttng', 'ctf or kmemtrace'], ['kaslr-seed', 'x', 'a number from 0 on'];
refuses('unknown letter behind an option', 2, qr{unknown option -z; see}, @run, '--force', '-zc');
refuses('command line too long', 2, qr/longer than \d+ bytes/, @run, '-p', 'x' x 5000);
refuses('trace without a place for it', 2, qr/add -o DIR/, @run, '--trace', 'kmem');

# Trace specs: what is wrong, where, and what was meant.
my @specs = (
	['misspelt tracer', 'kmen', 1, qr/'kmen': did you mean 'kmem'\?/],
	['unknown tracer', 'network', 1, qr/'network'; known: kmem/],
	['misspelt item', 'kmem:cach', 6, qr/'cach': did you mean 'cache'\?/],
	['unknown item', 'kmem:cache,interrupts', 12, qr/'interrupts'; known: kmalloc, cache, pages/],
	['no item', 'kmem:', 6, qr/an item is missing/],
	['a comma at the end', 'kmem:cache,', 12, qr/an item is missing/],
	['a comma behind the tracer', 'kmem,cache', 5, qr/':' must follow the tracer, as in kmem:cache/],
	['blanks instead of commas', 'kmem:cache pages', 12, qr/',' or 'if' is missing/],
	['no tracer', 'big=', 5, qr/name of a tracer is missing/],
	['a name that is none', '4k=kmem', 1, qr/begins with a letter/],
	['functions for kmem', 'kmem:vfs_*', 6, qr/'vfs_\*'; known: kmalloc/],
	['an odd character', "kmem:\tca\e[31m", 7, qr/'ca\?\[31m'/],
);
for (@specs) {
	my ($name, $spec, $column, $text) = @$_;
	refuses("trace spec with $name", 2, qr/trace spec, character $column: .*$text.*\n  [^\n]+\n {@{[$column + 1]}}\^\n/, @run, '--trace',
		$spec, '-o', "$work/t");
}
refuses('a filter on a field that is none', 2, qr/no event has a field 'byte_req'; did you mean 'bytes_req'\?\n  kmem if byte_req > 1\n {10}\^\n/, @run,
	'--trace', 'kmem if byte_req > 1', '-o', "$work/t");
refuses('a function that is none in a trace spec', 1, qr/instance 'f': trace spec, character 18: .*'vfs_raed': did you mean 'vfs_read'\?/, @run,
	'--trace', 'f=function:vfs_*,vfs_raed', '-o', "$work/t");
refuses('a flag that is none', 1, qr/instance 'kmem': filter, character 13: 'GFP_ATOMICK' is neither .* did you mean 'GFP_ATOMIC'\?\n  kmem:kmalloc if gfp_flags & GFP_ATOMICK\n {30}\^\n/, @run,
	'--trace', 'kmem:kmalloc if gfp_flags & GFP_ATOMICK', '-o', "$work/t");
refuses('a flag that is none in a second instance', 1, qr/instance 'b': .*'__GFP_ZER0' .* did you mean '__GFP_ZERO'\?\n  b=kmem:filter="gfp_flags == \\"GFP_KERNEL\|__GFP_ZER0\\""\n {43}\^\n/,
	@run, '--trace', 'kmem if gfp_flags & GFP_ATOMIC', '--trace', 'b=kmem:filter="gfp_flags == \"GFP_KERNEL|__GFP_ZER0\""', '-o', "$work/t");
refuses('a probe of a function that is none', 1, qr/instance 'r': trace spec, character 13: .*'vfs_raed': did you mean 'vfs_read'\?\n  r=probe:p:x vfs_raed %di\n {14}\^\n/, @run,
	'--trace', 'r=probe:p:x vfs_raed %di', '-o', "$work/t");
refuses('a probe of a member that is none', 1, qr/character 45: .*'f_mod': did you mean 'f_mode'\?\n  probe:p vfs_read n=count \+0\(buf\) mode=file->f_mod\n {46}\^\n/, @run,
	'--trace', 'probe:p vfs_read n=count +0(buf) mode=file->f_mod', '-o', "$work/t");
refuses('a word that is none in a trace spec', 1, qr/'pdi': did you mean the word 'pid'\?/, @run, '--trace', 'function:vfs_*,pdi', '-o', "$work/t");
refuses("kmemtrace of @$_[2 .. $#$_]", 2, qr/--format: $_->[0]: the format kmemtrace $_->[1]; use ctf/, @run, '--format', 'kmemtrace', '-o', "$work/t",
	map { ('--trace', $_) } @$_[2 .. $#$_])
	for ['function', 'has no events but those of kmem', 'function:vfs_read'], ['b', 'has no events .*', 'kmem', 'b=function:vfs_read'],
	['b', 'holds one instance', 'kmem', 'b=kmem:cache'], ['kmem', 'has no events .*', 'kmem:kmalloc,hist:keys=call_site'];
refuses('kmemtrace of a domain\'s functions', 2, qr/--format: function: the format kmemtrace has no/, 'attach', 'x', '-o', "$work/t", '--format',
	'kmemtrace', '--trace', 'function:vfs_read');
refuses('two instances with one name', 2, qr/two instances are named 'kmem': .* NAME=kmem:cache/, @run, '--trace', 'kmem', '--trace',
	'kmem:cache', '-o', "$work/t");
ok(!-e "$work/t", 'no trace directory was made for any of these');

for my $verb (qw(report leaks timeline replay check convert)) {
	refuses("$verb without a trace", 2, qr/name one trace directory/, $verb);
	refuses("$verb of two traces", 2, qr/name one trace directory/, $verb, 'a', 'b');
	refuses("$verb with an unknown option", 2, qr/unknown option --frob/, $verb, '--frob', 'a');
	refuses("$verb of a name that is empty", 2, qr/an argument is empty/, $verb, '');
	refuses("$verb with a misspelt option", 2, qr{unknown option --hlep: did you mean --help\?}, $verb, '--hlep', 'a');
	refuses("$verb with an unknown letter", 2, qr{unknown option -z; see}, $verb, '-z', 'a');
	refuses("$verb with a value too many", 2, qr{--help takes no value}, $verb, '--help=x', 'a');
}
refuses('report --sort of nothing known', 2, qr/--sort takes hits, bytes, .* or max, not 'x'/, qw(report --sort x a));
refuses('report --by of nothing known', 2, qr/--by takes callsite, cache, .* or syscall, not 'x'/, qw(report --by x a));
refuses('report --by of something near', 2, qr/not 'syscal'; did you mean 'syscall'\?/, qw(report --by syscal a));
refuses('report --by of system calls and more', 2, qr/--by syscall stands alone/, qw(report --by), 'cache,syscall', 'a');
refuses('report --top of no number', 2, qr/--top takes a number from 0 on, not 'x'/, qw(report --top x a));
refuses("$_->[0] --duration $_->[1]", 2, qr/--duration takes a time from 1ms to 1176h, .*, not '\Q$_->[1]\E'/, @$_[0, 2 .. $#$_],
	'--duration', $_->[1])
	for map { ['attach', $_, 'x'], ['run', $_, '-k', $kernel] } 0, '1d', '9' x 11, '';
refuses("attach --until-events $_", 2, qr/--until-events takes a number from 1 on, not '$_'/, 'attach', 'x',
	'--until-events', $_)
	for '-1', '';
refuses('attach to an unknown tracer', 2, qr/'network'; known: kmem/, 'attach', 'x', '-o', "$work/t", '--trace', 'network');
refuses('attach without a domain', 2, qr/no domain: name one; see 'virsh list'/, 'attach');
refuses('attach without a domain at a connection', 2, qr{see 'virsh -c qemu:///session list'}, 'attach', '-c', 'qemu:///session');
refuses("attach without a place for the trace, '@$_'", 2, qr/add -o DIR/, 'attach', 'x', @$_) for [], ['-o', ''];
my @convert = ('convert', 'a', '-o', "$work/t");
refuses('convert to no format', 2, qr/add --to FORMAT: ctf, kmemtrace\b/, @convert);
refuses('convert to an unknown format', 2, qr/--to takes ctf, kmemtrace\b.*, not 'x{9}'/, @convert, '--to', 'x' x 9);
refuses('convert to a misspelt format', 2, qr/'ctff'; did you mean 'ctf'\?/, @convert, '--to', 'ctff');
refuses('convert to no place', 2, qr/add -o OUT/, qw(convert a --to ctf));
refuses('convert to a trace that replaces one', 2, qr/--force: a directory is never replaced; name a new one/,
	qw(convert a --to ctf --force -o), "$work/t");
my @functions = ('symbols', '-k', $kernel, '--functions');
refuses('functions without a pattern', 2, qr/no functions given: add a PATTERN/, @functions);
refuses('a function that is none', 1, qr/no function matches 'vfs_raed': did you mean 'vfs_read'\?/, @functions, 'vfs_raed');
refuses('a beginning that is none', 1, qr/no function matches 'kmem_cahe_\*': did you mean 'kmem_cache\*'\?/, @functions, 'kmem_cahe_*');
refuses('a function without an mcount site', 1, qr/'memcpy': it has no mcount site/, @functions, 'vfs_*,memcpy');
refuses('a function of the boot', 1, qr/'start_kernel': the kernel frees its memory after boot/, @functions, 'start_kernel');
refuses('data as a function', 1, qr/'jiffies': it is not a function/, @functions, 'jiffies');
refuses("pattern $_->[0]", 2, qr/$_->[2]\n  [^\n]+\n {@{[$_->[1] + 1]}}\^\n/, @functions, $_->[0])
	for ['vfs_[a', 5, qr/'\[' has no '\]'.*/], ['vfs_*,vfs_read()', 15, qr/a name has no '\('.*/], ['vfs_*,', 7, qr/a function's name is missing/],
	['*:ext4', 2, qr/only ':mod:MODULE' may follow.*/], ['mod:ext4', 1, qr/':mod:ext4', not 'mod:ext4'/], ['!!vfs_read', 2, qr/one '!' is enough/];
write_file("$work/patterns", "# all\nvfs_*\n\nvfs_raed\n");
refuses('a file with a wrong pattern', 1, qr{/patterns:4: no function matches 'vfs_raed'}, @functions, "\@$work/patterns");
refuses('a missing file of patterns', 1, qr{cannot open $work/none: No such file}, @functions, "\@$work/none");
refuses('symbols without a kernel', 2, qr/no kernel given: use -k KERNEL/, 'symbols');
refuses('doctor with a word', 2, qr/unexpected argument 'x'/, 'doctor', 'x');
refuses('ctl without a socket', 2, qr/which SOCKET\?/, 'ctl');
refuses('ctl with a bad time limit', 2, qr/--timeout takes/, 'ctl', '--timeout', 'soon', 'sock');
refuses('ctl to a socket that is not there', 1, qr/no socket '.*': start sonde run or attach with --monitor/, 'ctl', "$work/none", 'status');
refuses('a file with odd characters in its name', 1, qr/a\?b\?\[31mc: /, 'check', "a\nb\e[31mc");
write_file("$work/file", '');
refuses('ctl to a file', 1, qr/is not a socket/, 'ctl', "$work/file", 'status');

# Otherwise the socket would take the place of standard output, and get what is printed.
sub test_closed_descriptors {
	my $path = "$work/closed";
	my $listener = IO::Socket::UNIX->new(Local => $path, Listen => 1) or die "$path: $!";
	my $pid = fork // die $!;
	exec 'sh', '-c', "exec $build/sonde ctl $path status <&- >&- 2>&-" unless $pid;
	my $client = $listener->accept;
	is(readlink "/proc/$pid/fd/$_", '/dev/null', "closed descriptor $_ is /dev/null while sonde runs") for 0 .. 2;
	kill KILL => $pid;
	waitpid $pid, 0;
}

test_closed_descriptors();
done_testing();
