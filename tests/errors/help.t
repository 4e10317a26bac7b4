#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Of each verb the same options are in its --help, in its man page, in its source and in what the shell
# completes, and the program takes them, by their letters too, and the values that the shell completes.
use strict;
use warnings;
use FindBin;
use File::Temp qw(tempdir);
use Test::More;

use lib $FindBin::RealBin;
use Errors;
use Tree;

# From lines that begin with "-o, --output" or with "--output": {long => letter}; --help goes without saying.
sub options_of {
	my %letter = map { /^\s*(?:-(\w), )?--([a-z-]+)/ ? ($2 => $1 // '') : () } @_;
	delete $letter{help};
	return \%letter;
}

# The tags of its OPTIONS, without roff's fonts and quotes.
sub in_man_page {
	my ($verb) = @_;
	my ($path) = glob "$tree/*/man/sonde-$verb.1";
	my ($options) = slurp($path // '') =~ /^\.SH OPTIONS\n(.*?)(?=^\.SH |\z)/ms;
	my @tags = ($options // '') =~ /^\.T[PQ]\n\.\w+ (.*)/mg;
	return options_of(map { s/\\f.//gr =~ s/\\-/-/gr =~ s/"//gr =~ s/ +/ /gr =~ s/ ,/,/r } @tags);
}

# The names in its struct option.
sub in_source {
	my ($verb) = @_;
	my $text = join '', map { slurp($_) } glob "$tree/*/cmd-$verb.c";
	return grep { $_ ne 'help' } $text =~ /\{"([a-z-]+)", (?:no|required)_argument,/g;
}

# What the program has against an option, with a value if the help text shows one.
sub complaint {
	my ($verb, $option, $help) = @_;
	my @value = $help =~ /\Q$option\E(?:, --[a-z-]+)? [A-Z]/ ? (1) : ();
	my $told = `\Q$build\E/sonde $verb $option @value --help 2>&1`;
	return $told =~ /(.*(?:unknown option|needs a value|takes no value).*)/ ? $1 : undef;
}

# What a command of bash prints that knows the completion.
sub in_bash {
	my ($command, @arguments) = @_;
	open my $from, '-|', 'bash', '-c', "source \$0; $command", "$tree/vmm/sonde.bash-completion", @arguments
		or die "bash: $!";
	my $told = join '', <$from>;
	return split ' ', $told;
}

# What it offers behind these words.
sub completed {
	return sort(in_bash('COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sonde; echo "${COMPREPLY[@]}"',
		"$build/sonde", @_));
}

# Where it knows the words that an option takes, they are right.
sub check_values {
	my ($verb, $option) = @_;
	for my $value (in_bash('_sonde_values "$1"', $option)) {
		my $told = `\Q$build\E/sonde $verb $option $value --help 2>&1`;
		is($?, 0, "$verb: $option $value is taken") or diag($told);
	}
}

my @verbs = map { m{/cmd-([a-z-]+)\.c$} } glob "$tree/*/cmd-*.c";
is_deeply([grep { !/^-/ } completed('')], [sort @verbs], 'bash completes the verbs');
for my $verb (@verbs) {
	my $help = `\Q$build\E/sonde $verb --help`;
	is($?, 0, "$verb: --help");
	my $options = options_of(split /\n/, $help);
	my $page = in_man_page($verb);
	is_deeply($page, $options, "$verb: the man page has the same options with the same letters")
		or diag(explain($page, $options));
	if (my @source = in_source($verb)) {
		is_deeply([sort @source], [sort keys %$options], "$verb: they are those of its source");
	}
	is_deeply([completed($verb, '--')], [sort map { "--$_" } keys %$options, 'help'], "$verb: bash completes them");
	check_values($verb, "--$_") for sort keys %$options;
	for my $option (map({ "--$_" } sort keys %$options), map({ "-$_" } sort grep { $_ } values %$options)) {
		is(complaint($verb, $option, $help), undef, "$verb: $option is taken");
	}
}

# Domains of the connection that the line names.
my $bin = tempdir('help-XXXXXX', TMPDIR => 1, CLEANUP => 1);
open my $virsh, '>', "$bin/virsh" or die "virsh: $!";
print $virsh '#!/bin/sh', "\n", 'case "$*" in *qemu:///session*list*) echo "my vm"; echo web2;; *list*) echo web1; echo db;; esac', "\n";
close $virsh;
chmod 0755, "$bin/virsh";
$ENV{PATH} = "$bin:$ENV{PATH}";
is_deeply([completed('attach', 'w')], ['web1'], 'bash completes domains');
$ENV{COMP_LINE} = 'sonde recover -c qemu:///session ';
is_deeply([completed('recover', '')], ['my\\', 'vm', 'web2'], 'those of the connection that is named');
is_deeply([completed('recover', '-c', '')], ['qemu:///session', 'qemu:///system'], 'and connections');
done_testing();
