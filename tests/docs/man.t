#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The man pages: same footer and same order of sections everywhere, no reference to a page that does
# not exist, no option, error message or JSON key that the program does not have.
use strict;
use warnings;
use FindBin;
use File::Temp qw(tempdir);
use JSON::PP;
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../lib";
use Files;
use ManPage;
use Tree;

# Sections of a page's own stand between the two lists.
my @first = ('NAME', 'SYNOPSIS', 'DESCRIPTION', 'OPTIONS');
my @last = ('EXIT STATUS', 'ERRORS', 'ENVIRONMENT', 'EXAMPLES', 'FILES', 'BUGS', 'SEE ALSO');
my %rank = ((map { $first[$_] => $_ } 0 .. $#first), (map { $last[$_] => 101 + $_ } 0 .. $#last));
my @of_each_verb = (@first, 'EXIT STATUS', 'ERRORS', 'EXAMPLES', 'SEE ALSO');

my @pages = man_pages();
my %page = map { $_->{name} => $_ } @pages;
my @verbs = verbs();
my $sonde = "$build/sonde";

# --- headers and sections

sub out_of_order {
	my (@sections) = @_;
	my @ranks = map { $rank{$_} // 50 } @sections;
	return map { "$sections[$_] after $sections[$_ - 1]" } grep { $ranks[$_] < $ranks[$_ - 1] } 1 .. $#ranks;
}

sub references {
	my ($page) = @_;
	my $text = $page->{text} =~ s/\\-/-/gr;
	return $text =~ /^\.BR (sonde[\w-]*) \(\d\)/mg;
}

chomp(my $version = ucfirst `\Q$sonde\E --version`);
is_deeply([sort keys %page], [sort qw(sonde sonde-schema sonde-trace), map { "sonde-$_" } @verbs], 'each verb has a man page');
for my $page (@pages) {
	my ($title, $number, @footer) = ManPage::arguments($page->{header});
	is(ManPage::plain($title), uc $page->{name}, "$page->{name}: .TH has the name of the file");
	is($number, $page->{number}, "$page->{name}: .TH has the section of the file name");
	$page->{footer} = \@footer;
	is_deeply($page->{footer}, $pages[0]{footer}, "$page->{name}: the footer is that of $pages[0]{name}");
	is_deeply([out_of_order(@{$page->{order}})], [], "$page->{name}: the sections are in the common order");
	is_deeply([grep { !$page{$_} } references($page)], [], "$page->{name}: the pages of Sonde that it refers to exist");
}
is($pages[0]{footer}[1], $version, 'the footer has the version that sonde --version prints');
ok(out_of_order('NAME', 'EXAMPLES', 'OPTIONS'), 'a section at a wrong place is found');
for my $verb (@verbs) {
	my $page = $page{"sonde-$verb"};
	is_deeply([grep { !$page->{section}{$_} } @of_each_verb], [], "sonde-$verb(1) has all sections of a verb");
	is_deeply([grep { my $status = $_; !grep { $_ eq $status } $page->tag_lines('EXIT STATUS') } 0 .. 2], [],
		"sonde-$verb(1) lists the exit statuses 0, 1 and 2");
}

my @listed = `\Q$sonde\E --help` =~ /^/ ? map { /^  (\w+) / ? $1 : () } `\Q$sonde\E --help` : ();
is_deeply([map { /^([\w-]+)/ } $page{sonde}->tag_lines('COMMANDS')], \@listed, 'sonde(1) lists the commands of sonde --help');

# --- options

# Options that only one of them has, or that have another letter there.
sub different_options {
	my ($tags, $help) = @_;
	my ($page, $program) = (options_of(@$tags), options_of(split /\n/, $help));
	return sort grep { ($page->{$_} // 'no option') ne ($program->{$_} // 'no option') } keys %{{%$page, %$program}};
}

# Options of "sonde VERB" lines in examples, with lines that a backslash continues.
sub example_options {
	my ($page) = @_;
	my $text = ManPage::plain(($page->{section}{EXAMPLES} // '') =~ s/\\e$//mgr);
	my @uses;
	while ($text =~ /^[\$#] sonde (\w+) ([^|\n]*)/mg) {
		my ($verb, $rest) = ($1, $2);
		push @uses, map { [$verb, $_] } $rest =~ /(?<!\S)--([a-z-]+)/g;
	}
	return @uses;
}

my %help = map { $_ => scalar `\Q$sonde\E $_ --help` } @verbs;
for my $verb (@verbs) {
	my @tags = $page{"sonde-$verb"}->tag_lines('OPTIONS');
	is_deeply([different_options(\@tags, $help{$verb})], [], "sonde-$verb(1) and sonde $verb --help have the same options");
	ok((grep { /--help/ } @tags), "sonde-$verb(1) has --help");
	for my $use (map { example_options($_) } grep { $_->{name} eq "sonde-$verb" } @pages) {
		my ($used, $option) = @$use;
		ok(exists options_of(split /\n/, $help{$used} // '')->{$option}, "sonde-$verb(1): the example's option --$option of $used exists");
	}
}
my @tags = $page{'sonde-run'}->tag_lines('OPTIONS');
is_deeply([different_options([grep { !/--trace/ } @tags], $help{run})], ['trace'], 'an option that is not in the page is found');
is_deeply([different_options([@tags, '--bogus N'], $help{run})], ['bogus'], 'an option that is not in --help is found');
is_deeply([different_options([map { s/-o,/-O,/r } @tags], $help{run})], ['output'], 'another letter of an option is found');

# --- error messages

# All string literals of the sources; those that the compiler joins are joined.
my $strings = join "\n", map {
	my $text = slurp("$tree/$_");
	$text =~ s/"\s*\n\s*"//g;
	$text =~ /"((?:[^"\\]|\\.)*)"/g
} split /\n/, `cd \Q$tree\E && find formats guest-symbols introspect patcher vmm -name '*.c'`;

$strings .= "\n" . $strings =~ s/%[-.*\d]*l*[a-z]//gr; # an inserted text may be empty

# The literal parts of a tag are in bold. A page may show the first part of a message only, and it has
# messages of libvirt and of the C library too.
sub unknown_texts {
	my (@tags) = @_;
	my %foreign = map { $_ => 1 } 'read only access prevents', 'Input/output error';
	my @texts = map { ManPage::plain($_->[1]) =~ s/^: \.\.\.$//r } map { grep { $_->[0] eq 'B' } @$_ } @tags;
	return grep { !$foreign{$_} && length > 3 && index($strings, $_) < 0 }
		map { s/^[\s':(`,;]+|[\s':)`,;]+$//gr } map { split /: / } @texts;
}

for my $page (@pages) {
	is_deeply([unknown_texts($page->tags('ERRORS'))], [], "$page->{name}: the program has the messages of ERRORS");
}
is_deeply([grep { m{(?<!/)\b(?:tests|examples|build)/} } split /\n/, $strings], [], 'no message names a path that is not installed');
is_deeply([unknown_texts([['B', 'no such message']])], ['no such message'], 'a message that the program lacks is found');

# --- JSON keys

sub keys_of {
	my ($value) = @_;
	return map { keys_of($_) } @$value if ref $value eq 'ARRAY';
	return ref $value eq 'HASH' ? map { ($_, keys_of($value->{$_})) } keys %$value : ();
}

# Keys that are not in bold anywhere in the page. @excluded: keys that another page has.
sub lacks_keys {
	my ($page, $json, @excluded) = @_;
	my %words = map { $_ => 1 } @excluded, map { ManPage::plain($_) =~ /(\w+)/g } $page->{text} =~ /^\.B[IR]? (.*)$/mg;
	return sort grep { !$words{$_} } keys_of(decode_json($json));
}

# An empty trace has all keys, but those of its records.
my $work = tempdir('man-XXXXXX', TMPDIR => 1, CLEANUP => 1);
mkdir "$work/empty" or die "$work/empty: $!";
write_file("$work/empty/cpu0", '');
system("\Q$sonde\E convert $work/empty --to kmemtrace -o $work/trace 2>/dev/null") == 0 or die "sonde convert\n";
is_deeply([lacks_keys($page{'sonde-trace'}, slurp("$work/trace/sonde.json"))], [], 'sonde-trace(5) has the keys of sonde.json');
my @counters = keys_of(decode_json(slurp("$work/trace/sonde.json")));
my %arguments = (diff => "$work/trace", replay => '--allocator slub-6.1');
for my $verb (qw(report leaks timeline replay diff check)) {
	my $json = `\Q$sonde\E $verb --json $work/trace @{[$arguments{$verb} // '']}`;
	is_deeply([lacks_keys($page{"sonde-$verb"}, $json, @counters)], [], "sonde-$verb(1) or sonde-trace(5) has the keys of its JSON");
}
my $doctor = decode_json(scalar `\Q$sonde\E doctor --json`);
$doctor->{capabilities} = {};
is_deeply([lacks_keys($page{'sonde-doctor'}, encode_json($doctor))], [], 'sonde-doctor(1) has the keys of its JSON');
is_deeply([lacks_keys($page{'sonde-doctor'}, '{"bogus":1}')], ['bogus'], 'a key that is not in the page is found');

# --- roff

SKIP: {
	skip 'man is not installed', scalar @pages if system('command -v man >/dev/null');
	for my $page (@pages) {
		is(scalar `man --warnings -E UTF-8 -l -Tutf8 -Z \Q$page->{path}\E 2>&1 >/dev/null`, '', "$page->{name}: man has no warnings");
	}
}
done_testing();
