# SPDX-License-Identifier: GPL-2.0-or-later
#
# Which guests a test is for: the rows of tests/guest/configs, or of another file like it, or just kernels.
# GUEST='6.1 6.12/4' in the environment picks some.
package GuestConfigs;

use strict;
use warnings;
use File::Basename qw(dirname);

# The kernels of GUEST, of a row's name the first part; else those given.
sub kernels {
	my (@default) = @_;
	my %seen;
	my @named = grep { !$seen{$_}++ } map { s{/.*}{}r } split ' ', $ENV{GUEST} // '';
	return @named ? @named : @default;
}

sub rows {
	my ($file) = @_;
	my @rows;
	$file //= dirname(__FILE__) . '/configs';
	open my $in, '<', $file or die "$file: $!";
	my @columns;
	while (<$in>) {
		next if /^\s*(#|$)/;
		my @field = split;
		@columns = @field, next unless @columns;
		my %row;
		@row{@columns} = @field;
		push @rows, \%row;
	}
	return @rows unless length($ENV{GUEST} // '');
	my %wanted = map { $_ => 1 } split ' ', $ENV{GUEST};
	return grep { $wanted{$_->{kernel}} || $wanted{"$_->{kernel}/$_->{cpus}"} } @rows;
}

1;
