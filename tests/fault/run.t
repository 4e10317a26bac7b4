#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# sonde run in the KVM host: each time another one of its allocations and system calls fails. It ends in order or
# says in one line why not, its trace can be read, and the guest that it ran has no complaint. Where the guest still
# runs when its tracing has ended, its text is that of a guest that was not traced.
# ROUNDS (6): how often, `all` for each step once; BUDGET: seconds, instead; SEED: of the steps. STEP: this one instead.
use strict;
use warnings;
use FindBin;
use JSON::PP;
use Test::More;

use lib $FindBin::RealBin, map { "$FindBin::RealBin/../$_" } qw(guest lib);
use Campaign;
use Faults;
use Files;
use GuestLog;
use GuestText;
use Steps;
use Testbed;
use Tree;

use constant KEEP_SECONDS => 30;

my $seed = $ENV{SEED} // int rand 1 << 31;
my $rounds = $ENV{ROUNDS} // 6;
my $seconds = in_campaign() ? $ENV{BUDGET} - KEEP_SECONDS : 0;
my $file = "$build/fault/run-steps";
my $out = "$build/guest/faults";

# But for the jump labels that the guest switches itself.
sub wrong_text {
	my ($path) = @_;
	return unless -e "$path.text";
	my ($text, $plain) = map {
		GuestText::without_labels("$build/tests/guest/runtime-text", kernel_image('6.1'), slurp($_))
	} "$path.text", "$out/plain.text";
	return $text eq $plain ? () : 'the text differs: ' . GuestText::differences($text, $plain);
}

# Damage that `sonde check` finds is not the fault's: what could not be written is lost, and counted.
sub judge {
	my ($path) = @_;
	my $result = decode_json(slurp("$path.json"));
	my @wrong = wrong_with('run', $result->{status}, slurp("$path.err"));
	push @wrong, map { "the guest complains: $_" } trouble(read_log("$path.log"));
	push @wrong, "sonde check has status $result->{check}: $result->{check_text}"
		if defined $result->{check} && $result->{check} > 128;
	push @wrong, wrong_text($path);
	return (join('; ', @wrong), $result);
}

empty_folder($out);
diag("SEED=$seed");
is(on_kvm_host({mem => 1024, timeout => ($rounds eq "all" ? 6 : 1) * 3600 + $seconds}, "$FindBin::RealBin/run-guest", "$build/fault/sonde", $out,
	kernel_image('6.1'), "$build/guest/initrd", $seed, $seconds, $rounds,
	GuestText::range("$build/sonde", kernel_image('6.1')), $file, $ENV{STEP} // ()), 0, 'run-guest ran on the KVM host');
my ($plain, $first) = judge("$out/0");
is($plain, '', 'without faults sonde run ends in order');
is($first->{status}, 0, 'without faults sonde run has status 0') or diag(slurp("$out/0.err"));
ok($first->{saved} && -s "$out/plain.text", 'the text was saved before the guest ended');
my ($done, $errors, $harmed, $saved) = (0, 0, 0, 0);
my $steps = Steps->new($file, map { [run => @$_] } steps_of("$out/0.faults"));
for (my $n = 1; -e "$out/$n.json"; $n++) {
	my ($wrong, $result) = judge("$out/$n");
	my $what = "$result->{step}, time $result->{time}";
	$errors++ if $result->{status};
	$saved += $result->{saved};
	note("$what: ", $result->{made} ? "status $result->{status}" : 'was not made');
	$done++ if $result->{made};
	next unless $wrong;
	$harmed++;
	$steps->try_again('run', $result->{step});
	diag("$what: $wrong; ", slurp("$out/$n.err"));
}
cmp_ok($done, '>', 0, "a step of sonde run failed $done times");
is($harmed, 0, "each of these runs ended in order, $errors of them with an error; the text of $saved was compared");
add_total($done, 'faults injected');
my ($failed, $of) = $steps->counts;
diag("$failed of $of steps of sonde run have failed, by this test and those before it");
done_testing();
