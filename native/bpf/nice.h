/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
 *
 * What the programs here share with each other and with crates/live/src/bpf: parameters, a connection's state, and what is told of
 * a socket.
 */
#pragma once

/* A segment, in the units of a window. */
#define NICE_ONE 4096u
#define NICE_INFINITE 0xffffffffu
/* One half, in the units of a part (1/65536). */
#define NICE_HALF 32768u
/* Segments that a window below so many sends together. */
#define NICE_BURST 2u

/* What `warpline nice load` may set. Parts are in 1/65536, segments in 1/4096. */
struct nice_parameters {
	u32 threshold;
	u32 fraction;
	u32 decrease;
	u32 floor;
	u32 alpha;
	u32 beta;
	u32 gamma;
	/* NICE_LAYOUT: who reads a connection's state checks it. */
	u32 layout;
	/* maxRTT at the start in minRTTs, in 1/65536. */
	u32 start;
	/* Delay above minRTT at which a packet is late in any case, in microseconds. */
	u32 most_delay;
	/* How long minRTT and maxRTT are remembered at least, in 1024 microseconds; zero for ever. */
	u32 span;
	/* NICE_MAX_OF_ROUNDS, NICE_PROMPT. */
	u32 flags;
	/* Packets that may wait at the narrowest link, by what they take there, before any is late; segments in 1/4096. */
	u32 own_packets;
	/* How much the window grows in a round trip where the queue is empty, in 1/4096 of a segment. */
	u32 growth;
	/* Delay at which it stays as it is, as a part of that at which a packet is late, in 1/65536; zero for growth at any delay. */
	u32 target;
};

/* maxRTT is the largest of the rounds' smallest RTTs, not of all. */
#define NICE_MAX_OF_ROUNDS 1u
/* The window halves as soon as enough packets were late, not at the round's end. */
#define NICE_PROMPT 2u

/* Changes whenever a structure in this file does. */
#define NICE_LAYOUT 4u

/* What the rules go by. */
struct nice_rules {
	u32 window;
	u32 ssthresh;
	/* Smallest and largest RTT, and the RTT above which a packet is late. */
	u32 base_rtt;
	u32 max_rtt;
	u32 late_above;
	/* Smallest and largest RTT of the present span, and the span's start in 1024 microseconds. */
	u32 new_base_rtt;
	u32 new_max_rtt;
	u32 span_began;
	/* This round: its smallest RTT, its packets, and its late packets. */
	u32 round_rtt;
	u32 seen;
	u32 late;
	/* Time that a segment takes at the narrowest link: an upper limit, from the packet trains of the rounds so far
	 * (crates/transport/src/cc/train.rs). */
	u32 segment_time;
	/* This round's train: the clock at its first and last acknowledgement, and the segments that the first covered. */
	u32 train_began;
	u32 train_last;
	u16 train_first;
	/* Whether the packets of this round left before the window was reduced; then the round is not judged. */
	u16 before_halving;
};

/* For people: rounds that were judged congested, and the time from each until one that was not. Times are in 1024 microseconds: a
 * connection's state has no room for finer ones. */
struct nice_account {
	u32 begun;
	u32 yielded;
	u32 yield_since;
	u32 halvings;
	u32 yielding;
};

/* One connection's state, in icsk_ca_priv (104 bytes). */
struct nice {
	struct nice_rules rules;
	struct nice_account account;
	/* Window and threshold that undo restores; zero if there is nothing to undo. */
	u32 prior_window;
	u32 prior_ssthresh;
	/* Sequence number at which the round ends. */
	u32 end_seq;
	/* snd_cwnd as we left it: who lowers it is heeded. */
	u32 set_cwnd;
	/* Reno's growth: segments acknowledged since the window last grew by one. */
	u32 credit;
	/* 0 in recovery and after a time-out: Reno's rules apply then. */
	u8 enabled;
	/* Whether the window is paced now, and sk_pacing_status before that. */
	u8 paced;
	u8 old_pacing;
	/* Whether the connection has its sequence numbers. */
	u8 started;
};

_Static_assert(sizeof(struct nice) <= 104, "icsk_ca_priv holds 104 bytes");

/* What a cgroup's sockets are to do: the name of a congestion control, if sending is governed, and the parameters by which
 * receiving is held back. */
struct background_choice {
	struct nice_parameters parameters;
	char congestion_control[16];
	u8 sending;
	u8 receiving;
	u8 unused[6];
};

/* Sockets that were given the congestion control, those that could not be, those whose receiving is governed, and those of them
 * that have no timestamps to go by. */
struct background_counts {
	u64 switched;
	u64 refused;
	u64 received;
	u64 unstamped;
};

/* The state of a connection at the receiver. */
struct nice_receiver {
	struct nice_rules rules;
	struct nice_account account;
	/* When the round began, in milliseconds of the clock. */
	u32 round_began;
	/* Payload of a full segment; packets out of order so far; what was asked of TCP_WINDOW_CLAMP, and what came of it. */
	u32 mss;
	u32 out_of_order;
	s32 asked;
	u32 clamp;
	/* Whether this round had a loss, and whether a segment came without a timestamp. */
	u8 lost;
	u8 unstamped;
	u16 unused;
};

/* One socket, as the iterator tells it. */
struct nice_socket {
	u64 cgroup;
	/* Bytes that the other end has acknowledged, and bytes received from it. */
	u64 bytes_acked;
	u64 bytes_received;
	/* Microseconds: how long Nice has governed it, and how much of that after a congested round. */
	u64 age;
	u64 yielded;
	u8 local[16];
	u8 remote[16];
	u16 local_port;
	u16 remote_port;
	u16 family;
	/* 1: it sends as Nice does; 2: what it receives is held back; 3: both. */
	u16 direction;
	/* Windows in 1/4096 of a segment, times in microseconds. */
	u32 window;
	u32 receive_window;
	u32 srtt;
	u32 base_rtt;
	u32 max_rtt;
	u32 halvings;
	u32 mss;
	u32 state;
};
