// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sends itself a signal that is ignored, then sets an interval timer and waits
 * for its signal.
 */
#define _GNU_SOURCE
#include <err.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "arguments.h"

static const char usage[] =
	"Usage: alarm MICROSECONDS\n"
	"\n"
	"Prints the address of its handler, sends itself SIGURG, waits for a SIGALRM\n"
	"of ITIMER_REAL, and prints that the handler has run.\n";

static volatile sig_atomic_t rung;

static void ring(int signal)
{
	(void)signal;
	rung++;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = ring };
	struct itimerval timer = { 0 };
	unsigned long us;
	sigset_t blocked, before;

	expect_arguments(argc, argv, 1, usage);
	us = integer(argv[1]);
	timer.it_value.tv_sec = us / 1000000;
	timer.it_value.tv_usec = us % 1000000;
	printf("handler at %#" PRIxPTR "\n", (uintptr_t)ring);
	/* The signal must not arrive before sigsuspend(). */
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGALRM);
	if (sigprocmask(SIG_BLOCK, &blocked, &before) || sigaction(SIGALRM, &action, NULL))
		err(EXIT_FAILURE, "sigprocmask or sigaction");
	/* SIGURG is ignored unless it has a handler. */
	if (kill(getpid(), SIGURG))
		err(EXIT_FAILURE, "kill");
	if (setitimer(ITIMER_REAL, &timer, NULL))
		err(EXIT_FAILURE, "setitimer");
	while (!rung)
		sigsuspend(&before);
	printf("rung %d\n", (int)rung);
	return EXIT_SUCCESS;
}
