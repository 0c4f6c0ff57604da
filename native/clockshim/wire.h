/* Devices besides the first: their frames in the rings, and their wires.
 *
 * Each is one interface of a host that forwards, or a network card with offloads. In the rings its frames have a VLAN tag (IEEE 802.1Q), by which the Driver knows the
 * device; to the kernel they are ordinary frames. A device whose link has a constant rate has a wire that takes one frame after the other at
 * that rate, so that the kernel's own queue fills in front of it as on a real network card.
 */
#ifndef CLOCKSHIM_WIRE_H
#define CLOCKSHIM_WIRE_H

#include "shim.h"

#include "ring.h"

/* Bytes of the MAC addresses of a frame, behind which its tag stands. */
#define WIRE_ADDRESSES 12u

/* The number of the device with this descriptor, from 1 on; -1 if there is none. */
int wire_of(int fd);
/* The number of the device that a frame in a ring is for: 0 if it is the first one. */
unsigned wire_owner(const struct record *record);
/* Bytes that frames of a device have in the rings besides their own. */
size_t wire_tag(unsigned device);
/* Whether a device is a network card with offloads. */
bool wire_is_card(unsigned device);
/* Writes the tag of a device's frames. */
void wire_write_tag(unsigned device, unsigned char *to);
/* The wire of a device, if it has one, is busy with a frame of this length, its tag included, which is sent at `start` or behind those sent before. */
void wire_occupy(unsigned device, uint64_t start, size_t length);
/* Writes a frame of a device, made of several parts, to a reserved record of the right length; its time is set. Its wire is busy from then on. */
void wire_write(unsigned device, struct record *record, const struct iovec *parts, size_t count);
/* Reads a frame of a device from a record, as far as there is room; returns its length. */
ssize_t wire_read(unsigned device, const struct record *record, const struct iovec *parts, size_t count);
/* When the wire of a device can take the next frame: a time of the guest, which may have passed. */
uint64_t wire_free(unsigned device);

/* Says that a frame of this device waits for its wire. Returns whether the device has not asked this question yet since it last sent. */
bool wire_asks(unsigned device, uint64_t question);

/* Returns when the first of the wires that frames wait for is free, of those that are not free now. */
uint64_t wire_next(uint64_t now);

#endif
