/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
 *
 * TCP Nice's rules, for the end that applies them: the interference detector, halving, and Vegas's rule. nice.bpf.c names the paper,
 * and where the same rules are in Rust.
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

/* The clock of accounts and spans (1024 microseconds), from a clock of microseconds. */
static __always_inline u32 account_clock(u64 clock)
{
	return clock >> 10;
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
	rules->new_base_rtt = NICE_INFINITE;
	rules->new_max_rtt = 0;
	rules->span_began = 0;
	rules->before_halving = 0;
	rules->segment_time = NICE_INFINITE;
	start_round(rules);
}

/* The largest RTT seen; at the start an assumed one, if that is larger. */
static __always_inline u32 max_rtt(const struct nice_rules *rules, const struct nice_parameters *conf)
{
	u64 start = ((u64)rules->base_rtt * conf->start) >> 16;

	return at_least(rules->max_rtt, start < NICE_INFINITE ? (u32)start : NICE_INFINITE);
}

/* Computes above which RTT a packet is late, after the range of RTTs has changed. */
static __always_inline void set_threshold(struct nice_rules *rules, const struct nice_parameters *conf)
{
	u32 delay = at_most(((u64)(max_rtt(rules, conf) - rules->base_rtt) * conf->threshold) >> 16, conf->most_delay);
	u64 own = ((u64)rules->segment_time * conf->own_packets) / NICE_ONE;

	if (conf->own_packets && rules->segment_time == NICE_INFINITE)
		/* Until that time is known, nothing is late. */
		rules->late_above = NICE_INFINITE;
	else
		rules->late_above = rules->base_rtt + at_least(delay, own < NICE_INFINITE / 2 ? (u32)own : NICE_INFINITE / 2);
}

/* Ends a round's train. Returns whether a segment took less time in it than in any before. */
static __always_inline bool end_train(struct nice_rules *rules)
{
	u32 rest = rules->seen - at_most(rules->seen, rules->train_first * NICE_ONE);
	u64 each;

	if (rest < 2 * NICE_ONE)
		return false;
	each = (u64)(rules->train_last - rules->train_began) * NICE_ONE / rest;
	if (each >= rules->segment_time)
		return false;
	rules->segment_time = (u32)each;
	return true;
}

static __always_inline bool raise_max(struct nice_rules *rules, u32 rtt)
{
	rules->new_max_rtt = at_least(rules->new_max_rtt, rtt);
	if (rtt <= rules->max_rtt)
		return false;
	rules->max_rtt = rtt;
	return true;
}

/* Gives the detector an RTT sample, which holds for `segments`. The clock is in microseconds. */
static __always_inline void detect(struct nice_rules *rules, const struct nice_parameters *conf, u64 clock, u32 rtt, u32 segments)
{
	u32 now = account_clock(clock);
	bool moved = false;

	/* Keeps the sum of two from overflowing. */
	rtt = at_most(at_least(rtt, 1), NICE_INFINITE / 4);
	if (conf->base_window && now - rules->span_began >= conf->base_window) {
		/* Samples older than the span are dropped. A span without samples changes nothing. */
		if (rules->new_base_rtt != NICE_INFINITE) {
			rules->base_rtt = rules->new_base_rtt;
			rules->max_rtt = rules->new_max_rtt;
		}
		rules->new_base_rtt = NICE_INFINITE;
		rules->new_max_rtt = 0;
		rules->span_began = now;
		moved = true;
	}
	rules->new_base_rtt = at_most(rules->new_base_rtt, rtt);
	if (rtt < rules->base_rtt) {
		rules->base_rtt = rtt;
		moved = true;
	}
	if (!conf->max_of_rounds && raise_max(rules, rtt))
		moved = true;
	if (moved)
		set_threshold(rules, conf);
	rules->round_rtt = at_most(rules->round_rtt, rtt);
	if (!rules->seen) {
		rules->train_began = (u32)clock;
		rules->train_first = (u16)at_most((segments + NICE_ONE - 1) / NICE_ONE, 0xffff);
	}
	rules->train_last = (u32)clock;
	rules->seen += segments;
	if (rtt > rules->late_above)
		rules->late += segments;
}

/* Whether packets in the queue, others' or our own, delayed the round that ends. */
static __always_inline bool congested(const struct nice_rules *rules, const struct nice_parameters *conf)
{
	return (u64)rules->late << 16 > (u64)at_most(rules->seen, rules->window) * conf->fraction;
}

/* The window times a factor (in 1/65536): not below the floor, and never above the window. */
static __always_inline u32 shrunk(const struct nice_rules *rules, u32 floor, u32 factor)
{
	u32 lower = ((u64)rules->window * factor) >> 16;

	return at_most(at_least(lower, floor), rules->window);
}

/* Change of the window after an uncongested round in which Vegas would grow it: the longer the queue, the smaller. */
static __always_inline s32 growth_of_round(const struct nice_rules *rules, const struct nice_parameters *conf)
{
	u64 queue = at_least(rules->round_rtt, rules->base_rtt) - rules->base_rtt, late = rules->late_above - rules->base_rtt, step, stays;

	if (!conf->target)
		return conf->growth;
	/* Below one segment, little of the queue is the flow's own. */
	if (rules->window < NICE_ONE)
		return NICE_ONE;
	if (rules->late_above == NICE_INFINITE)
		return conf->growth;
	stays = late * conf->target >> 16;
	/* At most twice the growth, so that it fits into 32 bits. */
	step = queue >= 2 * stays ? 2 * (u64)conf->growth : conf->growth * queue / at_least(stays, 1);
	return (s32)(conf->growth - step);
}

/* Vegas's rule at the end of a round that was not congested. Linear decrease stops at one segment: only the detector makes the window smaller. */
static __always_inline void vegas(struct nice_rules *rules, const struct nice_parameters *conf, bool may_grow)
{
	u32 floor = at_least(conf->floor, NICE_ONE);
	u64 base = rules->base_rtt, rtt = at_least(rules->round_rtt, rules->base_rtt), window = rules->window, diff;

	if (rules->round_rtt == NICE_INFINITE || !base)
		return;
	/* The connection's own part of the queue. */
	diff = window * (rtt - base) / base;
	if (rules->window < rules->ssthresh) {
		if (diff > conf->gamma) {
			/* To the rate that was achieved, plus a segment against rounding. */
			u32 actual = (u32)(window * base / rtt) + NICE_ONE;

			rules->window = at_least(at_most(rules->window, actual), at_most(floor, rules->window));
			rules->ssthresh = at_most(rules->ssthresh, at_least(rules->window, floor));
		}
	} else if (diff > conf->beta) {
		u32 lower = rules->window > NICE_ONE ? rules->window - NICE_ONE : 0;

		rules->window = at_least(lower, at_most(floor, rules->window));
		rules->ssthresh = at_most(rules->ssthresh, at_least(rules->window, floor));
	} else if (diff < conf->alpha && may_grow && rules->window < NICE_INFINITE / 2) {
		s32 growth = growth_of_round(rules, conf);
		u32 least = at_most(floor, rules->window);

		if (growth >= 0) {
			rules->window += growth;
		} else {
			rules->window = at_least(rules->window - at_most(-growth, rules->window), least);
			rules->ssthresh = at_most(rules->ssthresh, at_least(rules->window, floor));
		}
	}
}

static __always_inline void halve(struct nice_rules *rules, const struct nice_parameters *conf, u32 floor)
{
	rules->window = shrunk(rules, floor, conf->decrease);
	rules->ssthresh = at_most(rules->ssthresh, rules->window);
}

static __always_inline void note_yielding(struct nice_account *account, u64 clock, bool yields)
{
	u32 now = account_clock(clock);

	if (account->yielding)
		account->yielded += now - account->yield_since;
	account->yielding = yields;
	account->yield_since = now;
	if (yields)
		account->halvings++;
}

/* At the end of a round: reduces the window, or follows Vegas. The caller begins the next round. */
static __always_inline void judge(struct nice_rules *rules, struct nice_account *account, const struct nice_parameters *conf, u32 floor,
				  u64 clock, bool may_grow)
{
	bool skipped = rules->before_halving, yields, moved;

	rules->before_halving = 0;
	if (!rules->seen)
		return;
	moved = end_train(rules);
	if (conf->max_of_rounds && raise_max(rules, rules->round_rtt))
		moved = true;
	if (moved)
		set_threshold(rules, conf);
	if (skipped)
		return;
	yields = congested(rules, conf);
	if (yields)
		halve(rules, conf, floor);
	else
		vegas(rules, conf, may_grow);
	note_yielding(account, clock, yields);
}

/* Reduces the window as soon as enough packets of the present round were late. Returns whether it did: the caller then begins a round with
 * what is under way. */
static __always_inline bool judge_early(struct nice_rules *rules, struct nice_account *account, const struct nice_parameters *conf, u32 floor,
					u64 clock)
{
	if (!conf->prompt || rules->before_halving || rules->window < NICE_BURST * NICE_ONE)
		return false;
	if ((u64)rules->late << 16 <= (u64)rules->window * conf->fraction)
		return false;
	halve(rules, conf, floor);
	note_yielding(account, clock, true);
	rules->before_halving = 1;
	return true;
}
