#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The HTML reports in a headless Chromium: they open quickly with 100,000 call sites, sort, filter, zoom, obey
# the keyboard, have a dark theme and print. Names of a hostile guest stay texts. Screenshots go to build/html/.
use strict;
use warnings;
no warnings 'portable'; # 64-bit addresses
use Cwd qw(realpath);
use File::Basename qw(dirname);
use File::Path qw(make_path remove_tree);
use Test::More;
use Time::HiRes qw(time);

use lib dirname(realpath($0)), dirname(realpath($0)) . '/../lib';
use Browser;
use Files;
use Process;
use Tree;

use constant { ALLOC => 1, FREE => 2, SITES => 100_000, MS => 1_000_000 };

my $reason = Browser::missing();
plan skip_all => $reason if $reason;

my $out = "$build/html";
remove_tree($out);
make_path("$out/work");

# A record as a kmemtrace kernel of 2008 writes it.
sub record {
	my ($event, $site, $pointer, $bytes, $ns) = @_;
	return pack 'CCvl<Q<Q<Q<Q<Q<Q<', $event, 0, 56, -1, $site, $pointer, $bytes - 4, $bytes, 0, $ns;
}

# Each call site allocates an object of its own size; each third one is freed.
sub make_trace {
	my ($dir, $sites) = @_;
	my $records = '';
	for my $i (1 .. $sites) {
		my $pointer = 0xffff888000000000 + $i * 1024;
		$records .= record(ALLOC, 0xffffffff81000000 + $i * 16, $pointer, 8 * ($i % 128 + 1), $i * MS / 10);
		$records .= record(FREE, 0xffffffff81000000 + $i * 16, $pointer, 8, $i * MS / 10 + MS / 20) if $i % 3 == 0;
	}
	make_path($dir);
	spew("$dir/cpu0", $records);
	spew("$dir/abi_version", "1\n");
}

# A busy call site frees all but one in 1,000 of its objects; another one all.
sub make_leak {
	my ($dir) = @_;
	my $records = '';
	for my $i (1 .. 20_000) {
		for my $site (0x1000, 0x2000) {
			my $pointer = 0xffff888000000000 + $site * 0x1000000 + $i * 64;
			$records .= record(ALLOC, $site, $pointer, 64, $i * MS);
			$records .= record(FREE, $site, $pointer - 20 * 64, 64, $i * MS + 10)
				if $i > 20 && ($site == 0x1000 || $i % 1000);
		}
	}
	make_path($dir);
	spew("$dir/cpu0", $records);
	spew("$dir/abi_version", "1\n");
}

# A copy of a trace, a byte of whose file is wrong.
sub damage {
	my ($from, $to, $name) = @_;
	make_path($to);
	for my $path (glob "$from/* $from/.s*") {
		my $bytes = slurp($path);
		substr($bytes, length($bytes) / 2, 1) ^= "\1" if $path eq "$from/$name";
		spew("$to/" . ($path =~ s{.*/}{}r), $bytes);
	}
}

sub spew {
	my ($path, $bytes) = @_;
	open my $file, '>:raw', $path or die "$path: $!\n";
	print $file $bytes;
	close $file or die "$path: $!\n";
}

my $browser;

# What a page, or an image, has of elements, by their names.
my $elements = 'return [...new Set([...document.querySelectorAll("*")].map((e) => e.localName))].sort()';

# Attributes that are programs, addresses that are, and programs that are not the page's own.
my $programs = <<'END';
return [...document.querySelectorAll("*")].flatMap((e) => [...e.attributes]
	.filter((a) => /^on/i.test(a.name) || (/href|src|action/i.test(a.name) && a.namespaceURI !== "http://www.w3.org/2000/xmlns/"))
	.map((a) => `${e.localName} ${a.name}`));
END

# Control characters in what is shown, and in what would be beside the pointer.
my $controls = <<'END';
const all = [document.title, document.documentElement.textContent, ...[...document.querySelectorAll("[title], [aria-label]")]
	.flatMap((e) => [e.title, e.getAttribute("aria-label")])].filter(Boolean).map((text) => typeof text === "string" ? text : "");
return all.filter((text) => /[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]/.test(text)).map((text) => text.slice(0, 80));
END

# Whatever the user may do in the view that is shown: hover, press, open, sort.
my $use = <<'END';
const view = document.querySelector("main > section:not([hidden])");
for (const type of ["mouseover", "mousemove", "pointermove", "mouseenter"])
	for (const e of view.querySelectorAll("td, th, button, span, rect, text, i, svg"))
		e.dispatchEvent(new MouseEvent(type, {bubbles: true, clientX: 300, clientY: 300}));
for (const e of view.querySelectorAll("th button, .flame button, select, tr.row")) {
	e.click();
	e.dispatchEvent(new Event("change", {bubbles: true}));
}
END

sub text_of { return $browser->run('return document.querySelector(arguments[0])?.textContent ?? null', $_[0]) }

# The first cells of the first row of the table that is shown.
sub first_row {
	return $browser->run('return [...document.querySelectorAll("section:not([hidden]) tr.row")][0]?.innerText ?? ""');
}

sub shown { return $browser->run('return document.querySelector("main > section:not([hidden])").id') }

# The row that is selected, counted from 1; 0: none.
sub selected {
	return $browser->run('const row = document.querySelector("section:not([hidden]) tr[aria-selected=true]"); return row ? row.ariaRowIndex - 1 : 0');
}

sub click_header {
	my ($title) = @_;
	$browser->run('[...document.querySelectorAll("section:not([hidden]) th button")].find((b) => b.textContent.startsWith(arguments[0])).click()', $title);
}

# The values of a column, by its place, in the rows that are there.
sub column {
	my ($place) = @_;
	return @{$browser->run('return [...document.querySelectorAll("section:not([hidden]) tr.row")].map((row) => row.cells[arguments[0]].textContent)', $place)};
}

make_trace("$out/work/trace", SITES);
run_or_die("$build/sonde", 'report', '--html', "$out/report.html", "$out/work/trace");
run_or_die("$build/sonde", 'report', '--html', "$out/part.html", '--time', '6,8', "$out/work/trace");
run_or_die("$build/sonde", 'diff', '--html', "$out/diff.html", '--time-a', ',5', '--time-b', '5,', "$out/work/trace");
make_leak("$out/work/leak");
run_or_die("$build/sonde", 'report', '--html', "$out/leak.html", "$out/work/leak");
run_or_die("$build/tests/html/make-calls", "$out/work/calls");
run_or_die("$build/sonde", 'report', '--html', "$out/calls.html", "$out/work/calls");
damage("$out/work/calls", "$out/work/damaged", '.sonde.json');
run_or_die("$build/sonde", 'report', '--html', "$out/damaged.html", "$out/work/damaged");
run_or_die("$build/tests/html/make-hostile", "$out/work/hostile");
run_or_die("$build/sonde", 'report', '--html', "$out/hostile.html", "$out/work/hostile");
run_or_die("$build/sonde", 'diff', '--html', "$out/hostile-diff.html", '--time-a', ',0.028', '--time-b', '0.028,', "$out/work/hostile");
run_or_die("$build/sonde", 'convert', '--to', 'flamegraph', '-o', "$out/hostile.svg", "$out/work/hostile");
$browser = Browser->new(dir => "$out/work");

subtest 'a report with 100,000 call sites opens at once' => sub {
	my @ms = sort { $a <=> $b } map {
		$browser->open_file("$out/report.html");
		$browser->run('return performance.getEntriesByType("navigation")[0].domComplete');
	} 1 .. 5;
	diag(sprintf 'open after %.0f to %.0f ms, %.1f MiB', @ms[0, -1], (-s "$out/report.html") / 1048576);
	cmp_ok($ms[0], '>', 0, 'it opened');
	cmp_ok($ms[0], '<', 2000, 'in less than 2 s, the quickest of five times');
	is(shown(), 'view-summary', 'it shows the summary');
	like(text_of('.words'), qr/the guest allocated and freed 133,333 times/, 'which says in words what there is');
	$browser->screenshot("$out/summary.png");
};

subtest 'tables sort and filter' => sub {
	$browser->press('3');
	is(shown(), 'view-sites', 'a digit shows a view');
	is(text_of('#view-sites [role=status]'), '100,000 rows', 'it has all call sites');
	cmp_ok($browser->run('return document.querySelectorAll("#view-sites tr.row").length'), '<', 100, 'only the rows in sight are drawn');
	like((column(2))[0], qr/^1\.0 KiB$/, 'the greatest come first');
	click_header('Live');
	is((column(2))[0], '0 B', 'a click on the title turns the order round');
	click_header('Call site');
	like(first_row(), qr/^0xffffffff81000010/, 'names sort upwards');
	$browser->press('/', split //, 'ffffffff8100abc0');
	is(text_of('#view-sites [role=status]'), '1 of 100,000 rows', 'a filter finds a name');
	$browser->press('escape', split //, 'live>1000');
	my ($count) = (text_of('#view-sites [role=status]') // '') =~ /^([\d,]+) of 100,000 rows$/;
	cmp_ok(($count // 0) =~ tr/,//dr, '>', 500, 'a filter compares amounts');
	$browser->press('escape', '/', '[');
	like(text_of('#view-sites [role=status]'), qr/0 of 100,000/, 'half an expression is a part of a name');
	$browser->press('escape');
	is(text_of('#view-sites [role=status]'), '100,000 rows', 'Escape clears the filter');
};

subtest 'the keyboard does it all' => sub {
	$browser->press('down');
	is(selected(), 1, 'the arrow leads from the filter into the table');
	$browser->press('j', 'j', 'k');
	is(selected(), 2, 'j and k move');
	$browser->press('end');
	is(selected(), SITES, 'End goes to the last row');
	$browser->press('enter');
	ok(!$browser->run('return document.querySelector("#view-sites .details").hidden'), 'Enter shows details');
	$browser->screenshot("$out/sites.png");
	$browser->press('escape');
	ok($browser->run('return document.querySelector("#view-sites .details").hidden'), 'Escape closes them');
	$browser->press('?');
	ok($browser->run('return document.querySelector("dialog").open'), 'the question mark shows the keys');
	$browser->press('escape');
	$browser->run('document.querySelector("[role=tab][aria-selected=true]").focus()');
	$browser->press('left');
	is(shown(), 'view-timeline', 'arrows walk through the views');
};

subtest 'the timeline zooms' => sub {
	my $range = 'return [...document.querySelectorAll("#view-timeline svg text[text-anchor=middle]")].map((t) => parseFloat(t.textContent))';
	my @all = @{$browser->run($range)};
	my $box = $browser->run('const r = document.querySelector("#view-timeline svg").getBoundingClientRect(); return [r.x, r.y, r.width, r.height]');
	$browser->drag($box->[0] + $box->[2] * 0.4, $box->[0] + $box->[2] * 0.6, $box->[1] + 100);
	my @part = @{$browser->run($range)};
	cmp_ok($part[-1] - $part[0], '<', ($all[-1] - $all[0]) / 2, 'dragging shows a part of the time');
	like(text_of('#view-timeline .tip'), qr/ s.*together/, 'the time under the pointer has its amounts');
	$browser->screenshot("$out/timeline.png");
	$browser->run('document.querySelector("#view-timeline svg").focus()');
	$browser->press('0');
	is_deeply($browser->run($range), \@all, 'the key 0 shows all of it again');
};

subtest 'times are those of the trace clock' => sub {
	$browser->open_file("$out/part.html");
	like(text_of('.words'), qr/from 6\.000 to 8\.000 s of the trace clock/, 'the summary has begin and end');
	$browser->press('2');
	my $ticks = $browser->run('return [...document.querySelectorAll("#view-timeline svg text[text-anchor=middle]")].map((t) => parseFloat(t.textContent))');
	cmp_ok($ticks->[0], '>=', 6, 'the timeline begins with the part');
	cmp_ok($ticks->[-1], '<=', 8, 'and ends with it');
	$browser->open_file("$out/report.html");
};

subtest 'flame graph and lifetimes' => sub {
	$browser->press('6');
	is(shown(), 'view-flame', 'there is a flame graph');
	my $boxes = 'return document.querySelectorAll(".flame button").length';
	cmp_ok($browser->run($boxes), '>', 1, 'it has boxes');
	cmp_ok($browser->run($boxes), '<', 10_000, 'but no more than can be seen');
	$browser->screenshot("$out/flame.png");
	$browser->press('7');
	is(shown(), 'view-lifetimes', 'there are lifetimes');
	like(text_of('.heat'), qr/65\.5 us/, 'by powers of two');
	$browser->screenshot("$out/lifetimes.png");
};

subtest 'dark' => sub {
	my $background = 'return getComputedStyle(document.body).backgroundColor';
	$browser->press('1');
	my $light = $browser->run($background);
	$browser->media('prefers-color-scheme' => 'dark');
	isnt($browser->run($background), $light, 'it is dark where the system is');
	$browser->press('3');
	$browser->screenshot("$out/dark.png");
	$browser->press('t');
	is($browser->run($background), $light, 'the key t makes it light');
	$browser->media('prefers-color-scheme' => 'light');
};

subtest 'print' => sub {
	$browser->print_pdf("$out/report.pdf");
	my $pages = () = slurp("$out/report.pdf") =~ m{/Type\s*/Page\b}g;
	cmp_ok($pages, '>=', 3, 'it prints all views');
	cmp_ok($pages, '<', 60, 'but not 100,000 rows');
};

subtest 'growth' => sub {
	$browser->open_file("$out/leak.html");
	like(text_of('.words'), qr/1 call site looks like a leak/, 'the summary tells of a leak');
	$browser->press('5');
	is(shown(), 'view-growth', 'there is what stays live');
	like(first_row(), qr/^0x2000\s+leak\s/, 'the leak comes first');
	$browser->screenshot("$out/growth.png");
};

subtest 'calls and system calls' => sub {
	$browser->open_file("$out/calls.html");
	like(text_of('.words'), qr/see Calls, System calls and Events/, 'the summary says where they are');
	$browser->press('2');
	is(shown(), 'view-calls', 'there are calls');
	like(first_row(), qr/^outer\s+graph\s+4\.0 us\s+1\.0 us\s+1\.0 us\s+5\s+1$/, 'of the function with most time first');
	$browser->screenshot("$out/calls.png");
	$browser->press('3');
	is(shown(), 'view-syscalls', 'there are system calls');
	like(first_row(), qr/^read\s+syscalls\s+4\.0 us\s+1\.0 us\s+1\.0 us\s+5\s+2\s+1$/, 'with durations, calls, errors, and those without return');
	is_deeply([column(0)], [qw(read write)], 'by their names');
	$browser->screenshot("$out/syscalls.png");
	click_header('Errors');
	is((column(6))[0], '2', 'errors sort');
	$browser->press('/', split //, 'errors>0');
	is(text_of('#view-syscalls [role=status]'), '1 of 2 rows', 'and filter');
	$browser->press('escape', 'down', '4');
	is(shown(), 'view-events', 'and there are the counts of events');
};

subtest 'differences' => sub {
	$browser->open_file("$out/diff.html");
	is(shown(), 'view-changes', 'a comparison shows changes');
	like(text_of('.words'), qr/live from A to B/, 'and says in words what they come to');
	like(text_of('.words'), qr/from 5\.000 to \d+\.\d+ s of the trace clock/, 'of which times');
	$browser->screenshot("$out/diff.png");
};

subtest 'damage' => sub {
	$browser->open_file("$out/damaged.html");
	like(text_of('.words'), qr/\.sonde\.json(?: is damaged: its checksum is wrong|: not valid JSON)/, 'the summary names a damaged file');
	$browser->open_file("$out/leak.html");
	like(text_of('.words'), qr/no checksums: damage may go unnoticed/, 'and says that damage may go unnoticed');
	$browser->open_file("$out/diff.html");
	like(text_of('.words'), qr/A \(.*no checksums.*/, 'so does a comparison');
};

subtest 'names of a hostile guest stay texts' => sub {
	my @own = qw(aside b body button clipPath col colgroup dd dialog div dl dt g h1 h2 h3 head header html i input kbd label li line main meta nav
		noscript option p path polyline rect script section select span style svg table tbody td text th thead title tr ul);
	for my $page ('hostile.html', 'hostile-diff.html') {
		my %shown = (texts => '', tips => '');
		$browser->open_file("$out/$page");
		my $views = $browser->run('return document.querySelectorAll("[role=tab]").length');
		for my $view (1 .. $views) {
			$browser->run('document.querySelectorAll("[role=tab]")[arguments[0]].click()', $view - 1);
			$browser->run($use);
			my ($id, $controls) = (shown(), $browser->run($controls));
			is_deeply($controls, [], "$page, $id: no control characters");
			is_deeply($browser->run($programs), [], "$page, $id: no program but the page's own");
			$shown{texts} .= $browser->run('return document.querySelector("main > section:not([hidden])").textContent');
			$shown{tips} .= $browser->run('return [...document.querySelectorAll("section:not([hidden]) [title]")].map((e) => e.title).join("\\n")');
			$browser->screenshot("$out/$page-$id.png" =~ s/\.html-view//r);
		}
		my %own = map { $_ => 1 } @own;
		is_deeply([grep { !$own{$_} } @{$browser->run($elements)}], [], "$page has its own elements only");
		is($browser->run('return document.scripts.length'), 2, "$page has its data and its program");
		is($browser->run('return window.pwned ?? null'), undef, "$page ran no other program");
		like($browser->run('return document.querySelector("meta[http-equiv]").content'), qr/^default-src 'none'; style-src 'nonce-\w{32}'; script-src 'nonce-\w{32}';/,
			"$page has its policy");
		for my $name ('<script>window.pwned=1</script>', '</script><script>window.pwned=2</script>', '<img src=x onerror=window.pwned=3>',
			'"><svg onload=window.pwned=4>', "' onmouseover='window.pwned=5' x='", 'javascript:window.pwned=6', '__proto__', 'constructor',
			'A' x 200) {
			ok(index($shown{texts}, $name) >= 0, "$page shows as text: " . substr($name, 0, 50));
			ok(index($shown{tips}, $name) >= 0, "$page shows beside the pointer: " . substr($name, 0, 50));
		}
		like($shown{texts}, qr/\?\[7mred\?\]0;title\?{4,}bell\?+!?line/, "$page shows control characters as question marks");
	}
	$browser->open_file("$out/hostile.svg");
	is_deeply([grep { !/^(?:svg|style|rect|g|title|text)$/ } @{$browser->run($elements)}], [], 'the flame graph has its own elements only');
	is_deeply($browser->run($programs), [], 'and no program');
	is($browser->run('return window.pwned ?? null'), undef, 'and ran none');
	ok(index($browser->run('return [...document.querySelectorAll("title")].map((e) => e.textContent).join("\\n")'), '<script>window.pwned=1</script>') >= 0,
		'names are its texts');
	$browser->screenshot("$out/hostile-svg.png");
};

is_deeply([$browser->complaints], [], 'the browser had nothing to complain of');
$browser->close;
remove_tree("$out/work");
done_testing();
