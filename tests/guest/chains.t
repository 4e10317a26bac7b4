#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Call chains that Sonde unwinds, against those of the guest's own unwinder, in one run: its kprobe events with the trigger
# `stacktrace` are five bytes behind the beginning of the same functions, which 6.1 takes; other kernels refuse it. At least
# 99 % of the chains of system calls are the same, and all others are marked as cut, and the same up to there: in
# interrupts, whose own stack is all that a slice has, most are cut.
use strict;
use warnings;
use FindBin;
use IO::Uncompress::Gunzip qw(gunzip);
use JSON::PP;
use MIME::Base64 qw(decode_base64);
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Files;
use GuestConfigs;
use Testbed;
use Tree;

use constant { FRAMES => 64, LEAST => 0.99 };

# By function: [pid, frames] in order. In front of the function's caller the guest's chain has the handler of the kprobe, and
# the function.
sub own_chains {
	my ($log, @functions) = @_;
	my ($packed) = $log =~ /^sonde-begin\n(.*?)^sonde-end/ms or return {};
	my ($any, %of, $text) = join '|', @functions;
	gunzip(\decode_base64($packed), \$text) or return {};
	for (split /^(?=.*<stack trace>$)/m, $text) {
		my ($pid) = /-(\d+)\s+\[\d+\].*<stack trace>/ or next;
		my @frames = /^ => (\S+)$/mg;
		shift @frames while @frames && $frames[0] !~ /^(?:$any)\+/;
		my ($function) = (shift(@frames) // next) =~ /^(\w+)/;
		push @{$of{$function}}, [$pid, \@frames];
	}
	return \%of;
}

sub seen_chains {
	my ($lines) = @_;
	my %of;
	for my $event (map { JSON::PP::decode_json($_) } grep { /^\{/ } split /\n/, $lines) {
		push @{$of{$event->{ip_symbol}}}, [$event->{pid}, $event->{stack_symbol}, $event->{stack_cut}];
	}
	return \%of;
}

sub text { join ' < ', @{$_[0]} }

# "same", "cut", or how they differ. The guest's own trace has less than 64 frames of a chain, as its handler takes some.
sub judge {
	my ($own, $seen) = @_;
	my (undef, $frames, $cut) = @$seen;
	return 'same' if !$cut && text($own) eq text($frames);
	return 'cut' if $cut && text($frames) eq text([grep { defined } @$own[0 .. $#$frames]]);
	return text($frames) . ($cut ? ' [cut]' : '') . ' instead of ' . text($own);
}

# Sonde records before the guest begins and after it ends: of the places where the tasks of the guest's events are those of
# Sonde's, the one with the most chains in common.
sub place {
	my ($own, $seen) = @_;
	my ($best, $most);
	for my $from (0 .. @$seen - @$own) {
		next if grep { $own->[$_][0] != $seen->[$from + $_][0] } 0 .. $#$own;
		my $same = grep { judge($own->[$_][1], $seen->[$from + $_]) =~ /^(?:same|cut)$/ } 0 .. $#$own;
		($best, $most) = ($from, $same) if !defined $best || $same > $most;
	}
	return $best;
}

sub compare {
	my ($function, $own, $seen) = @_;
	my $from = place($own, $seen);
	my %count = (same => 0, cut => 0);
	return ok(0, "$function: the guest's " . @$own . " events are among Sonde's " . @$seen) unless defined $from;
	my @wrong = grep { !/^(?:same|cut)$/ } map {
		my $is = judge($own->[$_][1], $seen->[$from + $_]);
		$count{$is}++;
		$is;
	} 0 .. $#$own;
	is($wrong[0], undef, "$function: of " . @$own . " chains $count{same} are the guest's own, $count{cut} are marked as cut");
	return \%count;
}

sub test_guest {
	my ($version) = @_;
	my $out = "$build/guest/chains-$version";
	my @functions = split ' ', slurp("$FindBin::RealBin/chains");
	my ($same, $all) = (0, 0);
	empty_folder($out);
	build_initrd("$out/initrd", "$FindBin::RealBin/chains-inside=/bin/chains-inside", "$FindBin::RealBin/chains=/etc/chains");
	on_kvm_host({timeout => 400}, "$FindBin::RealBin/chains-guest", $out, kernel_image($version), "$out/initrd", join(',', @functions));
	my $log = slurp("$out/log") =~ s/\r//gr;
	my ($own, $seen) = (own_chains($log, @functions), seen_chains(slurp("$out/events")));
	for my $function (@functions) {
		my $chains = $own->{$function} // [];
		cmp_ok(scalar(@$chains), '>', 10, "$function: " . @$chains . ' events by the guest');
		my $count = compare($function, $chains, $seen->{$function} // []) or next;
		next unless ref $count && $function =~ /^vfs_/;
		$same += $count->{same};
		$all += @$chains;
	}
	cmp_ok($same, '>=', LEAST * $all, "$same of $all chains of system calls are the same");
	like(slurp("$out/folded"), qr/^function:function;entry_SYSCALL_64_after_hwframe;do_syscall_64;.*ksys_read;vfs_read \d+$/m,
		'folded stacks have whole chains');
	ok($log =~ /^status 0$/m, 'the recorder succeeds');
	ok($log =~ /^check 0$/m, 'sonde check finds no error');
	like(slurp("$out/err"), qr/lost: none/, 'none is lost');
	unlike($log =~ s/^sonde-begin.*//msr, qr/WARNING|BUG|Oops|Call Trace/, 'nothing in the log');
}

for my $version (GuestConfigs::kernels('6.1')) {
	subtest $version => sub { test_guest($version) };
}
done_testing();
