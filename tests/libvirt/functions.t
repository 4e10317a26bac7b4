#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The function tracer in a domain: several instances that come and go, and modules that do. A module's calls are
# recorded from its init function on. Afterwards the domain is as before.
#
#   FUNCTION_KERNELS  6.1
use strict;
use warnings;
use FindBin;
use JSON::PP;
use List::Util qw(first);
use Test::More;
use Time::HiRes qw(sleep);

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib", "$FindBin::RealBin/../guest";
use AttachTest;
use Files;
use GuestLog;
use Process;
use Testbed;

use constant LOADS => 3; # of the module, and one more for returns

# Let the guest do something, and wait until it has.
sub do_inside {
	my ($name, $command) = @_;
	my $before = () = $libvirt->serial($name) =~ /^did $command/mg;
	$libvirt->tell($name, $command);
	wait_until(120, sub { my $n = () = $libvirt->serial($name) =~ /^did $command/mg; return $n > $before })
		or BAIL_OUT("the guest does not finish '$command': " . $libvirt->serial($name));
}

sub ctl {
	my ($status, $text) = $libvirt->run("$work/sonde", 'ctl', "$work/run/m", @_);
	diag($text) if $status;
	return $text;
}

# How many functions an instance records, once that is so.
sub has_functions {
	my ($instance, $pattern) = @_;
	return wait_until(10, sub { ctl('trace', 'list') =~ /^$instance +on +$pattern function/m });
}

sub events { return map { JSON::PP::decode_json($_) } grep { /^\{/ } split /\n/, $_[0] }

sub test_modules {
	my ($name, $version) = @_;
	ok(has_functions('brd', 0), "$version: no function of a module that is not there");
	do_inside($name, 'load');
	ok(has_functions('brd', '[1-9]\d*'), "$version: functions of a module that was loaded are recorded");
	do_inside($name, 'use');
	like(ctl('trace', 'add', 'one=function:brd_*:mod:brd,!brd_do_*:mod:brd,parent'), qr/^switched \d+ sites? in /m,
		"$version: an instance comes, and it is said what that took");
	do_inside($name, 'use');
	ctl('trace', 'remove', 'one');
	do_inside($name, 'unload');
	ok(has_functions('brd', 0), "$version: functions of a module that is gone are forgotten");
	do_inside($name, 'load');
	ok(has_functions('brd', '[1-9]\d*'), "$version: the module comes again");
	do_inside($name, 'use');
	do_inside($name, 'unload');
	has_functions('brd', 0);
}

# The code of each comes where that of one before it stood. QEMU keeps translations of code that was executed.
sub test_places {
	my ($name) = @_;
	my @fields = (',parent', '', ',parent,pid', ',comm', '');
	do_inside($name, 'load');
	has_functions('brd', '[1-9]\d*');
	for my $round (0 .. $#fields) {
		ctl('trace', 'add', "place$round=function:*:mod:brd$fields[$round]");
		do_inside($name, 'use');
		ctl('trace', 'remove', "place$round");
	}
	do_inside($name, 'unload');
}

# A function of the module that is called for each page and has a return of its own.
sub find_returning {
	my ($module) = @_;
	my %has = map { (split)[-1] => 1 } `nm \Q$module\E`;
	return first { $has{$_} } qw(brd_do_bvec brd_rw_bvec brd_insert_page);
}

# Calls with returns, and returns by a probe, one after the other, of four writes.
sub test_returns {
	my ($name, $version, $function) = @_;
	do_inside($name, 'load');
	has_functions('brd', '[1-9]\d*');
	for my $spec ('calls=graph:*:mod:brd', "back=probe:r:back brd:$function") {
		my ($instance) = $spec =~ /^(\w+)/;
		like(ctl('trace', 'add', $spec), qr/^switched \d+ sites? in /m, "$version: $spec");
		do_inside($name, 'use');
		ctl('trace', 'remove', $instance);
	}
	do_inside($name, 'unload');
}

sub check_returns {
	my ($version, $function, @events) = @_;
	skip("$version: each function of the module ends in a call of another one", 3) unless $function;
	my ($status, $text) = $libvirt->run("$work/sonde", 'report', '--instance', 'calls', '--by', 'function', '--json', trace_dir());
	my ($row) = grep { $_->{name} eq "$function [brd]" } @{JSON::PP::decode_json($text)->{functions}};
	cmp_ok($row->{calls}, '>=', 4, "$version: $row->{calls} calls of $function()");
	is($row->{unreturned}, 0, "$version: each with its return");
	is(scalar(grep { $_->{event} eq 'kprobes:back' } @events), $row->{calls}, "$version: as many returns by the probe");
}

sub check_events {
	my ($version, $function) = @_;
	my ($status, $text) = $libvirt->run("$work/sonde", 'events', '--json', trace_dir());
	my %names;
	my @events = events($text);
	SKIP: { check_returns($version, $function, @events); }
	push @{$names{$_->{instance}}}, $_->{ip_symbol} for grep { $_->{ip_symbol} } @events;
	cmp_ok(scalar(@{$names{vfs} // []}), '>', 100, "$version: calls in the kernel: " . @{$names{vfs} // []});
	is(scalar(grep { !/^vfs_\w+(\.\w+)*$/ } @{$names{vfs} // []}), 0, "$version: of the functions that were asked for");
	my @brd = @{$names{brd} // []};
	cmp_ok(scalar(grep { $_ eq 'brd_submit_bio [brd]' } @brd), '>=', 6, "$version: calls in the module: " . @brd);
	is(scalar(grep { !/ \[brd\]$/ } @brd), 0, "$version: all with their names, though the module is gone");
	is(scalar(grep { /^init_module / } @brd), LOADS + ($function ? 1 : 0), "$version: each time that it was loaded, its init function was recorded");
	for my $place (sort grep { /^place/ } keys %names) {
		cmp_ok(scalar(@{$names{$place}}), '>=', 4, "$version: $place has the calls of four writes: " . @{$names{$place}});
		is(scalar(grep { !/ \[brd\]$/ } @{$names{$place}}), 0, "$version: all of them in the module");
	}
	is(scalar(grep { /^place/ } keys %names), 5, "$version: each instance has events of its own");
	is_deeply([grep { !/^brd_(?!do_)\w+(\.\w+)* \[brd\]$/ } @{$names{one} // ['none']}], [],
		"$version: another instance has those that it asked for");
}

sub test_kernel {
	my ($version, $function) = @_;
	my $name = 'functions-' . $version =~ s/\./-/r;
	start_ticking($name, kernel => fetch_kernel($version) . "/vmlinuz", line => 1);
	my $pid = $libvirt->spawn('traced', attach_command($name, '--monitor', "$work/run/m", '-v', '--trace', 'kmem:kmalloc',
		'--trace', 'vfs=function:vfs_*', '--trace', 'brd=function:*:mod:brd'));
	ok(wait_tracing(), "$version: attach traces") or diag(log_of('traced'));
	test_modules($name, $version);
	test_places($name);
	test_returns($name, $version, $function) if $function;
	kill INT => $pid;
	is($libvirt->wait_for($pid, 60), 130, "$version: SIGINT ends attach with status 130") or diag(log_of('traced'));
	unlike(log_of('traced'), qr/modules were loaded, whose first calls/, "$version: no first calls are missing") or diag(log_of('traced'));
	my (undef, undef, $lost) = report();
	is($lost, 0, "$version: no event is lost") or diag(log_of('traced'));
	check_events($version, $function);
	is_as_before($name, "$version: at the end");
	is_untroubled($libvirt->serial($name) =~ s/\r//gr, "$version: the guest's log has no warnings", WARNINGS);
	$libvirt->destroy($name);
}

AttachTest::start();
for my $version (split ' ', $ENV{FUNCTION_KERNELS} // '6.1') {
	fetch_kernel($version);
	my $module = unpack_brd($version, $work) // die "the kernel $version has no brd module\n";
	build_initrd("$work/initrd", "$FindBin::RealBin/functions-inside=/etc/rc", "$module=/lib/brd.ko");
	test_kernel($version, find_returning($module));
}
done_testing();
