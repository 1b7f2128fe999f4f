// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sets the hardware address of the loopback device, and sends one frame over it.
 */
#include <arpa/inet.h>
#include <err.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "arguments.h"

/* For experiments: nothing else listens to it. */
#define PROTOCOL ETH_P_802_EX1

static const char usage[] =
	"Usage: frame ADDRESS [PROTOCOL]\n"
	"\n"
	"Sets the hardware address of lo to ADDRESS, sends it a frame of a protocol (an\n"
	"EtherType, by default an experimental one) and receives it.\n";

static void read_address(unsigned char *address, const char *text)
{
	int end = 0;

	if (sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx%n", &address[0],
		   &address[1], &address[2], &address[3], &address[4],
		   &address[5], &end) != ETH_ALEN || text[end])
		errx(EXIT_FAILURE, "`%s` is not a hardware address", text);
}

/* Sets lo's address and brings it up; returns a socket for its frames. */
static int packet_socket(const unsigned char *address, uint16_t protocol)
{
	struct ifreq request = { .ifr_name = "lo" };
	struct sockaddr_ll place = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(protocol),
		.sll_ifindex = if_nametoindex("lo"),
	};
	/* Protocol 0 until bind(): else it receives frames of every device. */
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	if (fd == -1)
		err(EXIT_FAILURE, "packet socket");
	/* The address can only be set while the device is down. */
	request.ifr_flags = 0;
	if (ioctl(fd, SIOCSIFFLAGS, &request))
		err(EXIT_FAILURE, "lo down");
	request.ifr_hwaddr.sa_family = ARPHRD_LOOPBACK;
	memcpy(request.ifr_hwaddr.sa_data, address, ETH_ALEN);
	if (ioctl(fd, SIOCSIFHWADDR, &request))
		err(EXIT_FAILURE, "lo's address");
	request.ifr_flags = IFF_UP;
	if (ioctl(fd, SIOCSIFFLAGS, &request))
		err(EXIT_FAILURE, "lo up");
	if (bind(fd, (struct sockaddr *)&place, sizeof(place)))
		err(EXIT_FAILURE, "bind");
	return fd;
}

int main(int argc, char **argv)
{
	unsigned char frame[ETH_ZLEN] = { 0 }, address[ETH_ALEN];
	struct ethhdr *header = (void *)frame;
	uint16_t protocol = PROTOCOL;
	ssize_t length;
	int fd;

	expect_arguments(argc - (argc == 3), argv, 1, usage);
	if (argc == 3)
		protocol = integer(argv[2]);
	read_address(address, argv[1]);
	fd = packet_socket(address, protocol);
	memcpy(header->h_dest, address, ETH_ALEN);
	header->h_proto = htons(protocol);
	if (send(fd, frame, sizeof(frame), 0) != sizeof(frame))
		err(EXIT_FAILURE, "send");
	length = recv(fd, frame, sizeof(frame), 0);
	if (length == -1)
		err(EXIT_FAILURE, "receive");
	printf("lo received %zd bytes\n", length);
	return EXIT_SUCCESS;
}
