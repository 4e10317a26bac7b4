# SPDX-License-Identifier: GPL-2.0-or-later
#
# Runs the program with wrong input. It must print one line on standard error, which begins with the verb and
# names cause and remedy, and exit with status 1 (failed) or 2 (usage). If the user wrote something with a grammar
# of its own, this text may stand below, with a caret below the place.
package Errors;

use strict;
use warnings;
use Exporter qw(import);
use File::Basename qw(dirname);
use File::Temp qw(tempdir);
use POSIX ();
use Test::More;

use lib dirname(__FILE__) . '/../lib';
use Files;
use Tree;

our @EXPORT = qw($build $work $kernel refuses slurp write_file);
our @EXPORT_OK = qw(has_namespaces);
our $kernel = kernel_image('6.1');
our $work = tempdir('errors-XXXXXX', TMPDIR => 1, CLEANUP => 1);

sub has_namespaces { return system('unshare -m true 2>/dev/null') == 0 }

# $name: the wrong input. @words: the arguments of `sonde`, or a reference to the whole command.
sub refuses {
	my ($name, $status, $text, @words) = @_;
	my @command = ref $words[0] ? @{$words[0]} : ("$build/sonde", @words);
	my $pid = fork // die "fork: $!";
	if (!$pid) {
		open STDIN, '<', '/dev/null';
		open STDOUT, '>', "$work/stdout";
		open STDERR, '>', "$work/stderr";
		exec('timeout', 120, @command) or POSIX::_exit(127);
	}
	waitpid $pid, 0;
	my $output = slurp("$work/stderr");
	subtest "refused with status $status: $name" => sub {
		is($?, $status << 8, "the exit status is $status");
		like($output, qr/\Asonde[^\n]*: [^\n]+\n(?:  [^\n]+\n +\^\n)?\z/, 'standard error has one line, and perhaps a caret');
		like($output, $text, 'the line names the cause');
		is(slurp("$work/stdout"), '', 'standard output is empty');
	};
	note($output);
}

1;
