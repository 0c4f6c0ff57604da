/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
 *
 * TCP Nice's rules, for whichever end applies them: the interference detector, halving, and Vegas's rule. The paper, and the same in
 * Rust: see nice.bpf.c.
 *
 * Windows and packets are in 1/4096 of a segment, times in microseconds, parts in 1/65536.
 */
#pragma once

#include "nice.h"

static __always_inline u32 at_least(u32 value, u32 low)
{
	return value < low ? low : value;
}

static __always_inline u32 at_most(u32 value, u32 high)
{
	return value > high ? high : value;
}

static __always_inline void start_round(struct nice_rules *rules)
{
	rules->round_rtt = NICE_INFINITE;
	rules->seen = 0;
	rules->late = 0;
}

static __always_inline void start_rules(struct nice_rules *rules, u32 window)
{
	rules->window = window;
	rules->ssthresh = NICE_INFINITE;
	rules->base_rtt = NICE_INFINITE;
	rules->max_rtt = 0;
	rules->late_above = NICE_INFINITE;
	start_round(rules);
}

/* Takes an RTT sample, which so many segments share, into the detector. */
static __always_inline void detect(struct nice_rules *rules, const struct nice_parameters *conf, u32 rtt, u32 segments)
{
	rtt = at_least(rtt, 1);
	if (rtt < rules->base_rtt || rtt > rules->max_rtt) {
		rules->base_rtt = at_most(rules->base_rtt, rtt);
		if (!rules->max_rtt)
			rules->max_rtt = 2 * rules->base_rtt;
		rules->max_rtt = at_least(rules->max_rtt, rtt);
		rules->late_above =
			rules->base_rtt + (((u64)(rules->max_rtt - rules->base_rtt) * conf->threshold) >> 16);
	}
	rules->round_rtt = at_most(rules->round_rtt, rtt);
	rules->seen += segments;
	if (rtt > rules->late_above)
		rules->late += segments;
}

/* Whether the round that ends was delayed by others' packets, or our own. */
static __always_inline bool congested(const struct nice_rules *rules, const struct nice_parameters *conf)
{
	return (u64)rules->late << 16 > (u64)at_most(rules->seen, rules->window) * conf->fraction;
}

/* The window less a factor, not below the floor, never above itself. */
static __always_inline u32 shrunk(const struct nice_rules *rules, u32 floor, u32 factor)
{
	u32 lower = ((u64)rules->window * factor) >> 16;

	return at_most(at_least(lower, floor), rules->window);
}

/* Vegas's rule at the end of a round that was not congested. Linear decrease stops at one segment: only the detector leads below. */
static __always_inline void vegas(struct nice_rules *rules, const struct nice_parameters *conf, bool may_grow)
{
	u32 floor = at_least(conf->floor, NICE_ONE);
	u64 base = rules->base_rtt, rtt = rules->round_rtt, window = rules->window, diff;

	if (rules->round_rtt == NICE_INFINITE || !base)
		return;
	/* What the connection itself holds in the queue. */
	diff = window * (rtt - base) / base;
	if (rules->window < rules->ssthresh) {
		if (diff > conf->gamma) {
			/* To the rate that really got through, plus a segment against rounding. */
			u32 actual = (u32)(window * base / rtt) + NICE_ONE;

			rules->window = at_least(at_most(rules->window, actual), at_most(floor, rules->window));
			rules->ssthresh = at_most(rules->ssthresh, at_least(rules->window, floor));
		}
	} else if (diff > conf->beta) {
		u32 lower = rules->window > NICE_ONE ? rules->window - NICE_ONE : 0;

		rules->window = at_least(lower, at_most(floor, rules->window));
		rules->ssthresh = at_most(rules->ssthresh, at_least(rules->window, floor));
	} else if (diff < conf->alpha && may_grow && rules->window < NICE_INFINITE - NICE_ONE) {
		rules->window += NICE_ONE;
	}
}

/* The end of a round: halves, or follows Vegas. Tells whether it yielded. */
static __always_inline bool judge(struct nice_rules *rules, const struct nice_parameters *conf, u32 floor, bool may_grow)
{
	bool yields = congested(rules, conf);

	if (yields) {
		rules->window = shrunk(rules, floor, conf->decrease);
		rules->ssthresh = at_most(rules->ssthresh, rules->window);
	} else {
		vegas(rules, conf, may_grow);
	}
	return yields;
}

static __always_inline void note_yielding(struct nice_account *account, u64 now, bool yields)
{
	if (account->yielding)
		account->yielded += now - account->yield_since;
	account->yielding = yields;
	account->yield_since = now;
	if (yields)
		account->halvings++;
}
