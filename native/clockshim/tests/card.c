/* Tests of what a network card does: cutting segments and checking checksums. Built with sanitizers by crates/guest/tests/clockshim.rs. */
#include <linux/virtio_net.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "../bytes.h"
#include "../card.h"
#include "../checksum.h"
#include "../random.h"
#include "check.h"

#define PARTS 6u
#define LARGEST 65535u

static uint64_t state = 11;

static size_t draw(size_t below)
{
    return (size_t)(random_next(&state) % below);
}

static void fill(unsigned char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        bytes[i] = (unsigned char)random_next(&state);
}

/* The same bytes as a number of parts, in memory of exactly their lengths, so that the sanitizer sees each access beyond. Some are empty. */
static size_t split(struct iovec *parts, const unsigned char *bytes, size_t length)
{
    size_t count = 1 + draw(PARTS), at = 0;
    for (size_t i = 0; i < count; i++) {
        size_t here = i + 1 == count ? length - at : draw(length - at + 1);
        parts[i].iov_base = malloc(here ? here : 1);
        parts[i].iov_len = here;
        memcpy(parts[i].iov_base, bytes + at, here);
        at += here;
    }
    return count;
}

static void release(struct iovec *parts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(parts[i].iov_base);
}

/* The sum of RFC 1071 byte by byte, as it stands. */
static uint32_t plain(const unsigned char *bytes, size_t length, uint32_t sum)
{
    for (size_t i = 0; i < length; i++)
        sum += (uint32_t)bytes[i] << (i % 2 ? 0 : 8);
    while (sum > 0xffff)
        sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

static void sums_do_not_depend_on_the_pieces(void)
{
    /* The example of RFC 1071 section 3. */
    const unsigned char example[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
    struct checksum known = {0};
    checksum_add(&known, example, sizeof example);
    CHECK(ntohs(checksum_fold(&known)) == 0xddf2);
    unsigned char bytes[3000], copy[3000];
    for (int n = 0; n < 2000; n++) {
        size_t length = draw(sizeof bytes), at = 0;
        fill(bytes, length);
        if (n % 10 == 0)
            memset(bytes, 0xff, length);
        struct checksum checksum = {0};
        while (at < length) {
            size_t here = 1 + draw(length - at);
            if (draw(2))
                checksum_add(&checksum, bytes + at, here);
            else
                checksum_copy(&checksum, copy + at, bytes + at, here);
            memcpy(copy + at, bytes + at, here);
            at += here;
        }
        CHECK(memcmp(copy, bytes, length) == 0);
        CHECK(ntohs(checksum_fold(&checksum)) == plain(bytes, length, 0));
    }
}

/* Whether the checksum of a transport segment is right, by a plain sum. */
static bool transport_is_right(const unsigned char *ip, bool v4, const unsigned char *segment, size_t length)
{
    uint32_t sum = plain(ip + (v4 ? 12 : 8), v4 ? 8 : 32, (v4 ? ip[9] : ip[6]) + (uint32_t)length);
    return plain(segment, length, sum) == 0xffff;
}

/* Builds a TCP segment behind an Ethernet header, and its virtio header as the kernel writes it. Returns the whole length. */
static size_t build(unsigned char *frame, struct virtio_net_hdr *meta, bool v4, size_t payload, uint16_t size)
{
    size_t ip = v4 ? IPV4_HEADER : IPV6_HEADER, options = 4 * draw(11);
    size_t start = CARD_ETHERNET + ip, header = start + TCP_HEADER + options;
    fill(frame, header + payload);
    write16(frame + 12, v4 ? TYPE_IPV4 : TYPE_IPV6);
    unsigned char *at = frame + CARD_ETHERNET;
    if (v4) {
        at[0] = 0x45;
        write16(at + 2, (uint16_t)(header + payload - CARD_ETHERNET));
        write16(at + 6, 0x4000);
        at[9] = IPPROTO_TCP;
    } else {
        at[0] = 0x60;
        write16(at + 4, (uint16_t)(header + payload - start));
        at[6] = IPPROTO_TCP;
    }
    frame[start + 12] = (unsigned char)((TCP_HEADER + options) / 4 << 4);
    *meta = (struct virtio_net_hdr){.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .csum_start = (uint16_t)start, .csum_offset = TCP_CHECKSUM, .gso_size = size};
    meta->gso_type = v4 ? VIRTIO_NET_HDR_GSO_TCPV4 : VIRTIO_NET_HDR_GSO_TCPV6;
    return header + payload;
}

/* One frame of a segment that was cut. */
static void check_frame(const unsigned char *frame, const unsigned char *whole, const struct virtio_net_hdr *meta, size_t length, size_t done, uint32_t number)
{
    bool v4 = read16(whole + 12) == TYPE_IPV4;
    size_t start = meta->csum_start, header = start + (size_t)(whole[start + 12] >> 4) * 4;
    const unsigned char *ip = frame + CARD_ETHERNET, *tcp = frame + start, *first = whole + start;
    size_t left = length - header - done, payload = left < meta->gso_size ? left : meta->gso_size;
    bool last = payload == left;
    CHECK(memcmp(frame + header, whole + header + done, payload) == 0);
    CHECK(memcmp(frame, whole, CARD_ETHERNET) == 0);
    if (v4) {
        CHECK(read16(ip + 2) == header - CARD_ETHERNET + payload);
        CHECK(read16(ip + 4) == (uint16_t)(read16(whole + CARD_ETHERNET + 4) + number));
        CHECK(plain(ip, IPV4_HEADER, 0) == 0xffff);
        CHECK(memcmp(ip + 12, whole + CARD_ETHERNET + 12, 8) == 0 && ip[8] == whole[CARD_ETHERNET + 8]);
    } else {
        CHECK(read16(ip + 4) == header - start + payload);
        CHECK(memcmp(ip + 6, whole + CARD_ETHERNET + 6, 34) == 0);
    }
    CHECK(read32(tcp + 4) == read32(first + 4) + done);
    CHECK(memcmp(tcp + 8, first + 8, 5) == 0 && memcmp(tcp, first, 4) == 0);
    CHECK(memcmp(tcp + 14, first + 14, 2) == 0 && memcmp(tcp + 18, first + 18, header - start - 18) == 0);
    unsigned char flags = first[13];
    if (number > 0)
        flags &= (unsigned char)~TCP_CWR;
    if (!last)
        flags &= (unsigned char)~(TCP_FIN | TCP_PSH);
    CHECK(tcp[13] == flags);
    CHECK(transport_is_right(ip, v4, tcp, header - start + payload));
}

static void segments_are_cut_into_right_frames(void)
{
    static unsigned char whole[CARD_HEADERS + LARGEST];
    uint64_t frames = 0;
    for (int n = 0; n < 2000; n++) {
        struct virtio_net_hdr meta;
        struct iovec parts[1 + PARTS];
        uint16_t size = (uint16_t)(1 + draw(n % 2 ? 1448 : 60));
        size_t length = build(whole, &meta, n % 3 != 0, draw(n % 2 ? 65000 : 600), size);
        parts[0] = (struct iovec){&meta, CARD_META};
        size_t count = split(parts + 1, whole, length);
        struct cut cut;
        CHECK(cut_begin(&cut, parts, 1 + count));
        size_t header = cut.header, done = 0;
        uint32_t number = 0;
        for (size_t next = cut_length(&cut); next > 0; next = cut_length(&cut)) {
            CHECK(next <= header + size);
            unsigned char *frame = malloc(next + 4);
            cut_next(&cut, frame, 4);
            /* Closes the gap. */
            memmove(frame + 12, frame + 16, next - 12);
            check_frame(frame, whole, &meta, length, done, number);
            free(frame);
            done += next - header;
            number++;
        }
        CHECK(done == length - header && number > 0);
        frames += number;
        release(parts + 1, count);
    }
    CHECK(frames > 10000);
}

/* A frame that is not cut: its checksum is written where the kernel says. */
static void a_checksum_is_written_where_the_kernel_says(void)
{
    static unsigned char whole[CARD_HEADERS + LARGEST];
    for (int n = 0; n < 2000; n++) {
        struct virtio_net_hdr meta;
        struct iovec parts[1 + PARTS];
        bool v4 = n % 2;
        size_t length = build(whole, &meta, v4, draw(1400), 0);
        meta.gso_type = VIRTIO_NET_HDR_GSO_NONE;
        /* The kernel leaves the sum of the pseudo header in the field. */
        unsigned char *ip = whole + CARD_ETHERNET;
        uint32_t sum = plain(ip + (v4 ? 12 : 8), v4 ? 8 : 32, IPPROTO_TCP + (uint32_t)(length - meta.csum_start));
        write16(whole + meta.csum_start + TCP_CHECKSUM, (uint16_t)sum);
        parts[0] = (struct iovec){&meta, CARD_META};
        size_t count = split(parts + 1, whole, length);
        struct cut cut;
        CHECK(cut_begin(&cut, parts, 1 + count) && cut_length(&cut) == length);
        unsigned char *frame = malloc(length);
        cut_next(&cut, frame, 0);
        CHECK(cut_length(&cut) == 0);
        CHECK(transport_is_right(frame + CARD_ETHERNET, v4, frame + meta.csum_start, length - meta.csum_start));
        write16(frame + meta.csum_start + TCP_CHECKSUM, (uint16_t)sum);
        CHECK(memcmp(frame, whole, length) == 0);
        /* It is what a card that receives it calls valid, unless a bit of what the checksum covers is wrong. */
        memcpy(whole + CARD_ETHERNET, frame + CARD_ETHERNET, length - CARD_ETHERNET);
        free(frame);
        release(parts + 1, count);
    }
}

static void a_datagram_is_valid_until_a_bit_changes(void)
{
    static unsigned char whole[CARD_HEADERS + 2000];
    for (int n = 0; n < 4000; n++) {
        bool v4 = n % 2, udp = n % 3 == 0;
        struct virtio_net_hdr meta, told;
        size_t length = build(whole, &meta, v4, draw(1400), 0);
        unsigned char *ip = whole + CARD_ETHERNET, *segment = whole + meta.csum_start;
        size_t own = length - meta.csum_start;
        unsigned char *field = segment + (udp ? UDP_CHECKSUM : TCP_CHECKSUM);
        ip[v4 ? 9 : 6] = udp ? IPPROTO_UDP : IPPROTO_TCP;
        if (udp)
            write16(segment + 4, (uint16_t)own);
        write16(field, 0);
        uint32_t sum = plain(ip + (v4 ? 12 : 8), v4 ? 8 : 32, ip[v4 ? 9 : 6] + (uint32_t)own);
        write16(field, (uint16_t)~plain(segment, own, sum));
        unsigned char *copy = malloc(length - CARD_ETHERNET);
        memcpy(copy, ip, length - CARD_ETHERNET);
        card_judge((unsigned char *)&told, copy, length - CARD_ETHERNET);
        bool none = udp && read16(field) == 0;
        CHECK(told.flags == (none ? 0 : VIRTIO_NET_HDR_F_DATA_VALID) && told.gso_type == 0);
        size_t wrong = (size_t)(segment - ip) + draw(own);
        copy[wrong] ^= (unsigned char)(1u << draw(8));
        card_judge((unsigned char *)&told, copy, length - CARD_ETHERNET);
        CHECK(told.flags == 0);
        /* A fragment holds a part of what the checksum covers. */
        memcpy(copy, ip, length - CARD_ETHERNET);
        if (v4) {
            write16(copy + 6, 0x2000);
            card_judge((unsigned char *)&told, copy, length - CARD_ETHERNET);
            CHECK(told.flags == 0);
        }
        free(copy);
    }
}

/* Whatever the kernel and the network give, no byte outside is touched; the sanitizers see to that. */
static void any_bytes_do_no_harm(void)
{
    static unsigned char whole[CARD_HEADERS + 3000];
    unsigned sent = 0;
    for (int n = 0; n < 20000; n++) {
        struct virtio_net_hdr meta;
        struct iovec parts[1 + PARTS];
        size_t length = n % 2 ? build(whole, &meta, n % 4 == 1, draw(2000), (uint16_t)draw(500)) : draw(300);
        if (n % 2 == 0) {
            fill(whole, length);
            fill((unsigned char *)&meta, sizeof meta);
            meta.gso_type = (uint8_t)(draw(2) ? draw(6) : 0);
            meta.csum_start = (uint16_t)draw(200);
            meta.csum_offset = (uint16_t)draw(40);
        } else {
            for (size_t i = draw(4); i > 0; i--)
                ((unsigned char *)&meta)[draw(CARD_META)] = (unsigned char)draw(64);
            for (size_t i = draw(6); i > 0; i--)
                whole[draw(100)] = (unsigned char)draw(256);
            length = draw(4) ? length : draw(length);
        }
        parts[0] = (struct iovec){&meta, draw(50) ? CARD_META : draw(CARD_META)};
        size_t count = split(parts + 1, whole, length);
        struct cut cut;
        if (cut_begin(&cut, parts, 1 + count)) {
            sent++;
            size_t payload = 0;
            for (size_t next = cut_length(&cut); next > 0; next = cut_length(&cut)) {
                unsigned char *frame = malloc(next + 4);
                cut_next(&cut, frame, 4);
                free(frame);
                payload += next - cut.header;
            }
            CHECK(payload == length - cut.header);
        }
        unsigned char *copy = malloc(length ? length : 1);
        memcpy(copy, whole, length);
        card_judge((unsigned char *)&meta, copy, length);
        free(copy);
        release(parts + 1, count);
    }
    CHECK(sent > 1000 && sent < 19000);
}

#define RUN(test) (test(), printf("ok %s\n", #test))

int main(void)
{
    RUN(sums_do_not_depend_on_the_pieces);
    RUN(segments_are_cut_into_right_frames);
    RUN(a_checksum_is_written_where_the_kernel_says);
    RUN(a_datagram_is_valid_until_a_bit_changes);
    RUN(any_bytes_do_no_harm);
    return 0;
}
