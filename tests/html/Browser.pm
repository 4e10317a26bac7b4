# SPDX-License-Identifier: GPL-2.0-or-later
#
# A headless Chromium, driven by chromedriver as the W3C's WebDriver says.
package Browser;

use strict;
use warnings;
use HTTP::Tiny;
use JSON::PP;
use MIME::Base64;
use POSIX qw(:sys_wait_h);
use Time::HiRes qw(sleep time);

my %keys = (
	enter => "\x{e007}", escape => "\x{e00c}", end => "\x{e010}", home => "\x{e011}", left => "\x{e012}", up => "\x{e013}",
	right => "\x{e014}", down => "\x{e015}",
);

# The reason why there is no browser, or undef.
sub missing {
	for my $program (qw(chromium chromedriver)) {
		return "$program is not installed (Debian's chromium and chromium-driver; tests/setup html)"
			unless grep { -x "$_/$program" } split /:/, $ENV{PATH};
	}
	return undef;
}

sub new {
	my ($class, %options) = @_;
	my $self = bless {http => HTTP::Tiny->new(timeout => 180), log => "$options{dir}/chromedriver.log"}, $class;
	$self->{pid} = fork // die "fork: $!\n";
	if (!$self->{pid}) {
		open STDOUT, '>', $self->{log} or die;
		open STDERR, '>&', \*STDOUT or die;
		exec 'chromedriver', '--port=0' or die;
	}
	my $end = time + 180;
	until ($self->{port}) {
		die "chromedriver does not start; see $self->{log}\n" if time > $end || waitpid($self->{pid}, WNOHANG);
		sleep 0.1;
		open my $log, '<', $self->{log} or next;
		$self->{port} = $1 if join('', <$log>) =~ /on port (\d+)\./;
	}
	my $session = $self->ask(POST => '/session', {capabilities => {alwaysMatch => {
		'goog:loggingPrefs' => {browser => 'ALL'},
		'goog:chromeOptions' => {args => ['--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--force-color-profile=srgb',
			"--user-data-dir=$options{dir}/profile", '--window-size=1400,900', $options{dark} ? '--force-dark-mode' : ()]}}}});
	$self->{session} = "/session/$session->{sessionId}";
	return $self;
}

# The value of WebDriver's answer.
sub ask {
	my ($self, $method, $path, $body) = @_;
	my $answer = $self->{http}->request($method, "http://127.0.0.1:$self->{port}$path",
		{$body ? (content => JSON::PP->new->utf8->encode($body)) : (), headers => {'content-type' => 'application/json'}});
	die "$method $path: $answer->{status} $answer->{content}\n" unless $answer->{success};
	return JSON::PP->new->utf8->decode($answer->{content})->{value};
}

sub open_file {
	my ($self, $path) = @_;
	return $self->ask(POST => "$self->{session}/url", {url => "file://$path"});
}

# What the function body $code returns in the page.
sub run {
	my ($self, $code, @arguments) = @_;
	return $self->ask(POST => "$self->{session}/execute/sync", {script => $code, args => \@arguments});
}

# Types each argument: a name of %keys, or a character.
sub press {
	my ($self, @names) = @_;
	my @actions = map { my $key = $keys{$_} // $_; ({type => 'keyDown', value => $key}, {type => 'keyUp', value => $key}) } @names;
	return $self->ask(POST => "$self->{session}/actions", {actions => [{type => 'key', id => 'keyboard', actions => \@actions}]});
}

# Drags from one x to another, at y.
sub drag {
	my ($self, $from, $to, $y) = @_;
	my $move = sub { return {type => 'pointerMove', duration => 50, x => int $_[0], y => int $y} };
	return $self->ask(POST => "$self->{session}/actions", {actions => [{type => 'pointer', id => 'mouse', actions =>
		[$move->($from), {type => 'pointerDown', button => 0}, $move->($to), {type => 'pointerUp', button => 0}]}]});
}

sub media {
	my ($self, %features) = @_;
	return $self->ask(POST => "$self->{session}/goog/cdp/execute", {cmd => 'Emulation.setEmulatedMedia',
		params => {features => [map { {name => $_, value => $features{$_}} } sort keys %features]}});
}

# Lines that the page, or the browser because of it, has complained in.
sub complaints {
	my ($self) = @_;
	return map { $_->{message} } @{$self->ask(POST => "$self->{session}/se/log", {type => 'browser'})};
}

sub save {
	my ($path, $base64) = @_;
	open my $file, '>:raw', $path or die "$path: $!\n";
	print $file decode_base64($base64);
	close $file or die "$path: $!\n";
}

sub screenshot {
	my ($self, $path) = @_;
	$self->run('return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))');
	return save($path, $self->ask(GET => "$self->{session}/screenshot"));
}

sub print_pdf {
	my ($self, $path) = @_;
	return save($path, $self->ask(POST => "$self->{session}/print", {orientation => 'landscape', background => JSON::PP::true}));
}

sub close {
	my ($self) = @_;
	my $pid = delete $self->{pid} or return;
	eval { $self->ask(DELETE => $self->{session}) } if $self->{session};
	kill TERM => $pid;
	waitpid $pid, 0;
}

# Also of a test that dies.
sub DESTROY {
	my ($self) = @_;
	local ($?, $@);
	$self->close;
}

1;
