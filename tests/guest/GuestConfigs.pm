# SPDX-License-Identifier: GPL-2.0-or-later
#
# The guests that a test runs with: rows of tests/guest/configs or of a similar file, or kernels only.
# GUEST='6.1 6.12/4' in the environment selects some.
package GuestConfigs;

use strict;
use warnings;
use File::Basename qw(dirname);

# The kernels of GUEST (the part before the slash of each name), or else the default.
sub kernels {
	my (@default) = @_;
	my %seen;
	my @named = grep { !$seen{$_}++ } map { s{/.*}{}r } split ' ', $ENV{GUEST} // '';
	return @named ? @named : @default;
}

# Kernels with numbers of vCPUs: [kernel, vCPUs] of GUEST's names, or else of the default. A name without a slash means one
# vCPU.
sub guests {
	my (@default) = @_;
	my @named = split ' ', $ENV{GUEST} // '';
	return map { my ($kernel, $cpus) = split m{/}; [$kernel, $cpus // 1] } @named ? @named : @default;
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
		@field == @columns or die "$file:$.: ", scalar(@field), " values for ", scalar(@columns), " columns\n";
		my %row;
		@row{@columns} = @field;
		push @rows, \%row;
	}
	return @rows unless length($ENV{GUEST} // '');
	my %wanted = map { $_ => 1 } split ' ', $ENV{GUEST};
	return grep { $wanted{$_->{kernel}} || $wanted{"$_->{kernel}/$_->{cpus}"} } @rows;
}

1;
