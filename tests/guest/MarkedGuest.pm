# SPDX-License-Identifier: GPL-2.0-or-later
#
# Runs survive-guest on the KVM host, and reads its results.
package MarkedGuest;

use strict;
use warnings;
use File::Basename qw(dirname);
use JSON::PP;
use Test::More;
use Files;
use GuestLog;
use Testbed;
use Tree;

# $out has the initrd; $parameters, if any, are further ones for the kernel. Returns the guest's log and the content of result.json
# (see survive-guest); dies if there is none.
sub run {
	my ($out, $version, $mode, $command, $parameters) = @_;
	is(on_kvm_host({}, dirname(__FILE__) . '/survive-guest', $out, kernel_image($version),
		"$out/initrd", $mode, $command, $parameters // ''), 0, 'survive-guest ran on the KVM host');
	my $result = eval { decode_json(slurp("$out/result.json")) } // die "survive-guest left no result\n", slurp("$out/err");
	is($result->{failure}, undef, 'the guest passed all its marks') or diag(slurp("$out/err"));
	is($result->{status}, 0, 'sonde run exits with status 0') or diag(slurp("$out/err"));
	return (read_log("$out/log"), $result);
}

1;
