//! Values that change on a link at stated times: its rate, and whether it is up.

use warpline_core::{Rate, TimeDelta, Timestamp};

use crate::parameter::InvalidParameter;

/// A value that changes in steps, optionally in a pattern that repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps<T> {
    /// Offsets in nanoseconds from the start of the pattern, the first 0, increasing; and the value from there on.
    steps: Vec<(u64, T)>,
    /// Nanoseconds after which the pattern repeats; `u64::MAX` if it does not.
    period: u64,
}

impl<T: Copy + PartialEq> Steps<T> {
    /// `initial` until the first of `steps` (time since the run's start, and the value from then on), and so on. With a
    /// `period`, the pattern starts again, with `initial`, each time that period has passed.
    ///
    /// # Errors
    /// If times do not increase, or lie beyond the period, or the period is 0.
    pub fn new(
        initial: T,
        steps: &[(TimeDelta, T)],
        period: Option<TimeDelta>,
    ) -> Result<Self, InvalidParameter> {
        if period.is_some_and(TimeDelta::is_zero) {
            return Err(InvalidParameter::new("period", "0s", "it must be longer than 0"));
        }
        let period = period.map_or(u64::MAX, TimeDelta::as_nanos);
        let mut all = vec![(0, initial)];
        for (index, &(at, value)) in steps.iter().enumerate() {
            let nanos = at.as_nanos();
            if index > 0 && steps[index - 1].0 >= at {
                let allowed =
                    format!("step {} must come after step {index} ({})", index + 1, steps[index - 1].0);
                return Err(InvalidParameter::new("time", at, allowed));
            }
            if nanos >= period {
                let allowed = format!(
                    "step {} must come before the pattern repeats ({})",
                    index + 1,
                    TimeDelta::from_nanos(period)
                );
                return Err(InvalidParameter::new("time", at, allowed));
            }
            match nanos {
                0 => all[0].1 = value,
                // A step to the same value changes nothing.
                _ if all[all.len() - 1].1 == value => {}
                _ => all.push((nanos, value)),
            }
        }
        Ok(Steps { steps: all, period })
    }

    /// The index of the step in force at `at`, and the start of that repetition of the pattern.
    fn locate(&self, at: Timestamp) -> (usize, u64) {
        let offset = at.as_nanos() % self.period;
        let index = self.steps.partition_point(|&(time, _)| time <= offset) - 1;
        (index, at.as_nanos() - offset)
    }
    /// The end of the step `index` of the repetition that began at `base`; `u64::MAX` if it never ends.
    fn end_of(&self, index: usize, base: u64) -> u64 {
        match self.steps.get(index + 1) {
            Some(&(time, _)) => base.saturating_add(time),
            None => base.saturating_add(self.period),
        }
    }
    /// The value in force at `at`.
    pub fn at(&self, at: Timestamp) -> T {
        self.steps[self.locate(at).0].1
    }
    /// The first instant after `at` at which the value changes; [`Timestamp::NEVER`] if it stays.
    pub fn next_change(&self, at: Timestamp) -> Timestamp {
        let (index, base) = self.locate(at);
        let end = self.end_of(index, base);
        let last = index + 1 == self.steps.len();
        if last && end != u64::MAX && self.steps[0].1 == self.steps[index].1 {
            // The pattern begins with the value it ended with: the change is the second step's, if there is one.
            return self
                .steps
                .get(1)
                .map_or(Timestamp::NEVER, |&(time, _)| Timestamp::from_nanos(end.saturating_add(time)));
        }
        Timestamp::from_nanos(end)
    }
}

impl<T: Copy + PartialEq> Steps<T> {
    /// Lets everything happen `span` earlier: the value at an instant is the one that was to be there `span` later.
    pub(crate) fn skip(&mut self, span: TimeDelta) {
        let (first, base) = self.locate(Timestamp::ZERO + span);
        let passed = span.as_nanos() - base;
        let rest = |&(at, value): &(u64, T)| Some((at.checked_sub(passed)?, value));
        let mut steps = vec![(0, self.steps[first].1)];
        steps.extend(self.steps[first + 1..].iter().filter_map(rest));
        if self.period != u64::MAX && passed > 0 {
            // What has passed of this repetition is the end of each from now on.
            let again = self.steps[..=first].iter().map(|&(at, value)| (at + (self.period - passed), value));
            steps.extend(again.filter(|&(at, _)| at < self.period));
        }
        steps.dedup_by(|later, earlier| later.1 == earlier.1);
        self.steps = steps;
    }
}

impl<T: Copy + PartialEq> Steps<T> {
    /// With other values, each from its time until the next step after it. Of several for one time, the last holds. Only where the pattern does not repeat.
    #[must_use]
    pub fn with(mut self, changes: &[(Timestamp, T)]) -> Self {
        debug_assert!(self.period == u64::MAX, "a change is no part of a pattern that repeats");
        self.steps.extend(changes.iter().map(|&(at, value)| (at.as_nanos(), value)));
        // What is of the same time stays in its order.
        self.steps.sort_by_key(|&(time, _)| time);
        self.steps.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                earlier.1 = later.1;
            }
            same
        });
        self.steps.dedup_by(|later, earlier| later.1 == earlier.1);
        self
    }
}

/// Whether a link is up, over time.
pub type UpSchedule = Steps<bool>;

/// A link whose rate follows a schedule. Rate 0 stalls it: the packet in transmission waits and continues later.
#[derive(Clone, Debug)]
pub struct RateSchedule {
    steps: Steps<Rate>,
    /// The work (bits times 10^9) of one repetition of the pattern before each step.
    before: Vec<u128>,
    /// The work of one repetition; 0 if the pattern does not repeat.
    work_per_period: u128,
    /// When the last packet ended, and the work (bits times 10^9) that rounding down left over.
    end: Timestamp,
    remainder: u128,
    /// The step in force at `end` and its repetition, so that the next packet need not search.
    cursor: (usize, u64),
}

impl RateSchedule {
    /// A link that follows `steps`.
    pub fn new(steps: Steps<Rate>) -> Self {
        let mut link = RateSchedule {
            steps,
            before: Vec::new(),
            work_per_period: 0,
            end: Timestamp::ZERO,
            remainder: 0,
            cursor: (0, 0),
        };
        link.sum_up();
        link
    }
    /// Adds up the work of the steps.
    fn sum_up(&mut self) {
        self.before.clear();
        let mut sum = 0;
        for (index, &(start, rate)) in self.steps.steps.iter().enumerate() {
            self.before.push(sum);
            sum += u128::from(self.steps.end_of(index, 0) - start) * u128::from(rate.as_bps());
        }
        self.work_per_period = if self.steps.period == u64::MAX { 0 } else { sum };
    }
    /// A link that follows the same steps, with other rates: each from its time until the next step after it, and of several for one time the last. Only
    /// where the pattern does not repeat.
    #[must_use]
    pub fn with(&self, rates: &[(Timestamp, Rate)]) -> Self {
        RateSchedule::new(self.steps.clone().with(rates))
    }
    /// The rate at `at`.
    pub fn rate_at(&self, at: Timestamp) -> Rate {
        self.steps.at(at)
    }
    /// The first instant after `at` at which the rate changes; [`Timestamp::NEVER`] if it stays.
    pub fn next_change(&self, at: Timestamp) -> Timestamp {
        self.steps.next_change(at)
    }

    /// Lets everything happen `span` earlier, except for the packet that was sent last.
    pub(crate) fn skip(&mut self, span: TimeDelta) {
        self.steps.skip(span);
        self.sum_up();
        if self.end.is_set() {
            self.cursor = self.steps.locate(self.end);
        }
    }

    /// The work until `at`.
    fn work_until(&self, at: Timestamp) -> u128 {
        let (index, base) = self.steps.locate(at);
        let (start, rate) = self.steps.steps[index];
        let turns = u128::from(base / self.steps.period);
        let begun = u128::from(at.as_nanos() - base - start) * u128::from(rate.as_bps());
        turns * self.work_per_period + self.before[index] + begun
    }
    /// The mean rate between two instants, rounded down; the rate at `from` if they are not in order.
    pub fn mean_rate(&self, from: Timestamp, to: Timestamp) -> Rate {
        if to <= from {
            return self.rate_at(from);
        }
        let work = self.work_until(to) - self.work_until(from);
        Rate::from_bps((work / u128::from((to - from).as_nanos())) as u64)
    }

    /// When a packet of `bits` bits, whose transmission starts at `start`, is finished: the exact instant, over all changes
    /// of rate in between, rounded down to a nanosecond; [`Timestamp::NEVER`] if the rate stays 0 before that. Call once for
    /// each packet, in the order of transmission. A start other than the last finish means that the link was idle.
    pub fn finish_of(&mut self, start: Timestamp, bits: u64) -> Timestamp {
        let mut work = u128::from(bits) * 1_000_000_000;
        if start == self.end {
            work += self.remainder;
        } else {
            self.cursor = self.steps.locate(start);
        }
        let (mut index, mut base) = self.cursor;
        let mut now = start.as_nanos();
        loop {
            let rate = u128::from(self.steps.steps[index].1.as_bps());
            let end = self.steps.end_of(index, base);
            let room = u128::from(end.saturating_sub(now)) * rate;
            if work < room || (work == 0 && room == 0) {
                break;
            }
            if end == u64::MAX {
                return self.never();
            }
            work -= room;
            now = end;
            index += 1;
            if index < self.steps.steps.len() {
                continue;
            }
            (index, base) = (0, end);
            if self.work_per_period == 0 {
                if work > 0 {
                    return self.never();
                }
            } else if work > self.work_per_period {
                // Whole repetitions at once; at least a little work is left, so that the end is found step by step.
                let turns = (work - 1) / self.work_per_period;
                let Some(then) = u64::try_from(turns)
                    .ok()
                    .and_then(|turns| turns.checked_mul(self.steps.period))
                    .and_then(|skipped| now.checked_add(skipped))
                else {
                    return self.never();
                };
                work -= turns * self.work_per_period;
                (now, base) = (then, then);
            }
            if now == u64::MAX {
                return self.never();
            }
        }
        // Here the rate is not 0 unless no work is left.
        let rate = u128::from(self.steps.steps[index].1.as_bps()).max(1);
        self.end = Timestamp::from_nanos(now + (work / rate) as u64);
        self.remainder = work % rate;
        self.cursor = (index, base);
        self.end
    }

    fn never(&mut self) -> Timestamp {
        self.end = Timestamp::NEVER;
        self.remainder = 0;
        Timestamp::NEVER
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serialise::ConstantRate;
    use proptest::prelude::*;

    const fn ms(millis: u64) -> TimeDelta {
        TimeDelta::from_millis(millis)
    }
    const fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }
    const fn mbit(rate: u64) -> Rate {
        Rate::from_bps(rate * 1_000_000)
    }

    proptest! {
        /// After a skip, everything happens that much earlier.
        #[test]
        fn a_skip_moves_every_step(
            gaps in prop::collection::vec((1u64..50, 0u8..4), 0..6),
            rest in prop::option::of(1u64..30),
            span in 0u64..400,
            again in 0u64..200,
        ) {
            let mut time = 0;
            let steps: Vec<_> = gaps.iter().map(|&(gap, value)| { time += gap; (ms(time), value) }).collect();
            let plain = Steps::new(9, &steps, rest.map(|rest| ms(time + rest))).unwrap();
            let mut moved = plain.clone();
            for part in [span, again] {
                moved.skip(ms(part));
            }
            for t in 0..400 {
                prop_assert_eq!(moved.at(at(t)), plain.at(at(t + span + again)), "{}", t);
                let (change, expected) = (moved.next_change(at(t)), plain.next_change(at(t + span + again)));
                prop_assert_eq!(change.is_set(), expected.is_set());
                if change.is_set() {
                    prop_assert_eq!(change + ms(span + again), expected, "{}", t);
                }
            }
        }
    }

    proptest! {
        /// The mean of the rates at every instant, also after a skip.
        #[test]
        fn the_mean_rate_is_that_of_all_instants(
            gaps in prop::collection::vec((1u64..20, 0u64..9), 0..6),
            rest in prop::option::of(1u64..20),
            span in prop::option::of(0u64..60),
            from in 0u64..80,
            length in 1u64..80,
        ) {
            let mut time = 0;
            let steps: Vec<_> = gaps.iter().map(|&(gap, rate)| { time += gap; (ms(time), mbit(rate)) }).collect();
            let mut schedule = RateSchedule::new(Steps::new(mbit(5), &steps, rest.map(|rest| ms(time + rest))).unwrap());
            if let Some(span) = span {
                schedule.skip(ms(span));
            }
            let sum: u64 = (from..from + length).map(|t| schedule.rate_at(at(t)).as_bps()).sum();
            prop_assert_eq!(schedule.mean_rate(at(from), at(from + length)).as_bps(), sum / length);
        }
    }

    #[test]
    fn a_skip_leaves_a_rate_and_the_fraction_that_a_packet_left() {
        let steps = |at| Steps::new(mbit(3), &[(ms(at), mbit(6))], None).unwrap();
        let (mut moved, mut plain) = (RateSchedule::new(steps(1_000)), RateSchedule::new(steps(100)));
        let mut ends = [Timestamp::ZERO; 2];
        for turn in 0..1_000 {
            if turn == 20 {
                moved.skip(ms(900));
            }
            ends = [moved.finish_of(ends[0], 1_001), plain.finish_of(ends[1], 1_001)];
            assert_eq!(ends[0], ends[1], "packet {turn}");
        }
    }

    #[test]
    fn values_follow_the_steps_and_repeat() {
        let once = Steps::new(true, &[(ms(10), false), (ms(20), true)], None).unwrap();
        assert_eq!([0, 10, 19, 20, 500].map(|t| once.at(at(t))), [true, false, false, true, true]);
        assert_eq!(once.next_change(at(0)), at(10));
        assert_eq!(once.next_change(at(10)), at(20));
        assert_eq!(once.next_change(at(20)), Timestamp::NEVER);
        let again = Steps::new(true, &[(ms(10), false), (ms(20), true)], Some(ms(50))).unwrap();
        assert_eq!([49, 50, 60, 75, 110].map(|t| again.at(at(t))), [true, true, false, true, false]);
        assert_eq!(again.next_change(at(20)), at(60)); // up at the end and up at the beginning: no change at 50
        let constant = Steps::new(1, &[(ms(5), 1)], Some(ms(10))).unwrap();
        assert_eq!(constant.next_change(at(7)), Timestamp::NEVER);
    }

    #[test]
    fn transmission_spans_changes_and_stalls() {
        let steps = [(ms(1), mbit(0)), (ms(5), mbit(24))];
        let mut link = RateSchedule::new(Steps::new(mbit(8), &steps, None).unwrap());
        // 1500 bytes = 12000 bits: 8000 in the first ms, nothing until 5 ms, 4000 at 24 Mbit/s in 166.666.. us.
        let first = link.finish_of(Timestamp::ZERO, 12_000);
        assert_eq!(first, Timestamp::from_nanos(5_166_666));
        // The remaining two thirds of a nanosecond are carried: 5 ms + 1/6 ms + 1/2 ms.
        assert_eq!(link.finish_of(first, 12_000), Timestamp::from_nanos(5_666_666));
        assert_eq!(link.finish_of(Timestamp::from_nanos(5_666_666), 8_000), at(6));
        // Done exactly when the stall begins; the next one waits it out.
        let mut link = RateSchedule::new(Steps::new(mbit(8), &steps, None).unwrap());
        assert_eq!(link.finish_of(Timestamp::ZERO, 8_000), at(1));
        assert_eq!(link.finish_of(at(1), 24), Timestamp::from_nanos(5_001_000));
    }

    #[test]
    fn a_link_that_stays_stalled_never_finishes() {
        let mut dead = RateSchedule::new(Steps::new(mbit(8), &[(ms(1), mbit(0))], None).unwrap());
        assert_eq!(dead.finish_of(Timestamp::ZERO, 8_001), Timestamp::NEVER);
        let mut never = RateSchedule::new(Steps::new(mbit(0), &[], Some(ms(1))).unwrap());
        assert_eq!(never.finish_of(at(3), 1), Timestamp::NEVER);
    }

    #[test]
    fn whole_turns_are_skipped() {
        let mut link = RateSchedule::new(Steps::new(mbit(0), &[(ms(9), mbit(1))], Some(ms(10))).unwrap());
        // 1000 bits a turn of 10 ms; 1 Gbit takes a million turns, ending with the last one's end.
        assert_eq!(link.finish_of(Timestamp::ZERO, 1_000_000_000), at(10_000_000));
        assert_eq!(link.mean_rate(Timestamp::ZERO, at(1_000)), Rate::from_bps(100_000));
        assert_eq!(link.mean_rate(at(9), at(10)), mbit(1));
        assert_eq!(link.mean_rate(at(8), at(20)), Rate::from_bps(2000 * 1000 / 12));
    }

    #[test]
    fn a_step_can_be_put_between_others() {
        let steps = Steps::new(1, &[(ms(10), 2), (ms(20), 3)], None).unwrap();
        let with = |at_ms, value| steps.clone().with(&[(at(at_ms), value)]);
        assert_eq!(with(15, 9), Steps::new(1, &[(ms(10), 2), (ms(15), 9), (ms(20), 3)], None).unwrap());
        assert_eq!(with(20, 9), Steps::new(1, &[(ms(10), 2), (ms(20), 9)], None).unwrap());
        assert_eq!(with(0, 9), Steps::new(9, &[(ms(10), 2), (ms(20), 3)], None).unwrap());
        assert_eq!(with(10, 1), Steps::new(1, &[(ms(20), 3)], None).unwrap());
    }

    proptest! {
        /// Changes that stand in order of time give the same steps all at once and one by one.
        #[test]
        fn steps_at_once_are_steps_one_by_one(gaps in prop::collection::vec((0u64..3, 0u8..4), 0..20)) {
            let mut time = 0;
            let changes: Vec<_> = gaps.iter().map(|&(gap, value)| { time += gap; (at(time), value) }).collect();
            let constant = Steps::new(1, &[], None).unwrap();
            let one_by_one = changes.iter().fold(constant.clone(), |steps, change| steps.with(&[*change]));
            prop_assert_eq!(constant.with(&changes), one_by_one.clone());
            for t in 0..=time {
                let last = changes.iter().rev().find(|change| change.0 <= at(t));
                prop_assert_eq!(one_by_one.at(at(t)), last.map_or(1, |change| change.1), "{}", t);
            }
        }
    }

    #[test]
    fn bad_schedules_are_refused() {
        let error = Steps::new(1, &[(ms(5), 2), (ms(5), 3)], None).unwrap_err();
        assert_eq!(error.to_string(), "`time` is 5ms: step 2 must come after step 1 (5ms)");
        let error = Steps::new(1, &[(ms(5), 2)], Some(ms(5))).unwrap_err();
        assert_eq!(error.to_string(), "`time` is 5ms: step 1 must come before the pattern repeats (5ms)");
        assert!(Steps::new(1, &[], Some(ms(0))).is_err());
    }

    fn schedule() -> impl Strategy<Value = Steps<Rate>> {
        (
            0u64..50,
            prop::collection::btree_map(1u64..2_000, prop_oneof![Just(0), 1u64..3_000_000_000], 0..6),
            prop::option::of(1u64..3_000),
        )
            .prop_map(|(initial, steps, period)| {
                let steps: Vec<_> = steps
                    .into_iter()
                    .filter(|&(time, _)| period.is_none_or(|period| time < period))
                    .map(|(time, rate)| (TimeDelta::from_nanos(time), Rate::from_bps(rate)))
                    .collect();
                let period = period.map(TimeDelta::from_nanos);
                Steps::new(Rate::from_bps(initial * 100_000_000), &steps, period).unwrap()
            })
    }

    proptest! {
        /// Compared with a reference that advances nanosecond by nanosecond.
        #[test]
        fn finishes_are_exact(steps in schedule(), start in 0u64..4_000, sizes in prop::collection::vec(1u64..3_000, 1..6)) {
            let mut link = RateSchedule::new(steps.clone());
            let horizon = 20_000;
            let (mut begin, mut work_needed, mut done, mut clock) = (Timestamp::from_nanos(start), 0u128, 0u128, start);
            for bits in sizes {
                work_needed += u128::from(bits) * 1_000_000_000;
                // The nanosecond within which the exact finish lies, or at whose start it is.
                while clock < horizon {
                    let rate = u128::from(steps.at(Timestamp::from_nanos(clock)).as_bps());
                    if done + rate > work_needed || done == work_needed {
                        break;
                    }
                    done += rate;
                    clock += 1;
                }
                let finish = link.finish_of(begin, bits);
                if clock == horizon {
                    prop_assert!(finish.as_nanos() >= horizon);
                    return Ok(());
                }
                prop_assert_eq!(finish.as_nanos(), clock);
                begin = finish;
            }
        }

        #[test]
        fn a_constant_schedule_is_a_constant_rate(rate in 1u64..1_000_000_000_000, gaps in prop::collection::vec((0u64..3, 1u64..20_000), 1..100), period in prop::option::of(1u64..100_000)) {
            let rate = Rate::from_bps(rate);
            let mut scheduled = RateSchedule::new(Steps::new(rate, &[], period.map(TimeDelta::from_nanos)).unwrap());
            let mut constant = ConstantRate::new(rate);
            let mut now = Timestamp::ZERO;
            for (gap, bits) in gaps {
                now += TimeDelta::from_nanos(gap);
                let finish = constant.finish_of(now, bits);
                prop_assert_eq!(scheduled.finish_of(now, bits), finish);
                now = finish;
            }
        }
    }
}
