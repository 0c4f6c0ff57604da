/* Cuts what the kernel sends into frames, and computes their checksums, as the kernel does for a card that cannot (net/ipv4/tcp_offload.c,
 * tcp_gso_segment; net/ipv4/af_inet.c, inet_gso_segment; net/core/dev.c, skb_checksum_help); see card.h.
 */
#include "card.h"

#include <arpa/inet.h>
#include <linux/virtio_net.h>
#include <netinet/in.h>
#include <string.h>

#include "bytes.h"
#include "checksum.h"

_Static_assert(sizeof(struct virtio_net_hdr) == CARD_META, "the header of the kernel's driver");

/* Flags of TCP that only the first frame has, and those that only the last has (RFC 3168 section 6.1.2; tcp_gso_segment). */
#define FIRST_ONLY TCP_CWR
#define LAST_ONLY (TCP_FIN | TCP_PSH)

/* Copies the next bytes of the payload, and adds them to the checksum. */
static void take(struct cut *cut, struct checksum *checksum, unsigned char *to, size_t length)
{
    while (length > 0) {
        const struct iovec *part = &cut->parts[cut->part];
        size_t here = part->iov_len - cut->at < length ? part->iov_len - cut->at : length;
        if (here > 0)
            checksum_copy(checksum, to, (const unsigned char *)part->iov_base + cut->at, here);
        to += here;
        length -= here;
        cut->at += here;
        if (cut->at == part->iov_len && cut->part + 1 < cut->count) {
            cut->part++;
            cut->at = 0;
        }
    }
}

/* Reads the headers of a TCP segment that is to be cut. */
static bool read_tcp(struct cut *cut, uint8_t kind, size_t total)
{
    const unsigned char *ip = cut->headers + CARD_ETHERNET;
    uint16_t type = read16(cut->headers + 12);
    bool v4 = kind == VIRTIO_NET_HDR_GSO_TCPV4;
    if (!v4 && kind != VIRTIO_NET_HDR_GSO_TCPV6)
        return false;
    /* The headers that were copied end at 192 bytes, or with the frame. */
    size_t known = total < CARD_HEADERS ? total : CARD_HEADERS;
    if (!cut->sums || cut->field != TCP_CHECKSUM || cut->size == 0 || (size_t)cut->start + TCP_HEADER > known)
        return false;
    if (v4 && (type != TYPE_IPV4 || cut->start != CARD_ETHERNET + (ip[0] & 15) * 4u || cut->start < CARD_ETHERNET + IPV4_HEADER || ip[9] != IPPROTO_TCP))
        return false;
    if (!v4 && (type != TYPE_IPV6 || cut->start < CARD_ETHERNET + IPV6_HEADER))
        return false;
    size_t own = (size_t)(cut->headers[cut->start + 12] >> 4) * 4;
    if (own < TCP_HEADER || cut->start + own > known)
        return false;
    cut->header = (uint16_t)(cut->start + own);
    cut->version = v4 ? 4 : 6;
    return true;
}

bool cut_begin(struct cut *cut, const struct iovec *parts, size_t count)
{
    struct virtio_net_hdr meta;
    if (count < 2 || parts[0].iov_len != CARD_META)
        return false;
    memcpy(&meta, parts[0].iov_base, CARD_META);
    size_t total = 0;
    for (size_t i = 1; i < count; i++)
        total += parts[i].iov_len;
    if (total < CARD_ETHERNET)
        return false;
    *cut = (struct cut){.parts = parts + 1, .count = count - 1, .left = total, .size = meta.gso_size, .start = meta.csum_start, .field = meta.csum_offset};
    cut->sums = meta.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM;
    if (cut->sums && (cut->start < CARD_ETHERNET || (size_t)cut->start + cut->field + 2 > total))
        return false;
    struct checksum ignored = {0};
    take(cut, &ignored, cut->headers, total < CARD_HEADERS ? total : CARD_HEADERS);
    uint8_t kind = meta.gso_type & (uint8_t)~VIRTIO_NET_HDR_GSO_ECN;
    cut->header = CARD_ETHERNET;
    if (kind != VIRTIO_NET_HDR_GSO_NONE && !read_tcp(cut, kind, total))
        return false;
    /* The payload begins behind the headers. */
    cut->part = cut->at = 0;
    unsigned char skipped[CARD_HEADERS];
    take(cut, &ignored, skipped, cut->header);
    cut->left = total - cut->header;
    if (cut->version == 0)
        cut->size = cut->left;
    return true;
}

size_t cut_length(const struct cut *cut)
{
    if (cut->frames > 0 && cut->left == 0)
        return 0;
    return cut->header + (cut->left < cut->size ? cut->left : cut->size);
}

/* Writes a checksum. UDP's is sent as its other form if it is 0, which stands for none there (RFC 768). */
static void write_checksum(const struct cut *cut, unsigned char *frame, const struct checksum *checksum)
{
    uint16_t value = (uint16_t)~checksum_fold(checksum);
    if (value == 0 && cut->field == UDP_CHECKSUM)
        value = UINT16_MAX;
    memcpy(frame + cut->start + cut->field, &value, sizeof value);
}

/* Changes the headers of one of several frames: they are at `to`, but for the bytes up to the type, which end at `ip`. */
static void change_headers(const struct cut *cut, unsigned char *ip, size_t payload, bool last, struct checksum *checksum)
{
    unsigned char *tcp = ip + cut->start - CARD_ETHERNET;
    size_t tcp_length = (size_t)(cut->header - cut->start) + payload;
    size_t whole = cut->header - CARD_ETHERNET + payload;
    if (cut->version == 4) {
        write16(ip + 2, (uint16_t)whole);
        write16(ip + 4, (uint16_t)(read16(ip + 4) + cut->frames));
        struct checksum header = {0};
        memset(ip + 10, 0, 2);
        checksum_add(&header, ip, (size_t)(ip[0] & 15) * 4);
        uint16_t value = (uint16_t)~checksum_fold(&header);
        memcpy(ip + 10, &value, sizeof value);
    } else {
        write16(ip + 4, (uint16_t)(whole - IPV6_HEADER));
    }
    write32(tcp + 4, read32(tcp + 4) + (uint32_t)(cut->frames * cut->size));
    if (cut->frames > 0)
        tcp[13] &= (unsigned char)~FIRST_ONLY;
    if (!last)
        tcp[13] &= (unsigned char)~LAST_ONLY;
    memset(tcp + TCP_CHECKSUM, 0, 2);
    bool v4 = cut->version == 4;
    checksum_add_pseudo(checksum, ip + (v4 ? 12 : 8), v4 ? 8 : 32, IPPROTO_TCP, (uint32_t)tcp_length);
    checksum_add(checksum, tcp, (size_t)(cut->header - cut->start));
}

void cut_next(struct cut *cut, unsigned char *to, size_t gap)
{
    size_t payload = cut->left < cut->size ? cut->left : cut->size;
    unsigned char *frame = to + gap; /* from its type on, it stands where it would without a gap in front of it */
    memcpy(to, cut->headers, 12);
    memcpy(frame + 12, cut->headers + 12, (size_t)(cut->header - 12));
    cut->left -= payload;
    struct checksum checksum = {0};
    if (cut->version != 0) {
        change_headers(cut, frame + CARD_ETHERNET, payload, cut->left == 0, &checksum);
        take(cut, &checksum, frame + cut->header, payload);
        write_checksum(cut, frame, &checksum);
    } else {
        /* What stands in front of the checksummed part is not part of it. */
        struct checksum ignored = {0};
        size_t before = cut->sums ? cut->start - CARD_ETHERNET : payload;
        take(cut, &ignored, frame + CARD_ETHERNET, before);
        take(cut, &checksum, frame + CARD_ETHERNET + before, payload - before);
        if (cut->sums)
            write_checksum(cut, frame, &checksum);
    }
    cut->frames++;
}
