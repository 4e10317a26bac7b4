#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Boots kernels under plain QEMU (no KVM needed), dumps their memory, and compares what introspect/ finds
# in the dump with what the guest printed about itself and with QEMU's own page walk.
#
# GUEST='5.10 6.1 6.12 7.0' selects kernels (default 6.1), MODELS='max qemu64' CPU models (default max, which
# has 5-level page tables; qemu64 has 4 levels). FACTS is the path of dump-facts.

use strict;
use warnings;
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use FindBin;
use IPC::Open2;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep);

use lib "$FindBin::RealBin/../lib", "$FindBin::RealBin/../guest";
use Files;
use GuestConfigs;
use Process;
use Qmp;
use Testbed;
use Tree;

my $facts = $ENV{FACTS} // "$build/tests/introspect/dump-facts";
my @models = split ' ', $ENV{MODELS} // 'max';
my $work = tempdir(CLEANUP => 1);
my $ram_mib = 256;
my $boot_seconds = 100;
my $boots = 3;
my $monitor_seconds = 60;

sub make_initrd {
	my ($kernel, $initrd) = @_;
	my $root = "$work/root";
	empty_folder($root);
	make_path(map { "$root/$_" } qw(bin proc sys tmp dev));
	my ($module) = glob "$kernel/modules/kernel/drivers/net/dummy.ko*";
	if ($module) {
		run_or_die($module =~ /xz$/ ? "xz -dc $module >$root/module.ko" : "cp $module $root/module.ko");
	}
	run_or_die("cp \$(command -v busybox) $root/bin/busybox && cp $FindBin::RealBin/guest-init $root/init"
	    . " && chmod 755 $root/init && cd $root && find . | cpio -o -H newc --quiet -R 0:0 >$initrd");
}

# A running QEMU: process id, monitor socket, file with the guest's output.
sub start_guest {
	my ($kernel, $cpu) = @_;
	my $guest = {serial => "$work/serial", monitor => "$work/monitor"};
	unlink $guest->{serial}, $guest->{monitor};
	$guest->{pid} = fork // die "fork: $!";
	if (!$guest->{pid}) {
		exec 'qemu-system-x86_64', qw(-accel tcg -smp 2 -nodefaults -display none -no-reboot),
		    '-cpu', $cpu, '-m', $ram_mib, '-serial', "file:$guest->{serial}",
		    '-qmp', "unix:$guest->{monitor},server=on,wait=off",
		    '-kernel', "$kernel/vmlinuz", '-initrd', "$work/initrd", '-append',
		    'console=ttyS0 cryptomgr.notests quiet panic=-1 no_timer_check pti=on no_hash_pointers' or POSIX::_exit(127);
	}
	return $guest;
}

# The output of a command of QEMU's human monitor, which applies to one vCPU.
sub ask_human {
	my ($qmp, $command, $vcpu) = @_;
	return $qmp->ask('human-monitor-command', 'command-line' => $command,
	    'cpu-index' => ($vcpu // 0) + 0);
}

sub registers {
	my ($text) = @_;
	my @vcpus;
	for my $vcpu (split /^(?=CPU#)/m, $text) {
		next unless $vcpu =~ /^CPU#/;
		my %r = $vcpu =~ /\b(CR[034]|EFER|CPL|HLT)=\s*([0-9a-f]+)/g;
		push @vcpus, \%r;
	}
	return @vcpus;
}

# One vCPU loops in user mode, the other is idle in the kernel. Retries if one of them serves an interrupt.
sub stop_in_user_mode {
	my ($qmp) = @_;
	my @vcpus;
	for (1 .. 100) {
		$qmp->ask('stop');
		@vcpus = registers(ask_human($qmp, 'info registers -a'));
		last if (grep { $_->{CPL} } @vcpus) && (grep { !$_->{CPL} && $_->{HLT} } @vcpus);
		$qmp->ask('cont');
		sleep 0.05;
	}
	$qmp->ask('stop');
	return @vcpus;
}

# The output of dump-facts, as lines.
sub ask {
	my ($kernel, $dump, $vcpus, @queries) = @_;
	my $pid = open2(my $from, my $to, $facts, "$kernel/vmlinuz", $dump,
	    map { @$_{qw(CR0 CR3 CR4 EFER)} } @$vcpus);
	# A child writes the queries, because the answers may fill the pipe before all are written.
	my $writer = fork // die "fork: $!";
	if (!$writer) {
		print $to map {"$_\n"} @queries;
		close $to;
		POSIX::_exit(0);
	}
	close $to;
	chomp(my @lines = <$from>);
	waitpid $writer, 0;
	waitpid $pid, 0;
	return @lines;
}

sub lines_of {
	my ($serial, $kind) = @_;
	return map { [split ' '] } $serial =~ /^\@$kind (.*?)\r?$/mg;
}

# Prints a few of the differences.
sub no_differences {
	my ($name, $count, @differences) = @_;
	ok(!@differences && $count > 0, "$name ($count compared)") or
	    diag(join "\n", $count ? () : 'nothing compared', @differences[0 .. ($#differences < 5 ? $#differences : 5)]);
}

sub test_locate {
	my ($name, $vcpus, $serial, @facts) = @_;
	ok((grep { $_->{CPL} } @$vcpus), "$name: one vCPU is in user mode");
	my %symbols = map { $_->[1] => $_->[0] } lines_of($serial, 'symbol');
	is($facts[0], 'locate 0 ', "$name: the kernel is found");
	my ($text) = ($facts[1] // '') =~ /^text (\w+)/;
	is($text, $symbols{_text}, "$name: _text has the address that the guest prints");
	for my $i (0 .. $#$vcpus) {
		my $want = $vcpus->[$i]{CPL} ? 'other' : 'kernel';
		is($facts[2 + $i], "cr3 $i $want", "$name: CR3 of vCPU $i in CPL $vcpus->[$i]{CPL} is classified as $want");
	}
}

# Addresses of the image, of modules and of the direct map.
sub gvas_of {
	my ($serial) = @_;
	my @gvas;
	for my $kind (qw(symbol module kmalloc)) {
		my @all = grep {/^ff/} map { $_->[0] } lines_of($serial, $kind);
		push @gvas, @all > 30 ? @all[0 .. 29] : @all;
	}
	return @gvas;
}

sub test_translate {
	my ($name, $qmp, $vcpus, $kernel, $dump, @gvas) = @_;
	my ($in_kernel) = grep { !$vcpus->[$_]{CPL} } 0 .. $#$vcpus;
	my @theirs = map { ask_human($qmp, "gva2gpa 0x$_", $in_kernel) } @gvas;
	my @ours = ask($kernel, $dump, $vcpus, map {"translate $_"} @gvas);
	my @differences;
	@ours = @ours[-@gvas .. -1];
	for my $i (0 .. $#gvas) {
		my ($gpa) = $theirs[$i] =~ /^(?:gpa: 0x(\w+)|Unmapped)/ or die "gva2gpa: $theirs[$i]\n";
		my $want = "$gvas[$i] " . ($gpa // 'error 14');
		push @differences, "introspect: $ours[$i], QEMU: $want" if $ours[$i] ne $want;
	}
	no_differences("$name: addresses are translated as QEMU does", scalar @gvas, @differences);
}

sub test_caches {
	my ($name, $serial, @ours) = @_;
	my %object_size = map {@$_} lines_of($serial, 'object_size');
	my %slab_size = map {@$_} lines_of($serial, 'slab_size');
	my (%sizes, @differences, @owners);
	for (@ours) {
		my ($cache, $size, $object_size, $owner) = split ' ';
		$sizes{$cache} = $size;
		push @owners, "$cache is in $owner" if $owner ne 'kmem_cache' && $owner ne 'none';
		push @differences, "$_, guest: $slab_size{$cache} $object_size{$cache}"
		    if !defined $object_size{$cache} || $object_size{$cache} != $object_size ||
		    $slab_size{$cache} != $size;
	}
	no_differences("$name: cache sizes are those of /sys/kernel/slab", scalar @ours, @differences);
	my @slabinfo = lines_of($serial, 'slabinfo');
	@differences = grep { ($sizes{$_->[0]} // 0) != $_->[1] } @slabinfo;
	no_differences("$name: all caches of /proc/slabinfo are found", scalar @slabinfo,
	    map {"@$_"} @differences);
	no_differences("$name: each struct kmem_cache is an object of the cache kmem_cache", scalar @ours, @owners);
}

sub test_objects {
	my ($name, $serial, $ask) = @_;
	my %objects;
	for ($serial =~ /^\@(kmalloc ff\w+ \d+|kfree ff\w+)/mg) {
		my ($kind, $pointer, $size) = split ' ';
		if ($kind eq 'kmalloc') { $objects{$pointer} = $size } else { delete $objects{$pointer} }
	}
	SKIP: {
		skip "$name: this kernel hashes pointers in its trace", 2 if !%objects;
		my @pointers = sort keys %objects;
		my @ours = $ask->(map {"object $_"} @pointers);
		my @differences = grep { my ($p, $s) = split ' '; $s ne $objects{$p} } @ours;
		# kfree_rcu() has no event, so some objects are freed already, and their page may be too.
		my $allowed = @pointers / 20;
		no_differences("$name: sizes of live objects are those of the guest's trace", scalar @pointers,
		    @differences > $allowed ? @differences : ());
		my @large = grep { $objects{(split)[0]} > 8192 } @ours;
		no_differences("$name: sizes of large kmalloc objects are those of the guest's trace", scalar @large,
		    grep { my ($p, $s) = split ' '; $s ne $objects{$p} } @large);
	}
}

sub test_modules {
	my ($name, $serial, $ask) = @_;
	my @symbols = lines_of($serial, 'module');
	SKIP: {
		skip "$name: this kernel's package has no modules", 1 if !@symbols;
		my %names;
		$names{$_->[0]}{"$_->[1]+0x0"} = 1 for @symbols;
		my @gvas = sort keys %names;
		my @differences = grep {
			my ($gva, $function) = /^(\w+) (.*?)(?: \[|\/)/;
			$function = "$1+0x0" if /^\w+ (\S+) \[dummy\]\+0x0\//;
			!$names{$gva}{$function};
		} $ask->(map {"name $_"} @gvas);
		no_differences("$name: names of module functions are those of /proc/kallsyms", scalar @gvas, @differences);
	}
}

# The guest shows which modules have types.
sub test_types {
	my ($name, $serial, $ask) = @_;
	my %has = map { $_->[0] => 1 } lines_of($serial, 'btf');
	my @symbols = grep { $_->[1] eq 'dummy_xmit' } lines_of($serial, 'module');
	SKIP: {
		skip "$name: this kernel's package has no modules", 1 if !@symbols;
		my ($answer) = $ask->('prototype dummy dummy_xmit');
		if (!$has{dummy}) { like($answer, qr/keeps no types of its modules/, "$name: a kernel without types of modules") }
		else { is($answer, 'dummy_xmit skb:struct sk_buff * dev:struct net_device *', "$name: a function of a module has parameters") }
	}
}

sub test_tasks {
	my ($name, $serial, $ask) = @_;
	my @tasks = $ask->('tasks');
	no_differences("$name: each task is an object of the cache task_struct", scalar @tasks,
	    grep { !/ task_struct$/ } @tasks);
}

# /proc/PID/stack omits the scheduler's functions.
sub test_stacks {
	my ($name, $serial, $ask) = @_;
	my (%theirs, %ours, @differences);
	push @{$theirs{$_->[0]}}, $_->[1] for lines_of($serial, 'stack');
	for ($ask->('stacks')) {
		my ($pid, $frame) = split ' ', $_, 2;
		push @{$ours{$pid}}, $frame;
	}
	my $compared = 0;
	for my $pid (sort keys %theirs) {
		my @want = @{$theirs{$pid}};
		my @got = @{$ours{$pid} // []};
		pop @got; # why it ends
		shift @got while @got && $got[0] ne $want[0];
		# The task has run since, or sleeps in a function with a frame pointer.
		next if !@got;
		$compared++;
		my $n = @got < @want ? @got : @want;
		push @differences, "pid $pid: introspect: @{$ours{$pid} // []}, guest: @want"
		    if "@got[0 .. $n - 1]" ne "@want[0 .. $n - 1]";
	}
	no_differences("$name: stacks are those of /proc/PID/stack", $compared, @differences);
	cmp_ok($compared, '>', keys(%theirs) * 2 / 3, "$name: the stacks of most tasks could be compared");
}

# Facts read from memory, with the registers of one vCPU (in user mode too), are those of the kernel's file.
sub test_identity {
	my ($name, $vcpus, $ask) = @_;
	for my $vcpu (0 .. $#$vcpus) {
		my ($found, @facts) = $ask->("identify $vcpu");
		my $what = "$name: read from memory, vCPU $vcpu in CPL $vcpus->[$vcpu]{CPL}";
		like($found, qr/^identity \w+ \w+ known$/, "$what: the slide comes from vmcoreinfo");
		is(scalar(@facts), 7, "$what: there are 7 facts");
		for (@facts) {
			my ($compared, $different) = /(\d+) compared, (\d+) different$/;
			ok(($compared // 0) > 0 && $different == 0, "$what: $_");
		}
	}
}

sub test_running {
	my ($name, $version, $kernel, $guest) = @_;
	my $serial = slurp($guest->{serial});
	my $dump = "$work/ram";
	my $qmp = Qmp->connect($guest->{monitor}, $monitor_seconds);
	my @vcpus = stop_in_user_mode($qmp);
	$qmp->ask('pmemsave', val => 0, size => $ram_mib << 20, filename => $dump);
	my $ask = sub { my @all = ask($kernel, $dump, \@vcpus, @_); @all[4 .. $#all] };
	test_locate($name, \@vcpus, $serial, ask($kernel, $dump, \@vcpus));
	test_translate($name, $qmp, \@vcpus, $kernel, $dump,
	    qw(ffff800000000000 ffffffffffffff00), gvas_of($serial));
	test_caches($name, $serial, $ask->('caches'));
	test_objects($name, $serial, $ask);
	test_modules($name, $serial, $ask);
	test_types($name, $serial, $ask);
	test_tasks($name, $serial, $ask);
	test_stacks($name, $serial, $ask);
	test_identity($name, \@vcpus, $ask);
	test_others($name, $version, $dump, \@vcpus);
}

sub end_guest {
	my ($guest) = @_;
	kill 'KILL', $guest->{pid};
	waitpid $guest->{pid}, 0;
}

# One that runs. An emulated guest measures its clocks by the host's: on a host that is busy just then its timers may hardly come
# at all, which is nothing that this test is about. Then another one is booted.
sub boot_guest {
	my ($name, @guest) = @_;
	for my $try (1 .. $boots) {
		my $guest = start_guest(@guest);
		return $guest if wait_until($boot_seconds, sub { slurp($guest->{serial}) =~ /^\@ready/m });
		diag("$name: try $try to boot a guest has failed:\n" . slurp($guest->{serial}));
		end_guest($guest);
	}
	return;
}

sub test_guest {
	my ($version, $cpu, $kernel) = @_;
	my $name = "$version, $cpu";
	my $guest = boot_guest($name, $kernel, $cpu);
	ok($guest, "$name: the guest boots") or return;
	# Errors of the monitor must not leave QEMU running.
	eval { test_running($name, $version, $kernel, $guest); 1 } or fail("$name: $@");
	end_guest($guest);
}

# A dump of this guest and the image of another kernel.
sub test_others {
	my ($name, $version, $dump, $vcpus) = @_;
	my ($other) = grep { $_ ne $version } '6.1', '6.12';
	my @lines = ask(fetch_kernel($other), $dump, $vcpus);
	like($lines[0], qr/^locate -11 no kernel/, "$name: the kernel $other is not found in the dump");
	like($lines[1], qr/^check -\d+ the guest runs another kernel: Linux version \Q$version\E/, "$name: the guest is not mistaken for $other");
}

sub test_unstarted {
	my ($version, $kernel) = @_;
	my @lines = ask($kernel, 'none', []);
	is(scalar(grep {/^unstarted -11 .*does not run yet/} @lines), 2,
	    "$version: a kernel that was decompressed but not started gives EAGAIN");
	open my $file, '>', "$work/empty" or die;
	truncate $file, 32 << 20;
	@lines = ask($kernel, "$work/empty", []);
	like($lines[0], qr/^locate -11 no kernel/, "$version: memory without a kernel gives EAGAIN");
}

plan skip_all => 'no qemu-system-x86_64: install qemu-system-x86' if system('command -v qemu-system-x86_64 >/dev/null');
plan skip_all => 'no busybox: install busybox-static' if system('command -v busybox >/dev/null');
plan skip_all => "no $facts: make it first" if !-x $facts;
for my $version (GuestConfigs::kernels('6.1')) {
	my $kernel = fetch_kernel($version);
	make_initrd($kernel, "$work/initrd");
	test_unstarted($version, $kernel);
	test_guest($version, $_, $kernel) for @models;
}
done_testing();
