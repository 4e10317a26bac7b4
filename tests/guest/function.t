#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The function tracer against the guest's own: two runs of one workload in the deterministic testbed, of which
# one task and its children are compared, with two vCPUs. Both have the same functions from the same callers in the same order, those
# of a module that comes and goes included; what differs is listed by name. Beside it, instances with overlapping
# filters get exactly their functions. The graph tracer prints the same calls within each other as the guest's
# function_graph. GUEST='5.10 6.12' for other kernels.
use strict;
use warnings;
use FindBin;
use File::Path qw(make_path);
use JSON::PP;
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Files;
use GuestConfigs;
use GuestLog;
use Testbed;
use Tree;

# What a task does in its own system calls: no interrupt calls these.
use constant FUNCTIONS => 'vfs_*,ksys_*,__x64_sys_*,kernel_clone,path_*,do_exit,do_mmap,pipe_*,unix_*,'
	. 'shmem_file_*,do_init_module,free_module';

sub task_of {
	my ($log) = @_;
	return $log =~ /^sonde-task (\d+)/m ? $1 : 0;
}

# Calls by task, in the order of the tasks' births, of [pid, function, address, address in its caller]. The first task's begin when it
# becomes the workload. What only ends or has no calls is not one of ours: a kernel thread.
sub by_task {
	my ($first, $end, @calls) = @_;
	my %of;
	push @{$of{$_->[0]}}, $_->[1] for grep { $_->[0] >= $first && $_->[0] < $end } named(@calls);
	my $main = $of{$first} // [];
	my ($last) = grep { $main->[$_] =~ /sys_execve/ } reverse 0 .. $#$main;
	$of{$first} = [defined $last ? @$main[$last .. $#$main] : ()];
	return map { $of{$_} } grep { grep { !/^do_exit/ } @{$of{$_}} } sort { $a <=> $b } keys %of;
}

# A module is at other pages in each boot.
sub caller_at { return $_[0] =~ s/^0xffffffffc\w+(\w{3})$/a module's page, $1/r }

# A function of the kernel has the same address in both boots. Those of the module are numbered in the order of
# their addresses: the guest's tracer has no names of a module that is gone.
sub named {
	my @calls = @_;
	my %number;
	my @module = sort grep { !$number{$_}++ } grep { /^0xffffffffc/ } map { $_->[2] } @calls;
	@number{@module} = 1 .. @module;
	return map {
		my $n = $number{$_->[2]};
		[$_->[0], ($n ? "module $n" : "$_->[1] $_->[2]") . ' from ' . caller_at($_->[3])];
	} @calls;
}

sub own_calls {
	my ($log) = @_;
	my $text = unpacked($log, 'sonde-begin', 'sonde-end');
	return map { /^(\d+) (.*) <(\w+)> (\w+)$/ ? [$1, $2, "0x$3", "0x$4"] : () } split /\n/, $text;
}

sub events { return map { JSON::PP::decode_json($_) } grep { /^\{/ } split /\n/, $_[0] }

sub name { return $_[0]{ip_symbol} }

# Names that are not equally frequent, with both counts.
sub differences {
	my ($a, $b) = @_;
	my (%a, %b);
	$a{$_}++ for @$a;
	$b{$_}++ for @$b;
	my %all = (%a, %b);
	return map { sprintf '%s: %d by Sonde, %d by ftrace', $_, $b{$_} // 0, $a{$_} // 0 }
		grep { ($a{$_} // 0) != ($b{$_} // 0) } sort keys %all;
}

# --- graphs --------------------------------------------------------------------------------------------------

# The calls of a task out of function_graph's lines: each with the number of those that it is within. A call that never
# returns has no end in ftrace's text, and in Sonde's one behind all that its task does.
sub add_line {
	my ($task, $line) = @_;
	$line =~ /\|  \s*(?:(?<name>[\w.]+(?: \[\w+\])?)\(\)(?<more> \{|;)|\})(?<rest>.*)/ or return;
	my ($name, $more, $rest) = @+{qw(name more rest)};
	$task->{depth} //= 0;
	push @{$task->{calls}}, [$task->{depth}++, $name] if defined $name;
	$task->{depth}-- if ($more // '') ne ' {';
	push @{$task->{unseen}}, $name // $rest =~ s/^ \/\* (.*): .*/$1/r if $rest =~ /no return seen|not recorded/;
}

# Those of the tasks from a pid on, in the order of their births. The first one's begin in its last execve().
sub graphs {
	my ($first, $end, %of) = @_;
	delete @of{grep { $_ < $first || $_ >= $end } keys %of};
	my $main = $of{$first}{calls} // [];
	my ($last) = grep { $main->[$_][1] =~ /sys_execve/ } reverse 0 .. $#$main;
	$of{$first}{calls} = [defined $last ? @$main[$last .. $#$main] : ()];
	my @tasks = map { $of{$_} } sort { $a <=> $b } keys %of;
	number_module(map { @{$_->{calls} // []} } @tasks);
	return {calls => [grep { @$_ } map { relative($_->{calls}) } @tasks],
		unseen => [map { @{$_->{unseen} // []} } @tasks]};
}

# Functions of the module, in the order of their first calls: the guest's tracer has no names of a module that is gone.
sub number_module {
	my %number;
	for (@_) {
		next if $_->[1] !~ / \[brd\]$|^0xffffffffc/;
		$_->[1] = 'module ' . ($number{$_->[1]} //= 1 + keys %number);
	}
}

sub relative {
	my ($calls) = @_;
	my $base = $calls && @$calls ? $calls->[0][0] : 0;
	return [map { ($_->[0] - $base) . " $_->[1]" } @{$calls // []}];
}

sub own_graphs {
	my ($log) = @_;
	my %of;
	for (split /\n/, unpacked($log, 'sonde-graph-begin', 'sonde-graph-end')) {
		add_line($of{$1} //= {}, $_) if /^\s*\d+\)\s.*-(\d+)\s+\|/;
	}
	my ($first) = $log =~ /^sonde-graph-task (\d+)/m;
	return graphs($first // 0, 1 << 22, %of);
}

sub seen_graphs {
	my ($log, $text) = @_;
	my (%current, %of); # tasks by CPU
	for (split /\n/, $text) {
		my ($cpu) = /^\s*(\d+)\)/ or next;
		if (/=>  .*-(\d+)$/) { $current{$cpu} = $1 }
		elsif (defined $current{$cpu}) { add_line($of{$current{$cpu}} //= {}, $_) }
	}
	my ($first) = $log =~ /^sonde-graph-task (\d+)/m;
	my ($end) = $log =~ /^sonde-graph-last (\d+)/m;
	return graphs($first // 0, $end // 0, %of);
}

sub check_graphs {
	my ($own, $seen, $module) = @_;
	my @own = map { @$_ } @{$own->{calls}};
	my @deep = grep { /^[2-9]/ } @own;
	my (%unseen, $unseen);
	$unseen{$_}++ for @{$seen->{unseen}};
	$unseen = @{$seen->{unseen}};
	cmp_ok(scalar(@own), '>', 2000, scalar(@own) . " calls by the guest's own function_graph");
	cmp_ok(scalar(@deep), '>', 500, scalar(@deep) . ' of them are within two others or more');
	my @different = differences(\@own, [map { @$_ } @{$seen->{calls}}]);
	diag($_) for @different;
	is(scalar(@different), 0, 'each function is called as often within as many others');
	is_deeply($seen->{calls}, $own->{calls}, 'the calls of each task are within the same ones, in the same order');
	if ($module) {
		my @inside = grep { / module / } @own;
		cmp_ok(scalar(@inside), '>', 10, scalar(@inside) . ' of them are in a module');
		# it jumps to bio_endio(), which ends with a call of bio->bi_end_io()
		my %left = map { $_ => 1 } grep { / \[brd\]/ && !/^brd_(submit_bio|make_request)\b/ } @{$seen->{unseen}};
		is(join(' ', sort keys %left), '', 'the return of each of these but one is seen');
	}
	cmp_ok($unseen, '<', @own / 10, "of $unseen calls the return is not seen: " . join ', ', sort keys %unseen);
}

sub check_instances {
	my %seen;
	push @{$seen{$_->{instance}}}, $_ for @_;
	my @all = grep { name($_) =~ /^vfs_/ } @{$seen{all} // []};
	# of two vCPUs at the same time, the events of two instances may be in different orders
	my $list = sub { join ' ', map { "$_->{vcpu}:" . name($_) } sort { $a->{vcpu} <=> $b->{vcpu} } @_ };
	my @first = grep { $_->{vcpu} == 0 } @all;
	ok(@all > 20, scalar(@all) . ' calls of vfs_*');
	is($list->(@{$seen{reads} // []}), $list->(grep { name($_) eq 'vfs_read' } @all),
		'one function of them, by another instance, in the same order');
	is($list->(@{$seen{some} // []}), $list->(grep { name($_) ne 'vfs_write' } @all), 'all but one');
	ok(@first && @first < @all, 'each of the two vCPUs has some');
	is($list->(@{$seen{one} // []}), $list->(@first), 'those of one vCPU');
	is(scalar(@{$seen{none} // []}), 0, 'a pid that no task has: none');
	is($list->(@{$seen{mods} // []}), $list->(grep { name($_) =~ / \[brd\]/ } @{$seen{all} // []}),
		'functions of a module that came later');
}

sub check_calls {
	my ($own, $seen) = @_;
	cmp_ok(scalar(map { @$_ } @$own), '>', 5000, scalar(map { @$_ } @$own) . ' calls by the guest\'s own tracer, '
		. scalar(@$own) . ' tasks');
	my @different = differences([map { @$_ } @$own], [map { @$_ } @$seen]);
	diag($_) for @different;
	is(scalar(@different), 0, 'each function is called as often');
	is(scalar(@$seen), scalar(@$own), 'as many tasks call some');
	is_deeply($seen, $own, 'each task calls the same functions, at the same addresses, in the same order, from the same places');
}

sub check_module {
	my ($seen, $err) = @_;
	my @names = map { s/ .*//r } grep { / \[brd\]/ } map { name($_) } grep { $_->{instance} eq 'all' } @$seen;
	is($names[0], 'init_module', 'the first call in a module is that of its init function');
	cmp_ok(scalar(@names), '>', 5, scalar(@names) . ' calls in the module');
	unlike($err, qr/modules were loaded/, 'no call in it is missing');
}

sub make_initrd {
	my ($kernel, $out) = @_;
	my $module = unpack_brd($kernel, $out);
	build_initrd("$out/initrd", "$FindBin::RealBin/function-inside=/bin/function-inside",
		$module ? "$module=/lib/brd.ko" : ());
	return $module;
}

sub check {
	my ($kernel) = @_;
	my $out = "$build/guest/function-$kernel";
	make_path($out);
	my $module = make_initrd($kernel, $out);
	system("$tree/tests/testbed/kvm-host", '--icount', '--share', $build, '--timeout', 400, '--',
		"$FindBin::RealBin/function-guest", $out, kernel_image($kernel), "$out/initrd", FUNCTIONS);
	is($?, 0, "$kernel: both guests have run") or return;
	my ($ftrace, $sonde) = map { slurp("$out/$_.log") =~ s/\r//gr } qw(ftrace sonde);
	my @events = events(slurp("$out/events"));
	my $own = [by_task(task_of($ftrace), 1 << 22, own_calls($ftrace))];
	my ($end) = $sonde =~ /^sonde-last (\d+)/m;
	my $seen = [by_task(task_of($sonde), $end // 0, map { [$_->{pid}, name($_), $_->{ip}, $_->{parent_ip}] }
			grep { $_->{instance} eq 'all' } @events)];
	check_calls($own, $seen);
	check_graphs(own_graphs($ftrace), seen_graphs($sonde, slurp("$out/graph")), $module);
	check_module(\@events, slurp("$out/err")) if $module;
	check_instances(@events);
	unlike($sonde, qr/WARNING|BUG|Oops|Call Trace/, 'nothing in the log');
}

check($_) for GuestConfigs::kernels('6.1');
done_testing();
