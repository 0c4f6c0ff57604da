//! The largest value of the last while, in constant space: Kathleen Nichols' windowed maximum (Linux lib/win_minmax.c).
//!
//! It keeps the largest value of the window, the largest of those after it, and the largest of those after that. When the first grows too old,
//! the second takes its place. A value that is taken as second or third in the first quarter and half of the window keeps the three apart, so
//! that a value that falls steadily is followed with little delay.
//!
//! Times are counts, of round trips or of cycles. Departure: times do not wrap around.

/// A value and when it was seen.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    at: u64,
    value: f64,
}

/// The largest value of the last while.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::cc) struct MaxFilter {
    best: [Seen; 3],
}

impl MaxFilter {
    /// The largest value; zero before the first.
    #[inline]
    pub(in crate::cc) fn get(&self) -> f64 {
        self.best[0].value
    }

    /// Takes a value, seen at `at`, and forgets what is older than `window` before.
    pub(in crate::cc) fn take(&mut self, window: u64, at: u64, value: f64) {
        let seen = Seen { at, value };
        let [first, second, third] = self.best;
        if value >= first.value || at.saturating_sub(third.at) > window {
            self.best = [seen; 3];
            return;
        }
        if value >= second.value {
            self.best = [first, seen, seen];
        } else if value >= third.value {
            self.best[2] = seen;
        }
        self.age(window, seen);
    }

    /// Time has gone on to that of `seen`.
    fn age(&mut self, window: u64, seen: Seen) {
        let [first, second, third] = self.best;
        let age = seen.at.saturating_sub(first.at);
        if age > window {
            self.best = [second, third, seen];
            // The second may be too old, too. The third is not: that was looked at before.
            if seen.at.saturating_sub(second.at) > window {
                self.best = [third, seen, seen];
            }
        } else if second.at == first.at && age > window / 4 {
            self.best = [first, seen, seen];
        } else if third.at == second.at && age > window / 2 {
            self.best[2] = seen;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The maxima after each of the values, which come one at a time.
    fn maxima(window: u64, values: impl IntoIterator<Item = u32>) -> Vec<f64> {
        let mut filter = MaxFilter::default();
        (0..)
            .zip(values)
            .map(|(at, value)| {
                filter.take(window, at, f64::from(value));
                filter.get()
            })
            .collect()
    }

    #[test]
    fn a_maximum_lasts_for_the_window_and_no_longer() {
        let mut values = vec![7, 9];
        values.extend([5; 14]);
        let found = maxima(10, values);
        assert_eq!(found[0], 7.0);
        assert_eq!(found[1..=11], [9.0; 11], "ten rounds after it was seen it still counts");
        assert_eq!(found[12..], [5.0; 4]);
    }

    #[test]
    fn what_falls_steadily_is_followed_at_most_a_window_late() {
        let found = maxima(10, (0..60).map(|at| 1000 - 10 * at));
        for (at, &found) in found.iter().enumerate().skip(20) {
            let now = 1000.0 - 10.0 * at as f64;
            assert!((now..=now + 100.0).contains(&found), "{found} at {at}, when it is {now}");
        }
    }

    #[test]
    fn after_a_long_silence_only_what_is_new_counts() {
        let mut filter = MaxFilter::default();
        filter.take(10, 0, 9.0);
        filter.take(10, 50, 1.0);
        assert_eq!(filter.get(), 1.0);
    }
}
