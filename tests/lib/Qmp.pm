# SPDX-License-Identifier: GPL-2.0-or-later
#
# A small QMP client that shares no code with the product's.
package Qmp;

use strict;
use warnings;
use IO::Socket::UNIX;
use JSON::PP;
use Time::HiRes qw(sleep time);

sub connect {
	my ($class, $path, $seconds) = @_;
	my $end = time + $seconds;
	my $socket;
	until ($socket = IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => $path)) {
		die "no monitor at $path: $!\n" if time > $end;
		sleep 0.01;
	}
	my $self = bless {socket => $socket, seconds => $seconds}, $class;
	$self->read_message->{QMP} or die "no greeting\n";
	$self->ask('qmp_capabilities');
	return $self;
}

sub read_message {
	my ($self) = @_;
	local $SIG{ALRM} = sub { die "no answer within $self->{seconds} s\n" };
	alarm $self->{seconds};
	my $line = readline $self->{socket};
	alarm 0;
	die "the monitor hung up\n" unless defined $line;
	return decode_json($line);
}

# Returns the answer, {return => ...} or {error => ...}. Events that come before it are ignored.
sub try {
	my ($self, $verb, %arguments) = @_;
	$self->{socket}->printflush(encode_json({execute => $verb, arguments => \%arguments}), "\n");
	while (1) {
		my $answer = $self->read_message;
		return $answer unless $answer->{event};
	}
}

sub ask {
	my ($self, $verb, @arguments) = @_;
	my $answer = $self->try($verb, @arguments);
	die "$verb: $answer->{error}{desc}\n" if $answer->{error};
	return $answer->{return};
}

1;
