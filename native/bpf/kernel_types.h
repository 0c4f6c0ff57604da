/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
 *
 * The kernel types that our BPF programs use, with only the members that they use.
 *
 * With preserve_access_index, the loader finds each member in the running kernel by name, from its BTF (CO-RE). So unused members can be
 * left out, and the order does not matter. Sources: include/net/tcp.h, include/linux/tcp.h, include/net/sock.h,
 * include/net/inet_connection_sock.h, include/linux/cgroup-defs.h of Linux 6.18.
 */
#pragma once

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
enum { false = 0, true = 1 };

enum bpf_map_type {
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_SK_STORAGE = 24,
};
enum { BPF_ANY = 0, BPF_F_NO_PREALLOC = 1 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };

/* include/uapi/linux/bpf.h: the events for which a sock_ops program is called, and the flags that request more of them. */
enum {
	BPF_SOCK_OPS_TCP_CONNECT_CB = 3,
	BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB = 4,
	BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB = 5,
	BPF_SOCK_OPS_TCP_LISTEN_CB = 11,
	BPF_SOCK_OPS_HDR_OPT_LEN_CB = 14,
};
enum {
	BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG = 1 << 6,
};
enum { SOL_SOCKET = 1, IPPROTO_TCP = 6 };
enum { TCP_WINDOW_CLAMP = 10, TCP_CONGESTION = 13 };
enum { AF_INET = 2, AF_INET6 = 10 };
enum { TCP_ESTABLISHED = 1, TCP_SYN_SENT = 2, TCP_LISTEN = 10 };

/* include/net/tcp.h */
enum { TCP_CA_Open = 0, TCP_CA_Disorder = 1, TCP_CA_CWR = 2, TCP_CA_Recovery = 3, TCP_CA_Loss = 4 };
enum { TCP_CONG_NON_RESTRICTED = 1 };
enum tcp_ca_event { CA_EVENT_TX_START = 0, CA_EVENT_CWND_RESTART = 1 };
/* include/net/sock.h */
enum sk_pacing { SK_PACING_NONE = 0, SK_PACING_NEEDED = 1, SK_PACING_FQ = 2 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	u8 in6_u[16];
};

struct net {
	u64 net_cookie;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	u16 skc_num;
	u16 skc_family;
	u8 skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate;
	u32 sk_pacing_status;
	struct sock_cgroup_data sk_cgrp_data;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
	u8 icsk_ca_state : 5;
	u64 icsk_ca_priv[13];
};

struct tcp_options_received {
	u16 saw_tstamp : 1, tstamp_ok : 1;
};

struct tcp_rcv_rtt_est {
	u32 rtt_us;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 snd_cwnd;
	u32 snd_cwnd_clamp;
	u32 snd_ssthresh;
	u32 snd_una;
	u32 snd_nxt;
	u32 write_seq;
	u32 rcv_nxt;
	u32 copied_seq;
	u32 srtt_us;
	u32 mss_cache;
	u32 window_clamp;
	u32 rcv_ssthresh;
	u32 rcv_wnd;
	u32 rcv_ooopack;
	u32 tsoffset;
	u32 data_segs_out;
	u64 tcp_mstamp;
	u64 tcp_wstamp_ns;
	u64 bytes_acked;
	u64 bytes_received;
	u16 advmss;
	u8 is_cwnd_limited : 1;
};

/* The argument of pkts_acked; the last member is not used. */
struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;
	u32 in_flight;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
	u64 session_id;
	u64 seq_num;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
	u32 uid;
};

#pragma clang attribute pop

/* The operations that a program provides. The kernel matches them by name. */
struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event ev);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	u32 (*min_tso_segs)(struct sock *sk);
	u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
	u32 flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
} __attribute__((preserve_access_index));

/* include/uapi/linux/bpf.h: what programs see of a socket and of a packet, and the context of a sock_ops program. Their layout is
 * fixed. */
struct bpf_sock {
	__u32 bound_dev_if;
	__u32 family;
	__u32 type;
	__u32 protocol;
};

struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
	__u32 vlan_present;
	__u32 vlan_tci;
	__u32 vlan_proto;
	__u32 priority;
	__u32 ingress_ifindex;
	__u32 ifindex;
	__u32 tc_index;
	__u32 cb[5];
	__u32 hash;
	__u32 tc_classid;
	__u32 data;
	__u32 data_end;
	__u32 napi_id;
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 data_meta;
	__u64 flow_keys;
	__u64 tstamp;
	__u32 wire_len;
	__u32 gso_segs;
	struct bpf_sock *sk;
};

struct bpf_sock_ops {
	__u32 op;
	union {
		__u32 args[4];
		__u32 reply;
		__u32 replylong[4];
	};
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 is_fullsock;
	__u32 snd_cwnd;
	__u32 srtt_us;
	__u32 bpf_sock_ops_cb_flags;
	__u32 state;
	__u32 rtt_min;
	__u32 snd_ssthresh;
	__u32 rcv_nxt;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 mss_cache;
	__u32 ecn_flags;
	__u32 rate_delivered;
	__u32 rate_interval_us;
	__u32 packets_out;
	__u32 retrans_out;
	__u32 total_retrans;
	__u32 segs_in;
	__u32 data_segs_in;
	__u32 segs_out;
	__u32 data_segs_out;
	__u32 lost_out;
	__u32 sacked_out;
	__u32 sk_txhash;
	__u64 bytes_received;
	__u64 bytes_acked;
	union {
		struct bpf_sock *sk;
		__u64 sk_pad;
	};
	union {
		void *skb_data;
		__u64 skb_data_pad;
	};
	union {
		void *skb_data_end;
		__u64 skb_data_end_pad;
	};
	__u32 skb_len;
	__u32 skb_tcp_flags;
	__u64 skb_hwtstamp;
};

/* include/uapi/linux/bpf.h: the context of a cgroup/setsockopt program. */
struct bpf_sockopt {
	union {
		struct bpf_sock *sk;
		__u64 sk_pad;
	};
	union {
		void *optval;
		__u64 optval_pad;
	};
	union {
		void *optval_end;
		__u64 optval_end_pad;
	};
	__s32 level;
	__s32 optname;
	__s32 optlen;
	__s32 retval;
};
