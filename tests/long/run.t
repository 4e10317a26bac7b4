#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The rounds of campaigns, and tests/long/run with campaigns that do nothing.
use strict;
use warnings;
use File::Temp qw(tempdir);
use FindBin;
use Test::More;
use Time::HiRes qw(sleep time);

use lib "$FindBin::RealBin/../lib";
use Files;

my $work = tempdir('long-XXXXXX', TMPDIR => 1, CLEANUP => 1);

# What a script prints that uses Campaign, with these variables.
sub campaign {
	my ($script, @variables) = @_;
	write_file("$work/script", "use Campaign; use Time::HiRes qw(sleep); $script");
	return scalar `env @variables perl -I$FindBin::RealBin/../lib $work/script`;
}

my $loop = 'my $r = rounds(TURNS => 3, 0.5, 1); while ($r->next) { sleep 0.1 } print $r->done;';
is(campaign($loop), '3', 'without a budget there is the default number of rounds');
is(campaign($loop, 'TURNS=5'), '5', 'a variable replaces the default number of rounds');
is(campaign($loop, 'TURNS=5', 'BUDGET=100'), '5', 'a variable replaces the budget');
is(campaign($loop, 'BUDGET=0'), '1', 'without time there is one round');
my $rounds = campaign($loop, 'BUDGET=3');
ok($rounds >= 3 && $rounds <= 10, "half of 2 seconds is some rounds of 0.1 s: $rounds");
is(campaign('my $r = rounds(TURNS => 2); while ($r->next) { $r->extend if $r->is_last && $r->done < 4 } print $r->done'),
	'4', 'a last round can be followed by more');
campaign('add_total(7, "turns"); add_total(8, "turns");', "SONDE_TOTALS=$work/totals");
is(slurp("$work/totals"), "7 turns\n8 turns\n", 'totals are appended to the file');

# --- tests/long/run

my $total = "echo '%d turns' >>\$\$SONDE_TOTALS";
write_file("$work/mk", map { sprintf "%s:\n\t\@%s\n", @$_ }
	['good', sprintf($total, 1234) . '; test $$BUDGET -ge 1'],
	['late', sprintf($total, 1) . '; sleep 2'],
	['bad', "echo 'Failed 2/9 subtests'; exit 1"]);
write_file("$work/campaigns", "name seconds weight make\n",
	map { sprintf "%s %d 1 -f %s %s\n", @$_ } ['good', 1, "$work/mk", 'good'], ['late', 1, "$work/mk", 'late'],
	['bad', 1, "$work/mk", 'bad'], ['big', 99999, "$work/mk", 'good']);

# Status and output.
sub run_long {
	my $text = `O=$work CAMPAIGNS_FILE=$work/campaigns $FindBin::RealBin/run @_ 2>&1`;
	return ($? >> 8, $text);
}

my $from = time;
my ($status, $text) = run_long('0.003');
is($status, 1, 'a campaign that fails makes the status 1');
like($text, qr/^good +1,234 turns +0 +\d/m, 'the table has what a campaign has counted');
like($text, qr/^bad +2 +\d/m, 'the table has the number of failed tests');
like($text, qr/^late +1 turns +0 +\d/m, 'a campaign that fails does not stop the others');
like($text, qr/^big: not run, it takes at least 99999 s$/m, 'the table has the campaigns that there was no time for');
like($text, qr/^all +1,235 turns +2 +\d/m, 'the table ends with the sums');
like(slurp("$work/long.txt"), qr/^good +1,234 turns/m, 'the table is in a file, too');
cmp_ok(time - $from, '<', 20, 'the campaigns end in their time');
($status, $text) = run_long('0.003', 'good');
ok(!$status && $text !~ /^bad/m, 'a campaign can be chosen by its name');
($status, $text) = run_long('0.003', 'none');
like($text, qr/no campaign none; there are: bad big good late/, 'an unknown name is refused');
done_testing();
