# SPDX-License-Identifier: GPL-2.0-or-later
#
# Run the program wrongly, and see that it says so as it should: one line on standard error that
# begins with the verb and names cause and remedy, and the exit status of design.md section 6.
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

# The words after the name of the test are those after `sonde`; or the whole command if the first is
# a reference to a list.
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
	my $told = slurp("$work/stderr");
	subtest $name => sub {
		is($?, $status << 8, "exit status $status");
		like($told, qr/\Asonde[^\n]*: [^\n]+\n\z/, 'one line');
		like($told, $text, 'which says what is wrong');
		is(slurp("$work/stdout"), '', 'nothing on standard output');
	};
	note($told);
}

1;
