/* How lwIP is built: one thread, no operating system, memory from malloc. */

#ifndef WARPLINE_LWIPOPTS_H
#define WARPLINE_LWIPOPTS_H

#include <stddef.h>
#include <stdint.h>

#define NO_SYS 1
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_NETCONN 0
#define LWIP_SOCKET 0
#define LWIP_TIMERS 1

/* Memory: from the functions in glue.c, which can free all that a host has. */
#define MEM_LIBC_MALLOC 1
#define MEMP_MEM_MALLOC 1
#define MEM_ALIGNMENT 8
void *warpline_malloc(size_t size);
void *warpline_calloc(size_t count, size_t size);
void warpline_free(void *memory);
#define mem_clib_malloc warpline_malloc
#define mem_clib_calloc warpline_calloc
#define mem_clib_free warpline_free

/* IPv4 and TCP only. No link layer. */
#define LWIP_IPV4 1
#define LWIP_IPV6 0
#define LWIP_ARP 0
#define LWIP_ETHERNET 0
#define LWIP_ICMP 1
#define LWIP_RAW 0
#define LWIP_UDP 0
#define LWIP_DNS 0
#define IP_REASSEMBLY 0
#define IP_FRAG 0
#define LWIP_STATS 0
#define LWIP_NETIF_TX_SINGLE_PBUF 1

/* TCP with what the stack can do. */
#define LWIP_TCP 1
#define TCP_MSS 1460
#define LWIP_WND_SCALE 1
#define TCP_RCV_SCALE 3
#define TCP_WND (256 * 1024)
#define TCP_SND_BUF (256 * 1024)
#define TCP_SND_QUEUELEN (4 * TCP_SND_BUF / TCP_MSS)
#define TCP_SNDLOWAT (16 * 1024)
#define LWIP_TCP_SACK_OUT 1
#define LWIP_TCP_MAX_SACK_NUM 4
#define LWIP_TCP_TIMESTAMPS 1
#define TCP_QUEUE_OOSEQ 1
/* A port can be listened on again while earlier connections go on (glue.c). */
#define SO_REUSE 1

/* Randomness, from the host's stream. */
uint32_t warpline_random(void);
#define LWIP_RAND() warpline_random()
#define LWIP_HOOK_TCP_ISN(local, local_port, remote, remote_port) warpline_random()

/* lwIP's own checksum adds 16 bits at a time, for machines that have no more. */
uint16_t warpline_checksum(const void *bytes, int len);
#define LWIP_CHKSUM warpline_checksum

/* A failed assertion ends the host, and only that. */
void warpline_fail(const char *message, int line, const char *file) __attribute__((noreturn));
#define LWIP_PLATFORM_ASSERT(message) warpline_fail(message, __LINE__, __FILE__)
#define LWIP_PLATFORM_DIAG(message)

#endif
