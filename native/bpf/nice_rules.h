/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
 *
 * TCP Nice's rules, for the end that applies them: the interference detector, halving, and Vegas's rule. nice.bpf.c names the paper,
 * and where the same rules are in Rust.
 *
 * Windows and packets are in 1/4096 of a segment, times in microseconds, parts in 1/65536.
 */
#pragma once

#include "nice.h"

/* What an acknowledgement tells: an RTT, the segments for which it holds, and how many segments were delivered from when the last of them left until it
 * was acknowledged: those in flight, but for lost ones. */
struct nice_sample {
	u32 rtt;
	u32 segments;
	u32 in_flight;
};

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

/* What so many full packets take at the narrowest link. */
static __always_inline u32 time_of(const struct nice_rules *rules, u32 packets)
{
	u64 time = (u64)rules->segment_time * packets / NICE_ONE;

	return time < NICE_INFINITE / 2 ? (u32)time : NICE_INFINITE / 2;
}

/* Whether the line is slow: a segment takes longer at the narrowest link than the delay that is late. */
static __always_inline bool is_slow(const struct nice_rules *rules, const struct nice_parameters *conf)
{
	return conf->own_packets && rules->segment_time != NICE_INFINITE && rules->segment_time > rules->late_above - rules->base_rtt;
}

/* The delay that so many packets of the flow explain. On a slow line, a receiver's timer for a second segment runs out before it comes. */
static __always_inline u32 own_delay(const struct nice_rules *rules, const struct nice_parameters *conf, u32 packets)
{
	return time_of(rules, packets) + (is_slow(rules, conf) ? at_most(rules->segment_time, NICE_ACK_DELAY) : 0);
}

/* Computes above which RTT a packet is late unless its own flow delayed it, after the range of RTTs has changed. */
static __always_inline void set_threshold(struct nice_rules *rules, const struct nice_parameters *conf)
{
	u32 delay = at_most(((u64)(max_rtt(rules, conf) - rules->base_rtt) * conf->threshold) >> 16, conf->most_delay);

	if (conf->own_packets && rules->segment_time == NICE_INFINITE)
		/* Until that time is known, nothing is late. */
		rules->late_above = NICE_INFINITE;
	else
		rules->late_above = rules->base_rtt + delay;
}

/* What a segment took in this round's train; NICE_INFINITE if that was too short to tell. */
static __always_inline u32 time_in_train(const struct nice_rules *rules)
{
	u32 rest = rules->seen - at_most(rules->seen, rules->train_first * NICE_ONE);

	return rest < 2 * NICE_ONE ? NICE_INFINITE : (u32)((u64)(rules->train_last - rules->train_began) * NICE_ONE / rest);
}

/* Ends a round's train: a segment may have taken less time in it than in any before. */
static __always_inline void end_train(struct nice_rules *rules)
{
	rules->segment_time = at_most(rules->segment_time, time_in_train(rules));
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
	if (!rules->seen) {
		rules->train_began = (u32)clock;
		rules->train_first = (u16)at_most((segments + NICE_ONE - 1) / NICE_ONE, 0xffff);
	}
	rules->train_last = (u32)clock;
	rules->seen += segments;
	if (rtt > rules->late_above && rtt - rules->base_rtt > own_delay(rules, conf, at_most(sample->in_flight, conf->own_packets)))
		rules->late += segments;
	/* On a slow line slow start ends with the first packet that is delayed by more than a single packet in flight explains. */
	if (rules->window < rules->ssthresh && is_slow(rules, conf) && rtt - rules->base_rtt > own_delay(rules, conf, NICE_ONE))
		rules->ssthresh = rules->window;
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
	u64 queue = at_least(rules->round_rtt, rules->base_rtt) - rules->base_rtt, late, step, stays;

	if (!conf->target)
		return conf->growth;
	/* Below one segment, little of the queue is the flow's own. */
	if (rules->window < NICE_ONE)
		return NICE_ONE;
	if (rules->late_above == NICE_INFINITE)
		return conf->growth;
	/* Not by what is in flight: a flow alone with one or two packets would never grow. */
	late = at_least(rules->late_above - rules->base_rtt, time_of(rules, conf->own_packets));
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

/* How many times to reduce the window for a round that ended with this sample: as many times as the delay that is late fits into the delay by others, of which one
 * segment's time counts at most; once at least. */
static __always_inline u32 reductions(const struct nice_rules *rules, const struct nice_parameters *conf, const struct nice_sample *sample)
{
	u32 rtt = at_most(sample->rtt, rules->round_rtt), by_others, own;

	if (!conf->own_packets || rules->late_above == NICE_INFINITE)
		return 1;
	own = rules->base_rtt + own_delay(rules, conf, sample->in_flight);
	by_others = at_most(rtt - at_most(own, rtt), rules->segment_time);
	return at_most(at_least(by_others / at_least(rules->late_above - rules->base_rtt, 1), 1), NICE_MOST_REDUCTIONS);
}

static __always_inline void reduce(struct nice_rules *rules, const struct nice_parameters *conf, u32 floor, const struct nice_sample *sample)
{
	u32 times = reductions(rules, conf, sample);

	for (u32 done = 0; done < NICE_MOST_REDUCTIONS && done < times; done++)
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
				  u64 clock, const struct nice_sample *sample, bool may_grow)
{
	bool skipped = rules->before_halving, yields;

	rules->before_halving = 0;
	if (!rules->seen)
		return;
	end_train(rules);
	if (conf->max_of_rounds)
		raise_max(rules, rules->round_rtt);
	/* In any case: the parameters may have changed. */
	set_threshold(rules, conf);
	if (skipped)
		return;
	yields = congested(rules, conf);
	if (yields)
		reduce(rules, conf, floor, sample);
	else
		vegas(rules, conf, may_grow);
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
	reduce(rules, conf, floor, sample);
	note_yielding(account, clock, true);
	rules->before_halving = 1;
	return true;
}
