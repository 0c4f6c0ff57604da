//! The inverse root of a count as Linux's CoDel and COBALT have it: a fraction that one Newton step brings closer whenever the count changes.
//!
//! Sources: `codel_Newton_step` in Linux's `include/net/codel_impl.h`, and `cobalt_newton_step` in `net/sched/sch_cake.c`. The arithmetic is theirs to
//! the last bit, also where the count jumps so far that the step overflows (FQ-CoDel adds what a full buffer drops).

use warpline_core::TimeDelta;

/// About 1/sqrt(count), in parts of 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InverseRoot(u32);

impl InverseRoot {
    /// That of 1, as close as it gets.
    pub(crate) const ONE: InverseRoot = InverseRoot(u32::MAX);

    /// One Newton step towards the inverse root of `count`: x becomes x (3 - count x^2) / 2.
    pub(crate) const fn step(self, count: u32) -> InverseRoot {
        let root = self.0 as u64;
        let square = (root * root) >> 32;
        let rest = (3u64 << 32).wrapping_sub(count as u64 * square);
        // A quarter of the rest, so that the product fits.
        InverseRoot(((rest >> 2).wrapping_mul(root) >> 31) as u32)
    }

    /// The same in 16 bits.
    pub(crate) const fn in_16_bits(self) -> InverseRoot {
        InverseRoot(self.0 & 0xffff_0000)
    }

    /// This part of a time.
    pub(crate) fn of(self, time: TimeDelta) -> TimeDelta {
        TimeDelta::from_nanos(((u128::from(time.as_nanos()) * u128::from(self.0)) >> 32) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: from 1, the root of 2 becomes (3 - 2) / 2 = 0.5, that of 3 then 0.5 (3 - 3/4) / 2 = 0.5625.
    #[test]
    fn the_first_steps_are_far_off_and_later_ones_are_not() {
        let second = TimeDelta::from_secs(1);
        let mut root = InverseRoot::ONE;
        let mut steps = (2..=100).map(|count| {
            root = root.step(count).in_16_bits();
            (root.of(second).as_nanos() as f64 / 1e9, 1.0 / f64::from(count).sqrt())
        });
        for expected in [0.5, 0.5625, 0.4878] {
            let (found, _) = steps.next().unwrap();
            assert!((found - expected).abs() < 1e-4, "{found} {expected}");
        }
        for (found, exact) in steps {
            assert!((found / exact - 1.0).abs() < 0.02, "{found} {exact}");
        }
    }

    /// After 64 drops by a full buffer. These are the numbers of Linux's arithmetic, in 65536ths.
    #[test]
    fn a_step_that_overflows_does_so_as_in_linux() {
        let mut root = InverseRoot::ONE.in_16_bits();
        let found: Vec<u32> = (66..76)
            .map(|count| {
                root = root.step(count).in_16_bits();
                root.0 >> 16
            })
            .collect();
        assert_eq!(found, [32_865, 34_565, 52_617, 22_898, 2046, 2998, 4271, 5744, 6983, 7501]);
    }
}
