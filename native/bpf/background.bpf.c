// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
/* Puts the TCP connections of a cgroup's programs into the background. The programs are not changed.
 *
 * Sending: every socket is given a congestion control (TCP Nice, nice.bpf.c) when it connects or listens, or is accepted; a program
 * that asks for another one gets the answer that it has it, and nothing changes.
 *
 * Receiving: the paper's rules are for senders. Here the receiver applies the same rules to the window it advertises, so that a sender
 * that knows nothing of Nice yields: as rLEDBAT (RFC 9840) does with LEDBAT++'s rules. Of each segment that arrives, the RTT is the time since
 * the acknowledgement left whose timestamp it echoes (RFC 7323); a round ends when a segment answers what was sent after it began.
 * Segments are seen where the cgroup's packets come in, before the kernel's TCP has them. The window goes to the kernel as
 * TCP_WINDOW_CLAMP, just before an acknowledgement leaves. What was advertised is never taken back: a halving takes effect within one
 * round trip, as the sender sends into what is left. From the first data segment without a timestamp on, a connection
 * has its own window again.
 *
 * Differences from the sender's side: timestamps, and so RTTs, are in milliseconds, and without timestamps nothing is done; the window
 * does not fall below one segment, for which the kernel advertises about 2304 bytes or more (SOCK_MIN_RCVBUF / 2); the window follows
 * the sender's slow start and does not lead it; a gap in the arriving segments counts as a loss; what is in flight is not known, so that own packets
 * always excuse as much as they may, and the window is reduced once per round; connections do not share what they know of a path.
 *
 * Sources for the calls: net/core/filter.c, net/ipv4/tcp_input.c, tcp_output.c and tcp.c (tcp_set_window_clamp) of Linux 6.18.
 */
#include "kernel_types.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "nice_rules.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile struct background_choice choice SEC(".rodata.choice");
struct background_counts counts;

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct nice_receiver);
} nice_receive SEC(".maps");

/* The rules' parameters. The barrier hides their place from the compiler, which would otherwise use the zeros in the object file. */
static __always_inline const struct nice_parameters *parameters(void)
{
	const struct nice_parameters *at = (const struct nice_parameters *)&choice.parameters;

	barrier_var(at);
	return at;
}

static __always_inline void switch_over(struct bpf_sock_ops *ctx)
{
	char name[16];

	/* Byte by byte, because it is volatile: otherwise the compiler would use the zeros in the object file. */
	for (int i = 0; i < 16; i++)
		name[i] = choice.congestion_control[i];
	if (bpf_setsockopt(ctx, IPPROTO_TCP, TCP_CONGESTION, name, sizeof(name)))
		__sync_fetch_and_add(&counts.refused, 1);
	else
		__sync_fetch_and_add(&counts.switched, 1);
}

static __always_inline void limit_receiving(struct bpf_sock_ops *ctx)
{
	struct nice_receiver *receiver;
	struct bpf_sock *sk = ctx->sk;
	struct tcp_sock *tp;

	if (!sk)
		return;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return;
	receiver = bpf_sk_storage_get(&nice_receive, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!receiver)
		return;
	/* A sender's initial window, which it uses in any case. */
	start_rules(&receiver->rules, 10 * NICE_ONE);
	receiver->account.begun = account_clock(bpf_ktime_get_ns() / 1000);
	/* Before anything that will be echoed. Zero would not do: the clock has 32 bits, and seen from days 25 to 50, zero is in the future. */
	receiver->round_began = bpf_ktime_get_ns() / 1000000 - 1;
	receiver->mss = at_least(tp->advmss, 1);
	receiver->out_of_order = tp->rcv_ooopack;
	bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
	__sync_fetch_and_add(&counts.received, 1);
}

/* The payload length of a segment, and the timestamp that it echoes (RFC 7323), if any. */
struct segment {
	u32 payload;
	u32 echo;
	bool stamped;
};

/* Reads a segment's headers, from the IP header on. Returns whether there is one. */
static __always_inline bool read_segment(struct __sk_buff *skb, struct segment *segment)
{
	u32 tcp, header;
	u8 first, next, offset, options[40];

	if (bpf_skb_load_bytes(skb, 0, &first, 1))
		return false;
	if (first >> 4 == 4) {
		tcp = (first & 15) * 4;
		if (bpf_skb_load_bytes(skb, 9, &next, 1))
			return false;
	} else {
		/* Extension headers are not followed: a segment behind them counts as data without a timestamp. */
		tcp = 40;
		if (bpf_skb_load_bytes(skb, 6, &next, 1))
			return false;
		if (next != IPPROTO_TCP) {
			segment->payload = 1;
			segment->stamped = false;
			return true;
		}
	}
	if (next != IPPROTO_TCP || bpf_skb_load_bytes(skb, tcp + 12, &offset, 1))
		return false;
	header = (offset >> 4) * 4;
	if (header < 20 || skb->len < tcp + header)
		return false;
	segment->payload = skb->len - tcp - header;
	segment->stamped = false;
	for (u32 at = 20, turn = 0; turn < 20 && at + 10 <= header; turn++) {
		if (bpf_skb_load_bytes(skb, tcp + at, options, 2))
			return false;
		if (options[0] == 8) {
			__be32 echo;

			if (bpf_skb_load_bytes(skb, tcp + at + 6, &echo, 4))
				return false;
			segment->echo = __builtin_bswap32(echo);
			segment->stamped = true;
			return true;
		}
		if (options[0] == 0)
			break;
		at += options[0] == 1 ? 1 : at_least(options[1], 2);
	}
	return true;
}

static __always_inline void take_segment(struct nice_receiver *receiver, const struct tcp_sock *tp, const struct segment *segment)
{
	const struct nice_parameters *conf = parameters();
	u64 clock = bpf_ktime_get_ns() / 1000;
	u32 now = clock / 1000, echo = segment->echo - tp->tsoffset;
	/* Time since the kernel's clock of milliseconds, which has 32 bits, showed the echoed value. */
	s64 rtt = (s64)(s32)(now - echo) * 1000 + clock % 1000;
	/* What the sender had in flight is not known here. */
	struct nice_sample sample = {
		.rtt = (u32)rtt,
		.segments = (u64)segment->payload * NICE_ONE / receiver->mss,
		.in_flight = NICE_INFINITE,
	};
	bool ends = (s32)(echo - receiver->round_began) > 0;

	if (rtt < 0 || rtt > 60 * 1000 * 1000)
		return;
	if (tp->rcv_ooopack != receiver->out_of_order) {
		/* A gap: something was lost. Counted once per round trip. */
		receiver->out_of_order = tp->rcv_ooopack;
		if (!receiver->lost) {
			receiver->lost = 1;
			receiver->rules.window = shrunk(&receiver->rules, NICE_ONE, NICE_HALF);
			receiver->rules.ssthresh = receiver->rules.window;
		}
	}
	if (ends) {
		if (!receiver->lost) {
			/* Whether the sender used at least half of the window; during slow start it may use less. */
			bool full = receiver->rules.seen >= receiver->rules.window / 2;

			judge(&receiver->rules, &receiver->account, conf, NICE_ONE, clock, &sample, full);
		}
		receiver->rules.before_halving = 0;
		receiver->lost = 0;
		receiver->round_began = now;
		start_round(&receiver->rules);
	}
	detect(&receiver->rules, conf, clock, &sample);
	if (!receiver->lost && judge_early(&receiver->rules, &receiver->account, conf, NICE_ONE, clock, &sample)) {
		receiver->round_began = now;
		start_round(&receiver->rules);
	}
	if (receiver->rules.window < receiver->rules.ssthresh) {
		u64 window = (u64)receiver->rules.window + sample.segments;

		receiver->rules.window = window > receiver->rules.ssthresh ? receiver->rules.ssthresh : (u32)window;
	}
}

/* Sees every packet that arrives for a socket of the cgroup. */
SEC("cgroup_skb/ingress")
int background_packets(struct __sk_buff *skb)
{
	struct nice_receiver *receiver;
	struct bpf_sock *sk = skb->sk;
	struct segment segment = {};
	struct tcp_sock *tp;

	if (!choice.receiving || !sk)
		return 1;
	sk = bpf_sk_fullsock(sk);
	if (!sk || sk->protocol != IPPROTO_TCP)
		return 1;
	receiver = bpf_sk_storage_get(&nice_receive, sk, 0, 0);
	if (!receiver || !read_segment(skb, &segment) || !segment.payload)
		return 1;
	if (!segment.stamped) {
		if (!receiver->unstamped) {
			receiver->unstamped = 1;
			__sync_fetch_and_add(&counts.unstamped, 1);
		}
		return 1;
	}
	tp = bpf_skc_to_tcp_sock(sk);
	if (tp)
		take_segment(receiver, tp, &segment);
	return 1;
}

/* A window that no buffer has. */
#define NO_CLAMP 0x3fffffff

/* Sets the advertised window, just before a segment (mostly an acknowledgement) leaves. */
static __always_inline void advertise(struct bpf_sock_ops *ctx)
{
	struct nice_receiver *receiver;
	struct bpf_sock *sk = ctx->sk;
	struct tcp_sock *tp;
	u64 bytes;
	int clamp;

	if (!sk)
		return;
	tp = bpf_skc_to_tcp_sock(sk);
	receiver = bpf_sk_storage_get(&nice_receive, sk, 0, 0);
	if (!tp || !receiver)
		return;
	bytes = (u64)receiver->rules.window * receiver->mss / NICE_ONE;
	clamp = bytes > NO_CLAMP ? NO_CLAMP : (int)bytes;
	if (receiver->unstamped) {
		/* The window that was set before the first data is lifted, once: the kernel's own limit is that of its buffer. */
		if (receiver->asked == NO_CLAMP)
			return;
		clamp = NO_CLAMP;
	}
	/* The kernel changes the clamp when it resizes the buffer. */
	if (tp->window_clamp != receiver->clamp || clamp != receiver->asked) {
		receiver->asked = clamp;
		bpf_setsockopt(ctx, IPPROTO_TCP, TCP_WINDOW_CLAMP, &clamp, sizeof(clamp));
		receiver->clamp = tp->window_clamp;
	}
}

SEC("sockops")
int background_sockets(struct bpf_sock_ops *ctx)
{
	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		if (choice.sending)
			switch_over(ctx);
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		if (choice.sending)
			switch_over(ctx);
		if (choice.receiving)
			limit_receiving(ctx);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		if (choice.receiving)
			limit_receiving(ctx);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		advertise(ctx);
		break;
	}
	return 1;
}

/* A program's own choice of a congestion control succeeds without effect. */
SEC("cgroup/setsockopt")
int background_options(struct bpf_sockopt *ctx)
{
	if (choice.sending && ctx->level == IPPROTO_TCP && ctx->optname == TCP_CONGESTION)
		ctx->optlen = -1;
	return 1;
}
