#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Readers that are not ours read the tables of sonde convert: DuckDB the Parquet files, and ClickHouse the RowBinary,
# also as a table distributed over two servers. Both have the rows that `sonde events --json` prints, and both answer
# the questions of examples/fleet/ alike.
use strict;
use warnings;
use FindBin;
use IO::Socket::INET;
use JSON::PP;
use POSIX qw(_exit);
use Test::More;
use lib "$FindBin::Bin/../lib";
use Files;
use Process;
use Tree;

my $work = "$build/tests/tables/work";
my $packages = "$build/tools/duckdb";
my $sonde = "$build/sonde";
my $sql = "$tree/examples/fleet";
my $json = JSON::PP->new->canonical;
my @columns = qw(host ns vcpu instance event call_site symbol ptr bytes_req bytes_alloc cache gfp_flags node fields);
my $all = join ', ', @columns;
my %servers;

END { kill 'KILL', $_->{pid} for values %servers }

sub is_installed { return scalar grep { -x "$_/$_[0]" } split(/:/, $ENV{PATH}), '/usr/sbin' }

sub lines_of {
	my (@command) = @_;
	open my $out, '-|', @command or die "@command: $!\n";
	my @lines = <$out>;
	close $out or die "@command: status $?\n";
	return @lines;
}

sub convert {
	my ($trace, $format, $out, $host) = @_;
	run_or_die('sh', '-c', 'exec "$@" 2>/dev/null', 'sh', $sonde, 'convert', $trace, '--to', $format, '-o', $out,
		'--host', $host);
	return $out;
}

# A row as one text, whatever types its reader gave it.
sub row_text { return join "\t", map { $_ // 'NULL' } @{ $_[0] } }

sub statements {
	my ($name) = @_;
	my $text = must_slurp("$sql/$name");
	$text =~ s/^--.*\n//mg;
	return grep { /\S/ } split /;/, $text;
}

# --- what the rows have to be ---

# Columns of sonde events --json, and what has none.
sub expected_row {
	my ($event, $host) = @_;
	no warnings 'portable';
	my ($name) = delete $event->{event};
	my %row = (host => $host, event => $name, map({ $_ => 0 } qw(call_site ptr bytes_req bytes_alloc)),
		map({ $_ => '' } qw(symbol cache gfp_flags fields)), node => -1);
	$row{$_} = delete $event->{$_} for qw(ns vcpu);
	# An instance that is named as its tracer is not printed.
	$row{instance} = delete $event->{instance} // ($name =~ /^([^:]*)/)[0];
	for my $field (grep { exists $event->{$_} } qw(call_site ptr bytes_req bytes_alloc cache gfp_flags node)) {
		$row{$field} = delete $event->{$field};
		$row{$field} = hex($row{$field} =~ s/^0x//r) if $field eq 'call_site' || $field eq 'ptr';
	}
	my $symbol = delete $event->{call_site_symbol};
	$row{symbol} = $symbol if $row{call_site};
	# What is 0 is no name.
	$row{cache} =~ s/^-$//;
	$row{gfp_flags} =~ s/^(0|0x0|none)$//;
	return \%row;
}

sub expected_rows {
	my ($trace, $host) = @_;
	return map { expected_row($json->decode($_), $host) } lines_of($sonde, 'events', '--json', $trace);
}

# --- DuckDB ---

sub duckdb {
	my ($tables, @statements) = @_;
	my @views = map { "CREATE VIEW $_ AS SELECT * FROM read_parquet('$tables->{$_}')" } sort keys %$tables;
	my @answers = lines_of('node', "$FindBin::Bin/query.mjs", $packages, @views, @statements);
	return map { $json->decode($_) } @answers[@views .. $#answers];
}

# --- ClickHouse ---

sub free_port {
	my $socket = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die "socket: $!\n";
	return $socket->sockport;
}

sub write_config {
	my ($folder, $port, @ports) = @_;
	my $shards = join '', map { "<shard><replica><host>127.0.0.1</host><port>$_</port></replica></shard>" } @ports;
	write_file("$folder/users.xml", '<yandex><profiles><default/></profiles><users><default><password></password>',
		'<networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users>',
		'<quotas><default/></quotas></yandex>');
	write_file("$folder/config.xml", '<yandex><logger><level>warning</level><console>1</console></logger>',
		"<tcp_port>$port</tcp_port><listen_host>127.0.0.1</listen_host><path>$folder/data/</path>",
		"<tmp_path>$folder/tmp/</tmp_path><users_config>users.xml</users_config>",
		'<default_profile>default</default_profile><default_database>default</default_database>',
		'<mark_cache_size>67108864</mark_cache_size>',
		"<remote_servers><fleet>$shards</fleet></remote_servers></yandex>");
}

sub start_server {
	my ($folder, $port) = @_;
	my $pid = fork // die "fork: $!\n";
	return { pid => $pid, port => $port, log => "$folder/log" } if $pid;
	chdir $folder or _exit(1);
	open STDOUT, '>', 'log';
	open STDERR, '>&', \*STDOUT;
	local $ENV{PATH} = "$ENV{PATH}:/usr/sbin";
	exec 'clickhouse-server', '--config-file=config.xml' or _exit(127);
}

sub client { return ('clickhouse-client', '--port', $servers{ $_[0] }{port}) }

sub clickhouse {
	my ($server, @statements) = @_;
	return map { $json->decode(join '', lines_of(client($server), '--query', "$_ FORMAT JSONCompact"))->{data} }
		@statements;
}

sub make_tables {
	my ($server, $file) = @_;
	run_or_die(client($server), '--query', $_) for statements($file);
}

sub insert {
	my ($server, $table, $file) = @_;
	run_or_die('sh', '-c', 'exec "$@" <"$0"', $file, client($server), '--query',
		"INSERT INTO $table FORMAT RowBinary");
}

sub start_servers {
	my @names = qw(one two);
	my @ports = map { free_port() } @names;
	for my $i (0 .. $#names) {
		empty_folder("$work/$names[$i]");
		write_config("$work/$names[$i]", $ports[$i], @ports);
		$servers{ $names[$i] } = start_server("$work/$names[$i]", $ports[$i]);
	}
	return !grep { my $name = $_;
		!wait_until(180, sub { !system(join(' ', client($name)) . ' --query "SELECT 1" >/dev/null 2>&1') }, 0.5) } @names;
}

# --- the tests ---

# More rows than a row group has, of the same events again and again.
sub many_rows {
	my ($times) = @_;
	my $all_kmem = "SELECT count(*), sum(bytes_req), count(DISTINCT symbol) FROM events WHERE event LIKE 'kmem:%'";
	my ($once) = duckdb({ events => "$work/events.parquet" }, $all_kmem);
	my @expected = ($once->[0][0] * $times, $once->[0][1] * $times, $once->[0][2]);
	run_or_die("$build/tests/bench/trace-repeat", "$work/trace", "$work/long", $expected[0]);
	my ($many, $groups) = duckdb({ events => convert("$work/long", 'parquet', "$work/long.parquet", '') }, $all_kmem,
		"SELECT count(DISTINCT row_group_id) FROM parquet_metadata('$work/long.parquet')");
	is_deeply($many->[0], \@expected, "$expected[0] rows are there");
	cmp_ok($groups->[0][0], '>', 1, 'in several row groups');
}

empty_folder($work);
run_or_die("$build/tests/tables/make-trace", "$work/trace");
my @expected = expected_rows("$work/trace", 'web1');
my $fields = join ', ', grep { $_ ne 'fields' } @columns;

sub wanted { return join "\n", sort map { my $row = $_; row_text([@$row{ split /, /, $fields }]) } @expected }

my @duck;
SKIP: {
	skip 'needs node and its DuckDB: run make setup-tables', 5 if !is_installed('node') || !-d "$packages/node_modules";
	my %tables = (events => convert("$work/trace", 'parquet', "$work/events.parquet", 'web1'));
	convert("$work/trace", 'parquet-sites', "$work/$_.sites", $_) for qw(web1 web2 web3);
	$tables{sites} = "$work/*.sites";
	my ($rows, $types, @answers) = duckdb(\%tables, "SELECT $fields FROM events",
		"SELECT count(*) FROM events WHERE fields <> '' AND NOT json_valid(fields)", statements('one-host.sql'), statements('fleet.sql'));
	is(join("\n", sort map { row_text($_) } @$rows), wanted(), 'DuckDB reads from Parquet what sonde events prints');
	is($types->[0][0], 0, 'all other fields are JSON');
	@duck = map { my $answer = $_; [map { row_text($_) } @$answer] } @answers;
	ok(4 <= grep({ @$_ } @answers), 'DuckDB answers the questions of examples/fleet');
	many_rows(300);
}

SKIP: {
	skip 'needs clickhouse-server and clickhouse-client: run make setup-tables', 4
		if !is_installed('clickhouse-server') || !is_installed('clickhouse-client');
	ok(start_servers(), 'two servers are there') or diag(map { slurp($_->{log}) } values %servers);
	make_tables($_, 'tables.sql') for keys %servers;
	make_tables($_, 'distributed.sql') for keys %servers;
	insert('one', 'events', convert("$work/trace", 'rowbinary', "$work/events.rows", 'web1'));
	my ($rows) = clickhouse('one', "SELECT $fields FROM events");
	is(join("\n", sort map { row_text($_) } @$rows), wanted(), 'ClickHouse reads from RowBinary what sonde events prints');
	my %server = (web1 => 'one', web2 => 'two', web3 => 'two');
	insert($server{$_}, 'sites', convert("$work/trace", 'rowbinary-sites', "$work/$_.rows", $_)) for sort keys %server;
	my ($hosts) = clickhouse('one', 'SELECT count(DISTINCT host) FROM all_sites');
	is($hosts->[0][0], 3, 'a distributed table has the rows of both servers');
	my @questions = map { s/\bFROM sites\b/FROM all_sites/r } statements('one-host.sql'), statements('fleet.sql');
	my @answers = map { my $answer = $_; [map { row_text($_) } @$answer] } clickhouse('two', map { s/\bFROM events\b/FROM all_events/r } @questions);
	skip 'DuckDB is not there to compare with', 1 unless @duck;
	is_deeply(\@answers, \@duck, 'ClickHouse answers the questions of examples/fleet as DuckDB does');
}
done_testing();
