# SPDX-License-Identifier: GPL-2.0-or-later
#
# Histograms of the guest's own hist triggers, and of `sonde hist --json`, in one form.
package HistEntries;

use strict;
use warnings;
use Exporter qw(import);

our @EXPORT = qw(own_entries seen_entries);

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

1;
