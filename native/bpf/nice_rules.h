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

/* What an acknowledgement says: its RTT, the shortest RTT of a packet of any size (the handshake's), and what it covers; `flight` is what the flow had
 * in flight when the newest of it left, itself included. */
struct nice_sample {
	u32 rtt;
	u32 shortest;
	u32 segments;
	u32 flight;
};

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
	rules->delay = NICE_INFINITE;
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

/* Computes the delay that is late, after the range of RTTs has changed. */
static __always_inline void set_threshold(struct nice_rules *rules, const struct nice_parameters *conf)
{
	rules->delay = at_most(((u64)(max_rtt(rules, conf) - rules->base_rtt) * conf->threshold) >> 16, conf->most_delay);
}

/* Time that so much of the flow takes at the narrowest link. */
static __always_inline u32 own_time(const struct nice_rules *rules, u32 flight)
{
	u64 own = ((u64)rules->segment_time * flight) / NICE_ONE;

	return own < NICE_INFINITE / 2 ? (u32)own : NICE_INFINITE / 2;
}

/* Delay above the smallest RTT up to which a packet is not late, if so many of the flow's packets, itself included, were in flight when it left. */
static __always_inline u32 excused(const struct nice_rules *rules, const struct nice_parameters *conf, u32 shortest, u32 flight)
{
	u32 alone = rules->base_rtt - at_most(shortest, rules->base_rtt), own;

	if (!conf->own_packets || rules->segment_time == NICE_INFINITE)
		return rules->delay;
	own = own_time(rules, at_most(flight, conf->own_packets));
	return at_least(rules->delay, own - at_most(alone, own));
}

/* How many times a segment at the narrowest link takes the delay that is late, if that is more than once; in 1/16. */
static __always_inline u32 times_late(const struct nice_rules *rules, const struct nice_parameters *conf)
{
	if (!conf->own_packets || rules->segment_time == NICE_INFINITE)
		return 16;
	return at_least(at_most(((u64)rules->segment_time << 4) / at_least(rules->delay, 1), 1 << 20), 16);
}

/* How many reductions a delay is worth: one, and where a packet of others is late several times over, one for each time that others delayed this packet by
 * what is late. */
static __always_inline u32 reductions(const struct nice_rules *rules, const struct nice_parameters *conf, const struct nice_sample *sample)
{
	u32 times = times_late(rules, conf) >> 4, own;

	if (times < 2 || !sample->rtt)
		return 1;
	own = at_most(sample->shortest, rules->base_rtt) + own_time(rules, sample->flight);
	return at_most(at_least((sample->rtt - at_most(own, sample->rtt)) / at_least(rules->delay, 1), 1), at_most(times, NICE_MOST_TIMES));
}

/* So many packets of the flow were in flight when one left that took this RTT: those after the first passed the narrowest link in that time. */
static __always_inline void take_flight(struct nice_rules *rules, u32 rtt, u32 flight)
{
	u64 each = (u64)rtt * NICE_ONE / at_least(flight - at_most(flight, NICE_ONE), NICE_ONE);

	if (each < rules->segment_time)
		rules->segment_time = (u32)each;
}

/* Ends a round's train, which tells, too, how long a segment takes. */
static __always_inline void end_train(struct nice_rules *rules)
{
	u32 rest = rules->seen - at_most(rules->seen, rules->train_first * NICE_ONE);
	u64 each;

	if (rest < 2 * NICE_ONE)
		return;
	each = (u64)(rules->train_last - rules->train_began) * NICE_ONE / rest;
	if (each < rules->segment_time)
		rules->segment_time = (u32)each;
}

static __always_inline bool raise_max(struct nice_rules *rules, u32 rtt)
{
	rules->new_max_rtt = at_least(rules->new_max_rtt, rtt);
	if (rtt <= rules->max_rtt)
		return false;
	rules->max_rtt = rtt;
	return true;
}

/* Gives the detector a sample. The clock is in microseconds. */
static __always_inline void detect(struct nice_rules *rules, const struct nice_parameters *conf, u64 clock, const struct nice_sample *sample)
{
	/* Keeps the sum of two from overflowing. */
	u32 now = account_clock(clock), rtt = at_most(at_least(sample->rtt, 1), NICE_INFINITE / 4), segments = sample->segments;
	bool moved = false;

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
	/* The acknowledgement of a single segment may have been delayed, if later ones cover two: then the train would seem too short. */
	if (!rules->seen || (rules->train_first < 2 && segments >= 2 * NICE_ONE)) {
		rules->train_began = (u32)clock;
		rules->train_first = (u16)at_most((rules->seen + segments + NICE_ONE - 1) / NICE_ONE, 0xffff);
	}
	rules->train_last = (u32)clock;
	rules->seen += segments;
	if (rtt - rules->base_rtt > excused(rules, conf, sample->shortest, sample->flight))
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
static __always_inline s32 growth_of_round(const struct nice_rules *rules, const struct nice_parameters *conf, u32 shortest)
{
	u64 queue = at_least(rules->round_rtt, rules->base_rtt) - rules->base_rtt, late = excused(rules, conf, shortest, rules->window), step, stays;
	u32 times = times_late(rules, conf);
	s32 growth;

	if (!conf->target)
		return conf->growth;
	/* Below one segment, little of the queue is the flow's own. */
	if (rules->window < NICE_ONE)
		return 16 * NICE_ONE / times;
	stays = late * conf->target >> 16;
	/* At most twice the growth, so that it fits into 32 bits. */
	step = queue >= 2 * stays ? 2 * (u64)conf->growth : conf->growth * queue / at_least(stays, 1);
	growth = (s32)(conf->growth - step);
	return growth < 0 ? -(s32)(16 * (u64)-growth / times) : (s32)(16 * (u64)growth / times);
}

/* Vegas's rule at the end of a round that was not congested. Linear decrease stops at one segment: only the detector makes the window smaller. */
static __always_inline void vegas(struct nice_rules *rules, const struct nice_parameters *conf, u32 shortest, bool may_grow)
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
		s32 growth = growth_of_round(rules, conf, shortest);
		u32 least = at_most(floor, rules->window);

		if (growth >= 0) {
			rules->window += growth;
		} else {
			rules->window = at_least(rules->window - at_most(-growth, rules->window), least);
			rules->ssthresh = at_most(rules->ssthresh, at_least(rules->window, floor));
		}
	}
}

static __always_inline void halve(struct nice_rules *rules, const struct nice_parameters *conf, u32 floor, const struct nice_sample *sample)
{
	u32 times = reductions(rules, conf, sample);

	for (u32 turn = 0; turn < NICE_MOST_TIMES && turn < times; turn++)
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

/* At the end of a round, with which `sample` came: reduces the window, or follows Vegas. The caller begins the next round. */
static __always_inline void judge(struct nice_rules *rules, struct nice_account *account, const struct nice_parameters *conf, u32 floor,
				  u64 clock, const struct nice_sample *sample, bool may_grow)
{
	bool skipped = rules->before_halving, yields;

	rules->before_halving = 0;
	if (!rules->seen)
		return;
	end_train(rules);
	if (conf->max_of_rounds && raise_max(rules, rules->round_rtt))
		set_threshold(rules, conf);
	if (skipped)
		return;
	yields = congested(rules, conf);
	if (yields)
		halve(rules, conf, floor, sample);
	else
		vegas(rules, conf, sample->shortest, may_grow);
	note_yielding(account, clock, yields);
}

/* Reduces the window as soon as enough packets of the present round were late. Returns whether it did: the caller then begins a round with
 * what is under way. */
static __always_inline bool judge_early(struct nice_rules *rules, struct nice_account *account, const struct nice_parameters *conf, u32 floor,
					u64 clock, const struct nice_sample *sample)
{
	if (!conf->prompt || rules->before_halving || rules->window < NICE_BURST * NICE_ONE)
		return false;
	if ((u64)rules->late << 16 <= (u64)rules->window * conf->fraction)
		return false;
	halve(rules, conf, floor, sample);
	note_yielding(account, clock, true);
	rules->before_halving = 1;
	return true;
}
