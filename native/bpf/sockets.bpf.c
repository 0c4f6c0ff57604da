// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
/* Lists the TCP sockets that Nice controls in the reader's network namespace: an iterator (bpf_iter), read as a file of
 * struct nice_socket.
 *
 * Source: net/ipv4/tcp_ipv4.c (bpf_iter_tcp) of Linux 6.18; there since 5.9.
 */
#include "kernel_types.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "nice_rules.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The map of background.bpf.c; the loader replaces this one by it. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct nice_receiver);
} nice_receive SEC(".maps");

static __always_inline bool sends_nicely(const struct inet_connection_sock *icsk)
{
	char name[16] = {};

	bpf_probe_read_kernel(name, sizeof(name), BPF_CORE_READ(icsk, icsk_ca_ops, name));
	return name[0] == 'n' && name[1] == 'i' && name[2] == 'c' && name[3] == 'e' && !name[4];
}

static __always_inline void account(struct nice_socket *entry, const struct nice_account *account)
{
	u32 now = account_clock(bpf_ktime_get_ns() / 1000), yielded = account->yielded;

	if (account->yielding)
		yielded += now - account->yield_since;
	entry->age = (u64)(u32)(now - account->begun) << 10;
	entry->yielded = (u64)yielded << 10;
	entry->halvings = account->halvings;
}

SEC("iter/tcp")
int nice_sockets(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct nice_receiver *receiver;
	struct nice_socket entry = {};
	struct tcp_sock *tp;
	struct sock *sk;

	if (!common)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp)
		return 0;
	sk = (struct sock *)tp;
	entry.state = common->skc_state;
	if (entry.state == TCP_LISTEN)
		return 0;
	if (sends_nicely(&tp->inet_conn)) {
		struct nice nice;

		bpf_probe_read_kernel(&nice, sizeof(nice), tp->inet_conn.icsk_ca_priv);
		entry.direction |= 1;
		entry.window = nice.rules.window;
		entry.base_rtt = nice.rules.base_rtt;
		entry.max_rtt = at_least(nice.rules.max_rtt, nice.rules.base_rtt);
		account(&entry, &nice.account);
	}
	receiver = bpf_sk_storage_get(&nice_receive, tp, 0, 0);
	if (receiver) {
		entry.direction |= 2;
		entry.receive_window = receiver->rules.window;
		if (receiver->rules.seen || !entry.base_rtt || entry.base_rtt == NICE_INFINITE) {
			entry.base_rtt = receiver->rules.base_rtt;
			entry.max_rtt = at_least(receiver->rules.max_rtt, receiver->rules.base_rtt);
		}
		if (!(entry.direction & 1) || receiver->account.halvings > entry.halvings)
			account(&entry, &receiver->account);
	}
	if (!entry.direction)
		return 0;
	entry.cgroup = BPF_CORE_READ(sk, sk_cgrp_data.cgroup, kn, id);
	entry.bytes_acked = tp->bytes_acked;
	entry.bytes_received = tp->bytes_received;
	entry.srtt = tp->srtt_us / 8;
	entry.mss = tp->mss_cache;
	entry.family = common->skc_family;
	entry.local_port = common->skc_num;
	entry.remote_port = __builtin_bswap16(common->skc_dport);
	if (entry.family == AF_INET6) {
		bpf_probe_read_kernel(entry.local, 16, &common->skc_v6_rcv_saddr);
		bpf_probe_read_kernel(entry.remote, 16, &common->skc_v6_daddr);
	} else {
		bpf_probe_read_kernel(entry.local, 4, &common->skc_rcv_saddr);
		bpf_probe_read_kernel(entry.remote, 4, &common->skc_daddr);
	}
	bpf_seq_write(ctx->meta->seq, &entry, sizeof(entry));
	return 0;
}
