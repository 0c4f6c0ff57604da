/* The packet sockets by which the kernel's driver opens a network card with offloads. */
#ifndef CLOCKSHIM_SOCKETS_H
#define CLOCKSHIM_SOCKETS_H

/* The name of a device's network card, in the kernel's boot line: this and the number of the device. */
#define CARD_NAME "card"

/* The number of the device that a descriptor is a packet socket of; -1 if it is none. */
int sockets_device(int fd);

#endif
