# SPDX-License-Identifier: GPL-2.0-or-later
#
# The parts of a man page's roff source that tests compare with the program.
package ManPage;

use strict;
use warnings;
use Exporter qw(import);
use Files;
use Tree;

our @EXPORT = qw(man_pages verbs options_of);

sub verbs { return map { m{/cmd-([a-z-]+)\.c$} } glob "$tree/*/cmd-*.c" }

sub man_pages { return map { ManPage->read($_) } glob "$tree/*/man/*.[0-9]" }

sub read {
	my ($class, $path) = @_;
	my ($name, $number) = $path =~ m{/([^/]+)\.(\d)$};
	my $self = bless {path => $path, name => $name, number => $number, text => must_slurp($path), order => []}, $class;
	my ($head, @parts) = split /^\.SH (.*)\n/m, $self->{text};
	($self->{header}) = $head =~ /^\.TH (.*)$/m;
	while (my ($section, $body) = splice @parts, 0, 2) {
		push @{$self->{order}}, $section;
		$self->{section}{$section} = $body;
	}
	return $self;
}

# Roff without its fonts and escapes.
sub plain {
	my ($text) = @_;
	my %special = (aq => "'", dq => '"', ga => '`', bu => '*');
	$text =~ s/\\f(?:\(..|\[.*?\]|.)//g;
	$text =~ s/\\\((..)/$special{$1} \/\/ ''/ge;
	$text =~ s/\\&//g;
	return $text =~ s/\\(.)/$1/gr;
}

# The arguments of a macro, as man(7) splits them.
sub arguments {
	my ($line) = @_;
	return map { defined $_->[0] ? $_->[0] =~ s/""/"/gr : $_->[1] } map { [$_ =~ /^"(.*?)"?$/ ? ($1, undef) : (undef, $_)] }
		$line =~ /("(?:[^"]|"")*"?|\S+)/g;
}

# What .TP and .TQ introduce in a section: lists of [font, text], the font being B, I or R.
sub tags {
	my ($self, $section) = @_;
	my @tags;
	while (($self->{section}{$section} // '') =~ /^\.T[PQ]\n(?:\.([BIR]{1,2}) )?(.*)$/mg) {
		my ($macro, $line) = ($1 // 'R', $2);
		my @fonts = split //, $macro;
		my @words = @fonts == 1 ? join(' ', arguments($line)) : arguments($line);
		my $i = 0;
		push @tags, [map { [$fonts[$i++ % @fonts], $_] } @words];
	}
	return @tags;
}

# The same as text, without fonts.
sub tag_lines {
	my ($self, $section) = @_;
	return map { plain(join '', map { $_->[1] } @$_) } $self->tags($section);
}

# {long => letter} from lines like "  -o, --output DIR" and "--output DIR". Every verb has --help.
sub options_of {
	my %letter = map { /^\s*(?:-(\w), )?--([a-z-]+)/ ? ($2 => $1 // '') : () } @_;
	delete $letter{help};
	return \%letter;
}

1;
