// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
/* TCP Nice as a congestion control of the running kernel (struct_ops): Vegas that yields to all other traffic.
 *
 * Source: A. Venkataramani, R. Kokku, M. Dahlin, "TCP Nice: A Mechanism for Background Transfers" (OSDI 2002), sections 2.2 and
 * 2.3. The arithmetic is that of crates/transport/src/cc/{nice,vegas}.rs. What the kernel calls and when, and what a program may write,
 * is in net/ipv4/{bpf_tcp_ca,tcp_input,tcp_output,tcp_cong}.c of Linux 6.18.
 *
 * A packet is late if its RTT exceeds base + threshold * (max - base), or base + 10 ms, unless its own flow delayed it. If more than `fraction` of a round trip's packets
 * were late, the window shrinks (to half in the paper), down to 1/48 of a segment; otherwise it follows Vegas(1, 3), and Reno after a loss.
 * A connection begins with two segments, and with one where others have found that a segment takes longer at the narrowest link than the delay that is late. `init`
 * may write snd_cwnd, so that TCP_BPF_IW, which takes a program on a control group, is not needed. After idle time it goes on with two at most.
 *
 * A window W below two segments is sent as in the paper's prototype: two segments, then a wait of 2/W smoothed round trips. The
 * kernel's window is a whole number, so the kernel's pacing does the waiting. min_tso_segs, which the kernel calls before it
 * sends, sets sk_pacing_rate to W * mss / srtt and asks for two segments at once; by the pacing clock, such a burst takes exactly 2/W
 * round trips. Meanwhile snd_cwnd is 4, because the kernel sends at most half of it in one burst.
 *
 * Differences from the simulator: connections between the same two addresses share the smallest RTT and the time of a segment at the narrowest
 * link (not in the paper's form); packets in flight count as full segments; rounds are counted by sequence number (as in tcp_vegas.c), not by
 * delivered bytes; a window of two segments or more is used rounded down to whole segments (the fraction is kept); in recovery, the kernel's
 * proportional rate reduction sets the window, in whole segments, and the RTT of the acknowledgement that ends it counts; the first ten segments of
 * a connection are not paced, because the kernel never paces them (they leave in pairs while the window is small, and one by one on a slow line).
 */
#include "kernel_types.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "nice_rules.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct nice_parameters);
} nice_conf SEC(".maps");

/* The two ends of a path; IPv4 addresses as IPv6 maps them. Addresses of different network namespaces have nothing to do with each other. */
struct nice_ends {
	u64 namespace;
	u32 local[4];
	u32 remote[4];
};

/* What the connections of this machine have learnt of a path: its smallest RTT and the time of a segment at its narrowest link; the same of the present span
 * only, and the span's start. */
struct nice_path {
	u32 base_rtt;
	u32 segment_time;
	u32 new_base_rtt;
	u32 new_segment_time;
	u32 span_began;
};

/* The paths used last. A connection that begins while the queue is full would take the RTT of then for that of an empty queue, and go on sending. So
 * connections share what they know of their path (RFC 9040). */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct nice_ends);
	__type(value, struct nice_path);
} nice_paths SEC(".maps");

static __always_inline struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline struct nice *state_of(const struct sock *sk)
{
	return (struct nice *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __always_inline u8 ca_state(const struct sock *sk)
{
	const struct inet_connection_sock *icsk = (const void *)sk;

	return BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state);
}

static __always_inline const struct nice_parameters *parameters(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&nice_conf, &zero);
}

/* Whether the window, and not the application or the receiver, limits sending; only then may it grow. A paced window is
 * never full; it limits sending if data waits. */
static __always_inline bool limited(const struct tcp_sock *tp, const struct nice *nice)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return true;
	if (nice->rules.window < NICE_BURST * NICE_ONE)
		return tp->write_seq != tp->snd_nxt;
	/* As the kernel's tcp_is_cwnd_limited: slow start may run ahead of what was sent. */
	return nice->rules.window < nice->rules.ssthresh && tp->write_seq != tp->snd_nxt;
}

/* Ends the pacing of a small window, but not in the middle of a wait: the kernel takes the instant at which a segment
 * might leave (tcp_wstamp_ns) for the one at which it left, so that one that leaves earlier would give too short an RTT. */
static __always_inline void stop_pacing(struct sock *sk, struct nice *nice)
{
	if (nice->paced && tcp_sk(sk)->tcp_wstamp_ns <= bpf_ktime_get_ns()) {
		nice->paced = 0;
		sk->sk_pacing_status = nice->old_pacing;
	}
}

/* Sets the kernel's window. */
static __always_inline void use_window(struct sock *sk, struct nice *nice, const struct nice_parameters *conf)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = 2 * NICE_BURST;

	/* Pairs while the kernel does not pace, and single ones on a slow line: otherwise the first ten segments of a window of 1/48 would leave like those of a
	 * window of four. */
	if (tp->data_segs_out < NICE_UNPACED)
		cwnd = is_slow(&nice->rules, conf) ? 1 : NICE_BURST;

	if (nice->rules.window >= NICE_BURST * NICE_ONE) {
		stop_pacing(sk, nice);
		cwnd = nice->rules.window / NICE_ONE;
	}
	cwnd = at_most(cwnd, tp->snd_cwnd_clamp);
	tp->snd_cwnd = cwnd;
	nice->set_cwnd = cwnd;
	tp->snd_ssthresh = nice->rules.ssthresh == NICE_INFINITE ? 0x7fffffff : at_least(nice->rules.ssthresh / NICE_ONE, 2);
}

static __always_inline void begin_round(const struct tcp_sock *tp, struct nice *nice)
{
	start_round(&nice->rules);
	nice->end_seq = tp->snd_nxt;
}

/* The largest window with which a connection begins, and goes on after idle time, in segments. */
static __always_inline u32 initial_window(const struct nice_parameters *conf)
{
	return at_least(conf->initial_window / NICE_ONE, 1);
}

SEC("struct_ops")
void BPF_PROG(nice_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct nice *nice = state_of(sk);
	const struct nice_parameters *conf = parameters();
	u32 ssthresh = tp->snd_ssthresh;

	/* A connection that has sent nothing yet begins with less than the kernel's ten segments. One that becomes nice later keeps its window. */
	if (conf && !tp->data_segs_out)
		tp->snd_cwnd = at_most(tp->snd_cwnd, initial_window(conf));
	start_rules(&nice->rules, at_most(tp->snd_cwnd, NICE_INFINITE / NICE_ONE) * NICE_ONE);
	if (ssthresh < NICE_INFINITE / NICE_ONE)
		nice->rules.ssthresh = ssthresh * NICE_ONE;
	nice->prior_window = 0;
	nice->prior_ssthresh = 0;
	nice->credit = 0;
	nice->una = tp->snd_una;
	nice->set_cwnd = tp->snd_cwnd;
	nice->account.begun = account_clock(bpf_ktime_get_ns() / 1000);
	nice->account.yielded = 0;
	nice->account.yield_since = 0;
	nice->account.halvings = 0;
	nice->account.yielding = 0;
	nice->enabled = 1;
	nice->paced = 0;
	nice->old_pacing = 0;
	nice->started = 0;
	begin_round(tp, nice);
}

SEC("struct_ops")
void BPF_PROG(nice_release, struct sock *sk)
{
	struct nice *nice = state_of(sk);

	if (nice->paced)
		sk->sk_pacing_status = nice->old_pacing;
}

static __always_inline void name_ends(struct nice_ends *ends, const struct sock_common *common)
{
	if (bpf_core_field_exists(common->skc_net)) {
		struct net *net = common->skc_net.net;

		if (net)
			ends->namespace = net->net_cookie;
	}
	if (common->skc_family == AF_INET) {
		ends->local[2] = ends->remote[2] = __builtin_bswap32(0xffff);
		ends->local[3] = common->skc_rcv_saddr;
		ends->remote[3] = common->skc_daddr;
	} else if (bpf_core_field_exists(common->skc_v6_daddr)) {
		__builtin_memcpy(ends->local, &common->skc_v6_rcv_saddr, sizeof(ends->local));
		__builtin_memcpy(ends->remote, &common->skc_v6_daddr, sizeof(ends->remote));
	}
}

/* A span of the path is over, or several: what is older than the last one is forgotten. */
static __always_inline void turn_path(struct nice_path *path, u32 span, u32 now)
{
	u32 base_rtt = path->new_base_rtt, segment_time = path->new_segment_time, age = now - path->span_began;

	/* Another processor may have begun a span a moment after `now`: the age is then just below zero. */
	if (!span || age + span < 2 * span)
		return;
	path->base_rtt = age / 2 < span ? base_rtt : NICE_INFINITE;
	path->segment_time = age / 2 < span ? segment_time : NICE_INFINITE;
	path->new_base_rtt = NICE_INFINITE;
	path->new_segment_time = NICE_INFINITE;
	path->span_began = now;
}

/* Takes over what others have measured of the path. */
static __always_inline void learn(struct nice_rules *rules, const struct nice_parameters *conf, const struct nice_path *path)
{
	if (path->segment_time >= rules->segment_time && path->base_rtt >= rules->base_rtt)
		return;
	rules->segment_time = at_most(rules->segment_time, path->segment_time);
	rules->base_rtt = at_most(rules->base_rtt, path->base_rtt);
	if (rules->base_rtt != NICE_INFINITE)
		set_threshold(rules, conf);
}

/* What others have measured of the path, without what is too old; NULL if nothing. Writes the path's ends. */
static __always_inline struct nice_path *find_path(const struct sock *sk, struct nice_ends *ends, const struct nice_parameters *conf, u32 now)
{
	struct nice_path *path;

	name_ends(ends, &sk->__sk_common);
	path = bpf_map_lookup_elem(&nice_paths, ends);
	if (path)
		turn_path(path, conf->base_window, now);
	return path;
}

/* Before a connection sends its first segment: if its path is known to be slow, it begins with one. */
static __always_inline void begin_path(const struct sock *sk, struct nice *nice)
{
	const struct nice_parameters *conf = parameters();
	u32 now = account_clock(bpf_ktime_get_ns() / 1000);
	struct nice_ends ends = {};
	struct nice_path *path;

	if (!conf || !conf->own_packets)
		return;
	path = find_path(sk, &ends, conf, now);
	if (!path)
		return;
	learn(&nice->rules, conf, path);
	if (!is_slow(&nice->rules, conf))
		return;
	nice->rules.window = at_most(nice->rules.window, NICE_ONE);
	nice->set_cwnd = 1;
}

/* At the end of a round, tells the path what the connection has measured in it, and takes what others have. If two processors do so at once, one of them
 * may not be heard. */
static __always_inline void share_path(const struct sock *sk, struct nice *nice, const struct nice_parameters *conf, u32 now)
{
	struct nice_rules *rules = &nice->rules;
	u32 base_rtt = rules->round_rtt, segment_time = time_in_train(rules);
	struct nice_ends ends = {};
	struct nice_path *path;

	if (!conf->own_packets)
		return;
	path = find_path(sk, &ends, conf, now);
	if (!path) {
		struct nice_path first = {
			.base_rtt = base_rtt,
			.segment_time = segment_time,
			.new_base_rtt = base_rtt,
			.new_segment_time = segment_time,
			.span_began = now,
		};

		if (base_rtt != NICE_INFINITE)
			bpf_map_update_elem(&nice_paths, &ends, &first, BPF_ANY);
		return;
	}
	path->new_base_rtt = at_most(path->new_base_rtt, base_rtt);
	path->base_rtt = at_most(path->base_rtt, base_rtt);
	path->new_segment_time = at_most(path->new_segment_time, segment_time);
	path->segment_time = at_most(path->segment_time, segment_time);
	/* An old connection knows by itself. So what is wrong for it, where two addresses have several paths, ends with its span. */
	if (!conf->base_window || now - nice->account.begun < conf->base_window)
		learn(rules, conf, path);
}

/* Judges the round that ends, and begins the next. */
static __always_inline void end_round(const struct sock *sk, struct nice *nice, const struct nice_parameters *conf, const struct nice_sample *sample)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	judge(&nice->rules, &nice->account, conf, conf->floor, tp->tcp_mstamp, sample, limited(tp, nice));
	share_path(sk, nice, conf, account_clock(tp->tcp_mstamp));
	begin_round(tp, nice);
}

/* What an acknowledgement covers, in segments of full size. Of what was acknowledged selectively only packets are known. */
static __always_inline u32 acked_segments(const struct tcp_sock *tp, struct nice *nice, u32 packets)
{
	u32 bytes = tp->snd_una - nice->una;
	u64 segments = (u64)bytes * NICE_ONE / at_least(tp->mss_cache, 88);

	nice->una = tp->snd_una;
	packets = at_most(packets, NICE_INFINITE / NICE_ONE) * NICE_ONE;
	return bytes && segments < packets ? (u32)segments : packets;
}

SEC("struct_ops")
void BPF_PROG(nice_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	const struct nice_parameters *conf = parameters();
	struct tcp_sock *tp = tcp_sk(sk);
	struct nice *nice = state_of(sk);
	bool normal = ca_state(sk) <= TCP_CA_Disorder;
	/* The acknowledgement that ends a round belongs to the next one: the round is judged before its sample counts. */
	bool ends = (s32)(tp->snd_una - nice->end_seq) > 0;
	s32 rtt = sample->rtt_us;
	struct nice_sample now = {
		.rtt = rtt < 0 ? 0 : rtt,
		.segments = acked_segments(tp, nice, sample->pkts_acked),
		/* The limit keeps it within 32 bits. */
		.in_flight = (u64)at_most(sample->in_flight, 1 << 26) * NICE_ONE / at_least(tp->mss_cache, 88),
	};

	/* Not the handshake's: its packets are small ones. If Nice was chosen before the socket connected, they come before nice_init, too. */
	if (!conf || !tp->data_segs_out || !nice->rules.base_rtt)
		return;
	if (!nice->started) {
		/* If it was chosen before the socket connected, it has not seen the sequence numbers yet. */
		nice->started = 1;
		ends = true;
	}
	if (!normal)
		nice->enabled = 0;
	if (normal && nice->enabled) {
		/* The kernel lowers the window if the application does not fill it. */
		if (tp->snd_cwnd < nice->set_cwnd && nice->rules.window >= 2 * NICE_BURST * NICE_ONE)
			nice->rules.window = at_most(nice->rules.window, at_least(tp->snd_cwnd, 2 * NICE_BURST) * NICE_ONE);
		if (ends)
			end_round(sk, nice, conf, &now);
	} else if (ends) {
		/* The round in which Nice resumes has samples from the recovery, so it is not judged. */
		if (normal) {
			nice->enabled = 1;
			nice->rules.before_halving = 0;
		}
		begin_round(tp, nice);
	}
	/* Not in recovery: RTTs there often come from timestamps, in whole milliseconds, and may be 1 ms too short. */
	if (rtt >= 0 && normal && nice->enabled)
		detect(&nice->rules, conf, tp->tcp_mstamp, &now);
	if (normal && nice->enabled) {
		if (judge_early(&nice->rules, &nice->account, conf, conf->floor, tp->tcp_mstamp, &now))
			begin_round(tp, nice);
		if (nice->rules.window < NICE_BURST * NICE_ONE && tp->snd_una == tp->snd_nxt) {
			/* Each burst is a round. It ends now, and not with the next burst, which may be 96 round trips away. */
			end_round(sk, nice, conf, &now);
		}
		use_window(sk, nice, conf);
	}
}

SEC("struct_ops")
void BPF_PROG(nice_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct nice *nice = state_of(sk);
	const struct nice_parameters *conf = parameters();
	u64 counted = (u64)acked * NICE_ONE;

	if (!conf)
		return;
	if (limited(tp, nice)) {
		if (nice->rules.window < nice->rules.ssthresh) {
			u64 step = nice->rules.ssthresh - nice->rules.window;

			if (step > counted)
				step = counted;
			nice->rules.window += step;
			counted -= step;
		}
		if (!nice->enabled && counted && nice->rules.window >= NICE_BURST * NICE_ONE) {
			/* Reno: one segment per window. A smaller window grows only by rounds without delay. */
			nice->credit += counted / NICE_ONE;
			if ((u64)nice->credit * NICE_ONE >= nice->rules.window && nice->rules.window < NICE_INFINITE - NICE_ONE) {
				nice->credit = 0;
				nice->rules.window += NICE_ONE;
			}
		}
	}
	use_window(sk, nice, conf);
}

SEC("struct_ops")
u32 BPF_PROG(nice_ssthresh, struct sock *sk)
{
	const struct nice_parameters *conf = parameters();
	struct nice *nice = state_of(sk);

	if (!conf)
		return 2;
	nice->prior_window = nice->rules.window;
	nice->prior_ssthresh = nice->rules.ssthresh;
	nice->rules.ssthresh = shrunk(&nice->rules, conf->floor, NICE_HALF);
	nice->rules.window = at_most(nice->rules.window, nice->rules.ssthresh);
	nice->credit = 0;
	nice->enabled = 0;
	return at_least(nice->rules.ssthresh / NICE_ONE, 2);
}

SEC("struct_ops")
void BPF_PROG(nice_set_state, struct sock *sk, u8 new_state)
{
	struct nice *nice = state_of(sk);

	if (new_state == TCP_CA_Loss) {
		nice->rules.window = at_most(nice->rules.window, NICE_ONE);
		nice->enabled = 0;
	}
}

SEC("struct_ops")
u32 BPF_PROG(nice_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct nice *nice = state_of(sk);

	if (nice->prior_window) {
		nice->rules.window = at_least(nice->rules.window, nice->prior_window);
		nice->rules.ssthresh = at_least(nice->rules.ssthresh, nice->prior_ssthresh);
		nice->prior_window = 0;
	}
	/* The kernel makes it its window. */
	nice->set_cwnd = at_least(tp->snd_cwnd, nice->rules.window / NICE_ONE);
	return nice->set_cwnd;
}

SEC("struct_ops")
void BPF_PROG(nice_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	const struct nice_parameters *conf = parameters();
	struct tcp_sock *tp = tcp_sk(sk);
	struct nice *nice = state_of(sk);

	/* The gaps of a paced window are not idle time. */
	if (conf && event == CA_EVENT_CWND_RESTART && nice->rules.window >= NICE_BURST * NICE_ONE) {
		nice->rules.ssthresh = at_least(nice->rules.ssthresh, nice->rules.window / 4 * 3);
		nice->rules.window = at_most(nice->rules.window, initial_window(conf) * NICE_ONE);
		/* After this call the kernel sets a window of its own, which may be ten segments or more (tcp_cwnd_restart): min_tso_segs lowers it. */
		nice->set_cwnd = nice->rules.window / NICE_ONE;
		begin_round(tp, nice);
	}
}

/* Called before each send. Overrides the pacing rate, which the kernel sets with every acknowledgement. */
SEC("struct_ops")
u32 BPF_PROG(nice_min_tso_segs, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct nice *nice = state_of(sk);
	u32 srtt = tp->srtt_us;
	u64 rate;

	if (!tp->data_segs_out)
		begin_path(sk, nice);
	/* The kernel may have set its own initial window: if Nice was chosen before the socket connected (tcp_init_transfer), and after idle time. */
	if (tp->snd_una == tp->snd_nxt)
		tp->snd_cwnd = at_most(tp->snd_cwnd, nice->set_cwnd);

	if (nice->rules.window >= NICE_BURST * NICE_ONE || !srtt) {
		stop_pacing(sk, nice);
		return NICE_BURST;
	}
	/* srtt_us holds eighths of a microsecond. */
	rate = (u64)nice->rules.window * tp->mss_cache * 8000000 / srtt / NICE_ONE;
	if (!nice->paced) {
		nice->paced = 1;
		nice->old_pacing = sk->sk_pacing_status;
	}
	/* The timer of the kernel's TCP, not the fq queue's, which drops packets that are due after its horizon. */
	sk->sk_pacing_status = SK_PACING_NEEDED;
	sk->sk_pacing_rate = rate ? rate : 1;
	return NICE_BURST;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops nice = {
	.init = (void *)nice_init,
	.release = (void *)nice_release,
	.ssthresh = (void *)nice_ssthresh,
	.cong_avoid = (void *)nice_cong_avoid,
	.set_state = (void *)nice_set_state,
	.cwnd_event = (void *)nice_cwnd_event,
	.pkts_acked = (void *)nice_pkts_acked,
	.min_tso_segs = (void *)nice_min_tso_segs,
	.undo_cwnd = (void *)nice_undo_cwnd,
	/* Any user may choose it: it never takes bandwidth from other traffic. */
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "nice",
};
