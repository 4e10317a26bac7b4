# SPDX-License-Identifier: GPL-2.0-or-later
#
# Histograms of the guest's own hist triggers, and of `sonde hist --json`, in one form.
package HistEntries;

use strict;
use warnings;
use Exporter qw(import);

our @EXPORT = qw(own_entries seen_entries own_chains seen_chains);

# Of a chain. The kernel's has 16, of which one or more are of the allocator.
use constant FRAMES => 12;

sub number {
	my ($text) = @_;
	no warnings 'portable';
	return $text =~ /^0x/ ? hex $text : $text;
}

# Of a `hist` file of ftrace. By key, numbers joined by blanks: "hits sum ..."
sub own_entries {
	my ($text) = @_;
	my %entries;
	for (split /\n/, $text) {
		my ($keys, $hits, $sums) = /^\{ (.*?) \} hitcount: +(\d+)(.*)/ or next;
		my @keys = map { /call_site: (\w+)/ ? "0x$1" : /: +(-?\w+)/ } split /, /, $keys;
		$entries{join ' ', map { number($_) } @keys} = join ' ', $hits, $sums =~ /: +(\d+)/g;
	}
	return \%entries;
}

# Of the instance `name`, and how many events are in none. `by_text`: keys that have a symbol are that.
sub seen_entries {
	my ($document, $name, $by_text) = @_;
	my ($table) = grep { $_->{name} eq $name } @{$document->{histograms} // []};
	my %entries;
	for my $row (@{$table->{rows} // []}) {
		my @keys = map {
			my $n = number($_->{number});
			$by_text && ($_->{text} // '') =~ /\+0x/ ? $_->{text} : $n < 0 ? sprintf('%u', $n) : $n
		} @{$row->{keys}};
		$entries{join ' ', @keys} = join ' ', $row->{hitcount}, map { number($row->{values}{$_->{name}}) } @{$table->{values}};
	}
	return (\%entries, $table->{dropped});
}

sub add_chain {
	my ($chains, $hits, @frames) = @_;
	splice @frames, FRAMES if @frames > FRAMES;
	$chains->{join ' ', @frames} += $hits;
}

# Of a `hist` file by call chain: hits by chains, from the caller of the allocator on.
sub own_chains {
	my ($text) = @_;
	my %chains;
	while ($text =~ /^\{ (?:common_)?stacktrace:\n(.*?)^\} hitcount: +(\d+)/gms) {
		my ($lines, $hits) = ($1, $2);
		my @frames = $lines =~ /^\s+(\S+)/gm;
		my ($last) = grep { $frames[$_] =~ /^(?:__)?k(?:v?malloc|mem_cache_alloc)/ } reverse 0 .. ($#frames < 3 ? $#frames : 3);
		add_chain(\%chains, $hits, @frames[($last // -1) + 1 .. $#frames]);
	}
	return \%chains;
}

# Of the instance `name`, and how many hits have a chain that is cut before that.
sub seen_chains {
	my ($document, $name) = @_;
	my ($table) = grep { $_->{name} eq $name } @{$document->{histograms} // []};
	my ($cut, %chains) = (0);
	for my $row (@{$table->{rows} // []}) {
		my $key = $row->{keys}[0];
		my @frames = map { $_->{text} } @{$key->{frames}};
		shift @frames while @frames && $frames[0] =~ /^(?:__)?k(?:v?malloc|mem_cache_alloc)/;
		if ($key->{cut} && @frames < FRAMES) { $cut += $row->{hitcount} }
		else { add_chain(\%chains, $row->{hitcount}, @frames) }
	}
	return (\%chains, $cut, $table->{dropped});
}

1;
