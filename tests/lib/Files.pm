# SPDX-License-Identifier: GPL-2.0-or-later
#
# Whole files, as bytes.
package Files;

use strict;
use warnings;
use Exporter qw(import);
use File::Path qw(make_path remove_tree);

our @EXPORT = qw(slurp must_slurp write_file empty_folder);

# Returns '' if the file cannot be read, so that the caller's test fails instead of the whole script.
sub slurp {
	my ($path) = @_;
	open my $in, '<:raw', $path or return '';
	local $/;
	return scalar(<$in>) // '';
}

sub must_slurp {
	my ($path) = @_;
	open my $in, '<:raw', $path or die "$path: $!\n";
	local $/;
	return scalar(<$in>) // '';
}

sub write_file {
	my ($path, @text) = @_;
	open my $out, '>:raw', $path or die "$path: $!\n";
	print $out @text;
	close $out or die "$path: $!\n";
}

# Removes the folder with its content and creates it again.
sub empty_folder {
	my ($path) = @_;
	remove_tree($path);
	make_path($path);
}

1;
