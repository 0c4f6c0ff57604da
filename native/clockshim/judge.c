/* Checks the checksums of what has arrived; see card.h. */
#include "card.h"

#include <linux/virtio_net.h>
#include <netinet/in.h>

#include "bytes.h"
#include "checksum.h"

/* IPv4's flag "more fragments" and the offset of a fragment, in one word. */
#define FRAGMENT 0x3fffu

/* A transport segment, and the addresses that its checksum covers. */
struct segment {
    const unsigned char *addresses;
    size_t size; /* of both addresses */
    const unsigned char *bytes;
    size_t length;
    uint8_t protocol;
};

/* Finds the transport segment in a datagram. Returns false if there is none that a card understands. */
static bool find(const unsigned char *datagram, size_t length, struct segment *segment)
{
    if (length >= IPV4_HEADER && datagram[0] >> 4 == 4) {
        size_t header = (size_t)(datagram[0] & 15) * 4, whole = read16(datagram + 2);
        if (header < IPV4_HEADER || header > whole || whole > length || (read16(datagram + 6) & FRAGMENT) != 0)
            return false;
        *segment = (struct segment){datagram + 12, 8, datagram + header, whole - header, datagram[9]};
        return true;
    }
    if (length >= IPV6_HEADER && datagram[0] >> 4 == 6) {
        size_t payload = read16(datagram + 4);
        if (payload > length - IPV6_HEADER)
            return false;
        *segment = (struct segment){datagram + 8, 32, datagram + IPV6_HEADER, payload, datagram[6]};
        return true;
    }
    return false;
}

static bool is_sound(const struct segment *segment)
{
    bool tcp = segment->protocol == IPPROTO_TCP && segment->length >= TCP_HEADER;
    bool udp = segment->protocol == IPPROTO_UDP && segment->length >= UDP_HEADER;
    /* UDP without a checksum, or with padding, is left to the kernel. */
    if (udp)
        udp = read16(segment->bytes + UDP_CHECKSUM) != 0 && read16(segment->bytes + 4) == segment->length;
    if (!tcp && !udp)
        return false;
    struct checksum checksum = {0};
    checksum_add_pseudo(&checksum, segment->addresses, segment->size, segment->protocol, (uint32_t)segment->length);
    checksum_add(&checksum, segment->bytes, segment->length);
    return checksum_fold(&checksum) == UINT16_MAX;
}

void card_judge(unsigned char meta[CARD_META], const unsigned char *datagram, size_t length)
{
    struct virtio_net_hdr header = {0};
    struct segment segment;
    if (find(datagram, length, &segment) && is_sound(&segment))
        header.flags = VIRTIO_NET_HDR_F_DATA_VALID;
    memcpy(meta, &header, CARD_META);
}
