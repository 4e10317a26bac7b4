#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A verb has the same options in its --help, its source and the shell completion, and the program accepts
# them, their letters, and the values that the shell completes. man.t compares the man pages.
use strict;
use warnings;
use FindBin;
use File::Temp qw(tempdir);
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Files;
use ManPage;
use Tree;

# The names in its struct option; none where tables of struct cli_option make both.
sub in_source {
	my ($verb) = @_;
	my $text = join '', map { slurp($_) } glob "$tree/*/cmd-$verb.c";
	return grep { $_ ne 'help' } $text =~ /\{"([a-z-]+)", (?:no|required)_argument,/g;
}

# The program's complaint about an option, which gets a value if the help text shows one.
sub complaint {
	my ($verb, $option, $help) = @_;
	my @value = $help =~ /\Q$option\E(?:, --[a-z-]+)? [A-Z]/ ? (1) : ();
	my $output = `\Q$build\E/sonde $verb $option @value --help 2>&1`;
	return $output =~ /(.*(?:unknown option|needs a value|takes no value).*)/ ? $1 : undef;
}

# The words that a bash command prints, with the completion loaded.
sub in_bash {
	my ($command, @arguments) = @_;
	open my $from, '-|', 'bash', '-c', "source \$0; $command", "$tree/vmm/sonde.bash-completion", @arguments
		or die "bash: $!";
	my $output = join '', <$from>;
	return split ' ', $output;
}

# The words that bash offers after "sonde @_".
sub completed {
	return sort(in_bash('COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sonde; echo "${COMPREPLY[@]}"',
		"$build/sonde", @_));
}

sub check_values {
	my ($verb, $option) = @_;
	for my $value (in_bash('_sonde_values "$1" "$2"', $option, $verb)) {
		my $output = `\Q$build\E/sonde $verb $option $value --help 2>&1`;
		is($?, 0, "$verb accepts the completed value $option $value") or diag($output);
	}
}

my @verbs = verbs();
is_deeply([grep { !/^-/ } completed('')], [sort @verbs], 'bash completes the verbs');
for my $verb (@verbs) {
	my $help = `\Q$build\E/sonde $verb --help`;
	is($?, 0, "sonde $verb --help exits with status 0");
	my $options = options_of(split /\n/, $help);
	if (my @source = in_source($verb)) {
		is_deeply([sort @source], [sort keys %$options], "the source of $verb has the options of its --help");
	}
	is_deeply([completed($verb, '--')], [sort map { "--$_" } keys %$options, 'help'], "bash completes the options of $verb");
	check_values($verb, "--$_") for sort keys %$options;
	for my $option (map({ "--$_" } sort keys %$options), map({ "-$_" } sort grep { $_ } values %$options)) {
		is(complaint($verb, $option, $help), undef, "sonde $verb accepts $option");
	}
}

# Domains of the connection that the command line names.
my $bin = tempdir('options-XXXXXX', TMPDIR => 1, CLEANUP => 1);
write_file("$bin/virsh", '#!/bin/sh', "\n",
	'case "$*" in *qemu:///session*list*) echo "my vm"; echo web2;; *list*) echo web1; echo db;; esac', "\n");
chmod 0755, "$bin/virsh";
$ENV{PATH} = "$bin:$ENV{PATH}";
# What the program says of a trace spec: nothing, if the image is what it complains about.
sub spec_complaint {
	my ($spec) = @_;
	my $output = `\Q$build\E/sonde run --trace \Q$spec\E -k /dev/null 2>&1`;
	return $output =~ /(.*trace spec.*)/ ? $1 : '';
}

my @tracers = split /, /, (spec_complaint('nonsense') =~ /known: (.*)/)[0];
for my $tracer (@tracers) {
	for my $word (grep { !/=/ } in_bash('_sonde_specs "$1"', "$tracer:")) {
		is(spec_complaint("$tracer:$word"), '', "the program accepts the completed $tracer:$word");
	}
}
# Trace specs: the end of a line, and what may stand behind its last = or :.
for (['sonde run --trace ', "@tracers"], ['sonde attach --trace=km', 'kmem'], ['sonde run --trace big=', "@tracers"],
	['sonde run --trace kmem:', 'kmalloc cache pages pid tgid comm cgroup stack vcpu= filter= hist:keys='], ['sonde run --trace function:p', 'parent pid pid='], ['sonde run --trace big=kmem:cache,pa', 'cache,pages'],
	['sonde run --trace nonsense:', ''], ['sonde ctl mon trace on kmem kmem:k', 'kmalloc'],
	['sonde run --trace graph:c', 'comm cgroup'], ['sonde ctl mon trace set f=function:comm,t', 'comm,tgid']) {
	my ($line, $words) = @$_;
	is(join(' ', in_bash('compopt() { :; }; COMP_LINE=$1 COMP_POINT=${#1}; read -ra COMP_WORDS <<<"$1 x"
		COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _sonde; echo "${COMPREPLY[@]}"', $line)), $words, "bash completes '$line'");
}
is_deeply([completed('attach', 'w')], ['web1'], 'bash completes the names of domains');
$ENV{COMP_LINE} = 'sonde recover -c qemu:///session ';
is_deeply([completed('recover', '')], ['my\\', 'vm', 'web2'], 'bash completes the domains of the connection that -c names');
is_deeply([completed('recover', '-c', '')], ['qemu:///session', 'qemu:///system'], 'bash completes connections after -c');
done_testing();
