#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Functions of a module that is loaded and removed many times, while their calls and returns are recorded and counted,
# and a probe is at the returns of one: each init function is seen, with its return; the texts of kernel and module are
# what they were when the tracers are gone; nothing is in the guest's log. In 6.1 there are probes by the names of parameters, too, one
# from before the module is there on: they have what the guest's own kprobe event has, by registers and offsets. With one vCPU and with two; GUEST='5.10 6.12/2' for
# other guests, ROUNDS=20 for more rounds; LONG=1: 1,000 times, or as often as there is time for in BUDGET seconds.
use strict;
use warnings;
use FindBin;
use JSON::PP;
use List::Util qw(first max min sum0);
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Campaign qw(add_total);
use Files;
use GuestConfigs;
use GuestLog;
use ProbeEvents;
use Testbed;
use Tree;

# What a boot, and a round, take in the testbed: a round with one vCPU takes 0.3 s. Two vCPUs take turns on the host's only CPU and wait
# for each other, which takes a second of the guest's time in each round. A busy machine takes so many times as long.
use constant { ROUNDS => 5, LONG_ROUNDS => 1000, ROUND_SECONDS => 0.3, SHARED_ROUND_SECONDS => 15, BOOT_SECONDS => 100, PATIENCE => 8 };

# By kernel: a function of the module, by the names of its parameters, and by registers and the offsets in its structures.
my %named = ('6.1' => {
	seen => 'brd:brd_do_bvec number=brd->brd_number major=brd->brd_disk->major len off sector',
	own => 'p:own/named brd:brd_do_bvec+5 number=+0(%di):s32 major=+0(+8(%di)):s32 len=%dx:u32 off=%cx:u32 sector=%r9:u64',
});

my @guests = GuestConfigs::guests('6.1/1', '6.1/2');

sub round_seconds { return $_[0] > 1 ? SHARED_ROUND_SECONDS : ROUND_SECONDS }

sub rounds {
	my ($cpus) = @_;
	return $ENV{ROUNDS} // ROUNDS unless $ENV{LONG};
	return LONG_ROUNDS unless $ENV{BUDGET};
	my $seconds = $ENV{BUDGET} / @guests - BOOT_SECONDS;
	return max(ROUNDS, min(LONG_ROUNDS, int($seconds / round_seconds($cpus))));
}

sub make_initrd {
	my ($version, $out) = @_;
	my $module = unpack_brd($version, $out) or return;
	my @files = ("$module=/lib/brd.ko", "$FindBin::RealBin/modules-inside=/bin/modules-inside");
	if ($named{$version}) {
		write_file("$out/own", "$named{$version}{own}\n");
		push @files, "$out/own=/etc/own";
	}
	build_initrd("$out/initrd", @files);
	return 1;
}

# The function at whose returns the probe is: the first of these that the compiler has left in the module.
sub find_probed {
	my ($out) = @_;
	my %has = map { (split)[-1] => 1 } `nm \Q$out\E/brd.ko`;
	return first { $has{$_} } qw(brd_free_pages brd_insert_page brd_cleanup);
}

# The kernel's text without a slide: its first address, and how many bytes.
sub text_of {
	my ($kernel) = @_;
	my %at = map { (split)[2, 0] } `\Q$build\E/sonde symbols -k \Q$kernel\E _stext _etext`;
	no warnings 'portable';
	return ($at{_stext}, hex($at{_etext} =~ s/^0x//r) - hex($at{_stext} =~ s/^0x//r));
}

sub json { return eval { decode_json(slurp($_[0])) } // {} }

# Of all functions with a name: a module is not always loaded at the same place.
sub total { my ($key, $name, @rows) = @_; return sum0(map { $_->{$key} // 0 } grep { $_->{name} eq $name } @rows) }

sub check_calls {
	my ($out, $rounds, $probed) = @_;
	my @rows = @{json("$out/report.json")->{functions} // []};
	my @module = grep { $_->{name} =~ / \[brd\]$/ } @rows;
	is(total(calls => 'init_module [brd]', @rows), $rounds, 'the init function is called each time');
	is(total(unreturned => 'init_module [brd]', @rows), 0, 'each time its return is seen');
	is(total(calls => 'do_init_module', @rows), $rounds, 'in a call of do_init_module() each');
	my @outermost = map { /\|  (\w\S*)/ ? $1 : () } grep { !/FUNCTION CALLS/ } split /\n/, slurp("$out/only");
	is(join(' ', @outermost), join(' ', ('init_module') x $rounds), 'these calls alone can be shown');
	like(slurp("$out/only"), qr/\|    brd_alloc\S* \[brd\]\(/, 'with those in them');
	# these end by jumps to bio_endio(), which ends with a call of bio->bi_end_io(), and in 5.10 to kfree()
	my %unseen = map { $_->{name} => 1 } grep { $_->{unreturned} } @module;
	is(join(' ', grep { !/^brd_(submit_bio|make_request|free \[brd\])/ } sort keys %unseen), '',
		'the returns of all functions of the module are seen, but of those that end with a jump');
	my @counted = map { {name => $_->{function}, hits => $_->{hits}} }
		map { @{$_->{functions}} } @{json("$out/profile.json")->{profiles} // []};
	is(total(hits => 'init_module', @counted), $rounds, 'the profile has counted as many calls of it');
	my $nr_probed = grep { /:probed:/ } split /\n/, slurp("$out/probed");
	is($nr_probed, total(calls => "$probed [brd]", @rows), "the probe has each return of $probed()");
	add_total(total(calls => 'init_module [brd]', @rows), 'calls of an init function, each with its return');
	add_total($nr_probed, 'returns of a module, probed');
}

# An event in a line: its task, and its values.
sub lines_of {
	my (@events) = @_;
	return sort map { join ' ', @$_{qw(pid number major len off sector)} } @events;
}

# Until the module is removed the guest's own event has seen the same calls.
sub check_named {
	my ($out, $rounds) = @_;
	my $text = unpacked(read_log("$out/log"), 'sonde-begin', 'sonde-end');
	my @own = map { {pid => $_->[0], %{$_->[1]}} } @{own_events($text)->{named} // []};
	my $seen = seen_events(slurp("$out/named"));
	my @named = @{$seen->{named} // []};
	my @early = @{$seen->{early} // []};
	cmp_ok(scalar(@own), '>=', 4, 'the guest has ' . @own . ' events of its own in the module');
	is_deeply([lines_of(@named[0 .. $#own])], [lines_of(@own)], 'a probe by the names of parameters has the same values');
	cmp_ok(scalar(@named), '>=', @own + 4 * $rounds, 'also each time that the module comes again');
	cmp_ok(scalar(@early), '>', scalar(@named), 'a probe that was there before the module has more');
	is_deeply([lines_of(@early[@early - @named .. $#early])], [lines_of(@named)], 'and the same from then on');
	add_total(scalar(@named), 'calls of a module, by the names of parameters');
}

sub check_texts {
	my ($out) = @_;
	my %text = map { $_ => slurp("$out/$_") } qw(kernel-before kernel-after module-before module-traced module-after);
	cmp_ok(length $text{'kernel-before'}, '>', 1 << 20, 'the text of the kernel was read');
	ok($text{'kernel-before'} eq $text{'kernel-after'}, "the kernel's text is what it was");
	ok($text{'module-before'} ne $text{'module-traced'}, "the module's text is patched");
	ok($text{'module-before'} eq $text{'module-after'}, "without tracing the module's text is what it was");
}

sub test_guest {
	my ($version, $cpus) = @_;
	my $out = "$build/guest/modules-$version-$cpus";
	my $rounds = rounds($cpus);
	empty_folder($out);
	make_initrd($version, $out) or return plan(skip_all => "the package of $version has no brd module");
	my $probed = find_probed($out);
	is(on_kvm_host({icount => undef, timeout => PATIENCE * (BOOT_SECONDS + $rounds * round_seconds($cpus))},
			"$FindBin::RealBin/modules-guest", $out, kernel_image($version), "$out/initrd", $cpus, $rounds, $probed, text_of(kernel_image($version)),
			$named{$version} ? $named{$version}{seen} : ()),
		0, 'modules-guest ran on the KVM host');
	my $result = json("$out/result.json");
	is($result->{failure}, undef, 'the guest passed all its marks') or diag(slurp("$out/err"));
	is($result->{status}, 0, 'sonde run exits with status 0') or diag(slurp("$out/err"));
	my $log = read_log("$out/log");
	is_deeply([found($log, 'failure')], [], "$rounds rounds: no command failed in the guest");
	is_untroubled($log =~ s/^sonde-begin\n.*?^sonde-end//gmsr, "the guest's log has no kernel warnings", WARNINGS, 'ftrace fail');
	check_calls($out, $rounds, $probed);
	check_texts($out);
	check_named($out, $rounds) if $named{$version};
	unlike(slurp("$out/err"), qr/modules were loaded/, 'no call in the module is missing');
	is($result->{check}, 0, 'sonde check finds no error') or diag(slurp("$out/check"));
}

for my $guest (@guests) {
	subtest join('/', @$guest) => sub { test_guest(@$guest) };
}
done_testing();
