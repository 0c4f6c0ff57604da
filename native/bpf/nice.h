/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
 *
 * What the programs here share with each other and with crates/live/src/bpf: a connection's state, and the report about a socket. A change of a
 * structure needs another layout number (crates/live/build/block.rs).
 */
#pragma once

/* struct nice_parameters, which the build makes. */
#include "nice_parameters.h"

#define NICE_INFINITE 0xffffffffu
/* One half, in the units of a part (1/65536). */
#define NICE_HALF 32768u

/* Segments at the beginning of a connection that the kernel does not pace (net/ipv4/tcp_output.c, tcp_update_skb_after_send). */
#define NICE_UNPACED 10

/* The state of the rules. */
struct nice_rules {
	u32 window;
	u32 ssthresh;
	/* Smallest and largest RTT, and the RTT above which a packet is late unless its own flow delayed it. */
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

/* For reports: rounds that were judged congested, and the time from each until one that was not. Times are in 1024 microseconds: a
 * connection's state has no room for finer ones. */
struct nice_account {
	u32 begun;
	u32 yielded;
	u32 yield_since;
	u32 halvings : 31;
	u32 yielding : 1;
};

/* One connection's state, in icsk_ca_priv (104 bytes). */
struct nice {
	struct nice_rules rules;
	struct nice_account account;
	/* Window and threshold that undo restores; zero if there is nothing to undo. */
	u32 prior_window;
	u32 prior_ssthresh;
	/* Sequence number at which the round ends, and up to which everything was acknowledged before the present acknowledgement. */
	u32 end_seq;
	u32 una;
	/* snd_cwnd as we set it last: if the kernel has lowered it since, the window follows; if it has raised it with nothing in flight, that is taken back. */
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

/* What the sockets of a cgroup do: the congestion control that they get, if they get one, and the parameters that limit what they
 * receive. */
struct background_choice {
	struct nice_parameters parameters;
	char congestion_control[16];
	u8 sending;
	u8 receiving;
	u8 unused[6];
};

/* Sockets that got the congestion control, sockets that could not get it, sockets whose receiving is limited, and those of the latter
 * that have no timestamps. */
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
	/* Payload of a full segment; packets out of order so far; the last value set by TCP_WINDOW_CLAMP, and what the kernel made of it. */
	u32 mss;
	u32 out_of_order;
	s32 asked;
	u32 clamp;
	/* Whether this round had a loss, and whether a segment came without a timestamp. */
	u8 lost;
	u8 unstamped;
	u16 unused;
};

/* One socket, as the iterator reports it. */
struct nice_socket {
	u64 cgroup;
	/* Bytes that the other end has acknowledged, and bytes received from it. */
	u64 bytes_acked;
	u64 bytes_received;
	/* Microseconds: how long Nice has controlled it, and how much of that time it has yielded. */
	u64 age;
	u64 yielded;
	u8 local[16];
	u8 remote[16];
	u16 local_port;
	u16 remote_port;
	u16 family;
	/* 1: it sends as Nice does; 2: what it receives is limited; 3: both. */
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
