/* Checks the frames that have arrived, and merges those of one TCP flow, by Linux's own rules for GRO (net/ipv4/tcp_offload.c, tcp_gro_receive;
 * net/ipv4/af_inet.c, inet_gro_receive; net/ipv6/ip6_offload.c, ipv6_gro_receive); see card.h.
 *
 * Of those rules one is left out: frames that all have the same IPv4 identification are not merged, since the virtio header cannot say so.
 */
#include "card.h"

#include <linux/virtio_net.h>
#include <netinet/in.h>

#include "bytes.h"
#include "checksum.h"

/* The longest IP datagram. */
#define DATAGRAM_MOST 65535u
/* IPv4's flag "don't fragment", in the word with the offset of fragments. */
#define IPV4_DF 0x4000u
/* Bytes of TCP's header in which two frames may differ: those flags do not count. */
#define FREE_FLAGS (TCP_CWR | TCP_FIN | TCP_PSH)

/* A frame that has arrived. */
struct arrived {
    const unsigned char *datagram;
    size_t length;
    uint16_t start, header; /* where TCP and its payload begin */
    bool tcp;               /* whether it is TCP without fragments and the like, whose headers are whole */
    bool sound;             /* whether its transport checksum was found right */
};

void merge_begin(struct merge *merge, struct mmsghdr *messages, size_t count)
{
    merge->messages = messages;
    merge->count = count < MERGE_MOST ? count : MERGE_MOST;
    merge->used = 0;
}

/* Whether the transport checksum is right. */
static bool is_sound(const unsigned char *datagram, size_t length, size_t start, uint8_t protocol)
{
    bool v4 = datagram[0] >> 4 == 4;
    struct checksum checksum = {0};
    checksum_add_pseudo(&checksum, datagram + (v4 ? 12 : 8), v4 ? 8 : 32, protocol, (uint32_t)(length - start));
    checksum_add(&checksum, datagram + start, length - start);
    return checksum_fold(&checksum) == UINT16_MAX;
}

/* Where the transport header begins, and its protocol; 0 if the datagram is none that a card understands. */
static size_t transport(const unsigned char *datagram, size_t length, uint8_t *protocol)
{
    if (length >= IPV4_HEADER && datagram[0] == 0x45) {
        struct checksum header = {0};
        checksum_add(&header, datagram, IPV4_HEADER);
        bool whole = read16(datagram + 2) == length && (read16(datagram + 6) & (uint16_t)~IPV4_DF) == 0;
        *protocol = datagram[9];
        return whole && checksum_fold(&header) == UINT16_MAX ? IPV4_HEADER : 0;
    }
    if (length >= IPV6_HEADER && datagram[0] >> 4 == 6) {
        *protocol = datagram[6];
        return read16(datagram + 4) == length - IPV6_HEADER ? IPV6_HEADER : 0;
    }
    return 0;
}

static struct arrived look(const unsigned char *datagram, size_t length)
{
    struct arrived arrived = {.datagram = datagram, .length = length};
    uint8_t protocol = 0;
    size_t start = transport(datagram, length, &protocol);
    if (start == 0)
        return arrived;
    if (protocol == IPPROTO_UDP && length - start >= UDP_HEADER) {
        bool none = read16(datagram + start + UDP_CHECKSUM) == 0;
        arrived.sound = !none && read16(datagram + start + 4) == length - start && is_sound(datagram, length, start, protocol);
    } else if (protocol == IPPROTO_TCP && length - start >= TCP_HEADER) {
        size_t own = (size_t)(datagram[start + 12] >> 4) * 4;
        arrived.tcp = own >= TCP_HEADER && own <= length - start;
        arrived.sound = is_sound(datagram, length, start, protocol);
        arrived.start = (uint16_t)start;
        arrived.header = (uint16_t)(start + own);
    }
    return arrived;
}

/* Copies bytes to where a message's next byte goes. */
static void append(struct held *held, const unsigned char *bytes, size_t length)
{
    struct msghdr *message = held->message;
    if (length > held->room)
        length = held->room;
    held->room -= length;
    while (length > 0) {
        const struct iovec *part = &message->msg_iov[held->part];
        size_t size = part->iov_base ? part->iov_len : 0;
        size_t here = size - held->at < length ? size - held->at : length;
        if (here > 0)
            memcpy((unsigned char *)part->iov_base + held->at, bytes, here);
        bytes += here;
        length -= here;
        held->at += here;
        if (held->at == size) {
            held->part++;
            held->at = 0;
        }
    }
}

static bool same_flow(const struct held *held, const struct arrived *next)
{
    const unsigned char *a = held->datagram, *b = next->datagram;
    if (held->start != next->start)
        return false;
    /* Protocol and addresses, or with IPv6 the flow label and addresses. */
    bool ip = next->start == IPV4_HEADER ? memcmp(a + 12, b + 12, 8) == 0
                                         : memcmp(a + 8, b + 8, 32) == 0 && ((read32(a) ^ read32(b)) & 0xf00fffff) == 0;
    return ip && memcmp(a + held->start, b + next->start, 4) == 0;
}

/* Whether a frame continues what a message of the same flow holds. */
static bool continues(const struct held *held, const struct arrived *next)
{
    const unsigned char *a = held->datagram, *b = next->datagram;
    const unsigned char *s = a + held->start, *t = b + next->start;
    size_t payload = next->length - next->header;
    if (!held->sound || !next->sound || held->header != next->header || payload == 0 || payload > held->size)
        return false;
    if (held->length + payload > DATAGRAM_MOST || payload > held->room)
        return false;
    if (next->start == IPV4_HEADER) {
        uint16_t identification = (uint16_t)(held->identification + held->frames);
        if (a[1] != b[1] || a[8] != b[8] || read16(a + 6) != read16(b + 6) || read16(b + 4) != identification)
            return false;
    } else if (((read32(a) ^ read32(b)) & 0x0ff00000) != 0 || a[7] != b[7]) {
        return false;
    }
    bool flags = (t[13] & TCP_CWR) == 0 && s[12] == t[12] && ((s[13] ^ t[13]) & (unsigned char)~FREE_FLAGS) == 0;
    bool numbers = read32(t + 4) == held->sequence && memcmp(s + 8, t + 8, 4) == 0 && memcmp(s + 14, t + 14, 2) == 0;
    return flags && numbers && memcmp(s + TCP_HEADER, t + TCP_HEADER, (size_t)(held->header - held->start) - TCP_HEADER) == 0;
}

/* Whether a message may get more after this frame. */
static bool stays_open(const struct held *held, const struct arrived *last)
{
    size_t payload = last->length - last->header;
    const unsigned char ends = TCP_URG | TCP_PSH | TCP_RST | TCP_SYN | TCP_FIN;
    return payload > 0 && payload == held->size && (last->datagram[last->start + 13] & ends) == 0;
}

/* Takes a message for a frame. */
static void start(struct merge *merge, const unsigned char *addresses, const unsigned char *type, const struct arrived *first)
{
    struct held *held = &merge->held[merge->used];
    struct msghdr *message = &merge->messages[merge->used].msg_hdr;
    merge->used++;
    *held = (struct held){.message = message, .part = 1, .frames = 1, .sound = first->sound, .length = (uint32_t)first->length};
    for (size_t i = 1; i < message->msg_iovlen; i++)
        held->room += message->msg_iov[i].iov_base ? message->msg_iov[i].iov_len : 0;
    if (CARD_ETHERNET + first->length > held->room) {
        /* The kernel had no memory for it: it gets an empty message, which it drops. */
        held->length = 0;
        held->sound = false;
        return;
    }
    /* Leaves out parts without memory. */
    const struct iovec *part = &message->msg_iov[held->part];
    append(held, addresses, 12);
    append(held, type, 2);
    append(held, first->datagram, first->length);
    if (!first->tcp || part->iov_len < CARD_ETHERNET + (size_t)first->header)
        return;
    const unsigned char *tcp = first->datagram + first->start;
    held->datagram = (unsigned char *)part->iov_base + CARD_ETHERNET;
    held->start = first->start;
    held->header = first->header;
    held->size = (uint32_t)(first->length - first->header);
    held->sequence = read32(tcp + 4) + held->size;
    held->identification = read16(first->datagram + 4);
    held->flags = tcp[13] & (TCP_FIN | TCP_PSH);
    held->open = held->sound && stays_open(held, first);
}

bool merge_add(struct merge *merge, const unsigned char *addresses, const unsigned char *type, const unsigned char *datagram, size_t length)
{
    struct arrived next = look(datagram, length);
    /* The newest message of its flow: older ones are closed. */
    for (size_t i = next.tcp ? merge->used : 0; i > 0; i--) {
        struct held *held = &merge->held[i - 1];
        if (!held->datagram || !same_flow(held, &next))
            continue;
        if (!held->open || !continues(held, &next)) {
            held->open = false;
            break;
        }
        size_t payload = length - next.header;
        append(held, datagram + next.header, payload);
        held->length += (uint32_t)payload;
        held->frames++;
        held->sequence += (uint32_t)payload;
        held->flags |= datagram[next.start + 13] & (TCP_FIN | TCP_PSH);
        held->open = stays_open(held, &next);
        return true;
    }
    if (merge->used == merge->count)
        return false;
    start(merge, addresses, type, &next);
    return true;
}

/* Writes the headers of several frames as those of one that is to be cut like them. The checksum is left to whoever cuts it. */
static void join_headers(const struct held *held, struct virtio_net_hdr *meta)
{
    unsigned char *ip = held->datagram, *tcp = ip + held->start;
    bool v4 = held->start == IPV4_HEADER;
    struct checksum checksum = {0};
    if (v4) {
        write16(ip + 2, (uint16_t)held->length);
        memset(ip + 10, 0, 2);
        checksum_add(&checksum, ip, IPV4_HEADER);
        uint16_t value = (uint16_t)~checksum_fold(&checksum);
        memcpy(ip + 10, &value, sizeof value);
    } else {
        write16(ip + 4, (uint16_t)(held->length - IPV6_HEADER));
    }
    checksum = (struct checksum){0};
    checksum_add_pseudo(&checksum, ip + (v4 ? 12 : 8), v4 ? 8 : 32, IPPROTO_TCP, held->length - held->start);
    uint16_t pseudo = checksum_fold(&checksum);
    memcpy(tcp + TCP_CHECKSUM, &pseudo, sizeof pseudo);
    tcp[13] |= held->flags;
    meta->flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
    meta->gso_type = v4 ? VIRTIO_NET_HDR_GSO_TCPV4 : VIRTIO_NET_HDR_GSO_TCPV6;
    if (tcp[13] & TCP_CWR)
        meta->gso_type |= VIRTIO_NET_HDR_GSO_ECN;
    meta->hdr_len = (uint16_t)(CARD_ETHERNET + held->header);
    meta->gso_size = (uint16_t)held->size;
    meta->csum_start = (uint16_t)(CARD_ETHERNET + held->start);
    meta->csum_offset = TCP_CHECKSUM;
}

size_t merge_end(struct merge *merge)
{
    for (size_t i = 0; i < merge->used; i++) {
        const struct held *held = &merge->held[i];
        struct virtio_net_hdr meta = {0};
        if (held->frames > 1)
            join_headers(held, &meta);
        else if (held->sound)
            meta.flags = VIRTIO_NET_HDR_F_DATA_VALID;
        const struct iovec *first = &held->message->msg_iov[0];
        if (held->message->msg_iovlen > 0 && first->iov_base && first->iov_len >= CARD_META)
            memcpy(first->iov_base, &meta, CARD_META);
        merge->messages[i].msg_len = held->length ? (unsigned)(CARD_META + CARD_ETHERNET + held->length) : 0;
    }
    return merge->used;
}
