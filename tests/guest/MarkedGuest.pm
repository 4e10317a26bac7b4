# SPDX-License-Identifier: GPL-2.0-or-later
#
# A traced guest that comes to marks: survive-guest on the KVM host, and what it left.
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

# $out has an initrd for it. Returns the guest's log and what survive-guest has put down: see there.
sub run {
	my ($out, $version, $mode, $command) = @_;
	is(on_kvm_host({timeout => 240}, dirname(__FILE__) . '/survive-guest', $out, kernel_image($version),
		"$out/initrd", $mode, $command), 0, 'the KVM host did its job');
	my $result = eval { decode_json(slurp("$out/result.json")) } // {failure => 'it never ended'};
	is($result->{failure}, undef, 'it went as it should') or diag(slurp("$out/err"));
	is($result->{status}, 0, 'sonde run ended well') or diag(slurp("$out/err"));
	return (read_log("$out/log"), $result);
}

1;
